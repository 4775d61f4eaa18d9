//! The records of one processor, of bounded number: the first or the last ones.
//!
//! Called by [`super::switches`].

use super::add_range;
use crate::metadata::LostRange;
use record::layout::Raw;
use std::collections::VecDeque;

/// A bounded list of records.
#[derive(Debug)]
pub(super) struct Kept {
    capacity: usize,
    keep_last: bool,
    records: VecDeque<Raw>,
    discarded: LostRange,
    lost: Vec<LostRange>,
    last: u64,
}

impl Kept {
    /// An empty one for records that come after `start`.
    pub(super) fn new(capacity: usize, keep_last: bool, start: u64) -> Kept {
        let discarded = LostRange::default();
        let (records, lost) = (VecDeque::new(), Vec::new());
        Kept { capacity: capacity.max(1), keep_last, records, discarded, lost, last: start }
    }

    /// Adds a record; when it is full, the newest or the oldest is discarded and counted.
    pub(super) fn push(&mut self, record: Raw) {
        self.last = record.time;
        if self.records.len() < self.capacity {
            self.records.push_back(record);
            return;
        }
        let gone = if self.keep_last {
            self.records.push_back(record);
            self.records.pop_front().map_or(record.time, |oldest| oldest.time)
        } else {
            record.time
        };
        if self.discarded.count == 0 {
            self.discarded.first = gone;
        }
        self.discarded.count += 1;
        self.discarded.last = gone;
    }

    /// Counts records that are missing between the last one and `now`.
    pub(super) fn lost(&mut self, count: u64, now: u64) {
        if count == 0 {
            return;
        }
        add_range(&mut self.lost, LostRange { count, first: self.last.min(now), last: now });
        self.last = now;
    }

    /// Returns the number of records that were reported as missing.
    pub(super) fn lost_count(&self) -> u64 {
        self.lost.iter().map(|range| range.count).sum()
    }

    /// The records and what is missing, with every time changed by `ticks`.
    pub(super) fn finish(self, ticks: impl Fn(u64) -> u64) -> (Vec<Raw>, Vec<LostRange>) {
        let record = |raw: Raw| Raw { time: ticks(raw.time), ..raw };
        let range = |range: LostRange| LostRange {
            count: range.count,
            first: ticks(range.first),
            last: ticks(range.last),
        };
        let discarded = (self.discarded.count > 0).then_some(self.discarded);
        let mut lost: Vec<_> = self.lost.into_iter().chain(discarded).map(range).collect();
        lost.sort_by_key(|range| range.first);
        (self.records.into_iter().map(record).collect(), lost)
    }
}

#[cfg(test)]
mod tests {
    use super::super::MOST_RANGES;
    use super::*;

    fn record(time: u64) -> Raw {
        Raw { time, subject: 0, detail: 0, number: 0, kind: 1, lap: 0 }
    }

    fn kept(keep_last: bool) -> (Vec<u64>, Vec<LostRange>) {
        let mut kept = Kept::new(3, keep_last, 0);
        (1..=7).for_each(|time| kept.push(record(time)));
        let (records, lost) = kept.finish(|time| time * 10);
        (records.iter().map(|record| record.time).collect(), lost)
    }

    #[test]
    fn full_list_keeps_the_first_or_the_last_and_counts_the_others() {
        let lost = |first, last| LostRange { count: 4, first, last };
        assert_eq!(kept(false), (vec![10, 20, 30], vec![lost(40, 70)]));
        assert_eq!(kept(true), (vec![50, 60, 70], vec![lost(10, 40)]));
    }

    #[test]
    fn lost_records_lie_after_the_last_one_and_many_ranges_become_one() {
        let mut kept = Kept::new(10, false, 5);
        kept.lost(2, 8);
        kept.push(record(9));
        kept.lost(0, 10);
        (0..5000).for_each(|extra| kept.lost(1, 20 + extra));
        assert_eq!(kept.lost_count(), 5002);
        let (_, lost) = kept.finish(|time| time);
        assert_eq!(lost.len(), MOST_RANGES);
        assert_eq!(lost[0], LostRange { count: 2, first: 5, last: 8 });
        assert_eq!(lost[1], LostRange { count: 1, first: 9, last: 20 });
        assert_eq!(lost[MOST_RANGES - 1].last, 5019);
    }
}
