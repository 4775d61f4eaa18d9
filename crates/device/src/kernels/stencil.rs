//! `stencil`: one step of a five-point stencil over a grid.
//!
//! A block computes 32 rows of 128 columns. It loads them with a border of one element around,
//! as far as the grid reaches, and writes the mean of each element and its four neighbours.
//! Elements at the edge of the grid stay as they are.

use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};

const ROWS: usize = 32;
const COLUMNS: usize = 128;
/// Width of a tile with its border.
const PITCH: usize = COLUMNS + 2;
const LOADED: usize = (ROWS + 2) * PITCH;
const _: () = assert!(LOADED + COLUMNS <= SCRATCH_FLOATS);

pub(super) const KERNEL: Kernel = Kernel {
    name: "stencil",
    description: "mean of each element and its four neighbours, the edge stays; arguments: \
                  width, height; input: f32 x[height][width]; output: f32 y[height][width]",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [width, height, ..] = launch.arguments;
    let area = width.checked_mul(height);
    check::numbers("input", &launch.input, area)?;
    check::numbers("output", &launch.output, area)?;
    // Both are zero or at most the area, but one may be huge when the other is zero.
    let tiles = width.div_ceil(COLUMNS as u64).checked_mul(height.div_ceil(ROWS as u64));
    check::grid(KERNEL.name, 0, width, tiles.unwrap_or(u64::MAX))
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let (width, height) = (task.size(0), task.size(1));
    if width == 0 || height == 0 {
        return Ok(());
    }
    let across = width.div_ceil(COLUMNS);
    let (top, left) = (block as usize / across * ROWS, block as usize % across * COLUMNS);
    let (bottom, right) = ((top + ROWS).min(height), (left + COLUMNS).min(width));
    let (tile, line, _) = scratch.tiles(LOADED, COLUMNS, 0);

    // Element (y, x) of the grid lies at (y + 1 - top, x + 1 - left) of the tile.
    let from = left.saturating_sub(1);
    let count = (right + 1).min(width) - from;
    for y in top.saturating_sub(1)..(bottom + 1).min(height) {
        let at = (y + 1 - top) * PITCH + from + 1 - left;
        task.input.read_f32(y * width + from, &mut tile[at..at + count]).map_err(memory)?;
    }
    for y in top..bottom {
        let row = (y + 1 - top) * PITCH + 1;
        let edge_row = y == 0 || y == height - 1;
        let line = &mut line[..right - left];
        for (i, value) in line.iter_mut().enumerate() {
            let x = left + i;
            let at = row + i;
            let edge = edge_row || x == 0 || x == width - 1;
            *value = if edge { tile[at] } else { mean(tile, at) };
        }
        task.output.write_f32(y * width + left, line).map_err(memory)?;
    }
    Ok(())
}

fn mean(tile: &[f32], at: usize) -> f32 {
    let vertical = tile[at - PITCH] + tile[at + PITCH];
    let horizontal = tile[at - 1] + tile[at + 1];
    (tile[at] + vertical + horizontal) * 0.2
}
