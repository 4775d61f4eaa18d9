//! A result as people read it: a title, what it comes to, what qualifies it, and sections of tables
//! and charts.
//!
//! A kind of result builds a [`Document`] in one function. [`Document::text`] shows it in a
//! terminal, [`Document::html`] as one page that needs nothing else. Results have JSON of their own
//! types; a document serialises as well, with its charts as `plots` and its cells as texts.
//!
//! ```
//! use report::document::{Class, Document, Section, Table};
//!
//! let table = Table::new("Longest", ["chain", "max, ms"], [["brake".into(), Class::Bad.cell("41.2")]]);
//! let sections = vec![Section::new("Chains", "Times in ms.").table(table)];
//! let document = Document { title: "robot.yaml".to_owned(), sections, ..Document::default() };
//! assert!(document.text(80, false).contains("brake    !41.2"));
//! assert!(document.html()?.contains("<td class=\"bad\">41.2</td>"));
//! # Ok::<(), report::Error>(())
//! ```

mod as_page;
mod as_text;
mod chart;
mod label;
mod sheet;
mod spoken;

use crate::Error;
use serde::{Serialize, Serializer};
use stats::ascending;

/// Columns of the terminal for which the laboratory lays out its results.
pub const WIDTH: usize = 100;
/// Most points of a distribution; the largest samples are never left out.
const MAX_POINTS: usize = 600;
/// Number of the largest samples that are never left out.
const TAIL: usize = 20;

/// A name and a value.
pub type Fact = (String, String);

/// A result as people read it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Document {
    /// Kind of the result, such as `keeptime-lab chains`.
    pub kind: String,
    /// Subject of the result.
    pub title: String,
    /// Description of what was measured.
    pub about: String,
    /// The conclusion in sentences, the most important first.
    pub conclusion: Vec<String>,
    /// The command that made the result.
    pub command: String,
    /// Date of the result, as text.
    pub date: String,
    /// Machine, duration and the like.
    pub facts: Vec<Fact>,
    /// Notes on the validity of the results.
    pub marks: Vec<String>,
    /// The results.
    pub sections: Vec<Section>,
    /// Explanations at the end of the page.
    pub notes: Vec<String>,
}

/// Results that belong together: charts are shown above the tables, facts and commands below.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Description of the results, with notes on their validity.
    pub about: String,
    /// Numbers.
    pub tables: Vec<Table>,
    /// Charts.
    #[serde(rename = "plots")]
    pub charts: Vec<Chart>,
    /// Drawings that are made elsewhere.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
    /// Other results, by name.
    #[serde(skip)]
    pub facts: Vec<Fact>,
    /// Commands, each in one line.
    #[serde(skip)]
    pub commands: Vec<String>,
}

/// A drawing as SVG, with what belongs to it. Its texts are escaped, and it has an accessible name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// Its heading.
    pub title: String,
    /// The drawing.
    pub svg: String,
}

/// Numbers in rows and columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// The rows. The first cell of a row names it; rows with the same name belong together.
    pub rows: Vec<Row>,
    /// Columns beside the first one that are flush left; the others are flush right.
    #[serde(skip)]
    pub left: Vec<usize>,
}

/// A row of a table. It serialises as the list of its cells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The cells.
    pub cells: Vec<Cell>,
    /// A remark on the row; empty for none.
    pub remark: String,
}

/// A cell of a table. It serialises as its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// Its look.
    pub class: Class,
}

/// Look of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Class {
    /// The look of any other text.
    #[default]
    Plain,
    /// Right.
    Good,
    /// Worth a look. In a terminal it begins with an exclamation mark.
    Warn,
    /// Wrong. In a terminal it begins with an exclamation mark.
    Bad,
    /// Stands back.
    Faint,
    /// The name of a series, by the place of its colour.
    Series(usize),
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// Quantity along x, with its unit.
    pub x: String,
    /// Quantity along y, with its unit.
    pub y: String,
    /// Shape of the chart.
    pub shape: Shape,
    /// Series of the chart.
    pub series: Vec<Series>,
    /// Values that are marked.
    #[serde(skip)]
    pub limits: Vec<Limit>,
    /// True if values of more than a decade are shown on a logarithmic axis.
    #[serde(skip)]
    pub log: bool,
}

/// Shape of a chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Points joined by lines, along numbers or named places.
    #[default]
    Lines,
    /// The percentage of samples that are not longer, along a logarithmic axis.
    Distribution,
    /// Bars side by side, whose places are named.
    Bars,
    /// A bar for each place, made of the series one on the other.
    Stacked,
}

/// Points that belong together in a chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, by x; where places are named, x counts them from 0.
    pub points: Vec<(f64, f64)>,
    /// The names of the places.
    pub places: Vec<String>,
    /// Range of the values of each point; empty without.
    #[serde(skip)]
    pub spread: Vec<(f64, f64)>,
    /// The place of its colour; without, its place in the chart.
    #[serde(skip)]
    pub ink: Option<usize>,
    /// Style of its line.
    #[serde(skip)]
    pub line: Line,
}

/// Style of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Line {
    /// Solid.
    #[default]
    Solid,
    /// Wide, below all others: what coincides with another one still shows.
    Wide,
    /// Dashed.
    Dashed,
    /// Dotted.
    Dotted,
}

/// A value that is marked across a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limit {
    /// Its meaning; may be empty.
    pub name: String,
    /// The value.
    pub at: f64,
    /// Its look: bad for deadlines, faint for what stands back, plain for bounds.
    pub class: Class,
}

impl Document {
    /// The document in a terminal: tables that are wider than `width` columns are broken into
    /// several. With `color`, looks are ANSI codes as well. Charts are left out.
    pub fn text(&self, width: usize, color: bool) -> String {
        as_text::text(self, width, color)
    }

    /// The document without its sections: what is said beside a page that has them.
    pub fn summary(&self, width: usize, color: bool) -> String {
        as_text::text(&Document { sections: Vec::new(), ..self.clone() }, width, color)
    }

    /// The document as one self-contained page.
    ///
    /// # Errors
    /// [`Error::Plot`] and [`Error::Template`], neither of which depends on the numbers.
    pub fn html(&self) -> Result<String, Error> {
        as_page::html(self)
    }
}

/// Charts in so many columns below one legend, as a drawing that stands alone; none if nothing is in
/// them.
///
/// # Errors
/// [`Error::Plot`], which names the drawing.
pub fn sheet(name: &str, charts: &[Chart], columns: usize) -> Result<Option<String>, Error> {
    sheet::svg(name, charts, columns)
}

/// Name and value of the facts that have a value.
pub fn facts<const N: usize>(facts: [(&str, &str); N]) -> Vec<Fact> {
    let said = facts.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl Section {
    /// A section with a heading and a description, which may be empty.
    pub fn new(title: impl Into<String>, about: impl Into<String>) -> Section {
        Section { title: title.into(), about: about.into(), ..Section::default() }
    }

    /// The same with a table more.
    pub fn table(mut self, table: Table) -> Section {
        self.tables.push(table);
        self
    }

    /// The same with charts more.
    pub fn charts(mut self, charts: impl IntoIterator<Item = Chart>) -> Section {
        self.charts.extend(charts);
        self
    }
}

impl Table {
    /// A table whose first column is flush left.
    pub fn new<R: Into<Row>>(
        title: impl Into<String>,
        head: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = R>,
    ) -> Table {
        Table {
            title: title.into(),
            head: head.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().map(Into::into).collect(),
            left: Vec::new(),
        }
    }

    /// The same with further columns that are flush left.
    pub fn left(mut self, columns: &[usize]) -> Table {
        self.left.extend(columns);
        self
    }

    /// A table that compares the facts of several: a column for each of them, a row for each name, in
    /// the order in which the names come.
    pub fn of_facts<'a>(of: impl IntoIterator<Item = &'a str>, facts: &[Vec<Fact>]) -> Table {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in facts.iter().flatten() {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let value = |facts: &Vec<Fact>, name: &str| {
            let fact = facts.iter().find(|(known, _)| known == name);
            Cell::from(fact.map(|(_, value)| value.clone()))
        };
        let rows = names.into_iter().map(|name| -> Vec<Cell> {
            [name.into()].into_iter().chain(facts.iter().map(|facts| value(facts, name))).collect()
        });
        Table::new("", [""].into_iter().chain(of), rows)
    }

    /// The columns that are shown: those that have a cell with a text.
    fn shown(&self) -> Vec<usize> {
        let has =
            |row: &Row, column: usize| row.cells.get(column).is_some_and(|c| !c.text.is_empty());
        let shown = |column: &usize| {
            *column == 0 || self.rows.is_empty() || self.rows.iter().any(|row| has(row, *column))
        };
        (0..self.head.len()).filter(shown).collect()
    }

    fn is_left(&self, column: usize) -> bool {
        column == 0 || self.left.contains(&column)
    }
}

impl Row {
    /// A row with a remark, which may be empty.
    pub fn remarked(cells: impl Into<Row>, remark: impl Into<String>) -> Row {
        Row { remark: remark.into(), ..cells.into() }
    }

    fn name(&self) -> &str {
        self.cells.first().map_or("", |cell| &cell.text)
    }
}

impl std::ops::Index<usize> for Row {
    type Output = String;

    /// The text of a cell.
    fn index(&self, column: usize) -> &String {
        &self.cells[column].text
    }
}

impl<C: Into<Cell>> From<Vec<C>> for Row {
    fn from(cells: Vec<C>) -> Row {
        Row { cells: cells.into_iter().map(Into::into).collect(), remark: String::new() }
    }
}

impl<C: Into<Cell>, const N: usize> From<[C; N]> for Row {
    fn from(cells: [C; N]) -> Row {
        Row { cells: cells.into_iter().map(Into::into).collect(), remark: String::new() }
    }
}

impl Class {
    /// A cell of this look.
    pub fn cell(self, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), class: self }
    }

    /// This look if `so`, the plain one otherwise.
    pub fn when(self, so: bool) -> Class {
        if so { self } else { Class::Plain }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Class::Plain.cell(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Class::Plain.cell(text)
    }
}

impl From<Option<String>> for Cell {
    /// A dash for none.
    fn from(text: Option<String>) -> Cell {
        text.map_or_else(|| "-".into(), Cell::from)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        count.to_string().into()
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        count.to_string().into()
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.cells.serialize(serializer)
    }
}

impl Chart {
    /// A chart of series along x and y.
    pub fn new(
        title: impl Into<String>,
        (x, y): (&str, &str),
        shape: Shape,
        series: impl IntoIterator<Item = Series>,
    ) -> Chart {
        let (title, series) = (title.into(), series.into_iter().collect());
        Chart { title, x: x.into(), y: y.into(), shape, series, ..Chart::default() }
    }
}

impl Series {
    /// A series of points, by x.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.into(), points: points.into_iter().collect(), ..Series::default() }
    }

    /// The distribution of samples, in percent: at most about 600 points, the largest samples
    /// always among them.
    pub fn distribution(name: impl Into<String>, samples: &[f64]) -> Series {
        let sorted = ascending(samples);
        let stride = sorted.len().div_ceil(MAX_POINTS).max(1);
        let kept = (0..sorted.len()).filter(|at| at % stride == 0 || at + TAIL >= sorted.len());
        let share = |at: usize| 100.0 * (at + 1) as f64 / sorted.len() as f64;
        Series::new(name, kept.map(|at| (sorted[at], share(at))))
    }

    /// Values at named places; places without a value have no point.
    pub fn at_places<P: Into<String>>(
        name: impl Into<String>,
        values: impl IntoIterator<Item = (P, Option<f64>)>,
    ) -> Series {
        let mut series = Series::new(name, []);
        for (at, (place, value)) in values.into_iter().enumerate() {
            series.places.push(place.into());
            series.points.extend(value.map(|value| (at as f64, value)));
        }
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_keeps_the_largest_samples() {
        let samples: Vec<f64> = (0..100_000).map(f64::from).collect();
        let points = Series::distribution("all", &samples).points;
        assert!(points.len() < MAX_POINTS + TAIL + 1);
        assert_eq!(points.last(), Some(&(99_999.0, 100.0)));
        assert_eq!(points[points.len() - TAIL].0, 99_980.0);
        assert_eq!(Series::distribution("few", &samples[..50]).points.len(), 50);
        assert!(Series::distribution("none", &[]).points.is_empty());
    }
}
