//! Several charts below one legend, as a drawing that stands alone.

use super::chart::{self, Inked, Look};
use super::{Chart, Line, spoken};
use crate::Error;
use crate::drawing::{Area, Drawn, FINE, draw, text};
use crate::theme::TEXT;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Sizes, in pixels of the page.
const ROW: i32 = 20;
const TITLE: i32 = 26;
const LINE: i32 = 30;
const GAP: i32 = 18;
const LETTER: i32 = 7;

pub(super) fn svg(name: &str, charts: &[Chart], columns: usize) -> Result<Option<String>, Error> {
    let mut panels = Vec::new();
    for one in charts {
        panels.extend(chart::svg(one)?.map(|svg| (one, size(&svg), svg)));
    }
    let columns = columns.min(panels.len()).max(1) as i32;
    let (wide, high) = panels.iter().fold((0, 0), |(wide, high), (_, (width, height), _)| {
        (wide.max(*width), high.max(*height))
    });
    if panels.is_empty() {
        return Ok(None);
    }
    let width = wide * columns + GAP * (columns - 1);
    let (entries, head) = legend(charts, width);
    let places: Vec<(i32, i32)> = (0..panels.len() as i32)
        .map(|at| (at % columns * (wide + GAP), head + at / columns * (high + TITLE)))
        .collect();
    let bottom = places.last().map_or(head, |(_, y)| y + TITLE + high);
    let spoken = panels.iter().map(|(chart, ..)| spoken::name(chart)).collect::<Vec<_>>().join(" ");
    let mut sheet = draw(&format!("{name}: {spoken}"), (width, bottom), |area| {
        entries.iter().try_for_each(|(one, at)| entry(area, one, *at))?;
        panels.iter().zip(&places).try_for_each(|((chart, ..), (x, y))| {
            let at = (x * FINE, (y + TITLE / 2) * FINE);
            text(area, &chart.title, at, 14, TEXT, HPos::Left)
        })
    })?;
    let nested = panels.iter().zip(&places).map(|((_, _, svg), (x, y))| {
        let place = format!("<svg x=\"{}\" y=\"{}\" ", x * FINE, (y + TITLE) * FINE);
        svg.replacen("<svg ", &place, 1)
    });
    let end = sheet.rfind("</svg>").unwrap_or(sheet.len());
    sheet.insert_str(end, &nested.collect::<String>());
    Ok(Some(sheet))
}

/// Width and height of a drawing, in pixels of the page.
fn size(svg: &str) -> (i32, i32) {
    let mut values = svg.split('"').skip(1).step_by(2).map(|value| value.parse().unwrap_or(0));
    (values.next().unwrap_or(0) / FINE, values.next().unwrap_or(0) / FINE)
}

/// A series of the legend, with its place.
type Entry<'a> = (Inked<'a>, (i32, i32));

/// The series of all charts, each name once, with their places, and the height of all of them.
fn legend(charts: &[Chart], width: i32) -> (Vec<Entry<'_>>, i32) {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let (mut x, mut y) = (0, 0);
    for one in charts.iter().flat_map(chart::drawn) {
        if one.0.name.is_empty() || entries.iter().any(|(known, _)| known.0.name == one.0.name) {
            continue;
        }
        let letters = i32::try_from(one.0.name.chars().count()).unwrap_or(0);
        let wide = LINE + 8 + letters * LETTER;
        if x > 0 && x + wide > width {
            (x, y) = (0, y + ROW);
        }
        entries.push((one, (x, y)));
        x += wide + GAP;
    }
    (entries, y + ROW + 8)
}

fn entry(area: &Area<'_>, (series, Look { ink, line }): &Inked<'_>, (x, y): (i32, i32)) -> Drawn {
    let (from, y) = (x * FINE, (y + ROW / 2) * FINE);
    let path = vec![(from, y), (from + LINE * FINE, y)];
    let style = ink.rgb().stroke_width(5);
    match line {
        Line::Solid | Line::Wide => area.draw(&PathElement::new(path, style))?,
        Line::Dashed => area.draw(&DashedPathElement::new(path, 14, 12, style))?,
        Line::Dotted => area.draw(&DashedPathElement::new(path, 4, 9, style))?,
    }
    text(area, &series.name, (from + (LINE + 7) * FINE, y), 13, TEXT, HPos::Left)
}
