//! Stacked bars of the steps, as SVG: one plot for each size, one bar for each way and each of the
//! fastest request, the mean and the slowest one.

use super::{Cell, PAAM_US, STEPS, Sample, way};
use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, dashed, draw, line, text};
use crate::theme::{BOUND, GRID, Ink, LIMIT, MUTED, SERIES, TEXT};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Sizes, in pixels of the page.
const WIDTH: i32 = 1080;
const LEFT: i32 = 190;
const RIGHT: i32 = 1000;
const TOP: i32 = 12;
const ROW: i32 = 24;
const BAR: i32 = 16;

/// The colours of the steps, and of what is unexplained.
pub(super) fn inks() -> [Ink; STEPS + 1] {
    std::array::from_fn(|index| match index {
        8 => BOUND,
        STEPS => MUTED,
        index => SERIES[index],
    })
}

/// The bars of the cells of one size.
pub(super) fn bars(name: &str, cells: &[&Cell]) -> Result<String, Error> {
    let mut rows: Vec<(String, Sample)> = Vec::new();
    for cell in cells {
        let Some(shares) = cell.shares() else { continue };
        for (which, sample) in
            [("best", shares.best), ("mean", shares.mean), ("worst", shares.worst)]
        {
            rows.push((format!("{}, {which}", way(&cell.way)), sample));
        }
    }
    let count = i32::try_from(rows.len()).unwrap_or(0);
    let bottom = TOP + ROW * count;
    let most = rows.iter().fold(PAAM_US[1], |most, (_, row)| most.max(row.whole_ns / 1e3));
    draw(name, (WIDTH, bottom + 44), |area| {
        // Linear, from zero: lengths are compared.
        let x = Axis::new(most, most, (LEFT, RIGHT));
        for tick in x.ticks() {
            let at = x.at(tick);
            line(area, (at, TOP * FINE), (at, bottom * FINE), GRID, 2)?;
            text(area, &tick.to_string(), (at, (bottom + 14) * FINE), 12, MUTED, HPos::Center)?;
        }
        for (index, row) in (0..).zip(&rows) {
            bar(area, &x, TOP + ROW * index, row)?;
        }
        for us in PAAM_US {
            dashed(area, x.at(us), (TOP * FINE, bottom * FINE), LIMIT, 8)?;
        }
        let middle = (LEFT + RIGHT) / 2 * FINE;
        text(area, "microseconds", (middle, (bottom + 34) * FINE), 12, MUTED, HPos::Center)
    })
}

fn bar(area: &Area<'_>, x: &Axis, top: i32, (name, sample): &(String, Sample)) -> Drawn {
    let middle = (top + ROW / 2) * FINE;
    let half = BAR / 2 * FINE;
    text(area, name, ((LEFT - 10) * FINE, middle), 12, TEXT, HPos::Right)?;
    let mut end_us = 0.0;
    let parts = sample.steps_ns.into_iter().chain([sample.unexplained_ns().max(0.0)]);
    for (ns, ink) in parts.zip(inks()) {
        let from = x.at(end_us);
        end_us += ns / 1e3;
        let corners = [(from, middle - half), (x.at(end_us), middle + half)];
        if corners[1].0 > from {
            area.draw(&Rectangle::new(corners, ink.rgb().filled()))?;
        }
    }
    let label = format!("{:.0}", sample.whole_ns / 1e3);
    text(area, &label, (x.at(end_us) + 6 * FINE, middle), 11, MUTED, HPos::Left)
}
