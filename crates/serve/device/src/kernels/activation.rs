//! `activation`: adds a bias to each column of a grid, and cuts what is negative.
//!
//! A block computes one row, in pieces of 4096 elements.

use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};

const PIECE: usize = 4096;
const _: () = assert!(2 * PIECE <= SCRATCH_FLOATS);

pub(super) const KERNEL: Kernel = Kernel {
    name: "activation",
    description: "max(x + bias, 0); arguments: width, height; \
                  input: f32 x[height][width], bias[width]; output: f32 y[height][width]",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [width, height, ..] = launch.arguments;
    let area = width.checked_mul(height);
    check::numbers("input", &launch.input, area.and_then(|a| a.checked_add(width)))?;
    check::numbers("output", &launch.output, area)?;
    let rows = if width == 0 { 0 } else { height };
    check::grid(KERNEL.name, 1, height, rows)
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let (width, height, row) = (task.size(0), task.size(1), block as usize);
    if row >= height {
        return Ok(());
    }
    for from in (0..width).step_by(PIECE) {
        let count = PIECE.min(width - from);
        let (line, bias, _) = scratch.tiles(count, count, 0);
        task.input.read_f32(row * width + from, line).map_err(memory)?;
        task.input.read_f32(height * width + from, bias).map_err(memory)?;
        for (value, bias) in line.iter_mut().zip(bias) {
            *value = (*value + *bias).max(0.0);
        }
        task.output.write_f32(row * width + from, line).map_err(memory)?;
    }
    Ok(())
}
