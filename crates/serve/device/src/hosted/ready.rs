//! The operations of one engine that may run now, and the choice among them.
//!
//! Operations wait in queues, each sorted by the order of submission. Which queue is served is
//! decided anew at each block boundary. *By level*, a queue is a level, and the highest queue
//! that is not empty is served. *In turns*, a queue is a context: it is served until its time
//! slice is over or it is empty, then the next one in a circle that is not empty gets a slice.
//! An operation stays at the head of its queue until its last block was taken.

use std::collections::VecDeque;

/// Room that each queue has from the start, so that submission seldom allocates.
const CAPACITY: usize = 64;

/// An operation that waits: its place in the order of submission, and its slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub sequence: u64,
    pub slot: u32,
}

/// The queues of one engine.
pub(super) struct Ready {
    queues: Vec<VecDeque<Entry>>,
    turn: Option<Turn>,
}

/// The chain whose time slice it is.
struct Turn {
    slice_ns: u64,
    queue: usize,
    end_ns: u64,
}

impl Ready {
    /// Queues that are served by level.
    pub(super) fn by_level(levels: usize) -> Ready {
        let queues = (0..levels).map(|_| VecDeque::with_capacity(CAPACITY)).collect();
        Ready { queues, turn: None }
    }

    /// Queues that take turns.
    pub(super) fn in_turns(slice_ns: u64) -> Ready {
        Ready { queues: Vec::new(), turn: Some(Turn { slice_ns, queue: 0, end_ns: 0 }) }
    }

    /// The highest queue with operations that any unit may run; in turns, all may run all.
    pub(super) fn highest(&self) -> Option<usize> {
        let highest = self.queues.iter().rposition(|queue| !queue.is_empty())?;
        Some(if self.turn.is_some() { usize::MAX } else { highest })
    }

    /// Adds an operation at its place in the order of submission.
    pub(super) fn insert(&mut self, queue: usize, entry: Entry) {
        while self.queues.len() <= queue {
            self.queues.push(VecDeque::with_capacity(CAPACITY));
        }
        let queue = &mut self.queues[queue];
        // Nearly always the newest: look from the back.
        let place = queue.iter().rposition(|other| *other < entry).map_or(0, |i| i + 1);
        queue.insert(place, entry);
    }

    /// Removes an operation that waits.
    pub(super) fn remove(&mut self, queue: usize, entry: Entry) {
        self.queues[queue].retain(|other| *other != entry);
    }

    /// The operation that runs next, and its queue.
    pub(super) fn choose(&mut self, now_ns: u64, least: usize) -> Option<(usize, Entry)> {
        let served = |queue: usize| Some((queue, *self.queues.get(queue)?.front()?));
        let Some(turn) = &mut self.turn else {
            return (least..self.queues.len()).rev().find_map(served);
        };
        if now_ns < turn.end_ns {
            if let Some(found) = served(turn.queue) {
                return Some(found);
            }
        }
        let count = self.queues.len();
        let found = (1..=count).find_map(|step| served((turn.queue + step) % count))?;
        turn.queue = found.0;
        turn.end_ns = now_ns.saturating_add(turn.slice_ns);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_of_the_upper_levels_leaves_the_others() {
        let mut ready = Ready::by_level(4);
        ready.insert(1, entry(1));
        assert_eq!((ready.choose(0, 2), ready.highest()), (None, Some(1)));
        ready.insert(2, entry(2));
        assert_eq!(ready.choose(0, 2), Some((2, entry(2))));
        assert_eq!(ready.choose(0, 0), Some((2, entry(2))));
    }

    fn entry(sequence: u64) -> Entry {
        Entry { sequence, slot: sequence as u32 }
    }

    #[test]
    fn highest_level_is_served_and_the_oldest_in_it() {
        let mut ready = Ready::by_level(3);
        for (level, sequence) in [(0, 1), (1, 5), (1, 3), (0, 2), (1, 4)] {
            ready.insert(level, entry(sequence));
        }
        let mut order = Vec::new();
        while let Some((queue, entry)) = ready.choose(0, 0) {
            order.push(entry.sequence);
            ready.remove(queue, entry);
        }
        assert_eq!(order, [3, 4, 5, 1, 2]);
        assert_eq!(ready.highest(), None);
    }

    #[test]
    fn contexts_take_turns_and_an_empty_one_gives_its_turn_up() {
        let mut ready = Ready::in_turns(10);
        for (context, sequence) in [(0, 1), (2, 2), (1, 3)] {
            ready.insert(context, entry(sequence));
        }
        let mut queue_at = |now| ready.choose(now, 0).map(|found| found.0);
        assert_eq!([0, 5, 9, 10, 19, 20].map(|now| queue_at(now).unwrap()), [1, 1, 1, 2, 2, 0]);
        ready.remove(0, entry(1));
        assert_eq!(ready.choose(21, 0).unwrap().0, 1);
        ready.remove(2, entry(2));
        assert_eq!(ready.choose(100, 0).unwrap().0, 1);
        ready.remove(1, entry(3));
        assert_eq!(ready.choose(101, 0), None);
    }
}
