//! The result for machines.

use super::{Outcome, Point, StudyRun};
use serde_json::{Map, Value, json};

/// The result as JSON: `points`, and for each `methods`, by method `sets`, `accepted`,
/// `accepted_percent`, `chains` and `chains_ok`; where times were scaled `scale_p10`, `scale_p50`
/// and `scale_p90` too. Null stands where there is no number.
pub fn json(run: &StudyRun) -> Value {
    let parameters: Map<String, Value> =
        run.parameters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "experiment": run.experiment,
        "command": run.command,
        "date": run.date,
        "seed": run.seed,
        "sets": run.sets,
        "parameters": parameters,
        "marks": run.marks,
        "scaled": run.scaled,
        "x": run.x.label(),
        "group": run.group.label(),
        "points": run.points.iter().map(|point| of_point(run, point)).collect::<Vec<_>>(),
    })
}

fn of_point(run: &StudyRun, point: &Point) -> Value {
    let methods: Map<String, Value> = (run.methods.iter().zip(&point.outcomes))
        .map(|(method, outcome)| (method.clone(), of_outcome(run, outcome)))
        .collect();
    json!({ "point": point.number, "x": point.x, "group": point.group, "methods": methods })
}

fn of_outcome(run: &StudyRun, outcome: &Outcome) -> Value {
    let mut value = json!({
        "sets": outcome.sets,
        "accepted": outcome.accepted,
        "accepted_percent": outcome.accepted_percent(),
        "chains": outcome.chains,
        "chains_ok": outcome.chains_ok,
    });
    if run.scaled.is_some() {
        for (name, permille) in [("scale_p10", 100), ("scale_p50", 500), ("scale_p90", 900)] {
            value[name] = json!(outcome.scale(permille));
        }
    }
    value
}
