//! The collector of tier `Switches`: when the program's own threads were on a processor.
//!
//! One event on each processor follows the program and everything it starts; no privilege is
//! needed for threads of one's own. A thread of this process empties the rings into bounded
//! lists. It asks for the highest real-time priority, because it would otherwise starve exactly
//! when a real-time program keeps the processors; what the kernel could not store is counted.
//! Times are of `CLOCK_MONOTONIC` and become ticks at the end.
//! Called by [`super::Collector`].

use super::kept::Kept;
use super::perf::{Id, PerfRecord, What};
use super::ring::{EventOn, Ring};
use super::{Collected, Error, ProcessorStream, Request};
use crate::metadata::Task;
use realtime::thread::Scheduling;
use record::clock::Calibration;
use record::layout::{Kind, Raw, Record};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A ring is not larger, however much may be had: it is emptied all the time.
const LARGEST_RING_BYTES: usize = 8 << 20;
/// A ring wakes its reader when it is this full.
const WATERMARK_SHARE: usize = 4;
/// The reader's priority: above every thread that could keep it from its rings.
const READER_PRIORITY: u8 = 99;
/// Interval at which a ring is read if its event can no longer wake the reader, because the
/// program's first process ended; processes that it started may still run.
const LOOK_AGAIN_NS: i64 = 20_000_000;
/// The highest value of `perf_event_paranoid` at which this works without a privilege.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// A recording that runs.
#[derive(Debug)]
pub(super) struct Switches {
    stop: Arc<OwnedFd>,
    reader: Option<JoinHandle<Reader>>,
}

impl Switches {
    /// Starts it.
    pub(super) fn start(request: &Request) -> Result<Switches, Error> {
        let mut notes = Vec::new();
        let rings = open_rings(request, &mut notes)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(Error::system("eventfd"))?;
        let stop = Arc::new(stop);
        let mut reader = Reader::new(rings, request, notes);
        let stopped = stop.clone();
        let run = move || {
            reader.run(&stopped);
            reader
        };
        let builder = std::thread::Builder::new().name("kt-switches".into());
        let reader = builder.spawn(run).map_err(Error::system("starting a thread"))?;
        Ok(Switches { stop, reader: Some(reader) })
    }

    fn join(&mut self) -> Option<std::thread::Result<Reader>> {
        let reader = self.reader.take()?;
        // The counter takes any number of ones, so this is not refused.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        Some(reader.join())
    }

    /// Stops it and gives what was read.
    pub(super) fn finish(mut self, clock: &Calibration) -> Collected {
        match self.join() {
            Some(Ok(reader)) => reader.finish(clock),
            _ => {
                let note = "the thread that read the switches failed: the switches are lost".into();
                Collected { notes: vec![note], ..Collected::default() }
            }
        }
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        self.join();
    }
}

/// Opens rings of one size, the largest that is allowed.
fn open_rings(request: &Request, notes: &mut Vec<String>) -> Result<Vec<Ring>, Error> {
    let processors = on_line()?;
    let page_bytes = rustix::param::page_size();
    let most = usize::try_from(request.bytes_per_processor).unwrap_or(usize::MAX);
    let most = most.clamp(page_bytes, LARGEST_RING_BYTES);
    let wanted = 1 << most.ilog2();
    let mut bytes = wanted;
    loop {
        match try_rings(request.process, &processors, bytes)? {
            Ok(rings) => {
                if bytes < wanted {
                    notes.push(format!(
                        "the kernel shares rings of {} KiB with this user instead of {} KiB: \
                         raise kernel.perf_event_mlock_kb or `ulimit -l`",
                        bytes >> 10,
                        wanted >> 10
                    ));
                }
                return Ok(rings);
            }
            Err(_) if bytes / 2 >= page_bytes => bytes /= 2,
            Err(source) => {
                return Err(Error::Ring { bytes, processors: processors.len(), source });
            }
        }
    }
}

/// The inner error is that of a ring, for which a smaller size may be the remedy.
fn try_rings(
    process: u32,
    processors: &[u32],
    bytes: usize,
) -> Result<Result<Vec<Ring>, io::Error>, Error> {
    let mut rings = Vec::new();
    for &processor in processors {
        let event = EventOn::open(process, processor, (bytes / WATERMARK_SHARE) as u32);
        let event = event.map_err(|source| refused(process, processor, source))?;
        match Ring::new(event, bytes) {
            Ok(ring) => rings.push(ring),
            Err((_, source)) => return Ok(Err(source)),
        }
    }
    Ok(Ok(rings))
}

fn refused(process: u32, processor: u32, source: io::Error) -> Error {
    let paranoid = std::fs::read_to_string(PARANOID);
    let paranoid: Option<i32> = paranoid.ok().and_then(|text| text.trim().parse().ok());
    let grant = match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::SRCH) => "the process has ended".into(),
        Some(Errno::MFILE | Errno::NFILE) => {
            "one file descriptor is needed for each processor: raise `ulimit -n`".into()
        }
        Some(Errno::NOSYS | Errno::NOENT | Errno::OPNOTSUPP) => {
            "this kernel was built without CONFIG_PERF_EVENTS".into()
        }
        _ => match paranoid {
            Some(level @ 3..) => format!(
                "kernel.perf_event_paranoid is {level}: `sudo sysctl kernel.perf_event_paranoid=2`"
            ),
            _ => "start the container with a seccomp profile that allows the call, as `docker run \
                  --security-opt seccomp=unconfined` does"
                .into(),
        },
    };
    Error::Switches { process, processor, source, grant }
}

fn on_line() -> Result<Vec<u32>, Error> {
    const FILE: &str = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(FILE).map_err(Error::system(FILE))?;
    let wrong = || io::Error::other(format!("{:?}, expected a list like 0-3,5", text.trim()));
    processors(&text).ok_or_else(wrong).map_err(Error::system(FILE))
}

fn processors(list: &str) -> Option<Vec<u32>> {
    let mut processors = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        processors.extend(first..=last.min(first.saturating_add(1 << 16)));
    }
    Some(processors)
}

/// State of the reading thread, which it gives back at the end.
#[derive(Debug)]
struct Reader {
    rings: Vec<Ring>,
    kept: Vec<Kept>,
    threads: Threads,
    notes: Vec<String>,
}

impl Reader {
    fn new(rings: Vec<Ring>, request: &Request, notes: Vec<String>) -> Reader {
        let capacity = request.bytes_per_processor as usize / size_of::<Raw>();
        let start = nanoseconds(ClockId::Monotonic);
        let kept = || Kept::new(capacity, request.keep_last, start);
        let kept = rings.iter().map(|_| kept()).collect();
        Reader { rings, kept, threads: Threads::with(request.process), notes }
    }

    fn run(&mut self, stop: &OwnedFd) {
        if let Err(error) = realtime::thread::set_policy(Scheduling::Fifo(READER_PRIORITY)) {
            self.notes.push(format!(
                "switches are read by an ordinary thread and may be lost while real-time threads \
                 have all processors: {error}"
            ));
        }
        let mut ended = vec![false; self.rings.len()];
        while !self.wait(stop, &mut ended) {
            self.drain();
        }
        self.rings.iter().for_each(Ring::stop);
        self.drain();
        let now = nanoseconds(ClockId::Monotonic);
        for (ring, kept) in self.rings.iter().zip(&mut self.kept) {
            // Records that were lost last have no record behind them that reports the loss.
            let lost = ring.lost().unwrap_or(0).saturating_sub(kept.lost_count());
            kept.lost(lost, now);
        }
        let used_ms = nanoseconds(ClockId::ThreadCPUTime) as f64 / 1e6;
        self.notes.push(format!("reading the switches took {used_ms:.1} ms of processor time"));
    }

    /// Waits for records, or for the end, which is true.
    fn wait(&self, stop: &OwnedFd, ended: &mut [bool]) -> bool {
        let mut polled = vec![PollFd::new(stop, PollFlags::IN)];
        let waiting: Vec<usize> = (0..ended.len()).filter(|index| !ended[*index]).collect();
        let fds = waiting.iter().map(|index| self.rings[*index].as_fd());
        polled.extend(fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let look_again = Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NS };
        let timeout = (waiting.len() < ended.len()).then_some(&look_again);
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            // Without memory for a poll there is nothing to do but to wait in another way.
            Err(_) => std::thread::yield_now(),
        }
        for (index, polled) in waiting.iter().zip(&polled[1..]) {
            ended[*index] = polled.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        }
        !polled[0].revents().is_empty()
    }

    fn drain(&mut self) {
        let Reader { rings, kept, threads, .. } = self;
        for (ring, kept) in rings.iter_mut().zip(kept) {
            let processor = ring.processor();
            ring.drain(&mut |record| {
                threads.learn(&record);
                keep(kept, processor, &record);
            });
        }
    }

    fn finish(self, clock: &Calibration) -> Collected {
        let stream = |(ring, kept): (&Ring, Kept)| {
            let (records, lost) = kept.finish(|ns| clock.ticks(ns));
            ProcessorStream { processor: ring.processor(), records, lost }
        };
        let processors = self.rings.iter().zip(self.kept).map(stream).collect();
        Collected { processors, tasks: self.threads.tasks(), notes: self.notes }
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn keep(kept: &mut Kept, processor: u32, record: &PerfRecord<'_>) {
    let time = record.time_ns;
    let (kind, thread, detail) = match record.what {
        What::On => (Kind::OnCpu, record.thread.thread, 0),
        What::Off { preempted } => (Kind::OffCpu, record.thread.thread, preempted.into()),
        // The switch away from a thread that ended is not recorded any more.
        What::Exited(id) => (Kind::OffCpu, id.thread, 0),
        What::Lost(count) => return kept.lost(count, time),
        What::Named(..) | What::Forked { .. } | What::Other => return,
    };
    let subject = u64::from(thread);
    kept.push(Record { time, subject, detail, number: processor, kind }.to_raw());
}

/// Threads of the program, with their processes and names.
#[derive(Debug)]
struct Threads(HashMap<u32, (u32, String)>);

impl Threads {
    /// Knows the first thread of the program.
    fn with(process: u32) -> Threads {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Threads(HashMap::from([(process, (process, name.trim_end().to_owned()))]))
    }

    fn learn(&mut self, record: &PerfRecord<'_>) {
        match record.what {
            What::Named(Id { process, thread }, name) => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.0.insert(thread, (process, name));
            }
            What::Forked { child, parent } => {
                let name = self.0.get(&parent.thread).map(|(_, name)| name.clone());
                // A name of its own may have come first, from another processor's ring.
                let known = self.0.entry(child.thread).or_default();
                if known.0 != child.process {
                    *known = (child.process, name.unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    fn tasks(self) -> Vec<Task> {
        let task = |(thread, (pid, name))| Task { thread, pid, name };
        let mut tasks: Vec<Task> = self.0.into_iter().map(task).collect();
        tasks.sort_by_key(|task| task.thread);
        tasks
    }
}
