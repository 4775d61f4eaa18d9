//! `matmul`: the product of two square matrices.
//!
//! A block computes one 32 x 32 tile of C. It walks along a row of tiles of A and a column of
//! tiles of B, loads both into scratch, and adds their product to its tile of C, element by
//! element in ascending order of the inner index. Tiles at the edge are cut; their rows keep the
//! width of the tile.

use super::{Kernel, Plan, SCRATCH_FLOATS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};
use shm::memory::PeerSlice;

const TILE: usize = 32;
const AREA: usize = TILE * TILE;
const _: () = assert!(3 * AREA <= SCRATCH_FLOATS);

pub(super) const KERNEL: Kernel = Kernel {
    name: "matmul",
    description: "C = A B, square, row by row; arguments: n; input: f32 A[n][n], B[n][n]; \
                  output: f32 C[n][n]",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let n = launch.arguments[0];
    let area = n.checked_mul(n);
    check::numbers("input", &launch.input, area.and_then(|a| a.checked_mul(2)))?;
    check::numbers("output", &launch.output, area)?;
    // The matrices fit in memory, so this is far from an overflow.
    check::grid(KERNEL.name, 0, n, n.div_ceil(TILE as u64).pow(2))
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let n = task.size(0);
    let across = n.div_ceil(TILE).max(1);
    let (row, column) = (block as usize / across * TILE, block as usize % across * TILE);
    let (a, b, c) = scratch.tiles(AREA, AREA, AREA);
    c.fill(0.0);
    for inner in (0..n).step_by(TILE) {
        load(&task.input, 0, n, (row, inner), a)?;
        load(&task.input, n * n, n, (inner, column), b)?;
        multiply(a, b, c, TILE.min(n - inner));
    }
    let width = TILE.min(n - column);
    for (i, line) in c.chunks_exact(TILE).enumerate().take(n - row) {
        let at = (row + i) * n + column;
        task.output.write_f32(at, &line[..width]).map_err(memory)?;
    }
    Ok(())
}

/// Loads the tile at (row, column) of the matrix that starts at element `base`.
fn load(
    matrix: &PeerSlice,
    base: usize,
    n: usize,
    (row, column): (usize, usize),
    tile: &mut [f32],
) -> Result<(), FailureCode> {
    let width = TILE.min(n - column);
    for (i, line) in tile.chunks_exact_mut(TILE).enumerate().take(n - row) {
        let at = base + (row + i) * n + column;
        matrix.read_f32(at, &mut line[..width]).map_err(memory)?;
    }
    Ok(())
}

/// C += A B for tiles of which the first `depth` columns of A and rows of B count. What lies
/// beyond the edge of a cut tile is left over from elsewhere and ends in parts of C that are not
/// written back.
fn multiply(a: &[f32], b: &[f32], c: &mut [f32], depth: usize) {
    for (a, c) in a.chunks_exact(TILE).zip(c.chunks_exact_mut(TILE)) {
        // A copy of the row, which stays in registers.
        let mut sums = [0.0; TILE];
        sums.copy_from_slice(c);
        for (a, b) in a.iter().zip(b.chunks_exact(TILE)).take(depth) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
        c.copy_from_slice(&sums);
    }
}
