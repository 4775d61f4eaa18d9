//! Text for a terminal of a given width: paragraphs that wrap, and tables that give up columns
//! before they give up the edge.
//!
//! A table that is too wide first cuts the cells of its elastic columns, then leaves out columns,
//! those with the lowest rank first. What comes from outside, such as names of threads, loses its
//! control characters here, so that it cannot move the cursor.

use crate::command_line::quoted;
use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Style of what is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of a warning.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Style of what is right.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Style of a heading.
pub const HEAD: Style = Style::new().bold();
/// Style of text that stands back.
pub const FAINT: Style = Style::new().dimmed();
/// Style of all other text.
pub const PLAIN: Style = Style::new();

/// The least width that is laid out for.
const LEAST: usize = 40;
/// Columns between two cells.
const GAP: usize = 2;
/// Stages in which a table becomes narrower, one after the other, until it fits: elastic columns
/// shrink down to a width, then columns up to a rank are left out.
const STAGES: [(usize, u8); 3] = [(28, 2), (14, ALWAYS - 1), (8, ALWAYS - 1)];
/// A column of this rank is never left out.
pub const ALWAYS: u8 = u8::MAX;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    /// Its heading.
    pub name: &'a str,
    /// True if its cells are aligned to the left.
    pub left: bool,
    /// Columns with a lower rank are left out first.
    pub rank: u8,
    /// True if its cells may be cut.
    pub elastic: bool,
    /// True if its cells are wrapped instead; the last column only.
    pub wraps: bool,
}

impl<'a> Column<'a> {
    /// A column of numbers.
    pub const fn number(name: &'a str, rank: u8) -> Column<'a> {
        Column { name, left: false, rank, elastic: false, wraps: false }
    }

    /// A column of short names.
    pub const fn label(name: &'a str) -> Column<'a> {
        Column { left: true, ..Column::number(name, ALWAYS) }
    }

    /// A column of words that may be cut.
    pub const fn words(name: &'a str, rank: u8) -> Column<'a> {
        Column { elastic: true, left: true, ..Column::number(name, rank) }
    }

    /// A column of long names.
    pub const fn name(name: &'a str) -> Column<'a> {
        Column::words(name, ALWAYS)
    }

    /// A last column of sentences.
    pub const fn wrapped(name: &'a str) -> Column<'a> {
        Column { wraps: true, ..Column::name(name) }
    }
}

impl<'a> From<(&'a str, bool)> for Column<'a> {
    /// A column by its heading, and whether it is aligned to the left.
    fn from((name, left): (&'a str, bool)) -> Column<'a> {
        Column { left, ..Column::label(name) }
    }
}

/// One cell.
pub type Cell = (String, Style);

/// Text that grows.
pub struct Page {
    out: String,
    color: bool,
    width: usize,
    /// Columns before the first cell of a row.
    indent: usize,
}

impl Page {
    /// An empty text of `width` columns; fewer than 40 are taken as 40. With `color`, styles are
    /// written as ANSI codes.
    pub fn new(width: usize, color: bool) -> Page {
        Page { out: String::new(), color, width: width.max(LEAST), indent: GAP }
    }

    /// The same, with tables that begin in the first column.
    pub fn flush(mut self) -> Page {
        self.indent = 0;
        self
    }

    /// Columns of a line.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Text at the end of the line so far.
    pub fn paint(&mut self, style: Style, text: &str) {
        let text = clean(text);
        if self.color && style != PLAIN {
            self.out += &format!("{style}{text}{style:#}");
        } else {
            self.out += &text;
        }
    }

    /// Ends the line so far, or writes an empty one.
    pub fn end(&mut self) {
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        self.out.push('\n');
    }

    /// A line by itself: one that is not wrapped.
    pub fn line(&mut self, style: Style, text: &str) {
        self.paint(style, text);
        self.end();
    }

    /// A heading, after an empty line.
    pub fn heading(&mut self, text: &str) {
        self.end();
        self.paragraph(HEAD, text, 0, 0);
    }

    /// A paragraph whose first line is indented by `first` and whose other lines by `rest`.
    pub fn paragraph(&mut self, style: Style, text: &str, first: usize, rest: usize) {
        self.out += &" ".repeat(first);
        self.wrapped(style, text, first, rest);
    }

    /// Text from a column on, whose next lines are indented.
    pub fn wrapped(&mut self, style: Style, text: &str, from: usize, rest: usize) {
        let lines = wrap(text, self.width.saturating_sub(from), self.width.saturating_sub(rest));
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                self.out += &" ".repeat(rest);
            }
            self.paint(style, line);
            self.end();
        }
    }

    /// A command of these words as a shell takes it, indented. A long one goes on in the next
    /// lines, each of which but the last ends with a backslash; only a long word is wider than the
    /// page.
    pub fn command(&mut self, style: Style, words: &[String], indent: usize) {
        let (mut line, mut lines) = (String::new(), Vec::new());
        for (at, word) in words.iter().enumerate() {
            let word = quoted(std::iter::once(word.clone()));
            let end = if at + 1 < words.len() { " \\".len() } else { 0 };
            let room = self.width.saturating_sub(indent + if lines.is_empty() { 0 } else { GAP });
            if !line.is_empty() && line.width() + 1 + word.width() + end > room {
                lines.push(std::mem::take(&mut line) + " \\");
            }
            line += if line.is_empty() { "" } else { " " };
            line += &word;
        }
        for (at, line) in lines.iter().chain([&line]).enumerate() {
            self.out += &" ".repeat(indent + if at > 0 { GAP } else { 0 });
            self.line(style, line);
        }
    }

    /// A table. Nothing where there are no rows.
    pub fn table<'a, C: Copy + Into<Column<'a>>>(&mut self, columns: &[C], rows: &[Vec<Cell>]) {
        if !rows.is_empty() {
            let columns: Vec<Column<'_>> = columns.iter().map(|column| (*column).into()).collect();
            self.remarked(&columns, rows, &[]);
        }
    }

    /// A table with a line below each row that has a remark. There is no line of names where no
    /// column has one.
    pub fn remarked(&mut self, columns: &[Column<'_>], rows: &[Vec<Cell>], remarks: &[String]) {
        let heading: Vec<Cell> =
            columns.iter().map(|column| (column.name.to_owned(), FAINT)).collect();
        let widths = fit(columns, &heading, rows, self.width + GAP - self.indent);
        if columns.iter().any(|column| !column.name.is_empty()) {
            self.row(columns, &widths, &heading);
        }
        for (at, row) in rows.iter().enumerate() {
            self.row(columns, &widths, row);
            if let Some(remark) = remarks.get(at).filter(|remark| !remark.is_empty()) {
                self.paragraph(FAINT, remark, 2 * GAP, 2 * GAP);
            }
        }
    }

    fn row(&mut self, columns: &[Column<'_>], widths: &[Option<usize>], row: &[Cell]) {
        let (mut filling, mut from) = (" ".repeat(self.indent), self.indent);
        for ((column, width), (text, style)) in columns.iter().zip(widths).zip(row) {
            let Some(width) = width else { continue };
            let text = clean(text);
            if column.wraps && text.width() > *width {
                self.out += &filling;
                self.wrapped(*style, &text, from, from);
                return;
            }
            let text = cut(&text, *width);
            let fill = " ".repeat(width - text.width());
            let (before, after) = if column.left { ("", &*fill) } else { (&*fill, "") };
            self.out += &format!("{filling}{before}");
            self.paint(*style, &text);
            filling = format!("{after}{}", " ".repeat(GAP));
            from += width + GAP;
        }
        self.end();
    }

    /// The text.
    pub fn finish(self) -> String {
        self.out
    }
}

/// The columns that a text takes in a terminal.
pub fn width(text: &str) -> usize {
    clean(text).width()
}

/// Text from outside, without characters that would move the cursor.
pub fn clean(text: &str) -> String {
    name::clean(text).into_owned()
}

/// The width of each column, none for one that is left out.
fn fit(
    columns: &[Column<'_>],
    heading: &[Cell],
    rows: &[Vec<Cell>],
    page: usize,
) -> Vec<Option<usize>> {
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).chain(heading.get(at));
        cells.map(|(text, _)| width(text)).max().unwrap_or(0)
    };
    let mut widths: Vec<Option<usize>> = (0..columns.len()).map(|at| Some(widest(at))).collect();
    // A column without a single cell says nothing.
    for (at, width) in widths.iter_mut().enumerate() {
        let mut cells = rows.iter().filter_map(|row| row.get(at));
        if !rows.is_empty() && cells.all(|(text, _)| text.is_empty()) {
            *width = None;
        }
    }
    for (least_cell, rank) in STAGES {
        shrink(columns, &mut widths, page, least_cell);
        leave_out(columns, &mut widths, page, rank);
    }
    widths
}

/// Columns over the page's edge.
fn over(widths: &[Option<usize>], page: usize) -> usize {
    widths.iter().flatten().map(|width| width + GAP).sum::<usize>().saturating_sub(page)
}

/// Makes the widest elastic column narrower, again and again.
fn shrink(columns: &[Column<'_>], widths: &mut [Option<usize>], page: usize, least: usize) {
    while over(widths, page) > 0 {
        let cells = columns.iter().zip(widths.iter_mut());
        let elastic = cells.filter_map(|(column, width)| width.as_mut().filter(|_| column.elastic));
        match elastic.filter(|width| **width > least).max_by_key(|width| **width) {
            Some(width) => *width -= 1,
            None => return,
        }
    }
}

/// Leaves out columns of the lowest ranks, as long as it helps.
fn leave_out(columns: &[Column<'_>], widths: &mut [Option<usize>], page: usize, most: u8) {
    while over(widths, page) > 0 {
        let kept = (0..columns.len()).filter(|at| widths[*at].is_some());
        let least = kept.filter(|at| columns[*at].rank <= most).min_by_key(|at| columns[*at].rank);
        match least {
            Some(at) => widths[at] = None,
            None => return,
        }
    }
}

/// Cuts a text to a width in columns.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for letter in text.chars() {
        let next = used + letter.width().unwrap_or(0);
        if next + 1 > width {
            break;
        }
        short.push(letter);
        used = next;
    }
    short + "…"
}

/// Lines of at most `first` columns, then `rest` columns; longer words are cut into pieces.
fn wrap(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let room = |lines: &Vec<String>| (if lines.is_empty() { first } else { rest }).max(8);
    for word in text.split(' ') {
        let mut word = word.to_owned();
        if !line.is_empty() {
            if line.width() + 1 + word.width() <= room(&lines) {
                line.push(' ');
            } else {
                lines.push(std::mem::take(&mut line));
            }
        }
        while line.width() + word.width() > room(&lines) {
            let piece = cut(&word, room(&lines) + 1);
            let piece = piece.strip_suffix('…').unwrap_or(&piece).to_owned();
            // A letter wider than the line cannot be cut further.
            if piece.is_empty() {
                break;
            }
            word = word[piece.len()..].to_owned();
            lines.push(piece);
        }
        line += &word;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'static>; 4] = [
        Column::name("call"),
        Column::number("count", ALWAYS),
        Column::number("p50", 3),
        Column::number("max", 4),
    ];

    fn table(width: usize) -> String {
        let mut page = Page::new(width, false);
        let row = ["cuMemcpyHtoDAsync_of_a_long_name", "12", "4.1 us", "14.2 ms"];
        let short = ["前方", "1 234", "1 us", "2 us"];
        let rows = [row, short].map(|row| row.map(|cell| (cell.to_owned(), PLAIN)).to_vec());
        page.table(&COLUMNS, &rows);
        page.finish()
    }

    #[test]
    fn wide_table_shows_everything_in_columns() {
        let expected = "
  call                              count     p50      max
  cuMemcpyHtoDAsync_of_a_long_name     12  4.1 us  14.2 ms
  前方                              1 234    1 us     2 us
";
        assert_eq!(format!("\n{}", table(80)), expected);
    }

    #[test]
    fn narrow_table_cuts_names_then_leaves_out_columns() {
        let text = table(44);
        assert!(text.lines().all(|line| line.width() <= 44), "{text}");
        assert!(text.contains("cuMemcpyHtoDAsy") && text.contains('…'), "{text}");
        assert!(text.contains("p50") && text.contains("14.2 ms"), "{text}");
        let mut page = Page::new(40, false);
        let wide = |name: &str| vec![(name.into(), PLAIN), ("9".repeat(20), PLAIN)];
        let row = [wide("n"), vec![("8".repeat(12), PLAIN), ("7".repeat(9), PLAIN)]].concat();
        page.table(&COLUMNS, &[row]);
        let text = page.finish();
        assert!(text.contains("max") && !text.contains("p50"), "{text}");
    }

    #[test]
    fn words_that_are_too_long_are_cut_into_pieces() {
        assert_eq!(wrap("a bb ccc", 80, 80), ["a bb ccc"]);
        assert_eq!(wrap("aaaa bbbb cccc", 9, 8), ["aaaa bbbb", "cccc"]);
        assert_eq!(wrap(&"x".repeat(20), 8, 8), ["xxxxxxxx", "xxxxxxxx", "xxxx"]);
        assert_eq!(wrap("前前前前前前", 8, 8), ["前前前前", "前前"]);
    }

    #[test]
    fn text_from_outside_cannot_move_the_cursor() {
        let mut page = Page::new(80, true);
        page.paragraph(PLAIN, "a\u{1b}[2Jb", 0, 0);
        assert_eq!(page.finish(), "a\u{fffd}[2Jb\n");
    }
}
