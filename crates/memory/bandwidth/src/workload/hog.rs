//! A thread that burns memory bandwidth on one core, and can be paused.

use super::array::{Access, Array, LINE_BYTES};
use super::{Error, Size};
use realtime::thread::{self, Scheduling};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

/// Lines between two looks at what it should do: some 50 us of memory traffic.
const PIECE: usize = 4096;

const PAUSE: u32 = 0;
const RUN: u32 = 1;
const END: u32 = 2;

/// A hog. It is paused when it starts, and ends with this value.
#[derive(Debug)]
pub struct Hog {
    shared: Arc<Shared>,
    core: usize,
    array_bytes: usize,
    thread_id: u32,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Work that it should do.
    order: AtomicU32,
    /// True while it does nothing.
    resting: Mutex<bool>,
    changed: Condvar,
    /// Touched since the start; written by the hog alone.
    lines: AtomicU64,
}

impl Hog {
    /// Starts a thread with the ordinary policy that stays on a core, and waits until its array is
    /// there.
    ///
    /// # Errors
    /// [`Error`]: the core or the memory cannot be had, or the size is not known.
    pub fn start(core: usize, access: Access, size: Size) -> Result<Hog, Error> {
        let array_bytes = size.bytes(core)?;
        let shared = Arc::new(Shared::default());
        let (tell, told) = mpsc::channel();
        let own = shared.clone();
        let thread = std::thread::Builder::new().name(format!("hog-{core}")).spawn(move || {
            match prepare(core, array_bytes, access) {
                Ok(array) => {
                    // The other side waits for it.
                    let _ = tell.send(Ok(thread::id()));
                    own.work(array, access);
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        })?;
        let died = || Error::Thread(std::io::Error::other("the thread ended during its start"));
        let thread_id = told.recv().map_err(|_| died())??;
        Ok(Hog { shared, core, array_bytes, thread_id, thread: Some(thread) })
    }

    /// Lets it go on.
    pub fn resume(&self) {
        drop(self.order(RUN));
    }

    /// Stops it, and waits until it touches nothing any more.
    pub fn pause(&self) {
        let mut resting = self.order(PAUSE);
        while !*resting {
            resting = self.shared.changed.wait(resting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Bytes of the lines that it has touched since it was started.
    pub fn bytes(&self) -> u64 {
        // Relaxed: a number for people.
        self.shared.lines.load(Ordering::Relaxed) * LINE_BYTES as u64
    }

    /// The core that it runs on.
    pub fn core(&self) -> usize {
        self.core
    }

    /// Size of its array.
    pub fn array_bytes(&self) -> usize {
        self.array_bytes
    }

    /// The kernel's number of its thread.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    fn order(&self, order: u32) -> MutexGuard<'_, bool> {
        let resting = self.shared.resting();
        // Under the lock, so that a thread that is about to sleep hears of it. Relaxed: it says
        // nothing of other memory.
        self.shared.order.store(order, Ordering::Relaxed);
        self.shared.changed.notify_all();
        resting
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        drop(self.order(END));
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn resting(&self) -> MutexGuard<'_, bool> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut array: Array, access: Access) {
        loop {
            match self.order.load(Ordering::Relaxed) {
                RUN => {
                    array.touch(access, PIECE);
                    let lines = self.lines.load(Ordering::Relaxed) + PIECE as u64;
                    self.lines.store(lines, Ordering::Relaxed);
                }
                PAUSE => self.rest(),
                _ => return,
            }
        }
    }

    fn rest(&self) {
        let mut resting = self.resting();
        *resting = true;
        self.changed.notify_all();
        while self.order.load(Ordering::Relaxed) == PAUSE {
            resting = self.changed.wait(resting).unwrap_or_else(PoisonError::into_inner);
        }
        *resting = false;
    }
}

fn prepare(core: usize, bytes: usize, access: Access) -> Result<Array, Error> {
    thread::set_policy(Scheduling::Normal)?;
    thread::pin(&[core])?;
    // On its core, so that the memory is near it.
    Array::new(bytes, access)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hog() -> Hog {
        let core = thread::cores()[0];
        Hog::start(core, Access::Write, Size::Bytes(1 << 16)).unwrap()
    }

    #[test]
    fn hog_counts_what_it_touches_only_while_it_may() {
        let hog = hog();
        assert_eq!(hog.bytes(), 0);
        for _ in 0..3 {
            let before = hog.bytes();
            hog.resume();
            while hog.bytes() < before + 10_000_000 {
                std::thread::yield_now();
            }
            hog.pause();
            let after = hog.bytes();
            (0..1000).for_each(|_| std::thread::yield_now());
            assert_eq!(hog.bytes(), after);
        }
    }

    #[test]
    fn hog_that_runs_ends_with_its_value() {
        let hog = hog();
        hog.resume();
        let shared = Arc::downgrade(&hog.shared);
        drop(hog);
        assert_eq!(shared.strong_count(), 0);
    }

    #[test]
    fn core_that_is_not_there_is_an_error() {
        let refused = Hog::start(4095, Access::Read, Size::Bytes(4096));
        assert!(matches!(refused, Err(Error::Core(_))), "{refused:?}");
    }
}
