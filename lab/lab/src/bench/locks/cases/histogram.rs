//! Durations counted in buckets: a power of two is divided into 64 of them, so that a percentile
//! is at most 1.6 % above the true one. The sum and the largest are exact.
//!
//! The measured programs fill them, `contend.c` in the same way as [`Recorder`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The buckets of `contend.c`.
type Layout = stats::Layout<6>;

/// Counted samples, in buckets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    /// Samples.
    pub count: u64,
    /// Sum of all samples.
    pub sum_ns: u64,
    /// The largest sample.
    pub max_ns: u64,
    /// Acquisitions that fell in the measured time, whether or not they are samples.
    pub operations: u64,
    /// Samples by the upper limit of their bucket.
    pub buckets: BTreeMap<u64, u64>,
}

impl Histogram {
    /// The sample of this rank, of 1000; at most the largest. `None` without samples.
    pub(crate) fn permille(&self, permille: u64) -> Option<u64> {
        let rank = (self.count * permille).div_ceil(1000).max(1);
        let mut below = 0;
        for (&upper, &samples) in &self.buckets {
            below += samples;
            if below >= rank {
                return Some(upper.min(self.max_ns));
            }
        }
        None
    }

    /// `None` without samples.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// Counts samples of one thread.
pub(super) struct Recorder {
    buckets: Vec<u32>,
    histogram: Histogram,
}

impl Recorder {
    /// Recorder without samples.
    pub(super) fn new() -> Recorder {
        Recorder { buckets: vec![0; Layout::BUCKETS], histogram: Histogram::default() }
    }

    /// Adds a sample.
    pub(super) fn note(&mut self, ns: u64) {
        self.buckets[Layout::bucket(ns)] += 1;
        self.histogram.count += 1;
        self.histogram.sum_ns += ns;
        self.histogram.max_ns = self.histogram.max_ns.max(ns);
    }

    /// Adds an acquisition to those in the measured time.
    pub(super) fn operate(&mut self) {
        self.histogram.operations += 1;
    }

    /// Adds what this thread counted to what others did.
    pub(super) fn add_to(&self, all: &mut Histogram) {
        all.count += self.histogram.count;
        all.sum_ns += self.histogram.sum_ns;
        all.max_ns = all.max_ns.max(self.histogram.max_ns);
        all.operations += self.histogram.operations;
        for (index, samples) in self.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
            *all.buckets.entry(Layout::upper(index)).or_default() += u64::from(*samples);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Histogram {
        let (mut recorder, mut histogram) = (Recorder::new(), Histogram::default());
        samples.into_iter().for_each(|ns| recorder.note(ns));
        recorder.add_to(&mut histogram);
        histogram
    }

    #[test]
    fn percentiles_are_near_those_of_the_samples() {
        let histogram = of((1..=100_000).map(|i| i * 7));
        for (permille, exact) in [(1, 700), (500, 350_000), (990, 693_000), (999, 699_300)] {
            let found = histogram.permille(permille).unwrap();
            assert!(found >= exact && found as f64 <= exact as f64 * 1.016, "{found} of {exact}");
        }
        assert_eq!(histogram.permille(1000), Some(700_000));
        assert_eq!(histogram.mean_ns(), Some(350_003.5));
    }

    #[test]
    fn percentile_is_never_above_the_largest() {
        let one = of([1_000_003]);
        assert_eq!(one.permille(500), Some(1_000_003));
        assert_eq!(of([]).permille(500), None);
        assert_eq!(of([]).mean_ns(), None);
    }
}
