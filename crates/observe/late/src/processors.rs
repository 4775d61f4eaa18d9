//! State of the threads and processors, from the records of the scheduler: running, able to run, or
//! neither. The second pass explains with it; the first pass counts with it, and leaves copies of
//! it behind ([`Processors::of`]) at which the second one can begin.

use crate::hash::Map;
use record::{Kind, Record, SwitchDetail};
use std::collections::HashSet;
use trace::metadata::Tier;

/// A thread that is not known; thread 0 is an idle processor.
pub(crate) const UNKNOWN_TID: u32 = u32::MAX;
/// The processor of a thread that is known to run, but not where.
const SOMEWHERE: u32 = u32::MAX;

/// Value for an unknown priority.
pub(crate) const UNKNOWN_PRIORITY: u16 = u16::MAX;

/// A thread and its priority at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub tid: u32,
    /// The kernel's number of the priority, or `UNKNOWN_PRIORITY`.
    pub priority: u16,
}

/// State of a thread for the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stand {
    /// Running on a processor.
    Running,
    /// Taken off its processor, where this one runs now.
    Preempted(Who),
    /// Woken, and behind this one.
    Woken(Who),
    /// Off the processor, and not able to run.
    Blocked,
    /// Not recorded.
    NotRecorded,
    /// Recorded, but records are missing.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    Running,
    Preempted,
    Woken,
    Blocked,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    state: Recorded,
    processor: u32,
    since: u64,
}

/// All threads and processors.
#[derive(Clone, Debug)]
pub(crate) struct Processors {
    tier: Tier,
    tasks: Map<u32, Task>,
    running: Map<u32, (u32, u64)>,
    priorities: Map<u32, u16>,
    /// Processors whose records are missing now.
    lost: Vec<(u32, Missing)>,
}

/// Extent of a gap in a processor's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// One switch, which concerns only the thread that left and the one that came.
    Switch,
    /// Anything.
    Anything,
}

/// A thread's demand for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// It wants none, or that is not known.
    No,
    /// It has a processor.
    Has,
    /// It has had no processor since then.
    Since(u64),
}

/// A thread came to another processor than the one it had left, where the same thread had run all
/// the time since it was able to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub tid: u32,
    /// Time at which the thread became able to run.
    pub able: u64,
    /// The thread that ran on the processor that it came to.
    pub behind: Who,
}

impl Processors {
    pub(crate) fn new(tier: Tier) -> Processors {
        Processors {
            tier,
            tasks: Map::default(),
            running: Map::default(),
            priorities: Map::default(),
            lost: Vec::new(),
        }
    }

    /// Returns the present state of a thread.
    pub(crate) fn stand(&self, tid: u32) -> Stand {
        if self.tier == Tier::Preload {
            return Stand::NotRecorded;
        }
        let Some(task) = self.tasks.get(&tid) else { return Stand::Lost };
        let waits = matches!(task.state, Recorded::Preempted | Recorded::Woken);
        // A thread that waits for a processor with a missing switch may be the one that came.
        let may_have_come = |(processor, missing): &(u32, Missing)| {
            *missing == Missing::Anything || waits && *processor == task.processor
        };
        if self.lost.iter().any(may_have_come) {
            return Stand::Lost;
        }
        let there = || {
            let running = self.running.get(&task.processor);
            self.who(running.map_or(UNKNOWN_TID, |(tid, _)| *tid))
        };
        match task.state {
            Recorded::Running => Stand::Running,
            Recorded::Preempted => Stand::Preempted(there()),
            Recorded::Woken => Stand::Woken(there()),
            Recorded::Blocked => Stand::Blocked,
        }
    }

    /// Returns a thread's demand for a processor.
    pub(crate) fn wants(&self, tid: u32) -> Wants {
        match self.tasks.get(&tid) {
            Some(Task { state: Recorded::Running, .. }) => Wants::Has,
            Some(Task { state: Recorded::Preempted | Recorded::Woken, since, .. }) => {
                Wants::Since(*since)
            }
            _ => Wants::No,
        }
    }

    /// Returns the number of threads that want a processor.
    pub(crate) fn wanting(&self) -> u32 {
        self.tasks.keys().filter(|tid| self.wants(**tid) != Wants::No).count() as u32
    }

    /// Returns true if no records are missing now except for single switches.
    pub(crate) fn follows(&self) -> bool {
        self.lost.iter().all(|(_, missing)| *missing == Missing::Switch)
    }

    /// Returns a copy of the state of these threads and of the threads that run.
    pub(crate) fn of(&self, tids: &HashSet<u32>) -> Processors {
        let kept = |tid: &u32| {
            tids.contains(tid) || self.running.values().any(|(running, _)| running == tid)
        };
        let tasks = self.tasks.iter().filter(|(tid, _)| kept(tid));
        let priorities = self.priorities.iter().filter(|(tid, _)| kept(tid));
        Processors {
            tier: self.tier,
            tasks: tasks.map(|(tid, task)| (*tid, *task)).collect(),
            running: self.running.clone(),
            priorities: priorities.map(|(tid, priority)| (*tid, *priority)).collect(),
            lost: self.lost.clone(),
        }
    }

    /// The processor that a thread is on, or was on last.
    pub(crate) fn processor(&self, tid: u32) -> Option<u32> {
        self.tasks.get(&tid).map(|task| task.processor)
    }

    /// A thread with its latest priority.
    pub(crate) fn who(&self, tid: u32) -> Who {
        Who { tid, priority: self.priorities.get(&tid).copied().unwrap_or(UNKNOWN_PRIORITY) }
    }

    /// A thread did something, so it runs. True if that was not known.
    pub(crate) fn acts(&mut self, tid: u32, now: u64) -> bool {
        let running =
            self.tasks.get(&tid).is_some_and(|task| matches!(task.state, Recorded::Running));
        let anything = self.lost.iter().any(|(_, missing)| *missing == Missing::Anything);
        if self.tier == Tier::Preload || anything || running {
            return false;
        }
        self.put(tid, Recorded::Running, SOMEWHERE, now);
        true
    }

    /// Records of a processor are missing from now on.
    pub(crate) fn gap_begins(&mut self, processor: u32, missing: Missing) {
        self.lost.retain(|(lost, _)| *lost != processor);
        self.lost.push((processor, missing));
        if missing == Missing::Switch {
            if let Some((tid, _)) = self.running.remove(&processor) {
                self.tasks.remove(&tid);
            }
        } else {
            self.tasks.clear();
            self.running.clear();
        }
    }

    /// Records of a processor come again.
    pub(crate) fn gap_ends(&mut self, processor: u32) {
        self.lost.retain(|(lost, _)| *lost != processor);
    }

    /// A kernel's record.
    pub(crate) fn apply(&mut self, record: &Record) -> Option<Came> {
        let (now, processor) = (record.time, record.number);
        match record.kind {
            Kind::Switch => return self.switch(record),
            Kind::Wakeup => {
                let (wakee, priority) = (record.subject as u32, record.detail as u16);
                self.priorities.insert(wakee, priority);
                match self.tasks.get_mut(&wakee) {
                    Some(task) if task.state == Recorded::Blocked => {
                        (task.state, task.since) = (Recorded::Woken, now);
                    }
                    Some(_) => {}
                    None => self.put(wakee, Recorded::Woken, SOMEWHERE, now),
                }
            }
            Kind::OffCpu => {
                let preempted = record.detail == 1;
                let state = if preempted { Recorded::Preempted } else { Recorded::Blocked };
                self.leave(record.subject as u32, state, processor, now);
                self.running.remove(&processor);
            }
            Kind::OnCpu => {
                let tid = record.subject as u32;
                self.put(tid, Recorded::Running, processor, now);
                self.running.insert(processor, (tid, now));
            }
            Kind::Boost => {
                self.priorities.insert(record.subject as u32, record.detail as u16);
            }
            _ => {}
        }
        None
    }

    fn switch(&mut self, record: &Record) -> Option<Came> {
        let (now, processor) = (record.time, record.number);
        let detail = SwitchDetail::unpack(record.detail);
        let (from, to) = ((record.subject >> 32) as u32, record.subject as u32);
        self.priorities.insert(from, detail.from_priority);
        self.priorities.insert(to, detail.to_priority);
        let came = self.came(to, processor);
        let state = if detail.preempted() { Recorded::Preempted } else { Recorded::Blocked };
        self.leave(from, state, processor, now);
        self.put(to, Recorded::Running, processor, now);
        self.running.insert(processor, (to, now));
        came
    }

    fn came(&self, tid: u32, processor: u32) -> Option<Came> {
        let task = self.tasks.get(&tid)?;
        let (behind, since) = *self.running.get(&processor)?;
        let moved = task.processor != processor && task.state != Recorded::Running;
        let (able, behind) = (task.since, self.who(behind));
        (moved && since <= able).then_some(Came { tid, able, behind })
    }

    fn put(&mut self, tid: u32, state: Recorded, processor: u32, now: u64) {
        if tid != 0 {
            self.tasks.insert(tid, Task { state, processor, since: now });
        }
    }

    fn leave(&mut self, tid: u32, state: Recorded, processor: u32, now: u64) {
        // A thread that is known to run elsewhere by now is not taken back.
        let elsewhere = self.tasks.get(&tid).is_some_and(|task| {
            let there = task.processor != processor && task.processor != SOMEWHERE;
            task.state == Recorded::Running && there
        });
        if !elsewhere {
            self.put(tid, state, processor, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(time: u64, processor: u32, from: u32, to: u32, state: u32) -> Record {
        let detail = SwitchDetail { from_priority: 120, to_priority: 120, from_state: state };
        let subject = u64::from(from) << 32 | u64::from(to);
        Record { time, subject, detail: detail.pack(), number: processor, kind: Kind::Switch }
    }

    fn wakeup(time: u64, tid: u32) -> Record {
        Record { time, subject: u64::from(tid), detail: 120, number: 0, kind: Kind::Wakeup }
    }

    fn who(tid: u32) -> Who {
        Who { tid, priority: 120 }
    }

    #[test]
    fn a_thread_is_what_its_records_say() {
        let mut machine = Processors::new(Tier::Scheduler);
        assert_eq!(machine.stand(5), Stand::Lost);
        assert!(machine.acts(5, 0));
        assert_eq!(machine.stand(5), Stand::Running);
        machine.apply(&switch(10, 0, 5, 6, 0));
        assert_eq!(machine.stand(5), Stand::Preempted(who(6)));
        machine.apply(&switch(20, 0, 6, 5, 1));
        assert_eq!((machine.stand(6), machine.stand(5)), (Stand::Blocked, Stand::Running));
        machine.apply(&wakeup(30, 6));
        assert_eq!(machine.stand(6), Stand::Woken(who(5)));
        machine.apply(&switch(40, 0, 5, 7, 0));
        machine.apply(&wakeup(45, 5));
        assert_eq!(machine.stand(5), Stand::Preempted(who(7)), "it was able to run already");
        machine.gap_begins(1, Missing::Anything);
        assert_eq!(machine.stand(5), Stand::Lost);
        machine.gap_ends(1);
        assert!(machine.acts(5, 50));
    }

    #[test]
    fn a_missing_switch_concerns_who_left_and_who_may_have_come() {
        let mut machine = Processors::new(Tier::Scheduler);
        machine.apply(&switch(0, 0, 0, 5, 0));
        machine.apply(&switch(0, 1, 0, 7, 0));
        machine.apply(&switch(10, 1, 7, 8, 0));
        machine.gap_begins(1, Missing::Switch);
        let stands = [5, 7, 8].map(|tid| machine.stand(tid));
        assert_eq!(stands, [Stand::Running, Stand::Lost, Stand::Lost]);
        machine.gap_ends(1);
        assert!(matches!(machine.stand(7), Stand::Preempted(_)));
        assert_eq!(machine.stand(8), Stand::Lost);
        assert!(machine.acts(7, 20) && machine.acts(8, 20));
        assert_eq!([7, 8].map(|tid| machine.stand(tid)), [Stand::Running, Stand::Running]);
    }

    #[test]
    fn who_moves_to_another_processor_was_behind_who_ran_there() {
        let mut machine = Processors::new(Tier::Scheduler);
        machine.apply(&switch(0, 0, 0, 5, 0));
        machine.apply(&switch(0, 1, 0, 7, 0));
        machine.apply(&switch(10, 0, 5, 6, 0));
        let came = machine.apply(&switch(40, 1, 7, 5, 0));
        assert_eq!(came, Some(Came { tid: 5, able: 10, behind: who(7) }));
        machine.apply(&switch(50, 1, 5, 8, 0));
        assert_eq!(machine.apply(&switch(60, 1, 8, 5, 0)), None);
        machine.apply(&switch(70, 1, 5, 8, 0));
        machine.apply(&switch(80, 0, 6, 9, 0));
        assert_eq!(machine.apply(&switch(90, 0, 9, 5, 0)), None, "9 came later than 5 was able");
    }

    #[test]
    fn without_records_of_the_scheduler_nothing_is_known() {
        let mut machine = Processors::new(Tier::Preload);
        assert!(!machine.acts(5, 0));
        assert_eq!(machine.stand(5), Stand::NotRecorded);
    }
}
