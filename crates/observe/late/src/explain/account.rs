//! The account of one call: its time, slice by slice, each with its cause.
//!
//! Causes are known as time goes by, but some only afterwards: which signal ended a wait for a
//! condition (the last one), who got the lock that was free for a moment (not the waiter), on
//! which processor a woken thread found its place. Then the slices since that wait began are
//! written anew; their lengths never change, so that the sum is the call's duration, exactly.

use super::raw::{Gpu, Present, Raw, Thing};
use crate::hash::Map;
use crate::identity::NO_LOCK;
use crate::processors::{Came, Who};
use crate::result::Target;

/// Preemptions of one call from which it may be said that it gives up the processor again and
/// again.
const MANY_YIELDS: usize = 16;

/// Consecutive time with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub from: u64,
    pub to: u64,
    pub raw: Raw,
    /// Most readers that had the lock.
    pub readers: u32,
}

/// Time that was added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub ticks: u64,
    pub times: u64,
    pub readers: u32,
}

/// The account of a call.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// The call, as its place among the worst ones.
    pub worst: usize,
    pub target: Target,
    present: Present,
    since: u64,
    pub slices: Vec<Slice>,
    pub sums: Map<Raw, Sum>,
    /// Index of the first slice of the present wait, and the time at which that wait began.
    mark: usize,
    marked: u64,
    /// The lock that the thread waits for, or `NO_LOCK`.
    awaited: u32,
    most: usize,
}

impl Account {
    pub(crate) fn open(worst: usize, target: Target, present: Present, most: usize) -> Account {
        Account {
            worst,
            target,
            present,
            since: target.enter,
            slices: Vec::new(),
            sums: Map::default(),
            mark: 0,
            marked: target.enter,
            awaited: NO_LOCK,
            most,
        }
    }

    /// Changes the cause from now on.
    pub(crate) fn change(&mut self, present: Present, now: u64) {
        if present.raw == self.present.raw {
            // Of the readers, only their highest number is kept.
            let readers = self.present.readers.max(present.readers);
            self.present = Present { readers, ..present };
        } else {
            self.cut(now);
            self.present = present;
        }
    }

    /// Ends the present slice.
    fn cut(&mut self, now: u64) {
        let (raw, readers) = (self.present.raw, self.present.readers);
        self.push(Slice { from: self.since, to: now, raw, readers });
        self.since = now;
    }

    fn push(&mut self, slice: Slice) {
        if slice.to <= slice.from {
            return;
        }
        // Slices from before the present wait stay as they are.
        match self.slices[self.mark..].last_mut() {
            Some(last) if last.raw == slice.raw => {
                last.to = slice.to;
                last.readers = last.readers.max(slice.readers);
            }
            _ => self.slices.push(slice),
        }
    }

    /// The thread begins to wait: what comes may be written anew when the wait is over.
    pub(crate) fn wait_begins(&mut self, lock: u32, now: u64) {
        self.cut(now);
        (self.mark, self.marked, self.awaited) = (self.slices.len(), now, lock);
    }

    /// The wait is over.
    pub(crate) fn wait_ends(&mut self, now: u64) {
        self.cut(now);
        self.add_up();
        (self.mark, self.marked, self.awaited) = (self.slices.len(), now, NO_LOCK);
    }

    /// Adds up the slices of which there are too many.
    fn add_up(&mut self) {
        for slice in self.slices.drain(self.most.min(self.slices.len())..) {
            let sum = self.sums.entry(slice.raw).or_default();
            sum.ticks += slice.to - slice.from;
            sum.times += 1;
            sum.readers = sum.readers.max(slice.readers);
        }
    }

    /// Returns the lock that the thread waits for, or `NO_LOCK`.
    pub(crate) fn awaited(&self) -> u32 {
        self.awaited
    }

    /// Everything since the wait began was waiting for a signal.
    pub(crate) fn was_waiting_for_signal(&mut self, lock: u32, now: u64) {
        self.cut(now);
        self.slices.truncate(self.mark);
        self.push(Slice { from: self.marked, to: now, raw: Raw::Signal { lock }, readers: 0 });
    }

    /// Another thread got the lock that was free.
    pub(crate) fn given_to(&mut self, lock: u32, other: Who, now: u64) {
        self.cut(now);
        for slice in self.slices[self.mark..].iter_mut().rev() {
            match &mut slice.raw {
                Raw::HandOver { lock: free, to, .. } if *free == lock && to.is_none() => {
                    *to = Some(other);
                }
                Raw::WokenLate { lock: free, .. } if *free == lock => {}
                _ => return,
            }
        }
    }

    /// The thread found its place on a processor that was not the one it had been on.
    pub(crate) fn came(&mut self, came: &Came, now: u64) {
        self.cut(now);
        for slice in self.slices.iter_mut().rev() {
            if slice.from < came.able {
                return;
            }
            if let Raw::WokenLate { by, .. } | Raw::Preempted { by } = &mut slice.raw {
                *by = came.behind;
            }
        }
    }

    /// The call waited for the GPU, whose states these are, each with its end. Only time of which
    /// nothing else is known was waiting for it.
    pub(crate) fn waited_for_gpu(&mut self, states: &[(u64, Gpu)], now: u64) {
        self.cut(now);
        self.mark = 0;
        let mut states = states.iter().copied().peekable();
        for slice in std::mem::take(&mut self.slices) {
            if !matches!(slice.raw, Raw::Executing | Raw::Blocked | Raw::NotRecorded) {
                self.push(slice);
                continue;
            }
            let mut from = slice.from;
            while from < slice.to {
                while states.next_if(|(end, _)| *end <= from).is_some() {}
                let (end, raw) = match states.peek() {
                    Some((end, state)) => (*end, Raw::Gpu(*state)),
                    None => (slice.to, slice.raw),
                };
                let to = end.min(slice.to);
                self.push(Slice { from, to, raw, ..slice });
                from = to;
            }
        }
        self.add_up();
    }

    /// The call has returned. `usual` is the median of its kind; a queue may be full if there
    /// are `full` launches outstanding.
    pub(crate) fn close(&mut self, now: u64, usual: u64, queues: bool, full: u32) {
        self.cut(now);
        let queue_full = queues && self.target.outstanding >= full;
        let preempted = self.slices.iter().filter(|s| matches!(s.raw, Raw::Preempted { .. }));
        let yields = queue_full && preempted.count() >= MANY_YIELDS;
        let beyond = |raw: Raw| match raw {
            Raw::Executing if queue_full => Raw::QueueFull,
            Raw::NotRecorded if queue_full => Raw::QueueMayBeFull,
            other => other,
        };
        let mut left = usual;
        let slices = std::mem::take(&mut self.slices);
        self.mark = 0;
        for slice in slices {
            let usually = match slice.raw {
                Raw::Executing | Raw::NotRecorded => left.min(slice.to - slice.from),
                _ => 0,
            };
            left -= usually;
            let middle = slice.from + usually;
            self.push(Slice { to: middle, raw: Raw::Executing, ..slice });
            let yielded = yields && left == 0 && matches!(slice.raw, Raw::Preempted { .. });
            let raw = if yielded { Raw::QueueFull } else { beyond(slice.raw) };
            self.push(Slice { from: middle, raw, ..slice });
        }
        for (raw, sum) in std::mem::take(&mut self.sums) {
            self.add(beyond(raw), sum, &mut left);
        }
    }

    fn add(&mut self, raw: Raw, sum: Sum, left: &mut u64) {
        let usually = match raw {
            Raw::Executing | Raw::QueueFull | Raw::NotRecorded | Raw::QueueMayBeFull => {
                (*left).min(sum.ticks)
            }
            _ => 0,
        };
        *left -= usually;
        for (raw, ticks) in [(Raw::Executing, usually), (raw, sum.ticks - usually)] {
            if ticks > 0 {
                let kept = self.sums.entry(raw).or_default();
                kept.ticks += ticks;
                kept.times += sum.times;
                kept.readers = kept.readers.max(sum.readers);
            }
        }
    }

    /// Returns true if a record that touches this thing can change the cause.
    #[inline]
    pub(crate) fn minds(&self, thing: Thing) -> bool {
        thing != Thing::None && self.present.interest.has(thing)
    }
}
