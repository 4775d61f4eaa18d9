//! A thread above all others on a core, which sleeps until given times: as late as it is woken is
//! every thread on this core. So the machine's part in a late request can be told from the
//! server's.

use std::sync::atomic::{AtomicBool, Ordering};

use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread;

use crate::bench::floor::prioritise;

/// Distance of the next wake-up, in nanoseconds. A loss of the core for less time may stay unseen.
const AHEAD_NS: u64 = 500_000;
/// Earlier wake-ups are usual.
const LATE_NS: u64 = 100_000;

/// Wake-ups of the thread that watches a core.
#[derive(Default)]
pub(super) struct Canary {
    /// Due time and actual time of each late wake-up, in order.
    late: Vec<(u64, u64)>,
    latest_ns: u64,
}

impl Canary {
    /// The latest wake-up, in nanoseconds.
    pub(super) fn latest_ns(&self) -> f64 {
        self.latest_ns as f64
    }

    fn woken(&mut self, due_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(due_ns);
        self.latest_ns = self.latest_ns.max(late_ns);
        if late_ns >= LATE_NS {
            self.late.push((due_ns, now_ns));
        }
    }

    /// The late spans that end after `from` and begin before `to`, within these.
    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.late.partition_point(|(_, end)| *end <= from);
        let spans = self.late[first..].iter().take_while(move |(begin, _)| *begin < to);
        spans.map(move |&(begin, end)| (begin.max(from), end.min(to)))
    }
}

/// Watches a core until told to stop.
pub(super) fn watch(stop: &AtomicBool, core: usize, realtime: bool) -> Canary {
    let mut canary = Canary::default();
    let _ = thread::pin(&[core]);
    let _ = prioritise(if realtime { 99 } else { 0 });
    // Relaxed: the thread needs nothing but the flag.
    while !stop.load(Ordering::Relaxed) {
        let due_ns = monotonic_ns() + AHEAD_NS;
        sleep_until_ns(due_ns);
        canary.woken(due_ns, monotonic_ns());
    }
    canary
}

/// Time for which at least one of some cores was away in a span of time.
pub(super) fn late_within(canaries: &[&Canary], from: u64, to: u64) -> u64 {
    let mut spans: Vec<_> = canaries.iter().flat_map(|canary| canary.within(from, to)).collect();
    spans.sort_unstable();
    let mut counted_to = from;
    let mut late = 0;
    for (begin, end) in spans {
        late += end.saturating_sub(begin.max(counted_to));
        counted_to = counted_to.max(end);
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_core_was_away_counts_once_and_only_within_the_span() {
        let mut canaries = [Canary::default(), Canary::default()];
        let ms = |ms: u64| ms * 1_000_000;
        canaries[0].woken(ms(10), ms(13));
        canaries[0].woken(ms(14), ms(14) + 50_000);
        canaries[0].woken(ms(20), ms(21));
        canaries[1].woken(ms(12), ms(15));
        assert_eq!(canaries[0].latest_ns(), 3e6);
        let [one, other] = &canaries;
        let late = |from, to| late_within(&[one, other], ms(from), ms(to)) / 1_000_000;
        assert_eq!(late(0, 30), 6);
        assert_eq!(late(11, 14), 3);
        assert_eq!(late(15, 20), 0);
        assert_eq!(late_within(&[one], ms(0), ms(30)), ms(4));
    }
}
