//! All streams of a trace as one, in the order of time.
//!
//! A binary heap holds, for each stream, the time of its next record. The stream on top gives a
//! *run*: its records up to the time of the stream that comes next, so that a stream that is alone
//! for a while costs one comparison for each record. A block is in memory from the moment its
//! first record is on top until its last one has been given out: memory is bounded by the streams
//! that are alive at one time.
//!
//! Within a stream records come in the order in which they were written; where a signal handler
//! wrote one with a later time before one with an earlier time, the earlier one is moved up, so
//! that time never runs backwards. Both passes read through this.

use record::Record;
use trace::{Error, Trace};

/// Streams being merged.
#[derive(Debug)]
pub(crate) struct Merge<'t> {
    trace: &'t Trace,
    cursors: Vec<Cursor>,
    /// Time of the next record and stream, the earliest on top.
    heap: Vec<(u64, u32)>,
    spare: Vec<Vec<Record>>,
    skipped: u64,
}

#[derive(Debug)]
struct Cursor {
    stream: u32,
    /// The block in `buffer`, or the next one to be there.
    block: usize,
    end: usize,
    buffer: Vec<Record>,
    /// True if the block is in `buffer`.
    begun: bool,
    at: usize,
    /// The latest time so far.
    time: u64,
}

/// Blocks of one stream to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The stream, as its place in [`Trace::streams`].
    pub stream: u32,
    /// The first block.
    pub from: usize,
    /// The first block after them.
    pub to: usize,
}

/// Consecutive records of one stream.
#[derive(Debug)]
pub(crate) struct Run<'m> {
    /// The stream, as its place in [`Trace::streams`].
    pub stream: u32,
    /// The block that they are from, as its place in the stream.
    pub block: usize,
    /// True if the first of them is the first of the block.
    pub begins: bool,
    /// True if the last of them is the last of the block.
    pub ends: bool,
    /// The records.
    pub records: &'m [Record],
}

impl<'t> Merge<'t> {
    /// Merges these blocks; a stream may be given once.
    pub(crate) fn new(trace: &'t Trace, ranges: &[Range]) -> Merge<'t> {
        let mut merge =
            Merge { trace, cursors: Vec::new(), heap: Vec::new(), spare: Vec::new(), skipped: 0 };
        for range in ranges {
            let Range { stream, from, to } = *range;
            let (buffer, begun) = (Vec::new(), false);
            let cursor = Cursor { stream, block: from, end: to, buffer, begun, at: 0, time: 0 };
            if let Some(time) = merge.opens(&cursor) {
                merge.heap.push((time, merge.cursors.len() as u32));
                merge.cursors.push(cursor);
            }
        }
        // An ascending list is a heap.
        merge.heap.sort_unstable();
        merge
    }

    /// Merges the whole trace.
    pub(crate) fn all(trace: &'t Trace) -> Merge<'t> {
        let ranges: Vec<Range> = (0u32..)
            .zip(trace.streams())
            .map(|(stream, of)| Range { stream, from: 0, to: of.blocks.len() })
            .collect();
        Merge::new(trace, &ranges)
    }

    /// Records of unknown kinds met so far.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the time at which the cursor's next block begins; `None` after the last one.
    fn opens(&self, cursor: &Cursor) -> Option<u64> {
        if cursor.block >= cursor.end {
            return None;
        }
        let block = self.trace.streams()[cursor.stream as usize].blocks.get(cursor.block)?;
        Some(block.first.max(cursor.time))
    }

    /// The next run; `None` at the end. A run is empty where a block has no record that means
    /// anything.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub(crate) fn next_run(&mut self) -> Result<Option<Run<'_>>, Error> {
        let top = loop {
            let Some((time, top)) = self.heap.first().copied() else { return Ok(None) };
            let cursor = &self.cursors[top as usize];
            if cursor.begun && cursor.at == cursor.buffer.len() {
                self.leave(top as usize);
            } else if cursor.begun {
                break top as usize;
            } else {
                self.load(top as usize)?;
                let cursor = &self.cursors[top as usize];
                match cursor.buffer.first() {
                    // The earliest record of the block is not its first one.
                    Some(record) if record.time > time => self.sink(record.time),
                    _ => break top as usize,
                }
            }
        };
        let limit = self.second();
        let cursor = &mut self.cursors[top];
        let from = cursor.at;
        let rest = &cursor.buffer[from..];
        cursor.at += rest.iter().take_while(|record| record.time <= limit).count();
        let to = cursor.at;
        let next = cursor.buffer.get(to).map(|record| record.time);
        if let Some(time) = next {
            self.sink(time);
        }
        let cursor = &self.cursors[top];
        Ok(Some(Run {
            stream: cursor.stream,
            block: cursor.block,
            begins: from == 0,
            ends: next.is_none(),
            records: &cursor.buffer[from..to],
        }))
    }

    /// Reads the block of the stream on top.
    fn load(&mut self, top: usize) -> Result<(), Error> {
        let cursor = &mut self.cursors[top];
        let mut buffer = self.spare.pop().unwrap_or_default();
        let block = &self.trace.streams()[cursor.stream as usize].blocks[cursor.block];
        self.skipped += self.trace.read(block, &mut buffer)? as u64;
        let mut time = cursor.time;
        for record in &mut buffer {
            time = time.max(record.time);
            record.time = time;
        }
        (cursor.time, cursor.buffer, cursor.at, cursor.begun) = (time, buffer, 0, true);
        Ok(())
    }

    /// Goes on to the next block of the stream on top, or takes the stream away after its last.
    fn leave(&mut self, top: usize) {
        let cursor = &mut self.cursors[top];
        cursor.block += 1;
        cursor.begun = false;
        self.spare.push(std::mem::take(&mut cursor.buffer));
        // A thread that ended leaves its buffer to one that begins; a few are enough for that.
        self.spare.truncate(64);
        match self.opens(&self.cursors[top]) {
            Some(time) => self.sink(time),
            None => {
                let last = self.heap.pop().expect("the stream is in the heap");
                if let Some(root) = self.heap.first_mut() {
                    *root = last;
                    self.sink(last.0);
                }
            }
        }
    }

    /// The earliest time of the streams that are not on top.
    fn second(&self) -> u64 {
        let child = |at: usize| self.heap.get(at).map_or(u64::MAX, |(time, _)| *time);
        child(1).min(child(2))
    }

    /// Gives the stream on top a later time, and moves it to its place.
    fn sink(&mut self, time: u64) {
        let (mut at, root) = (0, (time, self.heap[0].1));
        loop {
            let left = 2 * at + 1;
            let right = self.heap.get(left + 1);
            let child = left + usize::from(right.is_some_and(|right| *right < self.heap[left]));
            match self.heap.get(child) {
                Some(smaller) if *smaller < root => {
                    self.heap[at] = *smaller;
                    at = child;
                }
                _ => break,
            }
        }
        self.heap[at] = root;
    }
}
