//! Causes of latency in base: modules, traffic, waiting, the use of the cores (COLA, figures 4, 5,
//! 8 and 11b).

use super::fit::{Sums, correlation, mean, slope};
use super::latency::distribution;
use super::{Findings, Found, cell};
use crate::{Experiment, Frame, Group, Interval, Row, Times};
use driving::stack::Middleware;
use report::document::{Chart, Section, Series, Shape, Table};
use std::ops::RangeInclusive;

/// Vehicles within 25 m, in bins.
const DENSITIES: [RangeInclusive<u16>; 7] =
    [0..=0, 1..=1, 2..=2, 3..=4, 5..=6, 7..=9, 10..=u16::MAX];

/// The rows of modules: their name, and what is kept of them.
const MODULES: [&str; 5] = ["segmentation", "tracking", "prediction", "planning", "control"];

pub(super) fn found(findings: &Findings) -> Found {
    let Some(part) = findings.part(Experiment::Characterise) else { return (Vec::new(), None) };
    let mut section = Section {
        title: "Causes of latency in base (figures 4, 5, 8 and 11b)".to_owned(),
        about: format!(
            "Module: time for which its runs had a core, and time for which their messages waited \
             for a timer, a core, or the run before (bubbles). End to end: from a frame's capture \
             to the first command that takes it into account. Density: cars and trucks within 25 m \
             of the ego, frame by frame. The utilisation of the cores is measured in tenths of a \
             second. Localisation is exact here and takes no time; there is no camera. {}",
            carried(findings.study.middleware)
        ),
        ..Section::default()
    };
    for stack in &findings.study.stacks {
        let rows = findings.drives.scenarios(part, stack, &["base"]);
        let rows: Vec<&Row> =
            rows.into_iter().flatten().filter(|row| !row.frames.is_empty()).collect();
        let stack = stack.to_uppercase();
        section.tables.extend([
            modules(&rows, &stack),
            density(&rows, &stack),
            usage(&rows, &stack),
        ]);
        section.charts.extend([
            distributions(&rows, &stack),
            waits(&rows, &stack),
            by_density(&rows, &stack),
            used(&rows, &stack),
        ]);
    }
    (Vec::new(), Some(section))
}

fn carried(middleware: Middleware) -> &'static str {
    match middleware {
        Middleware::Pointer => "Messages are shared pointers: the middleware takes no time.",
        Middleware::Serialised => {
            "Middleware: from a frame to its command, serialisation of messages (part of the time \
             of the module before), their transfer (part of the wait of the module after), and \
             deserialisation (part of the time of the module after)."
        }
    }
}

fn times(rows: &[&Row], name: &str) -> Times {
    rows.iter().fold(Times::default(), |mut all, row| {
        all.merge(&row.times(name));
        all
    })
}

/// Milliseconds, of which a module may take a few hundredths.
fn fine(ms: Option<f64>) -> String {
    ms.map_or("-".to_owned(), |ms| format!("{ms:.2}"))
}

fn modules(rows: &[&Row], stack: &str) -> Table {
    let row = |name: &str, times: &Times, waits: Option<&Times>| {
        let (least, most) = (times.quantile_ms(0.0), times.max_ms());
        let ratio = least.zip(most).filter(|(least, _)| *least > 0.0);
        let wait = |of: fn(&Times) -> Option<f64>| fine(waits.and_then(of));
        vec![
            name.to_owned(),
            times.count().to_string(),
            fine(least),
            fine(times.quantile_ms(0.5)),
            fine(times.mean_ms()),
            fine(times.quantile_ms(0.99)),
            fine(most),
            ratio.map_or("-".to_owned(), |(least, most)| format!("{:.1}", most / least)),
            wait(Times::mean_ms),
            wait(|times| times.quantile_ms(0.99)),
            wait(Times::max_ms),
        ]
    };
    let module =
        |name: &&str| row(name, &times(rows, name), Some(&times(rows, &format!("{name}_waits"))));
    let mut lines: Vec<Vec<String>> = MODULES.iter().map(module).collect();
    lines.push(row("middleware", &times(rows, "middleware"), None));
    lines.push(row("end to end", &times(rows, "frames"), None));
    let head =
        "module|runs|least, ms|p50|mean|p99|longest|longest / least|waited, mean|waited, p99|\
        waited, longest"
            .split('|');
    Table::new(format!("Modules, stack {stack}"), head, lines)
}

/// Each scenario's points of vehicles and latency, ms.
fn points(row: &Row, bin: &RangeInclusive<u16>) -> Sums {
    let inside = |frame: &&Frame| bin.contains(&frame.vehicles);
    let point = |frame: &Frame| (f64::from(frame.vehicles), f64::from(frame.latency_us) / 1e3);
    Sums::of(row.frames.iter().filter(inside).map(point))
}

fn in_bin(rows: &[&Row], bin: &RangeInclusive<u16>) -> Option<Interval> {
    mean(&rows.iter().map(|row| points(row, bin)).collect::<Vec<_>>())
}

/// The latencies in a bin.
fn latencies(rows: &[&Row], bin: &RangeInclusive<u16>) -> Times {
    let mut times = Times::default();
    let frames = rows.iter().flat_map(|row| &row.frames);
    for frame in frames.filter(|frame| bin.contains(&frame.vehicles)) {
        times.add(u64::from(frame.latency_us) * 1000);
    }
    times
}

fn named(bin: &RangeInclusive<u16>) -> String {
    match (*bin.start(), *bin.end()) {
        (from, u16::MAX) => format!("{from} and more"),
        (from, to) if from == to => from.to_string(),
        (from, to) => format!("{from} to {to}"),
    }
}

fn density(rows: &[&Row], stack: &str) -> Table {
    let row = |name: String, bin: &RangeInclusive<u16>| {
        let times = latencies(rows, bin);
        vec![
            name,
            times.count().to_string(),
            cell(in_bin(rows, bin), "ms"),
            fine(times.quantile_ms(0.5)),
            fine(times.quantile_ms(0.99)),
            fine(times.max_ms()),
        ]
    };
    let all = 0..=u16::MAX;
    let mut lines: Vec<Vec<String>> = DENSITIES.iter().map(|bin| row(named(bin), bin)).collect();
    lines.push(row("all".to_owned(), &all));
    let sums: Vec<Sums> = rows.iter().map(|row| points(row, &all)).collect();
    let line = |name: &str, found: String| vec![name.to_owned(), "-".to_owned(), found];
    lines.push(line("for each vehicle more", cell(slope(&sums), "ms")));
    lines.push(line("correlation", cell(correlation(&sums), "")));
    let head = ["vehicles within 25 m", "frames", "mean (95 %)", "p50, ms", "p99", "longest"];
    Table::new(format!("End to end by density, stack {stack}"), head, lines)
}

/// The groups of all drives, one after the other.
fn groups<'a>(rows: &[&'a Row]) -> Vec<Vec<(&'a Row, &'a Group)>> {
    let count = rows.iter().map(|row| row.groups.len()).max().unwrap_or(0);
    let of =
        |place: usize| rows.iter().filter_map(|row| Some((*row, row.groups.get(place)?))).collect();
    (0..count).map(of).collect()
}

/// The use in each tenth of a second, the least first, %.
fn windows(group: &[(&Row, &Group)]) -> Vec<u8> {
    let mut used: Vec<u8> = group.iter().flat_map(|(_, group)| &group.used).copied().collect();
    used.sort_unstable();
    used
}

fn usage(rows: &[&Row], stack: &str) -> Table {
    let row = |group: &Vec<(&Row, &Group)>| {
        let first = group.first().map(|(_, group)| group);
        let used = windows(group);
        let at = |share: f64| used.get((share * used.len() as f64) as usize).copied();
        let percent = |found: Option<u8>| found.map_or("-".to_owned(), |it| format!("{it} %"));
        let sum: f64 = used.iter().copied().map(f64::from).sum();
        let idle: f64 = group.iter().map(|(_, group)| group.idle_s).sum();
        let whole: f64 = group.iter().map(|(row, _)| row.driven_s).sum();
        vec![
            first.map_or(String::new(), |group| group.name.clone()),
            first.map_or(0, |group| group.cores).to_string(),
            format!("{:.1} %", sum / used.len().max(1) as f64),
            percent(at(0.5)),
            percent(at(0.95)),
            percent(used.last().copied()),
            format!("{:.1} %", 100.0 * idle / whole.max(1e-9)),
        ]
    };
    let head = ["cores of", "cores", "mean", "p50", "p95", "most", "time in which all are idle"];
    let lines: Vec<Vec<String>> = groups(rows).iter().map(row).collect();
    Table::new(format!("Use of the cores in base, stack {stack}"), head, lines)
}

fn plot(title: &str, stack: &str, axes: (&str, &str), shape: Shape, series: Vec<Series>) -> Chart {
    Chart::new(format!("{title}, stack {stack}"), axes, shape, series)
}

fn distributions(rows: &[&Row], stack: &str) -> Chart {
    let named = MODULES.iter().map(|name| distribution(name, &times(rows, name)));
    let whole = distribution("end to end", &times(rows, "frames"));
    let axes = ("time, ms", "cumulative share, %");
    let series = named.chain([whole]).collect();
    plot("Time with a core, by module", stack, axes, Shape::Distribution, series)
}

fn waits(rows: &[&Row], stack: &str) -> Chart {
    let waits_of = |name: &&str| distribution(name, &times(rows, &format!("{name}_waits")));
    let axes = ("time, ms", "cumulative share, %");
    let series = MODULES.iter().map(waits_of).collect();
    plot("Waiting before a run, by module", stack, axes, Shape::Distribution, series)
}

fn by_density(rows: &[&Row], stack: &str) -> Chart {
    let series = |name: &str, of: &dyn Fn(&RangeInclusive<u16>) -> Option<f64>| {
        let points = DENSITIES.iter().filter_map(|bin| Some((middle(rows, bin)?, of(bin)?)));
        Series::new(name, points)
    };
    let series = vec![
        series("mean", &|bin| Some(in_bin(rows, bin)?.value)),
        series("mean, lower end", &|bin| {
            in_bin(rows, bin).map(|it| it.low).filter(|it| it.is_finite())
        }),
        series("mean, upper end", &|bin| {
            in_bin(rows, bin).map(|it| it.high).filter(|it| it.is_finite())
        }),
        series("p99", &|bin| latencies(rows, bin).quantile_ms(0.99)),
    ];
    plot("End to end", stack, ("vehicles within 25 m", "time, ms"), Shape::Lines, series)
}

/// The mean number of vehicles in a bin's frames.
fn middle(rows: &[&Row], bin: &RangeInclusive<u16>) -> Option<f64> {
    let frames = || rows.iter().flat_map(|row| &row.frames);
    let vehicles = || frames().map(|frame| frame.vehicles).filter(|it| bin.contains(it));
    let count = vehicles().count();
    (count > 0).then(|| vehicles().map(f64::from).sum::<f64>() / count as f64)
}

fn used(rows: &[&Row], stack: &str) -> Chart {
    let series = |group: &Vec<(&Row, &Group)>| {
        let used = windows(group);
        let share = |place: usize| 100.0 * (place + 1) as f64 / used.len() as f64;
        // The last of equal ones.
        let ends = (0..used.len()).filter(|at| used.get(at + 1) != used.get(*at));
        let name = group.first().map_or(String::new(), |(_, group)| group.name.clone());
        Series::new(name, ends.map(|at| (f64::from(used[at]), share(at))))
    };
    let axes = (
        "utilisation of a group's cores in a tenth of a second, %",
        "cumulative share of the time, %",
    );
    plot("Use of the cores", stack, axes, Shape::Lines, groups(rows).iter().map(series).collect())
}
