//! The cases for machines.

use super::Machine;
use crate::study::{Case, Missing, Study};
use crate::summary::{Spread, Time};
use serde_json::{Value, json};

/// Name of the schema of what [`json()`] gives, and its version.
pub const SCHEMA: (&str, u32) = ("keeptime.bench-submission", 1);

/// The study as JSON: the machine, the plan, the accelerators, and for each case the two times'
/// `median`, `p99`, `max`, `min` and `jitter` in nanoseconds, the steps that were done once, and
/// how far the result is from the processor's. A time is null where nothing was measured, and a
/// difference where it is no number.
pub fn json(study: &Study, machine: &Machine) -> Value {
    let (schema, version) = SCHEMA;
    json!({
        "schema": schema,
        "version": version,
        "machine": machine,
        "plan": study.plan,
        "accelerators": study.accelerators,
        "cases": study.cases.iter().map(|case| of_case(study, case)).collect::<Vec<_>>(),
        "missing": study.missing.iter().map(|one| of_missing(study, one)).collect::<Vec<_>>(),
    })
}

fn of_case(study: &Study, case: &Case) -> Value {
    json!({
        "accelerator": study.accelerators[case.accelerator].id,
        "method": case.method,
        "k": case.shape.k,
        "l": case.shape.l,
        "kernels": case.shape.kernels(),
        "repetitions": case.samples.iter().filter(|sample| !sample.warm_up).count(),
        "warm_up": case.samples.iter().filter(|sample| sample.warm_up).count(),
        "submission_ns": of_time(case, Time::Submission),
        "completion_ns": of_time(case, Time::Completion),
        "steps": case.steps,
        "difference": case.difference.is_finite().then_some(case.difference),
        "tolerance": case.tolerance,
        "right": case.is_right(),
    })
}

fn of_time(case: &Case, time: Time) -> Value {
    Spread::of(case, time).map_or(Value::Null, |spread| {
        json!({
            "median": spread.median_ns,
            "p99": spread.p99_ns,
            "max": spread.max_ns,
            "min": spread.min_ns,
            "jitter": spread.jitter_ns,
        })
    })
}

fn of_missing(study: &Study, missing: &Missing) -> Value {
    json!({
        "accelerator": study.accelerators[missing.accelerator].id,
        "method": missing.method,
        "k": missing.shape.map(|shape| shape.k),
        "l": missing.shape.map(|shape| shape.l),
        "why": missing.why,
    })
}
