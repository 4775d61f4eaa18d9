//! Number of the machine's threads that wanted a processor, from the kernel's records.
//!
//! A thread wants one from its wake-up until it leaves a processor and could not have run on. The
//! number of them is compared with the number of processors over time, and for each thread the
//! time between being able to run and running is gathered. Where records of a processor are
//! missing, nothing is known of any thread, and time does not count until the gap is over.

use crate::hash::Map;
use crate::processors::{Missing, Processors, Wants};
use record::{Kind, Record};
use std::collections::HashSet;
use trace::metadata::Tier;

/// Most copies of the scheduler's state that are kept for the second pass.
const MOST_COPIES: usize = 256;

/// Time for which a thread waited for processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessorWait {
    pub ticks: u64,
    pub times: u64,
    pub longest: u64,
    pub longest_at: u64,
}

/// The scheduler's state at a time.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub time: u64,
    pub processors: Processors,
}

/// Threads that want processors.
#[derive(Debug)]
pub(crate) struct LoadState {
    count: u32,
    pub processors: Processors,
    waits: Map<u32, ProcessorWait>,
    wanting: u32,
    last: Option<u64>,
    pub observed: u64,
    pub over: u64,
    pub most: u32,
    pub most_at: u64,
    /// Threads of the program.
    tids: HashSet<u32>,
    /// Number of blocks for each copy.
    stride: usize,
    blocks: usize,
    pub checkpoints: Vec<Checkpoint>,
}

impl LoadState {
    /// Creates the state for a machine with `count` processors, whose records are in `blocks`
    /// blocks, and a program with these threads.
    pub(crate) fn new(
        tier: Tier,
        count: u32,
        blocks: usize,
        most: usize,
        tids: HashSet<u32>,
    ) -> LoadState {
        LoadState {
            count,
            processors: Processors::new(tier),
            waits: Map::default(),
            wanting: 0,
            last: None,
            observed: 0,
            over: 0,
            most: 0,
            most_at: 0,
            tids,
            stride: blocks.div_ceil(most.clamp(1, MOST_COPIES)).max(1),
            blocks: 0,
            checkpoints: Vec::new(),
        }
    }

    /// A block of a processor begins: records that were missing before it are there again.
    pub(crate) fn block_begins(&mut self, processor: u32, now: u64) {
        self.pass(now);
        self.processors.gap_ends(processor);
        if self.blocks % self.stride == 0 {
            let processors = self.processors.of(&self.tids);
            self.checkpoints.push(Checkpoint { time: now, processors });
        }
        self.blocks += 1;
    }

    /// A kernel's record.
    pub(crate) fn apply(&mut self, record: &Record) {
        self.pass(record.time);
        let (first, second) = ((record.subject >> 32) as u32, record.subject as u32);
        match record.kind {
            Kind::Switch => {
                let before = [first, second].map(|tid| self.processors.wants(tid));
                if let Wants::Since(since) = before[1] {
                    self.waited(second, since, record.time);
                }
                self.processors.apply(record);
                self.count(first, before[0]);
                self.count(second, before[1]);
            }
            Kind::Wakeup | Kind::OffCpu | Kind::OnCpu => {
                let before = self.processors.wants(second);
                self.processors.apply(record);
                self.count(second, before);
            }
            _ => {
                self.processors.apply(record);
            }
        }
        if self.wanting > self.most {
            (self.most, self.most_at) = (self.wanting, record.time);
        }
    }

    /// Records of a processor are missing from now on.
    pub(crate) fn gap_begins(&mut self, processor: u32, missing: Missing, now: u64) {
        self.pass(now);
        self.processors.gap_begins(processor, missing);
        self.wanting = self.processors.wanting();
    }

    /// Time passes.
    fn pass(&mut self, now: u64) {
        let last = self.last.unwrap_or(now);
        let passed = now.saturating_sub(last);
        if self.processors.follows() {
            self.observed += passed;
            self.over += if self.wanting > self.count { passed } else { 0 };
        }
        self.last = Some(now.max(last));
    }

    /// Counts a thread that may have begun or ceased to want a processor.
    fn count(&mut self, tid: u32, before: Wants) {
        let [before, now] = [before, self.processors.wants(tid)].map(|wants| wants != Wants::No);
        self.wanting += u32::from(now && !before);
        self.wanting -= u32::from(before && !now);
    }

    fn waited(&mut self, tid: u32, since: u64, now: u64) {
        let wait = self.waits.entry(tid).or_default();
        let ticks = now.saturating_sub(since);
        wait.ticks += ticks;
        wait.times += 1;
        if ticks > wait.longest {
            (wait.longest, wait.longest_at) = (ticks, since);
        }
    }

    /// Returns the time for which a thread waited for processors.
    pub(crate) fn wait_of(&self, tid: u32) -> ProcessorWait {
        self.waits.get(&tid).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::SwitchDetail;

    fn load() -> LoadState {
        LoadState::new(Tier::Scheduler, 1, 8, 4, HashSet::from([5]))
    }

    fn switch(time: u64, from: u32, to: u32, blocked: bool) -> Record {
        let detail =
            SwitchDetail { from_priority: 120, to_priority: 110, from_state: u32::from(blocked) };
        Record {
            time,
            subject: u64::from(from) << 32 | u64::from(to),
            detail: detail.pack(),
            number: 0,
            kind: Kind::Switch,
        }
    }

    fn wakeup(time: u64, tid: u32) -> Record {
        Record { time, subject: u64::from(tid), detail: 0, number: 0, kind: Kind::Wakeup }
    }

    #[test]
    fn time_with_more_threads_than_processors_is_counted() {
        let mut load = load();
        for record in [
            switch(0, 0, 5, false),
            wakeup(10, 6),
            switch(40, 5, 6, false),
            switch(60, 6, 5, true),
            switch(100, 5, 0, true),
        ] {
            load.apply(&record);
        }
        assert_eq!((load.observed, load.over, load.most), (100, 50, 2));
        let waited = load.wait_of(6);
        assert_eq!((waited.ticks, waited.longest_at, waited.times), (30, 10, 1));
        assert_eq!(load.wait_of(5).ticks, 20);
    }

    #[test]
    fn gap_is_neither_observed_nor_waited_through() {
        let mut load = load();
        load.apply(&switch(0, 0, 5, false));
        load.apply(&wakeup(10, 6));
        load.gap_begins(0, Missing::Anything, 20);
        load.block_begins(0, 50);
        load.apply(&switch(60, 5, 6, false));
        assert_eq!((load.observed, load.over), (30, 10));
        assert_eq!(load.wait_of(6).ticks, 0);
    }

    #[test]
    fn copies_are_few_and_know_the_program_and_who_runs() {
        let mut load = load();
        for block in 0..8 {
            load.block_begins(0, block * 100);
            load.apply(&switch(block * 100 + 10, 5, 6, false));
            load.apply(&wakeup(block * 100 + 20, 7));
            load.apply(&switch(block * 100 + 50, 6, 5, true));
        }
        let times: Vec<u64> = load.checkpoints.iter().map(|copy| copy.time).collect();
        assert_eq!(times, [0, 200, 400, 600]);
        let copy = &load.checkpoints[1].processors;
        assert_eq!([5, 6, 7].map(|tid| copy.wants(tid)), [Wants::Has, Wants::No, Wants::No]);
    }
}
