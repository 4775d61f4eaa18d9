//! The read locks that a thread holds, in its own memory.
//!
//! A lock for readers only counts them, so whether a reader reads already its thread must know.
//! The table has few entries because threads rarely read more than one or two locks at once. Each
//! lock has a home, where it is found in one step; it is elsewhere only if its home was taken
//! when it came. A signal handler of the thread may come between any two steps, and leaves the
//! table as it found it.

use core::cell::Cell;
use core::sync::atomic::{Ordering, compiler_fence};

const ENTRIES: usize = 8;

/// Locks that the calling thread reads. All zero is an empty table. Not for use by other threads.
#[repr(C)]
pub struct Reads {
    /// Addresses of locks; 0 is a free entry.
    locks: [Cell<usize>; ENTRIES],
    /// Number of times that each is read beyond once.
    again: [Cell<u32>; ENTRIES],
    /// Locks that are not at home.
    displaced: Cell<u32>,
    /// Read locks that found no entry.
    surplus: Cell<u32>,
}

const _: () = assert!(size_of::<Reads>() <= 104);

impl Default for Reads {
    fn default() -> Reads {
        Reads::new()
    }
}

/// Returns the entry at which a lock is at home. Locks are 56 bytes and more apart.
fn home(lock: usize) -> usize {
    (lock >> 5) % ENTRIES
}

fn add(cell: &Cell<u32>) {
    cell.set(cell.get().wrapping_add(1));
    compiler_fence(Ordering::SeqCst);
}

impl Reads {
    /// An empty table.
    pub const fn new() -> Reads {
        Reads {
            locks: [const { Cell::new(0) }; ENTRIES],
            again: [const { Cell::new(0) }; ENTRIES],
            displaced: Cell::new(0),
            surplus: Cell::new(0),
        }
    }

    /// Returns true if the thread reads nothing, as far as the table says.
    pub fn is_empty(&self) -> bool {
        self.surplus.get() == 0 && self.locks.iter().all(|lock| lock.get() == 0)
    }

    /// Counts a read lock, and says whether the thread may have it already.
    #[inline]
    pub(super) fn add(&self, lock: usize) -> bool {
        let home = home(lock);
        if self.locks[home].get() != 0 || self.displaced.get() != 0 {
            return self.add_slowly(lock);
        }
        self.locks[home].set(lock);
        compiler_fence(Ordering::SeqCst);
        self.surplus.get() != 0
    }

    #[cold]
    fn add_slowly(&self, lock: usize) -> bool {
        let home = home(lock);
        let places = || (0..ENTRIES).map(|step| (home + step) % ENTRIES);
        if let Some(place) = places().find(|place| self.locks[*place].get() == lock) {
            add(&self.again[place]);
            return true;
        }
        let Some(place) = places().find(|place| self.locks[*place].get() == 0) else {
            add(&self.surplus);
            return true;
        };
        if place != home {
            add(&self.displaced);
        }
        self.locks[place].set(lock);
        compiler_fence(Ordering::SeqCst);
        self.surplus.get() != 0
    }

    /// Counts the only read lock of its home, if it is to be the only one; else does nothing.
    #[inline(always)]
    pub(super) fn add_alone(&self, lock: usize) -> bool {
        let home = home(lock);
        if self.locks[home].get() != 0 || self.displaced.get() != 0 {
            return false;
        }
        self.locks[home].set(lock);
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// Returns true if a lock is read once, and at home.
    #[inline(always)]
    pub(super) fn has_once(&self, lock: usize) -> bool {
        let home = home(lock);
        self.locks[home].get() == lock && self.again[home].get() == 0
    }

    /// Counts a lock less that is read once, and at home.
    #[inline(always)]
    pub(super) fn remove_alone(&self, lock: usize) {
        compiler_fence(Ordering::SeqCst);
        self.locks[home(lock)].set(0);
    }

    /// Counts one read lock less.
    #[inline]
    pub(super) fn remove(&self, lock: usize) {
        compiler_fence(Ordering::SeqCst);
        let home = home(lock);
        if self.locks[home].get() != lock || self.again[home].get() != 0 {
            return self.remove_slowly(lock);
        }
        self.locks[home].set(0);
    }

    #[cold]
    fn remove_slowly(&self, lock: usize) {
        let Some(place) = self.locks.iter().position(|other| other.get() == lock) else {
            // Without a surplus another thread took the lock, which is the program's mistake.
            self.surplus.set(self.surplus.get().saturating_sub(1));
            return;
        };
        if let Some(rest) = self.again[place].get().checked_sub(1) {
            self.again[place].set(rest);
            return;
        }
        self.locks[place].set(0);
        compiler_fence(Ordering::SeqCst);
        if place != home(lock) {
            self.displaced.set(self.displaced.get() - 1);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn table_counts_nested_reads_and_ends_empty() {
        let reads = Reads::new();
        assert!(!reads.add(8));
        assert!(!reads.add(16));
        assert!(reads.add(8));
        reads.remove(8);
        assert!(reads.add(8), "the outer read was forgotten");
        for lock in [8, 8, 16] {
            reads.remove(lock);
        }
        assert!(reads.is_empty());
        assert!(!reads.add(8));
    }

    #[test]
    fn full_table_takes_every_lock_for_nested_until_the_surplus_is_gone() {
        let reads = Reads::new();
        for lock in 1..=ENTRIES {
            assert!(!reads.add(lock));
        }
        assert!(reads.add(100));
        reads.remove(1);
        assert!(reads.add(101), "lock 100 is nowhere, and this might be it");
        reads.remove(100);
        reads.remove(101);
        for lock in 2..=ENTRIES {
            reads.remove(lock);
        }
        assert!(reads.is_empty());
    }

    #[test]
    fn locks_with_the_same_home_are_told_apart() {
        let reads = Reads::new();
        let [a, b, c] = [1, 2, 3].map(|turn| turn << 8);
        assert!(!reads.add(a) && !reads.add(b));
        reads.remove(a);
        assert!(reads.add(b), "b is not at home");
        assert!(!reads.add(c) && reads.add(c) && reads.add(b));
        for lock in [b, c, b, b, c] {
            reads.remove(lock);
        }
        assert!(reads.is_empty());
        assert_eq!(reads.displaced.get(), 0);
    }

    #[test]
    fn letting_go_what_another_thread_took_harms_no_entry() {
        let reads = Reads::new();
        assert!(!reads.add(8));
        reads.remove(16);
        assert!(reads.add(8));
        reads.remove(8);
        reads.remove(8);
        assert!(reads.is_empty());
    }
}
