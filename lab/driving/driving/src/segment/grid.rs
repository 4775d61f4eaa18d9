//! Search for stems that are near one another in the plane.

use super::{Return, Stem};
use glam::DVec3;

/// Stems that are not in a cluster yet, by square cells. Nearly all cells are empty: they are zeros,
/// which the system gives without touching the memory.
pub(super) struct Grid {
    /// First stem in each cell plus 1; 0 if there is none.
    first: Vec<u32>,
    /// Next stem in the cell of each stem, likewise.
    next: Vec<u32>,
    side: usize,
    range: f64,
    cell: f64,
}

impl Grid {
    pub(super) fn of(stems: &[Stem], range: f64, cell: f64) -> Grid {
        let side = (2.0 * range / cell).ceil() as usize + 1;
        let (first, next) = (vec![0; side * side], vec![0; stems.len()]);
        let mut grid = Grid { first, next, side, range, cell };
        for (index, stem) in stems.iter().enumerate().rev() {
            let (column, row) = grid.cell_of(stem.middle.at);
            let first = &mut grid.first[row * side + column];
            grid.next[index] = std::mem::replace(first, index as u32 + 1);
        }
        grid
    }

    /// Takes out what is not to be kept of a cell, whose stems come in their order.
    fn retain(&mut self, cell: usize, mut keep: impl FnMut(usize) -> bool) {
        let (mut before, mut place) = (None, self.first[cell]);
        while let Some(index) = (place as usize).checked_sub(1) {
            place = self.next[index];
            if keep(index) {
                before = Some(index);
            } else {
                *before.map_or(&mut self.first[cell], |before: usize| &mut self.next[before]) =
                    place;
            }
        }
    }

    fn cell_of(&self, point: DVec3) -> (usize, usize) {
        let cell = |at: f64| (((at + self.range) / self.cell) as usize).min(self.side - 1);
        (cell(point.x), cell(point.y))
    }

    pub(super) fn take(&mut self, point: DVec3, index: usize) {
        let (column, row) = self.cell_of(point);
        self.retain(row * self.side + column, |other| other != index);
    }

    /// Takes out what is of one body with `point`, where `gap` m between stems are usual.
    pub(super) fn take_near(
        &mut self,
        point: &Return,
        gap: f64,
        stems: &[Stem],
        mut found: impl FnMut(usize),
    ) {
        let (column, row) = self.cell_of(point.at);
        let farthest = point.reach(point, gap);
        let (last, cells) = (self.side - 1, (farthest / self.cell).ceil() as usize);
        for row in row.saturating_sub(cells)..=(row + cells).min(last) {
            for column in column.saturating_sub(cells)..=(column + cells).min(last) {
                self.retain(row * self.side + column, |index| {
                    let other = &stems[index].middle;
                    let apart = other.flat().distance_squared(point.flat());
                    let near =
                        apart <= farthest * farthest && apart <= point.reach(other, gap).powi(2);
                    if near {
                        found(index);
                    }
                    !near
                });
            }
        }
    }
}
