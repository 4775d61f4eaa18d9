//! The conformance suite on a device whose work is runs of models.

mod common;

use common::{config, file};
use device::conformance::{self, CaseResult};
use device::{Device, Error, Status, kernels};
use device_onnx::{Config, Model};
use shm::memory::PeerSlice;
use std::time::Instant;

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
    let start = Instant::now();
    while !names().any(|name| name.trim() == "unit-helper") {
        assert!(start.elapsed().as_secs() < 60, "{:?}", names().collect::<Vec<_>>());
        std::thread::yield_now();
    }
    let report = conformance::run(device);
    assert!(report.passed(), "\n{report}");
}

/// The suite's own case needs kernels that this device does not have.
#[test]
fn arguments_of_the_graphs_that_do_not_fit_are_refused() {
    let Some(config) = config() else { return };
    let device = device_onnx::start(&config).unwrap();
    let (input, output) = (common::memory(&[0; 24]), common::memory(&[0; 12]));
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
        let refused = device.check(&common::order(&device, kernel, argument, input, output));
        let fits = matches!(refused, Err(Error::ShortBuffer { .. } | Error::BadArgument { .. }));
        assert!(fits, "{kernel} {argument}: {refused:?}");
    }
    let fits = common::order(&device, "vecadd", 3, &input, &output);
    assert_eq!(common::run(&device, fits).status, Status::Done);
}

/// The time is not checked closely: a shared machine changes its speed meanwhile.
#[test]
fn busy_takes_about_as_long_as_it_is_told() {
    let Some(config) = config() else { return };
    let device = device_onnx::start(&config).unwrap();
    let none = PeerSlice::empty();
    let mut times: Vec<u128> = (0..21)
        .map(|_| {
            let start = Instant::now();
            let busy = common::order(&device, "busy", 5_000_000, &none, &none);
            assert_eq!(common::run(&device, busy).status, Status::Done);
            start.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    println!("busy for 5000 us took {} us at least, {} us usually", times[0], times[10]);
    assert!(times[0] > 500, "{times:?}");
    assert!(times[0] < 50_000, "{times:?}");
    assert_eq!(device.statistics().blocks, 21 * 50);
}
