//! Releases at fixed points of the monotonic clock.
//!
//! The n-th release is at `first + n * period`, whatever the ones before it cost: nothing drifts.
//! A timer that was not served for more than a period is served once for all of its releases that
//! are due, as in ROS 2; the callback gets the oldest of them, and the others count as missed. One
//! that catches up is served for each of them, one after the other.

use crate::callback::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A release of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its number, from 0.
    pub number: u64,
    /// Time at which it was due, by the monotonic clock.
    pub due_ns: u64,
    /// Number of later releases that were due as well and are left out.
    pub missed: u64,
}

/// Release times of a timer: by the monotonic clock, or after the executor's start, if that was
/// [set](crate::Executor::start_at).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first release.
    pub first_ns: u64,
    /// Time from one release to the next; at least 1.
    pub period_ns: u64,
    /// Time before which there are releases.
    pub until_ns: u64,
    /// True if a late timer serves each release that is due; false if it leaves out all but one.
    pub catches_up: bool,
}

impl Period {
    /// Releases without an end.
    pub fn new(first_ns: u64, period_ns: u64) -> Period {
        Period { first_ns, period_ns, until_ns: u64::MAX, catches_up: false }
    }
}

/// The releases of one timer callback.
///
/// Changed only by the thread that chooses, one at a time; the atomics make it sharable.
#[derive(Debug)]
pub(crate) struct Timer {
    period: Period,
    /// The executor's start, from which the times of the period count.
    start_ns: Arc<AtomicU64>,
    next: AtomicU64,
    missed: AtomicU64,
}

impl Timer {
    pub(crate) fn new(period: Period, start_ns: Arc<AtomicU64>) -> Timer {
        let period = Period { period_ns: period.period_ns.max(1), ..period };
        Timer { period, start_ns, next: AtomicU64::new(0), missed: AtomicU64::new(0) }
    }

    /// The release to serve now, if one is due.
    pub(crate) fn release(&self, now_ns: u64) -> Option<Release> {
        let number = self.next.load(Ordering::Relaxed);
        let due_ns = self.nominal_ns(number);
        let late_ns = now_ns.min(self.until_ns().saturating_sub(1)).checked_sub(due_ns)?;
        let missed = if self.period.catches_up { 0 } else { late_ns / self.period.period_ns };
        self.next.store(number + 1 + missed, Ordering::Relaxed);
        self.missed.fetch_add(missed, Ordering::Relaxed);
        Some(Release { number, due_ns, missed })
    }

    fn nominal_ns(&self, number: u64) -> u64 {
        let Period { first_ns, period_ns, .. } = self.period;
        self.start_ns().saturating_add(first_ns).saturating_add(number.saturating_mul(period_ns))
    }

    fn until_ns(&self) -> u64 {
        self.start_ns().saturating_add(self.period.until_ns)
    }

    fn start_ns(&self) -> u64 {
        // Relaxed: set before the threads of the executor begin.
        self.start_ns.load(Ordering::Relaxed)
    }
}

impl Signal for Timer {
    fn ready(&self, now_ns: u64) -> bool {
        self.due_ns() <= now_ns
    }

    fn due_ns(&self) -> u64 {
        let due_ns = self.nominal_ns(self.next.load(Ordering::Relaxed));
        if due_ns < self.until_ns() { due_ns } else { u64::MAX }
    }

    fn dropped(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(period: Period) -> Timer {
        Timer::new(period, Arc::default())
    }

    #[test]
    fn releases_are_multiples_of_the_period_however_late_they_are_served() {
        let timer = timer(Period::new(1_000, 100));
        assert_eq!(timer.release(999), None);
        assert_eq!(timer.release(1_099), Some(Release { number: 0, due_ns: 1_000, missed: 0 }));
        assert_eq!(timer.release(1_099), None);
        assert_eq!(timer.release(1_100), Some(Release { number: 1, due_ns: 1_100, missed: 0 }));
        assert_eq!(timer.due_ns(), 1_200);
        assert!(!timer.ready(1_199) && timer.ready(1_200));
    }

    #[test]
    fn late_timer_is_served_once_and_counts_what_it_missed() {
        let timer = timer(Period::new(0, 100));
        assert_eq!(timer.release(350), Some(Release { number: 0, due_ns: 0, missed: 3 }));
        assert_eq!((timer.release(399), timer.due_ns(), timer.dropped()), (None, 400, 3));
        assert_eq!(timer.release(400), Some(Release { number: 4, due_ns: 400, missed: 0 }));
    }

    #[test]
    fn timer_ends_before_its_end_and_misses_nothing_after_it() {
        let timer = timer(Period { until_ns: 300, ..Period::new(0, 100) });
        assert_eq!(timer.release(950), Some(Release { number: 0, due_ns: 0, missed: 2 }));
        assert_eq!((timer.release(950), timer.due_ns(), timer.ready(950)), (None, u64::MAX, false));
    }

    #[test]
    fn timer_that_catches_up_serves_each_release_and_ends_after_its_last() {
        let each = Period { until_ns: 300, catches_up: true, ..Period::new(0, 100) };
        let timer = Timer::new(each, Arc::new(AtomicU64::new(1_000)));
        assert_eq!((timer.release(999), timer.due_ns()), (None, 1_000));
        for number in 0..3 {
            let due_ns = 1_000 + 100 * number;
            assert_eq!(timer.release(5_000), Some(Release { number, due_ns, missed: 0 }));
        }
        assert_eq!((timer.release(5_000), timer.due_ns(), timer.dropped()), (None, u64::MAX, 0));
    }
}
