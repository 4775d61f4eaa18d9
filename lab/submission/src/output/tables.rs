//! The tables of the page and the paper.

use super::compare::comparisons;
use super::contender::{Contender, contenders, shapes};
use super::unit::{factor, shape as size, time as ns};
use crate::network::Shape;
use crate::study::Study;
use crate::summary::{Spread, Time};
use serde::Serialize;

/// A table; the first column is text, the others are numbers.
#[derive(Serialize)]
pub(super) struct Table {
    caption: String,
    /// Common heading of several columns, and their number.
    groups: Vec<(String, usize)>,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Cell without a number.
const NONE: &str = "–";

/// The smallest, the middle and the largest depth at the largest width.
fn chosen(study: &Study) -> Vec<Shape> {
    let all = shapes(study);
    let Some(k) = all.last().map(|shape| shape.k) else { return Vec::new() };
    let wide: Vec<Shape> = all.into_iter().filter(|shape| shape.k == k).collect();
    let mut chosen = vec![wide[0], wide[wide.len() / 2], wide[wide.len() - 1]];
    chosen.dedup();
    chosen
}

/// One of the times at chosen sizes.
pub(super) fn of_time(study: &Study, time: Time) -> Option<Table> {
    let shapes = chosen(study);
    let cells = |spread: Option<Spread>| match spread {
        Some(spread) => [spread.median_ns, spread.p99_ns, spread.jitter_ns].map(ns),
        None => [NONE; 3].map(String::from),
    };
    let row = |one: &Contender<'_>| {
        let times = shapes.iter().flat_map(|shape| cells(one.spread(*shape, time)));
        std::iter::once(one.name.clone()).chain(times).collect()
    };
    let head = ["median", "p99", "jitter"].iter().cycle().take(3 * shapes.len());
    (!shapes.is_empty()).then(|| Table {
        caption: format!("The {} at chosen sizes.", time.name()),
        groups: shapes.iter().map(|shape| (size(*shape), 3)).collect(),
        head: std::iter::once("method").chain(head.copied()).map(String::from).collect(),
        rows: contenders(study).iter().map(row).collect(),
    })
}

/// Table of the speed-ups over streams; none where nothing can be compared.
pub(super) fn of_gains(study: &Study) -> Option<Table> {
    let contenders = contenders(study);
    let comparisons = comparisons(study, &contenders);
    let row = |one: &super::compare::Comparison<'_>| {
        let mut row = vec![one.contender.name.clone()];
        for time in Time::ALL {
            let (least, most) = one.range(time)?;
            row.extend([least.times, one.median(time)?, most.times].map(factor));
        }
        row.push(one.gains(Time::Submission).len().to_string());
        Some(row)
    };
    let rows: Vec<Vec<String>> = comparisons.iter().filter_map(row).collect();
    let head = ["method", "least", "middle", "most", "least", "middle", "most", "number"];
    (!rows.is_empty()).then(|| Table {
        caption: "How many times faster than streams on the same GPU, over all sizes.".into(),
        groups: vec![("submission".into(), 3), ("completion".into(), 3), ("sizes".into(), 1)],
        head: head.map(String::from).into(),
        rows,
    })
}

/// The steps that are done once, at the largest size.
pub(super) fn of_steps(study: &Study) -> Option<Table> {
    let largest = shapes(study).last().copied()?;
    let contenders = contenders(study);
    let mut names: Vec<&str> = Vec::new();
    let steps = |one: &Contender<'_>| one.cases.get(&largest).map(|case| case.steps.clone());
    for step in contenders.iter().filter_map(steps).flatten() {
        if !names.contains(&step.name) {
            names.push(step.name);
        }
    }
    let row = |one: &Contender<'_>| {
        let steps = steps(one)?;
        let cell = |name: &&str| {
            let own = steps.iter().filter(|step| step.name == *name);
            let sum = own.map(|step| step.ns as f64).reduce(|a, b| a + b);
            sum.map_or(NONE.into(), ns)
        };
        let mut row = vec![one.name.clone()];
        row.extend(names.iter().map(cell));
        row.push(ns(one.once(largest)?));
        Some(row)
    };
    let rows: Vec<Vec<String>> = contenders.iter().filter_map(row).collect();
    let head = std::iter::once("method").chain(names.iter().copied()).chain(["all"]);
    (!names.is_empty()).then(|| Table {
        caption: format!("What is done once, at {}.", size(largest)),
        groups: Vec::new(),
        head: head.map(String::from).collect(),
        rows,
    })
}

/// Every case.
pub(super) fn of_cases(study: &Study) -> Table {
    let contenders = contenders(study);
    let mut rows = Vec::new();
    for shape in shapes(study) {
        for one in &contenders {
            let Some(case) = one.cases.get(&shape) else { continue };
            let mut row = vec![one.name.clone(), shape.k.to_string(), shape.l.to_string()];
            for time in Time::ALL {
                row.extend(match Spread::of(case, time) {
                    Some(spread) => {
                        [spread.median_ns, spread.p99_ns, spread.max_ns, spread.jitter_ns].map(ns)
                    }
                    None => [NONE; 4].map(String::from),
                });
            }
            row.push(one.once(shape).map_or(NONE.into(), ns));
            row.push(if case.is_right() { "right".into() } else { "wrong".into() });
            rows.push(row);
        }
    }
    let four = ["median", "p99", "max", "jitter"];
    let head = ["method", "k", "l"].into_iter().chain(four).chain(four).chain(["all", "is"]);
    Table {
        caption: "Every case.".into(),
        groups: [("size", 2), ("submission", 4), ("completion", 4), ("once", 1), ("result", 1)]
            .map(|(name, columns)| (name.to_owned(), columns))
            .into(),
        head: head.map(String::from).collect(),
        rows,
    }
}
