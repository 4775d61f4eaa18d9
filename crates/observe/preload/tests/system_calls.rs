//! Requests of hooks to the kernel: no system call that an older one lacks, or that a program
//! forbids itself; and nothing of the program's allocator.
//!
//! Programs run with a filter that refuses newer system calls as an older kernel does, and with an
//! allocator that ends them when a hook allocates, or this library at any time.

mod support;

use record::guard::{GuardCount, Mutexes};
use std::path::PathBuf;
use support::{Folder, Mode, Recorder, Subject, compile, program, run};
use testing::refusals::{REFUSALS, Refusal};

/// The programs, and what runs them as on an older kernel.
struct Stage {
    folder: Folder,
    refuse: PathBuf,
    reentry: PathBuf,
}

impl Stage {
    fn new() -> Stage {
        let folder = Folder::new();
        let refuse = program(&folder, "refuse.c");
        let reentry = compile(&folder, "reentry.c", "reentry.so", &["-shared", "-fPIC"]);
        Stage { folder, refuse, reentry }
    }

    /// A program of ours under these refusals.
    fn subject(&self, file: &str, rules: &[String]) -> Subject {
        let program = program(&self.folder, file);
        Subject::new(&self.refuse).args(rules).arg("--").arg(program).preload_before(&self.reentry)
    }
}

/// Programs that behave the same guarded or not; one of them does if it is told to.
const PROGRAMS: [&str; 5] = ["mutex.c", "shared-memory.c", "condition.c", "semaphore.c", "c11.c"];
const OTHER_ORDER: &str = "rwlock.c";

fn compare(stage: &Stage, rules: &[String]) {
    for file in PROGRAMS {
        stage.subject(file, rules).compare(Mode::all());
    }
    stage.subject(OTHER_ORDER, rules).arg("without-turns").compare(Mode::all());
}

#[test]
fn hooks_do_not_allocate() {
    compare(&Stage::new(), &[]);
}

#[test]
fn hooks_work_on_the_oldest_kernel_as_on_the_newest_and_do_not_allocate() {
    let all: Vec<_> = REFUSALS.iter().map(Refusal::rule).collect();
    compare(&Stage::new(), &all);
}

#[test]
fn hooks_work_without_each_newer_system_call_and_do_not_allocate() {
    let stage = Stage::new();
    for refusal in REFUSALS {
        let subject = stage.subject("shared-memory.c", &[refusal.rule()]);
        let bare = subject.bare();
        for mode in Mode::guarded() {
            let recorder = Recorder::new(&mode);
            let ended = run(&mut recorder.invite(&subject));
            subject.assert_same(&format!("{}, {refusal}", mode.name), &bare, &ended);
            let counts = recorder.recording().side().guard_counts();
            assert!(counts[GuardCount::RwlockConverted as usize] > 0, "{}: {counts:?}", mode.name);
            recorder.finish();
        }
    }
}

#[test]
fn waits_by_the_monotonic_clock_work_where_inheritance_mutexes_have_none() {
    let stage = Stage::new();
    let rules: Vec<_> = REFUSALS.iter().map(Refusal::rule).collect();
    let (output, _) = stage.subject("timed.cpp", &rules).compare(Mode::all());
    assert_eq!(output, "in vain: timed out\nin time: taken\nfree: taken\n");
}

#[test]
fn guarded_program_may_forbid_all_system_calls_but_those_of_locks() {
    let folder = Folder::new();
    let path = program(&folder, "restricted.c");
    for way in ["prctl", "syscall", "instruction"] {
        let subject = Subject::new(&path).arg(way);
        let bare = subject.bare();
        bare.success();
        for mut mode in Mode::guarded() {
            // Recording makes more of them, which it only ends where it notices the filter.
            mode.settings.nothing = way == "instruction" || mode.settings.nothing;
            // An inheritance mutex that is waited for needs others, with whatever library.
            let inherits =
                mode.settings.guard.iter().any(|guard| guard.mutexes == Mutexes::Inherit);
            if !inherits {
                let (ended, _) = subject.recorded(&mode);
                subject.assert_same(&format!("{}, {way}", mode.name), &bare, &ended);
            }
        }
    }
}
