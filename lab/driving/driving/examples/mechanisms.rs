//! Gains of COLA's mechanisms: paired drives of the same scenarios.
//!
//! `cargo run --release -p keeptime-driving --example mechanisms -- FACTOR SCENARIO...`: how much slower the
//! simulated cores are than this machine, and scenarios like `normal:7`. Each is driven by both
//! stacks, by one policy after the other.

use dataflow::trace::{Event, Point};
use dataflow::{Costs, ModuleStatistics};
use driving::drive::{self, DriveOutcome};
use driving::stack::{Features, Stack};
use std::collections::BTreeMap;
use std::process::ExitCode;
use world::Scenario;
use world::suite::{CORNER, NORMAL, corner, normal};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("mechanisms: {reason}");
            ExitCode::from(2)
        }
    }
}

const POLICIES: [&str; 5] = ["base", "fast", "proactive", "stealing", "all"];

fn features(policy: &str) -> Features {
    let base = Features::base;
    match policy {
        "fast" => Features { fast_path: true, ..base() },
        "proactive" => Features { proactive: true, ..base() },
        "stealing" => Features { stealing: true, ..base() },
        "all" => Features::all(),
        _ => base(),
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let factor = arguments.next().and_then(|text| text.parse().ok());
    let factor: f64 = factor.ok_or("FACTOR: expected a number")?;
    let scenarios: Vec<Scenario> =
        arguments.map(|name| scenario(&name)).collect::<Result<_, _>>()?;
    if scenarios.is_empty() {
        return Err("SCENARIO: found none, expected at least one".into());
    }
    for stack in [Stack::A, Stack::B] {
        let mut drives: BTreeMap<&str, Vec<Drive>> = BTreeMap::new();
        for scenario in &scenarios {
            for policy in POLICIES {
                let costs = Costs::Measured { factor };
                let outcome = drive::run(scenario, stack, &features(policy), costs);
                let drive = Drive::of(&outcome.map_err(|error| error.to_string())?);
                println!("{stack:?} {:<12} {policy:<9} {}", scenario.name, drive.line());
                drives.entry(policy).or_default().push(drive);
            }
        }
        for policy in POLICIES {
            println!("{stack:?} all scenarios, {policy}: {}", summary(&drives[policy]));
            compare(stack, policy, &drives["base"], &drives[policy]);
        }
    }
    Ok(())
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let (suite, index) = name.split_once(':').unwrap_or((name, ""));
    let (count, choose): (usize, fn(usize) -> Scenario) = match suite {
        "normal" => (NORMAL, normal),
        "corner" => (CORNER, corner),
        _ => return Err(format!("SCENARIO: found {name:?}, expected normal:N or corner:N")),
    };
    let index = index.parse().ok().filter(|index| *index < count);
    let index = index.ok_or(format!("{suite}: expected a number below {count}"))?;
    Ok(choose(index))
}

/// Results of one drive. Times in ms.
struct Drive {
    latencies: Vec<f64>,
    /// From start to end, of the runs of each module.
    spans: [Vec<f64>; 5],
    /// Mean time on cores, of each module.
    service: [f64; 5],
    pieces: [(u64, u64); 5],
    /// Share of the time in which the cores of the perception, prediction, planning and control
    /// groups were busy.
    busy: [f64; 4],
    guest_ms: f64,
    violations: u64,
    overruns: u64,
    admitted: u64,
    denied: u64,
    dangerous: f64,
    collisions: usize,
}

impl Drive {
    fn of(outcome: &DriveOutcome) -> Drive {
        let modules = &outcome.statistics.modules;
        let each = |of: fn(&ModuleStatistics) -> f64| std::array::from_fn(|at| of(&modules[at]));
        let groups = &outcome.statistics.groups;
        let sum = |of: fn(&dataflow::GroupStatistics) -> u64| groups.iter().map(of).sum::<u64>();
        let cores = [2.0, 2.0, 2.0, 1.0];
        let busy = std::array::from_fn(|at| {
            let group = &groups[at];
            let ns = group.host_ns + group.guest_ns + group.ahead_ns;
            ns as f64 / 1e9 / outcome.driven / cores[at]
        });
        Drive {
            latencies: outcome.frames.iter().map(|frame| 1e3 * frame.latency).collect(),
            spans: spans(&outcome.events),
            service: each(|module| {
                let runs = module.normal + module.fast + module.cancelled;
                module.service_ns as f64 / 1e6 / runs.max(1) as f64
            }),
            pieces: std::array::from_fn(|at| (modules[at].pieces_as_guest, modules[at].pieces)),
            busy,
            guest_ms: sum(|group| group.guest_ns) as f64 / 1e6,
            violations: sum(|group| group.violations),
            overruns: sum(|group| group.overruns),
            admitted: sum(|group| group.admitted),
            denied: sum(|group| group.denied),
            dangerous: outcome.violations.seconds(),
            collisions: outcome.collisions.len(),
        }
    }

    fn line(&self) -> String {
        let pieces: Vec<String> =
            self.pieces[..4].iter().map(|(guests, all)| format!("{guests}/{all}")).collect();
        let late: Vec<usize> =
            (0..self.latencies.len()).filter(|at| self.latencies[*at] > 125.0).collect();
        format!(
            "latency {:.1} p99.9 {:.1} max {:.1}, late {} {:?} | seg {:.1} track {:.2} pred {:.2} \
             plan {:.1} | guests {} {} admitted, {} denied, {} overruns, {} violations | {:.1} s, {}",
            mean(&self.latencies),
            quantile(&self.latencies, 0.999),
            quantile(&self.latencies, 1.0),
            late.len(),
            &late[..late.len().min(6)],
            self.service[0],
            self.service[1],
            self.service[2],
            self.service[3],
            pieces.join(" "),
            self.admitted,
            self.denied,
            self.overruns,
            self.violations,
            self.dangerous,
            self.collisions,
        )
    }
}

/// From the start of each run to its end, by module.
fn spans(events: &[Event]) -> [Vec<f64>; 5] {
    let mut spans: [Vec<f64>; 5] = Default::default();
    let mut begun = BTreeMap::new();
    for event in events {
        match event.point {
            Point::Start { module: Some(module), .. } => {
                begun.insert(event.job, (module.index(), event.at_ns));
            }
            Point::End { .. } => {
                if let Some((module, start_ns)) = begun.remove(&event.job) {
                    spans[module].push((event.at_ns - start_ns) as f64 / 1e6);
                }
            }
            _ => {}
        }
    }
    spans
}

fn summary(drives: &[Drive]) -> String {
    let all: Vec<f64> = drives.iter().flat_map(|drive| drive.latencies.clone()).collect();
    let late = all.iter().filter(|latency| **latency > 125.0).count();
    let span = |module: usize| {
        let all: Vec<f64> = drives.iter().flat_map(|drive| drive.spans[module].clone()).collect();
        format!("{:.2} (p99.9 {:.1})", mean(&all), quantile(&all, 0.999))
    };
    let busy = |group: usize| {
        100.0 * drives.iter().map(|drive| drive.busy[group]).sum::<f64>() / drives.len() as f64
    };
    let total = (2.0 * (busy(0) + busy(1) + busy(2)) + busy(3)) / 7.0;
    format!(
        "latency mean {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} ms; over 125 ms {late} of {} | spans: \
         segmentation {}, prediction {}, planning {}, control {} ms | busy: perception {:.2}, \
         prediction {:.2}, planning {:.2}, control {:.2}, all {total:.2} % | guests {:.0} ms, {} \
         overruns, {} violations | dangerous {:.1} s, {} collisions",
        mean(&all),
        quantile(&all, 0.99),
        quantile(&all, 0.999),
        quantile(&all, 1.0),
        all.len(),
        span(0),
        span(2),
        span(3),
        span(4),
        busy(0),
        busy(1),
        busy(2),
        busy(3),
        drives.iter().map(|drive| drive.guest_ms).sum::<f64>(),
        drives.iter().map(|drive| drive.overruns).sum::<u64>(),
        drives.iter().map(|drive| drive.violations).sum::<u64>(),
        drives.iter().map(|drive| drive.dangerous).sum::<f64>(),
        drives.iter().map(|drive| drive.collisions).sum::<usize>(),
    )
}

/// Ratio of base's times to those of `policy`, scenario by scenario: median, least, greatest.
fn compare(stack: Stack, policy: &str, base: &[Drive], other: &[Drive]) {
    let ratio = |what: &str, of: &dyn Fn(&Drive) -> f64| {
        let pairs = base.iter().zip(other);
        let ratios: Vec<f64> = pairs.map(|(base, other)| of(base) / of(other)).collect();
        let [low, middle, high] = [0.0, 0.5, 1.0].map(|share| quantile(&ratios, share));
        println!("{stack:?}   base / {policy}, {what}: {middle:.2} ({low:.2} to {high:.2})");
    };
    ratio("mean latency", &|drive| mean(&drive.latencies));
    ratio("greatest latency", &|drive| quantile(&drive.latencies, 1.0));
    ratio("prediction's time on cores", &|drive| drive.service[2]);
    ratio("prediction from start to end", &|drive| mean(&drive.spans[2]));
    ratio("segmentation from start to end", &|drive| mean(&drive.spans[0]));
    ratio("segmentation's p99 from start to end", &|drive| quantile(&drive.spans[0], 0.99));
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.max(1) - 1).copied().unwrap_or(f64::NAN)
}
