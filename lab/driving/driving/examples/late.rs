//! Late frames, and where their time went.
//!
//! `cargo run --release -p keeptime-driving --example late -- FACTOR POLICY STACK SCENARIO...`: how much
//! slower the simulated cores are than this machine, a policy like `all`, `a`, `b` or `both`, and
//! scenarios like `normal:7100`. For each frame that led to no command within 125 ms, the runs of
//! the critical path: after how long each began, what else its module did meanwhile, and for how long
//! it had a core and had none; ms.

use dataflow::Path;
use dataflow::trace::{Point, Reaction, Reactions, RunEnd as End};
use driving::Policy;
use driving::drive::{self, DriveOutcome, Frame};
use driving::runs::{Run, runs};
use driving::stack::Stack;
use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;
use world::Scenario;
use world::suite::{NORMAL, Set, normal};

const DEADLINE: f64 = 0.125;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("late: {reason}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let factor = arguments.next().and_then(|text| text.parse().ok());
    let factor: f64 = factor.ok_or("FACTOR: expected a number")?;
    let policy: Policy = arguments.next().unwrap_or_default().parse()?;
    let stacks: &[Stack] = match arguments.next().as_deref() {
        Some("a") => &[Stack::A],
        Some("b") => &[Stack::B],
        Some("both") => &[Stack::A, Stack::B],
        other => return Err(format!("STACK: found {other:?}, expected a, b or both")),
    };
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for name in arguments {
        let scenario = scenario(&name)?;
        for stack in stacks {
            let outcome = drive::run(&scenario, *stack, &policy.features(), policy.costs(factor));
            let outcome = outcome.map_err(|error| error.to_string())?;
            let sum = Sum::of(&outcome);
            for (latency, what) in &sum.late {
                println!("{stack:?} {name} {latency:.1}: {what}");
            }
            println!("{stack:?} {name} {}", sum.line());
            sums.entry(format!("{stack:?}")).or_default().add(sum);
        }
    }
    for (stack, sum) in sums {
        println!("{stack} all, {policy}: {}", sum.line());
    }
    Ok(())
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let (suite, index) = name.split_once(':').unwrap_or((name, ""));
    let index: usize = index.parse().map_err(|_| format!("{name}: expected a number"))?;
    match suite {
        "normal" if index < NORMAL => Ok(normal(index)),
        "develop" => Ok(Set::Develop.case(index)),
        _ => Err(format!("{name}: expected normal:N below {NORMAL}, or develop:N")),
    }
}

/// Results of several drives.
#[derive(Default)]
struct Sum {
    /// Of all frames, s, and those on a fast path.
    latencies: Vec<f64>,
    fast: usize,
    fast_late: usize,
    late: Vec<(f64, String)>,
    unanswered: usize,
    runs: BTreeMap<String, [u64; 2]>,
    dangerous: f64,
    progress: f64,
    collisions: usize,
}

impl Sum {
    fn of(outcome: &DriveOutcome) -> Sum {
        let all = runs(&outcome.events);
        let fast: HashSet<u64> =
            all.iter().filter(|run| run.path == Path::Fast).map(|run| run.frame).collect();
        let reactions = Reactions::new(&outcome.events);
        let lidar = outcome.events.iter().find_map(|event| match event.point {
            Point::Injected { source, .. } if source.index() == usize::from(outcome.scans) => {
                Some(source)
            }
            _ => None,
        });
        let is_late = |frame: &&Frame| frame.latency > DEADLINE;
        let eligible = outcome.frames.iter().filter(|frame| fast.contains(&frame.number));
        let late = outcome.frames.iter().filter(is_late).map(|frame| {
            let captured_ns = (1e9 * frame.captured).round() as u64;
            let way = lidar.and_then(|lidar| reactions.first(lidar, captured_ns, |_| true));
            (1e3 * frame.latency, way.map_or(String::new(), |way| told(outcome, &all, &way)))
        });
        let late = late.collect();
        let modules = outcome.statistics.modules.iter();
        Sum {
            latencies: outcome.frames.iter().map(|frame| frame.latency).collect(),
            fast: eligible.clone().count(),
            fast_late: eligible.filter(is_late).count(),
            late,
            unanswered: outcome.unanswered,
            runs: modules.map(|it| (it.name.clone(), [it.normal, it.fast])).collect(),
            dangerous: outcome.violations.seconds(),
            progress: outcome.progress,
            collisions: outcome.collisions.len(),
        }
    }

    fn add(&mut self, other: Sum) {
        self.latencies.extend(other.latencies);
        self.fast += other.fast;
        self.fast_late += other.fast_late;
        self.late.extend(other.late);
        self.unanswered += other.unanswered;
        for (name, [normal, fast]) in other.runs {
            let runs = self.runs.entry(name).or_default();
            *runs = [runs[0] + normal, runs[1] + fast];
        }
        self.dangerous += other.dangerous;
        self.progress += other.progress;
        self.collisions += other.collisions;
    }

    fn line(&self) -> String {
        let mut sorted = self.latencies.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let quantile = |share: f64| {
            let place = (share * count as f64).ceil().max(1.0) as usize;
            1e3 * sorted.get(place - 1).copied().unwrap_or(f64::NAN)
        };
        let late = self.late.len();
        let runs = |name: &str| self.runs.get(name).map_or([0, 0], |runs| *runs);
        let ([a, b], [c, d]) = (runs("prediction"), runs("planning"));
        format!(
            "{count} frames, {} unanswered, {late} late; {} fast, {} late ({:.2} %); mean {:.1} \
             p50 {:.1} p99 {:.1} p99.9 {:.1} max {:.1} | normal/fast prediction {a}/{b} planning \
             {c}/{d} | danger {:.1} s, {:.0} m, {} collisions",
            self.unanswered,
            self.fast,
            self.fast_late,
            100.0 * self.fast_late as f64 / self.fast.max(1) as f64,
            1e3 * sorted.iter().sum::<f64>() / count.max(1) as f64,
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            quantile(1.0),
            self.dangerous,
            self.progress,
            self.collisions,
        )
    }
}

fn told(outcome: &DriveOutcome, runs: &[Run], way: &Reaction) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let steps = way.steps.iter().map(|step| {
        let module = &outcome.names.modules[step.module.index()];
        let of = runs.iter().filter(|run| run.module == Some(step.module.index()));
        let fast = of.clone().any(|run| run.job == step.job && run.path == Path::Fast);
        let fast = if fast { " fast" } else { "" };
        // Other runs of the module that ended meanwhile.
        let before = of.filter(|run| (step.ready_ns..=step.start_ns).contains(&run.end_ns));
        let before = before.map(|run| {
            let what = if run.outcome == End::Cancelled { "cancelled" } else { "other" };
            format!(" ({what} {:.1} to {:.1})", ms(run.start_ns) % 1e3, ms(run.end_ns) % 1e3)
        });
        let (before, took): (String, f64) = (before.collect(), ms(step.module_ns));
        let waited = format!("{:.1}{before} {module}{fast}", ms(step.waited_ns));
        format!("{waited} {took:.1}+{:.1}", ms(step.preempted_ns))
    });
    let steps: Vec<String> = steps.collect();
    let from = ms(way.hazard_ns) % 1e3;
    let sensor = ms(way.sensor_ns);
    format!("at {from:.0} sensor {sensor:.0} | frame {} {}", way.frame, steps.join(" | "))
}
