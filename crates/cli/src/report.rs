//! `keeptime report`: why launches were late, or the commands of a drive.
//!
//! Reads a trace twice: once for all its numbers, and once around its worst calls. The trace crate
//! finds, the report crate puts words to it.

mod conditions;
mod flow;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use late::result::CallKind;
use late::{Condition, Group, Judgement, Options};
use record::cuda::FUNCTIONS;
use report::document::WIDTH;
use report::flow::FlowRun;
use report::late::{Findings, Focus, Look, perfetto, timeline};
use trace::Trace;

use crate::progress::LateProgress;

use terminal::{output, signals};

/// Calls of a group that are searched for those of one function.
const SEARCHED: usize = 64;

/// Options of `keeptime report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, as `keeptime run` or `keeptime-lab drive --trace` wrote it
    file: PathBuf,
    /// Number of worst calls to explain
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    worst: u32,
    /// Kind of calls to explain: launch, copy, sync, other, all, or a function of the driver, as in
    /// cuMemAlloc [default: launch]
    #[arg(long, value_name = "KIND", value_parser = parse_focus)]
    call: Option<Focus>,
    /// Print JSON instead of text; times are in nanoseconds
    #[arg(long)]
    json: bool,
    /// Number of locks in the JSON output, besides those that the report refers to; or all
    #[arg(long, value_name = "N", requires = "json", default_value = "1000",
        value_parser = parse_locks)]
    locks: usize,
    /// Write a page with plots and the locking patterns to this file, and print the answer only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the trace for Perfetto's user interface to this file, and print the answer only
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Also show in the file for Perfetto which locks each thread holds
    #[arg(long, requires = "perfetto")]
    holds: bool,
    /// End with 1 if this holds, as in 'cuLaunchKernel.p99 > 2ms'; may be repeated. Calls: a function
    /// of the driver, or launch, copy, sync, other; quantities: p50, p90, p99, p99.9, max, mean, count
    #[arg(long, value_name = "CONDITION", value_parser = conditions::parse)]
    fail_if: Vec<Condition>,
    /// Write the conditions as tests in JUnit's format to this file
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    junit: Option<PathBuf>,
    /// Print only the answer in one sentence, and say nothing while reading
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
}

fn parse_locks(number: &str) -> Result<usize, String> {
    let expected = |_| "expected a whole number, or all".to_owned();
    if number == "all" { Ok(usize::MAX) } else { number.parse().map_err(expected) }
}

fn parse_focus(kind: &str) -> Result<Focus, String> {
    match kind {
        "launch" => Ok(Focus::Group(Group::Launch)),
        "copy" => Ok(Focus::Group(Group::Copy)),
        "sync" => Ok(Focus::Group(Group::Sync)),
        "other" => Ok(Focus::Group(Group::Other)),
        "all" => Ok(Focus::All),
        function if FUNCTIONS.iter().any(|known| known.base == function) => {
            Ok(Focus::Function(function.to_owned()))
        }
        function if function.starts_with("cu") => {
            Err(format!("no such function of the driver is recorded; {}", alike(function)))
        }
        _ => Err("expected launch, copy, sync, other, all, or the name of a function of the \
                  driver without its version, as in cuMemAlloc"
            .to_owned()),
    }
}

/// Names the recorded functions of the driver that begin like this one.
fn alike(function: &str) -> String {
    let shared = |known: &str| {
        known.chars().zip(function.chars()).take_while(|(one, other)| one == other).count()
    };
    let mut known: Vec<&str> = FUNCTIONS.iter().map(|known| known.base).collect();
    known.sort_unstable();
    known.dedup();
    known.sort_by_key(|known| std::cmp::Reverse(shared(known)));
    known.truncate(5);
    format!("some that begin alike: {}", known.join(", "))
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let trace = Trace::open(&args.file)?;
    let files = [("--html", &args.html), ("--perfetto", &args.perfetto), ("--junit", &args.junit)];
    for (option, file) in files {
        ensure_other(option, file.as_deref(), &args.file)?;
        output::check(option, file.as_deref())?;
    }
    if let Some(flow) = &trace.metadata().flow {
        return of_drives(args, &trace, &flow::read(&trace, flow, args.worst as usize)?);
    }
    signals::catch()?;
    let findings = find(args, &trace)?;
    if findings.interrupted.is_none() {
        write_page(args, &trace, &findings)?;
        write_perfetto(args, &trace, &findings)?;
    }
    let judged = match findings.interrupted {
        None => conditions::judge(&args.fail_if, &findings.survey),
        Some(_) => Ok(Vec::new()),
    };
    print(args, &findings, judged.as_deref().unwrap_or_default())?;
    let judged = judged?;
    if findings.interrupted.is_none() {
        conditions::write_junit(args.junit.as_deref(), &args.file, &judged)?;
    }
    if let Some(read) = findings.interrupted {
        let all = findings.survey.records;
        tell!("keeptime report: interrupted: the report is of the first {read} of {all} records");
    }
    let fails = judged.iter().any(|judged| judged.holds);
    let answer = if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    Ok(crate::status_after_signals(answer))
}

/// The report of a trace of drives.
fn of_drives(args: &Args, trace: &Trace, run: &FlowRun) -> anyhow::Result<ExitCode> {
    for (option, is_given) in
        [("--call", args.call.is_some()), ("--fail-if", !args.fail_if.is_empty())]
    {
        ensure!(!is_given, "{option}: found a trace of a drive, expected one of a program");
    }
    let document = report::flow::document(run);
    output::write("--html", args.html.as_deref(), || Ok(document.html()?))?;
    if let Some(file) = &args.perfetto {
        to_file("--perfetto", file, |out| {
            report::flow::perfetto(trace, run, out)?;
            Ok(())
        })?;
    }
    let words = || match args.is_brief() {
        true => format!("{}\n", document.conclusion.join(" ")),
        false => document.text(WIDTH, true),
    };
    output::print(args.json, || report::flow::json(run), words)?;
    Ok(ExitCode::SUCCESS)
}

/// A report must not be written over the trace that it is about.
fn ensure_other(option: &str, file: Option<&Path>, trace: &Path) -> anyhow::Result<()> {
    let id = |path: &Path| path.metadata().ok().map(|about| (about.dev(), about.ino()));
    let same = file.is_some_and(|file| id(file).is_some() && id(file) == id(trace));
    ensure!(!same, "{option} {}: this is the trace; expected another file", trace.display());
    Ok(())
}

fn find<'t>(args: &Args, trace: &'t Trace) -> anyhow::Result<Findings<'t>> {
    let focus = args.call.clone().unwrap_or_default();
    // Findings must not depend on how many are shown, so that fewer are never looked at.
    let least = if let Focus::Function(_) = focus { SEARCHED } else { Options::default().worst };
    let options = Options { worst: least.max(args.worst as usize), ..Options::default() };
    let progress = LateProgress::start("keeptime report");
    let mut interrupted = None;
    let mut at = |done: u64, total: u64| {
        interrupted = signals::interrupted().map(|_| done);
        args.show(&progress, done, total, "records read")
    };
    let survey = late::survey(trace, &options, &mut at)?;
    progress.stage("analysing the worst calls");
    let explained = late::explain(trace, &survey, &options)?;
    let asked = |kind: &CallKind| focus.asks(&survey, kind);
    let verdicts = late::verdicts(&survey, &explained, &options, asked);
    Ok(Findings {
        file: args.file.display().to_string(),
        metadata: trace.metadata(),
        survey,
        explained,
        verdicts,
        focus,
        worst: args.worst as usize,
        locks: args.locks,
        interrupted,
    })
}

impl Args {
    /// Shows that records were read or written; false after a signal.
    fn show(&self, progress: &LateProgress, done: u64, total: u64, stage: &str) -> bool {
        if !self.quiet {
            progress.at(done, total, stage);
        }
        signals::interrupted().is_none()
    }

    /// Returns true if the answer in one sentence is enough, as it is beside files with the rest.
    fn is_brief(&self) -> bool {
        self.quiet || self.html.is_some() || self.perfetto.is_some()
    }
}

fn print(args: &Args, findings: &Findings<'_>, judged: &[Judgement]) -> anyhow::Result<()> {
    let words = || {
        let report = match args.is_brief() {
            true => format!("{}\n", report::late::headline(findings)),
            false => report::late::text(findings, Look { width: width(), color: true }),
        };
        report + &conditions::lines(judged)
    };
    let json = || {
        let mut json = report::late::json(findings);
        json["conditions"] = conditions::json(judged);
        json
    };
    output::print(args.json, json, words)
}

/// Columns of the terminal that is printed to.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(WIDTH)
}

fn write_page(args: &Args, trace: &Trace, findings: &Findings<'_>) -> anyhow::Result<()> {
    let calls = if findings.focus == Focus::default() { Vec::new() } else { findings.shown() };
    let options = timeline::Options { calls, ..timeline::Options::default() };
    let Findings { survey, explained, .. } = findings;
    output::write("--html", args.html.as_deref(), || {
        let section = timeline::section(trace, survey, explained, &options)?;
        let shown = (section.calls > 0).then_some(section.html);
        Ok(report::late::html(findings, shown)?)
    })
}

fn write_perfetto(args: &Args, trace: &Trace, findings: &Findings<'_>) -> anyhow::Result<()> {
    let Some(file) = &args.perfetto else { return Ok(()) };
    let progress = LateProgress::start("keeptime report");
    let options = perfetto::Options { locks: args.holds };
    to_file("--perfetto", file, |out| {
        let mut at = |done: u64, total: u64| {
            args.show(&progress, done, total, "records written for Perfetto")
        };
        perfetto::write(trace, &findings.survey, &options, out, &mut at)?;
        Ok(())
    })
}

/// Writes a file that an option names piece by piece, and says so.
fn to_file(
    option: &str,
    file: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let context = || format!("{option} {}", file.display());
    let mut out = BufWriter::new(File::create(file).with_context(context)?);
    write(&mut out).with_context(context)?;
    out.flush().with_context(context)?;
    let partial = signals::interrupted().map_or("", |_| ", which ends where it was interrupted");
    tell!("wrote {}{partial}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_groups_or_functions_of_the_driver() {
        assert_eq!(parse_focus("launch"), Ok(Focus::Group(Group::Launch)));
        assert_eq!(parse_focus("all"), Ok(Focus::All));
        assert_eq!(parse_focus("cuMemAlloc"), Ok(Focus::Function("cuMemAlloc".to_owned())));
        for wrong in ["", "launches", "memcpy"] {
            assert!(parse_focus(wrong).unwrap_err().contains("as in cuMemAlloc"), "{wrong}");
        }
        assert!(parse_focus("cuMemAloc").unwrap_err().contains("cuMemAlloc"));
    }
}
