//! The calls of the first pass: durations by kind, the longest ones, what they did with locks.

use crate::hash::Mix;
use crate::histogram::Histogram;
use crate::pattern::Patterns;
use record::Record;

/// An open call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub kind: u32,
    /// Number of its function.
    pub function: u32,
    /// Begin of the call, in ticks.
    pub enter: u64,
    /// Stream or other handle.
    pub subject: u64,
    /// Bytes, kernel, or graph.
    pub detail: u64,
    /// Launches in the stream's queue when it began, for calls that add to a queue.
    pub outstanding: u32,
    /// Index of its first step among those of the thread.
    pub steps_from: usize,
    pub hash: Mix,
    pub too_long: bool,
    /// Locks it took.
    pub acquisitions: u32,
    /// Time for which it waited for locks, in ticks.
    pub waited: u64,
}

/// A call that has returned and may be one of the worst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub ticks: u64,
    pub enter: u64,
    pub stream: u32,
    pub kind: u32,
    pub function: u32,
    pub subject: u64,
    pub detail: u64,
    pub result: u32,
    pub captured: bool,
    pub outstanding: u32,
    pub depth: u32,
    pub acquisitions: u32,
    pub waited: u64,
}

impl Candidate {
    /// The call of this frame, which returned with this record.
    pub(crate) fn new(frame: &Frame, record: &Record, stream: u32, depth: u32) -> Candidate {
        Candidate {
            ticks: record.time - frame.enter,
            enter: frame.enter,
            stream,
            kind: frame.kind,
            function: frame.function,
            subject: frame.subject,
            detail: frame.detail,
            result: record.number,
            captured: record.detail == 1,
            outstanding: frame.outstanding,
            depth,
            acquisitions: frame.acquisitions,
            waited: frame.waited,
        }
    }
}

/// The longest calls of one kind. Within a kind the longest ones are also the latest ones, since
/// they are compared with the same median; so no median needs to be known while they are chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Longest {
    kept: Vec<Candidate>,
    /// A shorter call need not be looked at.
    floor: u64,
}

impl Longest {
    /// Keeps a call if it is among the `most` longest.
    #[inline]
    pub(crate) fn offer(&mut self, most: usize, candidate: impl FnOnce() -> Candidate, ticks: u64) {
        if ticks > self.floor || (self.kept.len() < most && most > 0) {
            self.keep(most, candidate());
        }
    }

    #[cold]
    fn keep(&mut self, most: usize, candidate: Candidate) {
        if self.kept.len() >= most {
            let shortest = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.ticks);
            let Some(at) = shortest.map(|(at, _)| at) else { return };
            self.kept.swap_remove(at);
        }
        self.kept.push(candidate);
        if self.kept.len() >= most {
            self.floor = self.kept.iter().map(|kept| kept.ticks).min().unwrap_or(0);
        }
    }

    pub(crate) fn kept(&self) -> &[Candidate] {
        &self.kept
    }
}

/// Measurements of one kind of call.
#[derive(Clone, Debug, Default)]
pub(crate) struct KindState {
    pub durations: Histogram,
    /// Locks taken by one call.
    pub acquisitions: Histogram,
    /// Waiting for locks in one call that had to.
    pub waited: Histogram,
    pub failed: u64,
    pub captured: u64,
    pub unknown: u64,
    pub bytes: u64,
    pub longest: Longest,
    pub patterns: Patterns,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(ticks: u64) -> Candidate {
        Candidate {
            ticks,
            enter: 0,
            stream: 0,
            kind: 0,
            function: 0,
            subject: 0,
            detail: 0,
            result: 0,
            captured: false,
            outstanding: 0,
            depth: 0,
            acquisitions: 0,
            waited: 0,
        }
    }

    #[test]
    fn the_longest_calls_are_kept_whatever_the_order() {
        let mut longest = Longest::default();
        for at in 0..1000u64 {
            let ticks = at * 7919 % 1000;
            longest.offer(5, || call(ticks), ticks);
        }
        let mut kept: Vec<u64> = longest.kept().iter().map(|kept| kept.ticks).collect();
        kept.sort_unstable();
        assert_eq!(kept, [995, 996, 997, 998, 999]);
        let mut none = Longest::default();
        none.offer(0, || call(1), 1);
        assert!(none.kept().is_empty());
    }
}
