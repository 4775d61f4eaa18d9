//! Measured execution times: what `keeptime calibrate` writes and the server reads.
//!
//! A calibration belongs to one machine and to the services as they were configured when it was
//! made. Where the processor, the kernel of a service or its arguments are others now, its numbers
//! are about something else, and it is refused.
//!
//! The largest time that was measured is not the largest there can be. It is counted as such,
//! times a margin, for a service without a declared execution time; a client that knows better
//! declares.

use crate::Error;
use realtime::machine;
use serde::{Deserialize, Serialize};
use std::path::Path;
use system::{Service, System};

/// Name of the file's format.
const SCHEMA: &str = "keeptime.calibration";
/// Version of the file.
const VERSION: u32 = 1;
/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;
/// The largest margin: above it, something else is wrong.
pub const MAX_MARGIN: f64 = 100.0;

/// Measured times of a service, margin included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub least_ns: u64,
    pub most_ns: u64,
    /// The most that the device has counted as the run of one request.
    pub busy_ns: u64,
}

/// Execution times of services, measured on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    schema: String,
    version: u32,
    /// The processor's name.
    pub machine: String,
    /// The operating system's release.
    pub kernel: String,
    /// Date of the measurement.
    pub date: String,
    /// True if the server's and the devices' threads had their real-time priority.
    pub realtime: bool,
    /// Factor by which measured maxima are multiplied.
    pub margin: f64,
    /// The services.
    pub services: Vec<ServiceTimes>,
    /// Services that were to be measured, too, when the measurement was interrupted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<String>,
    /// Overheads of requests, by accelerator.
    pub overheads: Vec<Overheads>,
}

/// Times of one service, measured alone on its accelerator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTimes {
    /// Its name.
    pub name: String,
    /// Its accelerator.
    pub accelerator: String,
    /// Name that the device gives itself.
    pub device: String,
    /// Kernel that it runs.
    pub kernel: String,
    /// The arguments that the configuration fixes.
    pub fixed_arguments: Vec<u64>,
    /// All arguments that it was measured with.
    pub arguments: [u64; 4],
    /// Bytes of input that it was measured with.
    pub input_bytes: u64,
    /// Bytes of output that it was measured with.
    pub output_bytes: u64,
    /// Requests that were measured.
    pub count: u64,
    /// Times from the beginning of the first block to the end of the last one.
    pub exec: Distribution,
    /// The most that the device counted as running, summed over its units.
    pub busy_max_ns: u64,
}

/// Overheads of requests on one accelerator: their cost besides the time that they run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// The accelerator.
    pub accelerator: String,
    /// While they occupy their bucket: what `sigma` of the system file must cover.
    pub sigma: Occupancy,
    /// Times from the client's submission until the client runs on, without the run itself: what
    /// `sigma` and `epsilon` must cover together.
    pub overhead: Distribution,
}

/// Statistics, measured by the server, of requests that had the device for themselves. The
/// percentiles are upper edges of a histogram, the maximum is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occupancy {
    /// Requests that were measured.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// Order statistics by nearest rank. The maximum is that of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The smallest sample.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The largest sample.
    pub max_ns: u64,
}

impl Distribution {
    /// Distribution of samples in any order; None where there are none.
    pub fn of(samples: &[u64]) -> Option<Distribution> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let rank = |permille: usize| sorted[(sorted.len() * permille).div_ceil(1000).max(1) - 1];
        let (min_ns, max_ns) = (*sorted.first()?, *sorted.last()?);
        Some(Distribution {
            min_ns,
            p50_ns: rank(500),
            p99_ns: rank(990),
            p999_ns: rank(999),
            max_ns,
        })
    }
}

impl Calibration {
    /// A calibration of this machine, made at this date.
    pub fn new(date: String, margin: f64) -> Calibration {
        Calibration {
            schema: SCHEMA.into(),
            version: VERSION,
            machine: machine::core_model(),
            kernel: machine::kernel_release(),
            date,
            realtime: false,
            margin,
            services: Vec::new(),
            unmeasured: Vec::new(),
            overheads: Vec::new(),
        }
    }

    /// Reads the calibration of a system on this machine.
    ///
    /// # Errors
    /// [`Error::Calibration`] says what the file has and what was expected.
    pub fn read(path: &Path, system: &System) -> Result<Calibration, Error> {
        let refused = |reason: String| Error::Calibration { path: path.into(), reason };
        let text = files::text(path, MAX_BYTES).map_err(|error| refused(error.to_string()))?;
        let calibration = Calibration::parse(&text).map_err(refused)?;
        calibration.check(system, &machine::core_model()).map_err(refused)?;
        Ok(calibration)
    }

    fn parse(text: &str) -> Result<Calibration, String> {
        let again = "expected a file that keeptime calibrate has written";
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("not JSON: {error}; {again}"))?;
        match (value["schema"].as_str(), value["version"].as_u64()) {
            (Some(SCHEMA), Some(version)) if version == u64::from(VERSION) => {}
            (Some(SCHEMA), version) => {
                let found = version.map_or("no version".into(), |v| format!("version {v}"));
                return Err(format!("found {found}, expected version {VERSION}"));
            }
            _ => return Err(format!("found another format; {again}")),
        }
        serde_json::from_value(value).map_err(|error| format!("{error}; {again}"))
    }

    /// Checks that it is about this system on this machine.
    fn check(&self, system: &System, machine: &str) -> Result<(), String> {
        if self.machine != machine {
            return Err(format!(
                "measured on {:?}, this machine is {machine:?}: run keeptime calibrate here",
                self.machine
            ));
        }
        if !(1.0..=MAX_MARGIN).contains(&self.margin) {
            return Err(format!("margin {}: expected 1 to {MAX_MARGIN}", self.margin));
        }
        for times in &self.services {
            let Some(service) = system.service(&times.name) else {
                return Err(format!(
                    "service {:?}: {} has none of that name",
                    times.name, system.name
                ));
            };
            times.check(service)?;
        }
        Ok(())
    }

    /// The times of a service, with the margin.
    pub(crate) fn measured(&self, service: &str) -> Option<Measured> {
        let times = self.services.iter().find(|times| times.name == service)?;
        // Between 1 and 100 times a time that was measured: far from the end of the range.
        let more = |ns: u64| (ns as f64 * self.margin).ceil() as u64;
        Some(Measured {
            least_ns: times.exec.min_ns,
            most_ns: more(times.exec.max_ns),
            busy_ns: more(times.busy_max_ns.max(times.exec.max_ns)),
        })
    }
}

impl ServiceTimes {
    fn check(&self, service: &Service) -> Result<(), String> {
        let name = &self.name;
        let differs = |what: &str, found: &dyn std::fmt::Debug, now: &dyn std::fmt::Debug| {
            Err(format!(
                "service {name:?} was measured with {what} {found:?}, the configuration says {now:?}: \
                 run keeptime calibrate again"
            ))
        };
        if self.accelerator != service.accelerator {
            return differs("accelerator", &self.accelerator, &service.accelerator);
        }
        if self.kernel != service.kernel {
            return differs("kernel", &self.kernel, &service.kernel);
        }
        if self.fixed_arguments != service.arguments {
            return differs("arguments", &self.fixed_arguments, &service.arguments);
        }
        if self.exec.max_ns == 0 || self.exec.min_ns > self.exec.max_ns {
            let (min, max) = (self.exec.min_ns, self.exec.max_ns);
            return Err(format!("service {name:?}: {min} to {max} ns is no range of times"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "
accelerators: [{id: gpu0, buckets: 1}]
services: [{name: nap, accelerator: gpu0, kernel: busy, arguments: [7]}]";

    fn system() -> System {
        System::parse(YAML, "robot.yaml").unwrap()
    }

    fn calibration() -> Calibration {
        let exec = Distribution::of(&[10, 30, 20]).unwrap();
        Calibration {
            services: vec![ServiceTimes {
                name: "nap".into(),
                accelerator: "gpu0".into(),
                device: "a device".into(),
                kernel: "busy".into(),
                fixed_arguments: vec![7],
                arguments: [7, 0, 0, 0],
                input_bytes: 0,
                output_bytes: 0,
                count: 3,
                exec,
                busy_max_ns: 55,
            }],
            ..Calibration::new("2026-01-01T00:00:00Z".into(), 1.5)
        }
    }

    #[test]
    fn times_come_back_with_their_margin() {
        let text = serde_json::to_string(&calibration()).unwrap();
        let calibration = Calibration::parse(&text).unwrap();
        calibration.check(&system(), &machine::core_model()).unwrap();
        let measured = calibration.measured("nap");
        assert_eq!(measured, Some(Measured { least_ns: 10, most_ns: 45, busy_ns: 83 }));
        assert_eq!(calibration.measured("other"), None);
    }

    #[test]
    fn foreign_files_are_refused_in_words() {
        let good = serde_json::to_value(calibration()).unwrap();
        let parsed = |change: fn(&mut serde_json::Value)| {
            let mut value = good.clone();
            change(&mut value);
            let parsed = Calibration::parse(&value.to_string());
            parsed.and_then(|c| c.check(&system(), &machine::core_model())).unwrap_err()
        };
        assert!(Calibration::parse("nonsense").unwrap_err().starts_with("not JSON"));
        assert!(Calibration::parse("[1, 2]").unwrap_err().starts_with("found another format"));
        type Case = (&'static str, fn(&mut serde_json::Value));
        let cases: [Case; 9] = [
            ("found another format", |v| v["schema"] = "x".into()),
            ("found version 9, expected version 1", |v| v["version"] = 9.into()),
            ("unknown field `more`", |v| v["more"] = 9.into()),
            ("measured on \"Z80\", this machine is", |v| v["machine"] = "Z80".into()),
            ("margin 0.5: expected 1 to 100", |v| v["margin"] = 0.5.into()),
            ("service \"other\": robot.yaml has none of that name", |v| {
                v["services"][0]["name"] = "other".into();
            }),
            ("measured with arguments [8], the configuration says [7]", |v| {
                v["services"][0]["fixed_arguments"][0] = 8.into();
            }),
            ("measured with kernel \"empty\", the configuration says \"busy\"", |v| {
                v["services"][0]["kernel"] = "empty".into();
            }),
            ("10 to 0 ns is no range", |v| v["services"][0]["exec"]["max_ns"] = 0.into()),
        ];
        for (expected, change) in cases {
            let said = parsed(change);
            assert!(said.contains(expected), "{said}, not {expected}");
        }
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let samples: Vec<u64> = (1..=1000).rev().collect();
        let d = Distribution::of(&samples).unwrap();
        assert_eq!((d.min_ns, d.p50_ns, d.p99_ns, d.p999_ns, d.max_ns), (1, 500, 990, 999, 1000));
        assert_eq!(Distribution::of(&[]), None);
    }
}
