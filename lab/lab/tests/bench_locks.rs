//! Drives the real `keeptime-lab bench locks`: what it prints, and that what it says was recorded is
//! in the recordings. How long anything took is not tested. The tests whose options have no
//! `--trace` are those of waits under each policy.

mod program;

use program::laboratory;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use testing::preload_library;

const OURS: [&str; 4] = ["bare", "forward", "contended", "full"];
const TOOLS: [&str; 2] = ["lttng", "uftrace"];
/// Held by tests that use LTTng: the daemon that one of them starts would be the other's too, and
/// end under it.
static DAEMON: Mutex<()> = Mutex::new(());
/// Held by tests that measure waits: threads of real-time priority keep all others from the cores
/// for a whole short run.
static CORES: Mutex<()> = Mutex::new(());

fn bench(path: Option<&Path>, options: &[&str]) -> Output {
    let mut command = laboratory();
    command.env("KEEPTIME_PRELOAD", preload_library()).env_remove("LD_PRELOAD").env_remove("CC");
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.args(["bench", "locks"]).args(options).output().expect("keeptime starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    testing::result::of(output)
}

/// A folder to be the search path, with a C compiler and these programs, as far as there are any.
fn path_with(folder: &tempfile::TempDir, programs: &[&str]) {
    let path = std::env::var_os("PATH").expect("a search path");
    for program in ["cc", "as", "ld", "true"].iter().chain(programs) {
        let found = std::env::split_paths(&path).map(|at| at.join(program)).find(|at| at.is_file());
        if let Some(found) = found {
            std::os::unix::fs::symlink(found, folder.path().join(program)).unwrap();
        }
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn every_recorder_is_measured_or_left_out_with_a_reason() {
    let _daemon = DAEMON.lock().unwrap_or_else(PoisonError::into_inner);
    let options = ["--trace", "--json", "--repetitions", "2", "--pairs", "4000"];
    let result = json(&bench(None, &options));
    for name in OURS {
        assert!(result["variants"][name].is_object(), "{name} is missing");
    }
    for name in TOOLS {
        let is_left_out = result["left_out"][name].as_str().is_some_and(|why| !why.is_empty());
        assert_ne!(result["variants"][name].is_object(), is_left_out, "{name}: {result:#}");
    }
    let names: Vec<&str> = OURS.into_iter().chain(TOOLS).collect();
    assert!(keys(&result["variants"]).iter().all(|name| names.contains(name)));
    for (name, row) in result["variants"].as_object().unwrap() {
        let [least, median, most] = ["pair_min_ns", "pair_ns", "pair_max_ns"]
            .map(|key| row[key].as_f64().unwrap_or_else(|| panic!("{name} has no {key}")));
        assert!(0.0 < least && least <= median && median <= most, "{name}: {row:#}");
        assert!(row["added_per_call_ns"].is_f64(), "{name}: {row:#}");
        assert_eq!(row["repetitions"], 2);
    }
    assert_eq!((&result["repetitions"], &result["pairs"]), (&2.into(), &4000.into()));
    assert!(!result["machine"].as_str().unwrap().is_empty());
}

#[test]
fn records_are_those_that_the_mode_is_to_make() {
    let _daemon = DAEMON.lock().unwrap_or_else(PoisonError::into_inner);
    let options = ["--trace", "--json", "--repetitions", "1", "--pairs", "100000"];
    let result = json(&bench(None, &options));
    let records = |name: &str| {
        let row = &result["variants"][name];
        (
            row["records_per_pair"].as_f64(),
            row["lost"].as_u64(),
            row["added_per_record_ns"].is_f64(),
        )
    };
    assert_eq!(records("bare"), (None, Some(0), false));
    assert_eq!(records("forward"), (Some(0.0), Some(0), false));
    assert_eq!(records("contended"), (Some(0.0), Some(0), false));
    assert_eq!(records("full"), (Some(2.0), Some(0), true));
    assert_eq!(result["first_touch"]["records_per_pair"], 2.0);
    if result["variants"]["lttng"].is_object() {
        let (events, _, has_cost) = records("lttng");
        // The wrapper's own events, and a few of locks that LTTng takes in the program.
        assert!((3.0..3.01).contains(&events.unwrap()) && has_cost, "{events:?}");
        assert!(result["times_full"]["lttng"]["median"].is_f64());
    }
    if result["variants"]["uftrace"].is_object() {
        let (calls, lost, _) = records("uftrace");
        assert!(calls == Some(2.0) || lost > Some(0), "{calls:?} calls, {lost:?} lost");
    }
}

#[test]
fn tools_that_are_not_installed_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    path_with(&folder, &[]);
    let options = ["--trace", "--repetitions", "1", "--pairs", "1000"];
    let result = json(&bench(Some(folder.path()), &[&options[..], &["--json"]].concat()));
    assert_eq!(keys(&result["variants"]), ["bare", "contended", "forward", "full"]);
    assert_eq!(keys(&result["left_out"]), TOOLS);
    for name in TOOLS {
        let reason = result["left_out"][name].as_str().unwrap();
        assert!(reason.contains("is not installed (package "), "{reason}");
    }
    let output = bench(Some(folder.path()), &options);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("\nlttng is left out: ") && text.contains("\nuftrace is left out: "),
        "{text}"
    );
}

#[test]
fn other_tables_come_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    path_with(&folder, &[]);
    let options = ["--trace", "--json", "--repetitions", "1", "--pairs", "20000"];
    let without = json(&bench(Some(folder.path()), &options));
    assert!(without["nested_reads"].is_null() && without["two_threads"].is_null());
    let result = json(&bench(Some(folder.path()), &[&options[..], &["--contended-run"]].concat()));
    let reads = &result["nested_reads"]["variants"];
    assert_eq!(reads["full"]["records_per_iteration"], 4.0);
    assert_eq!(reads["contended"]["records_per_iteration"], 0.0);
    assert!(reads["full"]["iteration_ns"].is_f64());
    if realtime::thread::cores().len() < 2 {
        return;
    }
    let two = &result["two_threads"]["variants"];
    // At least what it takes and lets go; more where it waited.
    assert!(two["full"]["records_per_acquisition"].as_f64().unwrap() >= 2.0);
    for name in OURS {
        assert!(two[name]["voluntary_switches_per_100k"].is_f64(), "{name}");
    }
}

#[test]
fn machine_without_a_compiler_is_told_what_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(Some(folder.path()), &["--trace"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cc does not start; set CC to a C compiler"), "{text}");
}

#[test]
fn wrong_options_are_refused() {
    let policies = "[possible values: default, inherit-native, inherit, fair, fair+inherit, \
                    phase-fair, ck, parking_lot]";
    for (options, expected) in [
        (&["--pairs", "2000"][..], "--trace"),
        (&["--trace", "--threads", "2"], "'--trace' cannot be used with '--threads <LIST>'"),
        (&["--trace", "--pairs", "999"], "999 is not in 1000..=20000000"),
        (&["--trace", "--repetitions", "0"], "0 is not in 1..=1000"),
        (&["--threads", "0"], "0 is not in 1..=1000"),
        (&["--duration", "0s"], "expected a time from 10ms to 60s, as in 300ms"),
        (&["--duration", "0.3"], "'0.3' for '--duration <TIME>'"),
        (&["--policy", "unfair"], policies),
    ] {
        let output = bench(None, options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

/// Policies of mutexes, then of read-write locks.
const MUTEXES: [&str; 6] =
    ["default", "inherit-native", "inherit", "fair", "fair+inherit", "parking_lot"];
const RWLOCKS: [&str; 4] = ["default", "phase-fair", "ck", "parking_lot"];
const SHORT: [&str; 5] = ["--json", "--duration", "30ms", "--repetitions", "2"];

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no array {key}"))
}

/// Returns true if a policy or a case of it is left out with a reason.
fn is_left_out(result: &Value, policy: &str, case: &str) -> bool {
    let reason = |what: &str| result["left_out"][what].as_str().is_some_and(|why| !why.is_empty());
    reason(policy) || reason(case)
}

/// Measures waits.
fn waits(options: &[&str]) -> Value {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    json(&bench(None, &[&SHORT[..], options].concat()))
}

#[test]
fn every_policy_is_measured_in_every_case_or_left_out_with_a_reason() {
    let result = waits(&["--threads", "1,3"]);
    let has_fifo = result["left_out"]["fifo"].is_null();
    for (lock, threads, policies) in [
        ("mutex", &[1, 3][..], &MUTEXES[..]),
        ("mutex-nested", &[1, 3], &MUTEXES),
        ("mutex-long", &[14], &MUTEXES),
        ("mutex-launch", &[15], &MUTEXES),
        ("rwlock-read", &[1, 3], &RWLOCKS),
        ("rwlock-write", &[1, 3], &RWLOCKS),
    ] {
        for (policy, threads) in policies.iter().flat_map(|p| threads.iter().map(move |t| (*p, *t)))
        {
            for fifo in [false, true] {
                let wanted = !fifo || (has_fifo && lock != "mutex-long");
                let is_it = |case: &&Value| {
                    (&case["lock"], &case["policy"]) == (&lock.into(), &policy.into())
                        && (&case["threads"], &case["fifo"]) == (&threads.into(), &fifo.into())
                };
                let found = array(&result, "cases").iter().filter(is_it).count();
                let case = if fifo { "/fifo" } else { "" };
                let case = format!("{lock}/{policy}/{threads}{case}");
                let expected = usize::from(wanted && !is_left_out(&result, policy, &case));
                assert_eq!(found, expected, "{lock}, {policy}, {threads}, {fifo}: {result:#}");
            }
        }
    }
    for (figure, policies) in [(12, &MUTEXES[..5]), (13, &RWLOCKS[..3])] {
        for (policy, contended) in policies.iter().flat_map(|p| [(p, false), (p, true)]) {
            let is_it = |call: &&Value| {
                (&call["figure"], &call["policy"]) == (&figure.into(), &(*policy).into())
                    && call["contended"] == contended
            };
            let found = array(&result, "calls").iter().any(|call| is_it(&call));
            let kind = if contended { "contended" } else { "uncontended" };
            let case = format!("calls/{policy}/{kind}");
            assert_ne!(found, is_left_out(&result, policy, &case), "{figure}, {case}");
        }
    }
    // These need nothing that this build does not have; a lock of some kind is taken by each.
    for (lock, policies) in [("mutex", &MUTEXES[..]), ("rwlock-read", &["default", "phase-fair"])] {
        for policy in policies {
            let case = format!("{lock}/{policy}/3");
            assert!(!is_left_out(&result, policy, &case), "{case}: {result:#}");
        }
    }
}

#[test]
fn cases_have_the_keys_and_their_waits_are_in_order() {
    let result = waits(&["--threads", "2,3"]);
    let cores = result["cores"].as_u64().expect("a number of cores");
    let mut moving = BTreeSet::new();
    for case in array(&result, "cases") {
        let number = |key: &str| {
            case[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number: {case:#}"))
        };
        let waits = ["p50_ns", "p99_ns", "p999_ns", "max_wait_ns"].map(number);
        assert!(waits[0] > 0.0 && waits.is_sorted(), "{case:#}");
        assert!(number("p50_min_ns") <= waits[0] && waits[0] <= number("p50_max_ns"));
        assert!(number("max_wait_median_ns") <= waits[3]);
        assert!(number("switches") >= 0.0 && number("waits") > 0.0, "{case:#}");
        // A run may be too short for a thread that others keep from its core.
        assert!(number("ops_per_s") >= 0.0 && (1.0..=2.0).contains(&number("repetitions")));
        if number("ops_per_s") > 0.0 {
            moving.insert(case["policy"].as_str().expect("a policy"));
        }
        let is_more = case["threads"].as_u64().expect("threads") > cores;
        assert_eq!(case["oversubscribed"].as_bool(), Some(is_more));
        let is_guarded = ["inherit", "fair", "fair+inherit", "phase-fair"]
            .contains(&case["policy"].as_str().expect("a policy"));
        assert_eq!(case["guard"].is_string(), is_guarded, "{case:#}");
    }
    let is_there = |policy: &&str| result["left_out"][policy].is_null();
    let policies: BTreeSet<&str> = MUTEXES.into_iter().chain(RWLOCKS).filter(is_there).collect();
    assert_eq!(moving, policies);
    assert!(!result["machine"].as_str().unwrap().is_empty());
    assert!(result["command"].as_str().unwrap().starts_with("keeptime-lab bench locks --json"));
}

#[test]
fn calls_of_both_figures_are_there_and_in_order() {
    let options = ["--threads", "1", "--policy", "default,inherit-native,ck"];
    let result = waits(&options);
    let mut found = Vec::new();
    for call in array(&result, "calls") {
        let text = |key: &str| call[key].as_str().unwrap().to_owned();
        let number = |key: &str| call[key].as_f64().unwrap();
        assert!(number("p50_ns") <= number("p99_ns") && number("mean_ns") > 0.0, "{call:#}");
        let contended = call["contended"].as_bool().unwrap();
        found.push((call["figure"].as_u64().unwrap(), text("policy"), text("call"), contended));
    }
    for contended in [false, true] {
        for call in ["lock", "unlock"] {
            for policy in ["default", "inherit-native"] {
                let expected = (12, policy.to_owned(), call.to_owned(), contended);
                assert!(found.contains(&expected), "{expected:?}");
            }
        }
        for call in ["read_lock", "read_unlock", "write_lock", "write_unlock"] {
            let expected = (13, "default".to_owned(), call.to_owned(), contended);
            assert!(found.contains(&expected), "{expected:?}");
        }
    }
    let policies = ["default", "inherit-native", "ck"];
    let only = array(&result, "cases")
        .iter()
        .all(|case| policies.contains(&case["policy"].as_str().unwrap()));
    assert!(only, "{result:#}");
}

#[test]
fn policy_of_a_library_that_is_not_there_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = folder.path().join("compiler");
    // As on a machine without libck-dev.
    let script = "#!/bin/sh\ncase \"$*\" in\n*WITH_CK*) echo 'ck_pflock.h: No such file' >&2; \
                  exit 1;;\nesac\nexec cc \"$@\"\n";
    // The program itself by another process: what this one has open for writing is also open in
    // processes that other tests have just forked, and cannot be executed meanwhile.
    let text = folder.path().join("compiler.sh");
    std::fs::write(&text, script).unwrap();
    assert!(Command::new("cp").args([&text, &compiler]).status().unwrap().success());
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options =
        ["bench", "locks", "--threads", "1", "--policy", "default,ck", "--duration", "10ms"];
    let mut command = laboratory();
    command.env("CC", &compiler).args(options).args(["--repetitions", "1"]);
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let output = command.output().expect("keeptime starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = "\nck is left out: ck_pflock.h is not installed (package libck-dev)\n";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains(" ck "), "{text}");
    for table in ["mutex: ", "mutex-nested: ", "mutex-long: ", "mutex-launch: ", "rwlock-read: "] {
        assert!(text.contains(&format!("\n{table}")), "{table} is missing: {text}");
    }
    assert!(text.contains("\nFig. 12 of \"Autonomy Today\"") && text.contains("\nFig. 13 of"));
}

#[test]
fn guard_that_is_not_there_leaves_its_policies_out() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("nothing.so");
    let mut command = laboratory();
    command.env("KEEPTIME_PRELOAD", &library).env_remove("CC").args(["bench", "locks"]);
    command.args(["--threads", "1", "--policy", "default,fair"]).args(SHORT);
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let result = json(&command.output().expect("keeptime starts"));
    assert!(array(&result, "cases").iter().all(|case| case["policy"] == "default"));
    let why = result["left_out"]["mutex/fair/1"].as_str().expect("a reason");
    assert!(why.contains("nothing.so is not a file"), "{why}");
}
