//! Counting: times of requests on one accelerator, and what became of the requests of one chain.
//!
//! Both are written by the dispatcher's threads and read by the control thread, without a lock:
//! every number stands for itself, so that a reader who comes in between sees a state that is off
//! by one request.

use accel::control::Measured;
use std::sync::atomic::{AtomicU64, Ordering};

/// Times in nanoseconds: a percentile is at most a sixteenth too large, the maximum exact.
pub(crate) type Times = stats::Shared<4>;

/// The statistics of some times, as they are reported.
pub(crate) fn measured(times: &Times) -> Measured {
    let stats::Spread { count, p50, p99, greatest } = Times::spread([times]);
    Measured { count, p50_ns: p50, p99_ns: p99, max_ns: greatest }
}

/// Measurements of one accelerator.
pub(crate) struct Meter {
    /// Times from a request's launch to its end without the time that it ran: launch and
    /// completion.
    /// Only of requests that had the device for themselves.
    pub sigma: Times,
    /// Time that the server spends on a request while the request does not occupy its bucket: from
    /// its arrival to its launch, if it did not have to wait, and from its end to its answer.
    pub epsilon: Times,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter { sigma: Times::default(), epsilon: Times::default() }
    }
}

/// Counts of the requests of one chain, and the longest response time.
#[derive(Default)]
pub(crate) struct Tally {
    pub requests: AtomicU64,
    pub longest_ns: AtomicU64,
    pub overruns: AtomicU64,
    pub excess: AtomicU64,
}

impl Tally {
    /// A request has ended, so long after its arrival.
    pub(crate) fn ended(&self, response_ns: u64, overran: bool) {
        // Relaxed: see the module's words.
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.longest_ns.fetch_max(response_ns, Ordering::Relaxed);
        self.overruns.fetch_add(overran.into(), Ordering::Relaxed);
    }

    /// A request came earlier than the chain's declaration allows.
    pub(crate) fn exceeded(&self) {
        self.excess.fetch_add(1, Ordering::Relaxed);
    }
}

/// Check that requests come as seldom as declared.
///
/// A chain that keeps its deadline, which is at most its period, has at most `t / T + 2` jobs in
/// any time `t`. So a bucket that holds the tokens of two jobs, refilled by one job a period,
/// never runs dry; when it does, the declaration is wrong or the chain is late. Tokens are counted
/// as time: one job is one period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    period_ns: u64,
    requests: u64,
    /// Tokens in units of one period divided by the requests of a job.
    tokens: u128,
    then_ns: u64,
}

impl Pace {
    /// The share of an accelerator's time that such requests take, in millionths.
    pub(crate) fn share_ppm(&self, each_ns: u64) -> u64 {
        let time = u128::from(each_ns) * u128::from(self.requests) * 1_000_000;
        u64::try_from(time / u128::from(self.period_ns.max(1))).unwrap_or(u64::MAX / 1024)
    }

    /// The bucket of a chain with this period and this number of requests in each job.
    pub(crate) fn new(period_ns: u64, requests: u32, now_ns: u64) -> Pace {
        let requests = u64::from(requests.max(1));
        let mut pace = Pace { period_ns, requests, tokens: 0, then_ns: now_ns };
        pace.tokens = pace.most();
        pace
    }

    fn most(&self) -> u128 {
        2 * u128::from(self.period_ns) * u128::from(self.requests)
    }

    /// Takes the token of one request; false when there is none.
    pub(crate) fn admits(&mut self, now_ns: u64) -> bool {
        let passed = now_ns.saturating_sub(self.then_ns);
        let earned = u128::from(passed) * u128::from(self.requests);
        (self.tokens, self.then_ns) = ((self.tokens + earned).min(self.most()), now_ns);
        let cost = u128::from(self.period_ns);
        let enough = self.tokens >= cost;
        if enough {
            self.tokens -= cost;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_allows_what_a_punctual_chain_can_do_and_no_more() {
        // Two requests a job; a late job, then the next ones on time.
        let mut pace = Pace::new(100, 2, 0);
        for at in [99, 99, 100, 100, 200, 200, 399, 399, 400, 400, 500, 500] {
            assert!(pace.admits(at), "{at}");
        }
        let mut greedy = Pace::new(100, 2, 0);
        let admitted = (0..1000).filter(|&at| greedy.admits(at)).count();
        assert!((22..=24).contains(&admitted), "{admitted} of 1000 in ten periods");
        let mut huge = Pace::new(u64::MAX, u32::MAX, 0);
        assert!(huge.admits(u64::MAX));
    }
}
