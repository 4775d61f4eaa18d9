//! The result of a simulation for machines: times in microseconds, whole numbers where exact.

use super::{Simulated, Simulation};
use crate::analysis::{status_name, us};
use serde_json::{Value, json};

/// `{"misses", "chains": {ID: {"jobs", "median", "worst", "bound", ..}}}`, chains in the order of
/// the file; `bound` is null where there is no guarantee.
pub fn json(simulation: &Simulation) -> Value {
    let found = simulation.chains.iter().enumerate();
    let found = found.filter_map(|(chain, found)| Some((chain, found.as_ref()?)));
    let chains = found.map(|(chain, found)| {
        (&*simulation.names.chains[chain], of_chain(simulation, chain, found))
    });
    json!({
        "fails": simulation.fails(),
        "chains": Value::from_iter(chains),
        "file": simulation.file,
        "what": simulation.what,
        "command": simulation.command,
        "marks": simulation.marks,
    })
}

fn of_chain(simulation: &Simulation, chain: usize, found: &Simulated) -> Value {
    let model = &simulation.system.chains[chain];
    let bound = &simulation.analysis.chains[chain];
    json!({
        "jobs": found.response_ns.len(),
        "median": found.median_ns().map(us),
        "worst": found.worst_ns().map(us),
        "misses": found.misses,
        "unfinished": found.unfinished,
        "overloaded": found.overloaded,
        "deadline": us(model.deadline_ns),
        "best_effort": model.best_effort,
        "bound": simulation.guarantee_ns(chain).map(us),
        "bound_status": status_name(bound.status),
        "exceeds_bound": simulation.exceeds(chain),
        "repeat": found.repeat,
    })
}
