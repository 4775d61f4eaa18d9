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

use crate::shown::{End, Shown};
use anyhow::{Context, ensure};
use bandwidth::regulator::{Budget, Config};
use realtime::machine;
use regulate_experiment::{Experiment, RULES, SHARED_AFTER, STOPPED_AFTER};
use regulate_outcome::{Case, Outcome, Run};
use terminal::output;
use terminal::progress::Progress;
use throttle_fair::By;
use trial::signals;

/// Fractions of a period after which the memory-bound thread is stopped.
const FRACTIONS: [f64; 2] = [SHARED_AFTER, STOPPED_AFTER];

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
    /// Measure less: one round of 200ms for each rule, 100 takings
    #[arg(long, conflicts_with_all = ["duration", "rounds", "takings"])]
    quick: bool,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Args {
    /// Time of a rule in a round, rounds, and takings of the lock.
    fn extent(&self) -> (Duration, u32, u32) {
        match self.quick {
            true => (Duration::from_millis(200), 1, 100),
            false => (self.duration, self.rounds, self.takings),
        }
    }
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
    output::check("--out", args.out.as_deref())?;
    let bench = Bench { core, period: args.period, folder };
    let mut outcome = Outcome {
        fair: None,
        kernel: machine::kernel_release(),
        processor: machine::core_model(),
        period_ns: args.period.as_nanos() as u64,
        effects: Vec::new(),
        cases: Vec::new(),
    };
    let progress = Progress::start("keeptime-lab bench regulate", None);
    let interrupted = signals::finished(measure(args, &bench, &others, &mut outcome, &progress))?;
    drop(progress);
    let parts = usize::from(!outcome.effects.is_empty()) + outcome.cases.len();
    let all = usize::from(args.extent().2 > 0) + FRACTIONS.len();
    let end = End { interrupted, units: (parts, all), name: "parts" };
    end.check()?;
    let json = serde_json::to_value(&outcome)?;
    let schema = ("keeptime.bench-regulate", 1);
    let shown = Shown { schema, json: args.json, html: None, end: &end };
    let file = || Ok(format!("{:#}\n", shown.framed(json.clone())));
    output::write("--out", args.out.as_deref(), file)?;
    shown.text(|| json.clone(), || outcome.text())?;
    if interrupted.is_some() {
        return end.answer(ExitCode::SUCCESS);
    }
    let shortfalls = outcome.shortfalls();
    for shortfall in &shortfalls {
        tell!("keeptime-lab bench regulate: differs from the setup of BWLOCK++: {shortfall}");
    }
    Ok(if args.check && !shortfalls.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Measures the delays of the lock and the rules.
fn measure(
    args: &Args,
    bench: &Bench,
    others: &[usize],
    outcome: &mut Outcome,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (duration, rounds, takings) = args.extent();
    if takings > 0 {
        progress.stage("the lock takes effect");
        outcome.effects = effect::measure(bench, takings)?;
    }
    let mut experiment = Experiment::start((&[bench.core], others), args.period, args.fair, true)?;
    let all = FRACTIONS.len() as u64 * u64::from(rounds) * RULES.len() as u64;
    let mut done = 0;
    for fraction in FRACTIONS {
        progress.at(done, all, "rules");
        let budget = experiment.faults(fraction)?;
        let budgeted = regulate_experiment::faults(budget);
        let turns = experiment.turns(&budgeted, duration, rounds as usize, || {
            done += 1;
            progress.at(done, all, "rules");
        })?;
        outcome.fair = turns[1].first().map(|span| span.chosen.clone());
        let runs = RULES.iter().zip(&turns).map(|(rho, spans)| Run::of(*rho, spans)).collect();
        outcome.cases.push(Case { fraction, budget, runs });
    }
    Ok(())
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
