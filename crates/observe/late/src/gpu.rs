//! Work that ran on GPUs, by what it was: the first pass gathers its durations, and the second pass
//! compares one piece of work with them.
//!
//! Kernels are the same work if they have the same name, which contains their grid; copies and
//! memory sets, if they have the same number of bytes. The usual duration is the tenth of a work's
//! durations that is shortest: a GPU that is shared, or throttled, makes most of them longer, but
//! seldom all.

use crate::hash::Map;
use crate::histogram::Histogram;
use crate::result;
use record::clock::Calibration;
use record::{Kind, Record};
use trace::Metadata;

/// Place of no work.
pub(crate) const NO_WORK: u32 = u32::MAX;
/// Most works that are told apart; a program has some hundreds.
const MOST: usize = 1 << 14;
/// Share of a work's durations that are at most the usual one.
const USUAL: f64 = 0.1;

/// Identity of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    process: u32,
    kind: result::GpuKind,
    number: u32,
}

/// Work on GPUs, in the order in which it was first seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Works {
    places: Map<Key, u32>,
    works: Vec<(Key, Histogram)>,
    kinds: [Histogram; 3],
    /// The longest duration in ticks.
    pub longest: u64,
}

impl Works {
    /// Counts a record of a process; records of other kinds are none of work.
    pub(crate) fn add(&mut self, process: u32, record: &Record) {
        let Some(kind) = kind(record.kind) else { return };
        let ticks = record.subject.saturating_sub(record.time);
        self.kinds[kind as usize].add(ticks);
        self.longest = self.longest.max(ticks);
        let key = Key { process, kind, number: record.number };
        if !self.places.contains_key(&key) && self.works.len() < MOST {
            self.places.insert(key, self.works.len() as u32);
            self.works.push((key, Histogram::default()));
        }
        if let Some(place) = self.places.get(&key) {
            self.works[*place as usize].1.add(ticks);
        }
    }

    /// The place of a record's work, or [`NO_WORK`].
    pub(crate) fn place(&self, process: u32, record: &Record) -> u32 {
        let Some(kind) = kind(record.kind) else { return NO_WORK };
        let key = Key { process, kind, number: record.number };
        self.places.get(&key).copied().unwrap_or(NO_WORK)
    }

    /// Usual duration of each work in ticks.
    pub(crate) fn usual(&self) -> Vec<u64> {
        self.works.iter().map(|(_, durations)| durations.quantile(USUAL)).collect()
    }

    /// The result of the first pass.
    pub(crate) fn result(&self, metadata: &Metadata, clock: &Calibration) -> result::Gpu {
        let texts: Map<(u32, u64), &str> = metadata
            .texts
            .iter()
            .map(|text| ((text.process, text.number), text.text.as_str()))
            .collect();
        let work = |(key, durations): &(Key, Histogram)| result::GpuWork {
            process: key.process,
            kind: key.kind,
            name: (key.kind == result::GpuKind::Kernel)
                .then(|| texts.get(&(key.process, key.number.into())))
                .flatten()
                .map(|name| (*name).to_owned()),
            bytes: (key.kind != result::GpuKind::Kernel).then_some(key.number.into()),
            usual_ns: clock.duration_ns(durations.quantile(USUAL)),
            durations: durations.durations(clock),
        };
        let [kernels, copies, memsets] =
            std::array::from_fn(|kind| self.kinds[kind].durations(clock));
        result::Gpu { kernels, copies, memsets, works: self.works.iter().map(work).collect() }
    }
}

fn kind(kind: Kind) -> Option<result::GpuKind> {
    match kind {
        Kind::GpuKernel => Some(result::GpuKind::Kernel),
        Kind::GpuCopy => Some(result::GpuKind::Copy),
        Kind::GpuMemset => Some(result::GpuKind::Memset),
        _ => None,
    }
}
