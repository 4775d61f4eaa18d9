//! The result of a simulation for machines: times in nanoseconds.

use super::{Simulated, Simulation};
use crate::analysis::status_name;
use serde_json::{Value, json};

/// `{"schema", "version", "fails", "chains": {ID: {"jobs", "median_ns", "worst_ns", "bound_ns", ..}}}`,
/// chains in the order of the file; `bound_ns` is null where there is no guarantee.
pub fn json(simulation: &Simulation) -> Value {
    let found = simulation.chains.iter().enumerate();
    let found = found.filter_map(|(chain, found)| Some((chain, found.as_ref()?)));
    let chains = found.map(|(chain, found)| {
        (&*simulation.names.chains[chain], of_chain(simulation, chain, found))
    });
    json!({
        "schema": "keeptime.simulation",
        "version": 1,
        "partial": crate::number::partial(&simulation.marks),
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
        "median_ns": found.median_ns(),
        "worst_ns": found.worst_ns(),
        "misses": found.misses,
        "unfinished": found.unfinished,
        "overloaded": found.overloaded,
        "deadline_ns": model.deadline_ns,
        "best_effort": model.best_effort,
        "bound_ns": simulation.guarantee_ns(chain),
        "bound_status": status_name(bound.status),
        "exceeds_bound": simulation.exceeds(chain),
        "repeat": found.repeat,
    })
}
