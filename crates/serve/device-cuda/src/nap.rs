//! Rests of a thread that looks for the end of its work without sleeping.
//!
//! The kernel stops a real-time thread that keeps its core busy, for 50 ms of every second by
//! default, in one piece. One that waits for a GPU can rest earlier and lose nothing: at the
//! beginning of a wait, while the GPU computes. So work spends from an account, sleep earns, and when
//! the account is empty the next wait begins with naps.
//!
//! A long wait has a nap now and then in any case: threads of the same priority get the core only
//! when this one sleeps, and the one that judges how long the wait takes is on the same core.

use device::hosted::realtime_share;
use realtime::clock::monotonic_ns;
use std::time::Duration;

/// Length of a nap: less than a slice usually takes, and many times a wake-up.
const NAP: Duration = Duration::from_micros(50);
/// Kept back for the server's threads on the same core.
const BESIDE: f64 = 0.1;
/// Time between two slices that follow each other at once, and a little more.
const BETWEEN_NS: u64 = 50_000;
/// The most that is earned.
const MOST_NS: f64 = 5_000_000.0;

/// Longest time for which a thread looks without a nap.
const LONG_NS: u64 = 10_000_000;

/// The account of one thread.
pub(crate) struct Naps {
    /// Share of the time that may be spent looking; None when nothing limits it.
    share: Option<f64>,
    account_ns: f64,
    settled_ns: u64,
    /// Time at which it began to look without a nap.
    looking_ns: u64,
}

impl Naps {
    /// Naps for the calling thread, at its policy.
    pub(crate) fn new() -> Naps {
        let limited = realtime::thread::policy() != realtime::thread::Scheduling::Normal;
        let share = limited.then(|| realtime_share(&realtime::machine::rt_limits())).flatten();
        Naps {
            share: share.map(|share| (share - BESIDE).max(0.1)),
            account_ns: MOST_NS,
            settled_ns: monotonic_ns(),
            looking_ns: 0,
        }
    }

    /// A wait begins, at a time of the monotonic clock. Since the last one the thread, and the
    /// server's beside it, have worked for a while, and slept if it took longer.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.looking_ns = now_ns;
        if let Some(share) = self.share {
            self.pass(share - 1.0, now_ns.min(self.settled_ns + BETWEEN_NS));
            self.pass(share, now_ns);
        }
    }

    /// Naps if it has to, because the end that it waits for has not come.
    pub(crate) fn rest(&mut self) {
        let now_ns = monotonic_ns();
        if self.must_rest(now_ns) {
            std::thread::sleep(NAP);
            self.rested(now_ns, monotonic_ns());
        }
    }

    /// Ends a wait: the time since it began, or since the last nap, was spent polling.
    pub(crate) fn end(&mut self, now_ns: u64) {
        self.pass(self.share.map_or(0.0, |share| share - 1.0), now_ns);
    }

    fn must_rest(&self, now_ns: u64) -> bool {
        self.account_ns < 0.0 || now_ns.saturating_sub(self.looking_ns) > LONG_NS
    }

    /// Counts polling until `from_ns` and a nap until `now_ns`.
    fn rested(&mut self, from_ns: u64, now_ns: u64) {
        if let Some(share) = self.share {
            self.pass(share - 1.0, from_ns);
            self.pass(share, now_ns);
        }
        self.looking_ns = now_ns;
    }

    fn pass(&mut self, rate: f64, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.settled_ns) as f64;
        self.settled_ns = now_ns;
        self.account_ns = (self.account_ns + rate * passed_ns).min(MOST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naps(share: Option<f64>) -> Naps {
        Naps { share, account_ns: MOST_NS, settled_ns: 0, looking_ns: 0 }
    }

    #[test]
    fn long_wait_leaves_the_core_to_others_now_and_then() {
        for share in [None, Some(0.8), Some(1.0)] {
            let (mut naps, mut now_ns, mut count) = (naps(share), 1_000, 0);
            naps.begin(now_ns);
            while now_ns < 1_000_000_000 {
                now_ns += 1_000;
                if naps.must_rest(now_ns) {
                    naps.rested(now_ns, now_ns + 50_000);
                    now_ns += 50_000;
                    count += 1;
                }
            }
            assert!(count >= 90, "{share:?}: {count}");
        }
    }

    #[test]
    fn who_always_looks_rests_as_long_as_it_must() {
        const SHARE: f64 = 0.8;
        // Beside each slice a little work, here and by the server's thread.
        const WORK_NS: u64 = 20_000;
        for (slice_ns, nap_ns) in [(100_000, 55_000), (20_000, 60_000), (5_000_000, 55_000)] {
            let mut naps = naps(Some(SHARE));
            let (mut now_ns, mut busy_ns) = (0u64, 0u64);
            while now_ns < 1_000_000_000 {
                now_ns += WORK_NS;
                busy_ns += WORK_NS;
                let end_ns = now_ns + slice_ns;
                naps.begin(now_ns);
                while naps.must_rest(now_ns) && now_ns < end_ns {
                    naps.rested(now_ns, now_ns + nap_ns);
                    now_ns += nap_ns;
                }
                busy_ns += end_ns.saturating_sub(now_ns);
                now_ns = end_ns.max(now_ns);
                naps.end(now_ns);
            }
            assert!((500_000_000..830_000_000).contains(&busy_ns), "{slice_ns} ns: {busy_ns}");
        }
    }
}
