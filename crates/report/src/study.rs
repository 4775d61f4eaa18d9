//! A schedulability study: how many random sets each analysis accepts, point by point.
//!
//! The study fills a [`StudyRun`]. Its points have two coordinates: `x`, along the axis of every
//! plot, and `group`, one plot for each value. Every point has one [`Outcome`] per method, in the
//! order of [`StudyRun::methods`]. Where execution times were scaled, what counts is by how much
//! they could be ([`Outcome::scales`]); elsewhere, how many sets were accepted.

mod html;
mod json;
mod plot;
mod table;

pub use html::html;
pub use json::json;
pub use table::table;

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
    /// In which plot it stands.
    pub group: f64,
    /// One per method.
    pub outcomes: Vec<Outcome>,
}

/// Results of one method for the sets of one point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Number of sets.
    pub sets: u64,
    /// Number of schedulable sets.
    pub accepted: u64,
    /// Number of chains in the sets.
    pub chains: u64,
    /// Number of those chains that kept their deadline.
    pub chains_ok: u64,
    /// By how much the times of each set could be scaled, ascending; sets that were not
    /// schedulable at any scale have none.
    pub scales: Vec<f64>,
}

impl Outcome {
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
    fn total(&self, method: usize) -> Outcome {
        let outcomes = self.points.iter().filter_map(|point| point.outcomes.get(method));
        let mut total = Outcome::default();
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
    fn shown(&self, outcome: &Outcome) -> Option<f64> {
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
        let value = number(value);
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

/// A coordinate without the noise of its last binary digits.
fn number(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}
