//! The slow paths of a read-write lock: waiting for one's turn, and handing it on.
//!
//! All that changes the queue happens behind the door. The state may change meanwhile, for other
//! readers let the lock go, or read it once more, in one step; so it changes here by comparing
//! too.

use super::order::LIMIT_NS;
use super::queue::{Admit, Queue, READERS, WAITERS, WRITE, Waiter};
use super::readers::Readers;
use super::{Failure, MOST_READERS, Reads, Rwlock, Unlocked};
use crate::atomic::{AtomicU32, Ordering};
use crate::futex::{self, Deadline, NotLent, Woken};
use crate::kernel;
use crate::mutant::Mutant;
use crate::table::{self, NET_NS, Table};

/// A thread that lends its priority to the threads that have the lock that it waits for, if it is
/// urgent, and may be lent that of others while it has it.
#[derive(Clone, Copy)]
pub struct Lender<'t> {
    /// Table in which it stands while it waits. The thread that releases the lock looks there.
    pub table: &'t Table,
    /// Register in which it is known as a reader.
    pub readers: &'t Readers,
    /// Its id, and its urgency, which matters only when it waits.
    pub waiter: table::Waiter,
}

impl Lender<'_> {
    /// Looks whether the thread was lent something for a lock, which it does not have any more.
    pub(super) fn let_go(&self, lock: usize) {
        self.table.let_go(lock, || self.waiter.thread);
    }

    /// The same for a lock that it does not read any more.
    pub(super) fn leave(&self, lock: usize) {
        let late = Mutant::ReaderLeavesLate.is_on();
        if !late {
            self.readers.leave(lock, self.waiter.thread);
        }
        self.let_go(lock);
        if late {
            self.readers.leave(lock, self.waiter.thread);
        }
    }
}

/// Waiters that are told after the door is closed. Pointers are names for the kernel only: the
/// memory may be gone.
#[derive(Default)]
pub(super) struct Tell {
    readers: bool,
    writer: Option<*const AtomicU32>,
}

/// Result of an attempt behind the door.
pub(super) enum Attempt<T> {
    Entered,
    Failed(Failure),
    Queued(T),
}

/// Kind of thread that has left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaver {
    Reader,
    Writer,
    /// A thread that was not inside.
    Waiter,
}

impl Rwlock {
    /// Changes the queue, and wakes the threads that the change concerns.
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
            let joins = nested || self.lets_readers_first();
            let free = state & WRITE == 0 && (joins || !queue.has_writers());
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
            if !queue.has_writers() {
                self.writers_wait_from_now();
            }
            queue.add_writer(place);
        }
        Attempt::Queued(())
    }

    #[cold]
    pub(super) fn try_read_slowly(&self, nested: bool, me: u32) -> Result<(), Failure> {
        let state = self.state.load(Ordering::Relaxed);
        let joins = nested || self.lets_readers_first() || self.keeps_readers_out_too_long();
        let waits_for = if joins { WRITE } else { WRITE | WAITERS };
        if state & waits_for != 0 && state & !WAITERS != 0 {
            return Err(Failure::Busy);
        }
        let attempt = self.behind_door(me, |queue, tell| {
            if queue.has_writers() && self.keeps_readers_out_too_long() {
                self.put_readers_first(queue, tell);
            }
            self.read_attempt(queue, nested, false)
        });
        match attempt {
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
        if let Some(lender) = lender {
            lender.readers.wait(self.address(), me, phase);
            // Until now it seemed to read.
            if !Mutant::ReaderWaitsWithALoan.is_on() {
                lender.let_go(self.address());
            }
        }
        let mut turn = 0;
        let mut limit = Deadline::limit_ns(LIMIT_NS);
        // Acquire pairs with the release of the thread that lets us in.
        while self.phase.load(Ordering::Acquire) == phase {
            let soon = limit.map_or(until, |limit| Some(Deadline::or_before(until, limit)));
            if self.sleep(&self.phase, phase, soon, lender, &mut turn) == Woken::TimedOut {
                let give_up = until.is_some_and(|until| cfg!(loom) || until.is_over());
                let outlasted = limit.is_some_and(|limit| cfg!(loom) || limit.is_over());
                let result = self.behind_door(me, |queue, tell| {
                    self.read_or_give_up(queue, tell, phase, [outlasted, give_up])
                });
                if let Some(result) = result {
                    return result;
                }
                // A writer is inside: when it leaves, all readers that wait get in.
                limit = limit.filter(|_| !outlasted);
            }
        }
        self.let_door_close(me);
        Ok(())
    }

    /// Decides about a reader whose wait has outlasted the limit, or is to end.
    fn read_or_give_up(
        &self,
        queue: &mut Queue,
        tell: &mut Tell,
        phase: u32,
        [outlasted, give_up]: [bool; 2],
    ) -> Option<Result<(), Failure>> {
        let entered = || self.phase.load(Ordering::Acquire) != phase;
        let state = self.state.load(Ordering::Relaxed);
        if !entered()
            && queue.has_writers()
            && (outlasted && self.may_change_order(state) || self.keeps_readers_out_too_long())
        {
            self.put_readers_first(queue, tell);
        }
        if entered() && !Mutant::EntryForgotten.is_on() {
            return Some(Ok(()));
        }
        if give_up && !entered() {
            queue.remove_reader();
            self.hand_on(queue, tell, Leaver::Waiter);
        }
        give_up.then_some(Err(Failure::TimedOut))
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
        let mut turn = 0;
        while !place.is_let_in() {
            if self.sleep(place.word(), 0, until, lender, &mut turn) == Woken::TimedOut {
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

    /// Sleeps while a word has this value. A waiter that lends does so while less urgent threads
    /// are inside, and looks again now and then: the thread that lets it in need not be the one it
    /// lends to.
    fn sleep(
        &self,
        word: &AtomicU32,
        value: u32,
        until: Option<Deadline>,
        lender: Option<Lender<'_>>,
        turn: &mut usize,
    ) -> Woken {
        let Some(lender) = lender.filter(|lender| lender.waiter.urgency > 0) else {
            return futex::wait(word, value, until, true);
        };
        let soon = Deadline::or_before(until, Deadline::after_ns(NET_NS));
        let waits = || word.load(Ordering::SeqCst) == value;
        let lent = match self.writer.load(Ordering::Relaxed) {
            0 => self.lend_to_a_reader(lender, soon, waits, turn),
            writer => self.lend_to_the_writer(lender, writer, soon, waits),
        };
        if lent == Err(NotLent::Refused) {
            let _ = futex::wait(word, value, Some(soon), true);
            // The models' net is at hand at once.
            #[cfg(loom)]
            loom::thread::yield_now();
        }
        match until {
            Some(until) if until.is_over() => Woken::TimedOut,
            _ => Woken::Maybe,
        }
    }

    fn lend_to_the_writer(
        &self,
        Lender { table, waiter, .. }: Lender<'_>,
        writer: u32,
        soon: Deadline,
        waits: impl Fn() -> bool,
    ) -> Result<(), NotLent> {
        if writer == waiter.thread || kernel::urgency_of(writer) >= waiter.urgency {
            return Err(NotLent::Refused);
        }
        let writes = || {
            self.writer.load(Ordering::SeqCst) == writer || Mutant::OwnerNotLookedAtAgain.is_on()
        };
        table.lend(self.address(), waiter, writer, soon, || writes() && waits())
    }

    /// Lends to one reader, the least urgent first. When that was for nothing for a while, it is
    /// another one's turn: the reader may sleep inside, or another thread let the lock go for it.
    fn lend_to_a_reader(
        &self,
        Lender { table, readers, waiter }: Lender<'_>,
        soon: Deadline,
        waits: impl Fn() -> bool,
        turn: &mut usize,
    ) -> Result<(), NotLent> {
        let lock = self.address();
        let phase = || self.phase.load(Ordering::SeqCst);
        let found = readers.less_urgent_than(waiter, lock, phase());
        for _ in 0..found.count() {
            let reader = found.at(*turn);
            let reads =
                || readers.has(lock, reader, phase()) || Mutant::ReaderNotLookedAtAgain.is_on();
            let lent = table.lend(lock, waiter, reader, soon, || reads() && waits());
            *turn = turn.wrapping_add(usize::from(lent.is_err()));
            if lent != Err(NotLent::Refused) {
                return lent;
            }
        }
        Err(NotLent::Refused)
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

    /// The state after a thread has left, with all threads let in whose turn it is.
    pub(super) fn hand_on(&self, queue: &mut Queue, tell: &mut Tell, leaver: Leaver) {
        let mut state = self.state.load(Ordering::Relaxed);
        let admit = loop {
            let (inside, writing) = match leaver {
                Leaver::Writer => (0, false),
                Leaver::Reader => ((state & READERS).saturating_sub(1), false),
                Leaver::Waiter => {
                    let writing = state & WRITE != 0 && !Mutant::LimitIgnoresWriter.is_on();
                    (state & READERS, writing)
                }
            };
            let after_writer = leaver == Leaver::Writer && !Mutant::WriterOvertakesReaders.is_on();
            let readers_first = after_writer || self.lets_readers_first();
            let (next, admit) = queue.next(inside, writing, readers_first);
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
                self.writers_wait_from_now();
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Barrier;
    use std::thread;
    use std::time::{Duration, Instant};

    const MS: i64 = 1_000_000;

    /// A lock and where its users meet.
    struct Lending {
        lock: Rwlock,
        table: Table,
        readers: Readers,
    }

    impl Lending {
        const fn by(&self, thread: u32, urgency: u32) -> Lender<'_> {
            let waiter = table::Waiter { thread, urgency };
            Lender { table: &self.table, readers: &self.readers, waiter }
        }

        /// Checks that no thread is left in the lock, the queue or the door.
        fn check_idle(&self) {
            assert!(self.lock.is_idle(me()) && self.table.is_empty());
            assert!(!self.readers.has(self.lock.address(), me(), 0));
        }
    }

    fn lending() -> Box<Lending> {
        Box::new(Lending { lock: Rwlock::new(), table: Table::new(), readers: Readers::new() })
    }

    fn me() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "the futex of Miri, as the kernel, reads one of the two words of the door"
    )]
    fn threads_that_read_and_want_to_write_wait_until_their_deadlines() {
        let lending = lending();
        for threads in 1..=3 {
            let barrier = Barrier::new(threads);
            thread::scope(|scope| {
                for urgency in 1..=threads as u32 {
                    let (lending, barrier) = (&lending, &barrier);
                    scope.spawn(move || {
                        let (reads, lender) = (Reads::new(), lending.by(me(), urgency));
                        lending.lock.read_lending(&reads, lender, None).unwrap();
                        barrier.wait();
                        let begin = Instant::now();
                        let until = Some(Deadline::after_ns(20 * MS));
                        let result = lending.lock.write_lending(lender, until);
                        let waited = begin.elapsed();
                        assert_eq!(result, Err(Failure::TimedOut));
                        assert!(waited >= Duration::from_millis(20), "{waited:?}");
                        assert!(waited < Duration::from_secs(60), "{waited:?}");
                        // A thread that leaves earlier would let another one in.
                        barrier.wait();
                        let left = lending.lock.unlock_lending(&reads, lender);
                        assert_eq!(left, Ok(Unlocked::Read));
                    });
                }
            });
            lending.check_idle();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not say that a thread has ended")]
    fn reader_that_sleeps_or_has_ended_does_not_keep_a_waiter_from_lending_to_others() {
        let lending = lending();
        let ended = || {
            lending.lock.read_lending(&Reads::new(), lending.by(me(), 0), None).unwrap();
            me()
        };
        let ended = thread::scope(|scope| scope.spawn(ended).join().unwrap());
        // Joined, it may still be about to end.
        while kernel::is_thread_of_this_process(ended) {
            thread::yield_now();
        }
        let barrier = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let (reads, lender) = (Reads::new(), lending.by(me(), 0));
                    lending.lock.read_lending(&reads, lender, None).unwrap();
                    barrier.wait();
                    barrier.wait();
                    lending.lock.unlock_lending(&reads, lender).unwrap();
                });
            }
            barrier.wait();
            let lender = lending.by(me(), 50);
            let asked = Cell::new(0);
            let waits = || {
                asked.set(asked.get() + 1);
                true
            };
            let mut turn = 0;
            for number in 1..=4 {
                let soon = Deadline::after_ns(MS);
                let lent = lending.lock.lend_to_a_reader(lender, soon, waits, &mut turn);
                // Both sleep: one at a time is lent to, and then it is the other one's turn.
                assert_eq!((lent, turn, asked.get()), (Err(NotLent::TimedOut), number, number));
            }
            assert!(!lending.readers.has(lending.lock.address(), ended, 0));
            barrier.wait();
        });
        assert!(lending.table.is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes in Miri")]
    fn lenders_exclude_each_other_and_leave_nothing_behind() {
        let lending = lending();
        let inside = AtomicU32::new(0);
        const WRITER: u32 = 1 << 16;
        thread::scope(|scope| {
            for number in 0..6_u32 {
                let (lending, inside) = (&lending, &inside);
                scope.spawn(move || {
                    let (reads, lender) = (Reads::new(), lending.by(me(), number % 3));
                    let lock = &lending.lock;
                    for turn in 0..4_000 {
                        let until = match (turn + number) % 4 {
                            0 => Some(Deadline::after_ns(20_000)),
                            _ => None,
                        };
                        let writes = (turn + number) % 3 == 0;
                        let entered = match writes {
                            true => lock.write_lending(lender, until),
                            false if until.is_some() => lock.try_read_lending(&reads, lender),
                            false => lock.read_lending(&reads, lender, None),
                        };
                        if entered.is_err() {
                            continue;
                        }
                        let weight = if writes { WRITER } else { 1 };
                        let others = inside.fetch_add(weight, Ordering::AcqRel);
                        assert!(others < WRITER && (!writes || others == 0), "{others:x}");
                        if !writes && turn % 5 == 0 {
                            lock.read_lending(&reads, lender, None).unwrap();
                            lock.unlock_lending(&reads, lender).unwrap();
                        }
                        inside.fetch_sub(weight, Ordering::AcqRel);
                        lock.unlock_lending(&reads, lender).unwrap();
                    }
                    assert!(reads.is_empty());
                    assert!(!lending.readers.has(lock.address(), me(), 0));
                });
            }
        });
        lending.check_idle();
    }
}
