//! Repeats document 001's section IV-C-4 on the running kernel: see `throttle_fair::experiment`.
//!
//! Meant for a virtual machine: `cargo xtask sched-ext` boots one and runs it there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

use throttle_fair::ThrottleFair;
use throttle_fair::experiment::outcome::{Case, Outcome, Run};
use throttle_fair::experiment::regulator::{Record, Regulation, Unchanged, regulate};
use throttle_fair::experiment::tasks::{self, Running, Task};

/// How far into a period the memory-bound task is stopped: for the shares of periods (section
/// IV-C-4, 100 MB/s), and for the stopped time (section VI-E, whose budgets were 16 to 66 MB/s).
const FRACTIONS: [f64; 2] = [1.0 / 3.0, 1.0 / 6.0];
const FACTORS: [Option<f64>; 3] = [None, Some(1.0), Some(3.0)];

/// Who runs on a regulated core, a memory-bound or a compute-bound task, under the default scheduler
/// and under throttle-fair scheduling
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Option<Role>,
    /// The core of the experiment; everything else should be elsewhere
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// The regulator's period, microseconds
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    period_us: u64,
    /// Periods to count, after a tenth as many that are not
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    periods: u32,
    /// A folder for throttle-fair.txt and throttle-fair.json
    #[arg(long)]
    output: Option<PathBuf>,
    /// Fail if shares or stopped time are not as document 001 reports them
    #[arg(long)]
    check: bool,
}

#[derive(Subcommand)]
enum Role {
    /// Be one of the two tasks (started by the experiment itself)
    #[command(hide = true)]
    Task {
        /// Which one
        task: Task,
        /// Where
        core: usize,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("throttle-fair-experiment: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is as it has to be.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    if let Some(Role::Task { task, core }) = arguments.task {
        tasks::run(task, core)?;
        return Ok(true);
    }
    let cores = realtime::thread::cores();
    if cores.len() < 2 || !cores.contains(&arguments.core) {
        bail!(
            "--core {}: expected one of {cores:?}, which have to be two or more, so that the rest of \
             the machine is on another one",
            arguments.core
        );
    }
    let elsewhere: Vec<_> = cores.into_iter().filter(|core| *core != arguments.core).collect();
    realtime::thread::pin(&elsewhere)?;
    let outcome = experiment(arguments)?;
    let text = outcome.text();
    print!("{text}");
    if let Some(folder) = &arguments.output {
        write(folder, "throttle-fair.txt", &text)?;
        write(folder, "throttle-fair.json", &format!("{}\n", serde_json::to_string(&outcome)?))?;
    }
    let shortfalls = outcome.shortfalls();
    for shortfall in &shortfalls {
        println!("not as in document 001: {shortfall}");
    }
    if shortfalls.is_empty() {
        println!("\nShares of periods and stopped time are as in document 001.");
    }
    Ok(shortfalls.is_empty() || !arguments.check)
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let file = folder.join(name);
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn experiment(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let period = Duration::from_micros(arguments.period_us);
    let periods = arguments.periods as usize;
    let regulation =
        Regulation { core: arguments.core, period, budget: 0, warm_up: periods / 10, periods };
    let faults_per_ms = faults_per_ms(regulation)?;
    let mut cases = Vec::new();
    for fraction in FRACTIONS {
        let budget = budget(regulation, faults_per_ms, fraction)?;
        let mut runs = Vec::new();
        for rho in FACTORS {
            runs.push(Run::of(rho, &regulated(Regulation { budget, ..regulation }, rho)?));
        }
        cases.push(Case { fraction, budget, runs });
    }
    Ok(Outcome {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        processor: processor(),
        period_ns: period.as_nanos() as u64,
        faults_per_ms,
        cases,
    })
}

/// Page faults in a millisecond of the memory-bound task's run time, with the core to itself.
fn faults_per_ms(regulation: Regulation) -> anyhow::Result<f64> {
    let record = alone(regulation)?;
    let run_ns: u64 = record.periods.iter().map(|period| period.run_ns[0]).sum();
    if run_ns == 0 {
        bail!("the memory-bound task did not run");
    }
    Ok(record.faults as f64 * 1e6 / run_ns as f64)
}

/// The budget with which the memory-bound task, alone, is stopped after this part of a period. Its
/// rate of faults gives a first one; how early that stops it also has the regulator's own time in it.
fn budget(regulation: Regulation, faults_per_ms: f64, fraction: f64) -> anyhow::Result<u64> {
    let period_ns = regulation.period.as_nanos() as f64;
    let wanted_ns = period_ns * fraction;
    let first = (faults_per_ms * wanted_ns / 1e6).round();
    if first < 4.0 {
        bail!(
            "the memory-bound task makes {faults_per_ms:.1} page faults a millisecond, too few for \
             {fraction:.3} of a period of {:?}: make the period longer",
            regulation.period
        );
    }
    let record = alone(Regulation { budget: first as u64, ..regulation })?;
    let early = record.periods.iter().filter(|period| period.stopped_ns > 0);
    let early: Vec<_> = early.map(|period| period_ns - period.stopped_ns as f64).collect();
    if early.len() < record.periods.len() / 2 {
        bail!(
            "the memory-bound task was stopped in {} of {} periods",
            early.len(),
            record.periods.len()
        );
    }
    let mean_ns = early.iter().sum::<f64>() / early.len() as f64;
    let excess = (mean_ns - wanted_ns) * faults_per_ms / 1e6;
    Ok((first - excess).round().max(1.0) as u64)
}

/// The memory-bound task without the other one. That one is there, and stands.
fn alone(regulation: Regulation) -> anyhow::Result<Record> {
    let memory = Running::start(Task::Memory, regulation.core)?;
    let other = Running::start(Task::Compute, regulation.core)?;
    other.stand()?;
    regulate(regulation, [&memory, &other], &Unchanged)
}

/// Both tasks under a scheduler.
fn regulated(regulation: Regulation, rho: Option<f64>) -> anyhow::Result<Record> {
    let [memory, compute] = [Task::Memory, Task::Compute];
    let pair =
        [Running::start(memory, regulation.core)?, Running::start(compute, regulation.core)?];
    let both = [&pair[0], &pair[1]];
    let Some(rho) = rho else { return regulate(regulation, both, &Unchanged) };
    let mut scheduler = ThrottleFair::load(rho)?;
    for task in both {
        scheduler.manage(task.id())?;
    }
    let record = regulate(regulation, both, &scheduler)?;
    match scheduler.ended() {
        Some(why) => bail!("the kernel ended the scheduler: {why}"),
        None => Ok(record),
    }
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|rest| rest.split_once(':')).map_or("unknown", |(_, name)| name.trim()).to_owned()
}
