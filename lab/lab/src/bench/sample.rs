//! Samples of a duration and what is said of them.

use stats::{ascending, nearest_rank};

/// Durations in nanoseconds.
pub struct Samples(Vec<f64>);

impl Samples {
    /// None yet.
    pub const fn new() -> Samples {
        Samples(Vec::new())
    }

    /// Adds a duration.
    pub fn push(&mut self, ns: u64) {
        self.0.push(ns as f64);
    }

    /// Returns the number of samples.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Percentiles by nearest rank, and the maximum.
    pub fn quantiles(&self) -> Quantiles {
        let sorted = ascending(&self.0);
        let rank = |permille| nearest_rank(&sorted, permille).unwrap_or(f64::NAN);
        Quantiles { p50_ns: rank(500), p99_ns: rank(990), p999_ns: rank(999), max_ns: rank(1000) }
    }
}

/// Percentiles and maximum of samples.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
    /// Largest of the samples seen.
    pub max_ns: f64,
}
