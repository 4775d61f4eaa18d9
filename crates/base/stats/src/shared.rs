//! A histogram for threads that may not wait.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Layout;

/// A histogram with an exact maximum: any thread adds to it with two atomic operations, and any
/// other reads it at any time. It allocates only when it is made.
pub struct Shared<const BITS: u32> {
    counts: Box<[AtomicU64]>,
    greatest: AtomicU64,
}

/// Summary of values. A percentile is the upper edge of its bucket, less than `2^-BITS` above the
/// true one, and never above the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Half of them are at most this.
    pub p50: u64,
    /// 99 % of them are at most this.
    pub p99: u64,
    /// The greatest, exactly.
    pub greatest: u64,
}

impl<const BITS: u32> Default for Shared<BITS> {
    fn default() -> Self {
        let counts = (0..Layout::<BITS>::BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Shared { counts, greatest: AtomicU64::new(0) }
    }
}

// Relaxed throughout: numbers for people, each complete in itself. A reader who comes in between
// two additions sees a state that is off by one value.
impl<const BITS: u32> Shared<BITS> {
    /// Adds a value. Wait-free.
    pub fn add(&self, value: u64) {
        self.counts[Layout::<BITS>::bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.greatest.fetch_max(value, Ordering::Relaxed);
    }

    /// The summary of all values of some histograms.
    pub fn spread<'a>(all: impl IntoIterator<Item = &'a Self>) -> Spread {
        let (mut counts, mut greatest) = (vec![0u64; Layout::<BITS>::BUCKETS], 0);
        for one in all {
            for (sum, count) in counts.iter_mut().zip(&one.counts) {
                *sum += count.load(Ordering::Relaxed);
            }
            greatest = greatest.max(one.greatest.load(Ordering::Relaxed));
        }
        let count = counts.iter().sum::<u64>();
        let permille = |permille: u64| {
            let rank = (count * permille).div_ceil(1000).max(1);
            let mut below = 0;
            let reached = counts.iter().position(|&count| {
                below += count;
                below >= rank
            });
            reached.map_or(0, |bucket| Layout::<BITS>::upper(bucket).min(greatest))
        };
        Spread { count, p50: permille(500), p99: permille(990), greatest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_from_below_and_stay_under_the_greatest() {
        let (one, other) = (Shared::<3>::default(), Shared::<3>::default());
        (0..98).for_each(|_| one.add(100));
        (0..2).for_each(|_| other.add(9000));
        let spread = Shared::spread([&one, &other]);
        assert_eq!((spread.count, spread.greatest, spread.p99), (100, 9000, 9000));
        assert!((100..=112).contains(&spread.p50), "{spread:?}");
        assert_eq!(Shared::<3>::spread([]), Spread::default());
    }

    #[test]
    fn percentiles_are_not_the_maximum() {
        let histogram = Shared::<4>::default();
        (1..=1000).for_each(|value| histogram.add(value * 1000));
        histogram.add(77_000_000);
        let spread = Shared::spread([&histogram]);
        assert_eq!((spread.count, spread.greatest), (1001, 77_000_000));
        assert!((500_000..540_000).contains(&spread.p50), "{spread:?}");
        assert!((990_000..1_060_000).contains(&spread.p99), "{spread:?}");
    }
}
