//! The slow paths of a read-write lock: waiting for one's turn, and handing it on.
//!
//! All that changes the queue happens behind the door. The state may change meanwhile, for other
//! readers let the lock go, or read it once more, in one step; so it changes here by comparing
//! too.

use super::queue::{Admit, Queue, READERS, WAITERS, WRITE, Waiter};
use super::{Failure, MOST_READERS, Reads, Rwlock, Unlocked};
use crate::atomic::{AtomicU32, Ordering};
use crate::futex::{self, Deadline, NotLent, Woken};
use crate::kernel;
use crate::mutant::Mutant;
use crate::table::{self, NET_NS, Table};

/// A waiter that lends its priority to whoever writes.
#[derive(Clone, Copy)]
pub struct Lender<'t> {
    /// Where it stands meanwhile. Whoever lets the lock go calls [`Table::let_go`] after that.
    pub table: &'t Table,
    /// Who it is.
    pub waiter: table::Waiter,
}

/// Who is told after the door is closed. Pointers are names for the kernel only: the memory
/// may be gone.
#[derive(Default)]
pub(super) struct Tell {
    readers: bool,
    writer: Option<*const AtomicU32>,
}

/// What came of an attempt behind the door.
pub(super) enum Attempt<T> {
    Entered,
    Failed(Failure),
    Queued(T),
}

/// Who has left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaver {
    Reader,
    Writer,
    /// Somebody who was not inside.
    Waiter,
}

impl Rwlock {
    /// Does something with the queue, and tells those whom that concerns.
    pub(super) fn behind_door<T>(
        &self,
        me: u32,
        act: impl FnOnce(&mut Queue, &mut Tell) -> T,
    ) -> T {
        let mut tell = Tell::default();
        let phase = &raw const self.phase;
        let signals = kernel::block_signals();
        let result = self.door.with(me, |queue| act(queue, &mut tell));
        // From here on the lock may be gone. Signals wait until all are told, for a handler may
        // take its time.
        if let Some(word) = tell.writer {
            futex::wake(word, 1, true);
        }
        if tell.readers {
            futex::wake(phase, i32::MAX as u32, true);
        }
        kernel::restore_signals(signals);
        result
    }

    /// Waits until those who let the calling thread in have left the door: they touch the lock
    /// until then, and its next owner may free it.
    fn let_door_close(&self, me: u32) {
        if !self.door.is_free() && !Mutant::DoorNotWaitedFor.is_on() {
            self.behind_door(me, |_, _| ());
        }
    }

    /// A reader's attempt behind the door; `Queued` has the phase that it waits to end.
    fn read_attempt(&self, queue: &mut Queue, nested: bool, waits: bool) -> Attempt<u32> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let readers = state & READERS;
            if readers >= MOST_READERS {
                return Attempt::Failed(Failure::Again);
            }
            let nested = nested && readers > 0 && !Mutant::NestedReaderWaits.is_on();
            let free = state & WRITE == 0 && (nested || !queue.has_writers());
            let next = match free {
                true => (readers + 1) | queue.flag(),
                false if waits => state | WAITERS,
                false => return Attempt::Failed(Failure::Busy),
            };
            let (from, to) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.state.compare_exchange(state, next, from, to) {
                Ok(_) if free => return Attempt::Entered,
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        queue.add_reader();
        Attempt::Queued(self.phase.load(Ordering::Relaxed))
    }

    /// A writer's attempt behind the door, to be queued in a place if there is one.
    pub(super) fn write_attempt(
        &self,
        queue: &mut Queue,
        me: u32,
        place: Option<&Waiter>,
    ) -> Attempt<()> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let free = state & !WAITERS == 0 && queue.is_empty();
            let next = match (free, place) {
                (true, _) => WRITE,
                (false, Some(_)) => state | WAITERS,
                (false, None) => return Attempt::Failed(Failure::Busy),
            };
            let (from, to) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.state.compare_exchange(state, next, from, to) {
                Ok(_) if free => {
                    self.writer.store(me, Ordering::Relaxed);
                    return Attempt::Entered;
                }
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        if let Some(place) = place {
            queue.add_writer(place);
        }
        Attempt::Queued(())
    }

    #[cold]
    pub(super) fn try_read_slowly(&self, nested: bool, me: u32) -> Result<(), Failure> {
        let state = self.state.load(Ordering::Relaxed);
        let waits_for = if nested { WRITE } else { WRITE | WAITERS };
        if state & waits_for != 0 && state & !WAITERS != 0 {
            return Err(Failure::Busy);
        }
        match self.behind_door(me, |queue, _| self.read_attempt(queue, nested, false)) {
            Attempt::Entered => Ok(()),
            Attempt::Failed(failure) => Err(failure),
            Attempt::Queued(_) => Err(Failure::Busy),
        }
    }

    #[cold]
    pub(super) fn read_in_turn(
        &self,
        nested: bool,
        me: u32,
        until: Option<Deadline>,
        lender: Option<Lender<'_>>,
    ) -> Result<(), Failure> {
        if self.writer.load(Ordering::Relaxed) == me {
            return Err(Failure::Deadlock);
        }
        let attempt = self.behind_door(me, |queue, _| self.read_attempt(queue, nested, true));
        let phase = match attempt {
            Attempt::Entered => return Ok(()),
            Attempt::Failed(failure) => return Err(failure),
            Attempt::Queued(phase) => phase,
        };
        // Acquire pairs with the release of whoever lets us in.
        while self.phase.load(Ordering::Acquire) == phase {
            if self.sleep(&self.phase, phase, until, lender) == Woken::TimedOut {
                return self.behind_door(me, |queue, tell| {
                    let entered = self.phase.load(Ordering::Acquire) != phase;
                    if entered && !Mutant::EntryForgotten.is_on() {
                        return Ok(());
                    }
                    if !entered {
                        queue.remove_reader();
                        self.hand_on(queue, tell, Leaver::Waiter);
                    }
                    Err(Failure::TimedOut)
                });
            }
        }
        self.let_door_close(me);
        Ok(())
    }

    #[cold]
    pub(super) fn write_in_turn(
        &self,
        me: u32,
        until: Option<Deadline>,
        lender: Option<Lender<'_>>,
    ) -> Result<(), Failure> {
        if self.writer.load(Ordering::Relaxed) == me {
            return Err(Failure::Deadlock);
        }
        let place = Waiter::new(me, kernel::urgency_of(0));
        let attempt = self.behind_door(me, |queue, _| self.write_attempt(queue, me, Some(&place)));
        if matches!(attempt, Attempt::Entered) {
            return Ok(());
        }
        while !place.is_let_in() {
            if self.sleep(place.word(), 0, until, lender) == Woken::TimedOut {
                return self.behind_door(me, |queue, tell| {
                    if place.is_let_in() {
                        return Ok(());
                    }
                    queue.remove_writer(&place);
                    if !Mutant::WriterLeavesItsMark.is_on() {
                        self.hand_on(queue, tell, Leaver::Waiter);
                    }
                    Err(Failure::TimedOut)
                });
            }
        }
        self.let_door_close(me);
        Ok(())
    }

    /// Sleeps while a word has this value. A waiter that lends does so while a less urgent thread
    /// writes, and looks again now and then: who lets it in need not be whom it lends to.
    fn sleep(
        &self,
        word: &AtomicU32,
        value: u32,
        until: Option<Deadline>,
        lender: Option<Lender<'_>>,
    ) -> Woken {
        let Some(Lender { table, waiter }) = lender.filter(|lender| lender.waiter.urgency > 0)
        else {
            return futex::wait(word, value, until, true);
        };
        let soon = Deadline::or_before(until, Deadline::after_ns(NET_NS));
        let writer = self.writer.load(Ordering::Relaxed);
        let is_lendable =
            writer != 0 && writer != waiter.thread && kernel::urgency_of(writer) < waiter.urgency;
        let holds =
            || self.writer.load(Ordering::SeqCst) == writer && word.load(Ordering::SeqCst) == value;
        let lent = match is_lendable {
            true => table.lend(self.address(), waiter, writer, soon, holds),
            false => Err(NotLent::Refused),
        };
        if lent == Err(NotLent::Refused) {
            let _ = futex::wait(word, value, Some(soon), true);
        }
        match until {
            Some(until) if until.is_over() => Woken::TimedOut,
            _ => Woken::Maybe,
        }
    }

    #[cold]
    pub(super) fn unlock_write_slowly(&self, me: u32) {
        self.behind_door(me, |queue, tell| self.hand_on(queue, tell, Leaver::Writer));
    }

    #[cold]
    pub(super) fn unlock_slowly(&self, reads: &Reads, me: u32) -> Result<Unlocked, Failure> {
        let state = self.state.load(Ordering::Relaxed);
        if state & WRITE != 0 {
            let writer = self.writer.load(Ordering::Relaxed);
            if writer == 0 || kernel::is_thread_of_this_process(writer) {
                return Err(Failure::NotHeld);
            }
            self.unlock_write(me);
            return Ok(Unlocked::Write);
        }
        if state & READERS == 0 {
            return Err(Failure::NotHeld);
        }
        // The last reader: it still reads while it goes through the door.
        self.behind_door(me, |queue, tell| self.hand_on(queue, tell, Leaver::Reader));
        reads.remove(self.address());
        Ok(Unlocked::Read)
    }

    /// The state after somebody has left, with all let in whose turn it is.
    fn hand_on(&self, queue: &mut Queue, tell: &mut Tell, leaver: Leaver) {
        let mut state = self.state.load(Ordering::Relaxed);
        let admit = loop {
            let (inside, writing) = match leaver {
                Leaver::Writer => (0, false),
                Leaver::Reader => ((state & READERS).saturating_sub(1), false),
                Leaver::Waiter => (state & READERS, state & WRITE != 0),
            };
            let (next, admit) = queue.next(inside, writing, leaver == Leaver::Writer);
            let (from, to) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.state.compare_exchange(state, next, from, to) {
                Ok(_) => break admit,
                Err(now) => state = now,
            }
        };
        match admit {
            Admit::Nobody => {}
            Admit::Readers => {
                queue.forget_readers();
                self.phase.fetch_add(1, Ordering::Release);
                tell.readers = true;
            }
            Admit::Writer => {
                let told = !Mutant::WriterNotTold.is_on();
                tell.writer = queue.let_first_writer_in(&self.writer).filter(|_| told);
            }
        }
    }
}
