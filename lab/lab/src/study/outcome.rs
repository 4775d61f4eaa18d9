//! Result of all rows, which tables, pages and JSON show.

use std::collections::HashSet;

use report::study::{Axis, Point, SIMULATION, StudyOutcome, StudyRun};
use trial::Shard;

use super::experiment::{Experiment, Study};
use super::row::Row;

/// The result of a study, from the rows of one shard.
pub(super) fn run(
    study: &Study,
    shard: Shard,
    rows: &[Row],
    command: &str,
    date: String,
) -> StudyRun {
    let (x, group) = axes(study.experiment);
    StudyRun {
        experiment: study.experiment.name().to_owned(),
        title: title(study),
        about: about(study.experiment).to_owned(),
        command: command.to_owned(),
        date,
        parameters: parameters(study),
        marks: marks(study, shard, rows),
        seed: study.seed,
        sets: study.sets,
        scaled: study.scale_words(),
        x,
        group,
        methods: study.methods.clone(),
        points: points(study, rows),
    }
}

fn axes(experiment: Experiment) -> (Axis, Axis) {
    let chains = Axis { name: "chains".to_owned(), unit: String::new() };
    let percent = |name: &str| Axis { name: name.to_owned(), unit: "%".to_owned() };
    match experiment {
        Experiment::Fig14a | Experiment::Sensitivity => (chains, percent("utilisation per chain")),
        Experiment::Fig14b => (percent("utilisation"), percent("accelerator share")),
        Experiment::Proposal => (percent("utilisation"), chains),
    }
}

fn title(study: &Study) -> String {
    match study.experiment {
        Experiment::Fig14a => "Schedulable sets by number of chains".to_owned(),
        Experiment::Fig14b => "Schedulable sets by share of accelerator time".to_owned(),
        Experiment::Proposal => "Schedulable sets by accelerator utilisation".to_owned(),
        Experiment::Sensitivity => {
            format!("Largest growth of {}", study.scale_words().unwrap_or_default())
        }
    }
}

fn about(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Fig14a => {
            "Sets as in figure 14a of PAAM: chains of four equal callbacks, an executor for each \
             chain, one accelerator, as much accelerator as processor time, and priorities that \
             ignore the periods."
        }
        Experiment::Fig14b => {
            "Sets as in figure 14b of PAAM: the sets of figure 14a with a fixed number of chains, \
             whose time is divided otherwise between accelerator and processor. The utilisation is \
             that of one chain."
        }
        Experiment::Sensitivity => {
            "For each set of figure 14a of PAAM the largest factor by which times can be \
             multiplied until it is no longer schedulable. Above 1 there is room; below 1 the set \
             is not schedulable as it is."
        }
        Experiment::Proposal => {
            "Sets as in practice: accelerator time by UUniFast, periods log-uniform from 20 ms to \
             1 s, deadline-monotonic priorities, executors that chains share. The utilisation is \
             the accelerator time of all chains."
        }
    }
}

fn parameters(study: &Study) -> Vec<(String, String)> {
    let mut parameters: Vec<(String, String)> =
        study.parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    parameters.push(("version".to_owned(), study.version.clone()));
    parameters
}

fn points(study: &Study, rows: &[Row]) -> Vec<Point> {
    let mut points: Vec<Point> = study.points.iter().map(|point| of_point(study, point)).collect();
    for row in rows {
        let outcome = &mut points[row.point].outcomes[row.method];
        outcome.sets += 1;
        outcome.accepted += u64::from(row.schedulable);
        outcome.chains += u64::from(study.points[row.point].chains);
        outcome.chains_ok += u64::from(row.chains_ok);
        outcome.scales.extend(row.scale);
    }
    points
}

/// A point without sets.
fn of_point(study: &Study, point: &super::experiment::Point) -> Point {
    let (chains, utilisation) = (f64::from(point.chains), f64::from(point.utilisation_percent));
    let (x, group) = match study.experiment {
        Experiment::Fig14a | Experiment::Sensitivity => (chains, utilisation),
        Experiment::Fig14b => (utilisation, point.accelerator_percent),
        Experiment::Proposal => (utilisation, chains),
    };
    let outcomes = vec![StudyOutcome::default(); study.methods.len()];
    Point { number: point.number, x, group, outcomes }
}

/// Returns the marks that qualify the results: sets that are missing, and guarantees that a
/// simulation broke.
fn marks(study: &Study, shard: Shard, rows: &[Row]) -> Vec<String> {
    let mut marks = Vec::new();
    if shard != Shard::WHOLE {
        let sets = shard.count(study.sets);
        marks.push(format!("shard {shard}: {sets} of {} sets at each point", study.sets));
    }
    for (index, method) in study.methods.iter().enumerate() {
        marks.extend(broken(study, rows, (index, method)));
    }
    marks
}

/// Says whether a set that a method accepts was late in the simulation with the same priorities.
fn broken(study: &Study, rows: &[Row], (index, method): (usize, &str)) -> Option<String> {
    let priorities = method.find('+').map_or("", |plus| &method[plus..]);
    let simulation = format!("{SIMULATION}{priorities}");
    let simulation = study.methods.iter().position(|name| *name == simulation)?;
    let late: HashSet<(usize, u64)> = (rows.iter())
        .filter(|row| row.method == simulation && !row.schedulable)
        .map(|row| (row.point, row.set))
        .collect();
    let accepted = rows.iter().filter(|row| row.method == index && row.schedulable);
    let broken: Vec<&Row> = accepted.filter(|row| late.contains(&(row.point, row.set))).collect();
    let first = broken.first()?;
    let sets = if broken.len() == 1 { "set was" } else { "sets were" };
    Some(format!(
        "{} {sets} late in simulation although {method} accepts them, the first at point {}, set {}",
        broken.len(),
        study.points[first.point].number,
        first.set
    ))
}
