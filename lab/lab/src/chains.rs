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
pub(crate) mod server;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use realtime::work::Calibration;
use realtime::{machine, thread};
use report::chains::{ChainInfo, ChainsRun, PRIORITY};
use system::{ArbitrationPolicy, System};

use chains_plan::Plan;
use chains_trial::{Arbitration, Placement, Trial};
use fold::Cores;
use terminal::output;
use terminal::progress::Progress;
use trial::signals;

use crate::shown::{End, Shown};

/// The calibration's spread above which it is told.
const SPREAD: f64 = 0.2;
/// Time for which each policy runs with --quick.
pub(crate) const QUICK: Duration = Duration::from_secs(5);
/// Usual time of the calibration.
pub(crate) const CALIBRATION: Duration = Duration::from_secs(1);
/// Usual time until the server and the executors of a policy are ready, and until they have ended.
pub(crate) const STARTING: Duration = Duration::from_secs(2);

/// Options of `keeptime-lab chains`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file: accelerators, executors and chains
    system: PathBuf,
    /// The policies to run, in this order, of priority, fifo, timeslice, and direct: without a
    /// server, each executor process with devices of its own [default: priority, which is judged,
    /// beside fifo and timeslice, which are not; policies that are named here are all judged]
    #[arg(long, value_delimiter = ',', value_parser = parse_arbitration)]
    policy: Option<Vec<Arbitration>>,
    /// Time for which chains are released under each policy, as in 60s, 10m or 500ms
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    duration: Duration,
    /// Run for 5 s under each policy
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
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
    /// Write a page with tables and plots to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write everything that was measured, each response time included, to this file as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
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
    let duration = terminal::time(text)?;
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

impl Args {
    /// The policies to run: those that were named, or the usual ones.
    fn policies(&self) -> Vec<Arbitration> {
        let usual =
            [ArbitrationPolicy::Priority, ArbitrationPolicy::Fifo, ArbitrationPolicy::Timeslice];
        self.policy.clone().unwrap_or_else(|| usual.map(Arbitration::Server).into())
    }

    /// The policies that are judged: those that were named, or the one that the analysis is about.
    fn judged(&self) -> Vec<String> {
        let named = self.policy.iter().flatten().map(|policy| policy.name().to_owned());
        if self.policy.is_some() { named.collect() } else { vec![PRIORITY.to_owned()] }
    }

    fn duration(&self) -> Duration {
        if self.quick { QUICK } else { self.duration }
    }
}

/// Runs the command: 1 if a critical chain missed a deadline or exceeded its bound under a policy
/// that is judged.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let policies = args.policies();
    check_policies(&policies)?;
    let system = System::read(&args.system)?;
    system.require_chains()?;
    system.require_accelerators()?;
    let cores = fold::place(&system, &thread::cores(), &args.map)?;
    let seed = match args.offsets {
        Offsets::Synchronous => None,
        Offsets::Random(seed) => Some(seed.unwrap_or(args.seed)),
    };
    let offsets_ns = chains_plan::offsets_ns(&system, seed);
    let duration = args.duration();
    let plan = Plan::new(&system, &cores, &offsets_ns, duration.as_nanos() as u64)?;
    output::check("--html", args.html.as_deref())?;
    output::check("--out", args.out.as_deref())?;
    let planned = CALIBRATION + (duration + STARTING) * policies.len() as u32;
    let progress = Progress::start("keeptime-lab chains", Some(planned));
    progress.stage("calibrating");
    let calibration = calibrate(&cores)?;
    let placement = Placement { system: &system, file: &args.system, cores: &cores };
    let trial = Trial { placement, plan: &plan, calibration };
    let mut run = describe(args, &system, &cores, &calibration);
    let ran = policies.iter().try_for_each(|&policy| {
        run.policies.push(trial.run(policy, &progress)?);
        progress.tell(format_args!("{}: finished", policy.name()));
        Ok(())
    });
    let interrupted = signals::finished(ran)?;
    drop(progress);
    let units = (run.policies.len(), policies.len());
    let end = End { interrupted, units, name: "policies" };
    print(args, &run, &end)?;
    end.answer(if run.failures().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_policies(policies: &[Arbitration]) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    for &policy in policies {
        let name = policy.name();
        anyhow::ensure!(seen.insert(policy), "--policy: found {name} twice, expected it once");
    }
    Ok(())
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
    let bounded = system.chains.iter().zip(bounds.guaranteed_ns);
    let chains = bounded.map(|(chain, bound_ns)| ChainInfo {
        id: chain.id.clone(),
        priority: chain.priority,
        period_ns: chain.period_ns,
        deadline_ns: chain.deadline_ns,
        best_effort: chain.best_effort,
        bound_ns,
    });
    ChainsRun {
        system_name: system.name.clone(),
        machine: machine_in_words(),
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        duration_ns: args.duration().as_nanos() as u64,
        judged: args.judged(),
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

fn print(args: &Args, run: &ChainsRun, end: &End) -> anyhow::Result<()> {
    end.check()?;
    let schema = ("keeptime.chains", 1);
    let shown = Shown { schema, json: args.json, html: args.html.as_deref(), end };
    let all = || Ok(serde_json::to_string(&shown.framed(serde_json::to_value(run)?))?);
    output::write("--out", args.out.as_deref(), all)?;
    shown.document(|| report::chains::json(run), report::chains::document(run))
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
