//! The plots of the page, as SVG.

use super::{Plot, Series, Shape, number};
use crate::Error;
use crate::drawing::{Area, Axis, Drawn, FINE, draw, line, text};
use crate::theme::{GRID, Ink, MUTED, SERIES};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Sizes, in pixels of the page.
const WIDTH: i32 = 520;
const HEIGHT: i32 = 270;
const LEFT: i32 = 56;
const RIGHT: i32 = 502;
const TOP: i32 = 14;
const BOTTOM: i32 = 218;

/// A bar that is wider has its number above it, in drawn pixels.
const NUMBERED: f64 = 40.0;

/// The series that have a point, each with its colour: equal names have equal colours.
pub(super) fn inks(plot: &Plot) -> Vec<(&str, Ink)> {
    let drawn = plot.series.iter().filter(|series| !series.points.is_empty());
    drawn.zip(SERIES.iter().cycle()).map(|(series, ink)| (series.name.as_str(), *ink)).collect()
}

/// A plot; none if nothing is in it.
pub(super) fn plot(plot: &Plot) -> Result<Option<String>, Error> {
    let series: Vec<&Series> =
        plot.series.iter().filter(|series| !series.points.is_empty()).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    if series.is_empty() {
        return Ok(None);
    }
    let largest = points().fold(0.0, |most: f64, point| most.max(point.1));
    let y = Axis::new(largest, largest, (BOTTOM, TOP));
    draw(&plot.title, (WIDTH, HEIGHT), |area| {
        rows(area, &y)?;
        let middle = (LEFT + RIGHT) / 2 * FINE;
        let title = format!("{}, along {}", plot.y, plot.x);
        text(area, &title, (middle, (BOTTOM + 38) * FINE), 12, MUTED, HPos::Center)?;
        if plot.shape == Shape::Bars {
            return bars(area, &y, &series);
        }
        let positive = points().map(|point| point.0).filter(|x| *x > 0.0);
        let low = positive.fold(f64::INFINITY, f64::min);
        let high = points().fold(0.0, |most: f64, point| most.max(point.0));
        let x = match plot.shape {
            Shape::Distribution => Axis::logarithmic(low.max(high / 1e4), high, (LEFT, RIGHT)),
            _ => Axis::new(high, high, (LEFT, RIGHT)),
        };
        curves(area, (&x, &y), &series, plot.shape)
    })
    .map(Some)
}

fn rows(area: &Area<'_>, y: &Axis) -> Drawn {
    for tick in y.ticks() {
        let at = y.at(tick);
        line(area, (LEFT * FINE, at), (RIGHT * FINE, at), GRID, 2)?;
        text(area, &short(tick), ((LEFT - 8) * FINE, at), 11, MUTED, HPos::Right)?;
    }
    Ok(())
}

fn curves(area: &Area<'_>, (x, y): (&Axis, &Axis), series: &[&Series], shape: Shape) -> Drawn {
    let bottom = BOTTOM * FINE;
    for tick in x.ticks() {
        let at = x.at(tick);
        line(area, (at, bottom), (at, bottom + 4 * FINE), MUTED, 2)?;
        text(area, &short(tick), (at, bottom + 15 * FINE), 12, MUTED, HPos::Center)?;
    }
    for (series, ink) in series.iter().zip(SERIES.iter().cycle()) {
        let place = |(right, up): &(f64, f64)| (x.at(*right), y.at(*up));
        let path: Vec<(i32, i32)> = series.points.iter().map(place).collect();
        if shape == Shape::Lines {
            for at in &path {
                area.draw(&Circle::new(*at, 7, ink.rgb().filled()))?;
            }
        }
        area.draw(&PathElement::new(path, ink.rgb().stroke_width(4)))?;
    }
    Ok(())
}

fn bars(area: &Area<'_>, y: &Axis, series: &[&Series]) -> Drawn {
    let most = series.iter().max_by_key(|series| series.places.len());
    let places = most.map_or(&[][..], |series| series.places.as_slice());
    let width = f64::from((RIGHT - LEFT) * FINE) / places.len().max(1) as f64;
    let left = |place: f64| f64::from(LEFT * FINE) + place * width;
    for (place, name) in (0..).zip(places) {
        let middle = left(f64::from(place) + 0.5) as i32;
        // Names of many places stand in two rows.
        let row = if places.len() > 5 { 13 + 11 * (place % 2) } else { 15 };
        text(area, name, (middle, (BOTTOM + row) * FINE), 10, MUTED, HPos::Center)?;
    }
    let bar = width * 0.76 / series.len() as f64;
    for (row, (series, ink)) in (0..).zip(series.iter().zip(SERIES.iter().cycle())) {
        for (place, up) in &series.points {
            let from = left(*place) + width * 0.12 + bar * f64::from(row);
            let corners = [(from as i32, y.at(0.0)), ((from + bar * 0.92) as i32, y.at(*up))];
            area.draw(&Rectangle::new(corners, ink.rgb().filled()))?;
            // The numbers of narrow bars would stand on each other; the tables have them.
            if bar > NUMBERED {
                let above = ((from + bar * 0.46) as i32, y.at(*up) - 8 * FINE);
                let label = if up.fract() == 0.0 { up.to_string() } else { number(*up) };
                text(area, &label, above, 10, MUTED, HPos::Center)?;
            }
        }
    }
    Ok(())
}

/// A number without the noise of its last binary digits.
fn short(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}
