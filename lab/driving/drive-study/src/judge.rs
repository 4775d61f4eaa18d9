//! Results of the drives of a study: every demand with its value, its interval and its verdict, and
//! the numbers and plots of each experiment.
//!
//! Everything is paired: a comparison counts only scenarios that were driven under all policies
//! that it names, and intervals come from drawing scenarios, not frames.

mod characterise;
mod clocks;
mod commuting;
mod corner;
mod deadlines;
mod fit;
mod latency;
mod modules;
mod normal;
mod sample;
mod table1;
#[cfg(test)]
mod tests;

use crate::result::{Demand, DriveStudyRun, Value, Verdict};
use crate::{Clock, Experiment, Factor, Folder, Interval, Part, Row, Study, Suite};
use report::document::Section;
use std::collections::{BTreeMap, HashMap};

/// Origin of the result.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The command.
    pub command: String,
    /// Date of the result.
    pub date: String,
}

/// Judges the drives that a folder has so far.
pub fn judge(folder: &Folder, origin: Origin) -> DriveStudyRun {
    let (study, rows) = (folder.study(), folder.rows());
    let drives = Drives::new(&rows);
    let mut run = DriveStudyRun {
        about: about(folder, &rows),
        command: origin.command,
        date: origin.date,
        machine: machine(folder),
        marks: marks(folder),
        ..DriveStudyRun::default()
    };
    let findings = Findings { study, drives: &drives };
    for (demands, section) in [
        corner::found(&findings),
        corner::confirmed(&findings),
        normal::found(&findings),
        latency::found(&findings),
        deadlines::found(&findings),
        commuting::found(&findings),
        table1::found(&findings),
        clocks::found(&findings),
        characterise::found(&findings),
        modules::found(&findings),
    ] {
        run.demands.extend(demands);
        run.sections.extend(section);
    }
    run.demands.extend(elsewhere());
    run
}

/// Results of an experiment: its demands, which are not measured if it was not driven, and its
/// section if it was.
type Found = (Vec<Demand>, Option<Section>);

/// Study and drives that are judged.
struct Findings<'a> {
    study: &'a Study,
    drives: &'a Drives<'a>,
}

impl Findings<'_> {
    /// The part of an experiment, if it is driven.
    fn part(&self, experiment: Experiment) -> Option<&Part> {
        self.study.parts.iter().find(|part| part.experiment == experiment)
    }
}

/// Suite, stack, policy and clock.
type Place<'a> = (Suite, &'a str, &'a str, Clock);

/// Drives, by place and scenario; each as often as it was driven.
struct Drives<'a>(HashMap<Place<'a>, BTreeMap<usize, Vec<&'a Row>>>);

impl<'a> Drives<'a> {
    fn new(rows: &[&'a Row]) -> Drives<'a> {
        let mut drives: HashMap<_, BTreeMap<usize, Vec<&'a Row>>> = HashMap::new();
        for row in rows {
            let key = &row.key;
            let place = (key.suite, key.stack.as_str(), key.policy.as_str(), key.clock);
            drives.entry(place).or_default().entry(key.index).or_default().push(*row);
        }
        Drives(drives)
    }

    /// The scenarios of a part that this stack has driven under all these policies.
    fn together<const N: usize>(
        &self,
        part: &Part,
        stack: &str,
        policies: [&str; N],
    ) -> Vec<[&'a Row; N]> {
        let all = self.scenarios(part, stack, &policies);
        all.into_iter().filter_map(|rows| rows.try_into().ok()).collect()
    }

    /// The same, of any number of policies.
    fn scenarios(&self, part: &Part, stack: &str, policies: &[&str]) -> Vec<Vec<&'a Row>> {
        let all = self.repeated(part, stack, policies);
        all.into_iter().filter_map(|drives| drives.into_iter().next()).collect()
    }

    /// The same, each as often as it was driven under all of the policies: scenarios of drives of rows,
    /// one for each policy.
    fn repeated(&self, part: &Part, stack: &str, policies: &[&str]) -> Vec<Vec<Vec<&'a Row>>> {
        let Some(suite) = part.experiment.suite() else { return Vec::new() };
        let driven: Option<Vec<_>> = (policies.iter())
            .map(|policy| self.0.get(&(suite, stack, *policy, Clock::Virtual)))
            .collect();
        let Some(driven) = driven else { return Vec::new() };
        let drives = |index: &usize| {
            let all: Option<Vec<_>> = driven.iter().map(|rows| rows.get(index)).collect();
            let all = all?;
            let often = all.iter().map(|rows| rows.len()).min()?;
            let drive = |repeat: usize| all.iter().map(|rows| rows[repeat]).collect();
            (often > 0).then(|| (0..often).map(drive).collect())
        };
        part.scenarios.iter().filter_map(drives).collect()
    }

    /// The scenarios of a part that were driven on this clock and the wall clock, with their drives on
    /// each, the wall clock last.
    fn on_both(
        &self,
        part: &Part,
        stack: &str,
        policy: &str,
        clock: Clock,
    ) -> Vec<[Vec<&'a Row>; 2]> {
        let Some(suite) = part.experiment.suite() else { return Vec::new() };
        let on = |clock| self.0.get(&(suite, stack, policy, clock));
        let (Some(simulated), Some(wall)) = (on(clock), on(Clock::Wall)) else {
            return Vec::new();
        };
        let pair = |index: &usize| Some([simulated.get(index)?.clone(), wall.get(index)?.clone()]);
        part.scenarios.iter().filter_map(pair).collect()
    }
}

/// The name of a stack, and what is demanded of it if it differs.
fn stacks(study: &Study, of_a: f64, of_b: f64) -> impl Iterator<Item = (&str, f64)> {
    let known = [("a", of_a), ("b", of_b)];
    known.into_iter().filter(|(stack, _)| study.stacks.iter().any(|driven| driven == stack))
}

/// Limit of a value, by its good side.
#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Least(f64),
    Most(f64),
    /// No farther from 0, to either side.
    Within(f64),
}

impl Limit {
    fn words(self, unit: &str) -> String {
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        match self {
            Limit::Least(limit) => format!("at least {limit}{unit}"),
            Limit::Most(limit) => format!("at most {limit}{unit}"),
            Limit::Within(limit) => format!("within {limit}{unit}"),
        }
    }

    /// Judges the worse end of the interval; an interval without ends decides nothing.
    fn verdict(self, found: Interval) -> Verdict {
        let (worse, met) = match self {
            Limit::Least(limit) => (found.low, found.low >= limit),
            Limit::Most(limit) => (found.high, found.high <= limit),
            Limit::Within(limit) => {
                let worse = found.high.max(-found.low);
                (worse, worse <= limit)
            }
        };
        match (worse.is_finite(), met) {
            (false, _) => Verdict::NotMeasured,
            (true, true) => Verdict::Met,
            (true, false) => Verdict::Missed,
        }
    }
}

/// A demand with what was found of it.
fn demand(
    what: &str,
    stack: &str,
    found: Option<Interval>,
    (limit, unit): (Limit, &str),
    note: String,
) -> Demand {
    Demand {
        what: what.to_owned(),
        stack: stack.to_owned(),
        value: found.map(|found| value(found, unit)),
        demand: limit.words(unit),
        verdict: found.map_or(Verdict::NotMeasured, |found| limit.verdict(found)),
        note,
    }
}

fn value(found: Interval, unit: &str) -> Value {
    let interval =
        (found.low.is_finite() && found.high.is_finite()).then_some((found.low, found.high));
    Value { value: found.value, interval, unit: unit.to_owned() }
}

/// A value as a cell of a table.
fn cell(found: Option<Interval>, unit: &str) -> String {
    let Some(found) = found else { return "-".to_owned() };
    let value = value(found, unit);
    match value.interval_shown() {
        Some(interval) => format!("{} ({interval})", value.shown()),
        None => value.shown(),
    }
}

/// Demands that another command measures.
fn elsewhere() -> Vec<Demand> {
    let demand = |what: &str, demand: &str, note: &str| Demand {
        what: what.to_owned(),
        demand: demand.to_owned(),
        note: note.to_owned(),
        ..Demand::default()
    };
    vec![demand(
        "RSS functions and Intel's library",
        "1e-9 on 10,000 cases",
        "Not by this study: cargo xtask rss compares them.",
    )]
}

fn about(folder: &Folder, rows: &[&Row]) -> String {
    let study = folder.study();
    let experiments: Vec<&str> = study.parts.iter().map(|part| part.experiment.name()).collect();
    let (done, all) = folder.done();
    let hours = rows.iter().map(|row| row.driven_s).sum::<f64>() / 3600.0;
    format!(
        "Experiments: {}. {done} of {all} drives, {hours:.2} hours on the road; stack {}.",
        experiments.join(", "),
        study.stacks.join(" and ").to_uppercase(),
    )
}

fn machine(folder: &Folder) -> Vec<(String, String)> {
    let study = folder.study();
    let mut facts: Vec<(String, String)> = Vec::new();
    for fact in folder.machines().iter().flatten() {
        if !facts.contains(fact) {
            facts.push(fact.clone());
        }
    }
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let slower = |words: String| fact("Simulated cores", words);
    match study.factor {
        Factor::Times(times) => {
            facts.push(slower(format!("{times} times slower than the machine's")));
        }
        Factor::Published => {
            facts.extend(folder.slower().iter().map(|it| slower(it.found.to_string())));
        }
    }
    facts.push(fact("Frames until an object is believed", study.confirm_frames.to_string()));
    facts
}

fn marks(folder: &Folder) -> Vec<String> {
    let mut marks = Vec::new();
    let (done, all) = folder.done();
    if done < all {
        marks.push(format!("{done} of {all} drives are complete: the results are partial."));
    }
    if folder.study().folded {
        let text = "Folded: several cores of a stack share one of the machine.";
        marks.push(text.to_owned());
    }
    if folder.shard().of > 1 {
        marks.push(format!(
            "Shard {} only: merge all shards for the results of the study.",
            folder.shard()
        ));
    }
    if folder.machines().len() > 1 {
        marks.push(format!(
            "Driven in {} places: costs are measured, and differ between machines.",
            folder.machines().len()
        ));
    }
    marks
}
