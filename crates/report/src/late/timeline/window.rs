//! The times that are shown, and what is kept of each: so much at most, the longest.

use crate::late::spans::spans_lock::Key;
use crate::late::spans::{Call, End, Hold, Wait};
use late::Survey;
use late::result::WorstCall;
use trace::Trace;

/// Shown around a call: so much of its duration before it, and after it, and at least so much.
const BEFORE: (u64, u64) = (3, 4);
const AFTER: (u64, u64) = (1, 3);
const LEAST_NS: u64 = 50_000;

/// Something of a thread that has a begin and an end, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<T> {
    /// The stream of the thread.
    pub stream: u32,
    /// Calls and waits around it.
    pub depth: u32,
    pub from: u64,
    pub to: u64,
    /// Way in which it ended; none if it had not by the end of what was read.
    pub end: Option<End>,
    pub what: T,
}

/// A time that is shown, in ticks.
#[derive(Debug)]
pub(super) struct Window {
    /// The call, as its place among the worst ones.
    pub worst: u32,
    /// The stream of its thread.
    pub stream: u32,
    pub from: u64,
    pub to: u64,
    pub calls: Kept<Span<Call>>,
    pub waits: Kept<Span<Wait>>,
    pub holds: Kept<Span<Hold>>,
    /// Signals of conditions: the time, the stream that signalled, the condition.
    pub signals: Kept<(u64, u32, Key)>,
    /// Missing records: the stream, the begin and the end of the gap, their number.
    pub lost: Kept<(u32, u64, u64, u64)>,
}

impl Window {
    /// The time around a call.
    pub(super) fn around(
        trace: &Trace,
        survey: &Survey,
        worst: u32,
        most: usize,
    ) -> Option<Window> {
        let call: &WorstCall = survey.worst.get(worst as usize)?;
        let margin = |(part, of): (u64, u64)| call.duration_ns / of * part + LEAST_NS;
        let clock = trace.clock();
        let ticks = |at_ns: u64| clock.ticks(clock.ns(trace.start()).saturating_add(at_ns));
        let from = ticks(call.at_ns.saturating_sub(margin(BEFORE))).max(trace.start());
        let to = ticks(call.at_ns + call.duration_ns + margin(AFTER)).min(trace.end());
        Some(Window {
            worst,
            stream: call.thread,
            from,
            to: to.max(from + 1),
            calls: Kept::new(most),
            waits: Kept::new(most),
            holds: Kept::new(most),
            signals: Kept::new(most),
            lost: Kept::new(most),
        })
    }

    /// Length of the part of a time that is in the window; none if it is outside.
    pub(super) fn inside(&self, from: u64, to: u64) -> Option<u64> {
        (from <= self.to && to >= self.from).then(|| to.min(self.to) - from.max(self.from))
    }

    /// Weight that decides when there is too much to keep: the time in the window, but first
    /// everything that the thread of this window did itself.
    pub(super) fn weight<T>(&self, span: &Span<T>) -> Option<u64> {
        let inside = self.inside(span.from, span.to)?;
        Some(if span.stream == self.stream { inside | 1 << 62 } else { inside })
    }
}

/// The weightiest of many.
#[derive(Debug)]
pub(super) struct Kept<T> {
    items: Vec<(u64, T)>,
    most: usize,
    /// Number of items that were added.
    pub total: u64,
}

impl<T> Kept<T> {
    pub(super) fn new(most: usize) -> Kept<T> {
        Kept { items: Vec::new(), most: most.max(1), total: 0 }
    }

    /// Keeps an item, unless there are enough that weigh more.
    pub(super) fn add(&mut self, weight: u64, item: T) {
        self.total += 1;
        self.items.push((weight, item));
        if self.items.len() >= 2 * self.most {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.items.len() > self.most {
            let heavier = |item: &(u64, T)| std::cmp::Reverse(item.0);
            self.items.select_nth_unstable_by_key(self.most - 1, heavier);
            self.items.truncate(self.most);
        }
    }

    /// The items, in the order of a key.
    pub(super) fn sorted<K: Ord>(&mut self, key: impl Fn(&T) -> K) -> Vec<&T> {
        self.cut();
        self.items.sort_by_key(|(_, item)| key(item));
        self.items.iter().map(|(_, item)| item).collect()
    }

    /// Number of items that are kept, once they are sorted.
    pub(super) fn len(&self) -> u64 {
        self.items.len() as u64
    }

    /// The items, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_the_weightiest() {
        let mut kept = Kept::new(3);
        for weight in [5, 1, 9, 7, 3, 8, 2] {
            kept.add(weight, weight);
        }
        assert_eq!(kept.sorted(|item| *item), [&7, &8, &9]);
        assert_eq!(kept.total, 7);
    }
}
