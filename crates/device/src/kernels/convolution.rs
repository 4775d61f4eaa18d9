//! `convolution`: a 3 x 3 convolution of a grid, zeros beyond its edge.
//!
//! A block computes 32 rows of 128 columns. It loads them with a border of one element around,
//! zero where the grid ends.

use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};

const ROWS: usize = 32;
const COLUMNS: usize = 128;
/// Width of a tile with its border.
const PITCH: usize = COLUMNS + 2;
const LOADED: usize = (ROWS + 2) * PITCH;
const FILTER: usize = 9;
const _: () = assert!(LOADED + COLUMNS + FILTER <= SCRATCH_FLOATS);

pub(super) const KERNEL: Kernel = Kernel {
    name: "convolution",
    description: "3 x 3 convolution, zeros beyond the edge; arguments: width, height; \
                  input: f32 x[height][width], filter[3][3]; output: f32 y[height][width]",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [width, height, ..] = launch.arguments;
    let area = width.checked_mul(height);
    check::numbers("input", &launch.input, area.and_then(|a| a.checked_add(FILTER as u64)))?;
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
    let (tile, line, filter) = scratch.tiles(LOADED, COLUMNS, FILTER);
    task.input.read_f32(width * height, filter).map_err(memory)?;

    // Element (y, x) of the grid lies at (y + 1 - top, x + 1 - left) of the tile.
    tile.fill(0.0);
    let from = left.saturating_sub(1);
    let count = (right + 1).min(width) - from;
    for y in top.saturating_sub(1)..(bottom + 1).min(height) {
        let at = (y + 1 - top) * PITCH + from + 1 - left;
        task.input.read_f32(y * width + from, &mut tile[at..at + count]).map_err(memory)?;
    }
    for y in top..bottom {
        let row = (y - top) * PITCH;
        let line = &mut line[..right - left];
        for (i, value) in line.iter_mut().enumerate() {
            *value = weigh(&tile[row + i..], filter);
        }
        task.output.write_f32(y * width + left, line).map_err(memory)?;
    }
    Ok(())
}

/// The weighed sum of the three rows of three that begin here, in their order.
fn weigh(tile: &[f32], filter: &[f32]) -> f32 {
    let rows = filter.chunks_exact(3).enumerate();
    rows.flat_map(|(i, row)| row.iter().zip(&tile[i * PITCH..])).map(|(a, b)| a * b).sum()
}
