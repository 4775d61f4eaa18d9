//! The result of a simulation in a terminal: one line per chain, and what it means in sentences.

use super::{Simulated, Simulation};
use crate::analysis::terminal::{BAD, Cell, FAINT, GOOD, HEAD, PLAIN, Page, WARN, clean};
use crate::analysis::unit::{Unit, percent, words};
use analysis::Status;

/// Table with the description of the simulation, its marks, and one line per chain with the bound
/// beside it. With `color`, misses stand out by ANSI colours as well.
pub fn table(simulation: &Simulation, color: bool) -> String {
    let mut page = Page::new(color);
    page.paint(HEAD, &format!("{}: ", clean(&simulation.file)));
    page.line(PLAIN, &clean(&simulation.what));
    for mark in &simulation.marks {
        page.paragraph(WARN, &format!("! {}", clean(mark)));
    }
    let unit = Unit::of(&simulation.system).name();
    page.line(FAINT, &format!("\n  times in {unit}; the bound is the tight one"));
    let worst = if simulation.searched { "worst found" } else { "worst" };
    let columns = [
        ("chain", true),
        ("jobs", false),
        ("median", false),
        (worst, false),
        ("bound", false),
        ("worst/bound", false),
        ("deadline", false),
        ("misses", false),
    ];
    let found = simulation.chains.iter().enumerate();
    let rows: Vec<Vec<Cell>> =
        found.filter_map(|(chain, found)| Some(row(simulation, chain, found.as_ref()?))).collect();
    page.table(&columns, &rows);
    for (chain, found) in simulation.chains.iter().enumerate() {
        for note in found.iter().flat_map(notes) {
            page.line(WARN, &format!("  ! {}: {note}", clean(&simulation.names.chains[chain])));
        }
    }
    page.finish()
}

fn row(simulation: &Simulation, index: usize, found: &Simulated) -> Vec<Cell> {
    let unit = Unit::of(&simulation.system);
    let chain = &simulation.system.chains[index];
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| unit.up(ns));
    let worst_ns = found.worst_ns();
    let guarantee_ns = simulation.guarantee_ns(index);
    let bound = &simulation.analysis.chains[index];
    let exceeds = simulation.exceeds(index);
    let late = worst_ns.is_some_and(|ns| ns > chain.deadline_ns);
    let miss = if chain.best_effort { WARN } else { BAD };
    vec![
        (clean(&simulation.names.chains[index]), if chain.best_effort { FAINT } else { PLAIN }),
        (found.response_ns.len().to_string(), PLAIN),
        (time(found.median_ns()), PLAIN),
        (time(worst_ns), if late { miss } else { PLAIN }),
        match (bound.response_ns, bound.status) {
            (Some(ns), Status::Ok) if exceeds => (format!("!{}", unit.up(ns)), BAD),
            (Some(ns), Status::Ok) => (unit.up(ns), PLAIN),
            (Some(ns), _) => (format!("({})", unit.up(ns)), FAINT),
            (None, _) => ("-".to_owned(), FAINT),
        },
        match worst_ns.zip(guarantee_ns) {
            Some((worst_ns, bound_ns)) => (percent(worst_ns, bound_ns), FAINT),
            None => (String::new(), PLAIN),
        },
        (unit.up(chain.deadline_ns), PLAIN),
        match found.misses {
            0 => ("0".to_owned(), GOOD),
            misses => (format!("!{misses}"), miss),
        },
    ]
}

/// Notes on jobs that the numbers of one chain leave out.
pub(super) fn notes(found: &Simulated) -> Vec<String> {
    let mut notes = Vec::new();
    if found.overloaded {
        notes.push("overloaded: so many jobs waited that it was not released any more".to_owned());
    }
    if found.unfinished > 0 {
        notes.push(format!("{} jobs did not end", found.unfinished));
    }
    notes
}

/// Meaning of the result, the most important first.
pub fn conclusion(simulation: &Simulation) -> Vec<String> {
    let names = |wanted: &dyn Fn(usize) -> bool| {
        let chains = (0..simulation.chains.len()).filter(|chain| wanted(*chain));
        chains.map(|chain| simulation.names.chains[chain].as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut sentences = Vec::new();
    let exceeding = names(&|chain| simulation.exceeds(chain));
    if !exceeding.is_empty() {
        sentences.push(format!(
            "THE BOUND IS WRONG for {exceeding}: a schedule that the model allows takes longer. \
             Please report this with the system file and the command."
        ));
    }
    let schedule = if simulation.searched { "schedules that were found" } else { "this schedule" };
    let late = names(&|chain| simulation.misses_count(chain));
    let counting = simulation.system.chains.iter().zip(&simulation.chains);
    let counting = counting.filter(|(model, found)| !model.best_effort && found.is_some()).count();
    sentences.push(match (counting, late.as_str()) {
        (0, _) => "No chain's deadline counts: all of them are best effort.".to_owned(),
        (_, "") => format!("No deadline that counts was missed in {schedule}."),
        (_, late) => format!("Deadlines that count were missed in {schedule}: {late}."),
    });
    sentences.extend(closest(simulation));
    sentences
}

/// The guaranteed chain that came closest to its bound.
fn closest(simulation: &Simulation) -> Option<String> {
    let pairs = (0..simulation.chains.len()).filter_map(|chain| {
        let worst_ns = simulation.worst_ns(chain)?;
        Some((chain, worst_ns, simulation.guarantee_ns(chain)?))
    });
    let share = |&(_, worst_ns, bound_ns): &(usize, u64, u64)| {
        (u128::from(worst_ns) << 32) / u128::from(bound_ns.max(1))
    };
    let (chain, worst_ns, bound_ns) = pairs.max_by_key(share)?;
    Some(format!(
        "{} came closest to its bound: {} of {} ({}).",
        simulation.names.chains[chain],
        words(worst_ns),
        words(bound_ns),
        percent(worst_ns, bound_ns)
    ))
}
