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

/// The word, and behind it the number of the memory in which the thread lives whose id the word
/// has, or had last: see [`both`]. Every access of this program is to both, since accesses of two
/// sizes at once are undefined in Rust's memory model; the kernel sees the word alone.
#[cfg(not(loom))]
type Words = AtomicU64;
/// In the model there is one memory.
#[cfg(loom)]
type Words = AtomicU32;

/// The two words as a processor of little-endian order has them in one.
#[cfg(not(loom))]
fn both(word: u32, memory: u32) -> u64 {
    u64::from(memory) << 32 | u64::from(word)
}

/// The word and what it guards.
#[repr(C)]
pub(super) struct Entrance {
    words: Words,
    queue: UnsafeCell<Queue>,
}

// SAFETY: the queue is reached only by the thread whose id the word has.
unsafe impl Sync for Entrance {}

impl Entrance {
    pub(super) fn new() -> Entrance {
        Entrance { words: Words::new(0), queue: UnsafeCell::new(Queue::new()) }
    }

    /// Returns true if no thread has used the lock. Only the lock's tag says whether that is still
    /// so.
    pub(super) fn is_unused(&self) -> bool {
        self.words.load(Ordering::Relaxed) == 0
            && self.queue.with(|queue| {
                // SAFETY: the caller has seen no tag. If another thread claims and uses the lock
                // just now, these are loads of aligned words, and the answer does not matter.
                unsafe { core::ptr::read_volatile(queue).is_unused() }
            })
    }

    /// Returns true if no thread is behind it. Acquire pairs with the release of the last one.
    pub(super) fn is_free(&self) -> bool {
        self.words.load(Ordering::Acquire) as u32 == 0
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
        let entered = futex::lock_pi(&self.words, me, futex::Deadline::after_ns(0));
        assert!(entered.is_ok());
    }

    #[cfg(loom)]
    fn leave(&self, me: u32) {
        futex::unlock_pi(&self.words, me);
    }

    /// The word, for the kernel.
    #[cfg(not(loom))]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the lower half of the words, which is the first; it has their alignment.
        unsafe { &*core::ptr::from_ref(&self.words).cast::<AtomicU32>() }
    }

    #[cfg(not(loom))]
    fn enter(&self, me: u32, memory: u32) {
        let seen = self.words.load(Ordering::Relaxed);
        let known = (seen >> 32) as u32;
        if !self.take(both(0, known), me, memory) {
            self.enter_in_turn(me, memory);
        }
    }

    /// Takes the door if the words are still those that were seen.
    #[cfg(not(loom))]
    fn take(&self, seen: u64, me: u32, memory: u32) -> bool {
        // Acquire pairs with the release in `leave`.
        let (to, fails) = (both(me, memory), Ordering::Relaxed);
        self.words.compare_exchange(seen, to, Ordering::Acquire, fails).is_ok()
    }

    #[cfg(not(loom))]
    #[cold]
    fn enter_in_turn(&self, me: u32, memory: u32) {
        /// The kernel's call needs a deadline; a thread behind the door has left long before it.
        const LONG_NS: i64 = 1_000_000_000;
        /// Time between looks if the kernel has no such futexes, or they must not be used.
        const POLL_NS: i64 = 200_000;
        loop {
            let words = self.words.load(Ordering::Relaxed);
            let (seen, known) = (words as u32, (words >> 32) as u32);
            if seen == 0 || known != memory {
                match self.take(words, me, memory) {
                    true => return,
                    false => continue,
                }
            }
            match futex::lock_pi(self.word(), me, futex::Deadline::after_ns(LONG_NS)) {
                Ok(()) => {
                    // Acquire pairs with the release in `leave`; the kernel orders them anyway.
                    let _ = self.words.load(Ordering::Acquire);
                    return;
                }
                Err(futex::NotLent::TimedOut) => {}
                Err(futex::NotLent::Refused) => {
                    let until = futex::Deadline::after_ns(POLL_NS);
                    let _ = futex::wait(self.word(), seen, Some(until), true);
                }
            }
        }
    }

    #[cfg(not(loom))]
    fn leave(&self, me: u32) {
        // Release pairs with the acquire of the thread that enters next.
        let (from, to) = (Ordering::Release, Ordering::Relaxed);
        let memory = (self.words.load(Ordering::Relaxed) >> 32) as u32;
        let exchange = (both(me, memory), both(0, memory));
        if self.words.compare_exchange(exchange.0, exchange.1, from, to).is_err() {
            // Others wait at the door: the kernel gives it to the most urgent. Changes nothing.
            self.words.fetch_or(0, Ordering::Release);
            futex::unlock_pi(self.word(), me);
        }
    }
}
