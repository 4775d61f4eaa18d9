//! Drives the real `keeptime-lab bench submission` and `keeptime-lab bench preempt`: what they print and
//! write, and what they refuse. How long anything took is not tested.

mod program;

use program::laboratory;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Held by tests that measure: their threads of real-time priority keep others from the cores.
static CORES: Mutex<()> = Mutex::new(());

fn bench(arguments: &[&str]) -> Output {
    bench_with(arguments, &[])
}

fn bench_with(arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = laboratory();
    command.envs(variables.iter().copied());
    command.arg("bench").args(arguments).output().expect("keeptime starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    testing::result::of(output)
}

#[test]
fn submission_is_measured_on_all_devices_and_every_result_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("study");
    let sizes = ["--k", "1,2", "--l", "1,5", "--repetitions", "3", "--warm-up", "1"];
    let path = out.to_str().unwrap();
    let study = [&["submission", "--json", "--out", path], &sizes[..]].concat();
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
    for file in ["samples.parquet", "cases.json", "report.html"] {
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
fn preemption_is_measured_in_all_ways_that_the_device_has() {
    let arguments = ["preempt", "--quick", "--json", "--kernels", "vecadd"];
    let output = json(&bench(&arguments));
    assert_eq!(output["device"], "cpu");
    let cases = output["cases"].as_array().unwrap();
    let ways: Vec<&Value> = cases.iter().map(|case| &case["way"]).collect();
    assert_eq!(ways, ["streams", "processes", "server"]);
    cases.iter().for_each(measured);
    // Its kernels are given out in blocks anyway.
    assert_eq!(output["missing"][0]["way"], "sliced");
    let nothing = bench(&["preempt", "--quick", "--ways", "sliced"]);
    assert_eq!(nothing.status.code(), Some(2));
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(said.contains("cpu always runs kernels in slices"), "{said}");
}

/// Fifty iterations, in some of which the less urgent kernel ran, and numbers that can be.
fn measured(case: &Value) {
    let count = |key: &str| case[key].as_u64().unwrap();
    assert!(count("met") > 0 && count("met") + count("missed") == 50, "{case}");
    assert!(case["delay"]["max_ns"].as_f64() >= case["delay"]["p50_ns"].as_f64(), "{case}");
}

/// On a driver that computes on processor cores (examples/late-launch).
#[test]
fn preemption_is_measured_with_and_without_slices_on_the_fake_driver() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/late-launch");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("late-launch");
    let make = Command::new("make")
        .args(["-s", "-C", examples, &format!("BUILD={}", build.display())])
        .arg(build.join("libcuda.so.1"))
        .status()
        .expect("make starts");
    assert!(make.success(), "the fake driver cannot be built");
    let options = ["--device", "cuda:0", "--ways", "server,sliced", "--kernels", "reduce,vecadd"];
    let arguments = [&["preempt", "--quick", "--json", "--slices", "4"], &options[..]].concat();
    let output = json(&bench_with(&arguments, &[("LD_LIBRARY_PATH", build.as_path())]));
    let cases = output["cases"].as_array().unwrap();
    cases.iter().for_each(measured);
    let blocks = |way: &str| {
        let of = cases.iter().filter(|case| case["way"] == way);
        of.map(|case| case["blocks_per_slice"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(blocks("server"), [None, None]);
    // A million numbers are 128 blocks of one kernel, half a million sums 2048 of the other.
    assert_eq!(blocks("sliced"), [Some(32), Some(512)]);
    assert_eq!(output["missing"].as_array().unwrap().len(), 0);
}

#[test]
fn preemption_of_an_unknown_device_is_refused() {
    let output = bench(&["preempt", "--device", "onnx"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("expected cpu, cuda:N or vulkan:N"), "{said}");
}
