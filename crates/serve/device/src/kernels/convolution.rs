//! `convolution`: a 3 x 3 convolution of a grid, zeros beyond its edge.

use super::window::{self, COLUMNS, LOADED, PITCH, Window};
use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::{Error, FailureCode, Launch};

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
    window::plan(KERNEL.name, launch, FILTER as u64)
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let (width, height) = (task.size(0), task.size(1));
    let Some(window) = Window::of(block, width, height) else { return Ok(()) };
    let (tile, line, filter) = scratch.tiles(LOADED, COLUMNS, FILTER);
    task.input.read_f32(width * height, filter).map_err(memory)?;
    tile.fill(0.0);
    window.load(&task.input, tile)?;
    for y in window.top..window.bottom {
        let row = (y - window.top) * PITCH;
        let line = &mut line[..window.right - window.left];
        for (i, value) in line.iter_mut().enumerate() {
            *value = weigh(&tile[row + i..], filter);
        }
        task.output.write_f32(y * width + window.left, line).map_err(memory)?;
    }
    Ok(())
}

/// The weighed sum of the three rows of three that begin here, in their order.
fn weigh(tile: &[f32], filter: &[f32]) -> f32 {
    let rows = filter.chunks_exact(3).enumerate();
    rows.flat_map(|(i, row)| row.iter().zip(&tile[i * PITCH..])).map(|(a, b)| a * b).sum()
}
