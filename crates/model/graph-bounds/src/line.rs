//! Lines: units in a row, as a chain of the analysis has its callbacks.
//!
//! Callbacks of a graph have priorities of their own, a chain has one. So periodic units that feed
//! each other are taken together where no other priority comes between (a *run*), and of a run
//! one line after the other is drawn: a unit at which messages end, with all before it. A line that
//! the analysis may treat as a chain has
//!
//! - stretches on one executor each that follow each other: the last unit of a stretch comes after
//!   all others there, and before all later ones; inside, the order is open;
//! - nothing in between that waits for something outside which itself waits for the line.
//!
//! A unit that does not fit is left for a line of its own. Lines of one run may not cross in
//! priority where they share an executor or an accelerator; if they do, each unit is a line.

use std::collections::BTreeSet;

use super::unit::{Pace, Unit};

/// Units in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The units, by number.
    pub units: Vec<usize>,
    /// Number of this copy of a unit that only has a rate; copies share its executions.
    pub copy: Option<u64>,
}

/// The lines of a graph, the least urgent first. Units that cost nothing and whose response nobody
/// can bound are left out.
pub(crate) fn lines(units: &[Unit]) -> Vec<Line> {
    let before = ancestors(units);
    let mut lines = Vec::new();
    for run in runs(units) {
        match units[run[0]].pace {
            Pace::Periodic => {
                let drawn = drawn(units, &before, &run);
                lines.extend(drawn.into_iter().map(|units| Line { units, copy: None }));
            }
            Pace::Rate { burst, .. } => {
                let copies = 0..=burst;
                lines.extend(copies.map(|copy| Line { units: run.clone(), copy: Some(copy) }));
            }
        }
    }
    lines.sort_by_key(|line| (highest(units, &line.units), line.copy));
    lines
}

fn lowest(units: &[Unit], line: &[usize]) -> u32 {
    line.iter().map(|&unit| units[unit].priority.0).min().unwrap_or(0)
}

fn highest(units: &[Unit], line: &[usize]) -> u32 {
    line.iter().map(|&unit| units[unit].priority.1).max().unwrap_or(0)
}

/// All periodic units that each one comes after, and of which it so is a part of the instance.
fn ancestors(units: &[Unit]) -> Vec<BTreeSet<usize>> {
    let mut all: Vec<BTreeSet<usize>> = Vec::new();
    for unit in units {
        let mut own: BTreeSet<usize> = unit.after.iter().copied().collect();
        own.extend(unit.after.iter().flat_map(|&before| all[before].clone()));
        all.push(own);
    }
    all
}

/// Periodic units of connected messages whose priorities are neighbours; the others alone.
fn runs(units: &[Unit]) -> Vec<Vec<usize>> {
    let families = families(units);
    let costs = |unit: &Unit| unit.cpu_ns > 0 || !unit.segments.is_empty();
    let mut order: Vec<usize> = (0..units.len())
        .filter(|&unit| units[unit].pace == Pace::Periodic || costs(&units[unit]))
        .collect();
    order.sort_by_key(|&unit| units[unit].priority);
    let related = |a: &usize, b: &usize| {
        let periodic = |unit: usize| units[unit].pace == Pace::Periodic;
        periodic(*a) && periodic(*b) && families[*a] == families[*b]
    };
    order.chunk_by(related).map(<[usize]>::to_vec).collect()
}

/// Family of each unit: the same number where messages connect periodic units.
fn families(units: &[Unit]) -> Vec<usize> {
    let mut family: Vec<usize> = (0..units.len()).collect();
    for (number, unit) in units.iter().enumerate().filter(|(_, u)| u.pace == Pace::Periodic) {
        for &before in &unit.after {
            let (own, other) = (family[number], family[before]);
            family.iter_mut().filter(|of| **of == other).for_each(|of| *of = own);
        }
    }
    family
}

fn drawn(units: &[Unit], before: &[BTreeSet<usize>], run: &[usize]) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = run.to_vec();
    // A unit has fewer before it than one that comes after it.
    left.sort_by_key(|&unit| (before[unit].len(), std::cmp::Reverse(units[unit].priority)));
    let mut lines: Vec<Vec<usize>> = Vec::new();
    loop {
        let ends =
            left.iter().copied().filter(|unit| !left.iter().any(|u| before[*u].contains(unit)));
        let Some(end) = ends.max_by_key(|&unit| units[unit].priority) else { break };
        let row: Vec<usize> = left
            .iter()
            .copied()
            .filter(|unit| *unit == end || before[end].contains(unit))
            .collect();
        let fits = (0..row.len()).find(|&start| is_line(units, before, &row[start..]));
        let line = row[fits.unwrap_or(row.len() - 1)..].to_vec();
        left.retain(|unit| !line.contains(unit));
        lines.push(line);
    }
    let crosses = |a: &Vec<usize>, b: &Vec<usize>| crosses(units, a, b);
    let crossed = lines.iter().enumerate().any(|(i, a)| lines[..i].iter().any(|b| crosses(a, b)));
    if crossed { run.iter().map(|&unit| vec![unit]).collect() } else { lines }
}

/// Returns true if the analysis may treat these units, in topological order, as a chain.
fn is_line(units: &[Unit], before: &[BTreeSet<usize>], row: &[usize]) -> bool {
    // After all units before it, and before all units after it.
    let divides = |at: &usize| {
        let after = row[..*at].iter().all(|unit| before[row[*at]].contains(unit));
        after && row[at + 1..].iter().all(|&unit| before[unit].contains(&row[*at]))
    };
    let mut begin = 0;
    for end in (0..row.len()).filter(divides) {
        let executor = units[row[end]].executor;
        if row[begin..=end].iter().any(|&unit| units[unit].executor != executor) {
            return false;
        }
        begin = end + 1;
    }
    let outside = |unit: &usize| {
        let after = units[*unit].after.iter();
        after.copied().filter(|other| !row.contains(other)).collect::<Vec<usize>>()
    };
    let returns = |other: usize| row.iter().any(|unit| before[other].contains(unit));
    begin == row.len() && !row.iter().flat_map(outside).any(returns)
}

/// Returns true if the priorities of two lines cross although they share an executor or an
/// accelerator.
fn crosses(units: &[Unit], a: &[usize], b: &[usize]) -> bool {
    let apart = lowest(units, a) > highest(units, b) || lowest(units, b) > highest(units, a);
    let uses = |line: &[usize]| {
        let executors: BTreeSet<usize> = line.iter().map(|&unit| units[unit].executor).collect();
        let segments = line.iter().flat_map(|&unit| &units[unit].segments);
        (executors, segments.map(|segment| segment.accelerator).collect::<BTreeSet<usize>>())
    };
    let (own, other) = (uses(a), uses(b));
    !apart && (!own.0.is_disjoint(&other.0) || !own.1.is_disjoint(&other.1))
}
