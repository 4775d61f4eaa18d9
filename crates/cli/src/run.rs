//! `keeptime run`: runs a program under the preload library, which records it, guards its locks,
//! holds the bandwidth lock around its work on the accelerator, or all of these.
//!
//! The program is not to notice: it has the terminal and the standard streams, and a process that
//! waits for `keeptime` sees it end as the program ended, by the same status or the same signal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::bail;
use trace::kernel::Wanted;
use trace::metadata::{ProgramEnd, Tier};
use trace::session::{Finished, Library, Options};

mod audit;
mod bandwidth;
mod guard;

/// File name of the preload library.
const LIBRARY: &str = "libkeeptime_preload.so";
/// The preload library in a release; empty in other builds.
const EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// Environment variable with the path of the preload library.
const LIBRARY_VARIABLE: &str = "KEEPTIME_PRELOAD";

/// Options of `keeptime run`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write a trace of the program to this file; without --guard and --bandwidth the default is
    /// PROGRAM.kt, or PROGRAM-2.kt and so on
    #[arg(long, alias = "record", value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    guard: guard::GuardOptions,
    #[command(flatten)]
    bandwidth: bandwidth::BandwidthOptions,
    /// Record only lock calls that had to wait
    #[arg(long)]
    contended: bool,
    /// Record the locks of the program and of all libraries
    #[arg(long, conflicts_with = "locks_from")]
    all_locks: bool,
    /// Record the locks of libraries whose file name starts with this; may be repeated
    #[arg(long, value_name = "LIBRARY", value_parser = parse_library,
        default_values = ["libcuda.so"])]
    locks_from: Vec<String>,
    /// Records that stay when the memory is full: the first or the last ones
    #[arg(long, value_name = "WHICH", value_enum, default_value = "first")]
    keep: Keep,
    /// Memory for the program's records, 32 bytes each, as in 64MiB
    #[arg(long, value_name = "SIZE", value_parser = terminal::size, default_value = "256MiB")]
    memory: u64,
    /// Events of the kernel to record: all that this machine allows (auto), none (preload), when
    /// the program's threads ran (switches), or also the threads that ran instead of them and that
    /// woke them (scheduler)
    #[arg(long, value_enum, default_value = "auto")]
    tier: TierArgument,
    /// Record the program's futex calls too; takes the tier scheduler
    #[arg(long)]
    futex: bool,
    /// Record when work on the GPU began and ended, through CUPTI
    #[arg(long)]
    gpu: bool,
    /// Say nothing about the recording
    #[arg(long, short)]
    quiet: bool,
    /// Print the summary at the end as one JSON object
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// The trace to write, if one was asked for, or nothing else was.
fn trace_file(args: &Args, options: &Options) -> Option<PathBuf> {
    let asked = options.settings.guard.is_some() || options.settings.bandwidth.is_some();
    let default = || (!asked).then(|| default_trace(Path::new(&args.program[0])));
    args.out.clone().or_else(default)
}

/// A file in the working folder, named after the program, that is not there yet. Where the folder
/// cannot be written to, a new folder for temporary files takes its place.
fn default_trace(program: &Path) -> PathBuf {
    let folder = match rustix::fs::access(".", rustix::fs::Access::WRITE_OK) {
        Ok(()) => PathBuf::new(),
        Err(_) => temporary_folder().unwrap_or_default(),
    };
    let name = program.file_stem().unwrap_or(program.as_os_str()).to_string_lossy();
    let numbered = (2_u64..).map(|number| folder.join(format!("{name}-{number}.kt")));
    let mut names = std::iter::once(folder.join(format!("{name}.kt"))).chain(numbered);
    names.find(|file| !file.exists()).expect("numbers do not end")
}

/// A new folder of this user alone, which stays.
fn temporary_folder() -> std::io::Result<PathBuf> {
    tempfile::Builder::new().prefix("keeptime-").tempdir().map(tempfile::TempDir::keep)
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Keep {
    First,
    Last,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum TierArgument {
    Auto,
    Preload,
    Switches,
    Scheduler,
}

impl TierArgument {
    fn wanted(self) -> Wanted {
        match self {
            TierArgument::Auto => Wanted::Auto,
            TierArgument::Preload => Wanted::Exactly(Tier::Preload),
            TierArgument::Switches => Wanted::Exactly(Tier::Switches),
            TierArgument::Scheduler => Wanted::Exactly(Tier::Scheduler),
        }
    }
}

fn parse_library(name: &str) -> Result<String, String> {
    if name.is_empty() || name.contains(['/', '\0']) {
        return Err("expected the beginning of a file name without its folder".into());
    }
    Ok(name.to_owned())
}

/// Runs the command. Does not return when the program was killed by a signal.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = options(args)?;
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]);
    if args.guard.is_audit() {
        return run_audit(args, options, &mut command);
    }
    let finished = match trace_file(args, &options) {
        Some(file) => trace::session::record(&mut command, &options, &file)?,
        None => trace::session::guard(&mut command, &options)?,
    };
    // From here on the program has run, and its own status is what counts.
    if let Some(reason) = &finished.unwritten {
        tell!("{}", unwritten(&finished, reason));
    }
    let told = if args.quiet { String::new() } else { told(args, &finished) };
    if !told.is_empty() {
        tell!("{told}");
    }
    Ok(end_like(&finished.outcome))
}

/// Says that the trace is incomplete or missing, with the reason.
fn unwritten(finished: &Finished, reason: &str) -> String {
    match &finished.file {
        None => format!("keeptime run: {reason}; there is no trace"),
        Some(file) => format!("keeptime run: {reason}; {} has what there is", file.display()),
    }
}

/// Says what came of it.
fn told(args: &Args, finished: &Finished) -> String {
    if args.json {
        return format!("{:#}", json(finished));
    }
    let mut lines = Vec::from_iter(finished.unloaded.as_deref().map(unloaded));
    lines.extend(finished.file.as_deref().map(|file| summary(finished, file)));
    lines.extend(finished.guard.as_ref().map(|guard| guard::summary(guard, finished.processes)));
    let bandwidth = finished.bandwidth.as_ref();
    lines.extend(bandwidth.map(|lock| bandwidth::summary(lock, finished.processes)));
    lines.extend(finished.file.as_deref().filter(|_| finished.records > 0).map(next));
    lines.iter().map(|line| format!("keeptime run: {line}")).collect::<Vec<_>>().join("\n")
}

/// The command that reads a trace, as it would be typed.
fn next(trace: &Path) -> String {
    let words = ["keeptime", "report"].map(str::to_owned).into_iter();
    let words = words.chain([trace.display().to_string()]);
    format!("to read why calls were late: {}", terminal::command_line::quoted(words))
}

/// The same as one object.
fn json(finished: &Finished) -> serde_json::Value {
    let trace = finished.file.as_deref().map(|file| {
        serde_json::json!({
            "file": file,
            "records": finished.records,
            "lost": finished.lost,
            "overwritten": finished.overwritten,
            "tier": finished.tier,
            "tier_reasons": finished.tier_reasons,
            "troubles": finished.troubles,
        })
    });
    serde_json::json!({
        "schema": "keeptime.run",
        "version": 1,
        "outcome": finished.outcome,
        "processes": finished.processes,
        "unloaded": finished.unloaded,
        "trace": trace,
        "guard": finished.guard,
        "bandwidth_lock": finished.bandwidth,
    })
}

/// Records the locks that would be guarded, and judges them.
fn run_audit(args: &Args, mut options: Options, command: &mut Command) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("audit.kt");
    let file = args.out.as_deref().unwrap_or(&trace);
    options.settings.contended_only = false;
    options.settings.all_locks = args.guard.everywhere();
    options.settings.libraries = args.guard.libraries().to_vec();
    options.kernel = Wanted::Exactly(Tier::Preload);
    let finished = trace::session::record(command, &options, file)?;
    let said = finished.file.as_ref().map_or_else(
        || anyhow::bail!("{}", finished.unwritten.as_deref().unwrap_or("there is no trace")),
        |file| {
            let audit = audit::audit(file, args.guard.everywhere())?;
            if args.json { audit.json(finished.bandwidth.as_ref()) } else { Ok(audit.text()) }
        },
    );
    tell!("{}", said.unwrap_or_else(|error| format!("keeptime run: {error:#}")).trim_end());
    if !args.json {
        let bandwidth = finished.bandwidth.as_ref();
        let bandwidth = bandwidth.map(|lock| bandwidth::summary(lock, finished.processes));
        for line in finished.unloaded.as_deref().map(unloaded).into_iter().chain(bandwidth) {
            tell!("keeptime run: {line}");
        }
    }
    if finished.lost > 0 {
        tell!(
            "keeptime run: {} records found no room, so that some locks may be missing; more \
             memory helps (--memory)",
            finished.lost
        );
    }
    Ok(end_like(&finished.outcome))
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let mut options = Options::new(find_library()?);
    options.settings.contended_only = args.contended;
    options.settings.all_locks = args.all_locks;
    options.settings.gpu = args.gpu;
    options.settings.keep_last = args.keep == Keep::Last;
    options.settings.libraries = args.locks_from.clone();
    options.settings.guard = args.guard.settings();
    options.settings.bandwidth = args.bandwidth.settings()?;
    options.memory_bytes = args.memory;
    options.kernel = args.tier.wanted();
    options.futex = args.futex;
    Ok(options)
}

/// The preload library: where the environment says, or else beside this program, where it is
/// installed, or inside of this program.
pub(crate) fn find_library() -> anyhow::Result<Library> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(Library::File(path));
        }
        bail!("{LIBRARY_VARIABLE}: {} is not a file; expected {LIBRARY}", path.display());
    }
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/keeptime").join(LIBRARY)];
    if let Some(path) = places.iter().find(|path| path.is_file()) {
        return Ok(Library::File(path.clone()));
    }
    if !EMBEDDED.is_empty() {
        return Ok(Library::Content(EMBEDDED));
    }
    let [beside, installed] = places.map(|path| path.display().to_string());
    bail!(
        "{LIBRARY} is neither {beside} nor {installed}; \
         set {LIBRARY_VARIABLE} to where it is"
    )
}

/// One line about a program that was run as it is.
fn unloaded(reason: &str) -> String {
    format!("the program did not load the library, and ran as it is: {reason}")
}

/// One line about the recording.
fn summary(finished: &Finished, file: &Path) -> String {
    let Finished { records, lost, overwritten, .. } = finished;
    let mut line = format!("{}: {records} records, {lost} lost", file.display());
    if *overwritten > 0 {
        line += &format!(", {overwritten} overwritten");
    }
    line += match finished.tier {
        Tier::Preload => ", tier preload",
        Tier::Switches => ", tier switches",
        Tier::Scheduler => ", tier scheduler",
    };
    for reason in &finished.tier_reasons {
        line += &format!("; {reason}");
    }
    match finished.troubles.len() {
        0 => {}
        1 => line += "; 1 note in the trace",
        notes => line += &format!("; {notes} notes in the trace"),
    }
    line
}

/// Ends this process as the program ended, so that a shell or a make file sees the same.
fn end_like(outcome: &ProgramEnd) -> ExitCode {
    match outcome {
        ProgramEnd::Exited(status) => ExitCode::from(*status as u8),
        ProgramEnd::Unknown => ExitCode::from(2),
        ProgramEnd::Killed(signal) => {
            // Does not return, unless this is the first process of its namespace, which no signal
            // ends: then as shells do.
            trace::session::end_by(*signal);
            ExitCode::from(128u8.wrapping_add(*signal as u8))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_beginnings_of_file_names() {
        assert_eq!(parse_library("libcuda.so"), Ok("libcuda.so".to_owned()));
        assert!(parse_library("").is_err() && parse_library("/lib/libcuda.so").is_err());
    }

    #[test]
    fn summary_names_what_is_missing_and_why() {
        let mut finished = Finished {
            outcome: ProgramEnd::Exited(0),
            file: None,
            unwritten: None,
            records: 12,
            lost: 0,
            overwritten: 0,
            processes: 1,
            unloaded: None,
            tier: Tier::Scheduler,
            tier_reasons: Vec::new(),
            troubles: Vec::new(),
            guard: None,
            bandwidth: None,
        };
        let line = summary(&finished, Path::new("t.kt"));
        assert_eq!(line, "t.kt: 12 records, 0 lost, tier scheduler");
        finished.tier = Tier::Switches;
        finished.tier_reasons = vec!["no wake-ups: run as root".to_owned()];
        let line = summary(&finished, Path::new("t.kt"));
        assert!(line.contains(", tier switches"), "{line}");
        assert!(line.ends_with("; no wake-ups: run as root"), "{line}");
    }
}
