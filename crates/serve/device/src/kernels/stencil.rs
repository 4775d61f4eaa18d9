//! `stencil`: one step of a five-point stencil over a grid.
//!
//! A block writes the mean of each element and its four neighbours. Elements at the edge of the
//! grid stay as they are.

use super::window::{self, COLUMNS, LOADED, PITCH, Window};
use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::{Error, FailureCode, Launch};

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
    window::plan(KERNEL.name, launch, 0)
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let (width, height) = (task.size(0), task.size(1));
    let Some(window) = Window::of(block, width, height) else { return Ok(()) };
    let (tile, line, _) = scratch.tiles(LOADED, COLUMNS, 0);
    window.load(&task.input, tile)?;
    for y in window.top..window.bottom {
        let row = (y + 1 - window.top) * PITCH + 1;
        let edge_row = y == 0 || y == height - 1;
        let line = &mut line[..window.right - window.left];
        for (i, value) in line.iter_mut().enumerate() {
            let x = window.left + i;
            let at = row + i;
            let edge = edge_row || x == 0 || x == width - 1;
            *value = if edge { tile[at] } else { mean(tile, at) };
        }
        task.output.write_f32(y * width + window.left, line).map_err(memory)?;
    }
    Ok(())
}

fn mean(tile: &[f32], at: usize) -> f32 {
    let vertical = tile[at - PITCH] + tile[at + PITCH];
    let horizontal = tile[at - 1] + tile[at + 1];
    (tile[at] + vertical + horizontal) * 0.2
}
