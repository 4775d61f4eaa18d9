//! Columns of text, as wide as their widest cell.

/// Rows of cells; the first row is the heading.
pub struct Table {
    rows: Vec<Row>,
    right: &'static [usize],
}

enum Row {
    Cells(Vec<String>),
    /// A line of its own below a row.
    Remark(String),
}

impl Table {
    /// A table with this heading, whose `right` columns are flush right.
    pub fn new(heading: &[&str], right: &'static [usize]) -> Table {
        let heading = heading.iter().map(|&cell| cell.to_owned()).collect();
        Table { rows: vec![Row::Cells(heading)], right }
    }

    /// Adds a row. What others could have written cannot move the cursor.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let clean = |cell: String| name::clean(&cell).into_owned();
        self.rows.push(Row::Cells(cells.into_iter().map(clean).collect()));
    }

    /// Adds a line about the row before, unless it is empty.
    pub fn remark(&mut self, text: &str) {
        if !text.is_empty() {
            self.rows.push(Row::Remark(name::clean(text).into_owned()));
        }
    }

    /// The lines.
    pub fn render(&self) -> String {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(cells),
            Row::Remark(_) => None,
        });
        let mut widths = Vec::new();
        for row in cells {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &Row, widths: &[usize]) -> String {
        let cells = match row {
            Row::Cells(cells) => cells,
            Row::Remark(text) => return format!("    {text}\n"),
        };
        let padded =
            cells.iter().zip(widths).enumerate().map(|(column, (cell, &width))| {
                match self.right.contains(&column) {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                }
            });
        let line = padded.collect::<Vec<String>>().join("  ");
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["name", "time"], &[1]);
        table.row(["brake".into(), "1 ms".into()]);
        table.remark("why");
        table.remark("");
        table.row(["ä".into(), "100 ms".into()]);
        assert_eq!(table.render(), "name     time\nbrake    1 ms\n    why\nä      100 ms\n");
    }
}
