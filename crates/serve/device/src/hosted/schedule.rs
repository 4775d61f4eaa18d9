//! The scheduler's state, behind the one lock of the device.
//!
//! Each stream keeps its operations in order. The first one of a stream is *promoted*: it becomes
//! ready on its engine, or, if it was cancelled before, it waits for delivery. A thread of an
//! engine takes one block after the other of the ready operation that [`Ready::choose`] names; an
//! operation whose last block was taken is ready no longer, so the next one gets the units that
//! are left. Who ends an operation signals its event without the lock, then comes back and
//! *retires* it, which promotes the next one of the stream: hence the events of a stream are
//! signalled in order.
//!
//! Cancellation strikes off the blocks that no unit took. If none is running, no unit would end the
//! operation: it is then handed to the copy engine's thread, which never waits for a long block,
//! to deliver the outcome.
//!
//! Threads sleep only when this state says so: a thread that finds no work notes itself as idle
//! under the lock. [`Schedule::wake`] names one idle thread for each engine that has work; that
//! thread in turn wakes the next one, if there is more work than for itself.

use super::Sharing;
use super::ready::{Entry, Ready};
use super::table::Table;
use super::work::{Order, Work};
use crate::{ContextId, Error, Level, StreamId};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The kinds of threads, each with work of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThreadKind {
    Compute = 0,
    Copy = 1,
}

/// Next step of a thread.
pub(super) enum Next {
    /// Run blocks, at least one.
    Blocks { slot: u32, work: Arc<Work>, blocks: Range<u32>, level: Level },
    /// Tell the end of an operation that no unit runs any more.
    Deliver { slot: u32, work: Arc<Work> },
    /// Nothing to do: sleep until woken.
    Sleep,
    /// The device is shut down and nothing is left.
    Stop,
}

/// Threads to wake after the lock is released: a bit for each thread of each engine.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Wakes(pub [u64; 2]);

/// Operations that one device holds at most.
const MAX_OPERATIONS: usize = 1 << 16;
/// Operations and streams that fit before submission has to allocate.
const CAPACITY: usize = 256;

struct Context {
    streams: usize,
    destroyed: bool,
}

struct Stream {
    context: u64,
    level: Level,
    operations: VecDeque<u32>,
    destroyed: bool,
}

/// An operation between submission and retirement.
struct Operation {
    work: Arc<Work>,
    engine: ThreadKind,
    stream: u64,
    sequence: u64,
    blocks: u32,
    /// Blocks that were taken or struck off.
    taken: u32,
}

/// Counts that the lock protects.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Operations accepted, by engine.
    pub submitted: [u64; 2],
    pub preemptions: u64,
}

pub(super) struct Schedule {
    sharing: Sharing,
    contexts: Table<Context>,
    streams: Table<Stream>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    /// Work without an order, and work whose operation is retired while a thread still holds it. A
    /// thread holds one at most, so that there is always one to take the place of a held one.
    spare: Vec<Arc<Work>>,
    held: Vec<Arc<Work>>,
    ready: [Ready; 2],
    /// Operations that are over but not told, because no thread held them.
    deliveries: VecDeque<u32>,
    idle: [u64; 2],
    /// The last operation of each compute thread.
    last: Vec<Option<Entry>>,
    /// Lowest level of the work of each unit.
    least: Vec<Level>,
    /// Number of blocks that a compute thread takes at once.
    burst: u32,
    sequence: u64,
    pub counts: Counts,
    closed: bool,
}

impl Schedule {
    pub(super) fn new(sharing: Sharing, levels: u8, least: Vec<Level>, burst: u32) -> Schedule {
        let ready = match sharing {
            Sharing::Levels => [levels, levels].map(|n| Ready::by_level(n.into())),
            Sharing::TimeSlice { slice_ns } => [Ready::in_turns(slice_ns), Ready::by_level(1)],
        };
        // Each unit and the copy engine.
        let threads = least.len() + 1;
        Schedule {
            sharing,
            contexts: Table::new(),
            streams: Table::new(),
            operations: Vec::with_capacity(CAPACITY),
            free: Vec::with_capacity(CAPACITY),
            spare: (0..threads).map(|_| Arc::default()).collect(),
            held: Vec::with_capacity(threads),
            ready,
            deliveries: VecDeque::with_capacity(CAPACITY),
            idle: [0; 2],
            last: vec![None; least.len()],
            least,
            burst: burst.max(1),
            sequence: 0,
            counts: Counts::default(),
            closed: false,
        }
    }

    pub(super) fn create_context(&mut self) -> Result<ContextId, Error> {
        self.check_open()?;
        let context = Context { streams: 0, destroyed: false };
        let full = Error::Exhausted { what: "contexts", limit: Table::<Context>::LIMIT };
        self.contexts.insert(context).map(ContextId).ok_or(full)
    }

    pub(super) fn destroy_context(&mut self, id: ContextId) -> Result<(), Error> {
        self.context(id)?.destroyed = true;
        self.destroy_streams(|stream| stream.context == id.0);
        self.forget_context(id.0);
        Ok(())
    }

    pub(super) fn create_stream(&mut self, id: ContextId, level: Level) -> Result<StreamId, Error> {
        self.check_open()?;
        self.context(id)?;
        let operations = VecDeque::with_capacity(4);
        let stream = Stream { context: id.0, level, operations, destroyed: false };
        let full = Error::Exhausted { what: "streams", limit: Table::<Stream>::LIMIT };
        let key = self.streams.insert(stream).ok_or(full)?;
        self.context(id)?.streams += 1;
        // The first operation of each stream finds its place made.
        while self.operations.len() < self.streams.iter().count() {
            let slot = self.add_operation();
            // Behind those that are free: the first one is used first.
            self.free.insert(0, slot);
        }
        Ok(StreamId(key))
    }

    pub(super) fn destroy_stream(&mut self, id: StreamId) -> Result<(), Error> {
        self.cancel(id)?;
        self.stream(id)?.destroyed = true;
        self.forget_stream(id.0);
        Ok(())
    }

    pub(super) fn set_level(&mut self, id: StreamId, level: Level) -> Result<(), Error> {
        let stream = self.stream(id)?;
        if stream.level == level {
            return Ok(());
        }
        let head = stream.operations.front().copied();
        let waiting = head.filter(|slot| self.is_waiting(*slot));
        if let Some(slot) = waiting {
            self.unready(slot);
        }
        self.stream(id)?.level = level;
        if let Some(slot) = waiting {
            self.make_ready(slot);
        }
        Ok(())
    }

    /// Accepts an operation; takes the order only then.
    pub(super) fn submit(
        &mut self,
        id: StreamId,
        engine: ThreadKind,
        blocks: u32,
        order: &mut Option<Order>,
    ) -> Result<(), Error> {
        self.check_open()?;
        let first = self.stream(id)?.operations.is_empty();
        if self.free.is_empty() && self.operations.len() == MAX_OPERATIONS {
            let limit = MAX_OPERATIONS as u64;
            return Err(Error::Exhausted { what: "pending operations", limit });
        }
        let Some(order) = order.take_if(|order| order.event.arm().is_ok()) else {
            return Err(Error::EventBusy);
        };
        let slot = self.occupy(id, engine, blocks, order);
        self.stream(id)?.operations.push_back(slot);
        if first {
            self.make_ready(slot);
        }
        self.counts.submitted[engine as usize] += 1;
        Ok(())
    }

    pub(super) fn cancel(&mut self, id: StreamId) -> Result<(), Error> {
        let operations = &self.stream(id)?.operations;
        let (count, head) = (operations.len(), operations.front().copied());
        for i in 0..count {
            let slot = self.stream(id)?.operations[i];
            self.operations[slot as usize].work.cancel();
        }
        // The others follow when they are promoted.
        if let Some(slot) = head.filter(|slot| self.is_waiting(*slot)) {
            self.strike_off(slot);
        }
        Ok(())
    }

    /// Cancels everything and refuses everything new. Threads stop when all is told.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.destroy_streams(|_| true);
    }

    /// The next thing that thread `unit` of `engine` does, by the time that it is.
    pub(super) fn take(&mut self, engine: ThreadKind, unit: usize, now_ns: u64) -> Next {
        let bit = 1 << unit;
        self.idle[engine as usize] &= !bit;
        if engine == ThreadKind::Copy {
            if let Some(slot) = self.deliveries.pop_front() {
                let work = self.operations[slot as usize].work.clone();
                return Next::Deliver { slot, work };
            }
        }
        if let Some((queue, entry)) =
            self.ready[engine as usize].choose(now_ns, self.least_of(engine, unit))
        {
            return self.take_blocks(engine, unit, queue, entry, now_ns);
        }
        if self.closed && self.is_drained() {
            return Next::Stop;
        }
        self.idle[engine as usize] |= bit;
        Next::Sleep
    }

    fn take_blocks(
        &mut self,
        engine: ThreadKind,
        unit: usize,
        queue: usize,
        entry: Entry,
        now_ns: u64,
    ) -> Next {
        if engine == ThreadKind::Compute {
            self.count_preemption(unit, entry);
        }
        let slot = entry.slot;
        let operation = &mut self.operations[slot as usize];
        let burst = if engine == ThreadKind::Compute { self.burst } else { 1 };
        let first = operation.taken;
        operation.taken += burst.min(operation.blocks - first);
        let blocks = first..operation.taken;
        let work = operation.work.clone();
        let stream = operation.stream;
        if first == 0 {
            work.start(now_ns);
        }
        if operation.taken == operation.blocks {
            self.ready[engine as usize].remove(queue, entry);
        }
        let level = self.streams.get_mut(stream).map_or(Level(0), |stream| stream.level);
        Next::Blocks { slot, work, blocks, level }
    }

    fn count_preemption(&mut self, unit: usize, entry: Entry) {
        if let Some(last) = self.last[unit].replace(entry) {
            if last != entry
                && self.operations[last.slot as usize].sequence == last.sequence
                && self.is_waiting(last.slot)
            {
                self.counts.preemptions += 1;
            }
        }
    }

    /// Strikes off the rest of an operation that failed in a block that still counts.
    pub(super) fn abandon(&mut self, slot: u32) {
        if self.is_waiting(slot) {
            self.strike_off(slot);
        }
    }

    /// Removes an operation whose event was signalled, and promotes the next one of its stream.
    /// Returns its order, for the caller to drop when the lock is released, unless another thread
    /// still holds its work: that thread finds it with [`Schedule::let_go`].
    pub(super) fn retire(&mut self, slot: u32) -> Option<Order> {
        let operation = &mut self.operations[slot as usize];
        let order = match Arc::get_mut(&mut operation.work) {
            Some(work) => work.end(),
            // Another unit has counted down but not let go yet.
            None => {
                let fresh = self.spare.pop().unwrap_or_default();
                self.held.push(std::mem::replace(&mut operation.work, fresh));
                None
            }
        };
        let key = operation.stream;
        self.free.push(slot);
        if let Some(stream) = self.streams.get_mut(key) {
            let head = stream.operations.pop_front();
            debug_assert_eq!(head, Some(slot), "the operations of a stream end in order");
            match stream.operations.front().copied() {
                Some(next) => self.promote(next),
                None => self.forget_stream(key),
            }
        }
        order
    }

    /// The order of a retired operation whose work no thread holds any more. Each thread asks after
    /// it has let go of a work.
    pub(super) fn let_go(&mut self) -> Option<Order> {
        let at = self.held.iter_mut().position(|work| Arc::get_mut(work).is_some())?;
        let mut work = self.held.swap_remove(at);
        let order = Arc::get_mut(&mut work).and_then(Work::end);
        self.spare.push(work);
        order
    }

    fn least_of(&self, engine: ThreadKind, unit: usize) -> usize {
        match engine {
            ThreadKind::Compute => self.least[unit].0.into(),
            ThreadKind::Copy => 0,
        }
    }

    /// Names one idle thread of each engine that has work, except of the caller's own engine,
    /// whose thread will look for itself.
    pub(super) fn wake(&mut self, caller: Option<ThreadKind>) -> Wakes {
        if self.closed && self.is_drained() {
            return Wakes(std::mem::take(&mut self.idle));
        }
        let mut wakes = Wakes::default();
        for engine in [ThreadKind::Compute, ThreadKind::Copy] {
            let idle = &mut self.idle[engine as usize];
            if *idle == 0 || caller == Some(engine) {
                continue;
            }
            let deliveries = engine == ThreadKind::Copy && !self.deliveries.is_empty();
            let highest = self.ready[engine as usize].highest();
            if !deliveries && highest.is_none() {
                continue;
            }
            let units = (0..u64::BITS as usize).filter(|unit| *idle >> unit & 1 != 0);
            let chosen = match engine {
                ThreadKind::Copy => units.min(),
                // The unit that may run the fewest other levels.
                ThreadKind::Compute => units
                    .filter(|unit| highest >= Some(self.least[*unit].0.into()))
                    .max_by_key(|unit| (self.least[*unit], usize::MAX - unit)),
            };
            if let Some(unit) = chosen {
                *idle &= !(1 << unit);
                wakes.0[engine as usize] = 1 << unit;
            }
        }
        wakes
    }

    fn promote(&mut self, slot: u32) {
        if self.operations[slot as usize].work.is_cancelled() {
            self.operations[slot as usize].taken = self.operations[slot as usize].blocks;
            self.deliveries.push_back(slot);
        } else {
            self.make_ready(slot);
        }
    }

    /// Returns true if the first operation of a stream has blocks that no unit took.
    fn is_waiting(&self, slot: u32) -> bool {
        let operation = &self.operations[slot as usize];
        operation.taken < operation.blocks
    }

    fn make_ready(&mut self, slot: u32) {
        let (engine, queue, entry) = self.place(slot);
        self.ready[engine as usize].insert(queue, entry);
    }

    fn unready(&mut self, slot: u32) {
        let (engine, queue, entry) = self.place(slot);
        self.ready[engine as usize].remove(queue, entry);
    }

    /// Returns the engine and the queue where an operation waits, and its entry there.
    fn place(&mut self, slot: u32) -> (ThreadKind, usize, Entry) {
        let Operation { engine, stream, sequence, .. } = self.operations[slot as usize];
        let queue = match (self.sharing, engine, self.streams.get_mut(stream)) {
            (Sharing::Levels, _, Some(stream)) => stream.level.0.into(),
            (Sharing::TimeSlice { .. }, ThreadKind::Compute, Some(stream)) => {
                Table::<Context>::slot(stream.context)
            }
            _ => 0,
        };
        (engine, queue, Entry { sequence, slot })
    }

    fn strike_off(&mut self, slot: u32) {
        self.unready(slot);
        let operation = &mut self.operations[slot as usize];
        let untaken = operation.blocks - operation.taken;
        operation.taken = operation.blocks;
        if operation.work.count_down(untaken) {
            self.deliveries.push_back(slot);
        }
    }

    fn occupy(&mut self, stream: StreamId, engine: ThreadKind, blocks: u32, order: Order) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.add_operation());
        self.sequence += 1;
        let operation = &mut self.operations[slot as usize];
        Arc::get_mut(&mut operation.work)
            .expect("a free slot was left with the only reference to its work")
            .begin(order, blocks);
        operation.engine = engine;
        operation.stream = stream.0;
        operation.sequence = self.sequence;
        (operation.blocks, operation.taken) = (blocks, 0);
        slot
    }

    fn add_operation(&mut self) -> u32 {
        self.operations.push(Operation {
            work: Arc::default(),
            engine: ThreadKind::Compute,
            stream: 0,
            sequence: 0,
            blocks: 0,
            taken: 0,
        });
        self.operations.len() as u32 - 1
    }

    fn destroy_streams(&mut self, which: impl Fn(&Stream) -> bool) {
        let found = self.streams.iter().filter(|(_, s)| !s.destroyed && which(s));
        let keys: Vec<u64> = found.map(|(key, _)| key).collect();
        for key in keys {
            self.destroy_stream(StreamId(key)).expect("the stream was found alive");
        }
    }

    /// Frees a destroyed stream that is empty.
    fn forget_stream(&mut self, key: u64) {
        if let Some(stream) = self.streams.get_mut(key) {
            if stream.destroyed && stream.operations.is_empty() {
                let context = stream.context;
                self.streams.remove(key);
                if let Some(found) = self.contexts.get_mut(context) {
                    found.streams -= 1;
                }
                self.forget_context(context);
            }
        }
    }

    /// Frees a destroyed context without streams; only then may another one use its queue.
    fn forget_context(&mut self, key: u64) {
        if self.contexts.get_mut(key).is_some_and(|c| c.destroyed && c.streams == 0) {
            self.contexts.remove(key);
        }
    }

    fn is_drained(&self) -> bool {
        self.free.len() == self.operations.len()
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closed { Err(Error::Closed) } else { Ok(()) }
    }

    fn context(&mut self, id: ContextId) -> Result<&mut Context, Error> {
        let alive = self.contexts.get_mut(id.0).filter(|context| !context.destroyed);
        alive.ok_or(Error::UnknownContext(id))
    }

    fn stream(&mut self, id: StreamId) -> Result<&mut Stream, Error> {
        let alive = self.streams.get_mut(id.0).filter(|stream| !stream.destroyed);
        alive.ok_or(Error::UnknownStream(id))
    }
}

#[cfg(test)]
mod tests;
