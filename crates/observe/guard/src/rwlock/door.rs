//! The door of a read-write lock: what makes one thread at a time work on the queue.
//!
//! A futex that lends priority: the word has the id of the thread behind the door, as the kernel
//! knows it, and the kernel lets that thread run with the urgency of those who wait at it. With
//! signals blocked a thread behind the door runs a bounded number of steps and never waits. Beside
//! the word stands the memory in which that thread lives, written in one step with it: in the child
//! of a fork, which has a copy of the memory, the word may have the id of a thread that stayed
//! behind; then the door is taken from it. Processes that share memory are no such children.

#[cfg(loom)]
use loom::cell::UnsafeCell;

use super::queue::Queue;
#[cfg(not(loom))]
use crate::atomic::AtomicU64;
use crate::atomic::{AtomicU32, Ordering};
use crate::futex;
use crate::kernel;

/// Loom's cell, for real.
#[cfg(not(loom))]
#[repr(transparent)]
struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    fn with<R>(&self, act: impl FnOnce(*const T) -> R) -> R {
        act(self.0.get())
    }

    fn with_mut<R>(&self, act: impl FnOnce(*mut T) -> R) -> R {
        act(self.0.get())
    }
}

/// The word and what it guards.
#[repr(C)]
pub(super) struct Entrance {
    word: AtomicU32,
    /// The memory in which the thread lives whose id the word has, or had last.
    memory: AtomicU32,
    queue: UnsafeCell<Queue>,
}

// SAFETY: the queue is reached only by the thread whose id the word has.
unsafe impl Sync for Entrance {}

impl Entrance {
    pub(super) fn new() -> Entrance {
        Entrance {
            word: AtomicU32::new(0),
            memory: AtomicU32::new(0),
            queue: UnsafeCell::new(Queue::new()),
        }
    }

    /// Returns true if no thread has used the lock. Only the lock's tag says whether that is still
    /// so.
    pub(super) fn is_unused(&self) -> bool {
        let words = [&self.word, &self.memory];
        words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
            && self.queue.with(|queue| {
                // SAFETY: the caller has seen no tag. If another thread claims and uses the lock
                // just now, these are loads of aligned words, and the answer does not matter.
                unsafe { core::ptr::read_volatile(queue).is_unused() }
            })
    }

    /// Returns true if no thread is behind it. Acquire pairs with the release of the last one.
    pub(super) fn is_free(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    /// Works on the queue. The calling thread has blocked its signals, and must not wait.
    pub(super) fn with<T>(&self, me: u32, act: impl FnOnce(&mut Queue) -> T) -> T {
        let (me, memory) = (kernel::own_id(me), kernel::memory());
        self.enter(me, memory);
        let result = self.queue.with_mut(|queue| {
            // SAFETY: the word has our id until `leave`, and no other thread takes it.
            let queue = unsafe { &mut *queue };
            queue.belong_to(memory);
            act(queue)
        });
        self.leave(me);
        result
    }

    /// Enters as the kernel does it, which in the model is one step each.
    #[cfg(loom)]
    fn enter(&self, me: u32, _memory: u32) {
        let entered = futex::lock_pi(&self.word, me, futex::Deadline::after_ns(0));
        assert!(entered.is_ok());
    }

    #[cfg(loom)]
    fn leave(&self, me: u32) {
        futex::unlock_pi(&self.word, me);
    }

    #[cfg(not(loom))]
    fn enter(&self, me: u32, memory: u32) {
        let known = self.memory.load(Ordering::Relaxed);
        if !self.take(0, known, me, memory) {
            self.enter_in_turn(me, memory);
        }
    }

    /// Takes the door if word and memory are still those that were seen.
    #[cfg(not(loom))]
    fn take(&self, seen: u32, seen_memory: u32, me: u32, memory: u32) -> bool {
        let both = |word: u32, memory: u32| u64::from(memory) << 32 | u64::from(word);
        // SAFETY: the two words are neighbours, at the beginning of a structure that is aligned to
        // eight bytes. This processor changes both in one step, also for those who look at one.
        let words = unsafe { &*core::ptr::from_ref(self).cast::<AtomicU64>() };
        let (from, to) = (both(seen, seen_memory), both(me, memory));
        // Acquire pairs with the release in `leave`.
        words.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cfg(not(loom))]
    #[cold]
    fn enter_in_turn(&self, me: u32, memory: u32) {
        /// The kernel's call needs a deadline; a thread behind the door has left long before it.
        const LONG_NS: i64 = 1_000_000_000;
        /// Time between looks if the kernel has no such futexes, or they must not be used.
        const POLL_NS: i64 = 200_000;
        loop {
            let known = self.memory.load(Ordering::Relaxed);
            let seen = self.word.load(Ordering::Relaxed);
            if seen == 0 || known != memory {
                match self.take(seen, known, me, memory) {
                    true => return,
                    false => continue,
                }
            }
            match futex::lock_pi(&self.word, me, futex::Deadline::after_ns(LONG_NS)) {
                Ok(()) => {
                    // Acquire pairs with the release in `leave`; the kernel orders them anyway.
                    let _ = self.word.load(Ordering::Acquire);
                    return;
                }
                Err(futex::NotLent::TimedOut) => {}
                Err(futex::NotLent::Refused) => {
                    let until = futex::Deadline::after_ns(POLL_NS);
                    let _ = futex::wait(&self.word, seen, Some(until), true);
                }
            }
        }
    }

    #[cfg(not(loom))]
    fn leave(&self, me: u32) {
        // Release pairs with the acquire of the thread that enters next.
        let (from, to) = (Ordering::Release, Ordering::Relaxed);
        if self.word.compare_exchange(me, 0, from, to).is_err() {
            // Others wait at the door: the kernel gives it to the most urgent. Changes nothing.
            self.word.fetch_or(0, Ordering::Release);
            futex::unlock_pi(&self.word, me);
        }
    }
}
