//! Shares and extremes: each is of one population, which the words name, so that no share exceeds
//! 100 % and no two numbers contradict each other.

mod late_findings;
#[path = "../../observe/late/tests/tape/mod.rs"]
mod late_tape;

use late_findings::{findings, text};
use late_tape::Tape;
use record::{Action, Class, Kind};
use report::late::{self, Findings};
use trace::metadata::Tier;

const M: u64 = 0x1000;
const LAUNCH: &str = "cuLaunchKernel";
const SYNC: &str = "cuStreamSynchronize";

/// The text as one line.
fn line(findings: &Findings<'_>) -> String {
    text(findings).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Fifty rounds of ten launches of 4 us; in every tenth round, the first one waits 5 ms for a
/// mutex. So the mean wait of a round is longer than its median time.
fn rare_waits() -> Tape {
    let mut tape = Tape::new(Tier::Preload);
    let [app, other] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.name(app, 1, "app", 0, 0);
    for round in 0..50 {
        let begin = 1_000_000 + round * 1_000_000 + (round / 10 + 1) * 6_000_000;
        for kernel in 0..10 {
            let (at, wait) = (begin + kernel * 10_000, round % 10 == 0 && kernel == 0);
            let (at, end) = if wait { (at - 5_000_000, at + 4_000) } else { (at, at + 4_000) };
            tape.enter(app, at, LAUNCH, 7, 0x100 + kernel);
            if wait {
                tape.takes(other, at - 1_000, M);
                tape.waits(app, at + 1_000, Class::Mutex, M, 102);
                tape.releases(other, end - 2_000, M);
                tape.takes(app, end - 1_000, M);
                tape.releases(app, end - 500, M);
            }
            tape.exit(app, end);
        }
        tape.call(app, begin + 400_000, begin + 401_000, SYNC, 0);
    }
    tape
}

/// One late launch of 350 ms, of which it waits 134 ms for a mutex, and twenty usual ones without
/// a lock.
fn late_and_waiting() -> Tape {
    let mut tape = Tape::new(Tier::Preload);
    let [app, other] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.usual(app, 1_000, 4_000, LAUNCH, 1);
    tape.takes(other, 900_000, M);
    tape.enter(app, 1_000_000, LAUNCH, 7, 1);
    tape.waits(app, 1_000_000, Class::Mutex, M, 102);
    for turn in 1..5 {
        tape.releases(other, turn * 20_000_000, M);
        tape.takes(other, turn * 20_000_000 + 10, M);
    }
    tape.releases(other, 135_000_000, M);
    tape.takes(app, 135_000_000, M);
    tape.releases(app, 135_000_100, M);
    tape.exit(app, 351_000_000);
    tape
}

#[test]
fn wait_for_locks_is_told_as_a_part_of_the_time_that_it_is_a_part_of() {
    let trace = rare_waits().trace();
    let findings = findings(&trace);
    let said = line(&findings);
    let expected = "They take 41 us and 0.1 locks each time (median). On average they take 540 us, \
        and 500 us of that is waiting for locks.";
    assert!(said.contains(expected), "{said}");
    let sequence = &late::json(&findings)["graph_advice"]["sequences"][0];
    let [mean, waited] = ["mean_ns", "waited_ns"].map(|key| sequence[key].as_u64().unwrap());
    assert_eq!((mean / 1000, waited / 1000), (540, 500));
    let page = late::html(&findings, None).unwrap();
    assert!(page.contains("<td>41 us</td><td>540 us</td><td>500 us</td>"), "{page}");
}

#[test]
fn no_share_is_more_than_all() {
    for (tape, shares) in [(rare_waits(), 4), (late_and_waiting(), 4)] {
        let trace = tape.trace();
        let findings = findings(&trace);
        let page = late::html(&findings, None).unwrap();
        let page = page.split("<main").nth(1).unwrap_or(&page);
        for words in [&line(&findings), page] {
            let mut seen = 0;
            for before in words.split(" %").collect::<Vec<_>>().split_last().unwrap().1 {
                let digits = before.rsplit(|c: char| !c.is_ascii_digit() && c != '.').next();
                let Ok(share) = digits.unwrap().parse::<f64>() else { continue };
                assert!(share <= 100.0, "{share} %: {words}");
                seen += 1;
            }
            assert!(seen >= shares, "{seen} shares: {words}");
        }
    }
}

#[test]
fn card_and_worst_occasion_name_the_same_time() {
    let trace = late_and_waiting().trace();
    let findings = findings(&trace);
    let said = line(&findings);
    assert!(said.contains("Worst: 134 ms of the 350 ms of cuLaunchKernel by thread 101"), "{said}");
    let page = late::html(&findings, None).unwrap();
    assert!(
        page.contains("Unfair hand-over at mutex M1<small>up to 134 ms of one launch<"),
        "{page}"
    );
}

#[test]
fn pattern_of_one_call_is_not_that_of_all() {
    let trace = late_and_waiting().trace();
    let said = text(&findings(&trace));
    let table = said.split("\nLocks per call\n").nth(1).unwrap();
    let launch = table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(launch, ["launch", "cuLaunchKernel", "21", "0", "1", "1", "1", "4.7", "%"]);
}

#[test]
fn longest_wait_in_vain_is_of_all_of_them() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    let failed = Kind::Lock(Class::Mutex, Action::Failed);
    tape.takes(a, 500, M);
    tape.waits(b, 1_000, Class::Mutex, M, 101);
    tape.put(b, 4_000, failed, M, 0, 110);
    tape.waits(b, 5_000, Class::Mutex, M, 101);
    tape.put(b, 12_000, failed, M, 0, 35);
    tape.releases(a, 20_000, M);
    let trace = tape.trace();
    let said = line(&findings(&trace));
    let expected = "Waits that ended without the lock: 2 for M1 (the longest 7 us; 1 by their time \
        limit).";
    assert!(said.contains(expected), "{said}");
}
