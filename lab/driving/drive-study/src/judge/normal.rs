//! Normal traffic (COLA, figures 13h and 13i): collisions, and time nearer to others than
//! RSS allows.

use super::{Findings, Found, Limit, cell, demand, stacks};
use crate::result::{Demand, Value, Verdict};
use crate::statistics::{bootstrap, exact_upper};
use crate::{Experiment, Interval, Part, Row};
use driving::Cause;
use report::document::{Chart, Section, Series, Shape, Table};

const COLLISIONS: &str = "Normal traffic: collisions that base does not have";
const VIOLATIONS: &str = "Normal traffic: less time nearer than RSS allows";
const OWN: &str = "The same, caused by the ego";

pub(super) fn found(findings: &Findings) -> Found {
    let part = findings.part(Experiment::Normal);
    let mut demands = Vec::new();
    for (stack, least) in stacks(findings.study, 72.7, 47.3) {
        demands.push(collisions(findings, part, stack));
        let mut violations = |what: &str, of: Seconds, note: &str| {
            let less = part.and_then(|part| less(findings, part, stack, "all", of));
            demands.push(demand(what, stack, less, (Limit::Least(least), "%"), note.to_owned()));
        };
        let note = "Seconds for each second of driving, all against base; assumptions of ad-rss.";
        violations(VIOLATIONS, |row| row.violation_s, note);
        let note = "Without cut-ins, oncoming vehicles that move aside, and how drives begin.";
        violations(OWN, Row::own_violation_s, note);
    }
    let section = part.map(|part| Section {
        title: "Normal traffic (figures 13h and 13i)".to_owned(),
        about: "Scenarios of 25 s without a planned hazard. Discordant pairs: scenarios in which \
                one policy had a collision and the other had none. RSS says who has to respond by \
                which distance became unsafe last. A vehicle that cuts in, or that comes towards \
                the ego and moves aside, makes a distance unsafe that the ego can only increase \
                again; the ego itself makes it unsafe if it follows or meets another too closely, \
                does not stop for one that stands, walks, cycles or crosses, or changes lanes."
            .to_owned(),
        tables: findings
            .study
            .stacks
            .iter()
            .flat_map(|stack| [table(findings, part, stack), causes(findings, part, stack)])
            .collect(),
        charts: vec![bars(findings, part)],
        ..Section::default()
    });
    (demands, section)
}

/// Scenarios in which only base had a collision, and in which only all had.
fn discordant(pairs: &[[&Row; 2]]) -> (u64, u64) {
    let count = |one: usize, other: usize| {
        let only =
            |pair: &&[&Row; 2]| pair[one].collision.is_some() && pair[other].collision.is_none();
        pairs.iter().filter(only).count() as u64
    };
    (count(0, 1), count(1, 0))
}

fn collisions(findings: &Findings, part: Option<&Part>, stack: &str) -> Demand {
    let pairs = part.map(|part| findings.drives.together(part, stack, ["base", "all"]));
    let pairs = pairs.unwrap_or_default();
    let (only_base, only_all) = discordant(&pairs);
    let upper = 100.0 * exact_upper(only_all, pairs.len() as u64);
    let measured = !pairs.is_empty();
    Demand {
        what: COLLISIONS.to_owned(),
        stack: stack.to_owned(),
        value: measured.then(|| Value { value: only_all as f64, ..Value::default() }),
        demand: "none".to_owned(),
        verdict: match (measured, only_all) {
            (false, _) => Verdict::NotMeasured,
            (true, 0) => Verdict::Met,
            (true, _) => Verdict::Missed,
        },
        note: if measured {
            format!(
                "In {only_base} of {} scenarios only base had one. With 95 % confidence a \
                 collision that base does not have comes in at most {upper:.4} % (exact, \
                 one-sided).",
                pairs.len()
            )
        } else {
            String::new()
        },
    }
}

/// Function that returns the seconds of a drive, nearer than RSS allows, that count.
type Seconds = fn(&Row) -> f64;

fn rate<'a>(rows: impl Iterator<Item = &'a Row>, of: Seconds) -> Option<f64> {
    let (bad, all) = rows.fold((0.0, 0.0), |(bad, all), row| (bad + of(row), all + row.driven_s));
    (all > 0.0).then(|| bad / all)
}

/// Returns the reduction against base of the share of time nearer than RSS allows, %.
fn less(
    findings: &Findings,
    part: &Part,
    stack: &str,
    policy: &str,
    of: Seconds,
) -> Option<Interval> {
    let pairs = findings.drives.together(part, stack, ["base", policy]);
    bootstrap(&pairs, |drawn| {
        let base = rate(drawn.iter().map(|pair| pair[0]), of).filter(|base| *base > 0.0)?;
        Some(100.0 * (1.0 - rate(drawn.iter().map(|pair| pair[1]), of)? / base))
    })
}

fn table(findings: &Findings, part: &Part, stack: &str) -> Table {
    let row = |policy: &String| {
        let pairs = findings.drives.together(part, stack, ["base", policy.as_str()]);
        let rows = || pairs.iter().map(|pair| pair[1]);
        let hit = |row: &&Row| row.collision.is_some();
        let behind = |row: &&Row| row.collision.as_ref().is_some_and(|hit| hit.from_behind());
        let (only_base, only_this) = discordant(&pairs);
        let progress: f64 = rows().map(|row| row.progress_m).sum();
        vec![
            policy.clone(),
            pairs.len().to_string(),
            rows().filter(hit).count().to_string(),
            rows().filter(behind).count().to_string(),
            only_base.to_string(),
            only_this.to_string(),
            format!("{:.1}", rows().map(|row| row.violation_s).sum::<f64>()),
            rows().map(|row| row.violations).sum::<usize>().to_string(),
            format!("{:.1}", rows().map(|row| row.violation_aggressive_s).sum::<f64>()),
            cell(less(findings, part, stack, policy, |row| row.violation_s), "%"),
            format!("{:.1}", rows().map(Row::own_violation_s).sum::<f64>()),
            cell(less(findings, part, stack, policy, Row::own_violation_s), "%"),
            format!("{:.0}", progress),
        ]
    };
    let head =
        "policy|scenarios|collisions|struck from behind|only base|only this|nearer than RSS \
                allows, s|times|by the aggressive assumptions, s|less time than base|caused by the \
                ego, s|less of that than base|progress, m"
            .split('|');
    Table::new(format!("Stack {}", stack.to_uppercase()), head, part.policies.iter().map(row))
}

/// The seconds of each policy by what it came to that by, with base's drives of the same scenarios.
fn causes(findings: &Findings, part: &Part, stack: &str) -> Table {
    let row = |policy: &String| {
        let pairs = findings.drives.together(part, stack, ["base", policy.as_str()]);
        let by = |name: &str| {
            let of = pairs.iter().filter_map(|pair| pair[1].violation_by.get(name));
            format!("{:.1}", of.fold(0.0, |sum, seconds| sum + seconds))
        };
        let causes = Cause::ALL.iter().map(|(_, name)| by(name));
        [policy.clone()].into_iter().chain(causes).collect::<Vec<String>>()
    };
    let head = Cause::ALL.iter().map(|(_, name)| format!("{name}, s"));
    let title = format!("Stack {}: nearer than RSS allows, by cause", stack.to_uppercase());
    Table::new(title, ["policy".to_owned()].into_iter().chain(head), part.policies.iter().map(row))
}

fn bars(findings: &Findings, part: &Part) -> Chart {
    let policies: Vec<&str> = part.policies.iter().map(String::as_str).collect();
    let series = findings.study.stacks.iter().map(|stack| {
        let scenarios = findings.drives.scenarios(part, stack, &policies);
        let share = |place: usize| {
            let rows = scenarios.iter().map(|rows| rows[place]);
            Some((place as f64, 100.0 * rate(rows, |row| row.violation_s)?))
        };
        Series {
            name: format!("stack {}", stack.to_uppercase()),
            points: (0..policies.len()).filter_map(share).collect(),
            places: part.policies.clone(),
            ..Series::default()
        }
    });
    Chart::new("Nearer than RSS allows", ("policies", "% of the time"), Shape::Bars, series)
}
