//! Result of a study: what is demanded of the stacks and what they did. It serialises as the JSON of
//! the study; docs/drive.md says what that has.

use report::document::{Class, Document, Row, Section, Table};
use report::number::digits;
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
    /// Measured value.
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
    /// No measurement.
    #[default]
    NotMeasured,
}

impl Value {
    /// The number alone.
    pub(crate) fn shown(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("{}{unit}", digits(self.value))
    }

    /// Its interval; none where it has none.
    pub(crate) fn interval_shown(&self) -> Option<String> {
        self.interval.map(|(low, high)| format!("{} to {}", digits(low), digits(high)))
    }
}

impl DriveStudyRun {
    /// The result as people read it: every demand with its value, its interval and its verdict, then
    /// each experiment.
    pub fn document(&self) -> Document {
        let demands = Section {
            title: "Demands".to_owned(),
            about:
                "The worse end of the interval decides: percentile bootstrap over scenarios, 95 \
                    %, all policies on the same scenarios."
                    .to_owned(),
            tables: vec![self.demands()],
            ..Section::default()
        };
        Document {
            kind: "keeptime-lab drive study".to_owned(),
            title: "Effect of the latency of a driving stack".to_owned(),
            about: self.about.clone(),
            conclusion: vec![self.conclusion()],
            command: self.command.clone(),
            date: self.date.clone(),
            facts: self.machine.clone(),
            marks: self.marks.clone(),
            sections: [demands].into_iter().chain(self.sections.iter().cloned()).collect(),
            notes: vec![
                "Modules execute on this machine, and their times are charged to simulated cores, \
                 which are slower by the factor above. The longest of many latencies is the least \
                 certain number here: an interval drawn from the same drives cannot contain a \
                 longer one; p99.9 is given beside it."
                    .to_owned(),
            ],
        }
    }

    fn conclusion(&self) -> String {
        let count = |verdict| self.demands.iter().filter(|one| one.verdict == verdict).count();
        let [met, missed, unknown] =
            [Verdict::Met, Verdict::Missed, Verdict::NotMeasured].map(count);
        let all = self.demands.len();
        format!("Of {all} demands {met} are met, {missed} are missed, {unknown} are not measured.")
    }

    fn demands(&self) -> Table {
        let row = |one: &Demand| {
            let value = one.value.as_ref();
            let verdict = match one.verdict {
                Verdict::Met => Class::Good.cell("met"),
                Verdict::Missed => Class::Bad.cell("missed"),
                Verdict::NotMeasured => Class::Faint.cell("not measured"),
            };
            let cells = [
                one.what.as_str().into(),
                one.stack.to_uppercase().into(),
                verdict,
                value.map(Value::shown).into(),
                value.and_then(Value::interval_shown).into(),
                one.demand.as_str().into(),
            ];
            Row::remarked(cells, &one.note)
        };
        let head = ["demand", "stack", "verdict", "found", "95 %", "demanded"];
        Table::new("", head, self.demands.iter().map(row)).left(&[5])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::document::{Chart, Series, Shape};

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
        let lines = Series::new("base", [(10.0, 0.1), (90.0, 1.0)]);
        let bars = Series::at_places("base", [("base", Some(3.0))]);
        let chart = |shape, series: &Series| {
            Chart::new("latency", ("ms", "share"), shape, [series.clone(), Series::default()])
        };
        DriveStudyRun {
            about: "Two drives.".into(),
            marks: vec!["few".into()],
            demands: vec![demand(Verdict::Met, Some(value)), demand(Verdict::NotMeasured, None)],
            sections: vec![Section {
                title: "Latency".into(),
                about: "Frame to command.".into(),
                tables: vec![Table::new("All", ["policy", "mean"], [["base", "73.7"]])],
                charts: vec![
                    chart(Shape::Lines, &lines),
                    chart(Shape::Distribution, &lines),
                    chart(Shape::Bars, &bars),
                    Chart::default(),
                ],
                ..Section::default()
            }],
            ..DriveStudyRun::default()
        }
    }

    #[test]
    fn page_and_text_say_each_demand_with_its_value_and_verdict() {
        let document = run().document();
        let page = document.html().unwrap();
        let said = "Of 2 demands 1 are met, 0 are missed, 1 are not measured.";
        assert!(page.contains(said));
        assert!(page.contains("1.70 times") && page.contains("1.50 to 1.90"), "{page}");
        assert!(page.contains("of &lt;frames&gt;") && !page.contains("<script"));
        assert_eq!(page.matches("<svg").count(), 3, "an empty chart is none");
        let text = document.text(100, false);
        for words in ["not measured", "73.7", "! few", "of <frames>", said] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn json_has_tables_as_texts_and_plots_as_points() {
        let json = serde_json::to_value(run()).unwrap();
        assert_eq!(json["demands"][0]["value"]["interval"][0], 1.5);
        assert_eq!(json["demands"][1]["verdict"], "not_measured");
        let expected = serde_json::json!({
            "title": "Latency",
            "about": "Frame to command.",
            "tables": [{ "title": "All", "head": ["policy", "mean"], "rows": [["base", "73.7"]] }],
            "plots": [
                {
                    "title": "latency", "x": "ms", "y": "share", "shape": "lines",
                    "series": [
                        { "name": "base", "points": [[10.0, 0.1], [90.0, 1.0]], "places": [] },
                        { "name": "", "points": [], "places": [] },
                    ],
                },
                {
                    "title": "latency", "x": "ms", "y": "share", "shape": "distribution",
                    "series": [
                        { "name": "base", "points": [[10.0, 0.1], [90.0, 1.0]], "places": [] },
                        { "name": "", "points": [], "places": [] },
                    ],
                },
                {
                    "title": "latency", "x": "ms", "y": "share", "shape": "bars",
                    "series": [
                        { "name": "base", "points": [[0.0, 3.0]], "places": ["base"] },
                        { "name": "", "points": [], "places": [] },
                    ],
                },
                { "title": "", "x": "", "y": "", "shape": "lines", "series": [] },
            ],
        });
        assert_eq!(json["sections"][0], expected);
    }
}
