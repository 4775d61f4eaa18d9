//! The result in a terminal: one block per group, one line per method, at most 100 columns.

use super::{Point, StudyRun, number};
use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

/// Columns of the terminal that a table may take.
const WIDTH: usize = 100;

const WARN: Style = AnsiColor::Yellow.on_default();
const HEAD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// The table: what each method accepts at each point, in percent of the sets, or the median scale
/// where times were scaled.
pub fn table(run: &StudyRun, color: bool) -> String {
    let name = run.x.label();
    let longest = run.methods.iter().chain([&name]).map(|name| name.width()).max();
    // "100.0" and "12.345", and a blank before them.
    let cell = if run.scaled.is_some() { 7 } else { 6 };
    let mut text = Text { out: String::new(), color, name: longest.unwrap_or(0) + 2, cell };
    let shown = match &run.scaled {
        Some(scaled) => format!("median scale of {scaled} at which a set is schedulable"),
        None => "sets accepted in percent".to_owned(),
    };
    let sets = format!("{} sets at each point, seed {}", run.sets, run.seed);
    text.line(HEAD, &format!("{}: {shown}, {sets}", run.experiment));
    for mark in &run.marks {
        text.line(WARN, &format!("! {mark}"));
    }
    for group in run.groups() {
        text.out.push('\n');
        text.line(HEAD, &run.group.at(group));
        let points: Vec<&Point> = run.in_group(group).collect();
        for points in points.chunks((WIDTH.saturating_sub(text.name) / cell).max(1)) {
            text.rows(run, points);
        }
    }
    text.out
}

struct Text {
    out: String,
    color: bool,
    /// Columns of the name of a line, with the indent.
    name: usize,
    /// Columns of one number.
    cell: usize,
}

impl Text {
    fn line(&mut self, style: Style, text: &str) {
        if self.color && style != PLAIN {
            self.out += &format!("{style}{text}{style:#}\n");
        } else {
            self.out += &format!("{text}\n");
        }
    }

    fn rows(&mut self, run: &StudyRun, points: &[&Point]) {
        let cells = points.iter().map(|point| number(point.x)).collect();
        self.row(FAINT, &run.x.label(), cells);
        for (index, method) in run.methods.iter().enumerate() {
            let cell = |point: &&Point| {
                let shown = point.outcomes.get(index).and_then(|outcome| run.shown(outcome));
                match shown {
                    None => "-".to_owned(),
                    Some(number) if run.scaled.is_some() => format!("{number:.3}"),
                    Some(number) => format!("{number:.1}"),
                }
            };
            self.row(PLAIN, method, points.iter().map(cell).collect());
        }
    }

    fn row(&mut self, style: Style, name: &str, cells: Vec<String>) {
        let fill = " ".repeat(self.name.saturating_sub(2 + name.width()));
        let width = self.cell;
        let cells: String = cells.iter().map(|cell| format!("{cell:>width$}")).collect();
        self.line(style, &format!("  {name}{fill}{cells}"));
    }
}
