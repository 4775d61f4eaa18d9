//! Rows of a sparse matrix or of a graph in compressed form (CSR): row r has the entries from
//! `first[r]` to `first[r + 1]`.
//!
//! Here values do decide addresses and the ends of loops, so each is held to what was checked when
//! the launch was: an entry's place to the number of entries, a row's length to the longest that
//! the launch allows, so that no block is long. Where the numbers contradict that, entries are
//! left out; nothing else can come of it.

use super::memory;
use crate::hosted::Plan;
use crate::{Error, FailureCode, check};
use shm::memory::PeerSlice;
use std::ops::Range;

/// The longest row that a launch may allow, and the entries of a block at most.
pub(super) const LONGEST: u64 = 1 << 16;
/// Rows of a block at most.
pub(super) const ROWS: usize = 1024;
/// Entries that are read at once.
pub(super) const PIECE: usize = 1024;

/// Splits this number of rows in blocks, after the length of a row was checked.
pub(super) fn plan(kernel: &'static str, rows: u64, longest: u64) -> Result<Plan, Error> {
    check::grid(kernel, 0, rows, rows.div_ceil(of_block(longest) as u64))
}

/// Rows of a block.
fn of_block(longest: u64) -> usize {
    (LONGEST / longest.max(1)).clamp(1, ROWS as u64) as usize
}

/// The rows of one block.
pub(super) struct Rows<'a> {
    /// The first of them.
    pub from: usize,
    /// Number of them.
    pub count: usize,
    first: &'a [u32],
    entries: usize,
    longest: usize,
}

impl<'a> Rows<'a> {
    /// Reads where the rows of a block begin, out of all that begin at the start of some memory.
    /// Needs room for [`ROWS`] + 1 words.
    pub(super) fn load(
        memory_of_all: &PeerSlice,
        block: u32,
        [rows, entries, longest]: [usize; 3],
        words: &'a mut [u32],
    ) -> Result<Rows<'a>, FailureCode> {
        let each = of_block(longest as u64);
        let from = block as usize * each;
        let count = each.min(rows - from);
        let first = &mut words[..=count];
        memory_of_all.read_u32(from, first).map_err(memory)?;
        Ok(Rows { from, count, first, entries, longest })
    }

    /// The entries of a row, counted from the first of the block, in pieces that can be read at
    /// once. All are entries that there are.
    pub(super) fn pieces(&self, row: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let [begin, end] = [self.first[row], self.first[row + 1]].map(|at| at as usize);
        let begin = begin.min(self.entries);
        let end = end.min(self.entries).min(begin + self.longest);
        (begin..end).step_by(PIECE).map(move |at| at..end.min(at + PIECE))
    }
}
