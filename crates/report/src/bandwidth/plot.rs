//! The plots of the page, as SVG: bars beside each other with their quartiles, and lines.

use super::Spread;
use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, draw, line, text};
use crate::theme::{GRID, Ink, MUTED, SERIES, TEXT};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Sizes, in pixels of the page.
const WIDTH: i32 = 1000;
const HEIGHT: i32 = 300;
const LEFT: i32 = 64;
const RIGHT: i32 = 986;
const TOP: i32 = 34;
const BOTTOM: i32 = 244;
const LETTERS: i32 = 13;

/// Content of a plot: groups of values along x, a value for each series.
pub(super) struct Plot<'a> {
    /// The name of the plot, for errors.
    pub(super) name: &'a str,
    /// Label of the x axis.
    pub(super) x: &'a str,
    /// Label of the y axis.
    pub(super) y: &'a str,
    /// The series, in the order of their colours from [`Plot::ink`] on.
    pub(super) series: Vec<String>,
    /// The colour of the first series.
    pub(super) ink: usize,
    /// Groups: what stands below, and the values of the series.
    pub(super) groups: Vec<(String, Vec<Option<Spread>>)>,
    /// A line across with its meaning: no slowdown, say.
    pub(super) level: Option<f64>,
}

impl Plot<'_> {
    /// Bars beside each other.
    pub(super) fn bars(&self) -> Result<String, Error> {
        draw(self.name, (WIDTH, HEIGHT), |area| {
            let y = self.axes(area)?;
            let step = self.step();
            let count = i32::try_from(self.series.len()).unwrap_or(1).max(1);
            let wide = (step * 7 / 10 / count).min(70 * FINE);
            for (index, (_, values)) in (0..).zip(&self.groups) {
                let from = self.middle(index) - wide * count / 2;
                for ((place, value), ink) in (0..).zip(values).zip(self.inks()) {
                    let Some(value) = value else { continue };
                    self.bar(area, &y, (from + place * wide, wide), value, ink)?;
                }
            }
            Ok(())
        })
    }

    /// Lines with whiskers from quartile to quartile.
    pub(super) fn lines(&self) -> Result<String, Error> {
        draw(self.name, (WIDTH, HEIGHT), |area| {
            let y = self.axes(area)?;
            for (number, ink) in (0..self.series.len()).zip(self.inks()) {
                let values = (0..).zip(&self.groups);
                let points: Vec<(i32, &Spread)> = values
                    .filter_map(|(i, (_, values))| {
                        Some((self.middle(i), values.get(number)?.as_ref()?))
                    })
                    .collect();
                let path: Vec<(i32, i32)> =
                    points.iter().map(|(x, value)| (*x, y.at(value.median))).collect();
                area.draw(&PathElement::new(path.clone(), ink.rgb().stroke_width(5)))?;
                for (x, value) in points {
                    whisker(area, &y, x, value, ink)?;
                }
                for at in path {
                    area.draw(&Circle::new(at, 7, ink.rgb().filled()))?;
                }
            }
            Ok(())
        })
    }

    fn inks(&self) -> impl Iterator<Item = Ink> {
        SERIES.into_iter().cycle().skip(self.ink)
    }

    /// Pixels of the drawing for a group.
    fn step(&self) -> i32 {
        (RIGHT - LEFT) * FINE / i32::try_from(self.groups.len()).unwrap_or(1).max(1)
    }

    fn middle(&self, group: i32) -> i32 {
        LEFT * FINE + self.step() * group + self.step() / 2
    }

    fn axes(&self, area: &Area<'_>) -> Result<Axis, DrawingAreaErrorKind<std::io::Error>> {
        let values = self.groups.iter().flat_map(|(_, values)| values).flatten();
        let most = values.fold(self.level.unwrap_or(0.0), |most, value| most.max(value.q3));
        // Linear, from zero: bars are compared by their length.
        let y = Axis::new(most, most, (BOTTOM, TOP));
        let (left, right, bottom) = (LEFT * FINE, RIGHT * FINE, BOTTOM * FINE);
        text(area, self.y, (0, 12 * FINE), LETTERS, MUTED, HPos::Left)?;
        for tick in y.ticks() {
            let at = y.at(tick);
            line(area, (left, at), (right, at), GRID, 2)?;
            let label = ((tick * 1e6).round() / 1e6).to_string();
            text(area, &label, (left - 8 * FINE, at), LETTERS, MUTED, HPos::Right)?;
        }
        if let Some(level) = self.level {
            line(area, (left, y.at(level)), (right, y.at(level)), MUTED, 3)?;
        }
        for (index, (name, _)) in (0..).zip(&self.groups) {
            let at = (self.middle(index), bottom + 16 * FINE);
            text(area, name, at, LETTERS, TEXT, HPos::Center)?;
        }
        let at = ((left + right) / 2, bottom + 40 * FINE);
        text(area, self.x, at, LETTERS, MUTED, HPos::Center)?;
        Ok(y)
    }

    fn bar(
        &self,
        area: &Area<'_>,
        y: &Axis,
        (left, wide): (i32, i32),
        value: &Spread,
        ink: Ink,
    ) -> Drawn {
        let corners = [(left + 3, y.at(value.median)), (left + wide - 3, y.at(0.0))];
        area.draw(&Rectangle::new(corners, ink.rgb().filled()))?;
        let middle = left + wide / 2;
        whisker(area, y, middle, value, MUTED)?;
        let label = short(value.median);
        let at = (middle, y.at(value.q3.max(value.median)) - 9 * FINE);
        text(area, &label, at, LETTERS - 2, MUTED, HPos::Center)
    }
}

/// From quartile to quartile.
fn whisker(area: &Area<'_>, y: &Axis, x: i32, value: &Spread, ink: Ink) -> Drawn {
    let (low, high) = (y.at(value.q1), y.at(value.q3));
    line(area, (x, low), (x, high), ink, 3)?;
    line(area, (x - 6, low), (x + 6, low), ink, 3)?;
    line(area, (x - 6, high), (x + 6, high), ink, 3)
}

/// About three digits.
fn short(number: f64) -> String {
    match number.abs() {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}
