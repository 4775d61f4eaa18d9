//! The parser takes any text: random mutations of good files give a system or an error.

use proptest::prelude::*;
use proptest::sample::Index;
use system::System;

const GOOD: [&str; 2] = [
    include_str!("../../../../examples/paam-case-study-1.yaml"),
    include_str!("../../../../examples/autoware-reference-system.yaml"),
];
const PIECES: [&str; 20] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "\n",
    "\t",
    "&a ",
    "*a",
    "!!int ",
    "|",
    "\"",
    "'",
    "---\n",
    "...",
    "<<: ",
    "99999999999999999999",
    "\u{0}",
    "\u{1f697}",
];

fn take(text: &str) {
    if let Err(error) = System::parse(text, "mutated.yaml") {
        let message = error.to_string();
        assert!(message.starts_with("mutated.yaml:"), "{message}");
        assert!(!message.contains('\n'), "{message:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_text_is_taken(text in "\\PC{0,200}") {
        take(&text);
    }

    #[test]
    fn any_soup_of_yaml_is_taken(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60)) {
        take(&pieces.concat());
    }

    #[test]
    fn any_mutation_of_a_good_file_is_taken(
        good in prop::sample::select(&GOOD[..]),
        edits in prop::collection::vec((any::<Index>(), 0_usize..12, prop::sample::select(&PIECES[..])), 1..8),
    ) {
        let mut text: Vec<char> = good.chars().collect();
        for (at, remove, piece) in edits {
            let start = at.index(text.len());
            let end = (start + remove).min(text.len());
            text.splice(start..end, piece.chars());
        }
        take(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_number_is_taken_anywhere(number in any::<u128>(), field in 0_usize..6) {
        let keys = ["kappa", "accelerators: [{id: a, buckets", "executors: [{id: e, priority: 1, core",
            "server: {slice", "server: {limits: {memory", "server: {mode"];
        let close = ["", "}]", "}]", "}", "}}", "}"];
        take(&format!("{}: {number}{}", keys[field], close[field]));
    }
}

#[test]
fn deep_nesting_and_alias_bombs_end_in_an_error() {
    for (text, problem) in [
        ("[".repeat(100_000), "nested deeper"),
        ("{a: ".repeat(100_000), "nested deeper"),
        ("- ".repeat(100_000), "nested deeper"),
        (bomb(), "more than"),
    ] {
        let error = System::parse(&text, "hostile.yaml").unwrap_err().to_string();
        let expected = error.contains(problem) || error.contains("not YAML or JSON");
        assert!(expected, "{error}");
    }
}

/// Ten aliases of ten aliases, nine levels deep: 10^9 values.
fn bomb() -> String {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..10 {
        let alias = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", "));
    }
    text
}
