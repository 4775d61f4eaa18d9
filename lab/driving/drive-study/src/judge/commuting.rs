//! Commuting time (COLA, figure 13j): what a policy costs on the way to a destination.

use super::{Findings, Found, Limit, cell, demand};
use crate::commute::{DISTANCE_M, MAPS, NAMES, REPEATS};
use crate::statistics::bootstrap;
use crate::{Experiment, Interval, Part, Row};
use report::document::{Chart, Section, Series, Shape, Table};

const WHAT: &str = "Commute: how much longer";

pub(super) fn found(findings: &Findings) -> Found {
    let demands = findings.study.stacks.iter().map(|stack| {
        let found = penalty(findings, stack, "all");
        demand(WHAT, stack, found, (Limit::Most(6.43), "%"), "All against base.".to_owned())
    });
    let section = findings.part(Experiment::Commute).map(|part| Section {
        title: "Commutes (figure 13j)".to_owned(),
        about: format!(
            "{DISTANCE_M} m to the destination on {MAPS} maps, {REPEATS} draws of their traffic \
             each; it becomes heavier from the first map to the last. An ego that has not arrived \
             when the drive is given up counts with the time until then; draws in which neither \
             arrives, or one crashes, are left out."
        ),
        tables: findings.study.stacks.iter().map(|stack| table(findings, part, stack)).collect(),
        charts: findings.study.stacks.iter().map(|stack| bars(findings, part, stack)).collect(),
        ..Section::default()
    });
    (demands.collect(), section)
}

/// Returns the extra time of a policy against base, on all maps, %.
pub(super) fn penalty(findings: &Findings, stack: &str, policy: &str) -> Option<Interval> {
    on(findings, findings.part(Experiment::Commute)?, stack, policy, &|_| true)
}

/// Returns the extra time of a policy against another one, in % of the time of base. Draws count if
/// base and both of them have a time.
pub(super) fn difference(
    findings: &Findings,
    stack: &str,
    policy: &str,
    other: &str,
) -> Option<Interval> {
    let part = findings.part(Experiment::Commute)?;
    let times = times(findings, part, stack, &["base", policy, other], &|_| true);
    bootstrap(&times, |drawn| {
        let base = sum(drawn, 0);
        (base > 0.0).then(|| 100.0 * (sum(drawn, 1) - sum(drawn, 2)) / base)
    })
}

/// Times of each draw's drives under these policies, s. A drive counts if all of them have a time,
/// and one of them arrived.
fn times(
    findings: &Findings,
    part: &Part,
    stack: &str,
    policies: &[&str],
    counts: &dyn Fn(&Row) -> bool,
) -> Vec<Vec<Vec<f64>>> {
    let draws = findings.drives.repeated(part, stack, policies);
    let times_of = |drives: Vec<Vec<&Row>>| -> Vec<Vec<f64>> {
        let arrived = drives.into_iter().filter(|rows| counts(rows[0]));
        let arrived = arrived.filter(|rows| rows.iter().any(|row| row.arrived_s.is_some()));
        arrived.filter_map(|rows| rows.into_iter().map(time).collect()).collect()
    };
    draws.into_iter().map(times_of).filter(|drives| !drives.is_empty()).collect()
}

/// All times of draws under one of the policies, s.
fn sum(draws: &[&Vec<Vec<f64>>], place: usize) -> f64 {
    draws.iter().flat_map(|drives| drives.iter()).map(|times| times[place]).sum()
}

fn on(
    findings: &Findings,
    part: &Part,
    stack: &str,
    policy: &str,
    counts: &dyn Fn(&Row) -> bool,
) -> Option<Interval> {
    let times = times(findings, part, stack, &["base", policy], counts);
    bootstrap(&times, |drawn| {
        let base = sum(drawn, 0);
        (base > 0.0).then(|| 100.0 * (sum(drawn, 1) / base - 1.0))
    })
}

/// Returns the time of a drive, s; the time until it was given up if the ego had not arrived. None
/// after a collision.
fn time(row: &Row) -> Option<f64> {
    row.arrived_s.or(row.collision.is_none().then_some(row.driven_s))
}

fn is_on(map: usize) -> impl Fn(&Row) -> bool {
    move |row| row.key.index / REPEATS == map
}

fn table(findings: &Findings, part: &Part, stack: &str) -> Table {
    let row = |policy: &String| {
        let draws = findings.drives.repeated(part, stack, &["base", policy]);
        let pairs: Vec<Vec<&Row>> = draws.into_iter().flatten().collect();
        let arrived = pairs.iter().filter(|pair| pair[1].arrived_s.is_some()).count();
        let crashed = pairs.iter().filter(|pair| pair[1].collision.is_some()).count();
        let mut cells = vec![
            policy.clone(),
            format!("{arrived} of {}", pairs.len()),
            crashed.to_string(),
            cell(on(findings, part, stack, policy, &|_| true), "%"),
        ];
        let of_map = |map| cell(on(findings, part, stack, policy, &is_on(map)), "%");
        cells.extend((0..MAPS).map(of_map));
        cells
    };
    let head = ["policy", "arrived", "crashed", "longer"].into_iter().chain(NAMES);
    let title = format!("Stack {}: longer than base", stack.to_uppercase());
    Table::new(title, head, part.policies.iter().map(row))
}

fn bars(findings: &Findings, part: &Part, stack: &str) -> Chart {
    let policies: Vec<&str> = part.policies.iter().map(String::as_str).collect();
    let draws = findings.drives.repeated(part, stack, &policies);
    let scenarios: Vec<Vec<&Row>> = draws.into_iter().flatten().collect();
    let series = policies.iter().enumerate().map(|(number, policy)| {
        let mean = |map: usize| {
            let here = scenarios.iter().filter(|rows| is_on(map)(rows[number]));
            let times: Vec<f64> = here.filter_map(|rows| rows[number].arrived_s).collect();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            (NAMES[map], (!times.is_empty()).then_some(mean))
        };
        Series::at_places(*policy, (0..MAPS).map(mean))
    });
    let title = format!("Time to the destination, stack {}", stack.to_uppercase());
    Chart::new(title, ("maps", "mean, s"), Shape::Bars, series)
}
