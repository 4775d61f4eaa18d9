//! Memory that holders and the regulator share, and the protocol over it.
//!
//! ```text
//!   cell    one for each holder, in a page that only it and the regulator have
//!           +---------+-------+-------------+--------------+----------+
//!           | version | holds | acquired ns | acquisitions | reserved |  64 bytes
//!           +---------+-------+-------------+--------------+----------+
//!   byte    0         4       8             16             24
//!
//!   bell    one page for all: +------+      watch   one page for all, which holders can only read:
//!                             | rung |              +---------+----------+---------+
//!                             +------+              | version | sleepers | ceiling |
//!   byte                      0                     +---------+----------+---------+
//!                                             byte  0         4          8
//! ```
//!
//! Version 1. Cells lie at different offsets of their pages, so that the regulator's look at all
//! of them does not meet in one set of its cache.
//!
//! **Taking the lock** adds one to the holds of the cell, then looks at `sleepers`; if a thread of
//! the regulator sleeps, it adds one to `rung` and wakes. **Going to sleep** adds one to
//! `sleepers`, reads `rung`, looks at all cells again, and sleeps only while `rung` still has the
//! value that it read. A full fence lies between the write and the look on both sides, so that at
//! least one of the two sees the other. If the holder sees the sleeper, the bell has either changed
//! before the regulator read it, and then the cells that it looks at next have the hold; or it
//! changes afterwards, and then the kernel refuses the sleep or ends it. Of the regulator's threads
//! one sleeps there for all ([`Crew`]).
//!
//! Every acquisition looks at `sleepers`, not only the first: a thread that returns from it need
//! not trust that another thread, perhaps preempted just now, gets to ring.
//!
//! **What a holder writes is an allegation.** In its cell it can only lie about itself, and a cell
//! with nonsense counts as not held. Of the bell the regulator believes nothing but that it is
//! worth a look. A holder that sets it back in the microsecond between another's ring and the
//! kernel's look can delay that one's lock until its next acquisition; it must have passed the
//! check of its credentials to do so. It cannot hide that the regulator sleeps, since holders
//! cannot write the watch.
//!
//! **Losing the regulator.** If it dies, holders go on: no process reads what they write, and if
//! it died asleep each acquisition rings for no thread. Opening anew finds the next regulator.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::futex;
use crate::mutant::Mutant;
use std::time::Duration;

/// The version of the layout and of the handshake.
pub const VERSION: u32 = 1;
/// Acquisitions of one holder that may be open at the same time; more are not counted.
pub const MOST_HOLDS: u32 = 1 << 20;
/// Larger counts are nonsense. Between the two is room for threads that are just being
/// refused.
const NONSENSE: u32 = 1 << 24;
/// Value in place of the version when the holder has closed its hold.
const CLOSED: u32 = u32::MAX;
/// Bytes of each of the three pages.
pub const PAGE_BYTES: usize = 4096;

/// Data that a holder writes about itself.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Cell {
    version: AtomicU32,
    holds: AtomicU32,
    acquired_ns: AtomicU64,
    acquisitions: AtomicU64,
    #[cfg(not(loom))]
    _reserved: [AtomicU64; 5],
}

/// Word that holders change to wake the regulator.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Bell {
    rung: AtomicU32,
}

/// Data that the regulator writes for all holders.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Watch {
    version: AtomicU32,
    sleepers: AtomicU32,
    ceiling: AtomicU32,
}

#[cfg(not(loom))]
const _: () = {
    assert!(std::mem::size_of::<Cell>() == 64);
    assert!(std::mem::offset_of!(Cell, holds) == 4);
    assert!(std::mem::offset_of!(Cell, acquired_ns) == 8);
    assert!(std::mem::offset_of!(Cell, acquisitions) == 16);
    assert!(std::mem::offset_of!(Watch, sleepers) == 4);
    assert!(std::mem::offset_of!(Watch, ceiling) == 8);
};

/// Content of a cell, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The cell is free.
    Free,
    /// The holder has this number of acquisitions open; 0 when it does not hold the lock.
    Holds(u32),
    /// The holder has closed it.
    Closed,
    /// Content that no holder of this version writes.
    Nonsense,
}

impl Cell {
    /// Regulator: makes a zeroed cell a holder's.
    pub fn prepare(&self) {
        // Release: a thread that sees the version sees the zeroes.
        self.version.store(VERSION, Ordering::Release);
    }

    /// Regulator: what it says. Wait-free.
    #[inline]
    pub fn said(&self) -> Said {
        // Acquire: pairs with the release in `acquire`; the time of the acquisition is there.
        let holds = self.holds.load(Ordering::Acquire);
        match self.version.load(Ordering::Relaxed) {
            VERSION if holds < NONSENSE => Said::Holds(holds),
            0 if holds == 0 => Said::Free,
            CLOSED => Said::Closed,
            _ => Said::Nonsense,
        }
    }

    /// Returns the time at which the lock was last taken by one who did not hold it, on
    /// `CLOCK_MONOTONIC`, as the holder says; 0 before. Written before the hold can be seen.
    pub fn acquired_ns(&self) -> u64 {
        // Relaxed: ordered by the acquire in `said`, for those who care.
        self.acquired_ns.load(Ordering::Relaxed)
    }

    /// Returns the number of times that it was taken by one who did not hold it, as the holder
    /// says.
    pub fn acquisitions(&self) -> u64 {
        self.acquisitions.load(Ordering::Relaxed)
    }

    /// Holder: takes the lock once more; false when it is taken too often already. Lock-free, any
    /// thread, also in a signal handler. One that is killed inside holds the lock or does not;
    /// the regulator learns of its end anyway.
    #[inline]
    pub fn acquire(&self, bell: &Bell, watch: &Watch, now_ns: impl FnOnce() -> u64) -> bool {
        self.acquire_after(bell, watch, now_ns).is_some()
    }

    /// Acquires as [`Cell::acquire`] does; returns the number of acquisitions that were open
    /// before, None instead of false.
    #[inline]
    pub fn acquire_after(
        &self,
        bell: &Bell,
        watch: &Watch,
        now_ns: impl FnOnce() -> u64,
    ) -> Option<u32> {
        let asleep_before = Mutant::LookBeforeTaking.is_on() && watch.someone_sleeps();
        // Relaxed, all of these: what is read here decides nothing but a number for people. Of two
        // threads that come at once both may write a time; both are right.
        if self.holds.load(Ordering::Relaxed) == 0 {
            self.acquired_ns.store(now_ns(), Ordering::Relaxed);
        }
        // Release: pairs with the acquire in `said`.
        let before = self.holds.fetch_add(1, Ordering::Release);
        if before >= MOST_HOLDS {
            self.holds.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        if before == 0 {
            self.acquisitions.fetch_add(1, Ordering::Relaxed);
        }
        if !Mutant::NoFence.is_on() {
            // Pairs with the fence in `lead`: the hold is there, then the sleepers are looked at.
            fence(Ordering::SeqCst);
        }
        let asleep = match Mutant::LookBeforeTaking.is_on() {
            true => asleep_before,
            false => watch.someone_sleeps(),
        };
        if asleep {
            bell.ring();
        }
        Some(before)
    }

    /// Holder: gives one acquisition back; false when there is none, and then nothing happens.
    /// Lock-free, any thread, also in a signal handler.
    #[inline]
    pub fn release(&self) -> bool {
        self.release_to().is_some()
    }

    /// Releases as [`Cell::release`] does; returns the number of acquisitions left, None instead of
    /// false.
    #[inline]
    pub fn release_to(&self) -> Option<u32> {
        // Relaxed: the regulator reads nothing on the strength of it.
        let mut holds = self.holds.load(Ordering::Relaxed);
        while holds != 0 || Mutant::ReleaseUnchecked.is_on() {
            let less = holds.wrapping_sub(1);
            let (yes, no) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.holds.compare_exchange_weak(holds, less, yes, no) {
                Ok(_) => return Some(less),
                Err(now) => holds = now,
            }
        }
        None
    }

    /// Holder: says that it is done with the cell for ever.
    pub fn close(&self) {
        self.holds.store(0, Ordering::Relaxed);
        self.version.store(CLOSED, Ordering::Release);
    }
}

impl Bell {
    /// Wakes the regulator, if it sleeps or is about to. One system call.
    #[cold]
    pub fn ring(&self) {
        if !Mutant::BellNotRung.is_on() {
            // Release: pairs with the acquire in `lead`; who reads the new value sees the hold.
            self.rung.fetch_add(1, Ordering::Release);
        }
        futex::wake_all(&self.rung);
    }
}

impl Watch {
    /// Regulator: makes a zeroed watch one of this version, and names the ceiling, 0 for none.
    pub fn prepare(&self, ceiling: u32) {
        self.ceiling.store(ceiling, Ordering::Relaxed);
        self.version.store(VERSION, Ordering::Release);
    }

    /// The version that stands there.
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The `SCHED_FIFO` priority that holders should have, 0 for none.
    pub fn ceiling(&self) -> u32 {
        self.ceiling.load(Ordering::Relaxed)
    }

    #[inline]
    fn someone_sleeps(&self) -> bool {
        // Relaxed: ordered by the fence before it.
        self.sleepers.load(Ordering::Relaxed) != 0
    }
}

/// The threads of the regulator that wait for a holder; one of them sleeps on the bell for all, so
/// that a holder wakes one thread however many cores are regulated.
///
/// The leader sleeps on the bell. The others sleep while `turn` has the value that they read before
/// they saw that a thread leads. A leader that leaves, for whatever reason, first stops leading,
/// then changes `turn` and wakes the others: a thread that read the old value does not sleep, and
/// one that read the new value sees that no thread leads.
pub struct Crew {
    led: AtomicU32,
    turn: AtomicU32,
}

impl Default for Crew {
    fn default() -> Crew {
        Crew { led: AtomicU32::new(0), turn: AtomicU32::new(0) }
    }
}

impl Crew {
    /// Sleeps until a holder may have the lock, unless `is_held` finds a hold, at most `timeout`.
    /// May return early for no reason. Any number of threads.
    pub fn sleep(
        &self,
        bell: &Bell,
        watch: &Watch,
        is_held: impl Fn() -> bool,
        timeout: Option<Duration>,
    ) {
        // Acquire: pairs with the release below. Read before the leader is looked for.
        let mut turn = self.turn.load(Ordering::Acquire);
        // Acquire: whatever the last leader saw is seen by the next one.
        let (yes, no) = (Ordering::Acquire, Ordering::Relaxed);
        if self.led.compare_exchange(0, 1, yes, no).is_err() {
            if Mutant::TurnReadLate.is_on() {
                turn = self.turn.load(Ordering::Acquire);
            }
            futex::wait(&self.turn, turn, timeout);
            return;
        }
        lead(bell, watch, is_held, timeout);
        self.led.store(0, Ordering::Release);
        if !Mutant::FollowersNotWoken.is_on() {
            // Release: a thread that sees the new turn sees that none leads.
            self.turn.fetch_add(1, Ordering::Release);
            futex::wake_all(&self.turn);
        }
    }
}

/// Sleeps on the bell, unless a holder has the lock.
fn lead(bell: &Bell, watch: &Watch, is_held: impl Fn() -> bool, timeout: Option<Duration>) {
    watch.sleepers.fetch_add(1, Ordering::Relaxed);
    // Pairs with the fence in `acquire`: the sleep is announced, then the cells are looked at.
    fence(Ordering::SeqCst);
    // Acquire: pairs with the release in `ring`. Read before the look, so that a ring after the
    // look changes it.
    let mut rung = bell.rung.load(Ordering::Acquire);
    let held = !Mutant::NoSecondLook.is_on() && is_held();
    if Mutant::BellReadLate.is_on() {
        rung = bell.rung.load(Ordering::Acquire);
    }
    if !held {
        futex::wait(&bell.rung, rung, timeout);
    }
    watch.sleepers.fetch_sub(1, Ordering::Relaxed);
}

/// Model memory; real cells, bells and watches are laid over zeroed pages.
#[cfg(loom)]
#[allow(missing_docs, clippy::new_without_default)]
mod model {
    use super::*;

    impl Cell {
        pub fn new() -> Cell {
            Cell {
                version: AtomicU32::new(VERSION),
                holds: AtomicU32::new(0),
                acquired_ns: AtomicU64::new(0),
                acquisitions: AtomicU64::new(0),
            }
        }
    }

    impl Bell {
        pub fn new() -> Bell {
            Bell { rung: AtomicU32::new(0) }
        }
    }

    impl Watch {
        pub fn new() -> Watch {
            let zero = || AtomicU32::new(0);
            Watch { version: AtomicU32::new(VERSION), sleepers: zero(), ceiling: zero() }
        }
    }
}
