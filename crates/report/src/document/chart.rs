//! The charts of a page, as SVG.

use super::{Chart, Class, Limit, Line, Series, Shape};
use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, dashed, draw, line, text};
use crate::number::{digits, plain};
use crate::theme::{BOUND, GRID, Ink, LIMIT, MUTED, PAPER, series as ink_of};
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
/// Rows of limits' names above a chart.
const ROW: i32 = 14;
/// A bar that is wider has its number above it, in drawn pixels.
const NUMBERED: f64 = 40.0;
/// Most letters of the name of a place.
const MAX_NAME: usize = 26;
/// Most points along x that are labelled one by one.
const MAX_LABELLED: usize = 15;

/// A series that is drawn, with its colour.
pub(super) type Inked<'a> = (&'a Series, Ink);

/// The series that have a point, with their colours.
pub(super) fn drawn(chart: &Chart) -> Vec<Inked<'_>> {
    let series = chart.series.iter().enumerate().filter(|(_, one)| !one.points.is_empty());
    series.map(|(place, one)| (one, ink_of(one.ink.unwrap_or(place)))).collect()
}

/// Returns true if the chart takes a row of the page by itself.
pub(super) fn is_wide(chart: &Chart) -> bool {
    match chart.shape {
        Shape::Stacked => true,
        Shape::Bars => chart.series.iter().map(|one| one.points.len()).sum::<usize>() > MANY_BARS,
        Shape::Lines | Shape::Distribution => false,
    }
}

/// A chart; none if nothing is in it.
pub(super) fn svg(chart: &Chart) -> Result<Option<String>, Error> {
    let series = drawn(chart);
    if series.is_empty() {
        return Ok(None);
    }
    drawing(chart, &series).map(Some)
}

fn places(chart: &Chart) -> &[String] {
    let most = chart.series.iter().max_by_key(|series| series.places.len());
    most.map_or(&[][..], |series| series.places.as_slice())
}

/// The least positive and the largest of some values.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let values = values.filter(|value| value.is_finite());
    let high = values.clone().fold(0.0, f64::max);
    (values.filter(|value| *value > 0.0).fold(high, f64::min), high)
}

fn limits(chart: &Chart) -> impl Iterator<Item = &Limit> + Clone {
    chart.limits.iter().filter(|limit| limit.at.is_finite())
}

fn limit_ink(limit: &Limit) -> Ink {
    match limit.class {
        Class::Bad | Class::Warn => LIMIT,
        Class::Faint => MUTED,
        _ => BOUND,
    }
}

fn drawing(chart: &Chart, series: &[Inked<'_>]) -> Result<String, Error> {
    let width = if is_wide(chart) { WIDTHS.1 } else { WIDTHS.0 };
    let distribution = chart.shape == Shape::Distribution;
    let rows = if distribution { i32::try_from(chart.limits.len()).unwrap_or(0) } else { 0 };
    let top = TOP + ROW * rows;
    let (right, bottom) = (width - MARGIN, top + HEIGHT);
    let upright = matches!(chart.shape, Shape::Bars | Shape::Stacked);
    let bars = if upright { bars(chart, series) } else { Vec::new() };
    let points = || series.iter().flat_map(|(one, _)| &one.points);
    let x = along(chart, points().map(|point| point.0), (LEFT, right));
    let y = if distribution {
        Axis::linear(0.0, 100.0, (bottom, top))
    } else {
        let spread = series.iter().flat_map(|(one, _)| &one.spread);
        let values = points().map(|point| point.1).chain(bars.iter().map(|bar| bar.high));
        let values = values.chain(spread.flat_map(|(low, high)| [*low, *high]));
        let (low, high) = range(values.chain(limits(chart).map(|limit| limit.at)));
        Axis::new(if chart.log { low } else { high }, high, (bottom, top))
    };
    draw(&chart.title, (width, bottom + BELOW), |area| {
        text(area, &chart.y, (0, 10 * FINE), 12, MUTED, HPos::Left)?;
        for tick in y.ticks() {
            let at = y.at(tick);
            line(area, (LEFT * FINE, at), (right * FINE, at), GRID, 2)?;
            text(area, &plain(tick), ((LEFT - 8) * FINE, at), 11, MUTED, HPos::Right)?;
        }
        let middle = ((LEFT + right) / 2 * FINE, (bottom + 42) * FINE);
        text(area, &scaled(&chart.x, x.log), middle, 12, MUTED, HPos::Center)?;
        labels(area, chart, &x, bottom * FINE)?;
        draw_bars(area, (&x, &y), &bars)?;
        for (row, limit) in (0..).zip(limits(chart)) {
            if distribution {
                vertical_limit(area, limit, &x, (TOP + ROW * row, bottom), right)?;
            } else {
                let at = y.at(limit.at);
                line(area, (LEFT * FINE, at), (right * FINE, at), limit_ink(limit), 3)?;
                let name = (right * FINE, at - 8 * FINE);
                text(area, &limit.name, name, 11, limit_ink(limit), HPos::Right)?;
            }
        }
        // The wide ones lie below all others, and the first on top.
        let mut curves: Vec<&Inked<'_>> = series.iter().rev().filter(|_| !upright).collect();
        curves.sort_by_key(|(one, _)| one.line != Line::Wide);
        curves.into_iter().try_for_each(|one| curve(area, (&x, &y), one, distribution))
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
        let (low, high) = range(xs.chain(limits(chart).map(|limit| limit.at)));
        return Axis::logarithmic(low.max(high / 1e5), high, pixels);
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
        Shape::Distribution => x.ticks(),
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
        at.iter().map(|at| plain(*at)).collect()
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

fn vertical_limit(
    area: &Area<'_>,
    limit: &Limit,
    x: &Axis,
    (top, bottom): (i32, i32),
    right: i32,
) -> Drawn {
    let (at, ink) = (x.at(limit.at), limit_ink(limit));
    let dash = if limit.class == Class::Plain { 4 } else { 12 };
    dashed(area, at, ((top - 2) * FINE, bottom * FINE), ink, dash)?;
    let half = i32::try_from(limit.name.len()).unwrap_or(0) * 7 * FINE / 2;
    let (at, side) = match at {
        at if at + half > right * FINE => (right * FINE, HPos::Right),
        at if at < half => (2, HPos::Left),
        at => (at, HPos::Center),
    };
    text(area, &limit.name, (at, (top - 9) * FINE), 12, ink, side)
}

fn curve(
    area: &Area<'_>,
    (x, y): (&Axis, &Axis),
    (series, ink): &Inked<'_>,
    distribution: bool,
) -> Drawn {
    let points: Vec<(i32, i32)> =
        series.points.iter().map(|(right, up)| (x.at(*right), y.at(*up))).collect();
    let (width, radius) = if series.line == Line::Wide { (14, 11) } else { (5, 7) };
    let style = ink.rgb().stroke_width(width);
    if distribution {
        area.draw(&PathElement::new(steps(&points, y.at(0.0)), style))?;
        let last = points.iter().rev().take(1);
        return last.copied().try_for_each(|at| area.draw(&Circle::new(at, 8, ink.rgb().filled())));
    }
    for (at, (low, high)) in points.iter().zip(&series.spread) {
        whisker(area, at.0, (y.at(*low), y.at(*high)), *ink)?;
    }
    match series.line {
        Line::Solid | Line::Wide => area.draw(&PathElement::new(points.clone(), style))?,
        Line::Dashed => area.draw(&DashedPathElement::new(points.clone(), 14, 12, style))?,
        Line::Dotted => area.draw(&DashedPathElement::new(points.clone(), 4, 9, style))?,
    }
    for at in points {
        area.draw(&Circle::new(at, radius, ink.rgb().filled()))?;
        if matches!(series.line, Line::Dashed | Line::Dotted) {
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
    for (row, (one, ink)) in series.iter().enumerate() {
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

fn draw_bars(area: &Area<'_>, (x, y): (&Axis, &Axis), bars: &[Bar]) -> Drawn {
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
            text(area, &label, (middle, top - 8 * FINE), 10, MUTED, HPos::Center)?;
        }
    }
    Ok(())
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
    fn distribution_is_a_staircase() {
        let points = [(1, 50), (4, 0)];
        assert_eq!(steps(&points, 100), [(1, 100), (1, 50), (4, 50), (4, 0)]);
    }
}
