//! Threads that ran on each processor in a window, and the states of the program's threads
//! meanwhile.
//!
//! The state at the window's begin comes from the records before it in the same block and the one
//! before that; then all records in the window are taken in the order of time. A thread that is
//! switched away from without having come is taken to have come when records came again.

use crate::Error;
use crate::late::spans::Gap;
use record::{Kind, Record, SwitchDetail};
use std::collections::{HashMap, HashSet};
use trace::{StreamKind, Trace};

/// Most records of the scheduler that are looked at for one window.
const MOST_RECORDS: usize = 1 << 19;

/// State of a thread for the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Running on a processor.
    Running = 0,
    /// Taken off its processor while it could have run on.
    Preempted = 1,
    /// Woken, and not on a processor yet.
    Woken = 2,
    /// Off, and not able to run.
    Blocked = 3,
    /// Several of these, each too short to be shown.
    Mixed = 4,
}

/// A time of a thread in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stood {
    pub tid: u32,
    pub from: u64,
    pub to: u64,
    pub state: State,
    /// Processor on which it ran, or ran last.
    pub processor: u32,
}

/// A time of a processor with one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub processor: u32,
    pub from: u64,
    pub to: u64,
    /// Thread id; none: several threads, each too shortly to be shown.
    pub tid: Option<u32>,
    pub priority: u16,
}

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woke {
    pub at: u64,
    pub waker: u32,
    pub wakee: u32,
}

/// Activity of the scheduler in a window.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    pub ran: Vec<Ran>,
    pub stood: Vec<Stood>,
    pub woke: Vec<Woke>,
    /// Changes of priorities by inheritance: the time, the thread, the old and the new priority.
    pub boosts: Vec<(u64, u32, u16, u16)>,
    /// Missing records: the processor, the gap and their number.
    pub lost: Vec<(u32, Gap)>,
    /// Records that were too many to be looked at.
    pub left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Now {
    since: u64,
    state: State,
    processor: u32,
}

#[derive(Clone, Copy, Debug)]
struct Runs {
    since: u64,
    tid: u32,
    priority: u16,
}

/// The machine at one moment.
struct Machine {
    from: u64,
    to: u64,
    processors: HashMap<u32, Runs>,
    /// Time at which records of a processor came again.
    resumed: HashMap<u32, u64>,
    threads: HashMap<u32, Now>,
    /// Threads that were ever seen.
    seen: HashSet<u32>,
    out: Scheduled,
}

/// Reads what the scheduler did from `from` to `to`.
pub(super) fn read(trace: &Trace, from: u64, to: u64) -> Result<Scheduled, Error> {
    let mut machine = Machine {
        from,
        to,
        processors: HashMap::new(),
        resumed: HashMap::new(),
        threads: HashMap::new(),
        seen: HashSet::new(),
        out: Scheduled::default(),
    };
    let mut before: Vec<(u64, u32, Record)> = Vec::new();
    let mut events: Vec<(u64, u32, Record)> = Vec::new();
    let (mut gaps, mut records) = (Vec::new(), Vec::new());
    for of in trace.streams().iter().filter(|of| of.kind == StreamKind::Processor) {
        let within = |block: &trace::Block| block.count > 0 && block.last >= from;
        let first = of.blocks.iter().position(within).unwrap_or(of.blocks.len());
        let mut reached = trace.start();
        let mut latest: HashMap<(u32, bool), (u64, Record)> = HashMap::new();
        for (at, block) in of.blocks.iter().enumerate().skip(first.saturating_sub(1)) {
            if block.count > 0 && block.first > to {
                break;
            }
            gaps.extend(Gap::before(block, reached).map(|gap| (of.id, gap)));
            trace.read(block, &mut records)?;
            for record in &records {
                reached = reached.max(record.time);
                if record.time < from {
                    keep_latest(&mut latest, record);
                } else if record.time <= to && events.len() < MOST_RECORDS {
                    events.push((reached, of.id, *record));
                } else {
                    machine.out.left_out += u64::from(record.time <= to);
                }
            }
            let next = of.blocks.get(at + 1).map(|next| next.first);
            gaps.extend(Gap::after(block, reached, next).map(|gap| (of.id, gap)));
        }
        before.extend(latest.into_values().map(|(time, record)| (time, of.id, record)));
    }
    before.sort_by_key(|(time, processor, _)| (*time, *processor));
    before.iter().for_each(|(time, processor, record)| machine.take(*time, *processor, record));
    gaps.retain(|(_, gap)| gap.from <= to && gap.to >= from);
    gaps.sort_by_key(|(_, gap)| gap.from);
    events.sort_by_key(|(time, ..)| *time);
    let mut coming = gaps.iter().peekable();
    for (time, processor, record) in &events {
        while let Some((of, gap)) = coming.next_if(|(_, gap)| gap.from <= *time && gap.to <= *time)
        {
            machine.gap(*of, gap);
        }
        machine.take(*time, *processor, record);
    }
    coming.for_each(|(of, gap)| machine.gap(*of, gap));
    Ok(machine.finish(gaps.clone()))
}

/// Keeps what says best where a thread is: its latest switch or wake-up.
fn keep_latest(latest: &mut HashMap<(u32, bool), (u64, Record)>, record: &Record) {
    let (first, second) = ((record.subject >> 32) as u32, record.subject as u32);
    let mut keep = |tid: u32, wakes: bool| latest.insert((tid, wakes), (record.time, *record));
    match record.kind {
        Kind::Switch => {
            keep(first, false);
            keep(second, false);
        }
        Kind::Wakeup => _ = keep(second, true),
        Kind::OffCpu | Kind::OnCpu => _ = keep(second, false),
        _ => {}
    }
}

impl Machine {
    fn take(&mut self, now: u64, processor: u32, record: &Record) {
        let (first, second) = ((record.subject >> 32) as u32, record.subject as u32);
        match record.kind {
            Kind::Switch => {
                let detail = SwitchDetail::unpack(record.detail);
                self.leaves(processor, now, first, detail.preempted());
                self.comes(processor, now, second, detail.to_priority);
            }
            Kind::OffCpu => self.leaves(processor, now, second, record.detail == 1),
            Kind::OnCpu => self.comes(processor, now, second, 0),
            Kind::Wakeup => {
                if now >= self.from && self.seen.insert(second) {
                    // A thread that is woken was not able to run before.
                    let (since, state) = (self.from, State::Blocked);
                    self.stood(second, Now { since, state, processor }, now);
                }
                if self.threads.get(&second).is_none_or(|thread| thread.state == State::Blocked) {
                    let on = self.threads.get(&second).map_or(processor, |of| of.processor);
                    self.stands(second, now, State::Woken, on);
                }
                if now >= self.from {
                    self.out.woke.push(Woke { at: now, waker: first, wakee: second });
                }
            }
            Kind::Boost if now >= self.from => {
                let old = (record.detail >> 32) as u16;
                self.out.boosts.push((now, second, old, record.detail as u16));
            }
            _ => {}
        }
    }

    fn leaves(&mut self, processor: u32, now: u64, tid: u32, preempted: bool) {
        match self.processors.remove(&processor) {
            Some(runs) if runs.tid == tid => self.ran(processor, runs, now),
            other => {
                // It came while records were missing.
                let since = self.resumed.get(&processor).copied().unwrap_or(now);
                if let Some(runs) = other {
                    self.ran(processor, runs, since);
                }
                self.ran(processor, Runs { since, tid, priority: 0 }, now);
                self.stands(tid, since, State::Running, processor);
            }
        }
        // A thread that is known to run elsewhere by now is not taken back.
        let elsewhere = |of: &Now| of.state == State::Running && of.processor != processor;
        if !self.threads.get(&tid).is_some_and(elsewhere) {
            let state = if preempted { State::Preempted } else { State::Blocked };
            self.stands(tid, now, state, processor);
        }
    }

    fn comes(&mut self, processor: u32, now: u64, tid: u32, priority: u16) {
        if let Some(runs) = self.processors.insert(processor, Runs { since: now, tid, priority }) {
            self.ran(processor, runs, now);
        }
        self.stands(tid, now, State::Running, processor);
    }

    fn ran(&mut self, processor: u32, runs: Runs, to: u64) {
        let Runs { since: from, tid, priority } = runs;
        if to > from && to >= self.from {
            self.out.ran.push(Ran { processor, from, to, tid: Some(tid), priority });
        }
    }

    /// A thread is something else from now on.
    fn stands(&mut self, tid: u32, now: u64, state: State, processor: u32) {
        if tid == 0 {
            return;
        }
        self.seen.insert(tid);
        let new = Now { since: now, state, processor };
        if let Some(before) = self.threads.insert(tid, new) {
            self.stood(tid, before, now);
        }
    }

    fn stood(&mut self, tid: u32, of: Now, to: u64) {
        let Now { since: from, state, processor } = of;
        if to > from && to >= self.from {
            self.out.stood.push(Stood { tid, from, to, state, processor });
        }
    }

    /// Records of a processor are missing: who ran there, or could have, is not known any more.
    fn gap(&mut self, processor: u32, gap: &Gap) {
        if let Some(runs) = self.processors.remove(&processor) {
            self.ran(processor, runs, gap.from);
        }
        self.resumed.insert(processor, gap.to);
        let there = |of: &Now| of.processor == processor && of.state != State::Blocked;
        let unknown = self.threads.iter().filter(|(_, of)| there(of));
        let unknown: Vec<u32> = unknown.map(|(tid, _)| *tid).collect();
        for tid in unknown {
            if let Some(of) = self.threads.remove(&tid) {
                self.stood(tid, of, gap.from);
            }
        }
    }

    fn finish(mut self, lost: Vec<(u32, Gap)>) -> Scheduled {
        let to = self.to;
        for (processor, runs) in std::mem::take(&mut self.processors) {
            self.ran(processor, runs, to);
        }
        for (tid, of) in std::mem::take(&mut self.threads) {
            self.stood(tid, of, to);
        }
        self.out.lost = lost;
        self.out.ran.sort_by_key(|ran| (ran.processor, ran.from));
        self.out.stood.sort_by_key(|stood| (stood.tid, stood.from));
        self.out
    }
}

/// Makes neighbours that are too short to be shown one, until no more than `most` are left.
/// `join` makes one of two if they touch and belong together.
pub(super) fn coarser<T>(
    mut spans: Vec<T>,
    most: usize,
    width: u64,
    length: impl Fn(&T) -> u64,
    join: impl Fn(&T, &T) -> Option<T>,
) -> Vec<T> {
    let mut shortest = (width / 8192).max(1);
    while spans.len() > most && shortest <= width {
        let mut joined: Vec<T> = Vec::new();
        for span in spans {
            let short = |of: &T| length(of) < shortest;
            let both = joined.last().filter(|last| short(last) && short(&span));
            match both.and_then(|last| join(last, &span)) {
                Some(one) => *joined.last_mut().expect("it was joined with") = one,
                None => joined.push(span),
            }
        }
        spans = joined;
        shortest *= 2;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_too_short_to_be_shown_become_one() {
        let spans: Vec<(u64, u64)> = (0..1000).map(|at| (at * 10, at * 10 + 10)).collect();
        let length = |span: &(u64, u64)| span.1 - span.0;
        let join = |one: &(u64, u64), two: &(u64, u64)| (one.1 == two.0).then_some((one.0, two.1));
        let coarse = coarser(spans.clone(), 100, 10_000, length, join);
        assert!(coarse.len() <= 100 && coarse.len() > 10, "{}", coarse.len());
        assert_eq!((coarse[0].0, coarse.last().unwrap().1), (0, 10_000));
        assert!(coarse.windows(2).all(|two| two[0].1 == two[1].0));
        assert_eq!(coarser(spans.clone(), 1000, 10_000, length, join), spans);
    }
}
