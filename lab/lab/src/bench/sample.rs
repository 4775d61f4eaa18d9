//! Samples of a duration and what is said of them.

use stats::{ascending, nearest_rank};

/// Durations in nanoseconds.
#[derive(Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// None yet.
    pub(crate) const fn new() -> Samples {
        Samples(Vec::new())
    }

    /// Adds a duration.
    pub(crate) fn push(&mut self, ns: u64) {
        self.0.push(ns as f64);
    }

    /// Returns the number of samples.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Percentiles by nearest rank, and the maximum.
    pub(crate) fn quantiles(&self) -> Quantiles {
        let sorted = ascending(&self.0);
        let rank = |permille| nearest_rank(&sorted, permille).unwrap_or(f64::NAN);
        Quantiles { p50_ns: rank(500), p99_ns: rank(990), p999_ns: rank(999), max_ns: rank(1000) }
    }
}

impl From<Vec<f64>> for Samples {
    /// Samples from nanoseconds.
    fn from(samples: Vec<f64>) -> Samples {
        Samples(samples)
    }
}

impl serde::Serialize for Samples {
    /// Their [`Quantiles`].
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.quantiles().serialize(serializer)
    }
}

/// Percentiles and maximum of samples.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Quantiles {
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
    /// Largest of the samples seen.
    pub max_ns: f64,
}

impl Quantiles {
    /// Headings of the [`Quantiles::cells`].
    pub(crate) const HEADINGS: [&'static str; 4] = ["p50", "p99", "p99.9", "max"];

    /// All of them, the least first, in nanoseconds.
    pub(crate) fn numbers(&self) -> [f64; 4] {
        [self.p50_ns, self.p99_ns, self.p999_ns, self.max_ns]
    }

    /// Cells of a table, in a unit of so many nanoseconds.
    pub(crate) fn cells(&self, unit_ns: f64, digits: usize) -> [String; 4] {
        self.numbers().map(|ns| format!("{:.digits$}", ns / unit_ns))
    }
}
