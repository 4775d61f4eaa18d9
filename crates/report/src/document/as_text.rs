//! A document in a terminal: everything but its charts.

use super::{Cell, Class, Document, Fact, Section, Table};
use std::borrow::Cow;
use terminal::page::{BAD, Column, FAINT, GOOD, HEAD, PLAIN, Page, WARN, width};

/// Columns of the first column of a table, if the table would be too wide otherwise.
const NAME: usize = 36;

pub(super) fn text(document: &Document, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    page.paragraph(HEAD, &document.title, 0, 2);
    if !document.about.is_empty() {
        page.paragraph(PLAIN, &document.about, 0, 0);
    }
    facts(&mut page, &document.facts);
    for mark in &document.marks {
        page.paragraph(WARN, &format!("! {mark}"), 0, 2);
    }
    for one in &document.sections {
        section(&mut page, one);
    }
    // At the end, where it is seen.
    if !document.conclusion.is_empty() {
        page.end();
        page.paragraph(PLAIN, &document.conclusion.join(" "), 0, 0);
    }
    page.finish()
}

fn facts(page: &mut Page, facts: &[Fact]) {
    for (name, value) in facts {
        page.paragraph(FAINT, &format!("{name}: {value}"), 2, 4);
    }
}

fn section(page: &mut Page, section: &Section) {
    if section.tables.is_empty() && section.facts.is_empty() && section.commands.is_empty() {
        return;
    }
    page.heading(&section.title);
    if !section.about.is_empty() {
        page.paragraph(FAINT, &section.about, 0, 0);
    }
    for one in &section.tables {
        if !one.title.is_empty() {
            page.paragraph(HEAD, &one.title, 2, 2);
        }
        table(page, one);
    }
    facts(page, &section.facts);
    for command in &section.commands {
        page.line(PLAIN, &format!("  {command}"));
    }
}

fn table(page: &mut Page, table: &Table) {
    let blocks = blocks(table, page.width());
    for (at, block) in blocks.iter().enumerate() {
        let mut above = None;
        let rows: Vec<Vec<_>> = (table.rows.iter())
            .map(|row| {
                let same = above.replace(row.name()) == Some(row.name());
                let shown = |column: &usize| match row.cells.get(*column) {
                    Some(cell) if *column > 0 || !same => painted(cell),
                    _ => (String::new(), PLAIN),
                };
                block.iter().map(shown).collect()
            })
            .collect();
        let column = |(at, column): (usize, &usize)| {
            let name = table.head.get(*column).map_or("", String::as_str);
            match (at, table.is_left(*column)) {
                (0, _) => Column::name(name),
                (_, true) if at + 1 == block.len() => Column::wrapped(name),
                (_, true) => Column::label(name),
                (_, false) => Column::number(name, terminal::page::ALWAYS),
            }
        };
        let columns: Vec<Column<'_>> = block.iter().enumerate().map(column).collect();
        let last = at + 1 == blocks.len();
        let remarks: Vec<String> =
            table.rows.iter().filter(|_| last).map(|row| row.remark.clone()).collect();
        page.remarked(&columns, &rows, &remarks);
    }
}

/// The columns of each block: the first one in all of them, the others where they fit.
fn blocks(table: &Table, most: usize) -> Vec<Vec<usize>> {
    let wide = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.cells.get(column));
        let widest = cells.map(|cell| width(&text_of(cell))).max().unwrap_or(0);
        2 + widest.max(table.head.get(column).map_or(0, |name| width(name)))
    };
    let shown = table.shown();
    if shown.iter().map(|column| wide(*column)).sum::<usize>() <= most {
        return vec![shown];
    }
    let name = wide(0).min(NAME);
    let (mut blocks, mut used) = (vec![vec![0]], name);
    for column in shown.into_iter().skip(1) {
        let wide = wide(column);
        if used + wide > most && used > name {
            blocks.push(vec![0]);
            used = name;
        }
        used += wide;
        if let Some(block) = blocks.last_mut() {
            block.push(column);
        }
    }
    blocks
}

fn painted(cell: &Cell) -> terminal::page::Cell {
    let style = match cell.class {
        Class::Plain | Class::Series(_) => PLAIN,
        Class::Good => GOOD,
        Class::Warn => WARN,
        Class::Bad => BAD,
        Class::Faint => FAINT,
    };
    (text_of(cell).into_owned(), style)
}

/// The text of a cell, which says without a colour as well that something is wrong.
fn text_of(cell: &Cell) -> Cow<'_, str> {
    match cell.class {
        Class::Bad | Class::Warn if !cell.text.is_empty() => format!("!{}", cell.text).into(),
        _ => cell.text.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(table: Table, width: usize) -> String {
        let section = Section { title: "S".into(), tables: vec![table], ..Section::default() };
        let document =
            Document { title: "T".into(), sections: vec![section], ..Document::default() };
        text(&document, width, false)
    }

    #[test]
    fn rows_of_one_name_say_it_once_and_what_is_wrong_stands_out() {
        let row = |name: &str, policy: &str, cell: Cell| vec![name.into(), policy.into(), cell];
        let rows = [
            row("brake", "priority", "20.0".into()),
            row("brake", "fifo", Class::Bad.cell("125")),
            row("map\u{1b}", "priority", "-".into()),
        ];
        let table = Table::new("", ["chain", "policy", "max"], rows).left(&[1]);
        let expected = "\
T

S
  chain  policy     max
  brake  priority  20.0
         fifo      !125
  map\u{fffd}   priority     -
";
        assert_eq!(shown(table, 80), expected);
    }

    #[test]
    fn wide_table_is_broken_and_loses_nothing() {
        let head = (0..30).map(|column| format!("column {column}"));
        let cells: Vec<String> = (0..30).map(|column| format!("cell {column}")).collect();
        let text = shown(Table::new("", head, [cells]), 60);
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
        assert!((0..30).all(|column| text.contains(&format!("cell {column}"))), "{text}");
    }
}
