//! The plots of the page: which share of samples was at most how long, one line per method.

use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, dashed, draw, line, text};
use crate::theme::{GRID, LIMIT, MUTED, SERIES};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use stats::ascending;

/// Sizes, in pixels of the page.
const WIDTH: i32 = 1040;
const HEIGHT: i32 = 320;
const LEFT: i32 = 56;
const RIGHT: i32 = 1016;
const TOP: i32 = 30;
const BOTTOM: i32 = 266;
/// Most points of one line; the largest samples are never left out.
const MAX_POINTS: usize = 900;

/// Samples in microseconds of each method, in the order of the methods, and a time to mark.
pub(super) fn shares(
    name: &str,
    of_methods: &[&[f64]],
    (mark_us, mark): (f64, &str),
    what: &str,
) -> Result<String, Error> {
    let lines: Vec<Vec<f64>> = of_methods.iter().map(|samples| ascending(samples)).collect();
    let all = || lines.iter().flatten().copied();
    let (low, high) = (all().fold(mark_us, f64::min), all().fold(mark_us, f64::max));
    let axis = Axis::new(low.max(high / 1e5), high, (LEFT, RIGHT));
    draw(name, (WIDTH, HEIGHT), |area| {
        frame(area, &axis, what)?;
        let x = axis.at(mark_us);
        dashed(area, x, ((TOP - 6) * FINE, BOTTOM * FINE), LIMIT, 8)?;
        text(area, mark, (x, (TOP - 14) * FINE), 12, LIMIT, HPos::Center)?;
        for (samples, ink) in lines.iter().zip(SERIES).rev() {
            let style = ink.rgb().stroke_width(5);
            area.draw(&PathElement::new(steps(samples, &axis), style))?;
            if let Some(&last) = samples.last() {
                area.draw(&Circle::new((axis.at(last), TOP * FINE), 8, ink.rgb().filled()))?;
            }
        }
        Ok(())
    })
}

fn frame(area: &Area<'_>, axis: &Axis, what: &str) -> Drawn {
    let (top, bottom) = (TOP * FINE, BOTTOM * FINE);
    for quarter in 0..=4 {
        let y = bottom - (bottom - top) * quarter / 4;
        line(area, (LEFT * FINE, y), (RIGHT * FINE, y), GRID, 2)?;
        let label = format!("{} %", quarter * 25);
        text(area, &label, ((LEFT - 8) * FINE, y), 11, MUTED, HPos::Right)?;
    }
    for tick in axis.ticks() {
        let x = axis.at(tick);
        line(area, (x, bottom), (x, bottom + 4 * FINE), MUTED, 2)?;
        let label = format!("{}", tick / 1e3);
        text(area, &label, (x, bottom + 15 * FINE), 12, MUTED, HPos::Center)?;
    }
    let scale = if axis.log { ", logarithmic" } else { "" };
    let label = format!("{what} in ms{scale}");
    text(area, &label, ((LEFT + RIGHT) / 2 * FINE, bottom + 38 * FINE), 12, MUTED, HPos::Center)
}

/// The line of a distribution, up to 100 % at the largest sample.
fn steps(samples: &[f64], axis: &Axis) -> Vec<(i32, i32)> {
    let (top, bottom) = (f64::from(TOP * FINE), f64::from(BOTTOM * FINE));
    let stride = samples.len().div_ceil(MAX_POINTS).max(1);
    let kept = (0..samples.len()).filter(|i| i % stride == 0 || i + 20 >= samples.len());
    let mut points = Vec::new();
    let mut level = BOTTOM * FINE;
    for i in kept {
        let x = axis.at(samples[i]);
        points.push((x, level));
        let share = (i + 1) as f64 / samples.len() as f64;
        level = (bottom - share * (bottom - top)).round() as i32;
        points.push((x, level));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_at_the_largest_sample_and_at_a_hundred_percent() {
        let axis = Axis::new(1.0, 5000.0, (LEFT, RIGHT));
        let samples: Vec<f64> = (1..=5000).map(f64::from).collect();
        let points = steps(&samples, &axis);
        assert!(points.len() < 2 * (MAX_POINTS + 21));
        assert_eq!(points.last(), Some(&(axis.at(5000.0), TOP * FINE)));
        assert!(steps(&[], &axis).is_empty());
    }
}
