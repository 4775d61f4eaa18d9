//! Drives the real `keeptime bench submission` and `keeptime bench preempt`: what they print and
//! write, and what they refuse. How long anything took is not tested.

mod support;

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use support::Folder;

/// Held by tests that measure: their threads of real-time priority keep others from the cores.
static CORES: Mutex<()> = Mutex::new(());

fn bench(arguments: &[&str]) -> Output {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.arg("bench").args(arguments).output().expect("keeptime starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn submission_is_measured_on_all_devices_and_every_result_is_right() {
    let folder = Folder::new();
    let out = folder.0.join("study");
    let sizes = ["--k", "1,2", "--l", "1,5", "--repetitions", "3", "--warm-up", "1"];
    let path = out.to_str().unwrap();
    let study = [&["submission", "--json", "--output", path], &sizes[..]].concat();
    let output = json(&bench(&study));
    let cases = output["cases"].as_array().unwrap();
    let of = |device: &str| cases.iter().filter(|case| case["accelerator"] == device).count();
    assert_eq!(of("cpu"), 4, "{output}");
    if std::env::var_os("ORT_DYLIB_PATH").is_some() {
        assert_eq!(of("onnx"), 4, "{output}");
    }
    if device_vulkan::devices().is_ok_and(|found| found.iter().any(|one| one.missing.is_none())) {
        assert_eq!(of("vulkan:0"), 4, "{output}");
    }
    for case in cases {
        assert_eq!(case["right"], true, "{case}");
        let median = |time: &str| case[format!("{time}_ns")]["median"].as_f64().unwrap();
        assert!(median("submission") <= median("completion"), "{case}");
    }
    for file in ["samples.parquet", "cases.json", "report.html", "report.pdf"] {
        assert!(fs::metadata(out.join(file)).is_ok_and(|file| file.len() > 1000), "{file}");
    }
}

#[test]
fn submission_says_what_it_cannot_measure() {
    let refused = |arguments: &[&str], expected: &str| {
        let output = bench(&[&["submission"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    };
    refused(&["--devices", "tpu"], "expected cpu, onnx, cuda:N or vulkan:N");
    refused(&["--devices", "vulkan:99"], "--devices vulkan:99: ");
    refused(&["--methods", "magic"], "expected one of streams, graph");
    refused(&["--k", "17"], "expected a number from 1 to 16");
    refused(&["--l", "0"], "expected a number from 1 to 4000");
    refused(&["--core", "4095"], "--core 4095: this process may use");
    refused(&["--devices", "cpu", "--methods", "graph"], "nothing could be measured");
}

#[test]
fn preemption_is_measured_in_three_ways() {
    let arguments = ["preempt", "--quick", "--json", "--kernels", "vecadd"];
    let output = json(&bench(&arguments));
    assert_eq!(output["device"], "cpu");
    let cases = output["cases"].as_array().unwrap();
    let ways: Vec<&Value> = cases.iter().map(|case| &case["way"]).collect();
    assert_eq!(ways, ["streams", "processes", "server"]);
    for case in cases {
        let count = |key: &str| case[key].as_u64().unwrap();
        assert!(count("met") > 0 && count("met") + count("missed") == 50, "{case}");
        assert!(case["delay"]["max_ns"].as_f64() >= case["delay"]["p50_ns"].as_f64(), "{case}");
    }
}

#[test]
fn preemption_of_an_unknown_device_is_refused() {
    let output = bench(&["preempt", "--device", "onnx"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("expected cpu, cuda:N or vulkan:N"), "{said}");
}
