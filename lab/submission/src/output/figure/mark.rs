//! Markers and the legend: what tells contenders apart besides their colours.

use crate::output::contender::Look;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use report::drawing::{Area, Drawn, FINE, text};
use report::theme::{PAPER, TEXT};

/// Sizes of the legend, in pixels of the page.
const ROW: i32 = 20;
const LEFT: i32 = 2;
const LINE: i32 = 30;
const GAP: i32 = 18;
const LETTER: f64 = 6.9;

/// A marker: each method has a shape of its own; it is hollow for the second accelerator.
pub(super) fn mark(area: &Area<'_>, (x, y): (i32, i32), look: Look) -> Drawn {
    shape(area, (x, y), look, 8, look.ink().rgb())?;
    if look.turn > 0 { shape(area, (x, y), look, 4, PAPER.rgb()) } else { Ok(()) }
}

fn shape(area: &Area<'_>, (x, y): (i32, i32), look: Look, size: i32, ink: RGBColor) -> Drawn {
    let corners = |corners: &[(i32, i32)]| {
        let points: Vec<(i32, i32)> =
            corners.iter().map(|(dx, dy)| (x + dx * size / 8, y + dy * size / 8)).collect();
        area.draw(&Polygon::new(points, ink.filled()))
    };
    match look.method % 8 {
        0 => area.draw(&Circle::new((x, y), size, ink.filled())),
        1 => corners(&[(-7, -7), (7, -7), (7, 7), (-7, 7)]),
        2 => corners(&[(0, -10), (9, 7), (-9, 7)]),
        3 => corners(&[(0, -10), (10, 0), (0, 10), (-10, 0)]),
        4 => corners(&[(0, 10), (9, -7), (-9, -7)]),
        5 => corners(&[(-10, -4), (10, -4), (10, 4), (-10, 4)]),
        6 => corners(&[(-4, -10), (4, -10), (4, 10), (-4, 10)]),
        _ => corners(&[(0, -10), (10, -2), (6, 9), (-6, 9), (-10, -2)]),
    }
}

/// Begin of each entry, and the height of all.
fn places(legend: &[(String, Look)], width: i32) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut y) = (LEFT, 0);
    let mut places = Vec::new();
    for (name, _) in legend {
        let entry = LINE + 8 + (name.chars().count() as f64 * LETTER) as i32;
        if x > LEFT && x + entry > width {
            (x, y) = (LEFT, y + ROW);
        }
        places.push((x, y));
        x += entry + GAP;
    }
    (places, y + ROW)
}

/// The height of a legend, in pixels of the page.
pub(super) fn legend_rows(legend: &[(String, Look)], width: i32) -> i32 {
    places(legend, width).1
}

/// Draws the names of the contenders with their looks, at the top of the drawing.
pub(super) fn legend(area: &Area<'_>, legend: &[(String, Look)], width: i32) -> Drawn {
    let (places, _) = places(legend, width);
    for ((name, look), (x, y)) in legend.iter().zip(places) {
        let (x, y) = (x * FINE, (y + ROW / 2) * FINE);
        let path = vec![(x, y), (x + LINE * FINE, y)];
        let style = look.ink().rgb().stroke_width(3);
        if look.turn > 0 {
            area.draw(&DashedPathElement::new(path, 12, 8, style))?;
        } else {
            area.draw(&PathElement::new(path, style))?;
        }
        mark(area, (x + LINE * FINE / 2, y), *look)?;
        text(area, name, (x + (LINE + 7) * FINE, y), 13, TEXT, HPos::Left)?;
    }
    Ok(())
}
