//! Text for a terminal of a given width: paragraphs that wrap, and tables that give up columns
//! before they give up the edge.
//!
//! A table that is too wide first cuts the cells of its elastic columns, then leaves out columns,
//! those with the lowest rank first. What comes from outside, such as names of threads, loses its
//! control characters here, so that it cannot move the cursor.

use crate::analysis::terminal::{FAINT, HEAD, PLAIN, clean};
use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The least width that is laid out for.
const LEAST: usize = 40;
/// Stages in which a table becomes narrower, one after the other, until it fits: elastic columns
/// shrink down to a width, then columns up to a rank are left out.
const STAGES: [(usize, u8); 3] = [(28, 2), (14, ALWAYS - 1), (8, ALWAYS - 1)];
/// A column of this rank is never left out.
pub(super) const ALWAYS: u8 = u8::MAX;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// True if its cells are aligned to the left.
    pub(super) left: bool,
    /// Columns with a lower rank are left out first.
    pub(super) rank: u8,
    /// True if its cells may be cut.
    pub(super) elastic: bool,
    /// True if its cells are wrapped instead; the last column only.
    pub(super) wraps: bool,
}

impl Column {
    /// A column of numbers.
    pub(super) const fn number(name: &'static str, rank: u8) -> Column {
        Column { name, left: false, rank, elastic: false, wraps: false }
    }

    /// A column of short names.
    pub(super) const fn label(name: &'static str) -> Column {
        Column { left: true, ..Column::number(name, ALWAYS) }
    }

    /// A column of words that may be cut.
    pub(super) const fn words(name: &'static str, rank: u8) -> Column {
        Column { elastic: true, left: true, ..Column::number(name, rank) }
    }

    /// A column of long names.
    pub(super) const fn name(name: &'static str) -> Column {
        Column::words(name, ALWAYS)
    }

    /// A last column of sentences.
    pub(super) const fn wrapped(name: &'static str) -> Column {
        Column { wraps: true, ..Column::name(name) }
    }
}

/// One cell.
pub(super) type Cell = (String, Style);

/// Text that grows.
pub(super) struct Page {
    out: String,
    color: bool,
    width: usize,
}

impl Page {
    pub(super) fn new(width: usize, color: bool) -> Page {
        Page { out: String::new(), color, width: width.max(LEAST) }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn paint(&mut self, style: Style, text: &str) {
        let text = clean(text);
        if self.color && style != PLAIN {
            self.out += &format!("{style}{text}{style:#}");
        } else {
            self.out += &text;
        }
    }

    pub(super) fn end(&mut self) {
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        self.out.push('\n');
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.end();
        self.paragraph(HEAD, text, 0, 0);
    }

    /// A paragraph whose first line is indented by `first` and whose other lines by `rest`.
    pub(super) fn paragraph(&mut self, style: Style, text: &str, first: usize, rest: usize) {
        self.out += &" ".repeat(first);
        self.wrapped(style, text, first, rest);
    }

    /// Text from a column on, whose next lines are indented.
    pub(super) fn wrapped(&mut self, style: Style, text: &str, from: usize, rest: usize) {
        let lines = wrap(text, self.width.saturating_sub(from), self.width.saturating_sub(rest));
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                self.out += &" ".repeat(rest);
            }
            self.paint(style, line);
            self.end();
        }
    }

    /// A table, indented by two. Nothing where there are no rows.
    pub(super) fn table(&mut self, columns: &[Column], rows: &[Vec<Cell>]) {
        if rows.is_empty() {
            return;
        }
        let heading = columns.iter().map(|column| (column.name.to_owned(), FAINT)).collect();
        let rows: Vec<Vec<Cell>> = [heading].into_iter().chain(rows.iter().cloned()).collect();
        let widths = fit(columns, &rows, self.width);
        for row in &rows {
            self.row(columns, &widths, row);
        }
    }

    fn row(&mut self, columns: &[Column], widths: &[Option<usize>], row: &[Cell]) {
        let (mut filling, mut from) = (String::new(), 0);
        for ((column, width), (text, style)) in columns.iter().zip(widths).zip(row) {
            let Some(width) = width else { continue };
            from += width + 2;
            let text = clean(text);
            if column.wraps && text.width() > *width {
                self.out += &format!("{filling}  ");
                self.wrapped(*style, &text, from - width, from - width);
                return;
            }
            let text = cut(&text, *width);
            let fill = " ".repeat(width - text.width());
            let (before, after) = if column.left { ("", &*fill) } else { (&*fill, "") };
            self.out += &format!("{filling}  {before}");
            self.paint(*style, &text);
            filling = after.to_owned();
        }
        self.end();
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

/// The width of each column, none for one that is left out.
fn fit(columns: &[Column], rows: &[Vec<Cell>], page: usize) -> Vec<Option<usize>> {
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|(text, _)| clean(text).width()).max().unwrap_or(0)
    };
    let mut widths: Vec<Option<usize>> = (0..columns.len()).map(|at| Some(widest(at))).collect();
    // A column without a single cell says nothing.
    for (at, width) in widths.iter_mut().enumerate() {
        if rows[1..].iter().all(|row| row.get(at).is_none_or(|(text, _)| text.is_empty())) {
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
    widths.iter().flatten().map(|width| width + 2).sum::<usize>().saturating_sub(page)
}

/// Makes the widest elastic column narrower, again and again.
fn shrink(columns: &[Column], widths: &mut [Option<usize>], page: usize, least: usize) {
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
fn leave_out(columns: &[Column], widths: &mut [Option<usize>], page: usize, most: u8) {
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
pub(super) fn cut(text: &str, width: usize) -> String {
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

    const COLUMNS: [Column; 4] = [
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
