//! The threads of the device: what they share, and what each does in a loop.
//!
//! A launch of one block costs the lock three times: the submitter puts it in and wakes a
//! sleeping thread, that thread takes the block, and, when the block is run and the event is
//! signalled, retires the operation and takes the next block in one go. The end of a block needs
//! no lock, and neither the event nor the observer is called with it.

use super::Backend;
use super::pace::Pace;
use super::schedule::{Next, Schedule, ThreadKind, Wakes};
use super::work::{Order, Work};
use crate::Level;
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use realtime::mutex::PiMutex;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// State that the threads of a device and its owner share.
pub(super) struct Shared<B> {
    pub schedule: PiMutex<Schedule>,
    pub backend: B,
    /// Workspaces of launches that are over: threads that may not allocate use them again.
    pub workspaces: PiMutex<Vec<Vec<AtomicU64>>>,
    /// The threads, by engine.
    pub seats: [Box<[Seat]>; 2],
}

/// Workspaces that are kept.
pub(super) const WORKSPACES: usize = 64;

/// Worker or buffer with which a thread runs blocks.
pub(super) enum Runner<W> {
    Compute(W),
    Copy(Box<[u8]>),
}

/// State of one thread that others see.
#[derive(Default)]
pub(super) struct Seat {
    /// Set before the device is given to a user.
    pub thread: OnceLock<Thread>,
    pub counters: Counters,
}

/// Counts of one thread, written by it alone.
#[derive(Default)]
pub(super) struct Counters {
    pub blocks: AtomicU64,
    pub busy_ns: AtomicU64,
    pub longest_ns: AtomicU64,
}

thread_local! {
    /// The device (its address) and the engine that this thread belongs to.
    static MEMBERSHIP: Cell<(usize, Option<ThreadKind>)> = const { Cell::new((0, None)) };
}

impl<B: Backend> Shared<B> {
    /// Returns the engine of this device that the calling thread belongs to.
    pub(super) fn membership(&self) -> Option<ThreadKind> {
        let (device, engine) = MEMBERSHIP.get();
        engine.filter(|_| device == self.address())
    }

    /// Wakes threads; call it without the lock.
    pub(super) fn rouse(&self, wakes: Wakes) {
        for (seats, mut bits) in self.seats.iter().zip(wakes.0) {
            while bits != 0 {
                if let Some(thread) = seats[bits.trailing_zeros() as usize].thread.get() {
                    thread.unpark();
                }
                bits &= bits - 1;
            }
        }
    }

    /// A clock of execution, in nanoseconds. Where this thread computes itself, it stands still
    /// while others have the core, the hypervisor included: a declared execution time is not spent
    /// by interference, which the analysis counts by itself, and nobody is demoted for it.
    fn execution_ns(&self, runner: &Runner<B::Worker>) -> u64 {
        let computes = matches!(runner, Runner::Copy(_)) || self.backend.computes();
        if computes { thread_cpu_ns() } else { monotonic_ns() }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Retires the operation that this thread ended, and finds out what it does next.
    fn next(&self, engine: ThreadKind, unit: usize, ended: Option<u32>) -> (Next, u64) {
        let mut schedule = self.schedule.lock();
        let remains = [ended.and_then(|slot| schedule.retire(slot)), schedule.let_go()];
        // Read under the lock, so that the start times of operations are in the order of choice.
        let now_ns = monotonic_ns();
        let next = schedule.take(engine, unit, now_ns);
        let wakes = schedule.wake(None);
        drop(schedule);
        self.rouse(wakes);
        remains.into_iter().flatten().for_each(|order| self.drop_order(order));
        (next, now_ns)
    }

    /// Zeroed words that the blocks of a launch share, from a launch that is over if there was one.
    pub(super) fn workspace(&self, words: usize) -> Vec<AtomicU64> {
        if words == 0 {
            return Vec::new();
        }
        let mut workspace = {
            let mut kept = self.workspaces.lock();
            let enough = kept.iter().position(|other| other.capacity() >= words);
            enough.map(|at| kept.swap_remove(at)).unwrap_or_default()
        };
        workspace.resize_with(words, AtomicU64::default);
        workspace
    }

    /// Lets go of what is left of a launch, but for its workspace.
    fn drop_order(&self, Order { mut workspace, .. }: Order) {
        if workspace.capacity() == 0 {
            return;
        }
        workspace.clear();
        let mut kept = self.workspaces.lock();
        if kept.len() < kept.capacity() {
            kept.push(workspace);
        }
    }

    /// Runs blocks that started at `start_ns`. True if that ended the operation.
    fn execute(
        &self,
        counters: &Counters,
        runner: &mut Runner<B::Worker>,
        (slot, work, blocks, level): (u32, &Work, Range<u32>, Level),
        start_ns: u64,
    ) -> bool {
        let count = blocks.end - blocks.start;
        let began_ns = self.execution_ns(runner);
        let result = work.run((Some(blocks), level), &self.backend, runner);
        let (ran_ns, end_ns) = (self.execution_ns(runner) - began_ns, monotonic_ns());
        counters.add(count.into(), start_ns, end_ns);
        if let Err(code) = result {
            work.fail(code);
            self.schedule.lock().abandon(slot);
        }
        work.account(ran_ns, end_ns);
        if !work.count_down(count) {
            return false;
        }
        if work.has_finish() {
            let began_ns = self.execution_ns(runner);
            let result = work.run((None, level), &self.backend, runner);
            let (ran_ns, finished_ns) = (self.execution_ns(runner) - began_ns, monotonic_ns());
            counters.add(0, end_ns, finished_ns);
            work.account(ran_ns, finished_ns);
            if let Err(code) = result {
                work.fail(code);
            }
        }
        work.close(&self.backend);
        work.complete(monotonic_ns);
        true
    }
}

impl Counters {
    fn add(&self, blocks: u64, start_ns: u64, end_ns: u64) {
        let block_ns = end_ns - start_ns;
        // Only this thread writes, so a load and a store lose nothing.
        let raise = |counter: &AtomicU64, by: u64| {
            counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        };
        raise(&self.blocks, blocks);
        raise(&self.busy_ns, block_ns);
        if block_ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(block_ns, Ordering::Relaxed);
        }
    }
}

/// The life of one thread: it ends when the device was closed and everything is told.
pub(super) fn run<B: Backend>(
    shared: &Arc<Shared<B>>,
    engine: ThreadKind,
    unit: usize,
    runner: Option<Runner<B::Worker>>,
    mut pace: Pace,
) {
    // Without one the device does not start.
    let Some(mut runner) = runner else { return };
    MEMBERSHIP.set((shared.address(), Some(engine)));
    let counters = &shared.seats[engine as usize][unit].counters;
    let mut ended = None;
    loop {
        let (next, now_ns) = shared.next(engine, unit, ended.take());
        match next {
            Next::Blocks { slot, work, blocks, level } => {
                pace.step(now_ns, true);
                let blocks = (slot, &*work, blocks, level);
                let ends = shared.execute(counters, &mut runner, blocks, now_ns);
                ended = ends.then_some(slot);
            }
            Next::Deliver { slot, work } => {
                work.close(&shared.backend);
                work.complete(monotonic_ns);
                ended = Some(slot);
            }
            // Returns at once if another thread woke this one since it noted itself as idle.
            Next::Sleep => {
                pace.rest(now_ns);
                std::thread::park();
                pace.step(monotonic_ns(), false);
            }
            Next::Stop => return,
        }
    }
}
