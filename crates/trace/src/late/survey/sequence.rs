//! Sequences of launches and copies that repeat: what a CUDA graph could launch at once.
//!
//! A thread's calls that queue work are gathered until it waits for the device. What was gathered
//! is reduced to its shortest repeated unit (a loop that launches the same sixty kernels ten
//! times before it waits has a unit of sixty), by the failure function of Knuth, Morris and
//! Pratt: the shortest period of a sequence is its length less its longest border. Equal units of
//! one process are counted together.

use crate::late::hash::{Map, Mix};
use std::hash::Hasher;

/// Most calls that are gathered before they are looked at anyway.
const MOST_CALLS: usize = 4096;
/// Most distinct units that are kept.
const MOST_UNITS: usize = 4096;
/// Calls of a unit that are kept to be shown.
const SHOWN: usize = 64;

/// A call that queues work.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: u32,
    /// The kernel, or the bytes.
    pub detail: u64,
    pub ticks: u64,
    pub acquisitions: u32,
}

impl Op {
    fn same(&self, other: &Op) -> bool {
        (self.kind, self.detail) == (other.kind, other.detail)
    }
}

/// What a thread has queued since it last waited.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    ops: Vec<Op>,
    border: Vec<u32>,
}

/// A unit that was repeated.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    pub process: u32,
    /// The thread that did it first.
    pub stream: u32,
    /// Its first calls: kind and detail.
    pub shown: Vec<(u32, u64)>,
    pub length: usize,
    pub repeats: u64,
    pub ticks: u64,
    pub acquisitions: u64,
}

/// The units of all threads.
#[derive(Debug, Default)]
pub struct Units {
    kept: Map<u64, Unit>,
    /// Repetitions of units that were not kept.
    pub others: u64,
}

impl Gathered {
    /// Adds a call; when too many are gathered, they are counted first.
    pub fn add(&mut self, op: Op, units: &mut Units, process: u32, stream: u32) {
        if self.ops.len() >= MOST_CALLS {
            self.close(units, process, stream);
        }
        self.ops.push(op);
    }

    /// Forgets what was gathered, since calls are missing.
    pub fn clear(&mut self) {
        self.ops.clear();
    }

    /// The thread waits for the device: counts what was gathered.
    pub fn close(&mut self, units: &mut Units, process: u32, stream: u32) {
        let period = self.period();
        if period >= 2 {
            let repeats = self.ops.len() / period;
            units.add(&self.ops[..repeats * period], period, process, stream);
        }
        self.ops.clear();
    }

    /// The length of the shortest unit that is repeated at least twice, or of everything.
    fn period(&mut self) -> usize {
        let (ops, border) = (&self.ops, &mut self.border);
        border.clear();
        let mut length = 0usize;
        for at in 0..ops.len() {
            while at > 0 && length > 0 && !ops[at].same(&ops[length]) {
                length = border[length - 1] as usize;
            }
            if at > 0 && ops[at].same(&ops[length]) {
                length += 1;
            }
            border.push(length as u32);
        }
        let period = ops.len() - length;
        if period * 2 <= ops.len() { period } else { ops.len() }
    }
}

impl Units {
    fn add(&mut self, ops: &[Op], length: usize, process: u32, stream: u32) {
        let unit = &ops[..length];
        let mut hash = Mix::default().with(u64::from(process));
        for op in unit {
            hash = hash.with(u64::from(op.kind)).with(op.detail);
        }
        let repeats = (ops.len() / length) as u64;
        if self.kept.len() >= MOST_UNITS && !self.kept.contains_key(&hash.finish()) {
            // What came once only is the least loss.
            self.others += self.kept.values().filter(|unit| unit.repeats == 1).count() as u64;
            self.kept.retain(|_, unit| unit.repeats > 1);
            if self.kept.len() >= MOST_UNITS {
                self.others += repeats;
                return;
            }
        }
        let shown = || unit.iter().take(SHOWN).map(|op| (op.kind, op.detail)).collect();
        let kept = self.kept.entry(hash.finish()).or_insert_with(|| Unit {
            process,
            stream,
            shown: shown(),
            length,
            ..Unit::default()
        });
        kept.repeats += repeats;
        kept.ticks += ops.iter().map(|op| op.ticks).sum::<u64>();
        kept.acquisitions += ops.iter().map(|op| u64::from(op.acquisitions)).sum::<u64>();
    }

    /// The units that were repeated, in no order.
    pub fn repeated(&self) -> impl Iterator<Item = &Unit> {
        self.kept.values().filter(|unit| unit.repeats > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(details: &[u64]) -> Vec<Op> {
        details
            .iter()
            .map(|detail| Op { kind: 0, detail: *detail, ticks: 10, acquisitions: 2 })
            .collect()
    }

    fn units(segments: &[&[u64]]) -> Vec<Unit> {
        let (mut gathered, mut units) = (Gathered::default(), Units::default());
        for segment in segments {
            for op in ops(segment) {
                gathered.add(op, &mut units, 1, 0);
            }
            gathered.close(&mut units, 1, 0);
        }
        let mut repeated: Vec<Unit> = units.repeated().cloned().collect();
        repeated.sort_by_key(|unit| (unit.length, unit.repeats));
        repeated
    }

    #[test]
    fn loop_inside_one_wait_and_loop_around_waits_are_the_same_unit() {
        let found = units(&[&[1, 2, 3, 1, 2, 3, 1], &[1, 2, 3], &[9, 8]]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].length, found[0].repeats), (3, 3));
        assert_eq!((found[0].ticks, found[0].acquisitions), (90, 18));
        assert_eq!(found[0].shown, [(0, 1), (0, 2), (0, 3)]);
    }

    #[test]
    fn single_calls_are_no_sequence() {
        assert!(units(&[&[1], &[1], &[1, 1, 1]]).is_empty());
    }

    #[test]
    fn period_is_the_shortest_one() {
        for (details, period) in [
            (&[1, 1, 1][..], 1),
            (&[1, 2, 1, 2, 1, 2], 2),
            (&[1, 2, 1], 3),
            (&[1, 1, 2, 1, 1, 2, 1, 1], 3),
            (&[1, 2, 3, 4], 4),
        ] {
            let mut gathered = Gathered { ops: ops(details), border: Vec::new() };
            assert_eq!(gathered.period(), period, "{details:?}");
        }
    }

    #[test]
    fn long_sequences_are_cut_and_many_units_are_bounded() {
        let (mut gathered, mut units) = (Gathered::default(), Units::default());
        for round in 0..10_000u64 {
            for op in ops(&[round, round + 1]) {
                gathered.add(op, &mut units, 1, 0);
            }
            gathered.close(&mut units, 1, 0);
        }
        assert!(units.kept.len() <= MOST_UNITS);
        for at in 0..3 * MOST_CALLS as u64 {
            gathered.add(ops(&[at])[0], &mut units, 1, 0);
        }
        assert!(gathered.ops.len() <= MOST_CALLS);
    }
}
