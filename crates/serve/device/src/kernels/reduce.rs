//! `reduce`: the sum of a vector of floats, in double precision.
//!
//! A block adds up 8192 elements from left to right and leaves its sum in its word of the
//! workspace; the last thread adds these sums from left to right. So the result is a function of
//! the input alone, to the last bit.

use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};
use std::sync::atomic::Ordering;

const TILE: usize = 8192;
const _: () = assert!(TILE <= SCRATCH_FLOATS);
const RESULT_BYTES: u64 = 8;

pub(super) const KERNEL: Kernel = Kernel {
    name: "reduce",
    description: "s = sum of x, added in f64; arguments: n; input: f32 x[n]; output: f64 s",
    plan,
    block,
    finish: Some(finish),
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let n = launch.arguments[0];
    check::numbers("input", &launch.input, Some(n))?;
    check::bytes("output", &launch.output, Some(RESULT_BYTES))?;
    let grid = check::grid(KERNEL.name, 0, n, n.div_ceil(TILE as u64))?;
    Ok(Plan { workspace: grid.blocks as usize, ..grid })
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let start = block as usize * TILE;
    let (tile, _, _) = scratch.tiles(TILE.min(task.size(0) - start), 0, 0);
    task.input.read_f32(start, tile).map_err(memory)?;
    let sum: f64 = tile.iter().copied().map(f64::from).sum();
    // Relaxed: `finish` runs after the count of finished blocks has ordered all of this.
    task.workspace[block as usize].store(sum.to_bits(), Ordering::Relaxed);
    Ok(())
}

fn finish(task: &Task<'_>, _: &mut Scratch) -> Result<(), FailureCode> {
    let part = |word: &std::sync::atomic::AtomicU64| f64::from_bits(word.load(Ordering::Relaxed));
    let sum: f64 = task.workspace.iter().map(part).sum();
    task.output.write(0, &sum.to_ne_bytes()).map_err(memory)
}
