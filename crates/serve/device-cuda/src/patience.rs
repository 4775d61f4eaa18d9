//! Time for which a unit waits for a slice.
//!
//! A slice that takes far longer than its launch declared never ends. But one that merely waits
//! for the GPU behind such a slice is not to blame: so only the one that began first is judged,
//! and from the moment on at which it was the first.

use realtime::clock::monotonic_ns;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A request that takes this multiple of its declared time counts as endless.
const FACTOR: u32 = 10;
/// Shortest time after which a request counts as endless.
const LEAST: Duration = Duration::from_millis(500);
/// The time that is no time.
const IDLE: u64 = u64::MAX;
/// Longest time between two checks of a waiting unit that it is to wait on.
const STEP: Duration = Duration::from_millis(20);

/// Start times of the slices that run on a GPU.
#[derive(Default)]
pub(crate) struct Running(Mutex<Vec<Arc<AtomicU64>>>);

/// Start time of the slice of one unit.
#[derive(Default)]
pub(crate) struct Began(Arc<AtomicU64>);

impl Running {
    /// The place of one more unit.
    pub(crate) fn join(&self) -> Began {
        let began = Arc::new(AtomicU64::new(IDLE));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(began.clone());
        Began(began)
    }

    /// Returns true if no slice runs that began earlier.
    fn is_first(&self, began: &Began) -> bool {
        let began_ns = |time: &Arc<AtomicU64>| time.load(Ordering::Relaxed);
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().all(|other| began_ns(other) >= began_ns(&began.0))
    }
}

impl Began {
    /// A slice begins.
    pub(crate) fn begin(&self) {
        self.0.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// Ends the slice.
    pub(crate) fn end(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// Decides whether a unit waits on for its slice.
pub(crate) struct Patience<'a> {
    running: &'a Running,
    began: &'a Began,
    /// None: for as long as it takes.
    limit: Option<Duration>,
    /// Time since which it has been the first.
    first: Option<Instant>,
}

impl<'a> Patience<'a> {
    /// Patience for a slice, which has begun now, of a launch with this budget.
    pub(crate) fn new(
        running: &'a Running,
        began: &'a Began,
        budget_ns: Option<u64>,
    ) -> Patience<'a> {
        let limit =
            budget_ns.map(|budget| Duration::from_nanos(budget).saturating_mul(FACTOR).max(LEAST));
        let first = (limit.is_some() && running.is_first(began)).then(Instant::now);
        Patience { running, began, limit, first }
    }

    /// Returns the time to wait before the next look.
    pub(crate) fn step(&self) -> Duration {
        let left =
            self.limit.zip(self.first).map(|(limit, first)| limit - first.elapsed().min(limit));
        // A little more, so that the next look finds that it is over.
        left.map_or(STEP, |left| STEP.min(left + Duration::from_micros(100)))
    }

    /// Looks whether it counts as endless.
    pub(crate) fn is_over(&mut self) -> bool {
        match (self.limit, self.first) {
            (Some(limit), Some(first)) => first.elapsed() > limit,
            (Some(_), None) if self.running.is_first(self.began) => {
                self.first = Some(Instant::now());
                false
            }
            _ => false,
        }
    }
}
