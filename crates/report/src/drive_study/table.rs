//! The result in a terminal: every demand, then the numbers.

use super::{DriveStudyRun, Table};
use crate::text::{clean, pad};
use unicode_width::UnicodeWidthStr;

/// The tables.
pub fn table(run: &DriveStudyRun) -> String {
    let mut text = format!("{}\n", clean(&run.conclusion().join(" ")));
    for mark in &run.marks {
        text += &format!("! {}\n", clean(mark));
    }
    text += "\n";
    text += &shown(&demands(run));
    for section in &run.sections {
        for table in &section.tables {
            text += &format!("\n{}: {}\n", clean(&section.title), clean(&table.title));
            text += &shown(table);
        }
    }
    text
}

/// The demands as a table.
pub(super) fn demands(run: &DriveStudyRun) -> Table {
    let head = ["demand", "stack", "found", "95 %", "demanded", "verdict"];
    let row = |one: &super::Demand| {
        let value = one.value.as_ref();
        vec![
            one.what.clone(),
            one.stack.clone(),
            value.map_or("-".to_owned(), super::Value::shown),
            value.and_then(super::Value::interval_shown).unwrap_or("-".to_owned()),
            one.demand.clone(),
            one.verdict.name().to_owned(),
        ]
    };
    Table {
        title: "Demands".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: run.demands.iter().map(row).collect(),
    }
}

fn shown(table: &Table) -> String {
    let lines = || std::iter::once(&table.head).chain(&table.rows);
    let widths: Vec<usize> = (0..table.head.len())
        .map(|column| {
            let cells = lines().filter_map(|line| line.get(column));
            cells.map(|cell| clean(cell).width()).max().unwrap_or(0).min(60)
        })
        .collect();
    let mut text = String::new();
    for line in lines() {
        let cells = line.iter().zip(&widths).map(|(cell, width)| pad(&clean(cell), *width));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text += "\n";
    }
    text
}
