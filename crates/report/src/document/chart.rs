//! The charts of a page, as SVG.

use super::label::{Place, above, apart, clear_of};
use super::spoken;
use super::{Chart, Class, Limit, Line, Series, Shape};
use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, dashed, draw, line, text};
use crate::number::{digits, plain};
use crate::theme::{BOUND, COLOURS, GRID, Ink, LIMIT, MUTED, PAPER, series as ink_of};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Sizes, in pixels of the page.
const LEFT: i32 = 56;
const TOP: i32 = 34;
const HEIGHT: i32 = 196;
const BELOW: i32 = 54;
const MARGIN: i32 = 18;
/// Width of a chart, and of one that takes a row by itself.
const WIDTHS: (i32, i32) = (520, 1080);
/// Bars from which on a chart takes a row by itself.
const MANY_BARS: usize = 14;
/// Rows of limits' names above a chart, the size of their letters, and the width of one.
const ROW: i32 = 16;
const LETTERS: i32 = 12;
const LETTER: i32 = 7;
/// A bar that is wider has its number above it, in drawn pixels.
const NUMBERED: f64 = 40.0;
/// Most letters of the name of a place.
const MAX_NAME: usize = 26;
/// Width that values of zero take on a logarithmic axis, left of it.
const ZEROS: i32 = 40;
/// Most points along x that are labelled one by one.
const MAX_LABELLED: usize = 15;

/// A series that is drawn, with its look.
pub(super) type Inked<'a> = (&'a Series, Look);

/// Colour and line of a series.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) ink: Ink,
    pub(super) line: Line,
}

/// The series that have a point, with their looks: where the colours come again, lines are dashed.
pub(super) fn drawn(chart: &Chart) -> Vec<Inked<'_>> {
    let series = chart.series.iter().enumerate().filter(|(_, one)| !one.points.is_empty());
    let look = |place: usize, one: &Series| {
        let again = one.ink.is_none() && place >= COLOURS && one.line == Line::Solid;
        let line = if again { Line::Dashed } else { one.line };
        Look { ink: ink_of(one.ink.unwrap_or(place)), line }
    };
    series.map(|(place, one)| (one, look(place, one))).collect()
}

/// Returns true if the chart takes a row of the page by itself.
pub(super) fn is_wide(chart: &Chart) -> bool {
    match chart.shape {
        Shape::Stacked => true,
        Shape::Bars => chart.series.iter().map(|one| one.points.len()).sum::<usize>() > MANY_BARS,
        Shape::Lines | Shape::Distribution => false,
    }
}

/// Returns true if the chart is about the distribution of samples that are all zero.
pub(super) fn is_zero(chart: &Chart) -> bool {
    let mut samples = drawn(chart).into_iter().flat_map(|(one, _)| &one.points).peekable();
    chart.shape == Shape::Distribution
        && samples.peek().is_some()
        && samples.all(|(x, _)| *x == 0.0)
}

/// A chart; none if nothing is in it, or nothing but zeros where a logarithm would be shown.
pub(super) fn svg(chart: &Chart) -> Result<Option<String>, Error> {
    let series = drawn(chart);
    if series.is_empty() || is_zero(chart) {
        return Ok(None);
    }
    drawing(chart, &series).map(Some)
}

pub(super) fn places(chart: &Chart) -> &[String] {
    let most = chart.series.iter().max_by_key(|series| series.places.len());
    most.map_or(&[][..], |series| series.places.as_slice())
}

/// The least positive and the largest of some values.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let values = values.filter(|value| value.is_finite());
    let high = values.clone().fold(0.0, f64::max);
    (values.filter(|value| *value > 0.0).fold(high, f64::min), high)
}

pub(super) fn limits(chart: &Chart) -> impl Iterator<Item = &Limit> + Clone {
    chart.limits.iter().filter(|limit| limit.at.is_finite())
}

fn limit_ink(limit: &Limit) -> Ink {
    match limit.class {
        Class::Bad | Class::Warn => LIMIT,
        Class::Faint => MUTED,
        _ => BOUND,
    }
}

/// Measures of a chart.
struct Frame {
    width: i32,
    top: i32,
    right: i32,
    bottom: i32,
    x: Axis,
    y: Axis,
}

impl Frame {
    fn of(chart: &Chart, series: &[Inked<'_>], bars: &[Bar]) -> Frame {
        let width = if is_wide(chart) { WIDTHS.1 } else { WIDTHS.0 };
        let upright = chart.shape == Shape::Distribution;
        // The names of horizontal lines stand beside the chart.
        let beside = if upright { 0 } else { limits(chart).map(name_width).max().unwrap_or(0) };
        let right = width - MARGIN - beside;
        let points = || series.iter().flat_map(|(one, _)| &one.points);
        let x = along(chart, points().map(|point| point.0), (LEFT, right));
        // Bars have numbers on them; a distribution has the names of limits above it.
        let top = if upright { TOP - 8 + ROW * names(chart, &x, width).0 } else { TOP };
        let bottom = top + HEIGHT;
        let y = if upright {
            Axis::linear(0.0, 100.0, (bottom, top))
        } else {
            let spread = series.iter().flat_map(|(one, _)| &one.spread);
            let values = points().map(|point| point.1).chain(bars.iter().map(|bar| bar.high));
            let values = values.chain(spread.flat_map(|(low, high)| [*low, *high]));
            let (low, high) = range(values.chain(limits(chart).map(|limit| limit.at)));
            Axis::new(if chart.log { low } else { high }, high, (bottom, top))
        };
        Frame { width, top, right, bottom, x, y }
    }
}

/// The width of the name of a limit, with the space before it.
fn name_width(limit: &Limit) -> i32 {
    match i32::try_from(limit.name.chars().count()).unwrap_or(0) {
        0 => 0,
        letters => 8 + letters * LETTER,
    }
}

fn drawing(chart: &Chart, series: &[Inked<'_>]) -> Result<String, Error> {
    let upright = matches!(chart.shape, Shape::Bars | Shape::Stacked);
    let bars = if upright { bars(chart, series) } else { Vec::new() };
    let frame = Frame::of(chart, series, &bars);
    let Frame { width, right, bottom, x, y, .. } = &frame;
    draw(&spoken::name(chart), (*width, bottom + BELOW), |area| {
        text(area, &chart.y, (2, 10 * FINE), 12, MUTED, HPos::Left)?;
        for tick in y.ticks() {
            let at = y.at(tick);
            line(area, (LEFT * FINE, at), (right * FINE, at), GRID, 2)?;
            text(area, &plain(tick), ((LEFT - 8) * FINE, at), 11, MUTED, HPos::Right)?;
        }
        let middle = ((LEFT + right) / 2 * FINE, (bottom + 42) * FINE);
        text(area, &scaled(&chart.x, x.log), middle, 12, MUTED, HPos::Center)?;
        labels(area, chart, x, bottom * FINE)?;
        if chart.shape == Shape::Distribution {
            vertical_limits(area, chart, &frame)?;
        } else {
            horizontal_limits(area, chart, &frame)?;
        }
        let crossing: Vec<i32> = limits(chart).map(|limit| y.at(limit.at)).collect();
        draw_bars(area, (x, y), &bars, &crossing)?;
        // The wide ones lie below all others, and the first on top.
        let mut curves: Vec<&Inked<'_>> = series.iter().rev().filter(|_| !upright).collect();
        curves.sort_by_key(|(_, look)| look.line != Line::Wide);
        let distribution = chart.shape == Shape::Distribution;
        curves.into_iter().try_for_each(|one| curve(area, (x, y), one, distribution))
    })
}

fn scaled(label: &str, log: bool) -> String {
    format!("{label}{}", if log { ", logarithmic" } else { "" })
}

/// The axis along x.
fn along(chart: &Chart, xs: impl Iterator<Item = f64> + Clone, pixels: (i32, i32)) -> Axis {
    let places = places(chart);
    if !places.is_empty() {
        return Axis::linear(-0.5, places.len() as f64 - 0.5, pixels);
    }
    if chart.shape == Shape::Distribution {
        let zeros = xs.clone().any(|x| x <= 0.0);
        let (low, high) = range(xs.chain(limits(chart).map(|limit| limit.at)));
        let (low, (left, right)) = (low.max(high / 1e5), pixels);
        return match zeros {
            true => Axis::logarithmic(low, high, (left + ZEROS, right)).with_zero(left + ZEROS / 4),
            false => Axis::logarithmic(low, high, pixels),
        };
    }
    let xs = xs.filter(|x| x.is_finite());
    let (low, high) = xs.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
    let margin = if high > low { (high - low) * 0.03 } else { 0.5 };
    Axis::linear(low - margin, high + margin, pixels)
}

/// Names of the places, the points themselves where they are few, or round numbers.
fn labels(area: &Area<'_>, chart: &Chart, x: &Axis, bottom: i32) -> Drawn {
    let named = !places(chart).is_empty();
    let mut at: Vec<f64> = match chart.shape {
        _ if named => (0..places(chart).len()).map(|place| place as f64).collect(),
        Shape::Distribution => x.zero().map(|_| 0.0).into_iter().chain(x.ticks()).collect(),
        _ => chart.series.iter().flat_map(|one| &one.points).map(|point| point.0).collect(),
    };
    at.retain(|at| at.is_finite());
    at.sort_by(f64::total_cmp);
    at.dedup();
    if !named && at.len() > MAX_LABELLED {
        at = x.ticks();
    }
    let names: Vec<String> = if named {
        places(chart).iter().map(|name| shortened(name)).collect()
    } else {
        at.iter().map(|at| if at.fract() == 0.0 { plain(*at) } else { rounded(*at) }).collect()
    };
    let letters = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    // Names that would touch stand in two rows.
    let room = (x.at(x.high) - x.at(x.low)) / FINE;
    let needed = i32::try_from(names.len() * (letters + 1) * 6).unwrap_or(i32::MAX);
    for (row, (at, name)) in (0..).zip(at.into_iter().zip(&names)) {
        let x = x.at(at);
        line(area, (x, bottom), (x, bottom + 4 * FINE), MUTED, 2)?;
        let below = if needed > room { 13 + 11 * (row % 2) } else { 15 };
        text(area, name, (x, bottom + below * FINE), 11, MUTED, HPos::Center)?;
    }
    Ok(())
}

/// Number of rows of the names of vertical limits, and the place of each name in drawn pixels.
fn names(chart: &Chart, x: &Axis, width: i32) -> (i32, Vec<Place>) {
    let sizes: Vec<(i32, i32)> =
        limits(chart).map(|limit| (x.at(limit.at), name_width(limit) * FINE)).collect();
    let places = above(&sizes, (LEFT * FINE, width * FINE));
    (places.iter().map(|place| place.row + 1).max().unwrap_or(0), places)
}

fn vertical_limits(area: &Area<'_>, chart: &Chart, frame: &Frame) -> Drawn {
    let (_, places) = names(chart, &frame.x, frame.width);
    for (limit, place) in limits(chart).zip(places) {
        let (at, ink) = (frame.x.at(limit.at), limit_ink(limit));
        let middle = frame.top - 11 - ROW * place.row;
        let dash = if limit.class == Class::Plain { 4 } else { 12 };
        dashed(area, at, ((middle + 7) * FINE, frame.bottom * FINE), ink, dash)?;
        text(area, &limit.name, (place.left, middle * FINE), LETTERS, ink, HPos::Left)?;
    }
    Ok(())
}

/// Lines over the width of the chart, with their names beside it.
fn horizontal_limits(area: &Area<'_>, chart: &Chart, frame: &Frame) -> Drawn {
    // The largest first: of lines on each other, its name is the upper one.
    let mut limits: Vec<&Limit> = limits(chart).collect();
    limits.sort_by(|one, other| other.at.total_cmp(&one.at));
    let lines: Vec<i32> = limits.iter().map(|limit| frame.y.at(limit.at)).collect();
    let places = apart(&lines, (LETTERS + 2) * FINE, (frame.top * FINE, frame.bottom * FINE));
    for ((limit, at), place) in limits.into_iter().zip(lines).zip(places) {
        line(area, (LEFT * FINE, at), (frame.right * FINE, at), limit_ink(limit), 3)?;
        let name = ((frame.right + 6) * FINE, place);
        text(area, &limit.name, name, LETTERS, limit_ink(limit), HPos::Left)?;
    }
    Ok(())
}

fn curve(
    area: &Area<'_>,
    (x, y): (&Axis, &Axis),
    (series, Look { ink, line }): &Inked<'_>,
    distribution: bool,
) -> Drawn {
    let points: Vec<(i32, i32)> =
        series.points.iter().map(|(right, up)| (x.at(*right), y.at(*up))).collect();
    let (width, radius) = if *line == Line::Wide { (14, 11) } else { (5, 7) };
    let style = ink.rgb().stroke_width(width);
    if distribution {
        area.draw(&PathElement::new(steps(&points, y.at(0.0)), style))?;
        let last = points.iter().rev().take(1);
        return last.copied().try_for_each(|at| area.draw(&Circle::new(at, 8, ink.rgb().filled())));
    }
    for (at, (low, high)) in points.iter().zip(&series.spread) {
        whisker(area, at.0, (y.at(*low), y.at(*high)), *ink)?;
    }
    match line {
        Line::Solid | Line::Wide => area.draw(&PathElement::new(points.clone(), style))?,
        Line::Dashed => area.draw(&DashedPathElement::new(points.clone(), 14, 12, style))?,
        Line::Dotted => area.draw(&DashedPathElement::new(points.clone(), 4, 9, style))?,
    }
    for at in points {
        area.draw(&Circle::new(at, radius, ink.rgb().filled()))?;
        if matches!(line, Line::Dashed | Line::Dotted) {
            area.draw(&Circle::new(at, radius - 3, PAPER.rgb().filled()))?;
        }
    }
    Ok(())
}

/// The staircase through points that are the upper ends of its steps.
fn steps(points: &[(i32, i32)], bottom: i32) -> Vec<(i32, i32)> {
    let before = [bottom].into_iter().chain(points.iter().map(|(_, y)| *y));
    points.iter().zip(before).flat_map(|((x, y), before)| [(*x, before), (*x, *y)]).collect()
}

/// Draws a line from the lower to the upper end of a range.
fn whisker(area: &Area<'_>, x: i32, (low, high): (i32, i32), ink: Ink) -> Drawn {
    line(area, (x, low), (x, high), ink, 3)?;
    line(area, (x - 6, low), (x + 6, low), ink, 3)?;
    line(area, (x - 6, high), (x + 6, high), ink, 3)
}

/// A bar of a chart.
struct Bar {
    /// Bars of a lane stand above each other.
    lane: usize,
    place: f64,
    low: f64,
    high: f64,
    spread: Option<(f64, f64)>,
    ink: Ink,
    /// True if no other one stands on it.
    last: bool,
}

/// The bars of a chart: side by side, or one on the other.
fn bars(chart: &Chart, series: &[Inked<'_>]) -> Vec<Bar> {
    let mut ends = vec![0.0; places(chart).len()];
    let mut bars = Vec::new();
    for (row, (one, Look { ink, .. })) in series.iter().enumerate() {
        for (index, &(place, up)) in one.points.iter().enumerate() {
            let (spread, mut bar) = (one.spread.get(index).copied(), (row, 0.0, up, true));
            if let (Shape::Stacked, Some(end)) = (chart.shape, ends.get_mut(place as usize)) {
                bar = (0, *end, *end + up.max(0.0), row + 1 == series.len());
                *end = bar.2;
            }
            let (lane, low, high, last) = bar;
            bars.push(Bar { lane, place, low, high, spread, ink: *ink, last });
        }
    }
    bars
}

/// Draws bars, and their numbers where no limit crosses them.
fn draw_bars(area: &Area<'_>, (x, y): (&Axis, &Axis), bars: &[Bar], limits: &[i32]) -> Drawn {
    let lanes = bars.iter().map(|bar| bar.lane + 1).max().unwrap_or(1) as f64;
    let slot = f64::from(x.at(0.5) - x.at(-0.5));
    let wide = (slot * 0.76 / lanes).min(f64::from(70 * FINE));
    for bar in bars {
        let from = f64::from(x.at(bar.place)) + wide * (bar.lane as f64 - lanes / 2.0);
        let middle = (from + wide * 0.46) as i32;
        let (bottom, mut top) = (y.at(bar.low), y.at(bar.high));
        let corners = [(from as i32, bottom), ((from + wide * 0.92) as i32, top)];
        area.draw(&Rectangle::new(corners, bar.ink.rgb().filled()))?;
        if let Some((low, high)) = bar.spread {
            whisker(area, middle, (y.at(low), y.at(high)), MUTED)?;
            top = top.min(y.at(high));
        }
        // The numbers of narrow bars would stand on each other; the tables have them.
        if bar.last && wide > NUMBERED {
            let value = bar.high;
            let label = if value.fract() == 0.0 { value.to_string() } else { digits(value) };
            let at = clear_of(limits, top - 8 * FINE, 13 * FINE);
            text(area, &label, (middle, at), 10, MUTED, HPos::Center)?;
        }
    }
    Ok(())
}

/// A number with three digits: `0.5`, `3.21`.
fn rounded(value: f64) -> String {
    let unit = 10_f64.powf(value.abs().log10().floor() - 2.0);
    plain((value / unit).round() * unit)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_takes_any_values() {
        let points = [(0.0, 1.0), (0.0, f64::NAN), (1.0, -1e300), (f64::INFINITY, 1e300)];
        for shape in [Shape::Lines, Shape::Distribution, Shape::Bars, Shape::Stacked] {
            for places in [vec![], vec!["<a>".to_owned(), "b".repeat(40)]] {
                let points = points.to_vec();
                let series =
                    Series { places, points, spread: vec![(0.0, 2.0)], ..Series::default() };
                let limits = [0.0, f64::NAN, 1e9].map(|at| Limit { at, ..Limit::default() }).into();
                let chart = Chart { shape, series: vec![series], limits, ..Chart::default() };
                let svg = svg(&chart).unwrap().unwrap();
                assert!(svg.contains("</svg>") && !svg.contains("<a>"), "{shape:?}");
            }
        }
    }

    #[test]
    fn zeros_have_a_place_on_a_logarithmic_axis() {
        let chart = |samples: &[f64]| {
            let series = [Series::distribution("waited", samples)];
            Chart::new("Waiting", ("ms", "%"), Shape::Distribution, series)
        };
        let some = chart(&[0.0, 0.0, 3.0, 40.0]);
        let xs = [0.0, 0.0, 3.0, 40.0];
        let x = along(&some, xs.into_iter(), (LEFT, 500));
        assert_eq!(x.at(0.0), (LEFT + ZEROS / 4) * FINE);
        assert!(x.at(3.0) > (LEFT + ZEROS) * FINE && svg(&some).unwrap().is_some());
        let none = chart(&[0.0; 9]);
        assert!(is_zero(&none) && svg(&none).unwrap().is_none());
        assert!(along(&chart(&[1.0, 2.0]), [1.0, 2.0].into_iter(), (LEFT, 500)).zero().is_none());
    }

    #[test]
    fn no_two_series_look_the_same() {
        let series = (0..2 * COLOURS).map(|at| Series::new(at.to_string(), [(0.0, 1.0)]));
        let chart = Chart::new("", ("x", "y"), Shape::Lines, series);
        let looks: Vec<(&str, Line)> =
            drawn(&chart).iter().map(|(_, look)| (look.ink.name, look.line)).collect();
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "{look:?}");
        }
    }

    #[test]
    fn numbers_along_x_have_three_digits() {
        assert_eq!([3.209524, 0.05, 1234.5].map(rounded), ["3.21", "0.05", "1230"]);
    }

    #[test]
    fn distribution_is_a_staircase() {
        let points = [(1, 50), (4, 0)];
        assert_eq!(steps(&points, 100), [(1, 100), (1, 50), (4, 50), (4, 0)]);
    }
}
