//! The door of a read-write lock: what makes one thread at a time work on the queue.
//!
//! A futex that lends priority: the word has the id of the thread behind the door, and the kernel
//! lets that thread run with the urgency of those who wait at it. With signals blocked a thread
//! behind the door runs a bounded number of steps and never waits. In the child of a fork the
//! word may have the id of a thread that stayed behind; then the door is taken from it.

#[cfg(loom)]
use loom::cell::UnsafeCell;

use super::queue::Queue;
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
pub(super) struct Door {
    word: AtomicU32,
    pad: AtomicU32,
    queue: UnsafeCell<Queue>,
}

// SAFETY: the queue is reached only by the thread whose id the word has.
unsafe impl Sync for Door {}

impl Door {
    pub(super) fn new() -> Door {
        Door {
            word: AtomicU32::new(0),
            pad: AtomicU32::new(0),
            queue: UnsafeCell::new(Queue::new()),
        }
    }

    /// Whether nobody has used the lock. Only the lock's tag says whether that is still so.
    pub(super) fn is_unused(&self) -> bool {
        let words = [&self.word, &self.pad];
        words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
            && self.queue.with(|queue| {
                // SAFETY: the caller has seen no tag. If another thread claims and uses the lock
                // just now, these are loads of aligned words, and the answer does not matter.
                unsafe { core::ptr::read_volatile(queue).is_unused() }
            })
    }

    /// Whether nobody is behind it. Acquire pairs with the release of whoever was.
    pub(super) fn is_free(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    /// Works on the queue. The calling thread has blocked its signals, and must not wait.
    pub(super) fn with<T>(&self, me: u32, act: impl FnOnce(&mut Queue) -> T) -> T {
        self.enter(me);
        let process = kernel::process();
        let result = self.queue.with_mut(|queue| {
            // SAFETY: the word has our id until `leave`, and nobody else takes it.
            let queue = unsafe { &mut *queue };
            queue.belong_to(process);
            act(queue)
        });
        self.leave(me);
        result
    }

    /// In the model the kernel does all of it, in one step each.
    #[cfg(loom)]
    fn enter(&self, me: u32) {
        let entered = futex::lock_pi(&self.word, me, futex::Deadline::after_ns(0));
        assert!(entered.is_ok());
    }

    #[cfg(loom)]
    fn leave(&self, me: u32) {
        futex::unlock_pi(&self.word, me);
    }

    #[cfg(not(loom))]
    fn enter(&self, me: u32) {
        let (from, to) = (Ordering::Acquire, Ordering::Relaxed);
        if self.word.compare_exchange(0, me, from, to).is_err() {
            self.enter_in_turn(me);
        }
    }

    #[cfg(not(loom))]
    #[cold]
    fn enter_in_turn(&self, me: u32) {
        /// A deadline is needed; whoever is behind the door is long gone by then.
        const LONG_NS: i64 = 1_000_000_000;
        /// Where the kernel has no such futexes.
        const POLL_NS: i64 = 200_000;
        const ID: u32 = 0x3fff_ffff;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let (from, to) = (Ordering::Acquire, Ordering::Relaxed);
            if seen == 0 || !kernel::is_thread_of_this_process(seen & ID) {
                match self.word.compare_exchange(seen, me, from, to) {
                    Ok(_) => return,
                    Err(_) => continue,
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
        // Release pairs with the acquire of whoever enters next.
        let (from, to) = (Ordering::Release, Ordering::Relaxed);
        if self.word.compare_exchange(me, 0, from, to).is_err() {
            // Others wait at the door: the kernel gives it to the most urgent. Changes nothing.
            self.word.fetch_or(0, Ordering::Release);
            futex::unlock_pi(&self.word, me);
        }
    }
}
