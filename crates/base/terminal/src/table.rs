//! Columns of text, as wide as their widest cell.

use crate::page::{ALWAYS, Column, PLAIN, Page};

/// Rows of cells below a heading.
pub struct Table {
    heading: Vec<String>,
    right: &'static [usize],
    rows: Vec<Vec<String>>,
    /// A line below each row; empty for none.
    remarks: Vec<String>,
}

impl Table {
    /// A table with this heading, whose `right` columns are flush right.
    pub fn new(heading: &[&str], right: &'static [usize]) -> Table {
        let heading = heading.iter().map(|&cell| cell.to_owned()).collect();
        Table { heading, right, rows: Vec::new(), remarks: Vec::new() }
    }

    /// Adds a row. What others could have written cannot move the cursor.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
        self.remarks.push(String::new());
    }

    /// Adds a line about the row before, unless it is empty.
    pub fn remark(&mut self, text: &str) {
        if let Some(remark) = self.remarks.last_mut().filter(|_| !text.is_empty()) {
            text.clone_into(remark);
        }
    }

    /// The lines.
    pub fn render(&self) -> String {
        let column = |(at, name)| match self.right.contains(&at) {
            true => Column::number(name, ALWAYS),
            false => Column::label(name),
        };
        let columns: Vec<Column<'_>> =
            self.heading.iter().map(String::as_str).enumerate().map(column).collect();
        let cells = |row: &Vec<String>| row.iter().map(|cell| (cell.clone(), PLAIN)).collect();
        let rows: Vec<_> = self.rows.iter().map(cells).collect();
        let mut page = Page::new(usize::MAX / 2, false).flush();
        page.remarked(&columns, &rows, &self.remarks);
        page.finish()
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
