//! Queue of the threads that wait for a read-write lock, and the choice of the next one.
//!
//! Only the thread behind the lock's door has the queue, so nothing here is atomic but the word
//! in which a writer sleeps. Readers are a number. Writers are a list through places on their own
//! stacks, the most urgent first, equals in the order in which they came: a thread leaves its
//! place only after it was taken from the list.

use crate::atomic::{AtomicU32, Ordering};
use crate::mutant::Mutant;
use core::cell::Cell;
use core::ptr;

/// A writer is inside.
pub(super) const WRITE: u32 = 1 << 31;
/// A thread may wait: look behind the door. With readers inside, a writer does wait.
pub(super) const WAITERS: u32 = 1 << 30;
/// The number of readers inside.
pub(super) const READERS: u32 = WAITERS - 1;

/// Waiters that are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admit {
    Nobody,
    /// All that wait.
    Readers,
    /// The first.
    Writer,
}

/// Number of threads that wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Threads that wait to read.
    pub readers: u32,
    /// Threads that wait to write.
    pub writers: u32,
}

/// A writer's place in the queue.
pub(super) struct Waiter {
    /// 1 when it is let in.
    word: AtomicU32,
    me: u32,
    urgency: u32,
    next: Cell<*const Waiter>,
}

impl Waiter {
    pub(super) fn new(me: u32, urgency: u32) -> Waiter {
        Waiter { word: AtomicU32::new(0), me, urgency, next: Cell::new(ptr::null()) }
    }

    /// Returns the word on which it sleeps while that is 0.
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Returns true if the lock is its own. Acquire pairs with the release of the thread that let
    /// it in.
    pub(super) fn is_let_in(&self) -> bool {
        self.word.load(Ordering::Acquire) != 0
    }
}

/// All who wait.
#[repr(C)]
pub(super) struct Queue {
    writers: *const Waiter,
    readers: u32,
    /// The memory of the threads that share all this.
    memory: u32,
}

// SAFETY: the pointers are to places of any thread's, used by one thread at a time.
unsafe impl Send for Queue {}

impl Queue {
    pub(super) const fn new() -> Queue {
        Queue { writers: ptr::null(), readers: 0, memory: 0 }
    }

    /// Forgets those who waited before a fork, in the child: their threads are not here.
    pub(super) fn belong_to(&mut self, memory: u32) {
        if self.memory != memory {
            *self = Queue { memory, ..Queue::new() };
        }
    }

    /// Returns true if it was never used.
    pub(super) fn is_unused(&self) -> bool {
        self.is_empty() && self.memory == 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writers.is_null() && self.readers == 0
    }

    pub(super) fn has_writers(&self) -> bool {
        !self.writers.is_null()
    }

    pub(super) fn waiting(&self) -> Waiting {
        let next = |place: &&Waiter| Self::at(place.next.get());
        let writers = core::iter::successors(Self::at(self.writers), next).count() as u32;
        Waiting { readers: self.readers, writers }
    }

    /// The state's bit for this queue.
    pub(super) fn flag(&self) -> u32 {
        if self.is_empty() { 0 } else { WAITERS }
    }

    pub(super) fn add_reader(&mut self) {
        self.readers += 1;
    }

    /// None is left when the process has forked since.
    pub(super) fn remove_reader(&mut self) {
        self.readers = self.readers.saturating_sub(1);
    }

    pub(super) fn forget_readers(&mut self) {
        self.readers = 0;
    }

    /// A place in the list, if there is one.
    fn at(place: *const Waiter) -> Option<&'static Waiter> {
        // SAFETY: a place in the list is alive, since its thread waits until it is taken from the
        // list, for which it would have to be behind the door. No reference outlives the visit.
        unsafe { place.as_ref() }
    }

    fn link(&mut self, after: Option<&Waiter>, place: *const Waiter) {
        match after {
            Some(after) => after.next.set(place),
            None => self.writers = place,
        }
    }

    /// Puts a writer behind all that are at least as urgent.
    pub(super) fn add_writer(&mut self, place: &Waiter) {
        let mut before = None;
        let mut here = self.writers;
        while let Some(other) = Self::at(here).filter(|other| other.urgency >= place.urgency) {
            before = Some(other);
            here = other.next.get();
        }
        place.next.set(here);
        self.link(before, place);
    }

    /// Takes a writer from anywhere in the list.
    pub(super) fn remove_writer(&mut self, place: &Waiter) {
        let mut before = None;
        let mut here = self.writers;
        while let Some(other) = Self::at(here) {
            if ptr::eq(other, place) {
                self.link(before, other.next.get());
                return;
            }
            before = Some(other);
            here = other.next.get();
        }
    }

    /// Takes the first writer from the list and lets it in, which is written down for others to
    /// read. Returns the word that it sleeps on, as a name: the place may be gone.
    pub(super) fn let_first_writer_in(&mut self, owner: &AtomicU32) -> Option<*const AtomicU32> {
        let first = Self::at(self.writers)?;
        self.writers = first.next.get();
        owner.store(first.me, Ordering::Relaxed);
        let word = &raw const first.word;
        // Release hands over all that the lock guards. (Loom orders a plain store with no step of
        // the sleeper's, so it is an exchange.)
        first.word.swap(1, Ordering::Release);
        Some(word)
    }

    /// The state when so many readers are inside, or a writer, or no thread; and the threads to let
    /// in, which the state counts already. Readers come first after a writer, and wherever the lock
    /// has the C library's order.
    ///
    /// A free lock keeps the bit that sends all behind the door, until one who comes there clears
    /// it: then the thread that released the lock has left the door.
    pub(super) fn next(&self, inside: u32, writing: bool, readers_first: bool) -> (u32, Admit) {
        if writing {
            return (WRITE | self.flag(), Admit::Nobody);
        }
        let more_writers = if self.has_writers() { WAITERS } else { 0 };
        if self.readers > 0 && (readers_first || !self.has_writers()) {
            return ((inside + self.readers) | more_writers, Admit::Readers);
        }
        if inside > 0 && self.has_writers() {
            return (inside | WAITERS, Admit::Nobody);
        }
        match Self::at(self.writers) {
            Some(first) => {
                let rest = !first.next.get().is_null() || self.readers > 0;
                (WRITE | if rest { WAITERS } else { 0 }, Admit::Writer)
            }
            None if inside > 0 => (inside, Admit::Nobody),
            None if Mutant::FreeBeforeDoorCloses.is_on() => (0, Admit::Nobody),
            None => (WAITERS, Admit::Nobody),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn order(queue: &mut Queue) -> Vec<u32> {
        let owner = AtomicU32::new(0);
        std::iter::from_fn(|| {
            queue.let_first_writer_in(&owner).map(|_| owner.load(Ordering::Relaxed))
        })
        .collect()
    }

    #[test]
    fn writers_stand_by_urgency_then_arrival() {
        let places = [(1, 0), (2, 50), (3, 0), (4, 50), (5, 99)].map(|(me, u)| Waiter::new(me, u));
        let mut queue = Queue::new();
        places.iter().for_each(|place| queue.add_writer(place));
        assert_eq!(order(&mut queue), [5, 2, 4, 1, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn writer_leaves_from_any_place() {
        for leaver in 0..3 {
            let places = [1, 2, 3].map(|me| Waiter::new(me, 0));
            let mut queue = Queue::new();
            places.iter().for_each(|place| queue.add_writer(place));
            queue.remove_writer(&places[leaver]);
            queue.remove_writer(&places[leaver]);
            let rest: Vec<u32> = (1..=3).filter(|me| *me != leaver as u32 + 1).collect();
            assert_eq!(order(&mut queue), rest);
        }
    }

    #[test]
    fn phases_take_turns() {
        let places = [1, 2].map(|me| Waiter::new(me, 0));
        let mut queue = Queue::new();
        places.iter().for_each(|place| queue.add_writer(place));
        queue.add_reader();
        queue.add_reader();
        // A writer leaves: both readers, the writers still wait.
        assert_eq!(queue.next(0, false, true), (2 | WAITERS, Admit::Readers));
        // Readers leave: the phase goes on until the last, then one writer.
        assert_eq!(queue.next(1, false, false), (1 | WAITERS, Admit::Nobody));
        assert_eq!(queue.next(0, false, false), (WRITE | WAITERS, Admit::Writer));
        // Only one writer waits.
        queue.forget_readers();
        queue.remove_writer(&places[0]);
        assert_eq!(queue.next(0, false, true), (WRITE, Admit::Writer));
        // The lock has the C library's order: readers do not wait for readers.
        queue.add_reader();
        assert_eq!(queue.next(3, false, true), (4 | WAITERS, Admit::Readers));
        assert_eq!(queue.next(0, true, true), (WRITE | WAITERS, Admit::Nobody));
        queue.forget_readers();
        // The last writer gave up: its readers join those inside.
        queue.remove_writer(&places[1]);
        queue.add_reader();
        assert_eq!(queue.next(3, false, false), (4, Admit::Readers));
        assert_eq!(queue.next(0, true, false), (WRITE | WAITERS, Admit::Nobody));
        queue.remove_reader();
        assert_eq!(queue.next(0, true, false), (WRITE, Admit::Nobody));
        assert_eq!(queue.next(0, false, true), (WAITERS, Admit::Nobody));
    }

    #[test]
    fn child_of_a_fork_forgets_who_waits() {
        let place = Waiter::new(1, 0);
        let mut queue = Queue::new();
        queue.belong_to(7);
        queue.add_writer(&place);
        queue.add_reader();
        queue.belong_to(7);
        assert!(!queue.is_empty());
        queue.belong_to(8);
        assert!(queue.is_empty() && !queue.is_unused());
    }
}
