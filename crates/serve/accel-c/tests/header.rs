//! The header stands alone in both languages, and names exactly what the libraries export.

mod support;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use support::Language;

/// Compiles a text without linking.
fn compile(language: Language, text: &str) {
    let kind = if matches!(language, Language::C(_)) { "c" } else { "c++" };
    let mut command = support::compiler(language);
    command.args(["-fsyntax-only", "-x", kind, "-"]).stdin(Stdio::piped());
    let mut child = command.spawn().expect("the compiler starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("the compiler reads");
    assert!(child.wait().expect("the compiler ends").success(), "{language:?}");
}

#[test]
fn header_stands_alone_in_all_standards() {
    let twice = "#include <keeptime.h>\n#include <keeptime.h>\nint keeptime_test;\n";
    for standard in ["c99", "c11", "c17"] {
        compile(Language::C(standard), twice);
    }
    for standard in ["c++17", "c++20"] {
        compile(Language::Cpp(standard), twice);
    }
}

#[test]
fn libraries_export_what_the_header_declares_and_nothing_else() {
    let declared = declared();
    assert!(declared.contains("keeptime_connect"), "{declared:?}");
    let folder = support::libraries();
    let mut nm = Command::new("nm");
    let shared =
        support::succeed(nm.args(["-D", "--defined-only"]).arg(folder.join("libkeeptime.so")));
    assert_eq!(names(&shared), declared);
    let mut nm = Command::new("nm");
    nm.args(["-g", "--defined-only", "--quiet"]).arg(folder.join("libkeeptime.a"));
    let all = names(&support::succeed(&mut nm));
    let own: BTreeSet<String> = all.into_iter().filter(|n| n.starts_with("keeptime_")).collect();
    assert_eq!(own, declared);
}

#[test]
fn shared_library_can_be_found_by_its_name_alone() {
    let mut command = Command::new("readelf");
    let text = support::succeed(command.arg("-d").arg(support::libraries().join("libkeeptime.so")));
    assert!(text.contains("Library soname: [libkeeptime.so]"), "{text}");
}

#[test]
fn shared_library_loads_into_a_program_that_knows_nothing_of_it() {
    let library = support::libraries().join("libkeeptime.so");
    support::succeed(Command::new("/bin/true").env("LD_PRELOAD", library).env("LD_BIND_NOW", "1"));
}

/// The functions that the C part of the header declares.
fn declared() -> BTreeSet<String> {
    let mut command = support::compiler(Language::C("c99"));
    command.args(["-E", "-P", "-x", "c"]).arg(format!("{}/keeptime.h", support::INCLUDE));
    let text = support::succeed(&mut command);
    let before = text.match_indices('(').filter_map(|(at, _)| {
        let head = &text[..at];
        let start = head.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        Some(head[start + 1..].to_owned())
    });
    before.filter(|name| name.starts_with("keeptime_")).collect()
}

/// The last word of each line that `nm` prints for a symbol.
fn names(nm: &str) -> BTreeSet<String> {
    let symbol = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.len() == 3).then(|| words[2].to_owned())
    };
    nm.lines().filter_map(symbol).collect()
}
