//! The result of a simulation as one page: the sentences, the table, and the picture.

use super::table::notes;
use super::{Gantt, Simulated, Simulation, conclusion, gantt};
use crate::analysis::unit::{Unit, percent, words};
use crate::{Error, page};
use analysis::Status;
use minijinja::{Value, context};

const TEMPLATE: &str = "simulation.html";

/// One self-contained page.
///
/// # Errors
/// [`Error::Plot`] as [`gantt`] has it, and [`Error::Template`].
pub fn html(simulation: &Simulation, picture: &Gantt<'_>) -> Result<String, Error> {
    let svg = Value::from_safe_string(gantt(picture)?);
    let found = simulation.chains.iter().enumerate();
    let rows: Vec<Value> =
        found.filter_map(|(chain, found)| Some(row(simulation, chain, found.as_ref()?))).collect();
    let content = context! {
        file => simulation.file.as_str(),
        what => simulation.what.as_str(),
        command => simulation.command.as_str(),
        conclusion => conclusion(simulation),
        marks => simulation.marks.clone(),
        searched => simulation.searched,
        unit => Unit::of(&simulation.system).name(),
        span => words(picture.to_ns - picture.from_ns),
        rows,
        svg,
    };
    page::render(TEMPLATE, include_str!("page.html"), content)
}

fn row(simulation: &Simulation, index: usize, found: &Simulated) -> Value {
    let unit = Unit::of(&simulation.system);
    let chain = &simulation.system.chains[index];
    let bound = &simulation.analysis.chains[index];
    let (worst_ns, guarantee_ns) = (found.worst_ns(), simulation.guarantee_ns(index));
    let part = |ns: u64| {
        let percent = u128::from(ns) * 100 / u128::from(chain.deadline_ns);
        percent.min(200) / 2
    };
    context! {
        name => simulation.names.chains[index].as_str(),
        priority => chain.priority,
        best_effort => chain.best_effort,
        jobs => found.response_ns.len(),
        median => found.median_ns().map(|ns| unit.up(ns)),
        worst => worst_ns.map(|ns| unit.up(ns)),
        share => worst_ns.map(part),
        late => worst_ns.is_some_and(|ns| ns > chain.deadline_ns),
        bound => bound.response_ns.map(|ns| unit.up(ns)),
        guaranteed => bound.status == Status::Ok,
        exceeds => simulation.exceeds(index),
        ratio => worst_ns.zip(guarantee_ns).map(|(worst_ns, ns)| percent(worst_ns, ns)),
        deadline => unit.up(chain.deadline_ns),
        misses => found.misses,
        notes => notes(found),
        repeat => found.repeat.as_deref(),
    }
}
