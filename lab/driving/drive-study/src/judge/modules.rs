//! Modules by themselves: their parts, what their time grows with, and what others that take the
//! last-level cache cost them (COLA, figures 9, 11a and 11e).

use super::fit::{Sums, correlation, mean, slope};
use super::{Findings, Found, cell};
use crate::replay::{Call, Part, SWEPT};
use crate::statistics::bootstrap;
use crate::{Experiment, Interval, Row};
use report::document::{Chart, Section, Series, Shape, Table};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Objects, in bins.
const OBJECTS: [RangeInclusive<u32>; 6] = [0..=4, 5..=9, 10..=14, 15..=19, 20..=29, 30..=u32::MAX];

/// Modules, by the beginnings of their parts' names.
const MODULES: [&str; 4] = ["segmentation", "tracking", "prediction", "planning"];

pub(super) fn found(findings: &Findings) -> Found {
    let Some(part) = findings.part(Experiment::Modules) else { return (Vec::new(), None) };
    // They are of one stack, whichever it is.
    let drives_of = |stack: &String| findings.drives.scenarios(part, stack, &["oracle"]);
    let rows: Vec<&Row> = findings.study.stacks.iter().flat_map(drives_of).flatten().collect();
    let section = Section {
        title: "Modules by themselves (figures 9, 11a and 11e)".to_owned(),
        about:
            "Inputs of all modules, kept every two seconds of a drive, and computed again on one \
             core: the median of three times. Beside others: hogs on other cores, which read and \
             write memory of their own; what they sweep together is counted in last-level caches. \
             Misses are not: no hardware counters are read. Localisation is exact here and takes \
             no time. The time to publish within a process is too short to be measured."
                .to_owned(),
        tables: vec![parts(&rows), by_objects(&rows), ahead(&rows), beside(&rows)],
        charts: plots(&rows),
        ..Section::default()
    };
    (Vec::new(), Some(section))
}

fn alone(row: &Row) -> impl Iterator<Item = &Call> {
    row.calls.iter().filter(|call| call.swept == 0.0)
}

/// True for the usual lookahead or horizon.
fn usual(call: &&Call) -> bool {
    call.setting == call.part.usual()
}

fn ms(call: &Call) -> f64 {
    call.took_us / 1e3
}

/// The inputs of a scenario: objects, and how long a module took for all its parts, ms.
fn inputs(row: &Row, module: &str) -> Vec<(f64, f64)> {
    let mut inputs: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for call in alone(row).filter(usual).filter(|call| call.part.name().starts_with(module)) {
        let input = inputs.entry(call.input).or_default();
        *input = (f64::from(call.objects), input.1 + ms(call));
    }
    inputs.into_values().collect()
}

fn parts(rows: &[&Row]) -> Table {
    let calls: Vec<&Call> = rows.iter().flat_map(|row| alone(row)).filter(usual).collect();
    let all: f64 = calls.iter().map(|call| ms(call)).sum();
    let row = |part: &Part| {
        let mut took: Vec<f64> =
            calls.iter().filter(|call| call.part == *part).map(|call| ms(call)).collect();
        took.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = ((share * took.len() as f64) as usize).min(took.len().saturating_sub(1));
            took.get(place).map_or("-".to_owned(), |ms| format!("{ms:.2}"))
        };
        let sum: f64 = took.iter().sum();
        vec![
            part.name().to_owned(),
            took.len().to_string(),
            at(0.0),
            at(0.5),
            format!("{:.2}", sum / took.len().max(1) as f64),
            at(0.99),
            at(1.0),
            format!("{:.1} %", 100.0 * sum / all.max(1e-9)),
        ]
    };
    let head = ["part", "inputs", "least, ms", "p50", "mean", "p99", "longest", "of all parts"];
    Table::new("Parts, alone", head, Part::ALL.iter().map(row))
}

fn by_objects(rows: &[&Row]) -> Table {
    let sums = |module: &str, bin: &RangeInclusive<u32>| -> Vec<Sums> {
        let inside = |point: &(f64, f64)| bin.contains(&(point.0 as u32));
        rows.iter().map(|row| Sums::of(inputs(row, module).into_iter().filter(inside))).collect()
    };
    let all = 0..=u32::MAX;
    let mut lines: Vec<Vec<String>> = Vec::new();
    for bin in &OBJECTS {
        let name = match (*bin.start(), *bin.end()) {
            (from, u32::MAX) => format!("{from} and more"),
            (from, to) => format!("{from} to {to}"),
        };
        let cells = MODULES.iter().map(|module| cell(mean(&sums(module, bin)), "ms"));
        lines.push([name].into_iter().chain(cells).collect());
    }
    let line = |name: &str, of: &dyn Fn(&[Sums]) -> String| {
        let cells = MODULES.iter().map(|module| of(&sums(module, &all)));
        [name.to_owned()].into_iter().chain(cells).collect()
    };
    lines.push(line("for each object more", &|sums| cell(slope(sums), "ms")));
    lines.push(line("correlation", &|sums| cell(correlation(sums), "")));
    let head: Vec<&str> = ["objects"].into_iter().chain(MODULES).collect();
    Table::new("By the number of objects, alone: mean", head, lines)
}

/// Returns the setting and the time of each call of a part, alone, of a scenario.
fn settings(row: &Row, part: Part) -> Vec<(f64, f64)> {
    alone(row).filter(|call| call.part == part).map(|call| (call.setting, ms(call))).collect()
}

/// The settings of a part, the least first.
fn asked(rows: &[&Row], part: Part) -> Vec<f64> {
    let mut asked: Vec<f64> =
        rows.iter().flat_map(|row| settings(row, part)).map(|point| point.0).collect();
    asked.sort_by(f64::total_cmp);
    asked.dedup();
    asked
}

/// The mean time at a setting.
fn at(rows: &[&Row], part: Part, setting: f64) -> Option<Interval> {
    let points = |row: &&Row| settings(row, part).into_iter().filter(|point| point.0 == setting);
    mean(&rows.iter().map(|row| Sums::of(points(row))).collect::<Vec<_>>())
}

fn ahead(rows: &[&Row]) -> Table {
    let mut lines = Vec::new();
    for (part, unit) in [(Part::Planning, "m"), (Part::Objects, "s")] {
        let asked = asked(rows, part);
        let least = asked.first().and_then(|least| at(rows, part, *least));
        for setting in asked {
            let found = at(rows, part, setting);
            let times = found.zip(least).filter(|(_, least)| least.value > 0.0);
            lines.push(vec![
                part.name().to_owned(),
                format!("{setting} {unit}"),
                cell(found, "ms"),
                times
                    .map_or("-".to_owned(), |(it, least)| format!("{:.2}", it.value / least.value)),
            ]);
        }
        let sums: Vec<Sums> = rows.iter().map(|row| Sums::of(settings(row, part))).collect();
        let name = format!("for each {unit} more");
        lines.push(vec![part.name().to_owned(), name, cell(slope(&sums), "ms")]);
    }
    let head = ["part", "ahead", "mean (95 %)", "times the least"];
    Table::new("By lookahead and horizon, alone", head, lines)
}

/// Total time of a part in a scenario: alone, then at each of [`SWEPT`], ms.
fn beside_of(row: &Row, part: Part) -> Vec<f64> {
    let sum = |swept: f64| {
        let calls = row.calls.iter().filter(|call| call.part == part && call.swept == swept);
        calls.filter(usual).map(ms).sum()
    };
    [0.0].into_iter().chain(SWEPT).map(sum).collect()
}

/// Returns the extra time against alone at a place of [`SWEPT`], %.
fn longer(scenarios: &[Vec<f64>], place: usize) -> Option<Interval> {
    bootstrap(scenarios, |drawn| {
        let sum = |at: usize| drawn.iter().map(|sums| sums[at]).sum::<f64>();
        (sum(0) > 0.0 && sum(place + 1) > 0.0).then(|| 100.0 * (sum(place + 1) / sum(0) - 1.0))
    })
}

/// The straight line through these, % for each last-level cache.
fn steepness(scenarios: &[Vec<f64>]) -> Option<Interval> {
    bootstrap(scenarios, |drawn| {
        let sum = |at: usize| drawn.iter().map(|sums| sums[at]).sum::<f64>();
        let sizes = [0.0].into_iter().chain(SWEPT).enumerate();
        let whole = sum(0);
        let points = sizes.map(|(at, swept)| (swept, 100.0 * sum(at) / whole));
        let measured = whole > 0.0 && (1..=SWEPT.len()).all(|at| sum(at) > 0.0);
        measured.then(|| Sums::of(points).slope()).flatten()
    })
}

fn beside(rows: &[&Row]) -> Table {
    let row = |part: &Part| {
        let scenarios: Vec<Vec<f64>> = rows.iter().map(|row| beside_of(row, *part)).collect();
        let calls = rows.iter().flat_map(|row| alone(row)).filter(usual);
        let count = calls.filter(|call| call.part == *part).count().max(1);
        let alone: f64 = scenarios.iter().map(|sums| sums[0]).sum();
        let mut line = vec![part.name().to_owned(), format!("{:.2}", alone / count as f64)];
        line.extend((0..SWEPT.len()).map(|place| cell(longer(&scenarios, place), "%")));
        line.push(cell(steepness(&scenarios), "%"));
        line
    };
    let sizes = SWEPT.map(|swept| format!("longer at {swept}"));
    let mut head = vec!["part", "alone, ms"];
    head.extend(sizes.iter().map(String::as_str));
    head.push("for each cache more");
    Table::new("Beside hogs, by last-level caches swept", head, Part::ALL.iter().map(row))
}

fn plots(rows: &[&Row]) -> Vec<Chart> {
    let plot = |title: &str, x: &str, y: &str, series: Vec<Series>| {
        Chart::new(title, (x, y), Shape::Lines, series)
    };
    let series = |name: &str, points: Vec<(f64, f64)>| Series::new(name, points);
    let objects = MODULES.iter().map(|module| {
        let inside = |bin: &RangeInclusive<u32>| {
            let all = rows.iter().flat_map(|row| inputs(row, module));
            let points: Vec<_> = all.filter(|point| bin.contains(&(point.0 as u32))).collect();
            let count = points.len() as f64;
            let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
            (count > 0.0).then(|| (sum(|it| it.0) / count, sum(|it| it.1) / count))
        };
        series(module, OBJECTS.iter().filter_map(inside).collect())
    });
    let farther = |part: Part| {
        let points = asked(rows, part).into_iter();
        let points = points.filter_map(|it| Some((it, at(rows, part, it)?.value)));
        vec![series(part.name(), points.collect())]
    };
    let beside = Part::ALL.iter().map(|part| {
        let scenarios: Vec<Vec<f64>> = rows.iter().map(|row| beside_of(row, *part)).collect();
        let points = SWEPT.into_iter().enumerate();
        let points = points
            .filter_map(|(place, swept)| Some((swept, longer(&scenarios, place)?.value.max(0.0))));
        series(part.name(), points.collect())
    });
    vec![
        plot("Modules by the number of objects", "objects", "time, ms", objects.collect()),
        plot("Planning by its lookahead", "lookahead, m", "time, ms", farther(Part::Planning)),
        plot("Prediction by its horizon", "horizon, s", "time, ms", farther(Part::Objects)),
        plot("Parts beside hogs", "last-level caches swept", "% longer", beside.collect()),
    ]
}
