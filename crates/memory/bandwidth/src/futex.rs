//! Sleeping on a word, and waking all that sleep there, without touching `errno`.
//!
//! Waking one, as [`shm::futex`] does, would let any process that has the word sleep there and take
//! the wake-up of the regulator.

#[cfg(loom)]
pub(crate) use model::{wait, wake_all};
#[cfg(not(loom))]
pub(crate) use real::{wait, wake_all};

#[cfg(not(loom))]
mod real {
    use crate::atomic::AtomicU32;
    use std::time::Duration;

    /// Sleeps while `word` equals `expected`, at most `timeout`; may return early for no reason.
    /// Returns false when the time ran out.
    pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> bool {
        shm::futex::wait(word, expected, timeout)
    }

    /// Wakes all sleepers on `word`, of all processes.
    pub(crate) fn wake_all(word: &AtomicU32) {
        use rustix::thread::futex;
        // The only error is a word that is not mapped, which a reference rules out.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}

/// The kernel's promise as a model: looking at the word and going to sleep is one step.
#[cfg(loom)]
mod model {
    use crate::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    #[derive(Default)]
    struct Sleepers {
        next: u64,
        /// The word and the number of each.
        list: Vec<(usize, u64)>,
    }

    loom::lazy_static! {
        static ref QUEUE: (Mutex<Sleepers>, Condvar) =
            (Mutex::new(Sleepers::default()), Condvar::new());
    }

    fn address(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) -> bool {
        let mut sleepers = QUEUE.0.lock().unwrap();
        // The value that the word has: a load may give loom's threads an older one.
        if word.fetch_add(0, Ordering::SeqCst) != expected {
            return true;
        }
        sleepers.next += 1;
        let own = (address(word), sleepers.next);
        sleepers.list.push(own);
        while sleepers.list.contains(&own) {
            sleepers = QUEUE.1.wait(sleepers).unwrap();
        }
        true
    }

    pub(crate) fn wake_all(word: &AtomicU32) {
        let mut sleepers = QUEUE.0.lock().unwrap();
        sleepers.list.retain(|(at, _)| *at != address(word));
        QUEUE.1.notify_all();
    }
}
