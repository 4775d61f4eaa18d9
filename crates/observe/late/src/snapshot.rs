//! State of a thread at one point of its stream: its open calls, the locks it holds, and the lock
//! it waits for. The first pass leaves one behind at the begin of a block, so that the second pass
//! can begin there; both passes keep a thread's state in these terms.

use record::Class;

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockHold {
    /// The lock, as its place in the table of the first pass.
    pub lock: u32,
    /// True if it is held for reading, together with others.
    pub read: bool,
    /// Number of times that it was taken; a recursive one is held until it was released as often.
    pub depth: u32,
    /// Begin of the hold, in ticks.
    pub since: u64,
    /// The kind of call in which it was taken, or `NO_KIND`.
    pub kind: u32,
}

/// A wait of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The lock, as its place in the table of the first pass.
    pub lock: u32,
    /// Class of the use that the thread waits for.
    pub class: Class,
    /// Begin of the wait, in ticks.
    pub since: u64,
    /// Thread id of the owner when the wait began, 0 unknown.
    pub owner: u32,
    /// The mutex that a wait for a condition gave up, or `NO_LOCK`.
    pub mutex: u32,
    /// True if that mutex was known to be held.
    pub had_mutex: bool,
}

/// A thread's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Kind and begin of each open call, the outermost first.
    pub calls: Vec<(u32, u64)>,
    /// The locks it holds.
    pub held: Vec<LockHold>,
    /// The wait that is open.
    pub wait: Option<Wait>,
    /// The locks that it held when its records began to be missing, which they are until here.
    pub lost: Vec<u32>,
}

impl Snapshot {
    /// Returns true if nothing is open.
    pub(crate) fn is_empty(&self) -> bool {
        let Snapshot { calls, held, wait, lost } = self;
        calls.is_empty() && held.is_empty() && wait.is_none() && lost.is_empty()
    }
}

/// Snapshots of all streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshots {
    /// Number of blocks of a stream for each snapshot.
    stride: usize,
    /// Blocks of each stream at whose begin something was open.
    streams: Vec<Vec<(usize, Snapshot)>>,
    /// State of each stream at its end.
    ends: Vec<Snapshot>,
}

impl Snapshots {
    /// Room for a trace of this number of streams and blocks, at most `most` snapshots.
    pub(crate) fn new(streams: usize, blocks: usize, most: usize) -> Snapshots {
        let stride = blocks.div_ceil(most.max(1)).max(1);
        Snapshots {
            stride,
            streams: vec![Vec::new(); streams],
            ends: vec![Snapshot::default(); streams],
        }
    }

    /// Returns true if there is to be a snapshot at the begin of a block.
    pub(crate) fn wanted(&self, block: usize) -> bool {
        block % self.stride == 0
    }

    /// Keeps the one at the begin of a block.
    pub(crate) fn keep(&mut self, stream: u32, block: usize, snapshot: Snapshot) {
        if !snapshot.is_empty() {
            self.streams[stream as usize].push((block, snapshot));
        }
    }

    /// Keeps the one at the end of a stream.
    pub(crate) fn keep_end(&mut self, stream: u32, snapshot: Snapshot) {
        self.ends[stream as usize] = snapshot;
    }

    /// The block at or before `block` at whose begin the state is known, and the state.
    pub(crate) fn before(&self, stream: u32, block: usize) -> (usize, Snapshot) {
        let from = block / self.stride * self.stride;
        let kept = &self.streams[stream as usize];
        let found = kept.binary_search_by_key(&from, |(block, _)| *block);
        (from, found.map_or_else(|_| Snapshot::default(), |at| kept[at].1.clone()))
    }

    /// Returns the state at the end of a stream.
    pub(crate) fn end(&self, stream: u32) -> &Snapshot {
        &self.ends[stream as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_snapshots_is_bounded_and_the_nearest_earlier_one_is_found() {
        let mut snapshots = Snapshots::new(1, 1000, 100);
        let kept: Vec<usize> = (0..1000).filter(|block| snapshots.wanted(*block)).collect();
        assert_eq!(kept.len(), 100);
        let open = Snapshot { calls: vec![(3, 7)], ..Snapshot::default() };
        snapshots.keep(0, 20, open.clone());
        snapshots.keep(0, 30, Snapshot::default());
        assert_eq!(snapshots.before(0, 29), (20, open));
        assert_eq!(snapshots.before(0, 30), (30, Snapshot::default()));
    }
}
