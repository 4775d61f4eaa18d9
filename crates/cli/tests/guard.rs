//! Drives the real `keeptime run --guard`.

mod support;

use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use support::{Folder, preload_library};

const PROGRESS: &str = include_str!("programs/progress.c");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `keeptime run OPTIONS -- PROGRAM`.
fn run(options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.env("KEEPTIME_PRELOAD", preload_library()).env_remove("LD_PRELOAD");
    command.arg("run").args(options).arg("--").args(program);
    command.output().expect("keeptime starts")
}

/// The compiled program, in a folder that stays until the tests end.
fn progress() -> &'static str {
    static PROGRAM: OnceLock<(Folder, String)> = OnceLock::new();
    let compile = || {
        let folder = Folder::new();
        let program = folder.compile(PROGRESS);
        (folder, program)
    };
    &PROGRAM.get_or_init(compile).1
}

/// The numbers that the program prints: bare, or with these options, then with what keeptime says.
fn numbers(what: &str, guard: &[&str]) -> (Vec<i64>, String) {
    let output = match guard {
        [] => Command::new(progress()).arg(what).output().expect("it starts"),
        options => run(&[options, &["--guard-all"]].concat(), &[progress(), what]),
    };
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    (out.split_whitespace().map(|word| word.parse().unwrap()).collect(), err)
}

/// The only number that the program prints under a guard, with what keeptime says.
fn number(what: &str, mode: &str) -> (i64, String) {
    let (numbers, err) = numbers(what, &["--guard", mode]);
    (numbers[0], err)
}

/// Returns true if an urgent thread had its lock only after the middle one was through, although it
/// was there before, with what keeptime says.
fn waits_for_the_middle(what: &str, guard: &[&str]) -> (bool, String) {
    let (numbers, err) = numbers(what, guard);
    let [_, waits] = numbers[..] else { panic!("{numbers:?}: {err}") };
    (waits == 1, err)
}

/// For tests that measure, and for those whose real-time threads keep others from a processor.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn guarded_program_ends_and_prints_as_without() {
    for mode in ["inherit", "fair", "fair+inherit"] {
        let output = run(&["--guard", mode], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
        assert_eq!(output.status.code(), Some(7), "{mode}");
        assert_eq!(text(&output.stdout), "out\n");
        let err = text(&output.stderr);
        let expected = format!("err\nkeeptime run: guard {mode}: nothing was to be done\n");
        assert_eq!(err, expected);
        let quiet = run(&["-q", "--guard", mode], &["sh", "-c", "exit 3"]);
        assert_eq!((quiet.status.code(), text(&quiet.stderr)), (Some(3), String::new()));
    }
}

#[test]
fn wrong_options_are_refused() {
    for options in [
        &["--guard", "magic"][..],
        &["--guard", "fair", "--guard-bound", "fast"],
        &["--guard", "fair", "--guard-bound", "1h"],
        &["--guard", "fair", "--guard-from", "/lib/libcuda.so"],
        &["--guard", "fair", "--guard-all", "--guard-from", "libcuda.so"],
        &["--guard", "fair", "--guard-rwlocks", "gone"],
        &["--guard-all"],
        &["--guard-bound", "5ms"],
    ] {
        let output = run(options, &["echo", "ran"]);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{options:?}");
    }
}

#[test]
fn urgent_thread_waits_for_the_owner_and_not_for_who_keeps_it_from_running() {
    if !is_root() {
        return eprintln!("SKIP: real-time priorities are for root only");
    }
    let _alone = alone();
    assert!(waits_for_the_middle("inversion", &[]).0, "without a guard");
    for mode in ["inherit", "fair+inherit"] {
        let (waits, err) = waits_for_the_middle("inversion", &["--guard", mode]);
        assert!(!waits, "{mode}: {err}");
        let done = if mode == "inherit" { "1 mutexes made to inherit" } else { "1 waits lent" };
        assert!(err.contains(done), "{err}");
    }
    // Without inheritance nothing changes.
    assert!(waits_for_the_middle("inversion", &["--guard", "fair"]).0);
}

#[test]
fn writer_of_a_read_write_lock_runs_at_the_priority_of_who_waits_if_asked_to() {
    if !is_root() {
        return eprintln!("SKIP: real-time priorities are for root only");
    }
    let _alone = alone();
    for what in ["read", "write"] {
        is_boosted_if_asked_to(what);
    }
}

#[test]
fn readers_of_a_read_write_lock_run_at_the_priority_of_who_waits_if_asked_to() {
    if !is_root() {
        return eprintln!("SKIP: real-time priorities are for root only");
    }
    let _alone = alone();
    for what in ["readers", "readers-timed", "readers-late"] {
        is_boosted_if_asked_to(what);
    }
}

/// The urgent thread waits for the middle one, unless its priority is lent.
fn is_boosted_if_asked_to(what: &str) {
    let guard = ["-q", "--guard", "fair+inherit"];
    assert!(waits_for_the_middle(what, &guard).0, "{what}");
    assert!(!waits_for_the_middle(what, &[&guard[..], &["--guard-boost"]].concat()).0, "{what}");
}

/// Bounds in time, for a machine without other work: `cargo xtask soak` runs them.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn urgent_thread_waits_for_less_than_half_of_what_the_middle_one_takes() {
        let _alone = alone();
        let waited_ms = |what: &str, guard: &[&str]| numbers(what, guard).0[0];
        let bare_ms = waited_ms("inversion", &[]);
        assert!(bare_ms >= 300, "{bare_ms} ms without a guard");
        for mode in ["inherit", "fair+inherit"] {
            let guarded_ms = waited_ms("inversion", &["--guard", mode]);
            assert!(guarded_ms < 200, "{guarded_ms} ms with {mode}");
        }
        let guard = ["-q", "--guard", "fair+inherit"];
        let boost = [&guard[..], &["--guard-boost"]].concat();
        for what in ["read", "write", "readers", "readers-timed", "readers-late"] {
            let (plain_ms, boosted_ms) = (waited_ms(what, &guard), waited_ms(what, &boost));
            assert!(plain_ms >= 300 && boosted_ms < 200, "{what}: {plain_ms}, {boosted_ms} ms");
        }
    }

    #[test]
    #[ignore = "soak"]
    fn waiter_is_overtaken_a_few_times() {
        let _alone = alone();
        for mode in ["fair", "fair+inherit"] {
            let (most, err) = number("bypass", mode);
            // Five until the bound, and until the waiter has a processor to notice; then at most two
            // for each of three waiters.
            assert!(most <= 60, "{mode}: overtaken {most} times: {err}");
        }
    }

    #[test]
    #[ignore = "soak"]
    fn writer_gets_in_four_times_as_often_beside_overlapping_readers() {
        let _alone = alone();
        let bare = numbers("writes", &[]).0[0];
        let (guarded, err) = number("writes", "fair");
        assert!(guarded >= 20 && guarded > 4 * bare, "{guarded} writes, {bare} without: {err}");
    }
}

#[test]
fn waiters_are_handed_the_mutex_that_others_take_again_at_once() {
    let _alone = alone();
    for mode in ["fair", "fair+inherit"] {
        let (_, err) = number("bypass-5", mode);
        assert!(err.contains(" hand-overs"), "{mode}: {err}");
    }
}

#[test]
fn equally_urgent_threads_make_no_convoy() {
    if !is_root() {
        return eprintln!("SKIP: real-time priorities are for root only");
    }
    let _alone = alone();
    let (taken, err) = number("equals", "fair+inherit");
    let words: Vec<&str> = err.split([' ', ',']).collect();
    let before = |word: &str| words.iter().position(|at| *at == word).map(|at| words[at - 1]);
    let handed: i64 = before("hand-overs").map_or(0, |number| number.parse().unwrap());
    assert!(taken > 1000 && handed * 2 < taken, "{handed} hand-overs of {taken}: {err}");
    assert!(!err.contains("lent a priority"), "{err}");
}

#[test]
fn writer_gets_in_between_overlapping_readers() {
    let _alone = alone();
    let (_, err) = number("writes-20", "fair");
    assert!(err.contains("read-write locks made phase-fair"), "{err}");
}

#[test]
fn locks_of_other_libraries_are_left_alone() {
    let folder = Folder::new();
    let output =
        folder.run(&["--guard", "inherit", "--guard-from", "libother"], &[progress(), "writes"]);
    let err = text(&output.stderr);
    assert!(output.status.success() && err.contains("nothing was to be done"), "{err}");
}

const KINDS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t fixed = PTHREAD_MUTEX_INITIALIZER, made[5];
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int lock_once(pthread_mutex_t *mutex) {
    return pthread_mutex_lock(mutex) | pthread_mutex_unlock(mutex);
}
int main(void) {
    int wrong = lock_once(&fixed);
    for (int i = 0; i < 5; i++) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        if (i == 1) pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
        if (i == 2) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        if (i == 3) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
        if (i == 4) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        wrong |= pthread_mutex_init(&made[i], &attributes);
        wrong |= lock_once(&made[i]);
    }
    wrong |= pthread_rwlock_rdlock(&rwlock) | pthread_rwlock_unlock(&rwlock);
    printf("%d\n", wrong);
    return wrong;
}
"#;

#[test]
fn audit_changes_nothing_and_says_what_a_guard_would_do() {
    let folder = Folder::new();
    let program = folder.compile(KINDS);
    let output = run(&["--guard", "audit", "--guard-all"], &[&program]);
    let err = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "0\n"));
    assert!(err.starts_with("Locks, and what a guard would do with them\n"), "{err}");
    for line in [
        "1 x mutex, normal: fair, fair+inherit: guarded; inherit: converted before its first use",
        "1 x mutex, normal: fair, fair+inherit: guarded; inherit: converted when it is initialised",
        "1 x mutex, recursive: fair, fair+inherit: guarded; inherit: converted when",
        "1 x mutex, normal: left alone: robust",
        "1 x mutex, normal: left alone: inherits already",
        "1 x mutex, normal: left alone: other processes may use it",
        "1 x read-write lock, prefers readers: phase-fair",
    ] {
        assert!(err.contains(line), "{line}\n{err}");
    }
    let json = run(&["--guard", "audit", "--guard-all", "--json"], &[&program]);
    let value: serde_json::Value = testing::result::read(&json.stderr);
    assert_eq!(value["schema"], "keeptime.guard-audit");
    let locks: u64 =
        value["locks"].as_array().unwrap().iter().map(|row| row["locks"].as_u64().unwrap()).sum();
    assert_eq!(locks, 7);
}

#[test]
fn guard_leaves_alone_and_counts_what_it_must_not_touch() {
    let folder = Folder::new();
    let program = folder.compile(KINDS);
    for (mode, done) in [("inherit", "3 mutexes made to inherit, "), ("fair", "")] {
        let output = run(&["--guard", mode, "--guard-all"], &[&program]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{err}");
        let done = format!("guard {mode}: {done}1 read-write locks made phase-fair");
        assert!(err.contains(&done), "{err}");
        if mode == "inherit" {
            let left = "left alone, by uses: 1 robust mutexes, 1 mutexes that inherit already, \
                        1 mutexes of several processes";
            assert!(err.contains(left), "{err}");
        }
    }
}

#[test]
fn guarded_run_can_be_recorded_and_the_report_tells_of_hand_overs() {
    let folder = Folder::new();
    let options = ["--guard", "fair", "--guard-all", "--all-locks", "--guard-bound", "2ms"];
    let output = folder.run(&options, &[progress(), "bypass-5"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = Command::new(env!("CARGO_BIN_EXE_keeptime"))
        .args(["report", "--json"])
        .arg(folder.trace())
        .output()
        .unwrap();
    let value: serde_json::Value = testing::result::of(&report);
    assert_eq!(value["guard"]["mutexes"], "fair");
    let handed = value["guard"]["counts"]["handed_over"].as_u64().unwrap();
    assert!(handed > 0, "{}", value["guard"]);
    let recorded: u64 = value["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| lock["handed_over"].as_u64().unwrap())
        .sum();
    // On a busy machine some are taken back. A waiter may also find that it was handed the mutex
    // when it was about to give up.
    let back = value["guard"]["counts"]["taken_back"].as_u64().unwrap_or(0);
    assert!(recorded.abs_diff(handed + back) <= 2, "{recorded} recorded, {handed} + {back}");
    let report = Command::new(env!("CARGO_BIN_EXE_keeptime"))
        .arg("report")
        .arg(folder.trace())
        .output()
        .unwrap();
    let told = text(&report.stdout).replace("\n  ", " ");
    assert!(told.contains("guard fair (") && told.contains("The guard handed over M"), "{told}");
}
