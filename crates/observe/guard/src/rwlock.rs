//! A phase-fair read-write lock in the room of the C library's `pthread_rwlock_t`.
//!
//! Read phases and write phases take turns while both readers and writers want the lock. A reader
//! that comes while a writer waits stands behind it; a writer that leaves lets in *all* readers
//! that wait; the last reader that leaves lets in *one* writer, the most urgent, and among equals
//! the one that came first. Hence
//!
//! - a reader waits at most for the readers inside and one writer;
//! - a writer waits at most for the writers before it and one phase of readers before each of
//!   them and before itself. Writers before it are those that came earlier or are more urgent.
//!
//! Nested reads lengthen a phase: a thread that reads already gets in at once, since it would
//! wait for itself otherwise. The thread's own table of what it reads ([`Reads`]) says so. A
//! thread that reads more locks than its table holds gets in wherever others read, so for such
//! threads the bound of the writers does not hold.
//!
//! ```text
//!  0        4        8                 16        20        24        28        32
//!  +--------+--------+-----------------+---------+---------+---------+---------+
//!  | door   | 0      | first writer    | readers | process | writer  | shared  |
//!  +--------+--------+-----------------+---------+---------+---------+---------+
//!  32       36       40       44       48       52       56
//!  +--------+--------+--------+--------+--------+--------+   writer, shared and flags
//!  | state  | phase  | tag    | since  | flags  | 0      |   are the C library's own,
//!  +--------+--------+--------+--------+--------+--------+   in its places
//! ```
//!
//! `state` has one bit for a writer inside, one for "look behind the door", and the number of
//! readers inside. Without that second bit each operation is one atomic step on `state`. With it,
//! a thread that cannot be served at once goes through the *door*, a lock that lends priority,
//! behind which is the queue: the writers that wait as a list of places on their stacks, the
//! readers as a number. A thread that changes the state there does it for the others: the state
//! already counts those who are let in when they are woken, so no other thread can get in between.
//!
//! - Readers sleep on `phase`, which changes when they are let in; a writer sleeps in its place.
//! - [Lenders](Lender) lend their priority to who is inside: to the writer, whose id the lock has,
//!   or to readers, who are in a [register](Readers) beside it.
//! - A reader that waits too long behind a writer that waits gives the lock the C library's order
//!   ([`order`]): readers that need readers would wait for ever.
//! - Who gives up looks behind the door whether it was let in, and if not, leaves the queue, and
//!   lets in those who waited because of it.
//! - Who lets the lock go touches it no more once others can get it, except behind the door; and
//!   who gets it from there waits until the door is free. So the next owner may free its memory.
//! - Signals are blocked behind the door: a handler may use the lock that it interrupted.
//! - The child of a fork forgets those who wait in its parent.
//! - A thread leaves a wait by returning only, not by `longjmp` out of a signal handler or by
//!   asynchronous cancellation, which the C library does not allow either: its place would stay.
//!
//! Progress: an attempt on the fast path fails only because another thread succeeded. Behind the
//! door a thread does a bounded number of steps for each thread that waits. The preload library's
//! hooks call all this, for locks of one process only. Any thread may call anything at any time;
//! nothing survives the process, so there is nothing that a crash half-way could leave behind.

mod door;
mod order;
mod queue;
mod readers;
mod reads;
mod turn;

pub use queue::Waiting;
pub use readers::Readers;
pub use reads::Reads;
pub use turn::Lender;

use crate::atomic::{AtomicU32, Ordering};
use crate::futex::Deadline;
use crate::mutant::Mutant;
use door::Entrance;
use order::{READERS_FIRST, TOLD};
use queue::{READERS, WAITERS, WRITE};
use turn::Attempt;

/// Largest number of readers inside when another one comes. Readers that wait are at most as many
/// as there are threads, which the number has room for above that.
const MOST_READERS: u32 = 1 << 29;

/// Tag of a lock that the guard has taken over: "kRW1".
const TAG: u32 = u32::from_le_bytes(*b"kRW1");

/// The tag's bit for a lock whose readers are to be known: "kRW3".
const KNOWN: u32 = 1 << 25;

/// Reason for which an operation did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The time is over.
    TimedOut,
    /// The thread would have to wait.
    Busy,
    /// The calling thread has the lock for writing and would wait for itself.
    Deadlock,
    /// There are too many readers.
    Again,
    /// The calling thread releases a lock that no thread reads, or that another thread writes.
    NotHeld,
}

impl Failure {
    /// Returns the error number of the C library's function.
    pub fn errno(self) -> i32 {
        match self {
            Failure::TimedOut => 110,
            Failure::Busy => 16,
            Failure::Deadlock => 35,
            Failure::Again => 11,
            Failure::NotHeld => 1,
        }
    }
}

/// Kind of access that a thread let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlocked {
    /// The thread had read.
    Read,
    /// The thread had written.
    Write,
}

/// The lock. All zero it is free, though not yet claimed.
#[repr(C)]
pub struct Rwlock {
    door: Entrance,
    /// The writer's thread id, for questions about the owner of the lock; 0 without a writer.
    writer: AtomicU32,
    shared: AtomicU32,
    state: AtomicU32,
    /// Changes when the readers that wait are let in.
    phase: AtomicU32,
    tag: AtomicU32,
    /// Time since which the first writer waits for the readers inside, in milliseconds.
    since_ms: AtomicU32,
    flags: AtomicU32,
    /// Behind the end of the C library's structure: whatever was there before.
    end: AtomicU32,
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Rwlock>() == 56 && align_of::<Rwlock>() == 8);
    assert!(offset_of!(Rwlock, writer) == 24 && offset_of!(Rwlock, shared) == 28);
    assert!(offset_of!(Rwlock, tag) == 40 && offset_of!(Rwlock, flags) == 48);
};

impl Rwlock {
    /// A free lock, not yet claimed.
    #[expect(clippy::new_without_default, reason = "locks come from the C library's initialiser")]
    pub fn new() -> Rwlock {
        Rwlock {
            door: Entrance::new(),
            writer: AtomicU32::new(0),
            shared: AtomicU32::new(0),
            state: AtomicU32::new(0),
            phase: AtomicU32::new(0),
            tag: AtomicU32::new(0),
            since_ms: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            end: AtomicU32::new(0),
        }
    }

    /// The lock in the room of a `pthread_rwlock_t`. Whether it is ours [`Rwlock::claim`] says.
    ///
    /// # Safety
    /// The pointer is that of an initialised `pthread_rwlock_t`, which stays there for `'a`.
    #[cfg(not(loom))]
    #[inline(always)]
    pub unsafe fn at<'a>(lock: *mut core::ffi::c_void) -> &'a Rwlock {
        // SAFETY: size and alignment are the same, any bytes are valid atomics, and the queue is
        // only looked at in a lock that was claimed, that is, whose queue was all zero.
        unsafe { &*lock.cast::<Rwlock>() }
    }

    /// Returns true if the lock is ours.
    #[inline(always)]
    pub fn is_claimed(&self) -> bool {
        self.tag.load(Ordering::Acquire) & !(KNOWN | READERS_FIRST | TOLD) == TAG
    }

    /// Returns true if the lock is ours, its readers need not be known, and the order is its own.
    #[inline(always)]
    pub fn is_claimed_plainly(&self) -> bool {
        self.tag.load(Ordering::Acquire) == TAG
    }

    /// Returns true if several processes use it, in the C library's own word.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed) != 0
    }

    /// Makes the lock ours if no thread has used it yet, and says whether it is ours now. Threads
    /// may race for it. A lock that processes share, and one that the C library has used, are not
    /// claimed: the C library leaves its words non-zero once it has had a writer.
    pub fn claim(&self) -> bool {
        self.claim_by(TAG)
    }

    /// Claims as [`Rwlock::claim`] does, for a lock whose users are [lenders](Lender), all of them.
    pub fn claim_for_lenders(&self) -> bool {
        self.claim_by(TAG | KNOWN)
    }

    fn claim_by(&self, tag: u32) -> bool {
        if self.is_claimed() {
            return true;
        }
        let unused = [&self.state, &self.writer, &self.shared, &self.phase, &self.since_ms]
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == 0)
            && self.door.is_unused();
        // Another thread may have claimed and used the lock meanwhile, so the tag decides.
        if unused {
            let _ = self.tag.compare_exchange(0, tag, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.is_claimed()
    }

    /// Takes the lock for reading, at the latest by a deadline. A deadline that is over does not
    /// matter when nothing is to be waited for.
    ///
    /// # Errors
    /// `TimedOut`; `Deadlock` for the thread that writes; `Again` with too many readers.
    #[inline]
    pub fn read(&self, reads: &Reads, me: u32, until: Option<Deadline>) -> Result<(), Failure> {
        // The table first: a handler between the two steps that reads too must not wait for us.
        let nested = reads.add(self.address());
        if self.read_at_once() {
            return Ok(());
        }
        let result = self.read_in_turn(nested, me, until, None);
        if result.is_err() {
            reads.remove(self.address());
        }
        result
    }

    /// Locks as [`Rwlock::read`] does, lends the priority to less urgent threads inside meanwhile,
    /// and is known to other lenders.
    ///
    /// # Errors
    /// As [`Rwlock::read`].
    pub fn read_lending(
        &self,
        reads: &Reads,
        lender: Lender<'_>,
        until: Option<Deadline>,
    ) -> Result<(), Failure> {
        let me = lender.waiter.thread;
        // Before it gets in, which may be long before it runs again.
        lender.readers.enter(self.address(), me);
        let nested = reads.add(self.address());
        if self.read_at_once() {
            return Ok(());
        }
        let result = self.read_in_turn(nested, me, until, Some(lender));
        if result.is_err() {
            reads.remove(self.address());
            lender.leave(self.address());
        }
        result
    }

    /// Takes the lock for reading if neither a writer has it nor any thread waits, and the thread
    /// reads little else; otherwise does nothing. The usual case of [`Rwlock::read`], for those
    /// who go there if it does not do.
    #[inline(always)]
    pub fn read_now(&self, reads: &Reads) -> bool {
        if !reads.add_alone(self.address()) {
            return false;
        }
        // A free lock is the usual case: no look before.
        let (from, to) = (Ordering::Acquire, Ordering::Relaxed);
        let entered = self.state.compare_exchange(0, 1, from, to).is_ok() || self.read_at_once();
        if !entered {
            reads.remove_alone(self.address());
        }
        entered
    }

    /// Releases a lock that the thread reads once, if no thread waits; otherwise does nothing.
    #[inline(always)]
    pub fn unlock_read_now(&self, reads: &Reads) -> bool {
        if !reads.has_once(self.address()) {
            return false;
        }
        // The only reader is the usual one: no look before.
        let mut state = 1;
        loop {
            // Release pairs with the acquire of the next writer.
            let (from, to) = (Ordering::Release, Ordering::Relaxed);
            match self.state.compare_exchange(state, state - 1, from, to) {
                Ok(_) => {
                    reads.remove_alone(self.address());
                    return true;
                }
                Err(now) if (1..MOST_READERS).contains(&now) => state = now,
                Err(_) => return false,
            }
        }
    }

    /// Lets a lock go that the thread writes; otherwise does nothing.
    #[inline(always)]
    pub fn unlock_write_now(&self, me: u32) -> bool {
        let writes = self.writer.load(Ordering::Relaxed) == me;
        if writes {
            self.unlock_write(me);
        }
        writes
    }

    /// Takes the lock for reading if that is possible at once.
    ///
    /// # Errors
    /// `Busy` when a writer is inside or waits; `Again` with too many readers.
    #[inline]
    pub fn try_read(&self, reads: &Reads, me: u32) -> Result<(), Failure> {
        let nested = reads.add(self.address());
        if self.read_at_once() {
            return Ok(());
        }
        let result = self.try_read_slowly(nested, me);
        if result.is_err() {
            reads.remove(self.address());
        }
        result
    }

    /// Tries as [`Rwlock::try_read`] does, and is known to threads that lend their priority.
    ///
    /// # Errors
    /// As [`Rwlock::try_read`].
    pub fn try_read_lending(&self, reads: &Reads, lender: Lender<'_>) -> Result<(), Failure> {
        lender.readers.enter(self.address(), lender.waiter.thread);
        let result = self.try_read(reads, lender.waiter.thread);
        if result.is_err() {
            lender.leave(self.address());
        }
        result
    }

    /// Takes the lock for writing, at the latest by a deadline.
    ///
    /// # Errors
    /// `TimedOut`; `Deadlock` for the thread that writes. A thread that reads waits for itself, as
    /// it does with the C library.
    #[inline]
    pub fn write(&self, me: u32, until: Option<Deadline>) -> Result<(), Failure> {
        if self.write_now(me) {
            return Ok(());
        }
        self.write_in_turn(me, until, None)
    }

    /// Locks as [`Rwlock::write`] does, and lends the priority to less urgent threads inside
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Rwlock::write`].
    pub fn write_lending(
        &self,
        lender: Lender<'_>,
        until: Option<Deadline>,
    ) -> Result<(), Failure> {
        if self.write_now(lender.waiter.thread) {
            return Ok(());
        }
        self.write_in_turn(lender.waiter.thread, until, Some(lender))
    }

    /// Takes the lock for writing if that is possible at once.
    ///
    /// # Errors
    /// `Busy`.
    #[inline]
    pub fn try_write(&self, me: u32) -> Result<(), Failure> {
        if self.write_now(me) {
            return Ok(());
        }
        if self.state.load(Ordering::Relaxed) & !WAITERS != 0 {
            return Err(Failure::Busy);
        }
        // Free, but a thread may still be behind the door.
        let attempt = self.behind_door(me, |queue, _| self.write_attempt(queue, me, None));
        if matches!(attempt, Attempt::Entered) { Ok(()) } else { Err(Failure::Busy) }
    }

    /// Lets the lock go, and says what the calling thread had.
    ///
    /// # Errors
    /// `NotHeld`, and nothing is changed. The C library does not notice and breaks the lock. What
    /// a thread wrote that is none of this process, the calling thread lets go for it: it is the
    /// child of a fork.
    #[inline]
    pub fn unlock(&self, reads: &Reads, me: u32) -> Result<Unlocked, Failure> {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & WRITE == 0 && state & READERS != 0 && state != WAITERS | 1 {
            // Release pairs with the acquire of the next writer.
            let (from, to) = (Ordering::Release, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, state - 1, from, to) {
                Ok(_) => {
                    reads.remove(self.address());
                    return Ok(Unlocked::Read);
                }
                Err(now) => state = now,
            }
        }
        if self.unlock_write_now(me) {
            return Ok(Unlocked::Write);
        }
        self.unlock_slowly(reads, me)
    }

    /// Unlocks as [`Rwlock::unlock`] does, and gives back the priority that the thread was lent.
    ///
    /// # Errors
    /// As [`Rwlock::unlock`].
    pub fn unlock_lending(&self, reads: &Reads, lender: Lender<'_>) -> Result<Unlocked, Failure> {
        let lock = self.address();
        let result = self.unlock(reads, lender.waiter.thread);
        // From here on the lock may be gone.
        match result {
            Ok(Unlocked::Read) => lender.leave(lock),
            Ok(Unlocked::Write) | Err(_) => lender.let_go(lock),
        }
        result
    }

    /// Returns true if no thread has the lock, waits for it or is busy with releasing it.
    pub fn is_idle(&self, me: u32) -> bool {
        self.state.load(Ordering::Acquire) == 0
            || self.behind_door(me, |queue, _| {
                queue.is_empty() && self.state.load(Ordering::Acquire) & !WAITERS == 0
            })
    }

    /// Returns true if a thread waits, or did a moment ago.
    pub fn is_contended(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WAITERS != 0
    }

    /// Returns the number of those that wait just now. It looks behind the door, so it is for tests
    /// and diagnosis.
    pub fn waiting(&self, me: u32) -> Waiting {
        self.behind_door(me, |queue, _| queue.waiting())
    }

    /// Returns true if no thread is behind the door.
    #[cfg(loom)]
    pub fn is_door_free(&self) -> bool {
        self.door.is_free()
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the lock for reading in one step, when there is neither a writer nor a waiter.
    #[inline(always)]
    fn read_at_once(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        let overtakes = Mutant::ReaderOvertakesWriter.is_on();
        // Both bits are above the number.
        while state < MOST_READERS || self.may_join(state) || (overtakes && state & WRITE == 0) {
            let (from, to) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, state + 1, from, to) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes the lock for writing if no thread has it or waits; otherwise does nothing.
    #[inline(always)]
    pub fn write_now(&self, me: u32) -> bool {
        let (from, to) = (Ordering::Acquire, Ordering::Relaxed);
        let entered = self.state.compare_exchange(0, WRITE, from, to).is_ok();
        if entered {
            self.writer.store(me, Ordering::Relaxed);
        }
        entered
    }

    #[inline]
    fn unlock_write(&self, me: u32) {
        self.writer.store(0, Ordering::Relaxed);
        // Release pairs with the acquire of the next thread.
        let (from, to) = (Ordering::Release, Ordering::Relaxed);
        if self.state.compare_exchange(WRITE, 0, from, to).is_err() {
            self.unlock_write_slowly(me);
        }
    }
}
