//! Gaps in a stream's records, as far as its blocks tell.

use crate::processors::Missing;
use trace::Stream;

/// Returns true if a stream cannot be followed from one block to the next one.
pub(crate) fn gap_after(of: &Stream, block: usize) -> bool {
    of.blocks[block].torn > 0 || is_missing_after(of, block)
}

/// Returns true if records of a stream are missing after a block.
pub(crate) fn is_missing_after(of: &Stream, block: usize) -> bool {
    let next = of.blocks.get(block + 1);
    of.blocks[block].lost.count > 0 || next.is_some_and(|next| next.missing_before > 0)
}

/// Returns the extent of a processor's gap after a block. A single missing switch was noticed by
/// the record after it, and everything else is there.
pub(crate) fn missing_after(of: &Stream, block: usize) -> Missing {
    let next = of.blocks.get(block + 1);
    let all = of.blocks[block].torn == 0 && next.is_none_or(|next| next.missing_before == 0);
    if all && of.blocks[block].lost.count == 1 { Missing::Switch } else { Missing::Anything }
}
