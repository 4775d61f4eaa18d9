//! One range of addresses that a signal handler looks up while other threads change its
//! neighbours.
//!
//! A sequence lock. The owner makes the version odd, writes the bounds, and makes it even again.
//! The handler reads the version, the bounds, and the version again, and takes what it read only
//! if the version was the same even number both times. It never waits: the range that it looks
//! for is that of the mapping which the interrupted thread is using, and a thread that uses a
//! mapping keeps it, and so its range, from changing. A range that is just changing is another one.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::mutant::Mutant;

/// A range of addresses, or none.
pub struct Range {
    version: AtomicU32,
    begin: AtomicU64,
    end: AtomicU64,
    /// The descriptor of the bell that is rung when a page of the range is lost.
    bell: AtomicU32,
    broken: AtomicU32,
}

/// State of a range at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// First address.
    pub begin: u64,
    /// First address behind it.
    pub end: u64,
    /// The descriptor of its bell.
    pub bell: u32,
}

impl Range {
    /// None yet.
    pub fn none() -> Range {
        Range {
            version: AtomicU32::new(0),
            begin: AtomicU64::new(0),
            end: AtomicU64::new(0),
            bell: AtomicU32::new(0),
            broken: AtomicU32::new(0),
        }
    }

    /// Becomes this range; an empty one is none. One thread at a time, the owner. Wait-free.
    pub fn set(&self, to: Found) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the acquiring fence in `find`: who sees one of the stores below sees the odd
        // version, or a later one.
        fence(Ordering::Release);
        self.begin.store(to.begin, Ordering::Relaxed);
        self.end.store(to.end, Ordering::Relaxed);
        self.bell.store(to.bell, Ordering::Relaxed);
        self.broken.store(0, Ordering::Relaxed);
        // Release: pairs with the acquiring load in `find`, for the stores above.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The range, if the address lies in it. Wait-free, any thread, also in a signal handler.
    pub fn find(&self, address: u64) -> Option<Found> {
        let before = self.version.load(Ordering::Acquire);
        let begin = self.begin.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        let bell = self.bell.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        let whole = before == after && before % 2 == 0 || Mutant::RangeReadTorn.is_on();
        (whole && (begin..end).contains(&address)).then_some(Found { begin, end, bell })
    }

    /// A page of it is lost.
    pub fn mark_broken(&self) {
        // Release: pairs with `is_broken`, so that the page is replaced when that says so.
        self.broken.store(1, Ordering::Release);
    }

    /// Returns true if a page of it was lost.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire) != 0
    }
}
