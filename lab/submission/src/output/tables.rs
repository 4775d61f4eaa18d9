//! The tables of numbers.

use super::compare::comparisons;
use super::contender::{Contender, contenders, shapes};
use super::unit::{count, factor, shape as size, time as ns};
use crate::network::Shape;
use crate::study::Study;
use crate::summary::{Spread, Time};
use report::document::{Cell, Class, Row, Table};

/// The smallest, the middle and the largest depth at the largest width.
fn chosen(study: &Study) -> Vec<Shape> {
    let all = shapes(study);
    let Some(k) = all.last().map(|shape| shape.k) else { return Vec::new() };
    let wide: Vec<Shape> = all.into_iter().filter(|shape| shape.k == k).collect();
    let mut chosen = vec![wide[0], wide[wide.len() / 2], wide[wide.len() - 1]];
    chosen.dedup();
    chosen
}

/// Table of one of the times at chosen sizes.
pub(super) fn of_time(study: &Study, time: Time) -> Option<Table> {
    let shapes = chosen(study);
    let row = |one: &Contender<'_>| {
        let times = shapes.iter().flat_map(|shape| {
            let spread = one.spread(*shape, time);
            let times = |pick: fn(Spread) -> f64| Cell::from(spread.map(|spread| ns(pick(spread))));
            [times(|it| it.median_ns), times(|it| it.p99_ns), times(|it| it.jitter_ns)]
        });
        std::iter::once(one.name.as_str().into()).chain(times).collect::<Vec<Cell>>()
    };
    let head = shapes
        .iter()
        .flat_map(|shape| [format!("{}: median", size(*shape)), "p99".into(), "jitter".into()]);
    let head = std::iter::once("method".to_owned()).chain(head);
    let title = format!("The {} at chosen sizes", time.name());
    (!shapes.is_empty()).then(|| Table::new(title, head, contenders(study).iter().map(row)))
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
    let head =
        "method|submission: least|middle|most|completion: least|middle|most|sizes".split('|');
    let title = "How many times faster than streams on the same GPU, over all sizes";
    (!rows.is_empty()).then(|| Table::new(title, head, rows))
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
            Cell::from(sum.map(ns))
        };
        let mut row = vec![one.name.as_str().into()];
        row.extend(names.iter().map(cell));
        row.push(ns(one.once(largest)?).into());
        Some(row)
    };
    let rows: Vec<Vec<Cell>> = contenders.iter().filter_map(row).collect();
    let head = std::iter::once("method").chain(names.iter().copied()).chain(["all"]);
    let title = format!("One-time costs, at {}", size(largest));
    (!names.is_empty()).then(|| Table::new(title, head, rows))
}

/// Every case at one size. A wrong result is marked and explained.
pub(super) fn of_size(study: &Study, shape: Shape) -> Table {
    let row = |one: &Contender<'_>| {
        let case = one.cases.get(&shape)?;
        let mut row = vec![Class::Bad.when(!case.is_right()).cell(&one.name)];
        for time in Time::ALL {
            let spread = Spread::of(case, time)?;
            let Spread { median_ns, p99_ns, max_ns, jitter_ns, .. } = spread;
            row.extend([median_ns, p99_ns, max_ns, jitter_ns].map(|time| Cell::from(ns(time))));
        }
        row.push(one.once(shape).map(ns).into());
        let wrong = (!case.is_right()).then(|| {
            format!(
                "wrong result, {:.1e} off where rounding explains {:.1e}",
                case.difference, case.tolerance
            )
        });
        Some(Row::remarked(row, wrong.unwrap_or_default()))
    };
    let head = "method|submission: median|p99|max|jitter|completion: median|p99|max|jitter|once"
        .split('|');
    let title = format!("{} ({})", size(shape), count(shape.kernels(), "kernel"));
    Table::new(title, head, contenders(study).iter().filter_map(row))
}
