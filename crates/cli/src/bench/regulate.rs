//! `keeptime bench regulate`: the regulator by itself, without an accelerator.
//!
//! - How long after the lock is taken it takes effect on a core, and what taking it costs, when the
//!   core's thread sleeps and when it lingers.
//! - Document 001's section IV-C-4: a regulated core runs a memory-bound and a compute-bound task of
//!   equal weight; who has how many of the periods, and for how long the core is stopped, under the
//!   default scheduler and with rho 1 and 3. The memory-bound task takes fresh memory all the time,
//!   and its traffic is counted as page faults, which every machine can count.
//!
//! The rules take turns, so that what disturbs the machine disturbs all of them.

mod effect;
mod outcome;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bandwidth::regulator::{
    Budget, Config, Load, Managed, Regulator, SoftwareEvent, Statistics, ThreadStatistics,
};
use outcome::{Case, Outcome, Run};
use realtime::machine;

use crate::regulate::load::Running;

/// How far into a period the memory-bound task is stopped: for the shares of periods, which
/// document 001 gives as 3 to 1, and for the stopped time (section VI-E), whose budgets were small.
const FRACTIONS: [f64; 2] = [1.0 / 3.0, 1.0 / 6.0];
const RULES: [Option<f64>; 3] = [None, Some(1.0), Some(3.0)];
/// More page faults than a period can have.
const PLENTY: u64 = 1 << 40;
/// How often a budget is corrected by what it did.
const CORRECTIONS: usize = 3;
/// What a run of the search for a budget takes.
const TRIAL: Duration = Duration::from_millis(500);
/// How long both tasks may take to be managed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of `keeptime bench regulate`.
#[derive(clap::Args)]
pub struct Args {
    /// The core that is regulated; without it the last
    #[arg(long)]
    core: Option<usize>,
    /// The regulator's period
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = crate::regulate::parse_time)]
    period: Duration,
    /// How long each rule is measured in each round
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::regulate::parse_time)]
    duration: Duration,
    /// Rounds, in each of which all rules have their turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How often the lock is taken to see when it takes effect
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    takings: u32,
    /// Fail if shares or stopped time are not as document 001 reports them
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write it as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = machine::online_cores();
    let core = args.core.or(cores.last().copied()).context("no core is online")?;
    let others: Vec<_> = cores.iter().copied().filter(|other| *other != core).collect();
    ensure!(
        cores.contains(&core) && !others.is_empty(),
        "--core {core}: expected one of {cores:?}, which have to be two or more"
    );
    realtime::thread::pin(&others)?;
    let folder = tempfile::tempdir().context("a folder for the socket")?;
    let bench = Bench { core, period: args.period, folder };
    let effects = effect::measure(&bench, args.takings)?;
    let mut cases = Vec::new();
    for fraction in FRACTIONS {
        let budget = bench.budget(fraction)?;
        let mut runs = RULES.map(Run::new);
        for _ in 0..args.rounds {
            for run in &mut runs {
                let both = [Load::Fresh, Load::Compute];
                run.add(bench.regulated(budget, run.rho, &both, args.duration)?);
            }
        }
        cases.push(Case { fraction, budget, runs: runs.into() });
    }
    let outcome = Outcome {
        kernel: machine::kernel_release(),
        processor: machine::core_model(),
        period_ns: args.period.as_nanos() as u64,
        effects,
        cases,
    };
    let json = serde_json::to_string_pretty(&outcome)? + "\n";
    if let Some(file) = &args.write {
        std::fs::write(file, &json).with_context(|| file.display().to_string())?;
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => out.write_all(json.as_bytes())?,
        false => out.write_all(outcome.text().as_bytes())?,
    }
    let shortfalls = outcome.shortfalls();
    for shortfall in &shortfalls {
        eprintln!("keeptime bench regulate: not as in document 001: {shortfall}");
    }
    Ok(if args.check && !shortfalls.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The core, and how it is regulated.
struct Bench {
    core: usize,
    period: Duration,
    folder: tempfile::TempDir,
}

/// What happened between two looks at a regulator.
struct Span {
    periods: u64,
    stops: u64,
    stopped_ns: u64,
    counted: u64,
    /// Of each load.
    threads: Vec<ThreadStatistics>,
}

impl Bench {
    fn config(&self, budget: Budget) -> Config {
        let mut config = Config::new(vec![self.core], budget);
        config.holders.socket = self.folder.path().join("bandwidth.sock");
        config.period = self.period;
        config
    }

    /// The budget of page faults with which the memory-bound task alone is stopped after this part
    /// of a period. Its rate of faults gives a first one, which is corrected by when that really
    /// stops it.
    fn budget(&self, fraction: f64) -> anyhow::Result<u64> {
        let alone = |budget| self.regulated(budget, None, &[Load::Fresh], TRIAL);
        let free = alone(PLENTY)?;
        let per_period = free.counted as f64 / free.periods as f64;
        let mut budget = (per_period * fraction).round().max(1.0);
        if per_period * fraction < 4.0 {
            bail!(
                "the memory-bound task has {per_period:.0} page faults in a period of {:?}, too few \
                 for {fraction:.3} of one: make the period longer",
                self.period
            );
        }
        for _ in 0..CORRECTIONS {
            let span = alone(budget as u64)?;
            let period_ns = self.period.as_nanos() as f64;
            let stopped = span.stopped_ns as f64 / (span.periods as f64 * period_ns);
            let excess = (1.0 - stopped - fraction) * per_period;
            budget = (budget - excess).round().max(1.0);
        }
        Ok(budget as u64)
    }

    /// Regulates loads under a rule.
    fn regulated(
        &self,
        budget: u64,
        rho: Option<f64>,
        loads: &[Load],
        duration: Duration,
    ) -> anyhow::Result<Span> {
        let start = |load: &Load| Running::start(*load, self.core);
        let running = loads.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let mut config = self.config(faults(budget));
        config.rho = rho;
        config.managed = running.iter().map(|load| Managed::Process(load.id())).collect();
        let regulator = Regulator::start(config)?;
        let running: Vec<_> = running.iter().collect();
        let (before, after) = self.held(&regulator, &running, duration)?;
        let threads = running.iter().map(|load| since(&before, &after, load.id()));
        let (old, new) = (&before.cores[0], &after.cores[0]);
        Ok(Span {
            periods: new.periods - old.periods,
            stops: new.stops - old.stops,
            stopped_ns: new.stopped_ns - old.stopped_ns,
            counted: new.counted - old.counted,
            threads: threads.collect::<Result<_, _>>()?,
        })
    }

    /// Holds the lock, and looks at the statistics twice, after a tenth of the time and at its end.
    fn held(
        &self,
        regulator: &Regulator,
        loads: &[&Running],
        duration: Duration,
    ) -> anyhow::Result<(Statistics, Statistics)> {
        let hold = regulator.hold()?;
        let _held = hold.hold();
        let begun = std::time::Instant::now();
        let managed = |statistics: &Statistics| {
            let known = |id| statistics.threads.iter().any(|thread| thread.thread == id);
            loads.iter().all(|load| known(load.id()))
        };
        while !managed(&regulator.statistics()) {
            ensure!(begun.elapsed() < PATIENCE, "the loads were not found");
            std::thread::yield_now();
        }
        std::thread::sleep(duration / 10);
        let before = regulator.statistics();
        std::thread::sleep(duration);
        Ok((before, regulator.statistics()))
    }
}

fn faults(per_period: u64) -> Budget {
    Budget::Events { event: SoftwareEvent::PageFaults, per_period }
}

/// What a thread did between two looks.
fn since(before: &Statistics, after: &Statistics, id: i32) -> anyhow::Result<ThreadStatistics> {
    let of = |statistics: &Statistics| {
        statistics.threads.iter().find(|thread| thread.thread == id).cloned()
    };
    let (old, mut new) = of(before).zip(of(after)).context("a load has ended")?;
    new.run_ns -= old.run_ns;
    new.charged_ns -= old.charged_ns;
    new.periods -= old.periods;
    new.virtual_ns -= old.virtual_ns;
    Ok(new)
}
