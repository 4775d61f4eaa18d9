//! Tracks: what they are called, and under what they stand. Each is described once, before the
//! first event on it.
//!
//! A track's number is made of what it is about, so that any part of the writer can name the track
//! of any thread without a table.

use super::message::*;
use super::packets::{Packets, Track};
use crate::Error;
use late::Survey;
use std::collections::{HashMap, HashSet};
use trace::{Metadata, StreamKind, Trace};

/// Subject of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A process image, by its number.
    Process(u32),
    /// The calls and waits of a thread, by its stream.
    Thread(u32),
    /// Locks that it holds, one at a time; tracks of one thread and name are shown as one.
    Held(u32, u32),
    /// A thread that made no call, by its id.
    Task(u32),
    /// Times at which a thread was off the processor.
    OffCpu(u32),
    /// A thread's futex calls.
    Futex(u32),
    /// The counters of a process image.
    Waiters(u32),
    /// Number of threads that wait for a lock, by a number of its own.
    Waiting(u32),
    /// Missing records of a processor.
    Processor(u32),
    /// A GPU.
    Gpu(u32),
    /// Work in a stream of a GPU, one at a time.
    GpuStream(u32, u32),
}

impl About {
    /// The number of the track.
    pub(super) fn track(self) -> Track {
        let (kind, first, second) = match self {
            About::Process(number) => (1, number, 0),
            About::Thread(stream) => (2, stream, 0),
            About::Held(stream, lane) => (3, stream, lane),
            About::Task(tid) => (4, tid, 0),
            About::OffCpu(tid) => (5, tid, 0),
            About::Futex(tid) => (6, tid, 0),
            About::Waiters(process) => (7, process, 0),
            About::Waiting(number) => (8, number, 0),
            About::Processor(processor) => (9, processor, 0),
            About::Gpu(gpu) => (10, gpu, 0),
            About::GpuStream(gpu, number) => (11, gpu, number),
        };
        kind << 56 | u64::from(first) << 24 | u64::from(second & 0xff_ffff)
    }
}

/// Tracks, and the set of those that were described.
pub(super) struct Tracks<'s> {
    trace: &'s Trace,
    survey: &'s Survey,
    described: HashSet<Track>,
    /// Streams of each thread id, in the order in which they begin.
    streams: HashMap<u32, Vec<u32>>,
}

impl<'s> Tracks<'s> {
    pub(super) fn new(trace: &'s Trace, survey: &'s Survey) -> Tracks<'s> {
        let mut streams: HashMap<u32, Vec<u32>> = HashMap::new();
        for (stream, of) in (0..).zip(trace.streams()) {
            if of.kind == StreamKind::Thread {
                streams.entry(of.id).or_default().push(stream);
            }
        }
        let begins = |stream: &u32| trace.streams()[*stream as usize].blocks[0].first;
        streams.values_mut().for_each(|of| of.sort_by_key(begins));
        Tracks { trace, survey, described: HashSet::new(), streams }
    }

    /// The stream of a thread id: the latest that has begun, or else the first.
    pub(super) fn stream(&self, tid: u32, ticks: u64) -> Option<u32> {
        let of = self.streams.get(&tid)?;
        let begun =
            |stream: &&u32| self.trace.streams()[**stream as usize].blocks[0].first <= ticks;
        of.iter().rev().find(begun).or(of.first()).copied()
    }

    /// The track of a process image.
    pub(super) fn process(&mut self, to: &mut Packets<'_>, number: u32) -> Result<Track, Error> {
        let metadata = self.trace.metadata();
        self.describe(to, About::Process(number), || {
            let process = metadata.processes.iter().find(|process| process.number == number);
            let program = process.map(|process| process.program.clone());
            let first = metadata.processes.first().is_some_and(|first| first.number == number);
            TrackDescriptor {
                process: Some(ProcessDescriptor {
                    pid: process.map(|process| process.pid as i32),
                    cmdline: if first { metadata.command.clone() } else { Vec::new() },
                    process_name: program.map(|program| file_name(&program).to_owned()),
                }),
                ..TrackDescriptor::default()
            }
        })
    }

    /// The track of a thread's calls.
    pub(super) fn thread(&mut self, to: &mut Packets<'_>, stream: u32) -> Result<Track, Error> {
        let thread = &self.survey.threads[stream as usize];
        self.process(to, thread.process)?;
        let name = Some(thread.name.clone()).filter(|name| !name.is_empty());
        let thread = of_thread(thread.pid, thread.tid, name);
        self.describe(to, About::Thread(stream), || thread)
    }

    /// The track of a thread of the machine: that of its calls, or one without.
    pub(super) fn task(
        &mut self,
        to: &mut Packets<'_>,
        tid: u32,
        ticks: u64,
    ) -> Result<Track, Error> {
        if let Some(stream) = self.stream(tid, ticks) {
            return self.thread(to, stream);
        }
        let metadata = self.trace.metadata();
        self.describe(to, About::Task(tid), || {
            let task = metadata.tasks.iter().find(|task| task.thread == tid);
            let pid = task.map_or(0, |task| task.pid);
            of_thread(pid, tid, task.map(|task| task.name.clone()))
        })
    }

    /// A track with a name under another one.
    pub(super) fn child(
        &mut self,
        to: &mut Packets<'_>,
        about: About,
        name: &str,
        parent: Option<Track>,
    ) -> Result<Track, Error> {
        self.describe(to, about, || TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: parent,
            ..TrackDescriptor::default()
        })
    }

    /// The counter of the threads that wait for a lock.
    pub(super) fn waiting(
        &mut self,
        to: &mut Packets<'_>,
        (process, number): (u32, u32),
        lock: &str,
    ) -> Result<Track, Error> {
        let parent = self.process(to, process)?;
        let group = self.child(to, About::Waiters(process), "threads waiting", Some(parent))?;
        self.describe(to, About::Waiting(number), || TrackDescriptor {
            name: Some(format!("waiting for {lock}")),
            parent_uuid: Some(group),
            counter: Some(CounterDescriptor { unit_name: Some("threads".to_owned()) }),
            ..TrackDescriptor::default()
        })
    }

    fn describe(
        &mut self,
        to: &mut Packets<'_>,
        about: About,
        make: impl FnOnce() -> TrackDescriptor,
    ) -> Result<Track, Error> {
        let track = about.track();
        if self.described.insert(track) {
            let descriptor = TrackDescriptor { uuid: Some(track), ..make() };
            to.data(Data::TrackDescriptor(descriptor))?;
        }
        Ok(track)
    }
}

fn of_thread(pid: u32, tid: u32, thread_name: Option<String>) -> TrackDescriptor {
    // A process that is not known is shown as one of its own.
    let pid = if pid == 0 { tid } else { pid };
    let (pid, tid) = (Some(pid as i32), Some(i64::from(tid)));
    let thread = Some(ThreadDescriptor { pid, tid, thread_name });
    TrackDescriptor { thread, ..TrackDescriptor::default() }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// The machine, and all processes and threads that were seen.
pub(super) fn describe_machine(
    to: &mut Packets<'_>,
    start: u64,
    about: &Metadata,
) -> Result<(), Error> {
    to.data(Data::SystemInfo(SystemInfo {
        utsname: Some(Utsname {
            sysname: Some("Linux".to_owned()),
            release: Some(about.machine.kernel.clone()),
        }),
        num_cpus: Some(about.machine.processors),
    }))?;
    let known = || about.tasks.iter().filter(|task| task.pid != 0 && task.thread != 0);
    let parents: HashMap<u32, u32> =
        about.processes.iter().map(|process| (process.pid, process.parent)).collect();
    let processes = known().filter(|task| task.pid == task.thread).map(|task| Process {
        pid: Some(task.pid as i32),
        ppid: parents.get(&task.pid).map(|parent| *parent as i32),
        cmdline: vec![task.name.clone()],
    });
    let threads = known().map(|task| Thread {
        tid: Some(task.thread as i32),
        tgid: Some(task.pid as i32),
        name: Some(task.name.clone()),
    });
    let (processes, threads) = (processes.collect(), threads.collect());
    to.timed(start, Data::ProcessTree(ProcessTree { processes, threads }))
}
