//! Delays, counted so that a real-time thread can note one without waiting and another thread can
//! read percentiles at any time.

use serde::Serialize;

/// Delays in nanoseconds, written by one thread and read by any. A percentile is at most an eighth
/// too large.
pub(super) type Delays = stats::Shared<3>;

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

impl Spread {
    /// The summary of all delays that these have noted.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Delays>) -> Spread {
        let stats::Spread { count, p50, p99, greatest } = Delays::spread(all);
        Spread { count, p50_ns: p50, p99_ns: p99, longest_ns: greatest }
    }
}
