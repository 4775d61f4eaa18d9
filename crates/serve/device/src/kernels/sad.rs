//! `sad`: block matching of two frames by sums of absolute differences.
//!
//! The frame is cut into squares of 4 x 4 pixels. A block takes up to sixteen squares beside each
//! other, loads the part of the other frame that they can have come from, and writes for each
//! square the difference at every displacement.

use super::{Kernel, Plan, SCRATCH_BYTES, SCRATCH_WORDS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};
use shm::memory::PeerSlice;

/// Side of a square.
const SQUARE: usize = 4;
/// Squares of a block.
const SQUARES: usize = 16;
const COLUMNS: usize = SQUARES * SQUARE;
const MOST: usize = 16;
const MOST_SIDE: usize = 2 * MOST + 1;
/// The part of the other frame.
const PITCH: usize = COLUMNS + 2 * MOST;
const WINDOW: usize = (SQUARE + 2 * MOST) * PITCH;
const _: () = assert!(SQUARE * COLUMNS + WINDOW <= SCRATCH_BYTES);
const _: () = assert!(MOST_SIDE * MOST_SIDE <= SCRATCH_WORDS);

/// The largest displacement.
pub const MAX_RADIUS: u64 = MOST as u64;

pub(super) const KERNEL: Kernel = Kernel {
    name: "sad",
    description: "sums of absolute differences of each 4 x 4 square of a frame and all \
                  displaced squares of another one, whose edge goes on beyond it; what is left \
                  over at the right and below is no square; arguments: width, height, radius (up \
                  to 16), side = 2 radius + 1; input: u8 frame[height][width], \
                  other[height][width]; output: u32 sad[height / 4][width / 4][side][side]",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [width, height, radius, _] = launch.arguments;
    check::range(KERNEL.name, 2, radius, (0, MAX_RADIUS))?;
    let area = width.checked_mul(height);
    check::bytes("input", &launch.input, area.and_then(|area| area.checked_mul(2)))?;
    let squares = (width / SQUARE as u64).checked_mul(height / SQUARE as u64);
    let sums = squares.and_then(|squares| squares.checked_mul((2 * radius + 1).pow(2)));
    check::numbers("output", &launch.output, sums)?;
    let across = (width / SQUARE as u64).div_ceil(SQUARES as u64);
    let blocks = across.checked_mul(height / SQUARE as u64);
    check::grid(KERNEL.name, 0, width, blocks.unwrap_or(u64::MAX))
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let (width, height, radius) = (task.size(0), task.size(1), task.size(2));
    let (across, side) = (width / SQUARE, 2 * radius + 1);
    if across == 0 || height < SQUARE {
        return Ok(());
    }
    let blocks_across = across.div_ceil(SQUARES);
    let (row, from) = (block as usize / blocks_across, block as usize % blocks_across * SQUARES);
    let squares = SQUARES.min(across - from);
    let (top, left) = (row * SQUARE, from * SQUARE);
    let (tile, window) = scratch.bytes.split_at_mut(SQUARE * COLUMNS);
    for (y, line) in tile.chunks_exact_mut(COLUMNS).enumerate() {
        let line = &mut line[..squares * SQUARE];
        task.input.read((top + y) * width + left, line).map_err(memory)?;
    }
    let frame = Frame { memory: &task.input, base: width * height, width, height };
    for (y, line) in window.chunks_exact_mut(PITCH).enumerate().take(SQUARE + 2 * radius) {
        let line = &mut line[..squares * SQUARE + 2 * radius];
        frame.line((top + y, left), radius, line)?;
    }
    let sums = &mut scratch.words[..side * side];
    for square in 0..squares {
        let at = square * SQUARE;
        for (down, sums) in sums.chunks_exact_mut(side).enumerate() {
            compare(&tile[at..], &window[down * PITCH + at..], sums);
        }
        let to = (row * across + from + square) * side * side;
        task.output.write_u32(to, sums).map_err(memory)?;
    }
    Ok(())
}

/// The other frame.
struct Frame<'a> {
    memory: &'a PeerSlice,
    /// Place of its first byte in the memory.
    base: usize,
    width: usize,
    height: usize,
}

impl Frame<'_> {
    /// Reads pixels of a row, both moved up and left by the radius; beyond the frame, its edge.
    fn line(
        &self,
        (y, x): (usize, usize),
        radius: usize,
        line: &mut [u8],
    ) -> Result<(), FailureCode> {
        let y = y.saturating_sub(radius).min(self.height - 1);
        let before = radius.saturating_sub(x);
        let from = x.saturating_sub(radius);
        let count = (line.len() - before).min(self.width - from);
        let inside = &mut line[before..before + count];
        self.memory.read(self.base + y * self.width + from, inside).map_err(memory)?;
        let (first, last) = (line[before], line[before + count - 1]);
        line[..before].fill(first);
        line[before + count..].fill(last);
        Ok(())
    }
}

/// The differences of a square and those that begin in the other frame's row, at each of the
/// displacements to the right.
fn compare(tile: &[u8], window: &[u8], sums: &mut [u32]) {
    let mut line = [0_u16; MOST_SIDE];
    let line = &mut line[..sums.len()];
    for y in 0..SQUARE {
        for x in 0..SQUARE {
            let pixel = tile[y * COLUMNS + x];
            for (sum, other) in line.iter_mut().zip(&window[y * PITCH + x..]) {
                *sum += u16::from(pixel.abs_diff(*other));
            }
        }
    }
    for (sum, line) in sums.iter_mut().zip(line) {
        *sum = (*line).into();
    }
}
