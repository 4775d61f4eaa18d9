//! `lbm`: one step of the lattice-Boltzmann method (D3Q19, BGK), with a periodic border.
//!
//! A block takes up to 256 cells of a row. It gathers what streams into them, the 19 densities each
//! from the cell that lies against its direction, lets them collide in scratch, and writes them.
//! The densities of a direction lie together, so that all it reads and writes are rows.

use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};
use shm::memory::PeerSlice;

const DIRECTIONS: usize = 19;
/// Cells of a block.
const CELLS: usize = 256;
const _: () = assert!((DIRECTIONS + 4) * CELLS <= SCRATCH_FLOATS);

/// Vector of each direction along x, y and z.
const LEADS: [[i8; 3]; DIRECTIONS] = [
    [0, 0, 0],
    [1, 0, 0],
    [-1, 0, 0],
    [0, 1, 0],
    [0, -1, 0],
    [0, 0, 1],
    [0, 0, -1],
    [1, 1, 0],
    [-1, -1, 0],
    [1, -1, 0],
    [-1, 1, 0],
    [1, 0, 1],
    [-1, 0, -1],
    [1, 0, -1],
    [-1, 0, 1],
    [0, 1, 1],
    [0, -1, -1],
    [0, 1, -1],
    [0, -1, 1],
];

/// Units of argument 3 in a rate of 1.
const PARTS: u64 = 1_000_000;

pub(super) const KERNEL: Kernel = Kernel {
    name: "lbm",
    description: "one lattice-Boltzmann step, D3Q19 with BGK collision, periodic; directions: \
                  none, then +x -x +y -y +z -z, then +x+y -x-y +x-y -x+y and so for xz and yz; \
                  arguments: x, y, z, relaxation rate in millionths (1 to 1999999); input: f32 \
                  f[19][z][y][x]; output: f32 f[19][z][y][x], not that of the input",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [x, y, z, rate] = launch.arguments;
    check::range(KERNEL.name, 3, rate, (1, 2 * PARTS - 1))?;
    let rows = y.checked_mul(z);
    let cells = rows.and_then(|rows| rows.checked_mul(x));
    let numbers = cells.and_then(|cells| cells.checked_mul(DIRECTIONS as u64));
    check::numbers("input", &launch.input, numbers)?;
    check::numbers("output", &launch.output, numbers)?;
    let blocks = rows.and_then(|rows| rows.checked_mul(x.div_ceil(CELLS as u64)));
    check::grid(KERNEL.name, 0, x, blocks.unwrap_or(u64::MAX))
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let grid = [0, 1, 2].map(|axis| task.size(axis));
    if grid.contains(&0) {
        return Ok(());
    }
    let across = grid[0].div_ceil(CELLS);
    let (row, from) = (block as usize / across, block as usize % across * CELLS);
    let place = [from, row % grid[1], row / grid[1]];
    let count = CELLS.min(grid[0] - from);
    let (densities, moments, _) = scratch.tiles(DIRECTIONS * CELLS, 4 * CELLS, 0);
    let cells = grid.iter().product::<usize>();
    for (direction, line) in densities.chunks_exact_mut(CELLS).enumerate() {
        let line = &mut line[..count];
        gather(&task.input, direction * cells, grid, place, LEADS[direction], line)?;
    }
    collide(densities, moments, task.arguments[3] as f32 / PARTS as f32);
    for (direction, line) in densities.chunks_exact(CELLS).enumerate() {
        let at = direction * cells + row * grid[0] + from;
        task.output.write_f32(at, &line[..count]).map_err(memory)?;
    }
    Ok(())
}

/// Reads the densities that stream into cells of a row.
fn gather(
    input: &PeerSlice,
    base: usize,
    grid: [usize; 3],
    place: [usize; 3],
    leads: [i8; 3],
    line: &mut [f32],
) -> Result<(), FailureCode> {
    let against = |axis: usize| match leads[axis] {
        1 => (place[axis] + grid[axis] - 1) % grid[axis],
        -1 => (place[axis] + 1) % grid[axis],
        _ => place[axis],
    };
    let start = base + (against(2) * grid[1] + against(1)) * grid[0];
    // A row that begins at its last cell, or ends with its first one, is read in two parts.
    let before = line.len().min(grid[0] - against(0));
    let (head, tail) = line.split_at_mut(before);
    input.read_f32(start + against(0), head).map_err(memory)?;
    input.read_f32(start, tail).map_err(memory)
}

/// Lets the densities of all cells collide. Cells beyond the last one are left over from elsewhere,
/// and are not written back.
fn collide(densities: &mut [f32], moments: &mut [f32], rate: f32) {
    let (mass, momentum) = moments.split_at_mut(CELLS);
    moments_of(densities, mass, momentum);
    let (x, rest) = momentum.split_at(CELLS);
    let (y, z) = rest.split_at(CELLS);
    for (line, leads) in densities.chunks_exact_mut(CELLS).zip(LEADS) {
        let weight = weight(leads);
        let [ex, ey, ez] = leads.map(f32::from);
        for i in 0..CELLS {
            let along = ex * x[i] + ey * y[i] + ez * z[i];
            let speed = x[i] * x[i] + y[i] * y[i] + z[i] * z[i];
            let even = weight * mass[i] * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * speed);
            line[i] += rate * (even - line[i]);
        }
    }
}

/// The mass of each cell, and its velocity along x, y and z.
fn moments_of(densities: &[f32], mass: &mut [f32], velocity: &mut [f32]) {
    mass.fill(0.0);
    velocity.fill(0.0);
    for (line, leads) in densities.chunks_exact(CELLS).zip(LEADS) {
        mass.iter_mut().zip(line).for_each(|(sum, density)| *sum += density);
        for (velocity, lead) in velocity.chunks_exact_mut(CELLS).zip(leads) {
            if lead != 0 {
                let lead = f32::from(lead);
                velocity.iter_mut().zip(line).for_each(|(sum, density)| *sum += lead * density);
            }
        }
    }
    for velocity in velocity.chunks_exact_mut(CELLS) {
        velocity.iter_mut().zip(mass.iter()).for_each(|(sum, mass)| *sum /= mass);
    }
}

/// Weight of a direction, in the state of rest.
fn weight(leads: [i8; 3]) -> f32 {
    match leads.iter().filter(|lead| **lead != 0).count() {
        0 => 1.0 / 3.0,
        1 => 1.0 / 18.0,
        _ => 1.0 / 36.0,
    }
}
