//! Results of a collector, and checks that must hold for them.

use super::program::Program;
use record::clock::{Calibration, Reading};
use record::{Kind, Raw, Record};
use std::collections::BTreeMap;
use trace::kernel::{Collected, Started};

/// Results of a collector for a program, and the ticks just before and after.
pub(crate) struct Seen {
    pub collected: Collected,
    pub said: BTreeMap<String, u64>,
    pub process: u32,
    pub before: u64,
    pub after: u64,
}

/// Runs a program under a collector.
pub(crate) fn collect(started: Started, program: Program) -> Seen {
    let process = program.id();
    let start = Reading::take();
    let said = program.run();
    let end = Reading::take();
    let clock = Calibration::between(start, end).unwrap();
    let collected = started.collector.finish(&clock);
    let seen = Seen { collected, said, process, before: start.ticks, after: end.ticks };
    seen.streams_are_in_order();
    seen
}

impl Seen {
    pub(crate) fn thread(&self, name: &str) -> u32 {
        self.said[name] as u32
    }

    pub(crate) fn streams_are_in_order(&self) {
        let streams = &self.collected.processors;
        assert!(streams.is_sorted_by(|one, other| one.processor < other.processor));
        for stream in streams {
            assert!(stream.records.is_sorted_by_key(|record| record.time));
            assert!(stream.records.iter().all(|record| record.lap == 0));
            assert!(stream.lost.iter().all(|range| range.count > 0 && range.first <= range.last));
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        let ranges = self.collected.processors.iter().flat_map(|stream| &stream.lost);
        ranges.map(|range| range.count).sum()
    }

    /// The kernel of a virtual machine was seen to leave out switches away from the idle thread.
    pub(crate) fn little_is_lost(&self) {
        let (lost, records) = (self.lost(), self.records().len() as u64);
        assert!(lost * 4 <= records, "{lost} lost, {records} records");
        eprintln!("{lost} lost, {records} records; notes: {:?}", self.collected.notes);
    }

    /// All records, in the order of time.
    pub(crate) fn records(&self) -> Vec<Record> {
        let raw = self.collected.processors.iter().flat_map(|stream| &stream.records);
        let known = |raw: &Raw| Record::from_raw(raw).expect("a known kind");
        let mut records: Vec<Record> = raw.map(known).collect();
        records.sort_by_key(|record| record.time);
        records
    }

    /// Returns the times at which a thread came and left: time, true if it came, the record.
    pub(crate) fn visits(&self, thread: u32) -> Vec<(u64, bool, Record)> {
        let visit = |record: Record| {
            let (high, low) = ((record.subject >> 32) as u32, record.subject as u32);
            let on = match record.kind {
                Kind::Switch if high == thread => false,
                Kind::Switch if low == thread => true,
                Kind::OnCpu if low == thread => true,
                Kind::OffCpu if low == thread => false,
                _ => return None,
            };
            Some((record.time, on, record))
        };
        self.records().into_iter().filter_map(visit).collect()
    }

    /// Returns true if records of a processor are said to be missing in an interval.
    pub(crate) fn is_unknown(&self, from: u64, to: u64) -> bool {
        let mut lost = self.collected.processors.iter().flat_map(|stream| &stream.lost);
        lost.any(|range| range.first <= to && from <= range.last)
    }

    /// The thread comes first, then leaves and comes in turn, all while the program ran; unless
    /// it is said that something is missing.
    pub(crate) fn alternates(&self, thread: u32) {
        let visits = self.visits(thread);
        assert!(visits.len() > 40, "{} switches of thread {thread}", visits.len());
        assert!(visits[0].1 || self.is_unknown(self.before, visits[0].0), "{:?}", visits[0]);
        for pair in visits.windows(2).filter(|pair| pair[0].1 == pair[1].1) {
            if self.is_unknown(pair[0].0, pair[1].0) {
                continue;
            }
            let between = pair[0].0..=pair[1].0;
            let records = self.records().into_iter().filter(|r| between.contains(&r.time));
            panic!("thread {thread}: {:#?}", records.collect::<Vec<_>>());
        }
        for (time, ..) in &visits {
            assert!((self.before..=self.after).contains(time), "{time} is not while it ran");
        }
    }

    pub(crate) fn task(&self, thread: u32) -> (&str, u32) {
        let task = self.collected.tasks.iter().find(|task| task.thread == thread);
        task.map(|task| (task.name.as_str(), task.pid)).expect("a task of the thread")
    }
}
