//! Devices whose work the host gives out, block by block.
//!
//! Each *unit* is a thread that runs blocks on a [`Backend`]: by itself, or by having an
//! accelerator do it and waiting for that; one more thread is the copy engine. Both take their
//! work, block by block, from one scheduler behind one priority-inheritance lock. In words:
//!
//! - **What runs** is decided at each block boundary. Shared by levels: the highest level with
//!   work, and in it the operation that was submitted first among those that may start (the first
//!   of its stream). When all its blocks are taken, the next one gets the units that are left.
//!   Shared by time slices: contexts take turns, whatever their levels. Units may be kept for the
//!   upper levels.
//! - **Copies** run on the copy engine in chunks of 64 KiB, by level at chunk boundaries, beside
//!   the blocks.
//! - **Pace**: a real-time thread that never idles gives the kernel its share in small pieces,
//!   see `pace`.
//! - **Sleeping**: a thread without work parks; a submission wakes one sleeping thread of its
//!   engine, which wakes the next one if there is more to do.
//! - **The end** of an operation is told by the thread that ran its last block: it signals the
//!   event and calls the observer, without the lock, and only then starts the next operation of
//!   the stream. Work that is cancelled while no thread runs it is told by the copy engine.
//!   Memory of a launch is let go right after its observer returned.
//!
//! Progress: submission, cancellation and the rest of the contract take the lock for a short
//! time that does not depend on kernels. An observer that does not return keeps its unit; a
//! panic in one is caught.

mod backend;
mod copy;
mod pace;
mod ready;
mod schedule;
mod table;
mod unit;
mod work;

pub use backend::{Backend, Plan, Task};
pub use pace::realtime_share;

use crate::{
    ContextId, Device, Error, Event, KernelId, KernelInfo, Launch, Level, Preemption, Properties,
    Statistics, StreamId,
};
use pace::Pace;
use realtime::clock::monotonic_ns;
use realtime::mutex::PiMutex;
use realtime::thread::{self, Scheduling};
use schedule::{Schedule, ThreadKind};
use shm::Mapping;
use shm::memory::PeerSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use unit::{Runner, Seat, Shared};
use work::Order;

/// One bit for each compute thread in the scheduler's words.
const MAX_UNITS: usize = 64;

/// Configuration of the threads of a device.
#[derive(Clone, Debug)]
pub struct Setup {
    /// A name for people.
    pub name: String,
    /// Number of levels, at least one.
    pub levels: u8,
    /// Units; at least one.
    pub units: Vec<Unit>,
    /// Scheduling of the device's threads. When it is refused they run with the normal one, and
    /// [`Statistics::realtime`] tells.
    pub policy: Scheduling,
    /// Rule by which work gets the units.
    pub sharing: Sharing,
    /// The core of the copy engine's thread, if it is to have one. With a real-time policy it
    /// should not be the core of a unit that computes, or copies and cancellations wait for it.
    pub copy_core: Option<usize>,
}

/// A thread that runs blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// The core that it is kept on, if any.
    pub core: Option<usize>,
    /// Lowest level of the work that it runs, so that others find it free.
    pub least: Level,
}

impl Default for Unit {
    fn default() -> Unit {
        Unit { core: None, least: Level(0) }
    }
}

/// Rule by which the units are shared among the work that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// The highest level with work at each block boundary; in a level, first come, first served.
    Levels,
    /// Time slices, as a driver shares a device among independent processes: contexts take
    /// turns, each for this long, and levels mean nothing. First come, first served in a context.
    TimeSlice {
        /// Length of a turn; it ends at the next block boundary.
        slice_ns: u64,
    },
}

/// A device on a backend. Dropping it shuts it down.
pub struct Hosted<B: Backend> {
    shared: Arc<Shared<B>>,
    properties: Properties,
    compute_threads: Vec<u32>,
    realtime: bool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Report of a thread that has set itself up.
struct Ready {
    engine: ThreadKind,
    unit: usize,
    thread: u32,
    realtime: bool,
    /// Ok if it is on its core and can run blocks; else the reason.
    fit: Result<(), String>,
}

impl<B: Backend> Hosted<B> {
    /// Starts the threads of a device and waits until all are ready.
    ///
    /// # Errors
    /// [`Error::Start`] when there is no level, there are no units or too many, a core cannot be
    /// used, a thread cannot be made, or the backend has nothing for it. A refused policy is not
    /// an error.
    pub fn start(backend: B, setup: &Setup) -> Result<Arc<Hosted<B>>, Error> {
        let (levels, units) = (setup.levels, setup.units.len());
        if levels == 0 || !(1..=MAX_UNITS).contains(&units) {
            let what = format!(
                "{levels} levels and {units} units, expected 1 to 255 and 1 to {MAX_UNITS}"
            );
            return Err(Error::Start(what));
        }
        let seats = |count| (0..count).map(|_| Seat::default()).collect();
        let least = setup.units.iter().map(|unit| unit.least).collect();
        let shared = Arc::new(Shared {
            schedule: PiMutex::new(Schedule::new(setup.sharing, levels, least, backend.burst())),
            backend,
            workspaces: PiMutex::new(Vec::with_capacity(unit::WORKSPACES)),
            seats: [seats(units), seats(1)],
        });
        let mut device = Hosted {
            shared,
            properties: properties(setup),
            compute_threads: vec![0; units],
            realtime: true,
            threads: Mutex::default(),
        };
        device.start_threads(setup)?;
        Ok(Arc::new(device))
    }

    /// Backend that runs the blocks, for what it can tell beyond the contract.
    pub fn backend(&self) -> &B {
        &self.shared.backend
    }

    /// Cancels all work, refuses new work, and ends the threads once every event has completed.
    /// Waits for the blocks that are running, unless a thread of the device itself calls it.
    pub fn shutdown(&self) {
        let mut schedule = self.shared.schedule.lock();
        schedule.close();
        let wakes = schedule.wake(None);
        drop(schedule);
        self.shared.rouse(wakes);
        if self.shared.membership().is_some() {
            return;
        }
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Its panics are caught, so it ends in order.
            let _ = thread.join();
        }
    }

    fn start_threads(&mut self, setup: &Setup) -> Result<(), Error> {
        let (sender, ready) = mpsc::channel();
        let limits = realtime::machine::rt_limits();
        let compute = setup.units.iter().map(|unit| (ThreadKind::Compute, unit.core)).enumerate();
        let copy = [(0, (ThreadKind::Copy, setup.copy_core))];
        for (unit, (engine, core)) in compute.chain(copy) {
            let (shared, sender) = (self.shared.clone(), sender.clone());
            let (policy, limits) = (setup.policy, limits);
            let thread = std::thread::Builder::new().spawn(move || {
                let (ready, runner) = set_up(&shared.backend, engine, unit, core, policy);
                let paced =
                    ready.realtime && (engine == ThreadKind::Copy || shared.backend.is_busy());
                let granted = if paced { policy } else { Scheduling::Normal };
                // The receiver is gone only when the start has failed: then the device is closed.
                let _ = sender.send(ready);
                // The start waits until all have spoken and hung up.
                drop(sender);
                let pace = Pace::new(granted, &limits, monotonic_ns());
                unit::run(&shared, engine, unit, runner, pace);
            });
            let thread = thread.map_err(|error| Error::Start(error.to_string()))?;
            let seat = &self.shared.seats[engine as usize][unit];
            seat.thread.set(thread.thread().clone()).expect("each seat gets one thread");
            self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        drop(sender);
        for ready in ready {
            ready.fit.map_err(Error::Start)?;
            self.realtime &= ready.realtime;
            if ready.engine == ThreadKind::Compute {
                self.compute_threads[ready.unit] = ready.thread;
            }
        }
        Ok(())
    }

    fn submit(
        &self,
        stream: StreamId,
        engine: ThreadKind,
        plan: Plan,
        launch: Launch,
        event: &Event,
    ) -> Result<(), Error> {
        let workspace = self.shared.workspace(plan.workspace);
        let finishes = plan.finishes;
        let mut order = Some(Order { launch, event: event.clone(), workspace, finishes });
        // A refused order is dropped after the lock is released.
        self.with_schedule(|schedule| schedule.submit(stream, engine, plan.blocks, &mut order))
    }

    /// Runs `act`, which may give work to threads, under the lock.
    fn with_schedule<T>(&self, act: impl FnOnce(&mut Schedule) -> T) -> T {
        let mut schedule = self.shared.schedule.lock();
        let result = act(&mut schedule);
        let wakes = schedule.wake(self.shared.membership());
        drop(schedule);
        self.shared.rouse(wakes);
        result
    }

    fn check_level(&self, level: Level) -> Result<(), Error> {
        let levels = self.properties.levels;
        if level.0 < levels { Ok(()) } else { Err(Error::UnknownLevel { level, levels }) }
    }
}

/// Sets up the calling thread, which is one of a device. Without a runner it only tells ends.
fn set_up<B: Backend>(
    backend: &B,
    engine: ThreadKind,
    unit: usize,
    core: Option<usize>,
    policy: Scheduling,
) -> (Ready, Option<Runner<B::Worker>>) {
    match engine {
        ThreadKind::Compute => thread::set_name(&format!("unit-{unit}")),
        ThreadKind::Copy => thread::set_name("copy-engine"),
    }
    let core = core.map_or(Ok(()), |core| thread::pin(&[core]));
    let granted = thread::set_policy(policy).is_ok();
    let realtime = granted && policy != Scheduling::Normal;
    if realtime {
        // For the pieces that a busy thread runs as an ordinary one. Without it they are shared
        // more evenly with others.
        let _ = thread::set_nice(-20);
    }
    let runner = match engine {
        ThreadKind::Compute => backend.worker(unit).map(Runner::Compute),
        ThreadKind::Copy => Ok(Runner::Copy(copy::buffer())),
    };
    let (runner, fit) = match (core, runner) {
        (Ok(()), Ok(runner)) => (Some(runner), Ok(())),
        (Err(error), _) => (None, Err(error.to_string())),
        (_, Err(error)) => (None, Err(error)),
    };
    (Ready { engine, unit, thread: thread::id(), realtime, fit }, runner)
}

fn properties(setup: &Setup) -> Properties {
    Properties {
        name: setup.name.clone(),
        levels: setup.levels,
        units: setup.units.len() as u16,
        copy_engines: 1,
        preemption: Preemption::BlockBoundary,
        time_slices: setup.sharing != Sharing::Levels,
    }
}

impl<B: Backend> Device for Hosted<B> {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        self.shared.backend.kernels()
    }

    fn kernel(&self, name: &str) -> Option<KernelId> {
        let kernels = self.shared.backend.kernels();
        kernels.into_iter().find(|kernel| kernel.name == name).map(|kernel| kernel.id)
    }

    fn check(&self, launch: &Launch) -> Result<(), Error> {
        self.shared.backend.plan(launch).map(|_| ())
    }

    fn create_context(&self) -> Result<ContextId, Error> {
        self.with_schedule(Schedule::create_context)
    }

    fn destroy_context(&self, context: ContextId) -> Result<(), Error> {
        self.with_schedule(|schedule| schedule.destroy_context(context))?;
        self.shared.backend.context_gone();
        Ok(())
    }

    fn create_stream(&self, context: ContextId, level: Level) -> Result<StreamId, Error> {
        self.check_level(level)?;
        self.with_schedule(|schedule| schedule.create_stream(context, level))
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<(), Error> {
        self.with_schedule(|schedule| schedule.destroy_stream(stream))
    }

    fn set_stream_level(&self, stream: StreamId, level: Level) -> Result<(), Error> {
        self.check_level(level)?;
        self.with_schedule(|schedule| schedule.set_level(stream, level))
    }

    fn launch(&self, stream: StreamId, launch: Launch, event: &Event) -> Result<(), Error> {
        let plan = self.shared.backend.plan(&launch)?;
        self.submit(stream, ThreadKind::Compute, plan, launch, event)
    }

    fn copy(
        &self,
        stream: StreamId,
        from: PeerSlice,
        to: PeerSlice,
        event: &Event,
    ) -> Result<(), Error> {
        // The kernel id is not looked at: the copy engine has one kernel.
        let launch = Launch { input: from, output: to, ..Launch::new(KernelId(0), [0; 4]) };
        let plan = copy::plan(&launch)?;
        self.submit(stream, ThreadKind::Copy, plan, launch, event)
    }

    fn cancel(&self, stream: StreamId) -> Result<(), Error> {
        self.with_schedule(|schedule| schedule.cancel(stream))
    }

    fn let_go(&self, memory: &Arc<Mapping>) {
        self.shared.backend.let_go(memory);
    }

    fn statistics(&self) -> Statistics {
        let counts = self.shared.schedule.lock().counts;
        let sum = |engine: ThreadKind, count: fn(&unit::Counters) -> &AtomicU64| -> u64 {
            let seats = self.shared.seats[engine as usize].iter();
            seats.map(|seat| count(&seat.counters).load(Ordering::Relaxed)).sum()
        };
        let compute = self.shared.seats[ThreadKind::Compute as usize].iter();
        let longest = compute.map(|seat| seat.counters.longest_ns.load(Ordering::Relaxed)).max();
        Statistics {
            launches: counts.submitted[ThreadKind::Compute as usize],
            copies: counts.submitted[ThreadKind::Copy as usize],
            blocks: sum(ThreadKind::Compute, |counters| &counters.blocks),
            preemptions: counts.preemptions,
            busy_ns: sum(ThreadKind::Compute, |counters| &counters.busy_ns),
            longest_block_ns: longest.unwrap_or(0),
            copy_busy_ns: sum(ThreadKind::Copy, |counters| &counters.busy_ns),
            compute_threads: self.compute_threads.clone(),
            realtime: self.realtime,
            resets: self.shared.backend.resets(),
            fault: self.shared.backend.fault(),
        }
    }
}

impl<B: Backend> Drop for Hosted<B> {
    fn drop(&mut self) {
        self.shutdown();
    }
}
