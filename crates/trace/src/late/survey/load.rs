//! How many threads of the machine wanted a processor, from the kernel's records.
//!
//! A thread wants one from its wake-up until it leaves a processor and could not have run on. The
//! number of them is compared with the number of processors over time, and for each thread the
//! time between being able to run and running is gathered. Where records of a processor are
//! missing, nothing is known of any thread, and time does not count until the gap is over.

use crate::late::hash::Map;
use record::{Kind, Record, SwitchDetail};

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    wants: bool,
    running: bool,
    since: u64,
    waited: u64,
    longest: u64,
    longest_at: u64,
    times: u64,
    priority: Option<u16>,
}

/// What a thread waited for processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorWait {
    pub ticks: u64,
    pub times: u64,
    pub longest: u64,
    pub longest_at: u64,
    pub priority: Option<u16>,
}

/// Threads that want processors.
#[derive(Debug, Default)]
pub struct LoadState {
    processors: u32,
    tasks: Map<u32, Task>,
    wanting: u32,
    last: Option<u64>,
    unknown_until: u64,
    pub observed: u64,
    pub over: u64,
    pub most: u32,
    pub most_at: u64,
}

impl LoadState {
    /// For a machine with so many processors.
    pub fn new(processors: u32) -> LoadState {
        LoadState { processors, ..LoadState::default() }
    }

    /// A kernel's record.
    pub fn apply(&mut self, record: &Record) {
        self.pass(record.time);
        match record.kind {
            Kind::Switch => {
                let detail = SwitchDetail::unpack(record.detail);
                let (from, to) = ((record.subject >> 32) as u32, record.subject as u32);
                self.leaves(from, detail, record.time);
                self.comes(to, detail.to_priority, record.time);
            }
            Kind::Wakeup => self.wakes(record.subject as u32, record.time),
            _ => return,
        }
        if self.wanting > self.most {
            (self.most, self.most_at) = (self.wanting, record.time);
        }
    }

    /// Records of a processor are missing until then.
    pub fn gap(&mut self, from: u64, until: u64) {
        self.pass(from);
        self.unknown_until = self.unknown_until.max(until);
        self.wanting = 0;
        for task in self.tasks.values_mut() {
            (task.wants, task.running) = (false, false);
        }
    }

    fn pass(&mut self, now: u64) {
        let last = self.last.unwrap_or(now).max(self.unknown_until);
        let passed = now.saturating_sub(last);
        self.observed += passed;
        if self.wanting > self.processors {
            self.over += passed;
        }
        self.last = Some(now.max(self.last.unwrap_or(now)));
    }

    fn leaves(&mut self, tid: u32, detail: SwitchDetail, now: u64) {
        if tid == 0 {
            return;
        }
        let task = self.tasks.entry(tid).or_default();
        task.priority = Some(detail.from_priority);
        let wants = detail.preempted();
        self.wanting += u32::from(wants && !task.wants);
        self.wanting -= u32::from(!wants && task.wants);
        (task.wants, task.running, task.since) = (wants, false, now);
    }

    fn comes(&mut self, tid: u32, priority: u16, now: u64) {
        if tid == 0 {
            return;
        }
        let task = self.tasks.entry(tid).or_default();
        task.priority = Some(priority);
        if task.wants && !task.running {
            let waited = now.saturating_sub(task.since);
            task.waited += waited;
            task.times += 1;
            if waited > task.longest {
                (task.longest, task.longest_at) = (waited, task.since);
            }
        }
        self.wanting += u32::from(!task.wants);
        (task.wants, task.running) = (true, true);
    }

    fn wakes(&mut self, tid: u32, now: u64) {
        let task = self.tasks.entry(tid).or_default();
        if tid != 0 && !task.wants {
            (task.wants, task.running, task.since) = (true, false, now);
            self.wanting += 1;
        }
    }

    /// What a thread waited for processors.
    pub fn waited(&self, tid: u32) -> Option<ProcessorWait> {
        let task = self.tasks.get(&tid)?;
        Some(ProcessorWait {
            ticks: task.waited,
            times: task.times,
            longest: task.longest,
            longest_at: task.longest_at,
            priority: task.priority,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut load = LoadState::new(1);
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
        let waited = load.waited(6).unwrap();
        assert_eq!((waited.ticks, waited.longest_at, waited.times), (30, 10, 1));
        assert_eq!(load.waited(5).unwrap().ticks, 20);
    }

    #[test]
    fn gap_is_neither_observed_nor_waited_through() {
        let mut load = LoadState::new(1);
        load.apply(&switch(0, 0, 5, false));
        load.apply(&wakeup(10, 6));
        load.gap(20, 50);
        load.apply(&switch(60, 5, 6, false));
        assert_eq!((load.observed, load.over), (30, 10));
        assert_eq!(load.waited(6).unwrap().ticks, 0);
    }
}
