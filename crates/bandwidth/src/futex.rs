//! Sleeping on the bell, and waking all that sleep there, without touching `errno`.
//!
//! Not [`shm::futex`], which wakes one sleeper: here each best-effort core has one.

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

/// The kernel's promise as a model: looking at the word and going to sleep is one step. The model
/// has one word.
#[cfg(loom)]
mod model {
    use crate::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) -> bool {
        let guard = QUEUE.0.lock().unwrap();
        // The value that the word has: a load may give loom's threads an older one.
        if word.fetch_add(0, Ordering::SeqCst) == expected {
            drop(QUEUE.1.wait(guard).unwrap());
        }
        true
    }

    pub(crate) fn wake_all(_word: &AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }
}
