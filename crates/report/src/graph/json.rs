//! The result for machines.

use super::{GraphRun, MethodRun, PathInfo, Times};
use serde_json::{Map, Value, json};
use stats::Summary;

/// The result as JSON: `methods`, by method `paths`, `cycles` and `callbacks`, with null where
/// there is no number; further keys say what qualifies the numbers.
pub fn json(run: &GraphRun) -> Value {
    let methods: Map<String, Value> =
        run.methods.iter().map(|method| (method.method.clone(), of_method(run, method))).collect();
    json!({
        "system": run.system_name,
        "machine": run.machine,
        "command": run.command,
        "date": run.date,
        "duration_s": run.duration_s,
        "threads": run.threads,
        "transport": run.transport,
        "margin": run.margin,
        "marks": run.marks,
        "methods": methods,
    })
}

fn of_method(run: &GraphRun, method: &MethodRun) -> Value {
    let paths: Map<String, Value> =
        run.paths.iter().map(|path| (path.id.clone(), of_path(run, path, method))).collect();
    let cycles: Map<String, Value> = run
        .cycles
        .iter()
        .map(|(id, nominal_us)| {
            let result = method.cycle(id);
            let deviation = result.and_then(|result| result.deviation(*nominal_us));
            let mut value = summary(result.and_then(|result| result.summary()));
            value["period_us"] = json!(nominal_us);
            value["deviation"] = json!(deviation);
            (id.clone(), value)
        })
        .collect();
    let callbacks: Map<String, Value> = method
        .callbacks
        .iter()
        .map(|callback| {
            let value = json!({
                "executor": callback.executor,
                "priority": callback.priority,
                "count": callback.count,
                "dropped": callback.dropped,
                "response_us": times(callback.response_us),
                "execution_us": times(callback.execution_us),
            });
            (callback.id.clone(), value)
        })
        .collect();
    let facts: Map<String, Value> =
        method.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "marks": method.marks, "facts": facts, "paths": paths, "cycles": cycles,
        "callbacks": callbacks,
    })
}

fn of_path(run: &GraphRun, path: &PathInfo, method: &MethodRun) -> Value {
    let result = method.path(&path.id);
    let mut value = summary(result.and_then(|result| result.summary()));
    let reported = path.reported.iter().find(|reported| reported.method == method.method);
    let (all, most) = result.map_or((0, 0), |result| result.drops());
    value["instances"] = json!(result.map_or(0, |result| result.latency_us.len()));
    value["releases"] = json!(path.releases);
    value["dropped"] = json!(all);
    value["dropped_most"] = json!(most);
    value["bound_us"] = json!(run.bound_us(path, &method.method));
    value["no_bound"] = json!(path.no_bound);
    value["over_bound"] = json!(run.over(path, method));
    value["reported_max_us"] = json!(reported.map(|reported| reported.max_us));
    value
}

fn summary(summary: Option<Summary>) -> Value {
    json!({
        "min_us": summary.map(|s| s.min),
        "p50_us": summary.map(|s| s.p50),
        "p99_us": summary.map(|s| s.p99),
        "max_us": summary.map(|s| s.max),
    })
}

fn times(times: Option<Times>) -> Value {
    times.map_or(Value::Null, |t| json!({ "p50": t.p50, "p99": t.p99, "max": t.max }))
}
