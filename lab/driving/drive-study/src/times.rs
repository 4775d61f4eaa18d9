//! Many durations in little room: their number, sum and longest are exact, the others are known to
//! one part in 256.
//!
//! A duration falls into the bucket of its leading nine bits (as in HdrHistogram); only buckets
//! that are not empty are kept.

use serde::{Deserialize, Serialize};
use stats::Layout;
use std::collections::BTreeMap;

/// Bits of a duration that are kept after the leading one.
const BITS: u32 = 8;

/// Durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Sum of all durations, ns.
    pub sum_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Number of durations, by bucket.
    pub buckets: BTreeMap<u32, u64>,
}

impl Times {
    /// Adds a duration.
    pub fn add(&mut self, ns: u64) {
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        *self.buckets.entry(bucket(ns)).or_default() += 1;
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Times) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
    }

    /// Returns their number.
    pub fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// Their mean, ms; none without any.
    pub fn mean_ms(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / 1e6 / count as f64)
    }

    /// The longest, ms; none without any.
    pub fn max_ms(&self) -> Option<f64> {
        (!self.buckets.is_empty()).then_some(self.max_ns as f64 / 1e6)
    }

    /// Returns the duration that a share of them does not exceed, ms, to one part in 256; none
    /// without any.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = ((share * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return Some(upper_ns(*bucket).min(self.max_ns) as f64 / 1e6);
            }
        }
        None
    }

    /// The share that is not longer than each bucket's end, in ms.
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let all = self.count().max(1) as f64;
        let mut seen = 0;
        let share = |(bucket, count): (&u32, &u64)| {
            seen += count;
            (upper_ns(*bucket).min(self.max_ns) as f64 / 1e6, seen as f64 / all)
        };
        self.buckets.iter().map(share).collect()
    }

    /// Returns true for values that [`Times::add`] can produce.
    pub(crate) fn is_possible(&self) -> bool {
        let last = self.buckets.keys().next_back();
        let fits =
            last.map_or(self.max_ns == 0 && self.sum_ns == 0, |last| *last == bucket(self.max_ns));
        // Counts that no memory could have counted would overflow their sums.
        fits && self.buckets.values().all(|count| (1..1 << 32).contains(count))
    }
}

/// The bucket of a duration.
fn bucket(ns: u64) -> u32 {
    Layout::<BITS>::bucket(ns) as u32
}

/// The longest duration of a bucket, ns.
pub(crate) fn upper_ns(bucket: u32) -> u64 {
    Layout::<BITS>::upper(bucket as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_known_to_one_part_in_256() {
        let mut ns = 1_u64;
        let mut before = 0;
        while ns < 1 << 50 {
            let number = bucket(ns);
            let upper = upper_ns(number);
            assert!(upper >= ns && (upper - ns) * 256 <= ns, "{ns} {number} {upper}");
            assert_eq!((bucket(upper), bucket(upper + 1)), (number, number + 1), "{ns}");
            assert!(number >= before);
            before = number;
            ns += ns / 7 + 1;
        }
    }

    #[test]
    fn merged_times_are_the_times_of_both() {
        let (mut one, mut other, mut both) = (Times::default(), Times::default(), Times::default());
        for ns in 1..=1000 {
            if ns % 3 == 0 {
                one.add(ns * 1000)
            } else {
                other.add(ns * 1000)
            };
            both.add(ns * 1000);
        }
        one.merge(&other);
        assert_eq!(one, both);
        assert!(both.is_possible() && Times::default().is_possible());
        assert_eq!((both.count(), both.mean_ms(), both.max_ms()), (1000, Some(0.5005), Some(1.0)));
        let median = both.quantile_ms(0.5).unwrap();
        assert!((0.5..0.5 * 257.0 / 256.0).contains(&median), "{median}");
        assert_eq!(both.quantile_ms(1.0), Some(1.0));
        assert_eq!(both.shares().last(), Some(&(1.0, 1.0)));
        assert_eq!(Times::default().quantile_ms(0.5), None);
    }
}
