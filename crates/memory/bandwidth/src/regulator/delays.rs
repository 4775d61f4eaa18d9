//! Delays, counted in buckets, so that a real-time thread can note a delay with one addition and
//! another thread can read percentiles at any time.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets for each doubling: a percentile is at most an eighth too large.
const PER_DOUBLING: u32 = 8;
const BUCKETS: usize = 64 * PER_DOUBLING as usize;

/// Delays, written by one thread and read by any.
pub struct Delays {
    buckets: Box<[AtomicU64]>,
    longest_ns: AtomicU64,
}

/// Summary of some delays, in nanoseconds. A percentile is the upper end of its bucket, at most an
/// eighth above the true one and never above the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Number of delays.
    pub count: u64,
    /// Half of them were no longer.
    pub p50_ns: u64,
    /// 99 of 100 were no longer.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub longest_ns: u64,
}

impl Default for Delays {
    fn default() -> Delays {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Delays { buckets, longest_ns: AtomicU64::new(0) }
    }
}

// Relaxed throughout: numbers for people, each complete in itself.
impl Delays {
    /// Notes one. Wait-free; one thread.
    pub fn note(&self, ns: u64) {
        self.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// Returns the summary of all delays that these have noted.
    pub fn spread<'a>(all: impl IntoIterator<Item = &'a Delays>) -> Spread {
        let (mut counts, mut longest_ns) = (vec![0; BUCKETS], 0);
        for delays in all {
            for (count, bucket) in counts.iter_mut().zip(&delays.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
            longest_ns = longest_ns.max(delays.longest_ns.load(Ordering::Relaxed));
        }
        let count = counts.iter().sum();
        let percentile = |part: f64| {
            let rank = (count as f64 * part).ceil() as u64;
            let mut below = 0;
            let found = counts.iter().position(|count| {
                below += count;
                below >= rank && rank > 0
            });
            found.map_or(0, |bucket| upper_ns(bucket).min(longest_ns))
        };
        Spread { count, p50_ns: percentile(0.5), p99_ns: percentile(0.99), longest_ns }
    }
}

/// The doubling, and which eighth of it.
fn bucket(ns: u64) -> usize {
    if ns < u64::from(PER_DOUBLING) {
        return ns as usize;
    }
    let doubling = ns.ilog2();
    let eighth = (ns >> (doubling - 3)) as u32 - PER_DOUBLING;
    ((doubling - 2) * PER_DOUBLING + eighth) as usize
}

/// The largest delay of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    let (doubling, eighth) = (bucket as u32 / PER_DOUBLING, bucket as u32 % PER_DOUBLING);
    match doubling {
        0 => u64::from(eighth),
        _ => (u64::from(PER_DOUBLING + eighth + 1) << (doubling - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_in_a_bucket_that_ends_at_most_an_eighth_above_it() {
        let many = (0..5000).chain((13..50).map(|shift| (1 << shift) + 12_345));
        for ns in many {
            let upper = upper_ns(bucket(ns));
            assert!(upper >= ns && upper <= ns + ns / 8, "{ns}: {upper}");
        }
    }

    #[test]
    fn percentiles_count_from_below_and_stay_under_the_longest() {
        let (one, other) = (Delays::default(), Delays::default());
        (0..98).for_each(|_| one.note(100));
        (0..2).for_each(|_| other.note(9000));
        let spread = Delays::spread([&one, &other]);
        assert_eq!((spread.count, spread.longest_ns, spread.p99_ns), (100, 9000, 9000));
        assert!((100..=112).contains(&spread.p50_ns), "{spread:?}");
        assert_eq!(Delays::spread([]), Spread::default());
    }
}
