//! Coloured text for a terminal, with columns that hold whatever the script.

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const HEAD: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();

/// Text that grows, in colours where they are wanted.
pub(crate) struct Page {
    out: String,
    color: bool,
}

/// One cell: its text and its colour.
pub(crate) type Cell = (String, Style);

/// A column: its heading, and whether its cells stand left.
pub(crate) type Column = (&'static str, bool);

impl Page {
    pub(crate) fn new(color: bool) -> Self {
        Self { out: String::new(), color }
    }

    pub(crate) fn paint(&mut self, style: Style, text: &str) {
        if self.color && style != PLAIN {
            self.out += &format!("{style}{text}{style:#}");
        } else {
            self.out += text;
        }
    }

    pub(crate) fn line(&mut self, style: Style, text: &str) {
        self.paint(style, text);
        self.out.push('\n');
    }

    /// Text wrapped at about 96 columns, the lines after the first indented by two.
    pub(crate) fn paragraph(&mut self, style: Style, text: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.width() + 1 + word.width() > 96 {
                self.line(style, &line);
                line = "  ".to_owned();
            } else if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        self.line(style, &line);
    }

    /// A table, indented by two: every column as wide as it needs to be.
    pub(crate) fn table(&mut self, columns: &[Column], rows: &[Vec<Cell>]) {
        let heading = columns.iter().map(|(name, _)| ((*name).to_owned(), FAINT)).collect();
        let sides: Vec<bool> = columns.iter().map(|(_, left)| *left).collect();
        let rows: Vec<Vec<Cell>> = [heading].into_iter().chain(rows.iter().cloned()).collect();
        self.rows(&sides, &rows);
    }

    /// Rows without a heading; says of each column whether its cells stand left.
    pub(crate) fn rows(&mut self, sides: &[bool], rows: &[Vec<Cell>]) {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|(text, _)| text.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..sides.len()).map(width).collect();
        for row in rows {
            let mut gap = String::new();
            let shown = row.iter().rposition(|(text, _)| !text.is_empty()).map_or(0, |at| at + 1);
            for (((text, style), width), left) in row[..shown].iter().zip(&widths).zip(sides) {
                let fill = " ".repeat(width - text.width());
                if *left {
                    self.out += &format!("{gap}  ");
                    self.paint(*style, text);
                    gap = fill;
                } else {
                    self.out += &format!("{gap}  {fill}");
                    self.paint(*style, text);
                    gap = String::new();
                }
            }
            self.out.push('\n');
        }
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }
}

/// Text from outside, without characters that would move the cursor.
pub(crate) fn clean(text: &str) -> String {
    crate::text::clean(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_whatever_the_script() {
        let mut page = Page::new(false);
        let row = |name: &str, number: &str| vec![(name.into(), PLAIN), (number.into(), BAD)];
        page.table(&[("chain", true), ("n", false)], &[row("前方", "1"), row("e", "12345")]);
        assert_eq!(page.finish(), "  chain      n\n  前方       1\n  e      12345\n");
    }

    #[test]
    fn long_sentences_are_wrapped() {
        let mut page = Page::new(true);
        page.paragraph(PLAIN, &"word ".repeat(30));
        let text = page.finish();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.len() <= 98), "{text}");
    }
}
