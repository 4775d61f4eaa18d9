//! Sequences of launches, copies and memory sets that repeat: what a CUDA graph could launch at
//! once.
//!
//! A thread's calls that queue work are gathered until a call comes that no graph can contain: it
//! waits for the device, copies at once, allocates without stream order, loads code
//! ([`crate::graph::Reason`]). Two calls are the same if they are of one function and, for
//! launches, of one kernel, or, for copies, of the same kind of host memory; handles of streams and
//! sizes may differ from round to round.
//!
//! The calls between two cuts are reduced to their shortest period, if they are nothing but
//! repetitions of it: a loop that launches the same sixty kernels ten times before it waits has a
//! unit of sixty. The shortest period of a sequence is its length less its longest border, by the
//! failure function of Knuth, Morris and Pratt. A period of fewer than [`LEAST_CALLS`] calls is
//! not worth a graph; then everything between the cuts is the unit. Equal units of one process are
//! counted together, by their hash.
//!
//! A loop that never waits has no cuts. When [`MOST_CALLS`] are gathered they are searched from
//! their end for the longest part that repeats, so that what came before the loop does not hide
//! it; what is left of its last round is kept, so that the next round begins where it begins. What
//! repeats nowhere in this number of calls is forgotten.
//!
//! Memory: the calls gathered by each thread, and [`MOST_UNITS`] units, of which those that came
//! once are forgotten first and are kept as a few numbers only.

use crate::function::NO_KIND;
use crate::graph::{LEAST_CALLS, WorkCalls};
use crate::hash::{Map, Mix};
use crate::histogram::Histogram;
use std::hash::Hasher;

/// Most calls that are gathered before they are looked at anyway.
const MOST_CALLS: usize = 4096;
/// Most distinct units that are kept.
const MOST_UNITS: usize = 4096;
/// Calls of a unit that are kept to be shown.
const SHOWN: usize = 64;
/// Kernels of a unit that are counted.
const FREQUENT: usize = 3;
/// Kinds of calls that end a unit, which are counted.
const MOST_CUTS: usize = 8;

/// Work that a call gives to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Launch,
    Graph,
    Copy,
    PageableCopy,
    Memset,
}

/// A call that queues work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Hash by which it is compared: equal for the same call.
    pub same: u64,
    pub kind: u32,
    pub acquisitions: u32,
    /// The kernel, or the bytes.
    pub detail: u64,
    pub ticks: u64,
    pub waited: u64,
    pub gives: Gives,
    /// Into the legacy default stream.
    pub default_stream: bool,
}

/// The thread whose calls they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whose {
    pub process: u32,
    pub stream: u32,
}

/// Calls that a thread has queued since the last cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    ops: Vec<Op>,
    border: Vec<u32>,
}

/// A unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    /// The thread that did it first.
    pub whose: Whose,
    pub length: usize,
    pub repeats: u64,
    /// Rows of repetitions without anything between.
    pub runs: u64,
    pub acquisitions: u64,
    pub waited: u64,
    /// Kinds of calls that ended it, with how often.
    pub cuts: Vec<(u32, u64)>,
    /// The time of the only repetition, and of that what a graph would replace.
    first: (u64, u64),
    pub described: Option<Box<Described>>,
}

/// Description of a unit that was repeated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    /// Time of one repetition.
    pub times: Histogram,
    /// The same without copies of pageable memory.
    pub replaced: Histogram,
    /// Its first calls: kind and detail.
    pub shown: Vec<(u32, u64)>,
    /// True for each of them that launches a kernel.
    pub launches: Vec<bool>,
    /// The kernel that it launches first.
    pub first_kernel: Option<u64>,
    /// Its most frequent kernels.
    pub frequent: Vec<(u64, u64)>,
    pub work: WorkCalls,
    pub default_stream: bool,
}

/// The units of all threads.
#[derive(Debug, Default)]
pub(crate) struct Units {
    kept: Map<u64, Unit>,
    /// Kinds of calls that ended what was gathered, with how often.
    pub cuts: Map<u32, u64>,
    /// Units that were not kept, or no more.
    pub forgotten: u64,
}

impl Gathered {
    /// Adds a call.
    #[inline]
    pub(crate) fn add(&mut self, op: Op, units: &mut Units, whose: Whose) {
        if self.ops.len() >= MOST_CALLS {
            self.overflow(units, whose);
        }
        self.ops.push(op);
    }

    /// Forgets what was gathered, since calls are missing.
    pub(crate) fn clear(&mut self) {
        self.ops.clear();
    }

    /// A call of this kind comes that no graph can contain, or the thread ends: counts what was
    /// gathered.
    pub(crate) fn close(&mut self, units: &mut Units, whose: Whose, cut: u32) {
        if self.ops.is_empty() {
            return;
        }
        if cut != NO_KIND {
            *units.cuts.entry(cut).or_default() += 1;
        }
        if self.ops.len() >= 2 {
            let period = self.whole_period().unwrap_or(self.ops.len());
            let repeats = self.ops.len() / period;
            units.add(&self.ops[..repeats * period], period, whose, cut);
        }
        self.ops.clear();
    }

    /// Too many calls without a cut.
    #[cold]
    fn overflow(&mut self, units: &mut Units, whose: Whose) {
        let length = self.ops.len();
        if let Some(period) = self.whole_period() {
            let end = length / period * period;
            units.add(&self.ops[..end], period, whose, NO_KIND);
            self.ops.drain(..end);
            return;
        }
        if let Some((period, covered)) = self.period_at_end() {
            let begin = length - covered / period * period;
            units.add(&self.ops[begin..], period, whose, NO_KIND);
        } else {
            units.forgotten += 1;
        }
        self.ops.clear();
    }

    /// The shortest period of everything, if it has one that is worth a graph and comes at least
    /// twice; the last repetition may be a part.
    fn whole_period(&mut self) -> Option<usize> {
        let (ops, border) = (&self.ops, &mut self.border);
        borders(border, ops.len(), |at| ops[at].same);
        let period = ops.len() - border.last().copied().unwrap_or(0) as usize;
        (is_period(period) && period * 2 <= ops.len()).then_some(period)
    }

    /// The longest part at the end that has such a period: the period, and the part's length.
    fn period_at_end(&mut self) -> Option<(usize, usize)> {
        let (ops, border) = (&self.ops, &mut self.border);
        borders(border, ops.len(), |at| ops[ops.len() - 1 - at].same);
        let parts = border.iter().enumerate().rev();
        let mut parts = parts.map(|(at, border)| (at + 1 - *border as usize, at + 1));
        parts.find(|(period, length)| is_period(*period) && period * 2 <= *length)
    }
}

fn is_period(period: usize) -> bool {
    period as u64 >= LEAST_CALLS
}

/// The length of the longest border of each prefix: what it both begins and ends with.
fn borders(border: &mut Vec<u32>, count: usize, same: impl Fn(usize) -> u64) {
    border.clear();
    let mut length = 0usize;
    for at in 0..count {
        while length > 0 && same(at) != same(length) {
            length = border[length - 1] as usize;
        }
        if at > 0 && same(at) == same(length) {
            length += 1;
        }
        border.push(length as u32);
    }
}

impl Units {
    /// Counts repetitions of a unit that come one after the other.
    fn add(&mut self, ops: &[Op], length: usize, whose: Whose, cut: u32) {
        let mut hash = Mix::default().with(u64::from(whose.process)).with(length as u64);
        for op in &ops[..length] {
            hash = hash.with(op.same);
        }
        let hash = hash.finish();
        if self.kept.len() >= MOST_UNITS && !self.kept.contains_key(&hash) && !self.make_room() {
            self.forgotten += 1;
            return;
        }
        let new = || Unit { whose, length, ..Unit::default() };
        self.kept.entry(hash).or_insert_with(new).add(ops, cut);
    }

    /// Forgets what came once only; whether that was anything.
    #[cold]
    fn make_room(&mut self) -> bool {
        let before = self.kept.len();
        self.kept.retain(|_, unit| unit.repeats > 1);
        self.forgotten += (before - self.kept.len()) as u64;
        self.kept.len() < before
    }

    /// The units that were repeated, in no order.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = (&Unit, &Described)> {
        self.kept.values().filter_map(|unit| Some((unit, unit.described.as_deref()?)))
    }
}

impl Unit {
    fn add(&mut self, ops: &[Op], cut: u32) {
        self.runs += 1;
        for ops in ops.chunks_exact(self.length) {
            let mut time = (0, 0);
            for op in ops {
                time.0 += op.ticks;
                time.1 += if op.gives == Gives::PageableCopy { 0 } else { op.ticks };
                self.acquisitions += u64::from(op.acquisitions);
                self.waited += op.waited;
            }
            self.repeats += 1;
            match &mut self.described {
                Some(described) => described.add(time),
                None if self.repeats == 1 => self.first = time,
                None => {
                    let mut described = Box::new(Described::new(ops));
                    described.add(self.first);
                    described.add(time);
                    self.described = Some(described);
                }
            }
        }
        if cut != NO_KIND {
            match self.cuts.iter().position(|(kind, _)| *kind == cut) {
                Some(at) => self.cuts[at].1 += 1,
                None if self.cuts.len() < MOST_CUTS => self.cuts.push((cut, 1)),
                None => {}
            }
        }
    }
}

impl Described {
    fn new(ops: &[Op]) -> Described {
        let mut described = Described {
            shown: ops.iter().take(SHOWN).map(|op| (op.kind, op.detail)).collect(),
            launches: ops.iter().take(SHOWN).map(|op| op.gives == Gives::Launch).collect(),
            first_kernel: ops.iter().find(|op| op.gives == Gives::Launch).map(|op| op.detail),
            frequent: frequent(ops),
            default_stream: ops.iter().any(|op| op.default_stream),
            ..Described::default()
        };
        let work = &mut described.work;
        for op in ops {
            match op.gives {
                Gives::Launch => work.launches += 1,
                Gives::Graph => work.graphs += 1,
                Gives::Memset => work.memsets += 1,
                Gives::Copy => work.copies += 1,
                Gives::PageableCopy => {
                    work.copies += 1;
                    work.pageable += 1;
                }
            }
        }
        described
    }

    fn add(&mut self, (all, replaced): (u64, u64)) {
        self.times.add(all);
        self.replaced.add(replaced);
    }
}

/// The most frequent kernels with how often they are launched; of equal ones the first.
fn frequent(ops: &[Op]) -> Vec<(u64, u64)> {
    let mut counts: Map<u64, (u64, usize)> = Map::default();
    for (at, op) in ops.iter().enumerate().filter(|(_, op)| op.gives == Gives::Launch) {
        counts.entry(op.detail).or_insert((0, at)).0 += 1;
    }
    let mut kernels: Vec<(u64, (u64, usize))> = counts.into_iter().collect();
    kernels.sort_by_key(|(_, (count, at))| (std::cmp::Reverse(*count), *at));
    kernels.into_iter().take(FREQUENT).map(|(kernel, (count, _))| (kernel, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(sames: &[u64]) -> Vec<Op> {
        let op = |same: &u64| Op {
            same: *same,
            kind: 0,
            acquisitions: 2,
            detail: *same,
            ticks: 10,
            waited: 1,
            gives: Gives::Launch,
            default_stream: false,
        };
        sames.iter().map(op).collect()
    }

    fn gather(segments: &[Vec<u64>]) -> Units {
        let (mut gathered, mut units) = (Gathered::default(), Units::default());
        for segment in segments {
            for op in ops(segment) {
                gathered.add(op, &mut units, Whose::default());
            }
            gathered.close(&mut units, Whose::default(), 9);
        }
        assert!(units.kept.len() <= MOST_UNITS && gathered.ops.capacity() <= 2 * MOST_CALLS);
        units
    }

    /// Length, repetitions and rows of the units that were repeated.
    fn found(segments: &[Vec<u64>]) -> Vec<(usize, u64, u64)> {
        let units = gather(segments);
        let mut found: Vec<_> =
            units.repeated().map(|(unit, _)| (unit.length, unit.repeats, unit.runs)).collect();
        found.sort_unstable();
        found
    }

    fn repeated(unit: &[u64], times: usize) -> Vec<u64> {
        unit.iter().copied().cycle().take(unit.len() * times).collect()
    }

    #[test]
    fn loop_inside_one_wait_and_loop_around_waits_are_the_same_unit() {
        let unit = [1, 2, 3, 4, 5];
        let mut twice_and_a_bit = repeated(&unit, 2);
        twice_and_a_bit.push(1);
        let units = gather(&[twice_and_a_bit, unit.to_vec(), vec![9, 8]]);
        let all: Vec<_> = units.repeated().collect();
        let [(unit, described)] = all[..] else { panic!("{all:?}") };
        assert_eq!((unit.length, unit.repeats, unit.runs), (5, 3, 2));
        assert_eq!((unit.acquisitions, unit.waited), (30, 15));
        assert_eq!((described.times.count(), described.times.quantile(0.5)), (3, 50));
        assert_eq!(described.shown, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
        assert_eq!((&unit.cuts[..], units.cuts[&9]), (&[(9, 2)][..], 3));
    }

    #[test]
    fn single_calls_are_no_sequence() {
        assert!(found(&[vec![1], vec![1], vec![1, 1, 1]]).is_empty());
    }

    #[test]
    fn period_too_short_for_a_graph_leaves_what_is_between_the_cuts() {
        assert_eq!(found(&[vec![7; 60], vec![7; 60], vec![7; 61]]), [(60, 2, 2)]);
    }

    #[test]
    fn period_is_the_shortest_one_that_is_everything() {
        let mut almost = repeated(&[1, 2, 3, 4, 5, 6], 4);
        almost.insert(7, 99);
        assert_eq!(found(&[almost.clone()]), []);
        assert_eq!(found(&[almost.clone(), almost]), [(25, 2, 2)]);
        assert_eq!(found(&[repeated(&[1, 1, 1, 1, 2], 3)]), [(5, 3, 1)]);
    }

    #[test]
    fn loop_that_never_waits_is_found_behind_what_came_before_it() {
        let unit: Vec<u64> = (100..260).collect();
        let mut program: Vec<u64> = (0..37).collect();
        program.extend(repeated(&unit, 200));
        // The calls cut off at the first overflow are a part of a round, and so are those left.
        let units = gather(&[program]);
        let all: Vec<_> = units.repeated().map(|(unit, _)| (unit.length, unit.repeats)).collect();
        let [(160, repeats)] = all[..] else { panic!("{all:?}") };
        assert!((198..=200).contains(&repeats), "{repeats}");
    }

    #[test]
    fn what_never_repeats_takes_bounded_memory_and_is_counted() {
        let pairs: Vec<Vec<u64>> = (0..10_000).map(|round| vec![round, round + 1]).collect();
        let units = gather(&pairs);
        assert_eq!((units.repeated().count(), units.forgotten), (0, 8192));
        let long = gather(&[(0..3 * MOST_CALLS as u64).collect()]);
        assert_eq!((long.repeated().count(), long.forgotten), (0, 2));
    }

    #[test]
    fn kernels_are_counted_the_most_frequent_first() {
        assert_eq!(frequent(&ops(&[5, 6, 7, 6, 7, 8])), [(6, 2), (7, 2), (5, 1)]);
    }
}
