//! Records a program: starts it under the preload library, waits for it, and writes the trace.
//!
//! ```text
//!   record ---- forks the child, which waits -> child
//!     |         attaches the kernel collector -> kernel
//!     |         lets the child become the program, waits for its end
//!     +-------- meanwhile, on a thread of its own -> service: attaching processes, signals, the dead
//!     |
//!     +-------- copies the log and the collector's streams into blocks -> store, file
//!               adds what is to be known about them -> facts, metadata
//! ```
//!
//! Recording ends when the program ends, that is, the process that was started. What its
//! descendants do after that is not in the trace.

pub mod bandwidth;
mod child;
mod dead;
mod facts;
mod guard;
mod memory;
mod service;
mod signals;
mod store;

use crate::kernel::{Collected, Collector, Request, Started, Wanted};
use crate::metadata::{self, Metadata, Outcome, Tier, TroubleCount};
use crate::{Error, TraceWriter};
use bandwidth::Bandwidth;
use child::Held;
use record::attach::{Door, Invitation, VARIABLE};
use record::clock::Reading;
use record::{Recording, Settings};
use service::{Service, Stop};
use signals::Signals;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const LD_PRELOAD: &str = "LD_PRELOAD";
/// Memory for records where nothing is recorded.
const LEAST_MEMORY_BYTES: u64 = 1 << 16;

/// How to record.
#[derive(Debug)]
pub struct Options {
    /// What to record inside the program.
    pub settings: Settings,
    /// Memory for its records.
    pub memory_bytes: u64,
    /// What to record around it.
    pub kernel: Wanted,
    /// Whether to record its futex calls.
    pub futex: bool,
    /// Memory for the kernel's records, for each processor.
    pub kernel_bytes_per_processor: u64,
    /// The library to preload.
    pub preload: PathBuf,
}

impl Options {
    /// The locks of the CUDA libraries, in memory of 256 MiB, with what the kernel lets see.
    pub fn new(preload: PathBuf) -> Options {
        let libraries = ["libcuda.so", "libcudart.so"].map(str::to_owned).to_vec();
        Options {
            settings: Settings { libraries, ..Settings::default() },
            memory_bytes: 256 << 20,
            kernel: Wanted::Auto,
            futex: false,
            kernel_bytes_per_processor: 8 << 20,
            preload,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// How the program ended.
    pub outcome: Outcome,
    /// Records in the trace.
    pub records: u64,
    /// Records that there was no room for.
    pub lost: u64,
    /// Records that gave way to later ones.
    pub overwritten: u64,
    /// Process images that were recorded. None is a program that did not load the library.
    pub processes: usize,
    /// What was recorded around the program.
    pub tier: Tier,
    /// Why it was not more.
    pub tier_reasons: Vec<String>,
    /// What went wrong and was passed over.
    pub troubles: Vec<TroubleCount>,
    /// How its locks were guarded, if they were.
    pub guard: Option<metadata::Guard>,
    /// What came of the bandwidth lock, if it was to be held.
    pub bandwidth: Option<Bandwidth>,
}

/// Runs a program whose locks are guarded, and records nothing. As [`record`] otherwise.
///
/// # Errors
/// As for [`record`].
pub fn guard(command: &mut Command, options: &Options) -> Result<Finished, Error> {
    let settings = Settings { nothing: true, libraries: Vec::new(), ..options.settings.clone() };
    let options = Options {
        settings,
        memory_bytes: LEAST_MEMORY_BYTES,
        kernel: Wanted::Exactly(Tier::Preload),
        futex: false,
        kernel_bytes_per_processor: 0,
        preload: options.preload.clone(),
    };
    let (run, recording, _, end) = start(command, &options)?;
    let mut metadata = Metadata { outcome: outcome(run.status), ..Metadata::default() };
    describe(&mut metadata, &recording, Collected::default(), run.door_failed);
    Ok(Finished {
        outcome: metadata.outcome,
        records: 0,
        lost: 0,
        overwritten: 0,
        processes: metadata.processes.len(),
        tier: Tier::Preload,
        tier_reasons: Vec::new(),
        troubles: metadata.troubles,
        guard: guarded(&options, &recording),
        bandwidth: held(&options, &recording, end),
    })
}

/// Runs a program, recorded, and writes the trace to `output`. The program keeps the standard
/// streams and the terminal that `command` gives it.
///
/// While it runs, SIGINT and SIGQUIT have no effect on this process, and SIGTERM and SIGHUP are
/// passed on to the program; afterwards all four go on to have no effect. `command` cannot be
/// used again.
///
/// # Errors
/// When the trace could not be written, or not be recorded as asked for, nothing is run. Errors
/// while the trace is written come after the program has run.
pub fn record(command: &mut Command, options: &Options, output: &Path) -> Result<Finished, Error> {
    let mut writer = TraceWriter::create(output)?;
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let (run, recording, start, end) = start(command, options)?;

    let mut metadata = Metadata {
        command: words,
        outcome: outcome(run.status),
        clock: facts::clock(start, end),
        tier: run.tier,
        tier_reasons: run.tier_reasons,
        futex: run.futex,
        settings: settings(options),
        guard: guarded(options, &recording),
        machine: facts::machine(),
        functions: record::cuda::FUNCTIONS.iter().map(|f| f.symbol.to_owned()).collect(),
        lost_without_chunk: store::lost_without_chunk(&recording.log()),
        ..Metadata::default()
    };
    let clock = metadata.clock.calibration().ok_or_else(|| Error::Clock {
        file: output.to_owned(),
        start: metadata.clock.start,
        end: metadata.clock.end,
    })?;
    let collected = run.collector.finish(&clock);
    let threads = store::threads(&recording.log(), &mut writer)?;
    let processors = store::processors(&collected.processors, &mut writer)?;
    describe(&mut metadata, &recording, collected, run.door_failed);
    let finished = Finished {
        outcome: metadata.outcome.clone(),
        records: threads.records + processors.records,
        lost: threads.lost + processors.lost,
        overwritten: threads.overwritten,
        processes: metadata.processes.len(),
        tier: metadata.tier,
        tier_reasons: metadata.tier_reasons.clone(),
        troubles: metadata.troubles.clone(),
        guard: metadata.guard.clone(),
        bandwidth: held(options, &recording, end),
    };
    writer.finish(&metadata)?;
    Ok(finished)
}

/// Runs the program with the library; when that began and ended.
fn start(
    command: &mut Command,
    options: &Options,
) -> Result<(Run, Recording, Reading, Reading), Error> {
    let preload = preload_value(command, &options.preload)?;
    memory::check(options.memory_bytes)?;
    let recording = Recording::create(options.memory_bytes, &options.settings)?;
    let invitation = Invitation::new()?;
    let door = Door::open(invitation)?;
    let signals = Signals::catch()?;
    command.env(VARIABLE, invitation.value()).env(LD_PRELOAD, preload);
    let start = Reading::take();
    let run = run(command, options, &recording, &door, &signals)?;
    Ok((run, recording, start, Reading::take()))
}

fn guarded(options: &Options, recording: &Recording) -> Option<metadata::Guard> {
    options.settings.guard.as_ref().map(|guard| guard::describe(guard, &recording.side()))
}

fn held(options: &Options, recording: &Recording, end: Reading) -> Option<Bandwidth> {
    let is_wanted = options.settings.bandwidth.is_some();
    is_wanted.then(|| bandwidth::describe(&recording.side(), end.ns))
}

/// A program that has ended.
struct Run {
    status: ExitStatus,
    collector: Collector,
    tier: Tier,
    futex: bool,
    tier_reasons: Vec<String>,
    /// How often processes could not be let in, and why the last time.
    door_failed: Option<(u64, String)>,
}

fn run(
    command: &mut Command,
    options: &Options,
    recording: &Recording,
    door: &Door,
    signals: &Signals,
) -> Result<Run, Error> {
    std::thread::scope(|scope| {
        let held = Held::start(scope, command, signals.caught().to_vec())?;
        let program = service::process_descriptor(held.pid())?;
        let request = Request {
            process: held.pid().as_raw_nonzero().get() as u32,
            wanted: options.kernel,
            futex: options.futex,
            keep_last: options.settings.keep_last,
            bytes_per_processor: options.kernel_bytes_per_processor,
        };
        let Started { collector, tier, futex, reasons } = Collector::start(&request)?;
        let keep_last = options.settings.keep_last;
        let service = Service { door, recording, signals, program, keep_last };
        let stop = Stop::new()?;
        let watch = stop.watch()?;
        let service = scope.spawn(move || service.run(&watch));
        let mut child = held.release()?;
        let status = child.wait().map_err(Error::system("waitpid"))?;
        drop(stop);
        let door_failed = service.join().expect("the service does not panic");
        Ok(Run { status, collector, tier, futex, tier_reasons: reasons, door_failed })
    })
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Killed(signal),
        (None, None) => Outcome::Unknown,
    }
}

fn settings(options: &Options) -> metadata::Settings {
    let Settings { contended_only, all_locks, gpu, keep_last, libraries, .. } =
        options.settings.clone();
    let memory_bytes = options.memory_bytes;
    metadata::Settings { contended_only, all_locks, gpu, keep_last, libraries, memory_bytes }
}

/// Adds what is known after the run.
fn describe(
    metadata: &mut Metadata,
    recording: &Recording,
    collected: Collected,
    door_failed: Option<(u64, String)>,
) {
    facts::add_names(&recording.side(), metadata);
    metadata.tasks = collected.tasks;
    let notes = collected.notes.into_iter().map(|trouble| TroubleCount { trouble, count: 1 });
    metadata.troubles.extend(notes);
    metadata.troubles.extend(door_failed.map(|(count, reason)| TroubleCount {
        trouble: format!("processes could not be let into the recording: {reason}"),
        count,
    }));
}

/// What the program's `LD_PRELOAD` is to be: the library, then what it would have been.
fn preload_value(command: &Command, library: &Path) -> Result<OsString, Error> {
    let refused = |reason: &str| Error::Preload { file: library.to_owned(), reason: reason.into() };
    // Absolute, since the program may change its directory before it runs others.
    let path = std::fs::canonicalize(library).map_err(|error| refused(&error.to_string()))?;
    if !path.is_file() {
        return Err(refused("it is not a file"));
    }
    if path.as_os_str().as_bytes().iter().any(|byte| b": \t\n$".contains(byte)) {
        return Err(refused(
            "its path has a colon, a space or a dollar sign, which LD_PRELOAD cannot hold",
        ));
    }
    let set = command.get_envs().find(|(name, _)| *name == LD_PRELOAD);
    let before = match set {
        Some((_, value)) => value.map(OsStr::to_owned),
        None => std::env::var_os(LD_PRELOAD),
    };
    let mut value = path.into_os_string();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preload_comes_before_what_was_there() {
        let library = std::env::current_exe().unwrap();
        let value = |command: &Command| preload_value(command, &library).unwrap();
        let mut command = Command::new("true");
        command.env_remove(LD_PRELOAD);
        assert_eq!(value(&command), library.as_os_str());
        command.env(LD_PRELOAD, "/other.so /third.so");
        let expected = format!("{}:/other.so /third.so", library.display());
        assert_eq!(value(&command), expected.as_str());
        command.env(LD_PRELOAD, "");
        assert_eq!(value(&command), library.as_os_str());
    }

    #[test]
    fn preload_that_cannot_be_used_is_refused() {
        let command = Command::new("true");
        let text = preload_value(&command, Path::new("/absent.so")).unwrap_err().to_string();
        assert!(text.starts_with("/absent.so: cannot be preloaded: No such file"), "{text}");
        let text = preload_value(&command, Path::new("/")).unwrap_err().to_string();
        assert_eq!(text, "/: cannot be preloaded: it is not a file");
    }

    #[test]
    fn how_the_program_ended_is_told() {
        assert_eq!(outcome(ExitStatus::from_raw(3 << 8)), Outcome::Exited(3));
        assert_eq!(outcome(ExitStatus::from_raw(11 | 128)), Outcome::Killed(11));
    }
}
