//! `keeptime-lab chains`: runs a system of callback chains for real, under one policy after another.
//!
//! [`fold`] finds a core for everything, [`bound`] says what can be promised there, the processor
//! work is calibrated once, [`chains_plan`] says what each executor does, and a [`chains_trial`] for
//! each policy runs the accelerator server and one process per executor. An [`executor`] runs
//! callbacks, which hand on [`job`]s. [`chains_outcome`] turns the reports into results,
//! [`disturbance`] says what spoiled them, and the report crate prints them.

pub(crate) mod access;
pub(crate) mod bound;
mod chains_outcome;
pub(crate) mod chains_plan;
pub(crate) mod chains_trial;
pub(crate) mod disturbance;
pub(crate) mod executor;
pub(crate) mod fold;
pub(crate) mod job;
pub(crate) mod progress;
pub(crate) mod server;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use realtime::work::Calibration;
use realtime::{machine, thread};
use report::chains::{ChainInfo, ChainsRun, PRIORITY};
use report::document::WIDTH;
use system::System;

use chains_plan::Plan;
use chains_trial::{Arbitration, Placement, Trial};
use fold::Cores;
use progress::Progress;
use terminal::output;

/// The calibration's spread above which it is told.
const SPREAD: f64 = 0.2;

/// Options of `keeptime-lab chains`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file: accelerators, executors and chains
    system: PathBuf,
    /// The policies to run, in this order, of priority, fifo, timeslice, and direct: without a
    /// server, each executor process with devices of its own
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = parse_arbitration,
        default_value = "priority,fifo,timeslice"
    )]
    policy: Vec<Arbitration>,
    /// Time for which chains are released under each policy, as in 60s, 10m or 500ms
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    duration: Duration,
    /// Cores of this machine for cores of the file, as in 2=0,3=1 [default: fold where needed]
    #[arg(long, value_delimiter = ',', value_parser = parse_pair, value_name = "FILE_CORE=CORE")]
    map: Vec<(u32, usize)>,
    /// First releases: synchronous, random or random:SEED
    #[arg(long, default_value = "synchronous", value_parser = parse_offsets)]
    offsets: Offsets,
    /// Seed of random offsets that name none
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write a page with tables and plots to this file
    #[arg(long)]
    html: Option<PathBuf>,
    /// Write everything that was measured, each response time included, to this file as JSON
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// Offsets of the chains' first releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offsets {
    Synchronous,
    Random(Option<u64>),
}

fn parse_arbitration(name: &str) -> Result<Arbitration, String> {
    match name {
        "direct" => Ok(Arbitration::Direct),
        _ => name
            .parse()
            .map(Arbitration::Server)
            .map_err(|expected: &str| format!("{expected}, or direct")),
    }
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match duration.as_nanos() {
        1_000_000..=86_400_000_000_000 => Ok(duration),
        _ => Err("expected 1ms to 24h".into()),
    }
}

pub(crate) fn parse_pair(text: &str) -> Result<(u32, usize), String> {
    let pair = text.split_once('=').and_then(|(file_core, core)| {
        Some((file_core.trim().parse().ok()?, core.trim().parse().ok()?))
    });
    pair.ok_or_else(|| "expected FILE_CORE=CORE, as in 2=0".into())
}

fn parse_offsets(text: &str) -> Result<Offsets, String> {
    let expected = || "expected synchronous, random or random:SEED".to_owned();
    match text.split_once(':') {
        None if text == "synchronous" => Ok(Offsets::Synchronous),
        None if text == "random" => Ok(Offsets::Random(None)),
        Some(("random", seed)) => {
            seed.parse().map(|seed| Offsets::Random(Some(seed))).map_err(|_| expected())
        }
        _ => Err(expected()),
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_policies(&args.policy)?;
    let system = System::read(&args.system)?;
    system.require_chains()?;
    system.require_accelerators()?;
    let cores = fold::place(&system, &thread::cores(), &args.map)?;
    let seed = match args.offsets {
        Offsets::Synchronous => None,
        Offsets::Random(seed) => Some(seed.unwrap_or(args.seed)),
    };
    let offsets_ns = chains_plan::offsets_ns(&system, seed);
    let duration_ns = args.duration.as_nanos() as u64;
    let plan = Plan::new(&system, &cores, &offsets_ns, duration_ns)?;
    for (option, file) in [("--html", &args.html), ("--raw", &args.raw)] {
        if let Some(file) = file {
            check_writable(option, file)?;
        }
    }
    let mut progress = Progress::new("chains");
    progress.begin("calibrating");
    let interrupted = ::trial::signals()?;
    let calibration = calibrate(&cores)?;
    let placement = Placement { system: &system, file: &args.system, cores: &cores, interrupted };
    let trial = Trial { placement, plan: &plan, calibration };
    let mut run = describe(args, &system, &cores, &calibration);
    for &policy in &args.policy {
        run.policies.push(trial.run(policy, &mut progress)?);
    }
    drop(progress);
    print(args, &run)?;
    Ok(if meets_deadlines(&run) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_policies(policies: &[Arbitration]) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    for &policy in policies {
        let name = policy.name();
        anyhow::ensure!(seen.insert(policy), "--policy: found {name} twice, expected it once");
    }
    Ok(())
}

/// Before minutes of running, not after them.
pub(crate) fn check_writable(option: &str, path: &Path) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    file.map(|_| ()).with_context(|| format!("{option} {}", path.display()))
}

/// Measures the speed of processor work on the core of an executor, undisturbed if possible.
pub(crate) fn calibrate(cores: &Cores) -> anyhow::Result<Calibration> {
    let core = cores.executors.first().copied();
    let measure = move || {
        thread::pin(core.as_slice())?;
        // Without the privilege the executors have none either, and the result says so.
        let _ = thread::set_policy(thread::Scheduling::Fifo(90));
        Ok(Calibration::measure())
    };
    let thread = std::thread::Builder::new().name("kt-calibrate".into()).spawn(measure)?;
    thread.join().map_err(|_| anyhow::anyhow!("the calibration failed"))?
}

/// Says that a calibration is in doubt.
pub(crate) fn spread_mark(calibration: &Calibration) -> Option<String> {
    let percent = 100.0 * calibration.spread;
    (calibration.spread > SPREAD).then(|| {
        format!(
            "calibration samples spread by {percent:.0} %: processor work may be too short or too long"
        )
    })
}

fn describe(args: &Args, system: &System, cores: &Cores, calibration: &Calibration) -> ChainsRun {
    let mut marks = cores.marks.clone();
    marks.extend(spread_mark(calibration));
    let bounds = bound::bounds(system, cores);
    marks.extend(bounds.marks);
    let us = |ns: u64| ns as f64 / 1e3;
    let bounded = system.chains.iter().zip(bounds.guaranteed_ns);
    let chains = bounded.map(|(chain, bound_ns)| ChainInfo {
        id: chain.id.clone(),
        priority: chain.priority,
        period_us: us(chain.period_ns),
        deadline_us: us(chain.deadline_ns),
        best_effort: chain.best_effort,
        bound_us: bound_ns.map(us),
    });
    ChainsRun {
        system_name: system.name.clone(),
        machine: machine_in_words(),
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        duration_s: args.duration.as_secs_f64(),
        marks,
        chains: chains.collect(),
        policies: Vec::new(),
    }
}

pub(crate) fn machine_in_words() -> String {
    let cores = thread::cores().len();
    let plural = if cores == 1 { "" } else { "s" };
    let kind = if machine::is_virtual() { ", virtual" } else { "" };
    let (model, release) = (machine::core_model(), machine::kernel_release());
    format!("{model}, {cores} core{plural}{kind}, Linux {release}")
}

fn print(args: &Args, run: &ChainsRun) -> anyhow::Result<()> {
    let document = report::chains::document(run);
    output::print(args.json, || report::chains::json(run), || document.text(WIDTH, true))?;
    output::write("--html", args.html.as_deref(), || Ok(document.html()?))?;
    output::write("--raw", args.raw.as_deref(), || Ok(serde_json::to_string(run)?))
}

/// Returns true if no chain whose deadline counts missed one under the priority policy.
fn meets_deadlines(run: &ChainsRun) -> bool {
    let Some(policy) = run.policy(PRIORITY) else { return true };
    let counts = |chain: &&ChainInfo| !chain.best_effort;
    let results = run.chains.iter().filter(counts).filter_map(|chain| policy.chain(&chain.id));
    results.map(|result| result.misses).sum::<u64>() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_with_what_was_expected() {
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("0s").unwrap_err().contains("1ms to 24h"));
        assert!(parse_duration("60").is_err());
        assert_eq!(parse_pair("2=0"), Ok((2, 0)));
        assert!(parse_pair("2:0").unwrap_err().contains("FILE_CORE=CORE"));
        assert_eq!(parse_offsets("random:7"), Ok(Offsets::Random(Some(7))));
        assert!(parse_offsets("random:x").unwrap_err().contains("random:SEED"));
        assert!(parse_offsets("later").is_err());
    }

    #[test]
    fn policy_that_is_given_twice_is_refused() {
        let [fifo, direct] = ["fifo", "direct"].map(|name| parse_arbitration(name).unwrap());
        assert!(check_policies(&[fifo, direct]).is_ok());
        let error = check_policies(&[fifo, fifo]).unwrap_err();
        assert_eq!(error.to_string(), "--policy: found fifo twice, expected it once");
    }
}
