//! The result of a simulation as people read it: one line per chain, and what it means in sentences.

use super::{Gantt, Simulated, Simulation, gantt};
use crate::Error;
use crate::document::{Class, Document, Picture, Row, Section, Table};
use crate::number::{Unit, percent_down, time};
use analysis::Status;

/// The result, with the bound of each chain beside its responses, and the picture of a piece of one
/// schedule if there is one.
///
/// # Errors
/// [`Error::Plot`] as [`gantt`] has it.
pub fn document(simulation: &Simulation, picture: Option<&Gantt<'_>>) -> Result<Document, Error> {
    let commands: Vec<String> =
        simulation.chains.iter().flatten().filter_map(|found| found.repeat.clone()).collect();
    let mut sections = vec![responses(simulation)];
    if !commands.is_empty() {
        let section = Section::new("Commands that repeat these schedules", "");
        sections.push(Section { commands, ..section });
    }
    if let Some(picture) = picture {
        let span = time(picture.to_ns - picture.from_ns);
        let about = format!("{span} of it. Point at an element to see its description.");
        let pictures = vec![Picture { title: String::new(), svg: gantt(picture)? }];
        sections.push(Section { pictures, ..Section::new("Schedule", about) });
    }
    Ok(Document {
        kind: "keeptime simulate".to_owned(),
        title: simulation.file.clone(),
        about: simulation.what.clone(),
        conclusion: conclusion(simulation),
        command: simulation.command.clone(),
        marks: simulation.marks.clone(),
        sections,
        notes: vec![
            "A simulated schedule is one that the model allows, not the worst one. The bound is what \
             no schedule of the model exceeds; without one, nothing is guaranteed."
                .to_owned(),
        ],
        ..Document::default()
    })
}

fn responses(simulation: &Simulation) -> Section {
    let title = match simulation.searched {
        true => "Worst response times found",
        false => "Response times",
    };
    let unit = Unit::of(&simulation.system).name();
    let head = "chain|priority|jobs|median|worst|bound|worst/bound|deadline|misses".split('|');
    let found = simulation.chains.iter().enumerate();
    let rows = found.filter_map(|(chain, found)| Some(row(simulation, chain, found.as_ref()?)));
    let about = format!(
        "Times in {unit}; the bound is the tight one, in parentheses where it is no guarantee."
    );
    Section::new(title, about).table(Table::new("", head, rows))
}

fn row(simulation: &Simulation, index: usize, found: &Simulated) -> Row {
    let unit = Unit::of(&simulation.system);
    let chain = &simulation.system.chains[index];
    let (worst_ns, guarantee_ns) = (found.worst_ns(), simulation.guarantee_ns(index));
    let bound = &simulation.analysis.chains[index];
    let late = worst_ns.is_some_and(|ns| ns > chain.deadline_ns);
    let (miss, best_effort) = match chain.best_effort {
        true => (Class::Warn, ", best effort"),
        false => (Class::Bad, ""),
    };
    let share = worst_ns.zip(guarantee_ns).map(|(worst_ns, ns)| percent_down(worst_ns, ns));
    let cells = [
        Class::Faint.when(chain.best_effort).cell(&simulation.names.chains[index]),
        format!("{}{best_effort}", chain.priority).into(),
        found.response_ns.len().into(),
        found.median_ns().map(|ns| unit.up(ns)).into(),
        miss.when(late).cell(worst_ns.map_or("-".to_owned(), |ns| unit.up(ns))),
        match (bound.response_ns, bound.status) {
            (Some(ns), Status::Ok) => Class::Bad.when(simulation.exceeds(index)).cell(unit.up(ns)),
            (Some(ns), _) => Class::Faint.cell(format!("({})", unit.up(ns))),
            (None, _) => Class::Faint.cell("-"),
        },
        Class::Faint.cell(share.unwrap_or_default()),
        unit.up(chain.deadline_ns).into(),
        if found.misses == 0 { Class::Good } else { miss }.cell(found.misses.to_string()),
    ];
    let remark = notes(found).iter().map(|note| format!("! {note}")).collect::<Vec<_>>().join("; ");
    Row::remarked(cells, remark)
}

/// Notes on jobs that the numbers of one chain leave out.
fn notes(found: &Simulated) -> Vec<String> {
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
fn conclusion(simulation: &Simulation) -> Vec<String> {
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
        time(worst_ns),
        time(bound_ns),
        percent_down(worst_ns, bound_ns)
    ))
}
