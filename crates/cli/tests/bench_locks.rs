//! Drives the real `keeptime bench locks`: what it prints, and that what it says was recorded is
//! in the recordings. How long anything took is not tested.

#[allow(dead_code)] // Other tests use more of it.
mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use support::{Folder, preload_library};

const OURS: [&str; 4] = ["bare", "forward", "contended", "full"];
const TOOLS: [&str; 2] = ["lttng", "uftrace"];
/// Held by tests that use LTTng: the daemon that one of them starts would be the other's too, and
/// end under it.
static DAEMON: Mutex<()> = Mutex::new(());

fn bench(path: Option<&Path>, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.env("KEEPTIME_PRELOAD", preload_library()).env_remove("LD_PRELOAD").env_remove("CC");
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.args(["bench", "locks"]).args(options).output().expect("keeptime starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A folder to be the search path, with a C compiler and these programs, as far as there are any.
fn path_with(folder: &Folder, programs: &[&str]) {
    let path = std::env::var_os("PATH").expect("a search path");
    for program in ["cc", "as", "ld", "true"].iter().chain(programs) {
        let found = std::env::split_paths(&path).map(|at| at.join(program)).find(|at| at.is_file());
        if let Some(found) = found {
            std::os::unix::fs::symlink(found, folder.0.join(program)).unwrap();
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
        let [least, median, most] = ["pair_ns_min", "pair_ns", "pair_ns_max"]
            .map(|key| row[key].as_f64().unwrap_or_else(|| panic!("{name} has no {key}")));
        assert!(0.0 < least && least <= median && median <= most, "{name}: {row:#}");
        assert!(row["added_ns_per_call"].is_f64(), "{name}: {row:#}");
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
            row["added_ns_per_record"].is_f64(),
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
    let folder = Folder::new();
    path_with(&folder, &[]);
    let options = ["--trace", "--repetitions", "1", "--pairs", "1000"];
    let result = json(&bench(Some(&folder.0), &[&options[..], &["--json"]].concat()));
    assert_eq!(keys(&result["variants"]), ["bare", "contended", "forward", "full"]);
    assert_eq!(keys(&result["left_out"]), TOOLS);
    for name in TOOLS {
        let reason = result["left_out"][name].as_str().unwrap();
        assert!(reason.contains("is not installed (package "), "{reason}");
    }
    let output = bench(Some(&folder.0), &options);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("\nlttng is left out: ") && text.contains("\nuftrace is left out: "),
        "{text}"
    );
}

#[test]
fn other_tables_come_when_asked_for() {
    let folder = Folder::new();
    path_with(&folder, &[]);
    let options = ["--trace", "--json", "--repetitions", "1", "--pairs", "20000"];
    let without = json(&bench(Some(&folder.0), &options));
    assert!(without["nested_reads"].is_null() && without["two_threads"].is_null());
    let result = json(&bench(Some(&folder.0), &[&options[..], &["--contended-run"]].concat()));
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
    let folder = Folder::new();
    let output = bench(Some(&folder.0), &["--trace"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cc does not start; set CC to a C compiler"), "{text}");
}

#[test]
fn wrong_options_are_refused() {
    for (options, expected) in [
        (&[][..], "--trace"),
        (&["--trace", "--pairs", "999"], "999 is not in 1000..=20000000"),
        (&["--trace", "--repetitions", "0"], "0 is not in 1..=1000"),
    ] {
        let output = bench(None, options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}
