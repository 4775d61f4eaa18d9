//! `histogram`: how often each value occurs.
//!
//! A block counts 8192 values into bins in its scratch, then adds each bin that is not zero to
//! the bin of the workspace, atomically. Additions of integers commute, so the result does not
//! depend on the order of the blocks. The last thread writes the bins.

use super::{Kernel, Plan, SCRATCH_WORDS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};
use std::sync::atomic::Ordering;

const TILE: usize = 8192;
/// The largest number of bins.
pub const MAX_BINS: u64 = 4096;
const _: () = assert!(TILE + MAX_BINS as usize <= SCRATCH_WORDS);

pub(super) const KERNEL: Kernel = Kernel {
    name: "histogram",
    description: "h[i] = how many values equal i; values beyond the last bin count in the last; \
                  arguments: n (below 2^32), bins (1 to 4096); input: u32 x[n]; output: u32 \
                  h[bins]",
    plan,
    block,
    finish: Some(finish),
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [n, bins, ..] = launch.arguments;
    check::range(KERNEL.name, 0, n, (0, u32::MAX.into()))?;
    check::range(KERNEL.name, 1, bins, (1, MAX_BINS))?;
    check::numbers("input", &launch.input, Some(n))?;
    check::numbers("output", &launch.output, Some(bins))?;
    let grid = check::grid(KERNEL.name, 0, n, n.div_ceil(TILE as u64))?;
    Ok(Plan { workspace: bins as usize, ..grid })
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let start = block as usize * TILE;
    let (tile, bins) = scratch.words.split_at_mut(TILE);
    let tile = &mut tile[..TILE.min(task.size(0) - start)];
    let bins = &mut bins[..task.size(1)];
    task.input.read_u32(start, tile).map_err(memory)?;
    bins.fill(0);
    let last = bins.len() - 1;
    for value in tile {
        bins[last.min(*value as usize)] += 1;
    }
    for (count, total) in bins.iter().zip(task.workspace).filter(|(count, _)| **count != 0) {
        // Relaxed: `finish` runs after the count of finished blocks has ordered all of this.
        total.fetch_add(u64::from(*count), Ordering::Relaxed);
    }
    Ok(())
}

fn finish(task: &Task<'_>, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let bins = &mut scratch.words[..task.size(1)];
    for (bin, total) in bins.iter_mut().zip(task.workspace) {
        // At most n, which is below 2^32.
        *bin = total.load(Ordering::Relaxed) as u32;
    }
    task.output.write_u32(0, bins).map_err(memory)
}
