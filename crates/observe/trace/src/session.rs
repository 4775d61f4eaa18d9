//! Records a program: starts it under the preload library, waits for it, and writes the trace.
//!
//! ```text
//!   record ---- forks the keeper, which knows what the process group gets -> keeper
//!     |         forks the child, which waits -> child
//!     |         attaches the kernel collector -> kernel
//!     |         lets the child become the program, passes signals on until its end -> relay
//!     +-------- meanwhile, on a thread of its own -> service: attaching processes, the dead
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
mod gpus;
mod guard;
mod inherited;
mod keeper;
mod library;
mod memory;
mod relay;
mod service;
mod signals;
mod store;
pub mod unloaded;

use crate::file::Kept;
use crate::kernel::{Collected, Collector, Request, Started, Wanted};
use crate::metadata::{self, Machine, Metadata, ProgramEnd, Tier, TroubleCount};
use crate::{Error, TraceWriter};
use bandwidth::Bandwidth;
use child::WaitingChild;
use keeper::Keeper;
pub use library::Library;
use record::attach::{Invitation, VARIABLE};
use record::clock::Reading;
use record::door::RecorderSocket;
use record::{Recording, Settings, Trouble};
use relay::Relay;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use service::{Service, Stop};
use signals::Signals;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use store::Counts;

const LD_PRELOAD: &str = "LD_PRELOAD";
/// Memory for records where nothing is recorded.
const LEAST_MEMORY_BYTES: u64 = 1 << 16;

/// Options of a recording.
#[derive(Debug)]
pub struct Options {
    /// Settings of the recording inside the program.
    pub settings: Settings,
    /// Memory for its records.
    pub memory_bytes: u64,
    /// Tier of the recording around it.
    pub kernel: Wanted,
    /// True to record its futex calls.
    pub futex: bool,
    /// Memory for the kernel's records, for each processor.
    pub kernel_bytes_per_processor: u64,
    /// The library to preload.
    pub preload: Library,
}

impl Options {
    /// The locks of the CUDA libraries, in memory of 256 MiB, with what the kernel lets see.
    pub fn new(preload: Library) -> Options {
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

/// Result of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// End of the program.
    pub outcome: ProgramEnd,
    /// Path of the trace: elsewhere than wanted if its folder has gone, or may not be written to.
    pub file: Option<PathBuf>,
    /// Reason why the trace is not whole, not where it was wanted, or not there at all.
    pub unwritten: Option<String>,
    /// Records in the trace.
    pub records: u64,
    /// Records that there was no room for.
    pub lost: u64,
    /// Records that gave way to later ones.
    pub overwritten: u64,
    /// Process images that were recorded.
    pub processes: usize,
    /// Reason why no process was recorded: the program did not load the library.
    pub unloaded: Option<String>,
    /// Tier of the recording around the program.
    pub tier: Tier,
    /// Reasons why the tier was not higher.
    pub tier_reasons: Vec<String>,
    /// Troubles that did not stop the recording.
    pub troubles: Vec<TroubleCount>,
    /// Settings and counts of the guard of its locks, if they were guarded.
    pub guard: Option<metadata::Guard>,
    /// Use of the bandwidth lock, if it was to be held.
    pub bandwidth: Option<Bandwidth>,
}

/// Runs a program whose locks are guarded, and records nothing. As [`record()`] otherwise.
///
/// # Errors
/// As for [`record()`].
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
    let session = Session::prepare(command, &options)?;
    let keeper = Keeper::start(&[], |_| ()).ok();
    let run = session.run(command, keeper.as_ref())?;
    let end = Reading::take();
    let recording = &session.recording;
    let mut metadata = Metadata { outcome: outcome(run.status), ..Metadata::default() };
    describe(&mut metadata, recording, Collected::default(), run.notes);
    metadata.guard = guarded(&options, recording);
    let unloaded = unloaded(command, recording, &mut metadata);
    let bandwidth = held(&options, recording, end);
    Ok(Finished { unloaded, bandwidth, ..Finished::of(&metadata) })
}

/// Runs a program, recorded, and writes the trace to `output`. The program keeps the standard
/// streams and the terminal that `command` gives it.
///
/// While it runs, signals that are sent to this process are passed on to the program; it stops and
/// goes on with the program. Afterwards signals have no effect on the calling thread, and on those
/// that it starts: they stay blocked. No other thread may be there. `command` cannot be used again.
///
/// If this process is killed, the trace is written when the program has ended, with what the
/// program's processes recorded until then.
///
/// # Errors
/// Fails and runs nothing if the trace cannot be written, or not be recorded as asked for.
/// [`Finished::unwritten`] tells that a trace could not be written afterwards.
pub fn record(command: &mut Command, options: &Options, output: &Path) -> Result<Finished, Error> {
    let mut writer = Some(TraceWriter::create(output)?);
    let session = Session::prepare(command, options)?;
    let start = Reading::take();
    let descriptors = Vec::from_iter(writer.as_ref().map(|writer| writer.as_fd().as_raw_fd()));
    let orphaned = |program: Option<OwnedFd>| {
        if let Some((writer, program)) = writer.take().zip(program) {
            session.rescue(command, start, writer, &program);
        }
    };
    // Without it, as when there may be no more processes, the program is recorded all the same.
    let keeper = Keeper::start(&descriptors, orphaned).ok();
    let run = session.run(command, keeper.as_ref())?;
    let end = Reading::take();
    let writer = writer.expect("only the keeper takes it");
    let mut metadata = session.metadata(command, start, end);
    metadata.outcome = outcome(run.status);
    (metadata.tier, metadata.tier_reasons, metadata.futex) =
        (run.tier, run.tier_reasons, run.futex);
    let recording = &session.recording;
    let mut finished =
        Finished { bandwidth: held(options, recording, end), ..Finished::of(&metadata) };
    describe_processes(&mut metadata, recording, run.notes);
    finished.unloaded = unloaded(command, recording, &mut metadata);
    finished.processes = metadata.processes.len();
    let written = match metadata.clock.calibration().map(|clock| run.collector.finish(&clock)) {
        Some(collected) => write(writer, recording, &mut metadata, collected),
        None => {
            let (file, metadata::Clock { start, end, .. }) =
                (output.to_owned(), metadata.clock.clone());
            Err(Error::Clock { file, start, end })
        }
    };
    finished.troubles = metadata.troubles;
    finished.tell_of(written);
    Ok(finished)
}

impl Finished {
    /// Returns the result for a program that has ended, before anything was written.
    fn of(metadata: &Metadata) -> Finished {
        Finished {
            outcome: metadata.outcome.clone(),
            file: None,
            unwritten: None,
            records: 0,
            lost: 0,
            overwritten: 0,
            processes: metadata.processes.len(),
            unloaded: None,
            tier: metadata.tier,
            tier_reasons: metadata.tier_reasons.clone(),
            troubles: metadata.troubles.clone(),
            guard: metadata.guard.clone(),
            bandwidth: None,
        }
    }

    fn tell_of(&mut self, written: Result<(Counts, Kept), Error>) {
        match written {
            Err(error) => self.unwritten = Some(error.to_string()),
            Ok((counts, kept)) => {
                self.records = counts.records - kept.left_out;
                self.lost = counts.lost + kept.left_out;
                self.overwritten = counts.overwritten;
                self.file = Some(kept.file);
                self.unwritten = kept.reason;
            }
        }
    }
}

/// Writes the records of the program and of the kernel.
fn write(
    mut writer: TraceWriter,
    recording: &Recording,
    metadata: &mut Metadata,
    collected: Collected,
) -> Result<(Counts, Kept), Error> {
    let log = recording.log();
    let threads = store::threads(&log, &mut writer)?;
    let processors = store::processors(&collected.processors, &mut writer)?;
    metadata.lost_without_chunk = store::lost_without_chunk(&log);
    describe_kernel(metadata, collected);
    let counts = Counts {
        records: threads.records + processors.records,
        lost: threads.lost + processors.lost,
        overwritten: threads.overwritten,
    };
    Ok((counts, writer.finish_with_what_fits(metadata)?))
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
    /// Further troubles for the metadata.
    notes: Vec<TroubleCount>,
}

/// State for the run of one program.
struct Session<'a> {
    options: &'a Options,
    recording: Recording,
    invitation: Invitation,
    signals: Signals,
    /// A trouble for the metadata, if the memory is less than wanted.
    note: Option<String>,
}

impl<'a> Session<'a> {
    /// Takes the memory, and has the program look for it.
    fn prepare(command: &mut Command, options: &'a Options) -> Result<Session<'a>, Error> {
        let preload = library::place(&options.preload)?;
        let preload = preload_value(command, preload);
        let signals = Signals::block_all()?;
        let limit = signals.inherited().largest_file_bytes();
        let (memory_bytes, note) = memory::within_limit(options.memory_bytes, limit)?;
        memory::check(memory_bytes)?;
        let recording = Recording::create(memory_bytes, &options.settings)?;
        let invitation = Invitation::new(recording.fd())?;
        command.env(VARIABLE, invitation.value()).env(LD_PRELOAD, preload);
        Ok(Session { options, recording, invitation, signals, note })
    }

    fn run(&self, command: &mut Command, keeper: Option<&Keeper>) -> Result<Run, Error> {
        let Session { options, recording, signals, .. } = self;
        let door = RecorderSocket::open(self.invitation)?;
        std::thread::scope(|scope| {
            let early = signals.came();
            keeper.inspect(|keeper| keeper.forget());
            let held = WaitingChild::start(scope, command, signals.inherited())?;
            let pid = held.pid();
            keeper.inspect(|keeper| keeper.tell(pid));
            let program = service::process_descriptor(pid)?;
            let request = Request {
                process: pid.as_raw_nonzero().get() as u32,
                wanted: options.kernel,
                futex: options.futex,
                keep_last: options.settings.keep_last,
                bytes_per_processor: options.kernel_bytes_per_processor,
            };
            let Started { collector, tier, futex, reasons } = Collector::start(&request)?;
            let keep_last = options.settings.keep_last;
            let service = Service { door, recording, keep_last };
            let stop = Stop::new()?;
            let watch = stop.watch()?;
            let service = scope.spawn(move || service.run(&watch));
            let running = held.release();
            Relay { signals, keeper, early, pid, program }.run();
            let status = running.wait()?;
            drop(stop);
            let door_failed = service.join().expect("the service does not panic");
            let door_failed = door_failed.map(|(count, reason)| TroubleCount {
                trouble: format!("processes were not admitted to the recording: {reason}"),
                count,
            });
            let note = self.note.clone().map(|trouble| TroubleCount { trouble, count: 1 });
            let notes = note.into_iter().chain(door_failed).collect();
            Ok(Run { status, collector, tier, futex, tier_reasons: reasons, notes })
        })
    }

    /// Writes the trace in place of a recorder that was killed, when the program has ended.
    fn rescue(&self, command: &Command, start: Reading, writer: TraceWriter, program: &OwnedFd) {
        let mut watched = [PollFd::new(program, PollFlags::IN)];
        while poll(&mut watched, None).is_err() {}
        let end = Reading::take();
        let mut metadata = self.metadata(command, start, end);
        metadata.tier_reasons = vec!["keeptime was killed before the program ended".to_owned()];
        describe_processes(&mut metadata, &self.recording, Vec::new());
        if !metadata.processes.is_empty() && writer.rewind().is_ok() {
            // The recorder is gone, so that an error cannot be reported.
            let _ = write(writer, &self.recording, &mut metadata, Collected::default());
        }
    }

    /// Returns the metadata that is known without the processes' names and the kernel's side.
    fn metadata(&self, command: &Command, start: Reading, end: Reading) -> Metadata {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let gpus = match self.options.settings.gpu {
            true => gpus::gpus(Duration::from_nanos(end.ns.saturating_sub(start.ns))),
            false => Vec::new(),
        };
        Metadata {
            command: words.map(|word| word.to_string_lossy().into_owned()).collect(),
            clock: facts::clock(start, end),
            settings: settings(self.options),
            guard: guarded(self.options, &self.recording),
            machine: Machine { gpus, ..facts::machine() },
            functions: record::cuda::FUNCTIONS.iter().map(|f| f.symbol.to_owned()).collect(),
            ..Metadata::default()
        }
    }
}

/// Ends this process by a signal, as it ended the program, without a core of its own. Comes back
/// if that signal does not end a process.
pub fn end_by(signal: i32) {
    // The program has dumped its core, if it was to; ours would say nothing.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    signals::suffer(signal);
}

fn outcome(status: ExitStatus) -> ProgramEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Exited(code),
        (None, Some(signal)) => ProgramEnd::Killed(signal),
        (None, None) => ProgramEnd::Unknown,
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
    notes: Vec<TroubleCount>,
) {
    describe_processes(metadata, recording, notes);
    describe_kernel(metadata, collected);
}

fn describe_processes(metadata: &mut Metadata, recording: &Recording, notes: Vec<TroubleCount>) {
    facts::add_names(&recording.side(), metadata);
    metadata.troubles.extend(notes);
}

fn describe_kernel(metadata: &mut Metadata, collected: Collected) {
    metadata.tasks = collected.tasks;
    let notes = collected.notes.into_iter().map(|trouble| TroubleCount { trouble, count: 1 });
    metadata.troubles.extend(notes);
}

/// Reason why no process loaded the library, if none did; it is added to the metadata, too.
fn unloaded(command: &Command, recording: &Recording, metadata: &mut Metadata) -> Option<String> {
    if !metadata.processes.is_empty() {
        return None;
    }
    let set = command.get_envs().find(|(name, _)| *name == "PATH");
    let search =
        set.map_or_else(|| std::env::var_os("PATH"), |(_, value)| value.map(OsStr::to_owned));
    let failed = recording.side().troubles()[Trouble::NotAttached as usize];
    let reason = unloaded::reason(command.get_program(), search.as_deref(), failed);
    let trouble = format!("the program did not load the library: {reason}");
    metadata.troubles.push(TroubleCount { trouble, count: 1 });
    Some(reason)
}

/// Returns the program's `LD_PRELOAD`: `first`, then the value that it would have had.
fn preload_value(command: &Command, first: OsString) -> OsString {
    let set = command.get_envs().find(|(name, _)| *name == LD_PRELOAD);
    let before = match set {
        Some((_, value)) => value.map(OsStr::to_owned),
        None => std::env::var_os(LD_PRELOAD),
    };
    let mut value = first;
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preload_comes_before_what_was_there() {
        let value = |command: &Command| preload_value(command, "/first.so".into());
        let mut command = Command::new("true");
        command.env_remove(LD_PRELOAD);
        assert_eq!(value(&command), "/first.so");
        command.env(LD_PRELOAD, "/other.so /third.so");
        assert_eq!(value(&command), "/first.so:/other.so /third.so");
        command.env(LD_PRELOAD, "");
        assert_eq!(value(&command), "/first.so");
    }

    #[test]
    fn how_the_program_ended_is_told() {
        assert_eq!(outcome(ExitStatus::from_raw(3 << 8)), ProgramEnd::Exited(3));
        assert_eq!(outcome(ExitStatus::from_raw(11 | 128)), ProgramEnd::Killed(11));
    }
}
