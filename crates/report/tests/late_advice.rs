//! Sentences of the report on verdicts: their numbers and remedies.

mod late_findings;
#[path = "../../observe/late/tests/tape/mod.rs"]
mod late_tape;

use late::{Evidence, Lost, Occasion, Remedy, Task, Verdict};
use late_findings::{findings, text};
use late_tape::Tape;
use trace::metadata::Tier;

const M: u64 = 0x1000;
const LAUNCH: &str = "cuLaunchKernel";
const INFER: u32 = 4712;

/// A verdict whose worst time is that of the only thread.
fn verdict(evidence: Evidence, remedies: &[Remedy]) -> Verdict {
    Verdict {
        evidence,
        lock: Some(0),
        asked: true,
        severity_ns: 5_000_000,
        worst: Some(Occasion {
            at_ns: 3_000_000,
            duration_ns: 5_000_000,
            lost_ns: 5_000_000,
            thread: 0,
            kind: None,
            explained: None,
        }),
        lost: Lost { looked_at: 12, calls: vec![(0, 3_000_000), (3, 1_000_000)] },
        remedies: remedies.to_vec(),
    }
}

fn task(name: &str, tid: u32, priority: u16) -> Task {
    Task { tid, name: name.to_owned(), thread: None, priority: Some(priority) }
}

fn of_locks() -> Vec<(Evidence, &'static str, &'static str)> {
    let convoy = Evidence::LockConvoy {
        waits: 90,
        acquisitions: 100,
        queue_p50: 4,
        queue_max: 14,
        wait_p50_ns: 800_000,
        wait_max_ns: 900_000,
        hold_p50_ns: 20_000,
        hold_max_ns: 30_000,
    };
    let unfair = Evidence::UnfairHandOver {
        overtaken: 3,
        most_overtaken: 54,
        reacquired: 58,
        barged: 1,
        wait_p50_ns: 600_000,
        wait_p99_9_ns: 36_000_000,
        wait_max_ns: 36_000_000,
    };
    let long = Evidence::LongCriticalSection {
        hold_ns: 5_800_000,
        hold_p50_ns: 5_500,
        waiting: 3,
        wait_max_ns: 5_900_000,
        kind: None,
    };
    vec![
        (
            convoy,
            "Convoy at mutex M1",
            "90 % of 100 acquisitions had to wait. At half of all waits for it 4 or more threads \
            waited, at most 14.",
        ),
        (
            unfair,
            "Unfair hand-over at mutex M1",
            "in 3 waits a thread that came later got it first, up to 54 times during one of them; \
             58 times the thread that had just released it took it again while others waited; once \
             a thread took it without waiting while others did.",
        ),
        (
            long,
            "Long hold at mutex M1",
            "held for 5.8 ms outside of recorded calls while others \
            waited, 3 of them at its end; half of all holds take at most 5.5 us.",
        ),
        (
            Evidence::ReaderStarvation {
                times: 2,
                most_writers: 41,
                waits: 9,
                wait_max_ns: 1_000_000,
            },
            "Readers starve",
            "In 2 of 9 waits by readers, two or more writers got it first, up to \
            41 during one wait; the longest such wait was 1 ms.",
        ),
        (
            Evidence::WriterStarvation { times: 2, most_readers: 7, waits: 8, wait_max_ns: 1_000 },
            "Writers starve",
            "In 2 of 8 waits by writers, readers came later and got it first, up \
            to 7 during one wait; the longest such wait was 1 us.",
        ),
    ]
}

fn of_processors() -> Vec<(Evidence, &'static str, &'static str)> {
    let inversion = Evidence::PriorityInversion {
        waiter: task("infer", 11, 69),
        holder: task("copy", 12, 89),
        by: Some(task("hog", 13, 79)),
    };
    let preempted = Evidence::PreemptedHolder { holder: task("copy", 12, 120), by: None };
    let queue = Evidence::DeviceQueueFull { most_outstanding: 1024, executing: true };
    let load = Evidence::Oversubscription {
        percent: 99,
        over_ns: 99_990,
        observed_ns: 100_000,
        most: 6,
        processors: 2,
        waited_ns: 4_000,
    };
    vec![
        (
            inversion,
            "Priority inversion",
            "infer (11) (real-time priority 30) waited for copy (12) (real-time priority 10), \
             which held it and could not run because hog (13) (real-time priority 20) did. 2 of \
             the 12 launches looked at waited 4 ms in this way.",
        ),
        (
            preempted,
            "Preempted holder",
            "copy (12) (nice 0) held it and was preempted by another thread. 2 of the 12 launches \
             looked at waited 4 ms",
        ),
        (
            queue,
            "Device queue full",
            "2 of the 12 launches looked at spent 4 ms more than usual with up to 1024 launches \
             outstanding",
        ),
        (
            load,
            "More threads than processors",
            "In 99.9 % of the time more threads wanted to run than there are processors, up to 6 \
             for 2. 2 of the 12 launches looked at waited 4 ms for a processor.",
        ),
        (
            Evidence::BlockedElsewhere {},
            "Launches off the processor",
            "2 of the 12 launches looked at spent 4 ms in page faults or system calls",
        ),
    ]
}

#[test]
fn every_verdict_is_told_with_its_numbers() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.takes(thread, 1_000, M);
    let trace = tape.trace();
    let mut findings = findings(&trace);
    for (evidence, title, words) in of_locks().into_iter().chain(of_processors()) {
        findings.verdicts = vec![verdict(evidence, &[Remedy::SmallerCopies])];
        let text = text(&findings).split_whitespace().collect::<Vec<_>>().join(" ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(title), "{title}: {text}");
        assert!(text.contains(&words), "{words}: {text}");
        assert!(
            text.contains("Worst: 5 ms outside of recorded calls by thread 4712, 3 ms"),
            "{text}"
        );
        assert!(text.contains("- Copy in smaller pieces"), "{text}");
    }
}

#[test]
fn remedies_are_told_once_and_name_only_commands_that_exist() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.takes(thread, 1_000, M);
    let trace = tape.trace();
    let mut findings = findings(&trace);
    let all = [
        Remedy::InheritanceMutex,
        Remedy::FairMutex,
        Remedy::PhaseFairRwLock,
        Remedy::PinnedMemory,
        Remedy::SmallerCopies,
        Remedy::CudaGraph,
        Remedy::FewerThreads,
        Remedy::HigherPriority,
        Remedy::FewerOutstandingLaunches,
        Remedy::LockedMemory,
    ];
    let evidence = || Evidence::BlockedElsewhere {};
    findings.verdicts = vec![verdict(evidence(), &all), verdict(evidence(), &all[..2])];
    let text = text(&findings);
    assert_eq!(text.matches("PTHREAD_PRIO_INHERIT").count(), 1, "{text}");
    assert!(text.contains("     - priority inheritance and a fair mutex, as above\n"), "{text}");
    for command in text.split('`').skip(1).step_by(2).filter(|code| code.contains("keeptime")) {
        let known = ["keeptime serve", "keeptime run", "keeptime run --guard"];
        assert!(
            known.contains(
                &command
                    .replace('\n', " ")
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .as_str()
            ),
            "{command}"
        );
    }
}

#[test]
fn repeated_launches_are_told_with_what_a_graph_would_save() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.name(thread, 1, "infer", 0, 0);
    for round in 0..50u64 {
        let begin = 1_000_000 + round * 1_000_000;
        for kernel in 0..30 {
            let at = begin + kernel * 10_000;
            tape.enter(thread, at, LAUNCH, 7, 0x100 + kernel);
            tape.takes(thread, at + 100, M);
            tape.releases(thread, at + 200, M);
            tape.exit(thread, at + 4_000);
        }
        tape.call(thread, begin + 400_000, begin + 401_000, "cuStreamSynchronize", 0);
    }
    let trace = tape.trace();
    let text = text(&findings(&trace)).split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "infer (4712) makes the same 30 calls 50 times: 120 us of launching and 30 locks \
        each time, by the median. As one graph that would be about 116 us less (an estimate).";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("Capture the sequence into a CUDA graph"), "{text}");
}
