//! A schedulability study: how many random sets each analysis accepts, point by point.
//!
//! The study fills a [`StudyRun`]. Its points have two coordinates: `x`, along the axis of every
//! plot, and `group`, one plot for each value. Every point has one [`StudyOutcome`] per method, in the
//! order of [`StudyRun::methods`]. Where execution times were scaled, what counts is by how much
//! they could be ([`StudyOutcome::scales`]); elsewhere, how many sets were accepted.

use crate::document::{
    Cell, Chart, Class, Document, Limit, Line, Row, Section, Series, Shape, Table,
};
use crate::number::{count, plain};
use serde_json::{Value, json};
use stats::{ascending, nearest_rank};

/// The method whose sets had no miss while they were simulated: no analysis accepts more.
pub const SIMULATION: &str = "simulation";

/// The result of a study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StudyRun {
    /// The experiment.
    pub experiment: String,
    /// Subject of the experiment, as a heading.
    pub title: String,
    /// Description of the sets, in a sentence or two.
    pub about: String,
    /// The command that made this result.
    pub command: String,
    /// Date of the result, as text.
    pub date: String,
    /// Parameters that all sets have in common, name and value.
    pub parameters: Vec<(String, String)>,
    /// Notes on the validity of the results.
    pub marks: Vec<String>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Sets of each point.
    pub sets: u64,
    /// Times that were scaled, if there were any.
    pub scaled: Option<String>,
    /// Meaning of [`Point::x`].
    pub x: Axis,
    /// Meaning of [`Point::group`].
    pub group: Axis,
    /// Methods that judged the sets.
    pub methods: Vec<String>,
    /// The points, by group, then by x.
    pub points: Vec<Point>,
}

/// Meaning of a coordinate of a point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Axis {
    /// Its name, such as "chains".
    pub name: String,
    /// Its unit; empty where it has none.
    pub unit: String,
}

/// All sets with the same parameters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// Its number, from which its sets can be drawn again.
    pub number: u64,
    /// Place of the point on the x axis of a plot.
    pub x: f64,
    /// Plot in which it stands.
    pub group: f64,
    /// One per method.
    pub outcomes: Vec<StudyOutcome>,
}

/// Results of one method for the sets of one point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StudyOutcome {
    /// Number of sets.
    pub sets: u64,
    /// Number of schedulable sets.
    pub accepted: u64,
    /// Number of chains in the sets.
    pub chains: u64,
    /// Number of those chains that kept their deadline.
    pub chains_ok: u64,
    /// Factors by which the times of each set could be scaled, ascending; sets that were not
    /// schedulable at any scale have none.
    pub scales: Vec<f64>,
}

impl StudyOutcome {
    /// The accepted sets in percent; none where there were no sets.
    pub fn accepted_percent(&self) -> Option<f64> {
        percent(self.accepted, self.sets)
    }

    /// The chains that kept their deadline, in percent; none where there were none.
    pub fn chains_percent(&self) -> Option<f64> {
        percent(self.chains_ok, self.chains)
    }

    /// A quantile of the scales over all sets, in thousandths. A set that is schedulable at no
    /// scale counts as 0.
    pub fn scale(&self, permille: u32) -> Option<f64> {
        let never = usize::try_from(self.sets).unwrap_or(0).saturating_sub(self.scales.len());
        let mut scales = vec![0.0; never];
        scales.extend(ascending(&self.scales));
        nearest_rank(&scales, permille)
    }
}

impl StudyRun {
    /// The values of [`Point::group`], in order.
    fn groups(&self) -> Vec<f64> {
        let mut groups: Vec<f64> = self.points.iter().map(|point| point.group).collect();
        groups.dedup();
        groups
    }

    /// The points of one group, in order.
    fn in_group(&self, group: f64) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.group.total_cmp(&group).is_eq())
    }

    /// All outcomes of one method, as one.
    fn total(&self, method: usize) -> StudyOutcome {
        let outcomes = self.points.iter().filter_map(|point| point.outcomes.get(method));
        let mut total = StudyOutcome::default();
        for outcome in outcomes {
            total.sets += outcome.sets;
            total.accepted += outcome.accepted;
            total.chains += outcome.chains;
            total.chains_ok += outcome.chains_ok;
            total.scales.extend(&outcome.scales);
        }
        total
    }

    /// The number that a table and a plot show of an outcome.
    fn shown(&self, outcome: &StudyOutcome) -> Option<f64> {
        if self.scaled.is_some() { outcome.scale(500) } else { outcome.accepted_percent() }
    }
}

impl Axis {
    /// "utilisation 20 %"
    fn at(&self, value: f64) -> String {
        format!("{} {}", self.name, self.value(value))
    }

    /// "20 %"
    fn value(&self, value: f64) -> String {
        let value = plain(value);
        if self.unit.is_empty() { value } else { format!("{value} {}", self.unit) }
    }

    /// "utilisation, %"
    fn label(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else {
            format!("{}, {}", self.name, self.unit)
        }
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// The result as JSON: `points`, and for each `methods`, by method `sets`, `accepted`,
/// `accepted_percent`, `chains` and `chains_ok`; where times were scaled `scale_p10`, `scale_p50`
/// and `scale_p90` too. Null stands where there is no number.
pub fn json(run: &StudyRun) -> Value {
    let point = |point: &Point| {
        let methods = run.methods.iter().zip(&point.outcomes);
        let methods = methods.map(|(method, outcome)| (&**method, outcome_json(run, outcome)));
        let methods = Value::from_iter(methods);
        json!({ "point": point.number, "x": point.x, "group": point.group, "methods": methods })
    };
    json!({
        "experiment": run.experiment,
        "command": run.command,
        "date": run.date,
        "seed": run.seed,
        "sets": run.sets,
        "parameters": Value::from_iter(run.parameters.clone()),
        "marks": run.marks,
        "scaled": run.scaled,
        "x": run.x.label(),
        "group": run.group.label(),
        "points": run.points.iter().map(point).collect::<Vec<_>>(),
    })
}

fn outcome_json(run: &StudyRun, outcome: &StudyOutcome) -> Value {
    let mut value = json!({
        "sets": outcome.sets,
        "accepted": outcome.accepted,
        "accepted_percent": outcome.accepted_percent(),
        "chains": outcome.chains,
        "chains_ok": outcome.chains_ok,
    });
    if run.scaled.is_some() {
        for (name, permille) in [("scale_p10", 100), ("scale_p50", 500), ("scale_p90", 900)] {
            value[name] = json!(outcome.scale(permille));
        }
    }
    value
}

/// The result as people read it: what each method accepts in all, then point by point.
pub fn document(run: &StudyRun) -> Document {
    let shown = match &run.scaled {
        Some(scaled) => {
            format!("Median scale: the largest factor on {scaled} at which a set is schedulable.")
        }
        None => "Sets accepted, in percent.".to_owned(),
    };
    let sets = format!("{} at each of {} points", count(run.sets), run.points.len());
    let facts = [
        ("Experiment", run.experiment.clone()),
        ("Sets", sets),
        ("Seed", run.seed.to_string()),
        ("Shown", shown),
    ];
    let groups = run.groups().into_iter().map(|group| group_section(run, group));
    let parameters = Section { facts: run.parameters.clone(), ..Section::new("Parameters", "") };
    Document {
        kind: format!("keeptime-lab study {}", run.experiment),
        title: run.title.clone(),
        about: run.about.clone(),
        command: run.command.clone(),
        date: run.date.clone(),
        facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        marks: run.marks.clone(),
        sections: [totals(run)].into_iter().chain(groups).chain([parameters]).collect(),
        notes: [
            "published is Theorem 1 of PAAM as printed, which is unsound where a lower-priority \
             callback of the same executor waits for an accelerator; sound is its repair, tight the \
             refinement that Keeptime uses.",
            "simulation counts the sets that missed no deadline in the schedules that were \
             simulated: no analysis that is right accepts a set that it refuses. A name with +dm \
             stands for the same sets with deadline-monotonic priorities, one with +search for the \
             best priorities that a short search finds.",
            "The number of a point is what its sets are drawn from.",
        ]
        .map(str::to_owned)
        .into(),
        ..Document::default()
    }
}

/// The number that the study is about.
fn cell(run: &StudyRun, outcome: &StudyOutcome) -> Cell {
    let digits = if run.scaled.is_some() { 3 } else { 1 };
    run.shown(outcome).map(|number| format!("{number:.digits$}")).into()
}

fn chains_cell(outcome: &StudyOutcome) -> Cell {
    Class::Faint
        .cell(outcome.chains_percent().map_or("-".to_owned(), |number| format!("{number:.1}")))
}

/// Task sets that each method accepts over all points.
fn totals(run: &StudyRun) -> Section {
    let row = |(index, method): (usize, &String)| -> Row {
        let total = run.total(index);
        let scale = |permille| total.scale(permille).map(|scale| format!("{scale:.3}"));
        let name = Class::Series(look(method).0).cell(method);
        let (shown, sets) = (cell(run, &total), count(total.sets).into());
        match run.scaled {
            Some(_) => [name, shown, scale(100).into(), scale(900).into(), sets].into(),
            None => [name, shown, count(total.accepted).into(), sets, chains_cell(&total)].into(),
        }
    };
    let head = match run.scaled {
        Some(_) => ["method", "median", "p10", "p90", "sets"],
        None => ["method", "accepted, %", "accepted", "sets", "chains, %"],
    };
    let rows = run.methods.iter().enumerate().map(row);
    Section::new("Over all points", "").table(Table::new("", head, rows))
}

/// The points of a group: a row for each method, and the chains that kept their deadline below.
fn group_section(run: &StudyRun, group: f64) -> Section {
    let points: Vec<&Point> = run.in_group(group).collect();
    let row = |name: Cell, shown: &dyn Fn(&Point) -> Cell| -> Row {
        let cells = points.iter().map(|point| shown(point));
        [name].into_iter().chain(cells).collect::<Vec<_>>().into()
    };
    let methods = || run.methods.iter().enumerate();
    let outcome = |point: &Point, index: usize, shown: &dyn Fn(&StudyOutcome) -> Cell| {
        point.outcomes.get(index).map_or("-".into(), shown)
    };
    let of_method = |(index, method): (usize, &String)| {
        let name = Class::Series(look(method).0).cell(method);
        row(name, &|point| outcome(point, index, &|outcome| cell(run, outcome)))
    };
    let chains = |(index, method): (usize, &String)| {
        let name = Class::Faint.cell(format!("{method}, chains, %"));
        row(name, &|point| outcome(point, index, &chains_cell))
    };
    let chains = methods().filter(|_| run.scaled.is_none()).map(chains);
    let number =
        row(Class::Faint.cell("point"), &|point| Class::Faint.cell(point.number.to_string()));
    let rows = methods().map(of_method).chain(chains).chain([number]);
    let head = [run.x.label()].into_iter().chain(points.iter().map(|point| plain(point.x)));
    Section::new(run.group.at(group), "")
        .table(Table::new("", head, rows))
        .charts([chart(run, &points, group)])
}

/// Task sets that each method accepts along x, or the median scale with the range from the 10th to the 90th
/// percentile.
fn chart(run: &StudyRun, points: &[&Point], group: f64) -> Chart {
    let series = |(index, method): (usize, &String)| {
        let found = points.iter().filter_map(|point| {
            let outcome = point.outcomes.get(index)?;
            Some((point.x, run.shown(outcome)?, outcome))
        });
        let (ink, line) = look(method);
        let scaled = run.scaled.is_some();
        let range = |outcome: &StudyOutcome| Some((outcome.scale(100)?, outcome.scale(900)?));
        let spread = found.clone().filter(|_| scaled).filter_map(|(_, _, outcome)| range(outcome));
        Series {
            spread: spread.collect(),
            ink: Some(ink),
            line,
            ..Series::new(method, found.map(|(x, y, _)| (x, y)))
        }
    };
    // All sets, or the times as they are: in every chart, so that these can be compared.
    let (whole, y) = match &run.scaled {
        Some(scaled) => (1.0, format!("scale of {scaled}")),
        None => (100.0, "% of the sets".to_owned()),
    };
    let limits = vec![Limit { name: String::new(), at: whole, class: Class::Faint }];
    let methods = run.methods.iter().enumerate().map(series);
    let x = run.x.label();
    let chart = Chart::new(run.group.at(group), (&x, &y), Shape::Lines, methods);
    Chart { limits, log: run.scaled.is_some(), ..chart }
}

/// The colour of a method says which analysis it is, the line which priorities the sets have. The
/// published theorem is wide, so that it still shows where the sound one accepts the same.
fn look(method: &str) -> (usize, Line) {
    let (analysis, assignment) = method.split_once('+').unwrap_or((method, ""));
    let ink = match analysis {
        "tight" => 0,
        "published" => 1,
        "sound" => 2,
        SIMULATION => 5,
        _ => 3,
    };
    let line = match assignment {
        "" if analysis == "published" => Line::Wide,
        "" => Line::Solid,
        "dm" => Line::Dashed,
        _ => Line::Dotted,
    };
    (ink, line)
}
