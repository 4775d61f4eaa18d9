//! How long a unit waits for a slice.
//!
//! A slice that takes far longer than its launch declared never ends. But one that merely waits
//! for the GPU behind such a slice is not to blame: so only the one that began first is judged,
//! and from the moment on at which it was the first.

use crate::context::Context;
use cudarc::driver::{DriverError, sys};
use realtime::clock::monotonic_ns;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// It has run far longer than it may.
pub const ENDLESS: sys::CUresult = sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT;
/// The context broke, by other work.
pub const LOST: sys::CUresult = sys::CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;

/// The time that is no time.
const IDLE: u64 = u64::MAX;
/// How often a waiting unit looks whether to wait on.
const STEP: Duration = Duration::from_millis(20);

/// When the slices that run in a context began.
#[derive(Default)]
pub struct Running(Mutex<Vec<Arc<AtomicU64>>>);

/// When the slice of one unit began. It is there for as long as the unit's other things.
pub struct Began(Arc<AtomicU64>);

impl Running {
    /// The place of one more unit.
    pub fn join(&self) -> Began {
        let began = Arc::new(AtomicU64::new(IDLE));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(began.clone());
        Began(began)
    }

    /// Whether no slice runs that began earlier.
    fn is_first(&self, began: &Began) -> bool {
        let of = |time: &Arc<AtomicU64>| time.load(Ordering::Relaxed);
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().all(|other| of(other) >= of(&began.0))
    }
}

impl Began {
    /// A slice begins.
    pub fn begin(&self) {
        self.0.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// It has ended.
    pub fn end(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// Decides whether a unit waits on for its slice.
pub struct Patience<'a> {
    context: &'a Context,
    began: &'a Began,
    /// None: for as long as it takes.
    limit: Option<Duration>,
    /// Since when it has been the first.
    first: Option<Instant>,
    looked: Instant,
}

impl<'a> Patience<'a> {
    /// For a slice that has begun now.
    pub fn new(context: &'a Context, began: &'a Began, limit: Option<Duration>) -> Patience<'a> {
        let now = Instant::now();
        let first = context.running.is_first(began).then_some(now);
        Patience { context, began, limit, first, looked: now }
    }

    /// How long to wait before the next look.
    pub fn step(&self) -> Duration {
        let left =
            self.limit.zip(self.first).map(|(limit, first)| limit - first.elapsed().min(limit));
        // A little more, so that the next look finds that it is over.
        left.map_or(STEP, |left| STEP.min(left + Duration::from_micros(100)))
    }

    /// Looks.
    ///
    /// # Errors
    /// [`LOST`] or [`ENDLESS`]: nothing that it uses may be used or freed any more.
    pub fn look(&mut self) -> Result<(), DriverError> {
        if self.context.is_broken() {
            return Err(DriverError(LOST));
        }
        let now = Instant::now();
        self.looked = now;
        match (self.limit, self.first) {
            (Some(limit), Some(first)) if now - first > limit => Err(DriverError(ENDLESS)),
            (Some(_), None) if self.context.running.is_first(self.began) => {
                self.first = Some(now);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Looks when the time for it has come, for a unit that does not sleep.
    ///
    /// # Errors
    /// As [`Patience::look`].
    pub fn glance(&mut self) -> Result<(), DriverError> {
        let soon = Duration::from_millis(1);
        if self.looked.elapsed() < soon { Ok(()) } else { self.look() }
    }
}
