//! Register of the readers of a process and their locks, for those who lend their priority.
//!
//! A lock only counts its readers. Where waiters are to lend them their priority, each reader has
//! an entry here, from before it tries to get in until after it has let the lock go; then it looks
//! whether it was lent something ([`Table::let_go`](crate::Table::let_go)). An entry is in one of
//! few places that the lock's address decides. A thread that finds none of them free reads without
//! one, and is lent nothing.
//!
//! An entry is one word with both the lock and the thread, so no thread takes one lock's reader for
//! another's. A thread that reads a lock twice has two. Beside the word it says that its thread
//! still waits, namely for the end of a phase of the lock: what has happened to that thread
//! since, its lock knows. That is a hint; the word alone decides which thread has to release which
//! one.
//!
//! Entries of threads that have ended are taken out by any thread that comes across them. All zero
//! is the empty register, which is what a forked child finds.
//!
//! Progress: each function does a bounded number of steps. Called by the lock itself.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::kernel;
use crate::mutant::Mutant;
use crate::table::Waiter;

const ENTRIES: usize = if cfg!(loom) { 4 } else { 1024 };

/// Number of places in which an entry for a lock may be.
const RUN: usize = if cfg!(loom) { 3 } else { 16 };

/// Locks are 56 bytes apart at least, so without these bits their addresses still differ.
const ALIKE_BITS: u32 = 5;

/// The kernel's thread ids have no more bits than these.
const THREAD_BITS: u32 = 22;

/// A reader.
struct Entry {
    /// The lock and the thread; 0 is a free entry.
    who: AtomicU64,
    /// The [mark](waiting_for) of the phase whose end the thread waits for; 0 when it does not.
    waits: AtomicU32,
}

/// The register.
#[repr(C)]
pub struct Readers {
    entries: [Entry; ENTRIES],
}

#[cfg(not(loom))]
impl Readers {
    /// An empty register.
    pub const fn new() -> Readers {
        Readers {
            entries: [const { Entry { who: AtomicU64::new(0), waits: AtomicU32::new(0) } };
                ENTRIES],
        }
    }
}

#[cfg(loom)]
impl Readers {
    /// An empty register.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Readers {
        let entry = |_| Entry { who: AtomicU64::new(0), waits: AtomicU32::new(0) };
        Readers { entries: core::array::from_fn(entry) }
    }
}

#[cfg(not(loom))]
impl Default for Readers {
    fn default() -> Readers {
        Readers::new()
    }
}

/// An entry's word. `None` for an address that is none of a program's, and for a thread id that
/// is none of the kernel's.
fn word(lock: usize, thread: u32) -> Option<u64> {
    let lock = lock as u64 >> ALIKE_BITS;
    let fits = lock != 0 && lock >> (64 - THREAD_BITS) == 0 && thread >> THREAD_BITS == 0;
    fits.then_some(lock << THREAD_BITS | u64::from(thread))
}

/// The thread in an entry's word, if it is a reader of this lock.
fn thread_of(word: u64, lock: usize) -> Option<u32> {
    let is_this = word >> THREAD_BITS == lock as u64 >> ALIKE_BITS;
    is_this.then_some(word as u32 & ((1 << THREAD_BITS) - 1))
}

/// Returns the mark of an entry whose thread waits for the end of a phase.
fn waiting_for(phase: u32) -> u32 {
    phase << 1 | 1
}

/// Readers who may be lent a priority, the least urgent first.
pub(super) struct Candidates {
    list: [(u32, u32); RUN],
    count: usize,
}

impl Candidates {
    /// Returns the number of candidates.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The one whose turn it is, if they take turns.
    pub(super) fn at(&self, turn: usize) -> u32 {
        self.list[turn % self.count].1
    }
}

impl Readers {
    /// The entries in which readers of a lock may be.
    fn run(&self, lock: usize) -> impl Iterator<Item = &Entry> {
        let mixed = (lock as u64 >> ALIKE_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let start = (mixed >> 32) as usize % ENTRIES;
        (start..start + RUN).map(|at| &self.entries[at % ENTRIES])
    }

    /// The entries with this word.
    fn with(&self, lock: usize, thread: u32) -> impl Iterator<Item = (&Entry, u64)> {
        let word = word(lock, thread).unwrap_or(u64::MAX);
        let is_it = move |entry: &&Entry| entry.who.load(Ordering::SeqCst) == word;
        self.run(lock).filter(is_it).map(move |entry| (entry, word))
    }

    /// Makes a thread known that is about to read a lock. Without a free entry it stays unknown.
    pub(super) fn enter(&self, lock: usize, me: u32) -> bool {
        let Some(word) = word(lock, me) else { return false };
        let take = |entry: &Entry| {
            let (to, otherwise) = (Ordering::SeqCst, Ordering::Relaxed);
            entry.who.load(Ordering::Relaxed) == 0
                && entry.who.compare_exchange(0, word, to, otherwise).is_ok()
        };
        self.run(lock).any(take)
    }

    /// Notes that a thread waits for the end of a phase before it reads. The caller looks at the
    /// table afterwards: a thread may have taken it for a reader.
    pub(super) fn wait(&self, lock: usize, me: u32, phase: u32) {
        if let Some((entry, _)) = self.with(lock, me).next() {
            entry.waits.store(waiting_for(phase), Ordering::SeqCst);
        }
    }

    /// Takes out an entry of a thread that does not read a lock any more, or once less. The caller
    /// looks at the table afterwards. False if there is none.
    pub(super) fn leave(&self, lock: usize, me: u32) -> bool {
        // A handler may come in between that reads, too, and take out what we have found.
        self.with(lock, me).any(|(entry, word)| entry.take_out(word))
    }

    /// Returns true if a thread reads a lock, in this phase of it, or will look at the table yet.
    pub(super) fn has(&self, lock: usize, thread: u32, phase: u32) -> bool {
        self.with(lock, thread).any(|(entry, _)| !entry.waits_in(phase))
    }

    /// The readers of a lock, in this phase of it, who are less urgent than a waiter.
    pub(super) fn less_urgent_than(&self, waiter: Waiter, lock: usize, phase: u32) -> Candidates {
        let mut found = Candidates { list: [(0, 0); RUN], count: 0 };
        for entry in self.run(lock) {
            let word = entry.who.load(Ordering::SeqCst);
            let Some(thread) = thread_of(word, lock) else { continue };
            let known = found.list[..found.count].iter().any(|(_, other)| *other == thread);
            if known || thread == waiter.thread || entry.waits_in(phase) {
                continue;
            }
            if !kernel::is_thread_of_this_process(thread) {
                entry.take_out(word);
                continue;
            }
            let urgency = kernel::urgency_of(thread);
            if urgency < waiter.urgency {
                found.list[found.count] = (urgency, thread);
                found.count += 1;
            }
        }
        found.list[..found.count].sort_unstable();
        found
    }
}

impl Entry {
    fn waits_in(&self, phase: u32) -> bool {
        self.waits.load(Ordering::SeqCst) == waiting_for(phase)
            && !Mutant::WaitingReaderLentTo.is_on()
    }

    /// Frees the entry if it still has this word.
    fn take_out(&self, word: u64) -> bool {
        // First, since the entry is another's after that.
        self.waits.store(0, Ordering::SeqCst);
        self.who.compare_exchange(word, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const LOCK: usize = 0x7fff_dead_bea0;
    /// An id that no thread has: the kernel's largest.
    const NOBODY: u32 = (1 << THREAD_BITS) - 1;

    fn me() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    fn is_empty(readers: &Readers) -> bool {
        let free = |entry: &Entry| {
            entry.who.load(Ordering::Relaxed) == 0 && entry.waits.load(Ordering::Relaxed) == 0
        };
        readers.entries.iter().all(free)
    }

    /// The threads that a waiter of this urgency would lend to.
    fn lent_to(readers: &Readers, lock: usize, thread: u32, urgency: u32) -> Vec<u32> {
        let found = readers.less_urgent_than(Waiter { thread, urgency }, lock, 0);
        (0..found.count()).map(|turn| found.at(turn)).collect()
    }

    #[test]
    fn reader_is_known_from_entering_until_leaving() {
        let readers = Readers::new();
        assert!(!readers.has(LOCK, me(), 0) && !readers.leave(LOCK, me()));
        assert!(readers.enter(LOCK, me()));
        assert!(readers.has(LOCK, me(), 0));
        assert!(!readers.has(LOCK, me() + 1, 0) && !readers.has(LOCK + 64, me(), 0));
        assert_eq!(lent_to(&readers, LOCK, NOBODY, 1), [me()]);
        assert!(lent_to(&readers, LOCK, NOBODY, 0).is_empty(), "it is as urgent");
        assert!(lent_to(&readers, LOCK, me(), 1).is_empty(), "it would lend to itself");
        assert!(readers.leave(LOCK, me()) && is_empty(&readers));
    }

    #[test]
    fn nested_reader_is_one_reader_until_it_has_left_as_often() {
        let readers = Readers::new();
        assert!(readers.enter(LOCK, me()) && readers.enter(LOCK, me()));
        assert_eq!(lent_to(&readers, LOCK, NOBODY, 1), [me()]);
        assert!(readers.leave(LOCK, me()));
        assert!(readers.has(LOCK, me(), 0));
        assert!(readers.leave(LOCK, me()) && is_empty(&readers));
    }

    #[test]
    fn full_run_leaves_readers_unknown_and_others_alone() {
        let readers = Readers::new();
        // A run is full when one thread reads so often.
        assert!((0..RUN).all(|_| readers.enter(LOCK, me())));
        assert!(!readers.enter(LOCK, NOBODY) && !readers.has(LOCK, NOBODY, 0));
        assert!(!readers.leave(LOCK, NOBODY));
        assert!(readers.leave(LOCK, me()));
        assert!(readers.enter(LOCK, NOBODY) && readers.leave(LOCK, NOBODY));
        assert!((1..RUN).all(|_| readers.leave(LOCK, me())));
        assert!(is_empty(&readers));
    }

    #[test]
    fn two_locks_in_one_run_are_told_apart() {
        let readers = Readers::new();
        let start = |lock| std::ptr::from_ref(readers.run(lock).next().unwrap());
        let other = (1..).map(|turn| LOCK - turn * 64).find(|lock| start(*lock) == start(LOCK));
        let (other, first) = (other.unwrap(), std::process::id());
        assert!(readers.enter(LOCK, me()) && readers.enter(other, first));
        assert!(!readers.has(other, me(), 0) && !readers.has(LOCK, first, 0));
        assert!(!readers.leave(other, me()));
        assert_eq!(lent_to(&readers, LOCK, NOBODY, 1), [me()]);
        assert_eq!(lent_to(&readers, other, NOBODY, 1), [first]);
        assert!(readers.leave(LOCK, me()) && readers.leave(other, first) && is_empty(&readers));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not say that a thread has ended")]
    fn threads_that_have_ended_are_taken_out() {
        let readers = Readers::new();
        let ended = std::thread::scope(|scope| scope.spawn(me).join().unwrap());
        assert!(readers.enter(LOCK, ended) && readers.enter(LOCK, me()));
        readers.wait(LOCK, ended, 7);
        // Joined, it may still be about to end.
        while kernel::is_thread_of_this_process(ended) {
            std::thread::yield_now();
        }
        assert_eq!(lent_to(&readers, LOCK, NOBODY, 1), [me()]);
        assert!(!readers.has(LOCK, ended, 0));
        assert!(readers.leave(LOCK, me()) && is_empty(&readers));
    }

    #[test]
    fn thread_that_waits_is_no_reader_until_its_phase_has_ended() {
        let readers = Readers::new();
        assert!(readers.enter(LOCK, me()));
        readers.wait(LOCK, me(), 0);
        assert!(!readers.has(LOCK, me(), 0) && lent_to(&readers, LOCK, NOBODY, 1).is_empty());
        assert!(readers.has(LOCK, me(), 1));
        assert!(readers.leave(LOCK, me()) && is_empty(&readers));
    }

    #[test]
    fn addresses_and_ids_that_have_no_room_are_unknown() {
        let readers = Readers::new();
        assert!(readers.enter((1 << 47) - 64, NOBODY));
        assert!(readers.leave((1 << 47) - 64, NOBODY));
        for (lock, thread) in [(1 << 47, 1), (LOCK, NOBODY + 1), (0, 1)] {
            assert!(!readers.enter(lock, thread) && !readers.leave(lock, thread));
            assert!(!readers.has(lock, thread, 0));
        }
        assert!(is_empty(&readers));
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes in Miri")]
    fn threads_of_many_locks_find_what_they_left() {
        let readers = Readers::new();
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let (readers, barrier) = (&readers, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for turn in 0..20_000 {
                        let lock = LOCK - turn % 7 * 64;
                        let known = readers.enter(lock, number);
                        assert!(known && readers.has(lock, number, 0));
                        assert!(readers.leave(lock, number) && !readers.has(lock, number, 0));
                    }
                });
            }
        });
        assert!(is_empty(&readers));
    }
}
