//! The conformance suite on a device whose work is runs of models.

mod support;

use device::conformance::{self, CaseResult};
use device::{Device, Error, Status, kernels};
use device_onnx::{Config, Model};
use shm::memory::PeerSlice;
use std::time::Instant;
use support::{config, file};

#[test]
fn device_conforms() {
    let Some(config) = config() else { return };
    let device = device_onnx::start(&config).expect("the device starts");
    let report = conformance::run(device);
    println!("{report}");
    assert!(report.passed(), "\n{report}");
    // Only kernels that a device of models does not have may be missing.
    for case in &report.cases {
        if let CaseResult::Skipped(why) = &case.result {
            let expected = ["there is no kernel", "shares by levels", "copies were over"];
            assert!(expected.iter().any(|part| why.contains(part)), "{}: {why}", case.name);
        }
    }
}

#[test]
fn device_with_further_threads_and_a_model_conforms() {
    let Some(config) = config() else { return };
    let models = vec![Model::new("digits", file("examples/digits/model.onnx"))];
    let device = device_onnx::start(&Config { models, threads: 2, ..config }).unwrap();
    assert_eq!(device.properties().units, 1);
    // The thread names itself when it has started.
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
    };
    testing::until("its thread", || names().any(|name| name.trim() == "unit-helper"));
    let report = conformance::run(device);
    assert!(report.passed(), "\n{report}");
}

/// The suite's own case needs kernels that this device does not have.
#[test]
fn arguments_of_the_graphs_that_do_not_fit_are_refused() {
    let Some(config) = config() else { return };
    let device = device_onnx::start(&config).unwrap();
    let (input, output) = (support::memory(&[0; 24]), support::memory(&[0; 12]));
    let none = PeerSlice::empty();
    for (kernel, argument, input, output) in [
        ("vecadd", 4, &input, &output),
        ("vecadd", 3, &input, &input.slice(0, 11).unwrap()),
        ("vecadd", 3, &input.slice(0, 23).unwrap(), &output),
        ("vecadd", 1 << 61, &input, &output),
        ("vecadd", u64::MAX, &input, &output),
        ("busy", kernels::BUSY_MAX_NS + 1, &none, &none),
        ("busy", u64::MAX, &none, &none),
    ] {
        let refused = device.check(&support::order(&device, kernel, argument, input, output));
        let fits = matches!(refused, Err(Error::ShortBuffer { .. } | Error::BadArgument { .. }));
        assert!(fits, "{kernel} {argument}: {refused:?}");
    }
    let fits = support::order(&device, "vecadd", 3, &input, &output);
    assert_eq!(support::run(&device, fits).status, Status::Done);
}

#[test]
fn busy_takes_as_long_as_it_is_told_in_as_many_blocks() {
    let Some(times) = times_of_busy() else { return };
    println!("busy for 5000 us took {} us at least, {} us usually", times[0], times[10]);
    // A shared machine changes its speed meanwhile.
    assert!(times[0] > 500, "{times:?}");
}

/// A bound in time, for a machine without other work: `cargo xtask soak` runs it.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn busy_for_5_ms_takes_less_than_50() {
        let Some(times) = times_of_busy() else { return };
        assert!(times[0] < 50_000, "{times:?}");
    }
}

/// Times of requests to be busy for 5 ms, sorted, us.
fn times_of_busy() -> Option<Vec<u128>> {
    let device = device_onnx::start(&config()?).unwrap();
    let none = PeerSlice::empty();
    let mut times: Vec<u128> = (0..21)
        .map(|_| {
            let start = Instant::now();
            let busy = support::order(&device, "busy", 5_000_000, &none, &none);
            assert_eq!(support::run(&device, busy).status, Status::Done);
            start.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    assert_eq!(device.statistics().blocks, 21 * 50);
    Some(times)
}
