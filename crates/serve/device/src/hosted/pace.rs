//! Keeps a compute thread that never idles from being stopped by the kernel.
//!
//! A real-time thread that keeps its core busy is stopped for the rest of each period, 50 ms of
//! every second by default: throttling. A device that is always busy would lose them in one
//! piece, in the middle of the most urgent request. So the thread gives the kernel its share in
//! small pieces of its own choosing: it runs some blocks as an ordinary thread. As nobody else
//! wants its core, as a rule, it goes on running then, and the kernel counts it as rested; if
//! ordinary threads have starved there, they get their turn now.
//!
//! The account: real-time work spends `1 - share` of its duration, ordinary work and idleness
//! earn `share`. The thread turns ordinary when the account is empty and back when it holds a
//! little: about 1 ms and 0.1 ms at a time with the default limit and short blocks.

use realtime::machine::RtLimits;
use realtime::thread::{self, Scheduling};

/// Kept back from the kernel's share, for the server's threads on the same core.
const MARGIN: f64 = 0.05;
/// Real-time work resumes with this much on the account.
const RESUME_NS: f64 = 100_000.0;
/// Idleness is credited up to here.
const MOST_NS: f64 = 5_000_000.0;

/// The account of one thread.
pub(super) struct Pace {
    policy: Scheduling,
    /// Share of the time that may be real-time; None when nothing limits it.
    share: Option<f64>,
    account_ns: f64,
    ordinary: bool,
    accounted_ns: u64,
}

impl Pace {
    /// The pace of a thread that runs at `policy` under these limits.
    pub(super) fn new(policy: Scheduling, limits: &RtLimits, now_ns: u64) -> Pace {
        let limited = policy != Scheduling::Normal;
        let share = limited.then(|| realtime_share(limits)).flatten();
        Pace { policy, share, account_ns: MOST_NS, ordinary: false, accounted_ns: now_ns }
    }

    /// Settles the account before a block and before sleep, and changes over if it is time.
    pub(super) fn step(&mut self, now_ns: u64, busy: bool) {
        let Some(share) = self.share else { return };
        let wanted = self.settle(share, now_ns, busy);
        if wanted != self.ordinary {
            let policy = if wanted { Scheduling::Normal } else { self.policy };
            // A policy that was granted once is granted again; if not, the thread stays as it is.
            if thread::set_policy(policy).is_ok() {
                self.ordinary = wanted;
            }
        }
    }

    /// Settles the time since the last step, in which the thread was `busy` or idle. True if it
    /// should be ordinary now. An idle thread sleeps real-time, to wake up on time.
    fn settle(&mut self, share: f64, now_ns: u64, busy: bool) -> bool {
        let spent_ns = now_ns.saturating_sub(self.accounted_ns) as f64;
        self.accounted_ns = now_ns;
        let rate = if busy && !self.ordinary { share - 1.0 } else { share };
        self.account_ns = (self.account_ns + rate * spent_ns).min(MOST_NS);
        match self.ordinary {
            true => self.account_ns < RESUME_NS,
            false => self.account_ns < 0.0,
        }
    }

    /// Restores the priority before the thread sleeps: it must wake up with it.
    pub(super) fn rest(&mut self, now_ns: u64) {
        self.step(now_ns, true);
        if self.ordinary && thread::set_policy(self.policy).is_ok() {
            self.ordinary = false;
        }
    }
}

/// The share of a core's time in which real-time threads may keep it busy without any mechanism of
/// the kernel minding; None without mechanisms.
pub fn realtime_share(limits: &RtLimits) -> Option<f64> {
    let throttled = limits.throttles && limits.runtime_us >= 0 && limits.period_us > 0;
    let throttle = throttled.then(|| limits.runtime_us as f64 / limits.period_us as f64);
    let server = limits.fair_server.filter(|server| server.runtime_ns > 0 && server.period_ns > 0);
    let server = server.map(|server| 1.0 - server.runtime_ns as f64 / server.period_ns as f64);
    let least = throttle.into_iter().chain(server).reduce(f64::min)?;
    Some((least - MARGIN).max(0.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RtLimits =
        RtLimits { period_us: 1_000_000, runtime_us: 950_000, throttles: true, fair_server: None };

    /// Runs blocks of `block_ns` back to back for a second; how long of it real-time.
    fn realtime_ns(block_ns: u64) -> (u64, u64) {
        let share = realtime_share(&LIMITS).unwrap();
        let mut pace = Pace::new(Scheduling::Fifo(1), &LIMITS, 0);
        let (mut now_ns, mut realtime_ns, mut changes) = (0, 0, 0);
        while now_ns < 1_000_000_000 {
            let ordinary = pace.settle(share, now_ns, true);
            changes += u64::from(ordinary != pace.ordinary);
            pace.ordinary = ordinary;
            realtime_ns += if ordinary { 0 } else { block_ns };
            now_ns += block_ns;
        }
        (realtime_ns, changes)
    }

    #[test]
    fn busy_thread_stays_below_the_kernels_share() {
        for (block_ns, least_ns) in
            [(1_000, 850), (100_000, 850), (5_000_000, 700), (40_000_000, 400)]
        {
            let (realtime_ns, changes) = realtime_ns(block_ns);
            assert!(realtime_ns < 940_000_000, "blocks of {block_ns} ns: {realtime_ns}");
            assert!(realtime_ns > least_ns * 1_000_000, "blocks of {block_ns} ns: {realtime_ns}");
            assert!(changes < 2500, "blocks of {block_ns} ns: {changes} changes");
        }
    }

    #[test]
    fn idleness_is_not_saved_up() {
        let mut pace = Pace::new(Scheduling::Fifo(1), &LIMITS, 0);
        pace.settle(0.9, 60_000_000_000, false);
        assert_eq!(pace.account_ns, MOST_NS);
        assert!(pace.settle(0.9, 60_060_000_000, true), "60 ms of work at a stretch");
    }

    #[test]
    fn nothing_is_paced_where_nothing_limits() {
        let free = RtLimits { runtime_us: -1, throttles: false, ..LIMITS };
        assert_eq!(realtime_share(&free), None);
        assert_eq!(Pace::new(Scheduling::Normal, &LIMITS, 0).share, None);
    }
}
