//! Waiting on a word of shared memory.
//!
//! A futex is the word itself: [`wait`] sleeps while the word still has the value the caller saw,
//! [`wake`] wakes sleepers. A wake before the sleep is not lost, because the value has changed
//! by then and the kernel checks it under its own lock. Futexes here are not private, since the
//! sleeper and the waker are different processes.

use crate::atomic::AtomicU32;
#[cfg(not(loom))]
pub use real::{wait, wake};

#[cfg(not(loom))]
mod real {
    use super::AtomicU32;
    use rustix::thread::futex;
    use std::time::Duration;

    /// Sleeps while `word` equals `expected`, at most `timeout`; may return early for no reason.
    /// Returns false when the time ran out.
    pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> bool {
        let timespec = timeout.map(|t| futex::Timespec {
            tv_sec: t.as_secs() as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let result = futex::wait(word, futex::Flags::empty(), expected, timespec.as_ref());
        !matches!(result, Err(rustix::io::Errno::TIMEDOUT))
    }

    /// Wakes one sleeper on `word`.
    pub fn wake(word: &AtomicU32) {
        // The only error is a word that is not mapped, which a reference rules out.
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }
}

/// The kernel's promise as a model: checking the value and going to sleep is one step.
///
/// One lock for all words, as coarse as loom needs it: the model tests have one word each.
#[cfg(loom)]
pub(crate) use model::{wait, wake};

#[cfg(loom)]
mod model {
    use super::AtomicU32;
    use crate::atomic::Ordering;
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) -> bool {
        let guard = QUEUE.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(QUEUE.1.wait(guard).unwrap());
        }
        true
    }

    pub(crate) fn wake(_word: &AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_one();
    }
}
