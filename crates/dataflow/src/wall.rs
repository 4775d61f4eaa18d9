//! The wall clock: the same graphs and modules on real threads.
//!
//! Each core of a group has a worker, pinned and of real-time priority if the group says so, which
//! runs its group's modules, earliest deadline first. At a checkpoint it runs what is more urgent
//! on top, and then goes on. Beside it, on the same core, is a twin of the kernel's ordinary policy: it
//! runs guests and work ahead, and the kernel takes the core from it whenever the worker wants it.
//! If the worker has no real-time priority, it shares the core with its twin instead.
//! A thread of its own fires the timers.
//!
//! One lock, with priority inheritance, guards the mailboxes and queues; no module runs under it. A
//! twin has a priority above the workers' while it waits for the lock and holds it: a twin to whom
//! the lock is promised, and whose core a worker keeps, would keep the other twins waiting.
//! Threads without work are parked, and woken by the thread that made work for them.

mod charge;
mod clock;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use realtime::clock::monotonic_ns;
use realtime::mutex::PiMutex;

use crate::engine::{Engine, Statistics};
use crate::message::Envelope;
use crate::middleware::Sent;
use crate::trace::{Core, Names, Ring};
use crate::{Chunk, Error, Graph, Mechanism, Message, Output, Settings, Source};

use worker::{Lane, Worker};

/// Runs a graph on threads. The clock is nanoseconds since the start.
///
/// ```
/// use dataflow::{Cx, Graph, Group, Message, Module, Path, Settings, Stop, Wall};
/// # struct Double;
/// # impl Module for Double {
/// #     type In = Message<u32>;
/// #     type Out = u32;
/// #     fn run(&mut self, _: &mut Cx<u32>, number: &Self::In, _: Path) -> Result<u32, Stop> {
/// #         Ok(**number * 2)
/// #     }
/// # }
///
/// let mut graph = Graph::new();
/// let group = graph.group(Group::new("all", 1));
/// let (numbers, doubled) = (graph.topic("numbers"), graph.topic("doubled"));
/// let source = graph.source("sensor", &numbers, None);
/// graph.module("double", group, Double, numbers.latest(), &doubled);
/// let output = graph.output(&doubled);
///
/// let wall = Wall::start(graph, Settings::default())?;
/// wall.inject(&source, wall.now_ns(), 21)?;
/// let answers = wall.wait(&output, u64::MAX);
/// assert_eq!(*answers[0], 42);
/// let stopped = wall.stop();
/// assert_eq!(stopped.statistics.modules[0].normal, 1);
/// # Ok::<(), dataflow::Error>(())
/// ```
pub struct Wall {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Left>>,
    refused: Vec<String>,
}

/// Results of an executor that has stopped.
#[derive(Clone, Debug, Default)]
pub struct Stopped {
    /// The trace: one ring for each thread, and one for all that came in from outside. See
    /// [`crate::trace::merge`].
    pub rings: Vec<Ring>,
    /// Names for the numbers in the trace.
    pub names: Names,
    /// Counts of what happened.
    pub statistics: Statistics,
    /// Rights that the system refused to the threads, and the means to get them: the times are not
    /// those of the machine as it should be.
    pub refused: Vec<String>,
    /// All chunks in the order in which they were over, if they were to be kept
    /// ([`Settings::keep_chunks`]); for [`crate::Observed`].
    pub chunks: Vec<Chunk>,
}

/// Results of a thread.
struct Left {
    ring: Ring,
    chunks: Vec<(u64, Chunk)>,
}

/// State that all threads share.
struct Shared {
    /// Time of `CLOCK_MONOTONIC` at which the clock is 0.
    began_ns: AtomicU64,
    /// Factor by which the cores are slower than the machine's.
    factor: f64,
    /// True if chunks are kept.
    keeps: bool,
    stop: AtomicBool,
    locked: PiMutex<Locked>,
}

struct Locked {
    engine: Engine,
    cores: Vec<CoreState>,
    /// Events of threads that are not the executor's.
    outside: Ring,
    waiters: Vec<Thread>,
}

struct CoreState {
    id: Core,
    worker: ThreadSlot,
    twin: ThreadSlot,
    /// The guest of another group that the twin runs here.
    guest: Option<u64>,
    /// The twin is on the core where the run waits whose piece it does.
    away: bool,
    /// A run of the worker's waits for its pieces: the core is kept for it.
    divided: bool,
}

impl CoreState {
    fn place(&mut self, lane: Lane) -> &mut ThreadSlot {
        match lane {
            Lane::Worker => &mut self.worker,
            Lane::Twin => &mut self.twin,
        }
    }

    /// The thread is about to wait for the pieces of its run.
    fn park(&mut self, lane: Lane) {
        self.place(lane).parked = true;
        self.divided |= lane == Lane::Worker;
    }

    fn unpark(&mut self, lane: Lane) {
        self.place(lane).parked = false;
        self.divided &= lane != Lane::Worker;
    }
}

/// State of a thread: parked, and to be woken when there is work for it, or not.
#[derive(Default)]
struct ThreadSlot {
    thread: Option<Thread>,
    /// The kernel's number of it.
    number: u32,
    parked: bool,
}

impl ThreadSlot {
    fn wake(&mut self) {
        if self.parked {
            if let Some(thread) = &self.thread {
                self.parked = false;
                thread.unpark();
            }
        }
    }
}

impl Shared {
    fn now_ns(&self) -> u64 {
        // Set once; a thread that has not seen it yet still finds the clock at 0.
        monotonic_ns().saturating_sub(self.began_ns.load(Ordering::Relaxed))
    }

    /// Returns the first chunk of a run.
    fn first_chunk(&self, job: u64, ceiling: Option<u8>) -> Chunk {
        self.locked.lock_at(ceiling).engine.first_chunk(job)
    }

    fn stopping(&self) -> bool {
        // The thread that sets it unparks every other afterwards.
        self.stop.load(Ordering::Acquire)
    }
}

impl Locked {
    /// Delivers what was published, and wakes the threads that have work from it.
    fn settle(&mut self, now_ns: u64, ring: &mut Ring) {
        let posted = std::mem::take(&mut self.engine.posted);
        for (topic, envelope) in &posted {
            self.engine.deliver(now_ns, *topic, envelope, ring);
        }
        if !posted.is_empty() {
            self.waiters.drain(..).for_each(|waiter| waiter.unpark());
        }
        self.wake();
    }

    fn wake(&mut self) {
        let guests_wait = self.engine.guests_wait();
        let mechanism = self.engine.settings.stealing.map(|stealing| stealing.mechanism);
        for core in self.cores.iter_mut().filter(|core| self.engine.rejoins(core.id)) {
            core.worker.wake();
            core.twin.wake();
        }
        for core in self.cores.iter_mut().filter(|core| core.worker.parked) {
            let group = &self.engine.groups[usize::from(core.id.group)];
            let waits = group.waits() || self.engine.pieces_wait(core.id.group);
            if waits || guests_wait && mechanism == Some(Mechanism::Cooperative) {
                core.worker.wake();
            } else if guests_wait || group.ahead_waits() {
                core.twin.wake();
            }
        }
    }

    /// The guest on a core whose worker has a run does its piece where the run waits for it, if nothing
    /// is done there: its thread, the twin, goes there until it is done. If the system does not let
    /// it, it stays.
    fn send_home(&mut self, now_ns: u64, from: usize, ring: &mut Ring) {
        let CoreState { id, worker, twin, guest, divided, .. } = &self.cores[from];
        // A run that waits for its pieces will want the core at once when it has them.
        let Some(job) = guest.filter(|_| !worker.parked || *divided) else { return };
        let Some((_, home)) = self.engine.home_of(job) else { return };
        let waits = |core: &CoreState| core.id == home && core.divided && core.worker.parked;
        if !self.cores.iter().any(waits) || self.pinned(*id).is_none() {
            return;
        }
        let to = self.pinned(home).map_or_else(realtime::thread::cores, |core| vec![core]);
        if realtime::thread::pin_other(twin.number, &to).is_ok() {
            self.engine.come_home(now_ns, job, ring);
            (self.cores[from].guest, self.cores[from].away) = (None, true);
        }
    }

    /// The core of the machine that a core is, if its group says so.
    fn pinned(&self, core: Core) -> Option<usize> {
        let pin = &self.engine.groups[usize::from(core.group)].group.pin;
        pin.get(usize::from(core.index)).copied()
    }

    /// [`Locked::settle`] for a thread that has no ring.
    fn outside(&mut self, act: impl FnOnce(&mut Locked, &mut Ring)) {
        let mut ring = std::mem::replace(&mut self.outside, Ring::new(1));
        act(self, &mut ring);
        self.outside = ring;
    }
}

impl Wall {
    /// Starts the threads of a graph, on cores as fast as they are.
    ///
    /// # Errors
    /// If the graph makes no sense, a thread cannot be started, or a core is not there.
    pub fn start(graph: Graph, settings: Settings) -> Result<Wall, Error> {
        let wall = Wall::prepare(graph, settings, 1.0)?;
        wall.begin(monotonic_ns());
        Ok(wall)
    }

    /// Starts the threads of a graph on cores that are `factor` times slower than this machine's:
    /// after each chunk, from checkpoint to checkpoint, the core is kept busy with arithmetic until
    /// the thread has used the processor time of the chunk so many times. The clock stands at 0 until
    /// it begins ([`Wall::begin`]).
    ///
    /// # Errors
    /// As [`Wall::start`], and [`Error::Factor`] if the factor is less than 1.
    pub fn prepare(graph: Graph, settings: Settings, factor: f64) -> Result<Wall, Error> {
        if !(factor.is_finite() && factor >= 1.0) {
            return Err(Error::Factor { factor });
        }
        let events = settings.trace_events;
        let keeps = settings.keep_chunks;
        let twins = settings.proactive || settings.stealing.is_some();
        let engine = Engine::new(graph, settings)?;
        let ids = engine.groups.iter().enumerate().flat_map(|(group, state)| {
            (0..state.group.cores)
                .map(move |index| Core { group: group as u16, index: index as u16 })
        });
        let ids: Vec<Core> = ids.collect();
        let core = |id| CoreState {
            id,
            worker: ThreadSlot::default(),
            twin: ThreadSlot::default(),
            guest: None,
            away: false,
            divided: false,
        };
        let cores = ids.iter().copied().map(core).collect();
        let locked = Locked { engine, cores, outside: Ring::new(events), waiters: Vec::new() };
        let shared = Arc::new(Shared {
            began_ns: AtomicU64::new(u64::MAX),
            factor,
            keeps,
            stop: AtomicBool::new(false),
            locked: PiMutex::new(locked),
        });
        let mut wall = Wall { shared: shared.clone(), threads: Vec::new(), refused: Vec::new() };
        let (told, tells) = mpsc::channel();
        for (number, id) in ids.into_iter().enumerate() {
            for lane in [Lane::Worker, Lane::Twin] {
                if lane == Lane::Worker || twins {
                    let worker = Worker::new(shared.clone(), number, id, lane, Ring::new(events));
                    wall.threads.push(worker.start(told.clone())?);
                }
            }
        }
        wall.threads.push(clock::start(shared, Ring::new(events))?);
        drop(told);
        for answer in tells {
            wall.refused.extend(answer?);
        }
        Ok(wall)
    }

    /// The clock begins when `CLOCK_MONOTONIC` says `at_ns`.
    pub fn begin(&self, at_ns: u64) {
        self.shared.began_ns.store(at_ns, Ordering::Relaxed);
    }

    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    /// A frame of `source`, captured at `captured_ns`, comes in now. Any thread may call this.
    ///
    /// # Errors
    /// [`Error::Past`] if it is to be captured in the future; [`Error::Serialise`] if the topic's
    /// messages go as bytes, and this one cannot.
    pub fn inject<T: Send + Sync + 'static>(
        &self,
        source: &Source<T>,
        captured_ns: u64,
        value: T,
    ) -> Result<(), Error> {
        let codec = self.shared.locked.lock().engine.codec_of(source.id);
        let sent = Sent::frame(Arc::new(value), codec)
            .map_err(|said| self.shared.locked.lock().engine.no_bytes(source.id, said))?;
        let mut locked = self.shared.locked.lock();
        let at_ns = self.now_ns();
        if at_ns < captured_ns {
            return Err(Error::Past { what: "arrival of a frame", at_ns, now_ns: captured_ns });
        }
        locked.outside(|locked, ring| {
            let (topic, envelope) = locked.engine.inject(at_ns, source.id, captured_ns, sent, ring);
            locked.engine.posted.push((topic, envelope));
            locked.settle(at_ns, ring);
        });
        Ok(())
    }

    /// Returns the messages that came out since the last call.
    pub fn take<T: Send + Sync + 'static>(&self, output: &Output<T>) -> Vec<Message<T>> {
        let taken = self.shared.locked.lock().engine.take_output(output.index);
        taken.into_iter().map(Envelope::open).collect()
    }

    /// Returns the messages that came out since the last call, once there are any; none after
    /// `timeout_ns`.
    pub fn wait<T: Send + Sync + 'static>(
        &self,
        output: &Output<T>,
        timeout_ns: u64,
    ) -> Vec<Message<T>> {
        let end_ns = self.now_ns().saturating_add(timeout_ns);
        loop {
            let mut locked = self.shared.locked.lock();
            let taken = locked.engine.take_output(output.index);
            let left_ns = end_ns.saturating_sub(self.now_ns());
            if !taken.is_empty() || left_ns == 0 {
                return taken.into_iter().map(Envelope::open).collect();
            }
            locked.waiters.push(std::thread::current());
            drop(locked);
            std::thread::park_timeout(Duration::from_nanos(left_ns));
        }
    }

    /// Counts of what happened so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.locked.lock().engine.statistics()
    }

    /// Ends the threads, each after the run that it has begun.
    ///
    /// # Panics
    /// If a module has panicked.
    pub fn stop(mut self) -> Stopped {
        let joined = self.join();
        let (mut rings, mut chunks) = (Vec::new(), Vec::new());
        for left in joined {
            let left = left.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            rings.push(left.ring);
            chunks.extend(left.chunks);
        }
        chunks.sort_by_key(|(over_ns, _)| *over_ns);
        let chunks = chunks.into_iter().map(|(_, chunk)| chunk).collect();
        let locked = self.shared.locked.lock();
        rings.push(locked.outside.clone());
        let statistics = locked.engine.statistics();
        let names = locked.engine.names.clone();
        let refused = std::mem::take(&mut self.refused);
        Stopped { rings, names, statistics, refused, chunks }
    }

    fn join(&mut self) -> Vec<std::thread::Result<Left>> {
        self.shared.stop.store(true, Ordering::Release);
        let threads = std::mem::take(&mut self.threads);
        threads.iter().for_each(|thread| thread.thread().unpark());
        threads.into_iter().map(JoinHandle::join).collect()
    }
}

impl Drop for Wall {
    /// Ends the threads.
    fn drop(&mut self) {
        self.join();
    }
}
