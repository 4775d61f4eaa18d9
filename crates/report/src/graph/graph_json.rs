//! The result for machines.

use super::{CycleResult, GraphRun, MethodRun, PathInfo, PathResult};
use serde_json::{Value, json};
use stats::Summary;

/// The result as JSON: `methods`, by method `paths`, `cycles` and `callbacks`, with null where
/// there is no number; further keys say what qualifies the numbers.
pub fn json(run: &GraphRun) -> Value {
    let methods = run.methods.iter().map(|method| (&*method.method, of_method(run, method)));
    json!({
        "system": run.system_name,
        "machine": run.machine,
        "command": run.command,
        "date": run.date,
        "duration_ns": run.duration_ns,
        "threads": run.threads,
        "transport": run.transport,
        "margin": run.margin,
        "marks": run.marks,
        "methods": Value::from_iter(methods),
    })
}

fn of_method(run: &GraphRun, method: &MethodRun) -> Value {
    let paths = run.paths.iter().map(|path| (&*path.id, of_path(run, path, method)));
    let cycles = run.cycles.iter().map(|cycle| {
        let result = method.cycle(&cycle.id);
        let mut value = summary(result.and_then(CycleResult::summary));
        value["period_ns"] = json!(cycle.period_ns);
        value["deviation"] = json!(result.and_then(|result| result.deviation(cycle.period_ns)));
        (&*cycle.id, value)
    });
    let callbacks = method.callbacks.iter().map(|callback| {
        let value = json!({
            "executor": callback.executor,
            "priority": callback.priority,
            "count": callback.count,
            "dropped": callback.dropped,
            "response_ns": callback.response_ns,
            "execution_ns": callback.execution_ns,
        });
        (&*callback.id, value)
    });
    json!({
        "marks": method.marks,
        "facts": Value::from_iter(method.facts.clone()),
        "paths": Value::from_iter(paths),
        "cycles": Value::from_iter(cycles),
        "callbacks": Value::from_iter(callbacks),
    })
}

fn of_path(run: &GraphRun, path: &PathInfo, method: &MethodRun) -> Value {
    let result = method.path(&path.id);
    let mut value = summary(result.and_then(PathResult::summary));
    let reported = path.reported.iter().find(|reported| reported.method == method.method);
    let (all, most) = result.map_or((0, 0), PathResult::drops);
    value["instances"] = json!(result.map_or(0, |result| result.latency_ns.len()));
    value["releases"] = json!(path.releases);
    value["dropped"] = json!(all);
    value["dropped_most"] = json!(most);
    value["bound_ns"] = json!(run.bound_ns(path, &method.method));
    value["no_bound"] = json!(path.no_bound);
    value["over_bound"] = json!(run.over(path, method));
    value["reported_max_ns"] = json!(reported.map(|reported| reported.max_ns));
    value
}

fn summary(summary: Option<Summary<u64>>) -> Value {
    let number = |pick: fn(Summary<u64>) -> u64| summary.map(pick);
    json!({
        "min_ns": number(|s| s.min),
        "p50_ns": number(|s| s.p50),
        "p99_ns": number(|s| s.p99),
        "max_ns": number(|s| s.max),
    })
}
