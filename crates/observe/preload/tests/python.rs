//! The tests of CPython's own threads, processes and signals, bare and under the library. They
//! take minutes: `cargo test -p keeptime-preload --test python -- --ignored`.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use support::{Ended, Mode, Subject};

const TESTS: [&str; 9] = [
    "test_threading",
    "test_thread",
    "test_threading_local",
    "test_queue",
    "test_fork1",
    "test_subprocess",
    "test_signal",
    "test_wait4",
    "test_threadsignals",
];

/// Each test and how it ended, as in `[3/9] test_queue passed (12.3 sec)`.
fn results(ended: &Ended) -> BTreeMap<String, String> {
    let lines = ended.out.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| TESTS.contains(word))?;
        let outcome = words.get(at + 1)?;
        ["passed", "failed", "skipped", "crashed", "timed"]
            .contains(outcome)
            .then(|| (words[at].to_owned(), (*outcome).to_owned()))
    });
    lines.collect()
}

#[test]
#[ignore = "takes minutes"]
fn tests_of_cpython_end_as_they_do_without() {
    let (python, suite) =
        (Path::new("/usr/bin/python3"), "/usr/lib/python3.11/test/test_threading.py");
    if !python.exists() || !Path::new(suite).exists() {
        eprintln!("SKIP: there is no {suite} (Debian: libpython3.11-testsuite)");
        return;
    }
    // In processes of their own, so that each line tells of one; with time for a slow machine.
    let options = ["-m", "test", "-j1", "--timeout", "900"];
    let subject = Subject::new(python).args(options).args(TESTS).patient();
    let bare = results(&subject.bare());
    assert_eq!(bare.len(), TESTS.len(), "{bare:?}");
    for mode in Mode::guarded() {
        let (ended, _) = subject.recorded(&mode.bytes(256 << 20));
        assert_eq!(results(&ended), bare, "{}\n{}", ended.out, ended.err);
    }
    for mode in [Mode::full().bytes(256 << 20), Mode::contended().bytes(256 << 20)] {
        let (ended, trace) = subject.recorded(&mode);
        assert_eq!(results(&ended), bare, "{}\n{}\n{}", mode.name, ended.out, ended.err);
        assert_eq!(trace.torn, 0, "{}", mode.name);
        assert!(trace.locks() > 10_000, "{}: {} locks", mode.name, trace.locks());
    }
}
