//! Work that calls give to the device: how much was launched, and how much may still be queued.
//!
//! The length of a stream's queue is not recorded. It is bounded from below by what can be known:
//! each call that queues work and succeeds adds one; a call that has waited for the stream (or was
//! told that it is empty) takes all of it away, and one that has waited for an event or for the
//! whole context takes away that of all streams of the process, although an event may lie in the
//! middle of a queue. The device takes work off as well, at times that are not recorded; so the
//! number is *not* the length of the queue but the number of launches since the last moment at
//! which the queue was known to be empty. The driver's queue holds about a thousand launches: when
//! more are outstanding by this count, a call that is long while it runs probably waits for the
//! device, and when fewer are, it certainly does not.

use crate::hash::Map;

/// A stream of the device, as a program names it.
pub(crate) type Handle = u64;

/// Work that the calls of all processes have given to the device.
#[derive(Debug, Default)]
pub(crate) struct Work {
    queues: Map<(u32, Handle), Queue>,
    /// Number of times that all work of a process was known to be done.
    emptied: Map<u32, u32>,
    graphs: Map<(u32, u64), GraphSize>,
    pub totals: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    count: u32,
    emptied: u32,
}

/// Work of one launch of a graph.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GraphSize {
    pub kernels: u32,
    pub copies: u32,
    pub memsets: u32,
}

/// Successful calls that were not captured into a graph.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub launches: u64,
    pub graph_launches: u64,
    pub graph_kernels: u64,
    pub graph_copies: u64,
    pub graph_memsets: u64,
    /// Launches of graphs whose size is not known.
    pub unknown_graphs: u64,
    pub copies: u64,
    pub copied_bytes: u64,
    pub memsets: u64,
    pub syncs: u64,
    pub captured: u64,
}

/// The stream that a handle means: the default streams have several names.
pub(crate) fn handle(subject: u64, per_thread: bool, tid: u32) -> Handle {
    const LEGACY: u64 = 1;
    const PER_THREAD: u64 = 2;
    match subject {
        PER_THREAD => 1 << 63 | u64::from(tid),
        0 if per_thread => 1 << 63 | u64::from(tid),
        0 | LEGACY => 0,
        stream => stream,
    }
}

impl Work {
    /// Launches since the stream was known to be empty.
    pub(crate) fn outstanding(&self, process: u32, stream: Handle) -> u32 {
        let emptied = self.emptied.get(&process).copied().unwrap_or(0);
        let queue = self.queues.get(&(process, stream)).copied().unwrap_or_default();
        if queue.emptied == emptied { queue.count } else { 0 }
    }

    /// Counts one more submission.
    pub(crate) fn queued(&mut self, process: u32, stream: Handle) {
        let emptied = self.emptied.get(&process).copied().unwrap_or(0);
        let queue = self.queues.entry((process, stream)).or_default();
        if queue.emptied != emptied {
            *queue = Queue { count: 0, emptied };
        }
        queue.count += 1;
    }

    /// The stream is empty.
    pub(crate) fn empty(&mut self, process: u32, stream: Handle) {
        self.queues.remove(&(process, stream));
    }

    /// All streams of the process are empty.
    pub(crate) fn all_empty(&mut self, process: u32) {
        *self.emptied.entry(process).or_default() += 1;
    }

    /// A graph was made executable.
    pub(crate) fn graph(&mut self, process: u32, graph: u64, size: GraphSize) {
        self.graphs.insert((process, graph), size);
    }

    /// A graph was launched.
    pub(crate) fn graph_launched(&mut self, process: u32, graph: u64) {
        self.totals.graph_launches += 1;
        match self.graphs.get(&(process, graph)) {
            Some(size) => {
                self.totals.graph_kernels += u64::from(size.kernels);
                self.totals.graph_copies += u64::from(size.copies);
                self.totals.graph_memsets += u64::from(size.memsets);
            }
            None => self.totals.unknown_graphs += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_stream_empties_it_and_waiting_for_all_empties_all() {
        let mut work = Work::default();
        for _ in 0..3 {
            work.queued(1, 7);
            work.queued(1, 8);
            work.queued(2, 7);
        }
        work.empty(1, 7);
        assert_eq!([work.outstanding(1, 7), work.outstanding(1, 8)], [0, 3]);
        work.queued(1, 7);
        work.all_empty(1);
        assert_eq!([work.outstanding(1, 7), work.outstanding(1, 8)], [0, 0]);
        assert_eq!(work.outstanding(2, 7), 3);
        work.queued(1, 8);
        assert_eq!(work.outstanding(1, 8), 1);
    }

    #[test]
    fn default_streams_are_known_by_all_their_names() {
        assert_eq!(handle(0, false, 5), handle(1, true, 6));
        assert_eq!(handle(0, true, 5), handle(2, false, 5));
        assert_ne!(handle(2, false, 5), handle(2, false, 6));
    }
}
