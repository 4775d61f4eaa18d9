//! Blocks of a grid of numbers that need their neighbours: 32 rows of 128 columns, loaded with a
//! border of one element around, as far as the grid reaches.

use super::memory;
use crate::FailureCode;
use crate::check;
use crate::hosted::Plan;
use crate::{Error, Launch};
use shm::memory::PeerSlice;

const ROWS: usize = 32;
pub(super) const COLUMNS: usize = 128;
/// Width of a tile with its border.
pub(super) const PITCH: usize = COLUMNS + 2;
/// Elements of a tile with its border.
pub(super) const LOADED: usize = (ROWS + 2) * PITCH;

/// Elements that a block computes: rows `top..bottom` and columns `left..right`.
pub(super) struct Window {
    width: usize,
    height: usize,
    pub top: usize,
    pub left: usize,
    pub bottom: usize,
    pub right: usize,
}

impl Window {
    /// Window of a block; none if the grid has no elements.
    pub(super) fn of(block: u32, width: usize, height: usize) -> Option<Window> {
        if width == 0 || height == 0 {
            return None;
        }
        let across = width.div_ceil(COLUMNS);
        let (top, left) = (block as usize / across * ROWS, block as usize % across * COLUMNS);
        let (bottom, right) = ((top + ROWS).min(height), (left + COLUMNS).min(width));
        Some(Window { width, height, top, left, bottom, right })
    }

    /// Loads it from a grid that lies at the start of some memory. Element (y, x) of the grid then
    /// lies at (y + 1 - top, x + 1 - left) of the tile; what is beyond the grid stays as it was.
    pub(super) fn load(&self, grid: &PeerSlice, tile: &mut [f32]) -> Result<(), FailureCode> {
        let from = self.left.saturating_sub(1);
        let count = (self.right + 1).min(self.width) - from;
        for y in self.top.saturating_sub(1)..(self.bottom + 1).min(self.height) {
            let at = (y + 1 - self.top) * PITCH + from + 1 - self.left;
            grid.read_f32(y * self.width + from, &mut tile[at..at + count]).map_err(memory)?;
        }
        Ok(())
    }
}

/// Checks a launch whose first two arguments are the width and the height of a grid in its input
/// and in its output, with this number of numbers after it in the input, and splits it in windows.
pub(super) fn plan(kernel: &'static str, launch: &Launch, more: u64) -> Result<Plan, Error> {
    let [width, height, ..] = launch.arguments;
    let area = width.checked_mul(height);
    check::numbers("input", &launch.input, area.and_then(|area| area.checked_add(more)))?;
    check::numbers("output", &launch.output, area)?;
    // Both are zero or at most the area, but one may be huge when the other is zero.
    let tiles = width.div_ceil(COLUMNS as u64).checked_mul(height.div_ceil(ROWS as u64));
    check::grid(kernel, 0, width, tiles.unwrap_or(u64::MAX))
}
