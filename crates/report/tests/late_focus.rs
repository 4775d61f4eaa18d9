//! A report on some calls: its headline, cards, lists and advice are about these.

mod late_findings;
#[path = "../../observe/late/tests/tape/mod.rs"]
mod late_tape;

use ::late::Group;
use late_findings::{about, text};
use late_tape::Tape;
use record::layout::host_copy;
use record::{Action, Class};
use report::late::{self, Findings, Focus};
use trace::metadata::Tier;

/// The locks that launches, a synchronisation and a copy wait for.
const OF_LAUNCH: u64 = 0x1000;
const OF_ANOTHER: u64 = 0x1100;
const OF_SYNC: u64 = 0x2000;
const OF_COPY: u64 = 0x3000;
const LAUNCH: &str = "cuLaunchKernel";
const COPY: &str = "cuMemcpyHtoDAsync_v2";
const SYNC: &str = "cuStreamSynchronize";

/// Late launches of 1 ms and 0.4 ms, one late synchronisation of 3 ms, one late copy of 9 ms: each
/// waits for a mutex of its own, which a thread takes again and again.
fn three_kinds() -> Tape {
    let mut tape = Tape::new(Tier::Preload);
    let [app, hog] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.name(app, 1, "app", 0, 0);
    tape.name(hog, 1, "hog", 0, 0);
    let late = [
        (LAUNCH, 0x77, OF_LAUNCH, 1_000_000),
        (SYNC, 0, OF_SYNC, 3_000_000),
        (COPY, host_copy(64, true), OF_COPY, 9_000_000),
        (LAUNCH, 0x77, OF_ANOTHER, 400_000),
    ];
    let mut begin = 1_000_000;
    for (symbol, detail, mutex, wait) in late {
        tape.usual(app, begin, 5_000, symbol, detail);
        begin += 1_000_000;
        tape.takes(hog, begin, mutex);
        tape.enter(app, begin + 1_000, symbol, 7, detail);
        tape.waits(app, begin + 2_000, Class::Mutex, mutex, 102);
        for turn in 1..4 {
            tape.releases(hog, begin + turn * wait / 4, mutex);
            tape.takes(hog, begin + turn * wait / 4 + 10, mutex);
        }
        tape.releases(hog, begin + wait, mutex);
        tape.takes(app, begin + wait + 10, mutex);
        tape.releases(app, begin + wait + 20, mutex);
        tape.exit(app, begin + wait + 1_000);
        begin += 20_000_000;
    }
    tape
}

/// The text as one line.
fn line(findings: &Findings<'_>) -> String {
    text(findings).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The section of the text with this heading.
fn section(text: &str, heading: &str) -> String {
    let (_, rest) = text.split_once(&format!("\n{heading}\n")).expect(heading);
    rest.split("\n\n").next().unwrap_or(rest).to_owned()
}

#[test]
fn report_on_synchronisations_opens_with_the_worst_one_and_advises_on_these_alone() {
    let trace = three_kinds().trace();
    for focus in [Focus::Group(Group::Sync), Focus::Function("cuStreamSynchronize".to_owned())] {
        let one = match &focus {
            Focus::Function(_) => "call of cuStreamSynchronize",
            _ => "synchronisation",
        };
        let findings = about(&trace, focus);
        let headline = format!("worst {one}: 3 ms (usual 5.12 us): 99.9 % waiting for mutex M");
        assert!(late::headline(&findings).starts_with(&headline), "{}", late::headline(&findings));
        let said = text(&findings);
        assert!(said.contains("\nIt was cuStreamSynchronize in app (101), 23 ms after"), "{said}");
        assert!(said.contains("\nWhy: Unfair hand-over at mutex M"), "{said}");
        let advice = section(&said, "Findings and remedies");
        assert_eq!(advice.matches("Unfair hand-over").count(), 1, "{advice}");
        assert!(advice.contains("Worst: 3 ms inside cuStreamSynchronize by app"), "{advice}");
        for other in ["cuLaunchKernel", "cuMemcpy", "Other calls"] {
            assert!(!advice.contains(other), "{advice}");
        }
        let json = late::json(&findings);
        assert_eq!(json["headline"], late::headline(&findings));
        assert_eq!(json["verdicts"].as_array().unwrap().len(), 1);
        assert_eq!(json["verdicts"][0]["asked"], true);
        let page = late::html(&findings, None).unwrap();
        let tiles: Vec<&str> = page.split("<div class=\"card tile").skip(1).collect();
        assert_eq!(tiles.len(), 1, "{tiles:?}");
        assert!(tiles[0].contains("cuStreamSynchronize"), "{tiles:?}");
        assert!(page.contains(&format!("up to 3 ms of one {one}</small>")), "{page}");
        assert!(page.contains(&format!("<h1>Why was this {one} late?</h1>")), "{page}");
    }
}

#[test]
fn findings_on_launches_come_before_those_on_other_calls_that_lost_more() {
    let trace = three_kinds().trace();
    let findings = about(&trace, Focus::default());
    let said = line(&findings);
    assert!(said.starts_with("worst launch: 1 ms (usual 5.12 us): 99.8 % waiting"), "{said}");
    let places = [
        "Worst: 998 us of the 1 ms of cuLaunchKernel by app (101)",
        "Worst: 398 us of the 400 us of cuLaunchKernel by app (101)",
        "Other calls:",
        "Worst: 9 ms inside cuMemcpyHtoDAsync (pinned, up to 4 KiB) by app (101)",
        "Worst: 3 ms inside cuStreamSynchronize by app (101)",
    ];
    let places = places.map(|words| said.find(words).unwrap_or_else(|| panic!("{words}: {said}")));
    assert!(places.is_sorted(), "{places:?}: {said}");
    let page = late::html(&findings, None).unwrap();
    assert_eq!(page.matches(">Other calls:</p>").count(), 1);
    let asked: Vec<bool> = late::json(&findings)["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| verdict["asked"].as_bool().unwrap())
        .collect();
    assert_eq!(asked, [true, true, false, false]);
}

#[test]
fn report_on_all_calls_opens_with_the_latest_of_all() {
    let trace = three_kinds().trace();
    let said = line(&about(&trace, Focus::All));
    assert!(said.starts_with("worst call: 9 ms (usual 5.12 us): 99.9 % waiting"), "{said}");
    assert!(!said.contains("Other calls:"), "{said}");
}

#[test]
fn calls_that_were_not_made_are_said_to_be_missing() {
    let trace = three_kinds().trace();
    let findings = about(&trace, Focus::Function("cuMemAlloc".to_owned()));
    assert_eq!(late::headline(&findings), "no call of cuMemAlloc was recorded");
    assert!(late::json(&findings)["verdicts"].as_array().unwrap().is_empty());
}

#[test]
fn deadlock_of_other_calls_stands_beside_the_answer() {
    let mut tape = three_kinds();
    let [a, b] = [201, 202].map(|tid| tape.thread(1, tid));
    tape.lock(a, 90_000_000, Class::Mutex, Action::Acquired, 0x9000);
    tape.lock(b, 90_000_000, Class::Mutex, Action::Acquired, 0x9100);
    tape.waits(a, 91_000_000, Class::Mutex, 0x9100, 202);
    tape.waits(b, 92_000_000, Class::Mutex, 0x9000, 201);
    let trace = tape.trace();
    let said = line(&about(&trace, Focus::Group(Group::Copy)));
    assert!(said.starts_with("worst copy: 9 ms"), "{said}");
    assert!(said.contains("Beside these calls: deadlock: thread 201 waits"), "{said}");
    let said = line(&about(&trace, Focus::default()));
    assert!(said.starts_with("deadlock: ") && !said.contains("Beside"), "{said}");
}
