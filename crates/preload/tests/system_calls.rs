//! What hooks ask of the kernel: no system call that an older one lacks, or that a program forbids
//! itself; and nothing of the program's allocator.
//!
//! Programs run with a filter that refuses newer system calls as an older kernel does, and with an
//! allocator that ends them when a hook allocates, or this library at any time.

mod support;

use record::guard::Mutexes;
use std::path::PathBuf;
use support::{Folder, Mode, Subject, compile, program};

/// What a kernel before this version refuses, and how.
struct Refusal {
    before: &'static str,
    number: i64,
    error: i32,
    /// Only where this argument has this value behind this mask.
    argument: Option<(u32, u32, u32)>,
}

const fn call(before: &'static str, number: i64) -> Refusal {
    Refusal { before, number, error: libc::ENOSYS, argument: None }
}

const fn argument(
    before: &'static str,
    number: i64,
    error: i32,
    at: u32,
    value: u32,
    mask: u32,
) -> Refusal {
    Refusal { before, number, error, argument: Some((at, value, mask)) }
}

/// Newer calls, and newer values of arguments, of those that this library makes, that its
/// dependencies and the C library make where they can, or that a program's recorder makes.
const REFUSALS: [Refusal; 17] = [
    argument("6.4", libc::SYS_prctl, libc::EINVAL, 0, 0x4155_5856, u32::MAX), // PR_GET_AUXV
    argument("6.3", libc::SYS_memfd_create, libc::EINVAL, 1, 8, 8),           // MFD_NOEXEC_SEAL
    argument("6.3", libc::SYS_memfd_create, libc::EINVAL, 1, 16, 16),         // MFD_EXEC
    call("5.16", 449),                                                        // futex_waitv
    argument("5.14", libc::SYS_futex, libc::ENOSYS, 1, 13, 0x7f),             // FUTEX_LOCK_PI2
    argument("5.14", libc::SYS_madvise, libc::EINVAL, 2, 23, u32::MAX),       // MADV_POPULATE_WRITE
    call("5.11", libc::SYS_epoll_pwait2),
    call("5.9", libc::SYS_close_range),
    call("5.8", libc::SYS_faccessat2),
    call("5.6", libc::SYS_openat2),
    call("5.6", libc::SYS_pidfd_getfd),
    call("5.3", libc::SYS_pidfd_open),
    call("5.3", libc::SYS_clone3),
    call("4.18", libc::SYS_rseq),
    call("4.11", libc::SYS_statx),
    call("4.3", libc::SYS_membarrier),
    call("3.17", libc::SYS_getrandom),
];

impl Refusal {
    fn rule(&self) -> String {
        let (number, error) = (self.number, self.error);
        match self.argument {
            None => format!("{number},{error}"),
            Some((at, value, mask)) => format!("{number},{error},{at},{value},{mask}"),
        }
    }
}

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
        for file in ["shared-memory.c"] {
            let subject = stage.subject(file, &[refusal.rule()]);
            let bare = subject.bare();
            for mode in Mode::guarded() {
                let (ended, _) = subject.recorded(&mode);
                let what = format!("{file}, before Linux {}: {}", refusal.before, refusal.rule());
                subject.assert_same(&format!("{} ({what})", mode.name), &bare, &ended);
            }
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
