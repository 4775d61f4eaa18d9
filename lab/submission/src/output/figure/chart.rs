//! A figure of panels that share their axes: lines over a logarithmic or a counting x.

use super::mark::{legend, legend_rows, mark};
use crate::output::contender::Look;
use crate::output::unit;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use report::drawing::{self, Area, Axis, Drawn, FINE, dashed, line, text};
use report::theme::{GRID, MUTED, TEXT};

/// Sizes, in pixels of the page.
const WIDTH: i32 = 900;
const LEFT: i32 = 62;
const RIGHT: i32 = 14;
const TOP: i32 = 34;
const BOTTOM: i32 = 34;
const GAP: i32 = 18;
/// Below the last row of panels: the name of x.
const FOOT: i32 = 22;
/// Size of letters.
const LETTERS: i32 = 13;
/// A generous width of one of them.
const LETTER: i32 = 7;
/// Distance between neighbours' whiskers, in pixels of the drawing.
const APART: i32 = 2;

/// A figure.
pub(super) struct Chart {
    /// Names of the contenders and their looks.
    pub(super) legend: Vec<(String, Look)>,
    /// Panels beside each other.
    pub(super) columns: usize,
    /// The panels, row by row.
    pub(super) panels: Vec<Panel>,
    /// Label of the x axis.
    pub(super) x: &'static str,
    /// True if x is logarithmic.
    pub(super) log: bool,
    /// Values of x that are labelled.
    pub(super) ticks: Vec<f64>,
    /// Quantity on the y axis.
    pub(super) y: Quantity,
    /// True if each column has a y of its own.
    pub(super) apart: bool,
    /// A vertical line of a meaning.
    pub(super) border: Option<(f64, &'static str)>,
}

/// Quantity on the y axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Nanoseconds.
    Time,
    /// A factor, with a line at 1.
    Factor,
}

/// A plot of a figure.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
}

/// Points of a contender in a panel.
pub(super) struct Line {
    pub(super) look: Look,
    pub(super) points: Vec<Point>,
}

/// Point that a line goes through.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Value of y at which the whisker ends.
    pub(super) up: Option<f64>,
}

/// Place of a panel, in pixels of the page, and its axes.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    x: Axis,
    y: Axis,
}

impl Chart {
    /// The drawing.
    pub(super) fn svg(&self, name: &str) -> Result<String, report::Error> {
        let head = legend_rows(&self.legend, WIDTH) + 8;
        let rows = i32::try_from(self.panels.len().div_ceil(self.columns)).unwrap_or(1);
        let row = if rows > 2 { 218 } else { 262 };
        drawing::draw(name, (WIDTH, head + rows * row + FOOT), |area| {
            legend(area, &self.legend, WIDTH)?;
            for (index, panel) in self.panels.iter().enumerate() {
                let frame = self.frame(index, head, row);
                self.axes(area, &frame, panel)?;
                self.lines(area, &frame, panel)?;
            }
            let foot = (head + rows * row + 6) * FINE;
            text(area, self.x, (WIDTH / 2 * FINE, foot), LETTERS, MUTED, HPos::Center)
        })
    }

    fn frame(&self, index: usize, head: i32, row: i32) -> Frame {
        let place = |number: usize| i32::try_from(number).unwrap_or(0);
        let columns = place(self.columns);
        let width = (WIDTH - (columns - 1) * GAP) / columns;
        let left = place(index % self.columns) * (width + GAP) + LEFT;
        let right = left - LEFT + width - RIGHT;
        let top = head + place(index / self.columns) * row + TOP;
        let bottom = top - TOP + row - BOTTOM;
        let (low, high) = span(self.panels.iter(), |point| [Some(point.x), None]);
        let pixels = (left + 10, right - 10);
        let x = match self.log {
            true if low < high => Axis::logarithmic(low / 0.85, high / 1.18, pixels),
            true => Axis::logarithmic(low, high, pixels),
            false => Axis::new(high, high, pixels),
        };
        // Panels can be compared, at least those below each other.
        let (skip, step) = if self.apart { (index % self.columns, self.columns) } else { (0, 1) };
        let panels = self.panels.iter().skip(skip).step_by(step);
        let (low, high) = span(panels, |point| [Some(point.y), point.up]);
        // A panel needs some height even where all is the same.
        let (low, high) = match self.y {
            Quantity::Factor => (low.min(0.8), high.max(1.25)),
            Quantity::Time => (low.min(high / 3.0), high),
        };
        Frame { left, right, top, bottom, x, y: Axis::logarithmic(low, high, (bottom, top)) }
    }

    fn axes(&self, area: &Area<'_>, frame: &Frame, panel: &Panel) -> Drawn {
        let (left, right) = (frame.left * FINE, frame.right * FINE);
        let (top, bottom) = (frame.top * FINE, frame.bottom * FINE);
        let title = (left - 2, top - 16 * FINE);
        text(area, &panel.title, title, LETTERS + 1, TEXT, HPos::Left)?;
        for tick in ticks(&frame.y) {
            let y = frame.y.at(tick);
            let even = self.y == Quantity::Factor && (tick - 1.0).abs() < 1e-9;
            line(area, (left, y), (right, y), if even { MUTED } else { GRID }, 2)?;
            let label = match self.y {
                Quantity::Time => unit::round(tick),
                Quantity::Factor => format!("{}×", (tick * 1e3).round() / 1e3),
            };
            text(area, &label, (left - 7 * FINE, y), LETTERS, MUTED, HPos::Right)?;
        }
        let mut free = i32::MIN;
        for tick in &self.ticks {
            let (x, label) = (frame.x.at(*tick), tick.to_string());
            let half = i32::try_from(label.len()).unwrap_or(0) * LETTER * FINE / 2;
            if x - half < free {
                continue;
            }
            free = x + half + 3 * FINE;
            line(area, (x, bottom), (x, bottom + 4 * FINE), MUTED, 2)?;
            text(area, &label, (x, bottom + 14 * FINE), LETTERS - 1, MUTED, HPos::Center)?;
        }
        if let Some((at, meaning)) = self.border {
            let x = frame.x.at(at);
            dashed(area, x, (top, bottom), MUTED, 8)?;
            // Above the plot, so that no line crosses it.
            let at = (x.max(left + 110 * FINE), top - 16 * FINE);
            text(area, meaning, at, LETTERS, MUTED, HPos::Left)?;
        }
        Ok(())
    }

    fn lines(&self, area: &Area<'_>, frame: &Frame, panel: &Panel) -> Drawn {
        let middle = (i32::try_from(panel.lines.len()).unwrap_or(1) - 1) * APART / 2;
        for (index, line) in (0..).zip(&panel.lines) {
            self.whiskers(area, frame, line, index * APART - middle)?;
        }
        // The first contender lies on top.
        panel.lines.iter().rev().try_for_each(|line| self.line(area, frame, line))
    }

    fn whiskers(&self, area: &Area<'_>, frame: &Frame, line: &Line, aside: i32) -> Drawn {
        let ink = line.look.ink().rgb().mix(0.55);
        for point in &line.points {
            let Some(up) = point.up else { continue };
            let (x, y) = (frame.x.at(point.x) + aside, frame.y.at(up));
            let stem = [(x, frame.y.at(point.y)), (x, y)];
            area.draw(&PathElement::new(stem, ink.stroke_width(2)))?;
            area.draw(&PathElement::new([(x - 4, y), (x + 4, y)], ink.stroke_width(2)))?;
        }
        Ok(())
    }

    fn line(&self, area: &Area<'_>, frame: &Frame, line: &Line) -> Drawn {
        let at = |point: &Point| (frame.x.at(point.x), frame.y.at(point.y));
        let path: Vec<(i32, i32)> = line.points.iter().map(at).collect();
        let style = line.look.ink().rgb().stroke_width(3);
        if line.look.turn > 0 {
            area.draw(&DashedPathElement::new(path.clone(), 12, 8, style))?;
        } else {
            area.draw(&PathElement::new(path.clone(), style))?;
        }
        // Markers that touch say nothing.
        let crowded = path.windows(2).any(|pair| pair[1].0 - pair[0].0 < 12 * FINE);
        let marked: Vec<(i32, i32)> = match path.as_slice() {
            [] => Vec::new(),
            [first, .., last] if crowded => vec![*first, *last],
            all => all.to_vec(),
        };
        marked.into_iter().try_for_each(|at| mark(area, at, line.look))
    }
}

/// Round values of an axis; more of them where it spans little.
fn ticks(axis: &Axis) -> Vec<f64> {
    let ticks = axis.ticks();
    if ticks.len() > 2 {
        return ticks;
    }
    let decades = axis.low.log10().floor() as i32..=axis.high.log10().ceil() as i32;
    let fine = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0];
    let values = decades.flat_map(|decade| fine.map(|tick| tick * 10_f64.powi(decade)));
    values.filter(|tick| (axis.low..=axis.high).contains(tick)).collect()
}

/// The least and the largest of all values.
fn span<'p>(
    panels: impl Iterator<Item = &'p Panel>,
    of: impl Fn(&Point) -> [Option<f64>; 2],
) -> (f64, f64) {
    let points = panels.flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    let values = points.flat_map(of).flatten().filter(|value| *value > 0.0);
    values.fold((f64::MAX, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}
