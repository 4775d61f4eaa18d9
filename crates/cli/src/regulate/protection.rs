//! `keeptime regulate --calibrate -- PROGRAM`: which budget protects a program.
//!
//! The method of BWLOCK++, section VI-C: the program alone, beside a memory hog on each best-effort
//! core, and beside them with budgets that are halved, from 1 GB/s on (or half of each period, or
//! 1024 events in it), until it is as fast as alone, within a tolerance.
//!
//! A machine's speed drifts, so that what is compared runs in turns: each round has the program
//! alone, beside hogs, and with the budget that is tried, beginning with another one each time, and
//! gives one ratio each. A budget is good if the median ratio lies within the tolerance with a
//! confidence of 95 % ([`curve`]); when that is open after the rounds that were asked for, there are
//! more.
//!
//! The program takes the lock itself; one that does not is told so.

mod curve;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bandwidth::regulator::{Budget, Load, Regulator};
use curve::{Curve, Point, Verdict};

use rustix::process::{Pid, Signal, kill_process};
use terminal::progress::Progress;
use terminal::{output, signals};

use super::load::Running;
use super::settings::{Amount, Count, Settings};

/// Below these there is no budget worth the name.
const LEAST_SHARE: f64 = 0.002;
const LEAST_BYTES_PER_SECOND: u64 = 1_000_000;
/// Factor by which the rounds may grow while it is open whether a budget is good.
const MOST_ROUNDS: u32 = 3;
/// Rounds for each budget with `--quick`.
const QUICK: u32 = 5;
/// Runs of a round.
const WAYS: u32 = 3;
/// Longest time until a signal is noticed, and then until a program that goes on is killed.
const LOOK: Duration = Duration::from_millis(200);
/// Largest number of attempts of a run; a run in which cores were not regulated is repeated.
const TRIALS: u32 = 5;

/// Options of the calibration.
#[derive(clap::Args)]
pub(super) struct CalibrationOptions {
    /// Find the budget that protects PROGRAM from memory hogs on the best-effort cores
    #[arg(long)]
    pub calibrate: bool,
    /// Largest excess of the program's time over its time alone, as in 10%
    #[arg(long, value_name = "PERCENT", value_parser = parse_tolerance, default_value = "10%", requires = "calibrate")]
    tolerance: f64,
    /// Rounds for each budget; the program runs alone, beside hogs and with the budget in each. Up
    /// to three times as many are run if the spread is too large; fewer than 5 prove nothing
    #[arg(long, value_name = "N", default_value_t = 7, requires = "calibrate", value_parser = clap::value_parser!(u32).range(5..=1000))]
    runs: u32,
    /// Run 5 rounds for each budget, and no more
    #[arg(long, requires = "calibrate", conflicts_with = "runs")]
    quick: bool,
    /// Write the budget that was found to this file, for --config
    #[arg(long, alias = "write", value_name = "FILE", requires = "calibrate")]
    out: Option<PathBuf>,
    /// Hold the lock while the program runs, which need not take it then
    #[arg(long, requires = "calibrate")]
    hold_for_program: bool,
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=1000.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected 0% to 1000%".into())
}

struct Calibration<'a> {
    options: &'a CalibrationOptions,
    settings: Settings,
    program: &'a [OsString],
    /// Cores of the program.
    others: Vec<usize>,
    /// Halted, unless the program runs beside them.
    hogs: Vec<Running>,
    curve: Curve,
    progress: Progress,
}

/// One run of the program.
#[derive(Clone, Copy)]
struct Way {
    hogs: bool,
    budget: Option<Amount>,
}

/// Runs the command. The answer is no when no budget is known to protect the program.
pub(super) fn run(
    options: &CalibrationOptions,
    settings: Settings,
    program: &[OsString],
    json: bool,
) -> anyhow::Result<ExitCode> {
    ensure!(!program.is_empty(), "--calibrate: found no program, expected -- PROGRAM");
    output::check("--out", options.out.as_deref())?;
    signals::catch()?;
    let online = realtime::machine::online_cores();
    let cores = &settings.config.cores;
    let others = online.into_iter().filter(|core| !cores.contains(core)).collect();
    let load = match settings.config.budget {
        Budget::Events { .. } => Load::Fresh,
        _ => Load::Write,
    };
    let start = |core: &usize| -> anyhow::Result<Running> {
        let hog = Running::start(load, *core)?;
        hog.halt();
        Ok(hog)
    };
    let hogs = cores.iter().map(start).collect::<Result<_, _>>()?;
    let curve = Curve::new(options.tolerance);
    let progress = Progress::start("keeptime regulate", None);
    let mut calibration = Calibration { options, settings, program, others, hogs, curve, progress };
    let searched = calibration.search();
    let interrupted = signals::finished(searched)?;
    if calibration.curve.is_empty() {
        signals::check().context("no round was measured to its end")?;
    }
    calibration.curve.interrupted = interrupted.is_some();
    let Calibration { curve, settings, progress, .. } = calibration;
    drop(progress);
    curve.say(json)?;
    if let (Some(found), Some(file)) = (curve.found(), &options.out) {
        let config = &settings.config;
        let count = match found {
            Amount::Share(_) => Count::Time,
            Amount::Events(_) => Count::Software,
            Amount::BytesPerSecond(_) => Count::Hardware,
        };
        let keys = super::file::text(&config.cores, config.period, count, found);
        output::write("--out", Some(file), || Ok(curve.comment() + &keys))?;
    }
    let answer = if curve.found().is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(crate::status_after_signals(answer))
}

impl Calibration<'_> {
    /// Tries the budgets of the series, until one is good.
    fn search(&mut self) -> anyhow::Result<()> {
        // The first run meets files that are not in the page cache yet.
        let (once_ns, _) = self.once(Way { hogs: false, budget: None })?;
        let round = Duration::from_nanos(once_ns) * WAYS;
        let (rounds, most) = (self.rounds(), self.most_rounds());
        self.progress.tell(format_args!(
            "each budget takes {rounds} rounds of about {round:.1?}, at most {most}"
        ));
        for amount in series(&self.settings.config.budget) {
            self.try_budget(amount)?;
            if self.curve.found().is_some() || self.curve.is_refused() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Rounds, until they say whether a budget is good.
    fn try_budget(&mut self, amount: Amount) -> anyhow::Result<()> {
        self.curve.budgets.push(Point::new(amount));
        self.progress.stage(&format!("budget {amount}"));
        for round in 0..self.most_rounds() {
            self.progress.change(&format!("budget {amount}, round {}", round + 1));
            let is_enough = round >= self.rounds();
            if is_enough && self.curve.verdict() != Verdict::Open {
                return Ok(());
            }
            self.round(amount, round as usize)?;
        }
        Ok(())
    }

    /// Rounds for each budget.
    fn rounds(&self) -> u32 {
        if self.options.quick { QUICK } else { self.options.runs }
    }

    fn most_rounds(&self) -> u32 {
        if self.options.quick { QUICK } else { self.options.runs * MOST_ROUNDS }
    }

    /// The program alone, beside hogs, and with a budget, in this or another order.
    fn round(&mut self, amount: Amount, round: usize) -> anyhow::Result<()> {
        let ways = [(false, None), (true, None), (true, Some(amount))]
            .map(|(hogs, budget)| Way { hogs, budget });
        let mut runs = [(0, 0); 3];
        for turn in 0..ways.len() {
            let way = (round + turn) % ways.len();
            runs[way] = self.once(ways[way])?;
        }
        let [(alone_ns, _), (open_ns, _), (budget_ns, stopped_ns)] = runs;
        self.curve.add(alone_ns, open_ns, budget_ns, stopped_ns);
        Ok(())
    }

    /// Runs the program; how long it took, and for how long cores were stopped, in nanoseconds. A
    /// run in which cores were not regulated is repeated.
    fn once(&mut self, way: Way) -> anyhow::Result<(u64, u64)> {
        for _ in 0..TRIALS {
            if let Some(run) = self.attempt(way)? {
                return Ok(run);
            }
            self.curve.repeated += 1;
        }
        bail!("cores were not regulated in {TRIALS} runs in a row, see keeptime regulate --verbose")
    }

    fn attempt(&self, way: Way) -> anyhow::Result<Option<(u64, u64)>> {
        let mut config = self.settings.config.clone();
        // Without a budget nothing is regulated, and the program finds its regulator nevertheless.
        config.budget =
            way.budget.map_or(Budget::Share(1.0), |amount| with(&config.budget, amount));
        let regulator = Regulator::start(config.clone())?;
        let hold = regulator.hold()?;
        if way.hogs {
            self.hogs.iter().for_each(Running::go_on);
        }
        if self.options.hold_for_program {
            hold.acquire();
        }
        let ran = self.run_program(&config.holders.socket);
        hold.release();
        self.hogs.iter().for_each(Running::halt);
        let took_ns = ran?.as_nanos() as u64;
        let statistics = regulator.statistics();
        let periods: u64 = statistics.cores.iter().map(|core| core.periods).sum();
        if way.budget.is_some() && periods == 0 {
            bail!(
                "the program never took the lock: run it as `keeptime run --bandwidth -- PROGRAM`, \
                 or let --hold-for-program hold the lock for it"
            );
        }
        let is_whole = statistics.losses().is_empty();
        Ok(is_whole.then(|| (took_ns, statistics.stopped_ns())))
    }

    /// Measures the time that the program takes, on the cores that are not regulated.
    fn run_program(&self, socket: &Path) -> anyhow::Result<Duration> {
        let name = self.program[0].to_string_lossy();
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).env(bandwidth::VARIABLE, socket).stdout(Stdio::null());
        let cores = self.others.clone();
        let (started, process) = channel();
        let run = move || -> anyhow::Result<(ExitStatus, Duration)> {
            realtime::thread::pin(&cores)?;
            let begun = Instant::now();
            let mut child = command.spawn()?;
            // The receiver waits for it.
            let _ = started.send(Pid::from_child(&child));
            Ok((child.wait()?, begun.elapsed()))
        };
        let running = std::thread::spawn(run);
        if let Ok(id) = process.recv() {
            end_after_signals(id, &process);
        }
        let ran = running.join().expect("nothing panics in it");
        // A program that a terminal's Ctrl-C ended did not fail.
        signals::check()?;
        let (status, took) = ran.with_context(|| format!("cannot run {name}"))?;
        ensure!(status.success(), "{name} ended with {status}, expected success");
        Ok(took)
    }
}

/// Waits until the thread that waits for a program has ended; after a signal, ends the program.
fn end_after_signals(program: Pid, thread: &Receiver<Pid>) {
    let mut signal = Signal::TERM;
    while thread.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if signals::interrupted().is_some() {
            // It may have ended this moment.
            let _ = kill_process(program, signal);
            signal = Signal::KILL;
        }
    }
}

fn with(budget: &Budget, amount: Amount) -> Budget {
    match (budget, amount) {
        (_, Amount::Share(share)) => Budget::Share(share),
        (Budget::Events { event, .. }, Amount::Events(per_period)) => {
            Budget::Events { event: *event, per_period }
        }
        (Budget::Bytes { hardware, .. }, Amount::BytesPerSecond(per_second)) => {
            Budget::Bytes { hardware: hardware.clone(), per_second }
        }
        (other, _) => other.clone(),
    }
}

/// The budgets that are tried, largest first.
fn series(budget: &Budget) -> Vec<Amount> {
    match budget {
        Budget::Share(_) => {
            let halved = std::iter::successors(Some(0.5), |share| Some(share / 2.0));
            halved.take_while(|share| *share >= LEAST_SHARE).map(Amount::Share).collect()
        }
        Budget::Events { .. } => {
            let halved = std::iter::successors(Some(1024), |events| Some(events / 2));
            halved.take_while(|events| *events > 0).map(Amount::Events).collect()
        }
        Budget::Bytes { .. } => {
            let halved = std::iter::successors(Some(1_000_000_000), |bytes| Some(bytes / 2));
            let worth = |bytes: &u64| *bytes >= LEAST_BYTES_PER_SECOND;
            halved.take_while(worth).map(Amount::BytesPerSecond).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_halved_from_the_papers_gigabyte_on() {
        let bytes = Budget::Bytes {
            hardware: bandwidth::regulator::Hardware::of_this_machine(),
            per_second: 1,
        };
        let all = series(&bytes);
        assert_eq!(all[..2], [1_000_000_000, 500_000_000].map(Amount::BytesPerSecond));
        assert_eq!(all.len(), 10);
        assert_eq!(series(&Budget::Share(0.1)).first(), Some(&Amount::Share(0.5)));
    }

    #[test]
    fn tolerance_is_a_percentage() {
        assert_eq!(parse_tolerance("10%"), Ok(0.1));
        for text in ["10", "-1%", "x%", "NaN%"] {
            assert!(parse_tolerance(text).is_err(), "{text}");
        }
    }
}
