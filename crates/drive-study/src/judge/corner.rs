//! Crashes in corner cases (document 002, figure 14), how many of the avoidable ones each policy
//! avoids, and how that depends on the time that a reaction may take.

use super::{Findings, Found, Limit, cell, commute, demand, stacks};
use crate::statistics::bootstrap;
use crate::{Experiment, Interval, Part, Row};
use driving::Policy;
use report::drive_study::{Demand, Plot, Section, Series, Shape, Table, Verdict};

/// Critical reaction times for which latency decides whether there is a crash, s.
const BAND: (f64, f64) = (0.15, 0.30);
/// Width of a place of the curve, s.
const PLACE: f64 = 0.05;

const AVOIDED: &str = "Corner cases of 150 to 300 ms: avoidable crashes avoided";
const BETTER: &str = "Corner cases of 150 to 300 ms: more crashes avoided than";

pub(super) fn found(findings: &Findings) -> Found {
    let mut demands = Vec::new();
    let part = findings.part(Experiment::Corner);
    for (stack, least) in stacks(findings.study, 93.0, 61.0) {
        let note = "Avoidable: those of base, less those of the same stack if it took no time.";
        let share = part.and_then(|part| avoided(findings, part, stack, "all", in_band));
        demands.push(demand(AVOIDED, stack, share, (Limit::Least(least), "%"), note.to_owned()));
        demands
            .extend(Policy::RIVALS.map(|rival| better(findings, part, stack, &rival.to_string())));
    }
    let section = part.map(|part| section(findings, part));
    (demands, section)
}

fn in_band(row: &Row) -> bool {
    row.critical_s.is_some_and(|critical| (BAND.0..=BAND.1).contains(&critical))
}

fn crashes<'a>(rows: impl Iterator<Item = &'a &'a Row>) -> f64 {
    rows.filter(|row| row.collision.is_some()).count() as f64
}

/// (base - policy) / (base - oracle), %.
fn avoided(
    findings: &Findings,
    part: &Part,
    stack: &str,
    policy: &str,
    counts: impl Fn(&Row) -> bool,
) -> Option<Interval> {
    let oracle = Policy::Oracle.to_string();
    let mut scenarios = findings.drives.together(part, stack, ["base", policy, &oracle]);
    scenarios.retain(|rows| counts(rows[0]));
    bootstrap(&scenarios, |drawn| {
        let of = |place: usize| crashes(drawn.iter().map(|rows| &rows[place]));
        let avoidable = of(0) - of(2);
        (avoidable > 0.0).then(|| 100.0 * (of(0) - of(1)) / avoidable)
    })
}

/// How many more of the scenarios a rival crashes in than all, %; at equal commute penalty.
fn better(findings: &Findings, part: Option<&Part>, stack: &str, rival: &str) -> Demand {
    let found = part.and_then(|part| {
        let mut scenarios = findings.drives.together(part, stack, ["all", rival]);
        scenarios.retain(|rows| in_band(rows[0]));
        bootstrap(&scenarios, |drawn| {
            let of = |place: usize| crashes(drawn.iter().map(|rows| &rows[place]));
            Some(100.0 * (of(1) - of(0)) / drawn.len() as f64)
        })
    });
    let penalty = |policy: &str| commute::penalty(findings, stack, policy).map(|found| found.value);
    let penalties = (penalty("all"), penalty(rival));
    let mut one = demand(
        &format!("{BETTER} {rival}"),
        stack,
        found,
        (Limit::Least(0.0), "% of the cases"),
        String::new(),
    );
    one.demand = "more than 0 % of the cases, at no larger commute penalty".to_owned();
    let more = found.is_some_and(|found| found.low > 0.0);
    (one.verdict, one.note) = match (found, penalties) {
        (None, _) => (Verdict::NotMeasured, String::new()),
        (_, (Some(all), Some(other))) => {
            let note = format!("Commute: all {all:+.1} %, {rival} {other:+.1} %.");
            let decided = all <= other && one.verdict != Verdict::NotMeasured;
            match (decided, more) {
                (false, _) => (Verdict::NotMeasured, note),
                (true, true) => (Verdict::Met, note),
                (true, false) => (Verdict::Missed, note),
            }
        }
        _ => (Verdict::NotMeasured, "The commute penalties were not measured.".to_owned()),
    };
    one
}

fn section(findings: &Findings, part: &Part) -> Section {
    let mut tables = Vec::new();
    let mut plots = vec![bars(findings, part)];
    for stack in &findings.study.stacks {
        tables.push(table(findings, part, stack));
        tables.push(predicted(findings, part, stack));
        plots.push(curve(findings, part, stack));
    }
    Section {
        title: "Corner cases (figure 14)".to_owned(),
        about: "A drive ends with the first collision, whoever hits whom. Struck from behind: on \
                the rear, after braking by 2 m/s² or more within two seconds; counted in all, too. \
                Avoided: of the crashes of base that the same stack avoids if it takes no time. A \
                critical time is that of stack A's modules on cores that take no time."
            .to_owned(),
        tables,
        plots,
    }
}

/// Scenarios that were driven under every policy of the part.
fn complete<'a>(findings: &Findings<'a>, part: &Part, stack: &str) -> Vec<Vec<&'a Row>> {
    let policies: Vec<&str> = part.policies.iter().map(String::as_str).collect();
    findings.drives.scenarios(part, stack, &policies)
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
    let band = scenarios.iter().filter(|rows| rows.first().is_some_and(|row| in_band(row))).count();
    let head = [
        "policy",
        "crashes",
        "with the hazard",
        "struck from behind",
        "crashes in the band",
        "avoided",
        "avoided in the band",
        "mean reaction, ms",
    ];
    Table {
        title: format!(
            "Stack {}: {} cases, {band} of them in the band of 150 to 300 ms",
            stack.to_uppercase(),
            scenarios.len()
        ),
        head: head.map(str::to_owned).to_vec(),
        rows: part.policies.iter().enumerate().map(row).collect(),
    }
}

/// Whether the critical time tells who crashes: drives by whether the reaction was longer.
fn predicted(findings: &Findings, part: &Part, stack: &str) -> Table {
    let scenarios = complete(findings, part, stack);
    let row = |(place, policy): (usize, &String)| {
        let late = |row: &Row| Some(row.reaction?.total_ns() as f64 / 1e9 > row.critical_s?);
        let told: Vec<(&Row, bool)> =
            scenarios.iter().filter_map(|rows| Some((rows[place], late(rows[place])?))).collect();
        let of = |late: bool| told.iter().filter(move |it| it.1 == late).map(|it| &it.0);
        let crashed = |late| crashes(of(late)).to_string();
        let all = |late| of(late).count().to_string();
        let rest = (scenarios.len() - told.len()).to_string();
        vec![policy.clone(), all(true), crashed(true), all(false), crashed(false), rest]
    };
    let head = ["policy", "later", "of them crashed", "in time", "of them crashed", "not told"];
    Table {
        title: format!("Stack {}: reactions and the critical time", stack.to_uppercase()),
        head: head.map(str::to_owned).to_vec(),
        rows: part.policies.iter().enumerate().map(row).collect(),
    }
}

fn bars(findings: &Findings, part: &Part) -> Plot {
    let series = findings.study.stacks.iter().map(|stack| {
        let scenarios = complete(findings, part, stack);
        let count = |place: usize| crashes(scenarios.iter().map(|rows| &rows[place]));
        let points = (0..part.policies.len()).map(|place| (place as f64, count(place)));
        Series {
            name: format!("stack {}", stack.to_uppercase()),
            points: if scenarios.is_empty() { Vec::new() } else { points.collect() },
            places: part.policies.clone(),
        }
    });
    Plot {
        title: "Crashes".to_owned(),
        x: "policies".to_owned(),
        y: "crashes".to_owned(),
        shape: Shape::Bars,
        series: series.collect(),
    }
}

/// The share of the cases that end in a crash, along the time that a reaction may take.
fn curve(findings: &Findings, part: &Part, stack: &str) -> Plot {
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
        let points = (0..last).filter_map(point).collect();
        Series { name: policy.clone(), points, places: Vec::new() }
    });
    Plot {
        title: format!("Crashes by critical time, stack {}", stack.to_uppercase()),
        x: "critical reaction time, ms".to_owned(),
        y: "% of the cases".to_owned(),
        shape: Shape::Lines,
        series: series.collect(),
    }
}
