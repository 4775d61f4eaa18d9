//! The conformance suite on the software accelerator, in its ways to share.

use device::conformance::{self, CaseResult};
use device::software::{Config, Sharing, SoftwareDevice};
use realtime::work::Calibration;

/// The length of calibrated work does not matter here, so nothing is measured.
fn config() -> Config {
    let calibration = Calibration { iterations_per_us: 300.0, spread: 0.0 };
    Config { calibration: Some(calibration), ..Config::default() }
}

/// A core for each unit; the same one again where there are not enough.
fn cores(units: usize) -> Vec<usize> {
    realtime::thread::cores().into_iter().cycle().take(units).collect()
}

fn conforms(config: Config) -> usize {
    let device = SoftwareDevice::on_cores(config).expect("the device starts");
    let report = conformance::run(device);
    println!("{report}");
    assert!(report.passed(), "\n{report}");
    assert_eq!(report.without_kernel().count(), 0, "\n{report}");
    report.cases.iter().filter(|case| case.result == CaseResult::Passed).count()
}

#[test]
fn device_with_one_unit_conforms() {
    conforms(Config { cores: cores(1), ..config() });
}

#[test]
fn device_with_two_units_conforms() {
    conforms(Config { cores: cores(2), ..config() });
}

#[test]
fn device_with_more_units_than_cores_conforms() {
    conforms(Config { cores: cores(5), copy_core: Some(cores(1)[0]), ..config() });
}

#[test]
fn device_with_time_slices_conforms() {
    let sharing = Sharing::TimeSlice { slice_ns: 1_000_000 };
    let one = conforms(Config { sharing, ..config() });
    let two = conforms(Config { sharing, cores: cores(2), ..config() });
    assert_eq!(one, two);
}
