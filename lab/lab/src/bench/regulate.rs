//! `keeptime-lab bench regulate`: the regulator by itself, without an accelerator.
//!
//! - How long after the lock is taken it takes effect on a core, and what taking it costs, when the
//!   core's thread sleeps and when it lingers (`effect`).
//! - BWLOCK++'s section IV-C-4 (`experiment`): who has how many of the periods, and for how long
//!   the core is stopped, under the default scheduler and with rho 1 and 3.

mod effect;
pub(super) mod regulate_experiment;
mod regulate_outcome;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use bandwidth::regulator::{Budget, Config};
use realtime::machine;
use regulate_experiment::{Experiment, RULES, SHARED_AFTER, STOPPED_AFTER};
use regulate_outcome::{Case, Outcome, Run};
use terminal::output;
use throttle_fair::By;

/// Options of `keeptime-lab bench regulate`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The core that is regulated; without it the last one
    #[arg(long)]
    core: Option<usize>,
    /// The regulator's period
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = terminal::time)]
    period: Duration,
    /// Time for which each rule is measured in each round
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = terminal::time)]
    duration: Duration,
    /// Rounds, in each of which all rules have their turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Number of takings of the lock whose time to take effect is measured; 0: none
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    takings: u32,
    /// Implementation that puts throttle-fair scheduling into effect
    #[arg(long, value_name = "auto|bpf|user", default_value_t = By::Auto)]
    fair: By,
    /// Fail if shares or stopped time are not as BWLOCK++ reports them
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = machine::online_cores();
    let core = args.core.or(cores.last().copied()).context("no core is online")?;
    let others: Vec<_> = cores.iter().copied().filter(|other| *other != core).collect();
    ensure!(
        cores.contains(&core) && !others.is_empty(),
        "--core {core}: expected one of {cores:?}, which have to be two or more"
    );
    realtime::thread::pin(&others)?;
    // As `keeptime regulate` does: a core's thread that waits for a page regulates nothing.
    if let Err(error) = realtime::thread::lock_memory() {
        tell!("keeptime-lab bench regulate: memory is not locked: {error}");
    }
    let folder = tempfile::tempdir().context("cannot create a folder for the socket")?;
    let bench = Bench { core, period: args.period, folder };
    let effects =
        if args.takings > 0 { effect::measure(&bench, args.takings)? } else { Vec::new() };
    let mut experiment = Experiment::start((&[core], &others), args.period, args.fair, true)?;
    let (mut cases, mut fair) = (Vec::new(), None);
    for fraction in [SHARED_AFTER, STOPPED_AFTER] {
        let budget = experiment.faults(fraction)?;
        let turns = experiment.turns(
            &regulate_experiment::faults(budget),
            args.duration,
            args.rounds as usize,
        )?;
        fair = turns[1].first().map(|span| span.chosen.clone());
        let runs = RULES.iter().zip(&turns).map(|(rho, spans)| Run::of(*rho, spans)).collect();
        cases.push(Case { fraction, budget, runs });
    }
    let outcome = Outcome {
        fair,
        kernel: machine::kernel_release(),
        processor: machine::core_model(),
        period_ns: args.period.as_nanos() as u64,
        effects,
        cases,
    };
    let json = serde_json::to_value(&outcome)?;
    output::write("--write", args.write.as_deref(), || Ok(format!("{json:#}\n")))?;
    output::print(args.json, || json.clone(), || outcome.text())?;
    let shortfalls = outcome.shortfalls();
    for shortfall in &shortfalls {
        tell!("keeptime-lab bench regulate: differs from the setup of BWLOCK++: {shortfall}");
    }
    Ok(if args.check && !shortfalls.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The core, and how it is regulated.
struct Bench {
    core: usize,
    period: Duration,
    folder: tempfile::TempDir,
}

impl Bench {
    fn config(&self, budget: Budget) -> Config {
        let mut config = Config::new(vec![self.core], budget);
        config.holders.socket = self.folder.path().join("bandwidth.sock");
        config.period = self.period;
        config
    }
}
