//! The conformance suite on every Vulkan device that can be used.

mod support;

use device::conformance::{self, CaseResult};
use device::hosted::{Sharing, Unit};
use device_vulkan::Config;
use support::{config, usable};

fn conforms(what: &str, config: Config) {
    let device = device_vulkan::start(config).expect("the device starts");
    println!("{}, {what}:", device::Device::properties(&*device).name);
    let report = conformance::run(device);
    println!("{report}");
    assert!(report.passed(), "\n{report}");
    let count = |wanted: fn(&CaseResult) -> bool| {
        report.cases.iter().filter(|case| wanted(&case.result)).count()
    };
    let passed = count(|result| *result == CaseResult::Passed);
    let skipped = count(|result| matches!(result, CaseResult::Skipped(_)));
    println!("{passed} passed, {skipped} skipped\n");
    // Most of it applies to every device.
    assert!(passed > skipped);
}

#[test]
fn every_device_with_one_unit_conforms() {
    for found in usable() {
        conforms("one unit", Config { units: vec![Unit::default()], ..config(&found) });
    }
}

#[test]
fn every_device_that_copies_its_clients_memory_conforms() {
    for found in usable() {
        conforms("copies", Config { import: false, ..config(&found) });
    }
}

#[test]
fn every_device_with_two_units_that_spin_conforms() {
    for found in usable() {
        let units = vec![Unit::default(); 2];
        conforms("two units, spinning", Config { units, spin: true, ..config(&found) });
    }
}

#[test]
fn every_device_with_time_slices_conforms() {
    for found in usable() {
        let sharing = Sharing::TimeSlice { slice_ns: 1_000_000 };
        let units = vec![Unit::default()];
        conforms("time slices", Config { sharing, units, ..config(&found) });
    }
}
