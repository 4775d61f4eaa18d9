//! The C library's order, for a lock whose readers need other readers.
//!
//! By the C library's default a reader gets in wherever no writer is inside, also while writers
//! wait. A program may depend on that: a reader inside waits for something that another thread
//! does as a reader, or a thread reads again where its own table does not say so. Behind a writer
//! that waits, all of them would wait for ever. So a reader's wait for a writer that itself waits
//! has a limit ([`LIMIT_NS`]). After that the lock has the C library's order until it is
//! initialised anew: *readers first*. Only the order changes; who is inside is counted in the same
//! words, so no thread needs to leave first, and readers enter by the same step on `state`, which
//! fails while a writer is inside.
//!
//! Attempts and waits with deadlines that are over earlier go by how long the first writer has
//! waited for the present readers, so that repeated ones succeed too.

use super::queue::{Queue, READERS, WAITERS, WRITE};
use super::turn::{Leaver, Tell};
use super::{MOST_READERS, Rwlock};
use crate::atomic::Ordering;
use crate::futex::{self, Clock};
use crate::mutant::Mutant;

/// Longest time for which a reader waits for a writer that waits, in nanoseconds.
pub(super) const LIMIT_NS: i64 = 100_000_000;

/// The tag's bit for a lock with the C library's order.
pub(super) const READERS_FIRST: u32 = 1 << 26;

/// The tag's bit for a lock whose order was reported.
pub(super) const TOLD: u32 = 1 << 27;

/// The flags of a lock whose readers the C library itself keeps behind writers that wait.
const WRITERS_FIRST: u32 = 2;

/// A time in [`Rwlock::since_ms`].
fn now_ms() -> u32 {
    (futex::now(Clock::Monotonic) / 1_000_000) as u32
}

impl Rwlock {
    /// Returns true if the lock has the C library's order.
    #[inline]
    pub fn lets_readers_first(&self) -> bool {
        // Relaxed: nothing but the order depends on it.
        self.tag.load(Ordering::Relaxed) & READERS_FIRST != 0
    }

    /// Returns true if the lock has got the C library's order; says so once.
    #[inline]
    pub fn was_put_in_the_librarys_order(&self) -> bool {
        self.lets_readers_first() && self.tag.fetch_or(TOLD, Ordering::Relaxed) & TOLD == 0
    }

    /// Returns true if a reader may join those inside although another thread waits. They keep it
    /// open: the last of them leaves through the door.
    #[cold]
    pub(super) fn may_join(&self, state: u32) -> bool {
        let inside = state & READERS;
        state & WRITE == 0 && (1..MOST_READERS).contains(&inside) && self.lets_readers_first()
    }

    /// Writers begin to wait for readers inside. Called behind the door.
    pub(super) fn writers_wait_from_now(&self) {
        self.since_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Returns true if a writer has waited for the readers inside for longer than the limit. A
    /// hint, if it is not asked behind the door.
    pub(super) fn keeps_readers_out_too_long(&self) -> bool {
        let waited_ms = || now_ms().wrapping_sub(self.since_ms.load(Ordering::Relaxed));
        let state = self.state.load(Ordering::Relaxed);
        state & WAITERS != 0
            && self.may_change_order(state)
            && futex::have_limits()
            && (cfg!(loom) || waited_ms() >= (LIMIT_NS / 1_000_000) as u32)
    }

    /// Returns true if readers would be inside with the C library.
    pub(super) fn may_change_order(&self, state: u32) -> bool {
        let writes = state & WRITE != 0 && !Mutant::LimitIgnoresWriter.is_on();
        let prefers_writers = self.flags.load(Ordering::Relaxed) == WRITERS_FIRST;
        !writes && !prefers_writers && !Mutant::LimitForgotten.is_on()
    }

    /// Gives the lock the C library's order, and lets in all readers that wait, if no writer is
    /// inside. Called behind the door.
    pub(super) fn put_readers_first(&self, queue: &mut Queue, tell: &mut Tell) {
        self.tag.fetch_or(READERS_FIRST, Ordering::Relaxed);
        self.hand_on(queue, tell, Leaver::Waiter);
    }
}
