//! A document as a page. The template is `document.html`, beside this file.

use super::{Cell, Chart, Class, Document, Line, Row, Section, Table, chart};
use crate::Error;
use crate::page::render;
use crate::theme::series;
use minijinja::context;
use minijinja::value::Value;

pub(super) fn html(document: &Document) -> Result<String, Error> {
    let sections = document.sections.iter().map(section).collect::<Result<Vec<Value>, Error>>()?;
    let content = context! {
        kind => document.kind.as_str(),
        title => document.title.as_str(),
        about => document.about.as_str(),
        conclusion => document.conclusion.clone(),
        command => document.command.as_str(),
        date => document.date.as_str(),
        facts => document.facts.clone(),
        marks => document.marks.clone(),
        notes => document.notes.clone(),
        sections,
    };
    render("document.html", include_str!("document.html"), content)
}

fn section(section: &Section) -> Result<Value, Error> {
    let charts = section.charts.iter().filter_map(|one| figure(one).transpose());
    let pictures: Vec<Value> = (section.pictures.iter())
        .map(|picture| {
            let svg = Value::from_safe_string(picture.svg.clone());
            context! { title => picture.title.as_str(), svg }
        })
        .collect();
    Ok(context! {
        title => section.title.as_str(),
        about => section.about.as_str(),
        charts => charts.collect::<Result<Vec<Value>, Error>>()?,
        pictures,
        tables => section.tables.iter().map(table).collect::<Vec<Value>>(),
        facts => section.facts.clone(),
        commands => section.commands.clone(),
    })
}

/// A chart with its legend; a sentence instead of the chart if all of its values are zero.
fn figure(one: &Chart) -> Result<Option<Value>, Error> {
    let svg = chart::svg(one)?.map(Value::from_safe_string);
    if svg.is_none() && !chart::is_zero(one) {
        return Ok(None);
    }
    let keys: Vec<Value> = (chart::drawn(one).iter())
        .filter(|(series, _)| !series.name.is_empty())
        .map(|(series, look)| {
            let line = match look.line {
                Line::Solid | Line::Wide => "",
                Line::Dashed => "dashed",
                Line::Dotted => "dotted",
            };
            context! { name => series.name.as_str(), ink => look.ink.name, line }
        })
        .collect();
    Ok(Some(context! {
        title => one.title.as_str(),
        wide => chart::is_wide(one),
        keys,
        svg,
        says => format!("{}: 0 for all samples.", one.x),
    }))
}

fn table(table: &Table) -> Value {
    let shown = table.shown();
    let column = |at: &usize| {
        let (name, left) = (table.head[*at].as_str(), table.is_left(*at));
        context! { name, left, tag => if name.is_empty() { "td" } else { "th scope=\"col\"" } }
    };
    // Rows with the same name stand together, and say it once.
    let groups: Vec<&[Row]> = table.rows.chunk_by(|a, b| a.name() == b.name()).collect();
    let grouped = groups.len() < table.rows.len();
    let groups = if grouped { groups } else { vec![&table.rows[..]] };
    let none = Cell::default();
    let row = |(place, row): (usize, &Row)| {
        let cells = shown.iter().filter_map(|at| {
            let again = *at == 0 && place > 0 && grouped;
            let (of, left) = (row.cells.get(*at)?, table.is_left(*at));
            Some(match *at {
                0 if again || of.text.is_empty() => cell(&none, "td", "name left"),
                0 => cell(of, "th scope=\"row\"", "name left"),
                _ => cell(of, "td", if left { "left" } else { "" }),
            })
        });
        context! { cells => cells.collect::<Vec<Value>>(), remark => row.remark.as_str() }
    };
    let rows = |rows: &[Row]| rows.iter().enumerate().map(row).collect::<Vec<Value>>();
    let groups: Vec<Vec<Value>> = groups.into_iter().map(rows).collect();
    let head: Vec<Value> = shown.iter().map(column).collect();
    context! { title => table.title.as_str(), head, groups }
}

/// A cell as an element with a tag, whose class has its look.
fn cell(cell: &Cell, tag: &str, class: &str) -> Value {
    let look = match cell.class {
        Class::Plain | Class::Series(_) => "",
        Class::Good => "zero",
        Class::Warn => "warn",
        Class::Bad => "bad",
        Class::Faint => "none",
    };
    let ink = match cell.class {
        Class::Series(place) => Some(series(place).name),
        _ => None,
    };
    let class = format!("{class} {look}");
    context! { text => cell.text.as_str(), tag, class => class.trim(), ink }
}
