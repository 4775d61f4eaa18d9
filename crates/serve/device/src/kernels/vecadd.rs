//! `vecadd`: the sum of two vectors. A block adds 4096 elements.

use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};

const TILE: usize = 4096;
const _: () = assert!(2 * TILE <= SCRATCH_FLOATS);

pub(super) const KERNEL: Kernel = Kernel {
    name: "vecadd",
    description: "c = a + b; arguments: n; input: f32 a[n], b[n]; output: f32 c[n]",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let n = launch.arguments[0];
    check::numbers("input", &launch.input, n.checked_mul(2))?;
    check::numbers("output", &launch.output, Some(n))?;
    check::grid(KERNEL.name, 0, n, n.div_ceil(TILE as u64))
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let n = task.size(0);
    let start = block as usize * TILE;
    let length = TILE.min(n - start);
    let (a, b, _) = scratch.tiles(length, length, 0);
    task.input.read_f32(start, a).map_err(memory)?;
    task.input.read_f32(n + start, b).map_err(memory)?;
    for (a, b) in a.iter_mut().zip(b) {
        *a += *b;
    }
    task.output.write_f32(start, a).map_err(memory)
}
