//! A study of driving stacks: what is demanded of them and what they did, as tables and plots.
//!
//! The crate `drive-study` fills a [`DriveStudyRun`]. [`table`] shows it in a terminal,
//! [`json`](json()) to machines, [`html`](html()) as one page.

mod html;
mod json;
mod plot;
mod table;

pub use html::html;
pub use json::json;
pub use table::table;

use serde::Serialize;

/// The result of a study.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DriveStudyRun {
    /// Description of the drives, in a sentence or two.
    pub about: String,
    /// The command that made this result.
    pub command: String,
    /// Date of the result, as text.
    pub date: String,
    /// Machine, clock, factor and the like: name and value.
    pub machine: Vec<(String, String)>,
    /// Notes on the validity of the results.
    pub marks: Vec<String>,
    /// Demands on the stacks.
    pub demands: Vec<Demand>,
    /// Results of the experiments.
    pub sections: Vec<Section>,
}

/// Something that is demanded.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Demand {
    /// Subject of the demand.
    pub what: String,
    /// Stack that it is demanded of; empty: of none.
    pub stack: String,
    /// Measured value; none if it was not measured.
    pub value: Option<Value>,
    /// Required value, in words.
    pub demand: String,
    /// Verdict on the demand.
    pub verdict: Verdict,
    /// Notes on the demand; may be empty.
    pub note: String,
}

/// A number with the interval in which it lies with a confidence of 95 %.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Value {
    /// As measured.
    pub value: f64,
    /// The interval; none where the number has none, or none that says anything.
    pub interval: Option<(f64, f64)>,
    /// "%", "times" and the like; may be empty.
    pub unit: String,
}

/// Verdict on a demand. The worse end of the interval decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The demand is met.
    Met,
    /// The demand is not met, or it is not sure enough.
    Missed,
    /// Nothing is known.
    #[default]
    NotMeasured,
}

/// Results of one experiment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Description of the results, with notes on their validity.
    pub about: String,
    /// Numbers.
    pub tables: Vec<Table>,
    /// Pictures of them.
    pub plots: Vec<Plot>,
}

/// Numbers in rows and columns, as text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// The first cell of a row names it.
    pub rows: Vec<Vec<String>>,
}

/// A picture.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plot {
    /// Its heading.
    pub title: String,
    /// Quantity on the horizontal axis, with its unit.
    pub x: String,
    /// Quantity on the vertical axis, with its unit.
    pub y: String,
    /// Shape of the plot.
    pub shape: Shape,
    /// Series of the plot.
    pub series: Vec<Series>,
}

/// Shape of a plot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Points joined by lines.
    #[default]
    Lines,
    /// As lines, without points, over a logarithmic axis: a distribution.
    Distribution,
    /// Bars side by side, whose places are named.
    Bars,
}

/// Points that belong together in a plot.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, by x; of bars, x counts the places from 0.
    pub points: Vec<(f64, f64)>,
    /// The names of the places of bars.
    pub places: Vec<String>,
}

impl Verdict {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

impl Value {
    /// The number alone.
    pub fn shown(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("{}{unit}", number(self.value))
    }

    /// Its interval; none where it has none.
    pub fn interval_shown(&self) -> Option<String> {
        self.interval.map(|(low, high)| format!("{} to {}", number(low), number(high)))
    }
}

/// About three digits that say something.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        small if small < 0.01 => format!("{value:.1e}"),
        small if small < 0.1 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

impl DriveStudyRun {
    /// Conclusion of the study, in sentences.
    fn conclusion(&self) -> Vec<String> {
        let count = |verdict| self.demands.iter().filter(|one| one.verdict == verdict).count();
        let counts = [Verdict::Met, Verdict::Missed, Verdict::NotMeasured].map(count);
        let [met, missed, unknown] = counts;
        vec![
            format!(
                "Of {} demands {met} are met, {missed} are missed, {unknown} are not measured.",
                self.demands.len()
            ),
            self.about.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> DriveStudyRun {
        let value = Value { value: 1.7, interval: Some((1.5, 1.9)), unit: "times".into() };
        let demand = |verdict, value: Option<Value>| Demand {
            what: "mean latency".into(),
            stack: "a".into(),
            value,
            demand: "at least 1.41 times better".into(),
            verdict,
            note: "of <frames>".into(),
        };
        let lines = Series {
            name: "base".into(),
            points: vec![(10.0, 0.1), (90.0, 1.0)],
            ..Series::default()
        };
        let bars =
            Series { places: vec!["base".into()], points: vec![(0.0, 3.0)], ..lines.clone() };
        let plot = |shape, series: &Series| Plot {
            title: "latency".into(),
            x: "ms".into(),
            y: "share".into(),
            shape,
            series: vec![series.clone(), Series::default()],
        };
        DriveStudyRun {
            about: "Two drives.".into(),
            marks: vec!["few".into()],
            demands: vec![demand(Verdict::Met, Some(value)), demand(Verdict::NotMeasured, None)],
            sections: vec![Section {
                title: "Latency".into(),
                about: "Frame to command.".into(),
                tables: vec![Table {
                    title: "All".into(),
                    head: vec!["policy".into(), "mean".into()],
                    rows: vec![vec!["base".into(), "73.7".into()]],
                }],
                plots: vec![
                    plot(Shape::Lines, &lines),
                    plot(Shape::Distribution, &lines),
                    plot(Shape::Bars, &bars),
                    Plot::default(),
                ],
            }],
            ..DriveStudyRun::default()
        }
    }

    #[test]
    fn page_table_and_json_say_each_demand_with_its_value_and_verdict() {
        let run = run();
        let page = html(&run).unwrap();
        assert!(page.contains("Of 2 demands 1 are met, 0 are missed, 1 are not measured."));
        assert!(page.contains("1.70 times") && page.contains("1.50 to 1.90"), "{page}");
        assert!(page.contains("of &lt;frames&gt;") && !page.contains("<script"));
        assert_eq!(page.matches("<svg").count(), 3, "an empty plot is none");
        let table = table(&run);
        assert!(table.contains("not measured") && table.contains("73.7"), "{table}");
        let json = json(&run);
        assert_eq!(json["demands"][0]["value"]["interval"][0], 1.5);
        assert_eq!(json["demands"][1]["verdict"], "not_measured");
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.0, 123.4, 12.34, 1.234, 0.0123, 0.00374, -5.5].map(number);
        assert_eq!(shown, ["0", "123", "12.3", "1.23", "0.0123", "3.7e-3", "-5.50"]);
    }
}
