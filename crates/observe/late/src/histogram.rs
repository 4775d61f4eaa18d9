//! A histogram of durations in ticks: 32 buckets for each power of two ([`stats::Layout`]).
//!
//! Values below 64 are exact, larger ones at most 1/32 off; count, sum, least and greatest are
//! exact, so that a maximum is never a bucket's edge. A trace has up to four histograms for each of
//! thousands of locks; so a histogram has buckets only from its least to its greatest value, mostly
//! under 1 KiB.

use record::clock::Calibration;
use serde::Serialize;

type Layout = stats::Layout<5>;

/// Counts of durations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    /// The bucket of `counts[0]`.
    base: usize,
    count: u64,
    sum: u64,
    least: u64,
    greatest: u64,
}

impl Histogram {
    /// Adds a value.
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        let at = Layout::bucket(value);
        match self.counts.get_mut(at.wrapping_sub(self.base)) {
            Some(count) => *count = count.saturating_add(1),
            None => self.widen(at),
        }
        if self.count == 0 || value < self.least {
            self.least = value;
        }
        self.greatest = self.greatest.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Makes room up to the bucket `at`, and counts one in it.
    #[cold]
    fn widen(&mut self, at: usize) {
        if self.counts.is_empty() {
            self.base = at;
        }
        if at < self.base {
            let missing = self.base - at;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.base = at;
        }
        if at - self.base >= self.counts.len() {
            self.counts.resize(at - self.base + 1, 0);
        }
        self.counts[at - self.base] += 1;
    }

    /// Adds all values of another one.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        for (at, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let at = other.base + at;
            // A bucket that is new has one value then.
            let had = match self.counts.get_mut(at.wrapping_sub(self.base)) {
                Some(_) => 0,
                None => {
                    self.widen(at);
                    1
                }
            };
            let own = &mut self.counts[at - self.base];
            *own = own.saturating_add(count - had);
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.greatest = self.greatest.max(other.greatest);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The greatest value; 0 for none.
    pub(crate) fn greatest(&self) -> u64 {
        self.greatest
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the sum by the count; 0 for none.
    pub(crate) fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// A value that at least `share` of all values do not exceed: the upper edge of its bucket,
    /// but never more than the greatest value. 0 for none.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return Layout::upper(self.base + at).clamp(self.least, self.greatest);
            }
        }
        self.greatest
    }

    /// Returns the distribution in nanoseconds.
    pub(crate) fn durations(&self, clock: &Calibration) -> Distribution {
        self.distribution(|ticks| clock.duration_ns(ticks))
    }

    /// Values that are no durations, such as numbers of locks.
    pub(crate) fn numbers(&self) -> Distribution {
        self.distribution(|value| value)
    }

    fn distribution(&self, unit: impl Fn(u64) -> u64) -> Distribution {
        Distribution {
            count: self.count,
            total: unit(self.sum),
            mean: unit(self.mean()),
            min: unit(self.least),
            p50: unit(self.quantile(0.5)),
            p90: unit(self.quantile(0.9)),
            p99: unit(self.quantile(0.99)),
            p99_9: unit(self.quantile(0.999)),
            max: unit(self.greatest),
            buckets: self.coarse(unit),
        }
    }

    /// Four buckets for each power of two, without the empty ones.
    fn coarse(&self, unit: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (at, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let edge = unit(Layout::upper((self.base + at) | (Layout::PER_POWER / 4 - 1)));
            match buckets.last_mut() {
                Some((last, sum)) if *last == edge => *sum += u64::from(*count),
                _ => buckets.push((edge, u64::from(*count))),
            }
        }
        buckets
    }
}

/// Summary of a histogram. Durations are in nanoseconds; if the values are numbers of things, the
/// field says so. Quantiles are at most 1/32 above the true ones; the others are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub total: u64,
    /// Sum by count.
    pub mean: u64,
    /// The least one.
    pub min: u64,
    /// Half of them are at most this.
    pub p50: u64,
    /// 90 % of them are at most this.
    pub p90: u64,
    /// 99 % of them are at most this.
    pub p99: u64,
    /// 99.9 % of them are at most this.
    pub p99_9: u64,
    /// The greatest one.
    pub max: u64,
    /// Upper edge and count of each bucket that is not empty, four for each power of two.
    pub buckets: Vec<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close_and_never_above_the_maximum() {
        let mut histogram = Histogram::default();
        for value in (1..=100_000u64).rev() {
            histogram.add(value);
        }
        for (share, exact) in [(0.5, 50_000), (0.99, 99_000), (0.999, 99_900), (1.0, 100_000)] {
            let got = histogram.quantile(share);
            assert!((exact..=exact + exact / 32).contains(&got), "{share}: {got}");
            assert!(got <= 100_000);
        }
        let numbers = histogram.numbers();
        assert_eq!((numbers.min, numbers.max, numbers.count), (1, 100_000, 100_000));
        assert_eq!((numbers.total, numbers.mean), (5_000_050_000, 50_000));
        let in_buckets: u64 = numbers.buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(in_buckets, 100_000);
        assert!(numbers.buckets.len() < 70);
    }

    #[test]
    fn merged_histogram_is_that_of_all_values() {
        let values = [[7u64, 900, 901], [3, 1 << 40, 900], [900, 900, 900]];
        let (mut whole, mut merged) = (Histogram::default(), Histogram::default());
        for part in values {
            let mut own = Histogram::default();
            part.into_iter().for_each(|value| own.add(value));
            part.into_iter().for_each(|value| whole.add(value));
            merged.merge(&own);
            merged.merge(&Histogram::default());
        }
        assert_eq!(merged.numbers(), whole.numbers());
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::default().numbers(), Distribution::default());
    }
}
