//! `keeptime regulate --calibrate -- PROGRAM`: which budget protects a program.
//!
//! As document 001, section VI-C: the program runs alone, then beside a memory hog on each
//! best-effort core, then beside them with budgets that are halved, from 1 GB/s on (or half of each
//! period, or 1024 events in it), until it is as fast as alone, within a tolerance. The program
//! takes the lock itself; one that does not is told so.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bandwidth::regulator::{Budget, Load, Regulator};
use serde::Serialize;

use super::load::Running;
use super::settings::{Amount, Count, Settings};
use crate::status::table::Table;

/// Below these there is no budget worth the name.
const LEAST_SHARE: f64 = 0.002;
const LEAST_BYTES_PER_SECOND: u64 = 1_000_000;
/// Width of the curve's longest bar.
const BAR: f64 = 40.0;

/// Options of the calibration.
#[derive(clap::Args)]
pub struct CalibrationOptions {
    /// Find the budget that protects PROGRAM from memory hogs on the best-effort cores
    #[arg(long)]
    pub calibrate: bool,
    /// How much longer than alone the program may take, as in 10%
    #[arg(long, value_name = "PERCENT", value_parser = parse_tolerance, default_value = "10%", requires = "calibrate")]
    tolerance: f64,
    /// Runs of the program for each budget; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, requires = "calibrate", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Write the budget that was found to this file, for --config
    #[arg(long, value_name = "FILE", requires = "calibrate")]
    write: Option<PathBuf>,
    /// Hold the lock while the program runs, which need not take it then
    #[arg(long, requires = "calibrate")]
    hold_for_program: bool,
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=1000.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected 0% to 1000%".into())
}

/// One point of the curve.
#[derive(Clone, Debug, Serialize)]
struct Point {
    /// `alone`, `unregulated`, or the budget.
    what: String,
    run_ns: Vec<u64>,
    median_ns: u64,
    /// The median over that of the program alone.
    slowdown: f64,
    /// How long the best-effort cores were stopped, in all runs.
    stopped_ns: u64,
}

struct Calibration<'a> {
    options: &'a CalibrationOptions,
    settings: Settings,
    program: &'a [OsString],
    /// Cores of the program.
    others: Vec<usize>,
    points: Vec<Point>,
}

/// Runs the command. The answer is no when no budget protects the program.
pub fn run(
    options: &CalibrationOptions,
    settings: Settings,
    program: &[OsString],
    json: bool,
) -> anyhow::Result<ExitCode> {
    ensure!(!program.is_empty(), "--calibrate: found no program, expected -- PROGRAM");
    let online = realtime::machine::online_cores();
    let others = online.into_iter().filter(|core| !settings.config.cores.contains(core)).collect();
    let mut calibration = Calibration { options, settings, program, others, points: Vec::new() };
    let found = calibration.search()?;
    calibration.say(found, json)?;
    if let (Some(found), Some(file)) = (found, &options.write) {
        let config = &calibration.settings.config;
        let count = match found {
            Amount::Share(_) => Count::Time,
            Amount::Events(_) => Count::Software,
            Amount::BytesPerSecond(_) => Count::Hardware,
        };
        let text = super::file::text(&config.cores, config.period, count, found);
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    Ok(if found.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Calibration<'_> {
    /// The largest budget of the series with which the program is fast enough.
    fn search(&mut self) -> anyhow::Result<Option<Amount>> {
        let limit = 1.0 + self.options.tolerance;
        self.point("alone".into(), None, false)?;
        self.point("unregulated".into(), None, true)?;
        for amount in series(&self.settings.config.budget) {
            let slowdown = self.point(amount.to_string(), Some(amount), true)?;
            if slowdown <= limit {
                return Ok(Some(amount));
            }
        }
        Ok(None)
    }

    /// Measures one point; returns its slowdown.
    fn point(&mut self, what: String, amount: Option<Amount>, hogs: bool) -> anyhow::Result<f64> {
        eprintln!("keeptime regulate: {what}, {} runs", self.options.runs);
        let load = match self.settings.config.budget {
            Budget::Events { .. } => Load::Fresh,
            _ => Load::Write,
        };
        let mut config = self.settings.config.clone();
        // Without a budget nothing is regulated, and the program finds its regulator nevertheless.
        config.budget = amount.map_or(Budget::Share(1.0), |amount| with(&config.budget, amount));
        let regulator = Regulator::start(config.clone())?;
        let hold = regulator.hold()?;
        let cores = if hogs { &config.cores[..] } else { &[] };
        let running: Vec<_> =
            cores.iter().map(|core| Running::start(load, *core)).collect::<Result<_, _>>()?;
        let mut run_ns = Vec::new();
        for _ in 0..self.options.runs {
            if self.options.hold_for_program {
                hold.acquire();
            }
            run_ns.push(self.run_program(&config.holders.socket)?.as_nanos() as u64);
            hold.release();
        }
        drop(running);
        let statistics = regulator.statistics();
        let periods: u64 = statistics.cores.iter().map(|core| core.periods).sum();
        if amount.is_some() && periods == 0 {
            bail!(
                "the program never took the lock: run it as `keeptime run --bandwidth -- PROGRAM`, \
                 or let --hold-for-program hold the lock for it"
            );
        }
        run_ns.sort_unstable();
        let median_ns = run_ns[run_ns.len() / 2];
        let alone_ns = self.points.first().map_or(median_ns, |alone| alone.median_ns);
        let slowdown = median_ns as f64 / alone_ns as f64;
        let stopped_ns = statistics.stopped_ns();
        self.points.push(Point { what, run_ns, median_ns, slowdown, stopped_ns });
        Ok(slowdown)
    }

    /// How long the program takes, on the cores that are not regulated.
    fn run_program(&self, socket: &std::path::Path) -> anyhow::Result<Duration> {
        let name = self.program[0].to_string_lossy();
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).env(bandwidth::VARIABLE, socket).stdout(Stdio::null());
        let cores = self.others.clone();
        let run = move || -> anyhow::Result<(ExitStatus, Duration)> {
            realtime::thread::pin(&cores)?;
            let begun = Instant::now();
            Ok((command.status()?, begun.elapsed()))
        };
        let (status, took) = std::thread::spawn(run)
            .join()
            .expect("nothing panics in it")
            .with_context(|| format!("cannot run {name}"))?;
        ensure!(status.success(), "{name} ended with {status}, expected success");
        Ok(took)
    }

    fn say(&self, found: Option<Amount>, json: bool) -> anyhow::Result<()> {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        if json {
            let value = serde_json::json!({
                "tolerance": self.options.tolerance,
                "points": self.points,
                "budget": found.map(|found| found.to_string()),
            });
            return Ok(writeln!(out, "{value:#}")?);
        }
        let mut table =
            Table::new(&["budget", "program", "slowdown", "stopped", ""], &[0, 1, 2, 3]);
        let most = self.points.iter().map(|point| point.slowdown).fold(1.0, f64::max);
        for point in &self.points {
            let bar = "#".repeat((point.slowdown / most * BAR).round() as usize);
            table.row([
                point.what.clone(),
                format!("{:.1} ms", point.median_ns as f64 / 1e6),
                format!("{:.2}", point.slowdown),
                format!("{:.1} ms", point.stopped_ns as f64 / 1e6),
                bar,
            ]);
        }
        write!(out, "{}\n{}\n", table.render(), self.sentence(found))?;
        Ok(())
    }

    fn sentence(&self, found: Option<Amount>) -> String {
        let tolerance = self.options.tolerance * 100.0;
        let unregulated = self.points.get(1).map_or(1.0, |point| point.slowdown);
        match found {
            Some(_) if unregulated <= 1.0 + self.options.tolerance => format!(
                "No budget is needed: beside the hogs the program takes {unregulated:.2} times as \
                 long without one."
            ),
            Some(found) => {
                format!("With a budget of {found} the program is within {tolerance} % of alone.")
            }
            None => {
                format!("With none of the budgets is the program within {tolerance} % of alone.")
            }
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
    fn budgets_are_halved_from_document_001s_gigabyte_on() {
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
