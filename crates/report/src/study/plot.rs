//! The plots of the page, as SVG: one for each group, one line for each method.

use super::{Outcome, Point, SIMULATION, StudyRun, number};
use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, draw, line, text};
use crate::theme::{GRID, Ink, MUTED, PAPER, SERIES};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Sizes, in pixels of the page.
const WIDTH: i32 = 520;
const HEIGHT: i32 = 270;
const LEFT: i32 = 52;
const RIGHT: i32 = 502;
const TOP: i32 = 14;
const BOTTOM: i32 = 218;

/// The colour of the published theorem.
const PUBLISHED: usize = 1;

/// Look of the lines of a method: the colour says which analysis, the line which priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// The place of its colour in [`SERIES`].
    pub(super) ink: usize,
    /// Style of the line.
    pub(super) line: Line,
}

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// With the priorities of the sets.
    Solid,
    /// With deadline-monotonic priorities.
    Dashed,
    /// With others.
    Dotted,
}

impl Look {
    /// The look of a method, which may be any text.
    pub(super) fn of(method: &str) -> Look {
        let (analysis, assignment) = method.split_once('+').unwrap_or((method, ""));
        let ink = match analysis {
            "tight" => 0,
            "published" => PUBLISHED,
            "sound" => 2,
            SIMULATION => 5,
            _ => 3,
        };
        let line = match assignment {
            "" => Line::Solid,
            "dm" => Line::Dashed,
            _ => Line::Dotted,
        };
        Look { ink, line }
    }

    fn colour(self) -> Ink {
        SERIES[self.ink]
    }

    /// The line of the published theorem is wide and lies below all others, so that it still shows
    /// where the sound one accepts the same.
    fn width(self) -> u32 {
        if self.ink == PUBLISHED { 14 } else { 5 }
    }
}

impl Line {
    /// For the page's style.
    pub(super) fn class(self) -> &'static str {
        match self {
            Line::Solid => "",
            Line::Dashed => "dashed",
            Line::Dotted => "dotted",
        }
    }

    /// Length of dashes and gaps, in drawn pixels.
    fn dash(self) -> Option<(i32, i32)> {
        match self {
            Line::Solid => None,
            Line::Dashed => Some((14, 12)),
            Line::Dotted => Some((4, 9)),
        }
    }
}

/// Scales of x and y in the drawing.
struct Scales {
    low: f64,
    high: f64,
    y: Axis,
    percent: bool,
}

impl Scales {
    /// The same for all groups, so that plots can be compared.
    fn new(run: &StudyRun) -> Scales {
        let xs = run.points.iter().map(|point| point.x);
        let (low, high) = xs.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        let outcomes = run.points.iter().flat_map(|point| &point.outcomes);
        let scales =
            |permille: u32| outcomes.clone().filter_map(move |outcome| outcome.scale(permille));
        let most = scales(900).fold(0.0, f64::max);
        let least = scales(100).filter(|scale| *scale > 0.0).fold(most, f64::min);
        let percent = run.scaled.is_none();
        let (least, most) = if percent { (100.0, 94.4) } else { (least, most) };
        Scales { low, high, y: Axis::new(least, most, (BOTTOM, TOP)), percent }
    }

    fn x(&self, value: f64) -> i32 {
        let (left, right) = (f64::from(LEFT + 14), f64::from(RIGHT - 14));
        let share =
            if self.high > self.low { (value - self.low) / (self.high - self.low) } else { 0.5 };
        ((left + share * (right - left)) * f64::from(FINE)).round() as i32
    }

    fn at(&self, point: &Point, y: f64) -> (i32, i32) {
        (self.x(point.x), self.y.at(y))
    }
}

/// The points of one group: what each method accepts along x, or the median scale with the range
/// from the 10th to the 90th percentile.
pub(super) fn panel(run: &StudyRun, group: f64) -> Result<String, Error> {
    let scales = Scales::new(run);
    let points: Vec<&Point> = run.in_group(group).collect();
    draw(&run.group.at(group), (WIDTH, HEIGHT), |area| {
        frame(area, run, &scales, &points)?;
        let looks = run.methods.iter().map(|method| Look::of(method)).enumerate();
        let mut looks: Vec<(usize, Look)> = looks.collect();
        looks.sort_by_key(|(index, look)| std::cmp::Reverse((look.width(), *index)));
        looks.into_iter().try_for_each(|look| curve(area, run, &scales, &points, look))
    })
}

fn frame(area: &Area<'_>, run: &StudyRun, scales: &Scales, points: &[&Point]) -> Drawn {
    let (left, right) = (LEFT * FINE, RIGHT * FINE);
    let ticks = if scales.percent { vec![0.0, 25.0, 50.0, 75.0, 100.0] } else { scales.y.ticks() };
    for tick in ticks {
        let y = scales.y.at(tick);
        line(area, (left, y), (right, y), GRID, 2)?;
        let label = if scales.percent { format!("{tick} %") } else { tick.to_string() };
        text(area, &label, (left - 8 * FINE, y), 11, MUTED, HPos::Right)?;
    }
    let bottom = BOTTOM * FINE;
    // About as many labels as there is room for.
    for point in points.iter().step_by(points.len().div_ceil(15).max(1)) {
        let x = scales.x(point.x);
        line(area, (x, bottom), (x, bottom + 4 * FINE), MUTED, 2)?;
        let label = number(point.x);
        text(area, &label, (x, bottom + 15 * FINE), 12, MUTED, HPos::Center)?;
    }
    let middle = (left + right) / 2;
    text(area, &run.x.label(), (middle, bottom + 36 * FINE), 12, MUTED, HPos::Center)
}

fn curve(
    area: &Area<'_>,
    run: &StudyRun,
    scales: &Scales,
    points: &[&Point],
    (index, look): (usize, Look),
) -> Drawn {
    let along = |height: &dyn Fn(&Outcome) -> Option<f64>| -> Vec<(i32, i32)> {
        let of_point = |point: &&Point| Some(scales.at(point, height(point.outcomes.get(index)?)?));
        points.iter().filter_map(of_point).collect()
    };
    let ink = look.colour().rgb();
    if run.scaled.is_some() {
        let mut range = along(&|outcome| outcome.scale(100));
        range.extend(along(&|outcome| outcome.scale(900)).into_iter().rev());
        area.draw(&Polygon::new(range, ink.mix(0.12).filled()))?;
    }
    let curve = along(&|outcome| run.shown(outcome));
    let style = ink.stroke_width(look.width());
    match look.line.dash() {
        Some((dash, gap)) => {
            area.draw(&DashedPathElement::new(curve.clone(), dash, gap, style))?;
        }
        None => area.draw(&PathElement::new(curve.clone(), style))?,
    }
    let radius = if look.ink == PUBLISHED { 11 } else { 7 };
    for at in curve {
        area.draw(&Circle::new(at, radius, ink.filled()))?;
        if look.line != Line::Solid {
            area.draw(&Circle::new(at, radius - 3, PAPER.rgb().filled()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_analysis_has_a_colour_and_every_assignment_a_line() {
        let looks = ["tight", "sound", "published", SIMULATION].map(Look::of);
        let colours: std::collections::HashSet<usize> = looks.iter().map(|look| look.ink).collect();
        assert_eq!(colours.len(), looks.len());
        assert!(looks.iter().all(|look| look.line == Line::Solid));
        let tight = Look::of("tight");
        assert_eq!(Look::of("tight+dm"), Look { line: Line::Dashed, ..tight });
        assert_eq!(Look::of("tight+search"), Look { line: Line::Dotted, ..tight });
    }
}
