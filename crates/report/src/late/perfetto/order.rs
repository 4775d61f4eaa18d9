//! The records of all streams in the order of time.
//!
//! A heap holds the next record's time of each stream. A block is read when its first record is
//! due and dropped after its last one, so that memory is bounded by the streams that are alive at
//! one time. Where a signal handler's record was written before an earlier one, the earlier one is
//! moved up: within a stream, time never runs backwards.

use crate::Error;
use record::Record;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use trace::Trace;

/// Next step in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A block of a stream begins.
    Begins { stream: u32, block: usize },
    /// A record of the stream's block.
    Record { stream: u32, record: Record },
    /// The block has no more records.
    Ends { stream: u32, block: usize },
}

/// All streams of a trace.
pub(super) struct Order<'t> {
    trace: &'t Trace,
    cursors: Vec<Cursor>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Records that this version does not know, and were passed over.
    pub skipped: u64,
}

#[derive(Default)]
struct Cursor {
    block: usize,
    /// The records of the block, the latest first; none while it has not begun.
    left: Option<Vec<Record>>,
    time: u64,
}

impl<'t> Order<'t> {
    pub(super) fn new(trace: &'t Trace) -> Order<'t> {
        let cursors: Vec<Cursor> = trace.streams().iter().map(|_| Cursor::default()).collect();
        let first = |(at, stream): (u32, &trace::Stream)| Reverse((stream.blocks[0].first, at));
        let heap = (0..).zip(trace.streams()).map(first).collect();
        Order { trace, cursors, heap, skipped: 0 }
    }

    /// The next step; none at the end.
    ///
    /// # Errors
    /// [`Error::Trace`] when the trace cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Step>, Error> {
        let Some(mut top) = self.heap.peek_mut() else { return Ok(None) };
        let Reverse((_, stream)) = *top;
        let blocks = &self.trace.streams()[stream as usize].blocks;
        let cursor = &mut self.cursors[stream as usize];
        let block = cursor.block;
        let (step, due) = match &mut cursor.left {
            None => {
                let mut records = Vec::new();
                self.skipped += self.trace.read(&blocks[block], &mut records)? as u64;
                records.reverse();
                let due = records.last().map_or(blocks[block].first, |record| record.time);
                cursor.left = Some(records);
                (Step::Begins { stream, block }, Some(due))
            }
            Some(left) => match left.pop() {
                Some(mut record) => {
                    record.time = record.time.max(cursor.time);
                    cursor.time = record.time;
                    let due = left.last().map_or(cursor.time, |record| record.time);
                    (Step::Record { stream, record }, Some(due))
                }
                None => {
                    (cursor.left, cursor.block) = (None, block + 1);
                    (Step::Ends { stream, block }, blocks.get(block + 1).map(|next| next.first))
                }
            },
        };
        match due {
            Some(due) => *top = Reverse((due.max(cursor.time), stream)),
            None => _ = PeekMut::pop(top),
        }
        Ok(Some(step))
    }
}
