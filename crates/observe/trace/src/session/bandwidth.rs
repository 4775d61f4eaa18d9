//! Counts of a program that held the bandwidth lock without knowing it.

use record::Side;
use record::bandwidth::BandwidthCount as Count;
use serde::Serialize;

/// Use of the bandwidth lock. Counts are of all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bandwidth {
    /// Processes that attached to the regulator.
    pub attached: u64,
    /// Processes that used the accelerator and could not attach: nothing was held for them.
    pub not_attached: u64,
    /// Number of times that a process took the lock while it did not hold it.
    pub acquisitions: u64,
    /// Total time for which processes held it; for processes that ended with it, until the program
    /// ended.
    pub held_ns: u64,
    /// Processes that had work outstanding when they ended, or still had it when the program did.
    pub outstanding: u64,
    /// Streams that got work, each time that they were met anew.
    pub streams: u64,
    /// Submissions for whose stream there was no place: nothing was held for them.
    pub submissions_without_place: u64,
    /// Submissions whose end cannot be asked for: given back at once.
    pub submissions_not_asked: u64,
    /// Streams whose work ended with an error.
    pub failed_streams: u64,
    /// Calls that did not wait any longer until a stream had been asked.
    pub impatient_calls: u64,
    /// Processes without a polling thread: the lock was held on for work that no call waited for.
    pub without_poller: u64,
}

/// Reads the counters; the program ended at `end_ns`, on `CLOCK_MONOTONIC`.
pub(super) fn describe(side: &Side, end_ns: u64) -> Bandwidth {
    let counts = side.bandwidth_counts();
    let count_of = |what: Count| counts[what as usize];
    let acquisitions = count_of(Count::Taken);
    // Counts that a process of the program wrote are not trusted: more given back than taken counts
    // as none outstanding.
    let outstanding = acquisitions.saturating_sub(count_of(Count::GivenBack));
    let unfinished = outstanding.wrapping_mul(end_ns);
    Bandwidth {
        attached: count_of(Count::Attached),
        not_attached: count_of(Count::NotAttached),
        acquisitions,
        held_ns: count_of(Count::HeldNs).wrapping_add(unfinished),
        outstanding,
        streams: count_of(Count::Streams),
        submissions_without_place: count_of(Count::NoPlace),
        submissions_not_asked: count_of(Count::NotAsked),
        failed_streams: count_of(Count::Failed),
        impatient_calls: count_of(Count::Impatient),
        without_poller: count_of(Count::NoPoller),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Recording, Settings};

    #[test]
    fn what_was_not_given_back_counts_until_the_end() {
        let recording = Recording::create(1 << 16, &Settings::default()).unwrap();
        let side = recording.side();
        let take = |at_ns: u64| {
            side.count_bandwidth(Count::Taken);
            side.add_bandwidth(Count::HeldNs, at_ns.wrapping_neg());
        };
        let give_back = |at_ns: u64| {
            side.count_bandwidth(Count::GivenBack);
            side.add_bandwidth(Count::HeldNs, at_ns);
        };
        take(100);
        give_back(150);
        take(200);
        let said = describe(&side, 1000);
        assert_eq!((said.acquisitions, said.outstanding, said.held_ns), (2, 1, 850));
        give_back(210);
        let said = describe(&side, 1000);
        assert_eq!((said.acquisitions, said.outstanding, said.held_ns), (2, 0, 60));
    }
}
