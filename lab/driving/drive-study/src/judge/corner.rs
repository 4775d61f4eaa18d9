//! Crashes in corner cases (COLA, figure 14), how many of the avoidable ones each policy
//! avoids, and how that depends on the time that a reaction may take.

use super::{Findings, Found, Limit, cell, commuting, demand, stacks};
use crate::result::{Demand, Verdict};
use crate::statistics::bootstrap;
use crate::{Experiment, Interval, Part, Row};
use driving::Policy;
use report::document::{Chart, Section, Series, Shape, Table};

/// Critical reaction times for which latency decides whether there is a crash, s.
const BAND: (f64, f64) = (0.15, 0.30);
/// Width of a place of the curve, s.
const PLACE: f64 = 0.05;

pub(super) fn found(findings: &Findings) -> Found {
    of(findings, findings.part(Experiment::Corner), "Corner")
}

/// The same of the confirmation cases. Cases that are not confirmed are no open demand.
pub(super) fn confirmed(findings: &Findings) -> Found {
    match findings.part(Experiment::Confirm) {
        None => (Vec::new(), None),
        part => of(findings, part, "Confirm"),
    }
}

fn of(findings: &Findings, part: Option<&Part>, cases: &str) -> Found {
    let mut demands = Vec::new();
    for (stack, least) in stacks(findings.study, 93.0, 61.0) {
        let what = format!("{cases}, 150 to 300 ms: avoidable crashes avoided");
        let note = "Avoidable: those of base in cases that the ideal stack avoids, by their critical \
                    reaction times.";
        let share = part.and_then(|part| avoided(findings, part, stack, "all", in_band));
        demands.push(demand(&what, stack, share, (Limit::Least(least), "%"), note.to_owned()));
        demands.extend(Policy::RIVALS.map(|rival| {
            let what = format!("{cases}, 150 to 300 ms: fewer crashes than {rival}");
            better(findings, part, (&what, stack), &rival.to_string())
        }));
    }
    (demands, part.map(|part| section(findings, part)))
}

fn in_band(row: &Row) -> bool {
    row.critical_s.is_some_and(|critical| (BAND.0..=BAND.1).contains(&critical))
}

fn crashes<'a>(rows: impl Iterator<Item = &'a &'a Row>) -> f64 {
    rows.filter(|row| row.collision.is_some()).count() as f64
}

/// The same, of all drives of cases.
fn crashes_of(cases: &[&Case], place: usize) -> f64 {
    crashes(cases.iter().flat_map(|drives| drives.iter()).map(|rows| &rows[place]))
}

/// The drives of a case, each with a row for each policy.
type Case<'a> = Vec<Vec<&'a Row>>;

/// (base - policy) / base, of cases that have a critical reaction time, %: those the ideal stack,
/// which takes no time and waits for no timer, avoids if it begins no later than that.
fn avoided(
    findings: &Findings,
    part: &Part,
    stack: &str,
    policy: &str,
    counts: impl Fn(&Row) -> bool,
) -> Option<Interval> {
    let mut cases = findings.drives.repeated(part, stack, &["base", policy]);
    cases.retain(|drives| drives[0][0].critical_s.is_some() && counts(drives[0][0]));
    bootstrap(&cases, |drawn| {
        let avoidable = crashes_of(drawn, 0);
        (avoidable > 0.0).then(|| 100.0 * (avoidable - crashes_of(drawn, 1)) / avoidable)
    })
}

/// Judges the share of the drives by which a rival crashes more often than all, %; at no larger
/// commute penalty.
fn better(
    findings: &Findings,
    part: Option<&Part>,
    (what, stack): (&str, &str),
    rival: &str,
) -> Demand {
    let found = part.and_then(|part| {
        let mut cases = findings.drives.repeated(part, stack, &["all", rival]);
        cases.retain(|drives| in_band(drives[0][0]));
        bootstrap(&cases, |drawn| {
            let drives: usize = drawn.iter().map(|drives| drives.len()).sum();
            let fewer = crashes_of(drawn, 1) - crashes_of(drawn, 0);
            Some(100.0 * fewer / drives as f64)
        })
    });
    let limit = (Limit::Least(0.0), "% of the cases");
    let mut one = demand(what, stack, found, limit, String::new());
    one.demand = "more than 0 % of the cases, at no larger commute penalty".to_owned();
    let Some(found) = found.filter(|_| one.verdict != Verdict::NotMeasured) else { return one };
    let longer = commuting::difference(findings, stack, "all", rival);
    // A policy that does not crash less is no better, whatever the commutes say.
    one.verdict = match longer {
        _ if found.low <= 0.0 => Verdict::Missed,
        Some(longer) if longer.value <= 0.0 => Verdict::Met,
        _ => Verdict::NotMeasured,
    };
    one.note = match longer {
        None => "The commute penalties were not measured.".to_owned(),
        longer => format!("Commutes take {} longer than with {rival}.", cell(longer, "%")),
    };
    one
}

fn section(findings: &Findings, part: &Part) -> Section {
    let mut tables = Vec::new();
    let mut charts = vec![bars(findings, part)];
    for stack in &findings.study.stacks {
        tables.push(table(findings, part, stack));
        tables.push(predicted(findings, part, stack));
        charts.push(curve(findings, part, stack));
    }
    let (title, which) = match part.experiment {
        Experiment::Confirm => (
            "Confirmation cases (figure 14 again)",
            "Of the same families as the corner cases, all with an intended critical reaction time \
             of 150 to 300 ms, and frozen with the ideal stack alone. ",
        ),
        _ => ("Corner cases (figure 14)", ""),
    };
    Section {
        title: title.to_owned(),
        about: format!(
            "{which}A drive ends with the first collision, whichever of the two hits the other. \
             Struck from behind: on the rear, after braking by 2 m/s² or more within two seconds; \
             counted in all, too. Avoided: of the crashes of base in cases with a critical \
             reaction time, which the ideal stack avoids: stack A's modules on cores that take no \
             time. (The policy oracle is the same stack on such cores: in stack B it waits for its \
             timers.)"
        ),
        tables,
        charts,
        ..Section::default()
    }
}

/// Cases that were driven under every policy of the part.
fn cases<'a>(findings: &Findings<'a>, part: &Part, stack: &str) -> Vec<Case<'a>> {
    let policies: Vec<&str> = part.policies.iter().map(String::as_str).collect();
    findings.drives.repeated(part, stack, &policies)
}

/// The complete drives of these cases.
fn complete<'a>(findings: &Findings<'a>, part: &Part, stack: &str) -> Vec<Vec<&'a Row>> {
    cases(findings, part, stack).into_iter().flatten().collect()
}

fn table(findings: &Findings, part: &Part, stack: &str) -> Table {
    let scenarios = complete(findings, part, stack);
    let row = |(place, policy): (usize, &String)| {
        let of: Vec<&Row> = scenarios.iter().map(|rows| rows[place]).collect();
        let count =
            |counts: &dyn Fn(&Row) -> bool| of.iter().filter(|row| counts(row)).count().to_string();
        let hit = |row: &Row| row.collision.is_some();
        let reactions: Vec<f64> =
            of.iter().filter_map(|row| Some(row.reaction?.total_ns() as f64 / 1e6)).collect();
        let mean = reactions.iter().sum::<f64>() / reactions.len() as f64;
        let share =
            |counts: fn(&Row) -> bool| cell(avoided(findings, part, stack, policy, counts), "%");
        vec![
            policy.clone(),
            count(&hit),
            count(&|row| row.collision.as_ref().is_some_and(|hit| hit.hazard)),
            count(&|row| row.collision.as_ref().is_some_and(|hit| hit.from_behind())),
            count(&|row| hit(row) && in_band(row)),
            share(|_| true),
            share(in_band),
            if reactions.is_empty() { "-".to_owned() } else { format!("{mean:.0}") },
        ]
    };
    let cases = cases(findings, part, stack);
    let band = cases.iter().filter(|drives| drives[0].first().is_some_and(|row| in_band(row)));
    let again = match findings.study.repeats {
        1 => String::new(),
        repeats => format!("; each driven {repeats} times"),
    };
    let head = "policy|crashes|with the hazard|struck from behind|crashes in the band|avoided|\
        avoided in the band|mean reaction, ms"
        .split('|');
    let title = format!(
        "Stack {}: {} cases, {} of them in the band of 150 to 300 ms{again}",
        stack.to_uppercase(),
        cases.len(),
        band.count(),
    );
    Table::new(title, head, part.policies.iter().enumerate().map(row))
}

/// Makes the table of crashes by the critical time: for drives whose reaction was later, and
/// others.
fn predicted(findings: &Findings, part: &Part, stack: &str) -> Table {
    let scenarios = complete(findings, part, stack);
    let row = |(place, policy): (usize, &String)| {
        let late = |row: &Row| Some(row.reaction?.total_ns() as f64 / 1e9 > row.critical_s?);
        let told: Vec<(&Row, bool)> =
            scenarios.iter().filter_map(|rows| Some((rows[place], late(rows[place])?))).collect();
        let rows_told = |late: bool| told.iter().filter(move |it| it.1 == late).map(|it| &it.0);
        let crashed = |late| crashes(rows_told(late)).to_string();
        let all = |late| rows_told(late).count().to_string();
        let rest = (scenarios.len() - told.len()).to_string();
        vec![policy.clone(), all(true), crashed(true), all(false), crashed(false), rest]
    };
    let head = ["policy", "later", "of them crashed", "in time", "of them crashed", "not told"];
    let title = format!("Stack {}: reactions and the critical time", stack.to_uppercase());
    Table::new(title, head, part.policies.iter().enumerate().map(row))
}

fn bars(findings: &Findings, part: &Part) -> Chart {
    let series = findings.study.stacks.iter().map(|stack| {
        let scenarios = complete(findings, part, stack);
        let count = |place: usize| crashes(scenarios.iter().map(|rows| &rows[place]));
        let points = (0..part.policies.len()).map(|place| (place as f64, count(place)));
        Series {
            name: format!("stack {}", stack.to_uppercase()),
            points: if scenarios.is_empty() { Vec::new() } else { points.collect() },
            places: part.policies.clone(),
            ..Series::default()
        }
    });
    Chart::new("Crashes", ("policies", "crashes"), Shape::Bars, series)
}

/// The share of the cases that end in a crash, along the time that a reaction may take.
fn curve(findings: &Findings, part: &Part, stack: &str) -> Chart {
    let scenarios = complete(findings, part, stack);
    let place = |row: &Row| row.critical_s.map(|critical| (critical / PLACE) as usize);
    let places: Vec<Option<usize>> = scenarios.iter().map(|rows| place(rows[0])).collect();
    let last = places.iter().flatten().max().map_or(0, |last| last + 1);
    let series = part.policies.iter().enumerate().map(|(number, policy)| {
        let point = |at: usize| {
            let here = || (scenarios.iter().zip(&places)).filter(move |(_, it)| **it == Some(at));
            let all = here().count() as f64;
            let hit = crashes(here().map(|(rows, _)| &rows[number]));
            (all > 0.0).then(|| (1e3 * PLACE * (at as f64 + 0.5), 100.0 * hit / all))
        };
        let points: Vec<(f64, f64)> = (0..last).filter_map(point).collect();
        Series::new(policy, points)
    });
    let title = format!("Crashes by critical time, stack {}", stack.to_uppercase());
    Chart::new(title, ("critical reaction time, ms", "% of the cases"), Shape::Lines, series)
}
