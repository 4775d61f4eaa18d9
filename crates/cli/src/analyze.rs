//! `keeptime analyze`: bounds the response time of every chain, and says what to change first.
//!
//! A file that has a graph and no chains is for [`graph`]. The system file becomes the model of the
//! analysis, the analysis gives indices and nanoseconds, and the report crate puts names and words to
//! them. [`assign`] searches for priorities and buckets first, and writes them as a system file;
//! [`margins`] says by how much times may grow.

mod assign;
mod graph;
mod margins;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::sensitivity::Margin;
use analysis::{Analysis, MAX_TIME_NS, Variant};
use anyhow::Context;
use report::analysis::{Bounds, Names};
use system::{System, SystemText};
use terminal::signals::{self, Interrupted};

use graph_bounds::TimeMargin;

use crate::progress::LateProgress;

/// Options of `keeptime analyze`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file: accelerators, executors and chains
    system: PathBuf,
    /// Bounds to compute: tight, sound (the repaired theorem) or published (unsound, for
    /// comparison)
    #[arg(long, default_value = "tight", value_parser = parse_variant)]
    variant: Variant,
    /// Print JSON instead of tables; times are in nanoseconds
    #[arg(long)]
    json: bool,
    /// Print every term of the bound of this chain; may be repeated
    #[arg(long, value_name = "CHAIN")]
    explain: Vec<String>,
    /// Multiply every accelerator time of the file, as in 1.25
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor)]
    exec_scale: Option<Factor>,
    /// Multiply the declared times of a graph by this before they are bounded
    #[arg(long, default_value = "1", value_parser = TimeMargin::parse, value_name = "FACTOR")]
    margin: TimeMargin,
    /// Also print by how much times may grow before a chain misses its deadline
    #[arg(long)]
    sensitivity: bool,
    /// Bound a single core whose accelerator work holds the memory-bandwidth lock
    #[arg(long, conflicts_with_all = ["variant", "explain", "sensitivity", "assign"])]
    bandwidth_lock: bool,
    #[command(flatten)]
    assign: assign::Options,
}

/// An exact decimal factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Factor {
    numerator: u64,
    denominator: u64,
}

fn parse_variant(name: &str) -> Result<Variant, String> {
    match name {
        "tight" => Ok(Variant::Tight),
        "sound" => Ok(Variant::Sound),
        "published" => Ok(Variant::Published),
        _ => Err("expected tight, sound or published".into()),
    }
}

/// Parses up to six digits on either side of the point, without a float in between.
fn parse_factor(text: &str) -> Result<Factor, String> {
    let expected = || "expected a decimal number above 0 and up to 1000, as in 1.25".to_owned();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| {
        (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !digits(whole) || !digits(fraction) {
        return Err(expected());
    }
    let denominator = 10u64.pow(fraction.len() as u32);
    let number = |part: &str| part.parse::<u64>().map_err(|_| expected());
    let numerator = number(whole)? * denominator + number(fraction)?;
    match numerator {
        0 => Err(expected()),
        _ if numerator > 1_000 * denominator => Err(expected()),
        _ => Ok(Factor { numerator, denominator }),
    }
}

impl Factor {
    /// Rounded up.
    fn up(self, ns: u64) -> u128 {
        (u128::from(ns) * u128::from(self.numerator)).div_ceil(u128::from(self.denominator))
    }

    /// Rounded down.
    fn down(self, ns: u64) -> u128 {
        u128::from(ns) * u128::from(self.numerator) / u128::from(self.denominator)
    }
}

impl std::fmt::Display for Factor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.numerator as f64 / self.denominator as f64)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // A search finds priorities, so that the file need not have any.
    let source = args.assign.wanted().then(|| SystemText::read(&args.system)).transpose()?;
    let system = match &source {
        Some(source) => source.system.clone(),
        None => System::read(&args.system)?,
    };
    if system.chains.is_empty() && system.graph.is_some() {
        return graph::run(args, &system);
    }
    system.require_chains()?;
    anyhow::ensure!(
        args.margin.words().is_none(),
        "--margin: found chains in {}, expected a graph",
        system.name
    );
    let explained = explained(args, &system)?;
    let mut model = system.model();
    let mut marks = Vec::new();
    if let Some(factor) = args.exec_scale {
        scale(&mut model, factor).with_context(|| format!("--exec-scale {factor}"))?;
        marks.push(format!("every accelerator time is {factor} times that of the file"));
    }
    if args.bandwidth_lock {
        return bandwidth_lock(args, &system, &model);
    }
    signals::catch()?;
    let assigned = match assign::run(&args.assign, source.as_ref(), &model, args.variant) {
        Err(error) if error.is::<assign::Refused>() => {
            tell!("keeptime analyze: {error}");
            return Ok(ExitCode::FAILURE);
        }
        assigned => assigned?,
    };
    if let Some(assigned) = &assigned {
        model.clone_from(&assigned.assignment.system);
        marks.extend(assigned.marks());
    }
    let is_partial = assigned.as_ref().is_some_and(|assigned| assigned.is_partial);
    let goes_on = if is_partial { || !signals::is_overdue() } else { is_wanted };
    let progress = LateProgress::start("keeptime analyze");
    let analysis = analyze(&system, &model, args.variant, progress, goes_on);
    let analysis = match (analysis, &assigned) {
        (Err(error), Some(assigned)) if error.is::<Interrupted>() => {
            assigned.print(args.json, &names(&system), &system.name, marks)?;
            return Ok(crate::status_after_signals(ExitCode::FAILURE));
        }
        (analysis, _) => analysis?,
    };
    let margins = match args.sensitivity {
        true => margins::margins(args.variant, &system, &model, &mut marks)?,
        false => Vec::new(),
    };
    let file = system.name.clone();
    let bounds = Bounds { file, names: names(&system), system: model, analysis, marks };
    let output = Output { args, bounds, explained, margins, assigned };
    output.print()?;
    let is_schedulable = output.bounds.analysis.schedulable;
    let answer = if is_schedulable { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(crate::status_after_signals(answer))
}

/// Returns true until a signal comes.
pub(crate) fn is_wanted() -> bool {
    signals::interrupted().is_none()
}

/// Equation 4 of BWLOCK++ instead of the accelerator server's analysis.
fn bandwidth_lock(
    args: &Args,
    system: &System,
    model: &analysis::System,
) -> anyhow::Result<ExitCode> {
    let bounds = analysis::bandwidth_lock(model).map_err(|error| named(error, system))?;
    let names = names(system);
    let mut out = anstream::stdout().lock();
    if args.json {
        let json = report::analysis::lock_json(&names, model, &bounds);
        writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
    } else {
        write!(out, "{}", report::analysis::lock(&names, model, &bounds, true))?;
    }
    let schedulable = report::analysis::lock_schedulable(model, &bounds);
    Ok(if schedulable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All that is printed.
struct Output<'a> {
    args: &'a Args,
    bounds: Bounds,
    explained: Vec<usize>,
    margins: Vec<Margin>,
    assigned: Option<assign::Assigned>,
}

/// Bounds the model of a system file as long as `goes_on` returns true, and shows its progress; an
/// error names the file and the chain.
pub(crate) fn analyze(
    system: &System,
    model: &analysis::System,
    variant: Variant,
    progress: LateProgress,
    goes_on: fn() -> bool,
) -> anyhow::Result<Analysis> {
    let watch = progress.watch(goes_on);
    analysis::analyze_watched(model, variant, &watch).map_err(|error| named(error, system))
}

/// The signal that came before there was anything to show.
fn no_result(signal: Interrupted, system: &System) -> anyhow::Error {
    anyhow::Error::new(signal).context(format!("{}: no result yet", system.name))
}

/// The error of the analysis with the file's name for the chain; the signal that has ended it.
pub(crate) fn named(error: analysis::Error, system: &System) -> anyhow::Error {
    match (error, signals::interrupted()) {
        (analysis::Error::Stopped, Some(signal)) => no_result(signal, system),
        (analysis::Error::Model { chain, what, found, expected }, _) => anyhow::anyhow!(
            "{}: chain {}: {what}: found {found}, expected {expected}",
            system.name,
            system.chains[chain].id
        ),
        (error, _) => anyhow::anyhow!("{}: {error}", system.name),
    }
}

/// Names that the file gives to the indices of its model.
pub(crate) fn names(system: &System) -> Names {
    Names {
        accelerators: system.accelerators.iter().map(|a| a.id.clone()).collect(),
        executors: system.executors.iter().map(|e| e.id.clone()).collect(),
        chains: system.chains.iter().map(|c| c.id.clone()).collect(),
    }
}

/// The index of a chain that an option names.
pub(crate) fn chain_index(system: &System, option: &str, id: &str) -> anyhow::Result<usize> {
    let index = system.chains.iter().position(|chain| chain.id == id);
    index.with_context(|| format!("{option}: found {id:?}, expected {}", known_chains(system)))
}

/// The chains of a file, as the end of a sentence about an unknown one.
pub(crate) fn known_chains(system: &System) -> String {
    let ids: Vec<&str> = system.chains.iter().map(|chain| chain.id.as_str()).collect();
    format!("one of the chains: {}", ids.join(", "))
}

fn explained(args: &Args, system: &System) -> anyhow::Result<Vec<usize>> {
    args.explain.iter().map(|id| chain_index(system, "--explain", id)).collect()
}

/// Multiplies all accelerator times, the greatest ones rounded up.
fn scale(model: &mut analysis::System, factor: Factor) -> anyhow::Result<()> {
    let callbacks = model.chains.iter_mut().flat_map(|chain| &mut chain.callbacks);
    for segment in callbacks.flat_map(|callback| &mut callback.segments) {
        let max_ns = factor.up(segment.exec.max_ns);
        anyhow::ensure!(
            max_ns <= u128::from(MAX_TIME_NS),
            "an accelerator time becomes {max_ns} ns, expected at most {MAX_TIME_NS} ns"
        );
        segment.exec.max_ns = max_ns as u64;
        segment.exec.min_ns = factor.down(segment.exec.min_ns) as u64;
    }
    Ok(())
}

impl Output<'_> {
    fn print(&self) -> anyhow::Result<()> {
        if self.args.json {
            if let Some(warning) = self.bounds.warning() {
                tell!("keeptime analyze: {warning}");
            }
            let json = serde_json::to_string_pretty(&self.json())?;
            writeln!(std::io::stdout(), "{json}")?;
            return Ok(());
        }
        self.print_text(&mut anstream::stdout().lock())
    }

    fn print_text(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let bounds = &self.bounds;
        writeln!(out, "{}", report::analysis::table(bounds, true))?;
        if self.explained.is_empty() {
            writeln!(out, "{}", report::analysis::composition(bounds, true))?;
        }
        for &chain in &self.explained {
            writeln!(out, "{}", report::analysis::explain(bounds, chain, true))?;
        }
        if !self.margins.is_empty() {
            writeln!(out, "{}", report::analysis::margins(bounds, &self.margins, true))?;
        }
        if let Some(assigned) = &self.assigned {
            writeln!(out, "{}", assigned.changes(&bounds.names))?;
        }
        for sentence in report::analysis::advice(bounds) {
            writeln!(out, "{sentence}")?;
        }
        out.flush()?;
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let mut json = report::analysis::json(&self.bounds);
        if !self.margins.is_empty() {
            json["sensitivity"] = report::analysis::margins_json(&self.bounds, &self.margins);
        }
        if let Some(assigned) = &self.assigned {
            json["assignment"] = assigned.json();
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_exact_decimals() {
        let factor = |text| parse_factor(text).map(|f| (f.numerator, f.denominator));
        assert_eq!(factor("1.25"), Ok((125, 100)));
        assert_eq!(factor("2"), Ok((20, 10)));
        assert_eq!(factor("1000"), Ok((10_000, 10)));
        for text in ["", "0", "0.0", "-1", "1e3", ".5", "1.", "1000.1", "1.0000001", "x"] {
            assert!(parse_factor(text).unwrap_err().contains("as in 1.25"), "{text}");
        }
        assert_eq!(Factor { numerator: 1, denominator: 3 }.up(10), 4);
        assert_eq!(Factor { numerator: 1, denominator: 3 }.down(10), 3);
        assert_eq!(parse_factor("1.250").unwrap().to_string(), "1.25");
    }
}
