//! The bounds of a graph without a run: one line for each key path, one for each callback.

use crate::document::{Cell, Class, Document, Section, Table};
use graph_bounds::{CallbackBound, GraphBounds, PathBound};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The bounds of the key paths, then those of the callbacks, the most urgent one first.
pub fn document(file: &str, bounds: &GraphBounds) -> Document {
    let complete = if bounds.complete() { "bounded" } else { "not all of it is bounded" };
    let path = |path: &PathBound| {
        let [bound, status] = cells(path.bound_ns, path.reason.as_deref());
        [path.id.as_str().into(), bound, status]
    };
    let callback = |callback: &&CallbackBound| {
        let [bound, status] = cells(callback.bound_ns, callback.reason.as_deref());
        let executor = Class::Faint.cell(&callback.executor);
        let (priority, period) = (callback.priority.to_string(), ms(callback.period_ns));
        [callback.name.as_str().into(), executor, priority.into(), period.into(), bound, status]
    };
    let mut callbacks: Vec<&CallbackBound> = bounds.callbacks.iter().collect();
    callbacks.sort_by_key(|callback| Reverse(callback.priority));
    let head = "callback|executor|priority|period|bound|status".split('|');
    let paths = Table::new("", ["path", "bound", "status"], bounds.paths.iter().map(path));
    let paths = Section::new(
        "Paths",
        "Times in ms, from the oldest nominal release to the end of the sink.",
    )
    .table(paths.left(&[2]));
    let callbacks = Table::new("", head, callbacks.iter().map(callback)).left(&[1, 5]);
    let about = "Times in ms, from the nominal release of its timers to the end.";
    let callbacks = Section::new("Callbacks", about).table(callbacks);
    let all = [paths, callbacks].into_iter().filter(|section| !section.tables[0].rows.is_empty());
    Document {
        title: format!("{file}: {complete}"),
        sections: all.collect(),
        ..Document::default()
    }
}

fn cells(bound_ns: Option<u64>, reason: Option<&str>) -> [Cell; 2] {
    match bound_ns {
        Some(ns) => [ms(ns).into(), Class::Good.cell("guaranteed")],
        None => {
            let reason = reason.unwrap_or_default();
            ["-".into(), Class::Bad.cell(format!("no bound: {reason}"))]
        }
    }
}

/// Rounded up, so that a bound never looks shorter than it is.
fn ms(ns: u64) -> String {
    format!("{:.3}", ns.div_ceil(1000) as f64 / 1e3)
}

/// `paths` and `callbacks`, by name, times in nanoseconds, null where there is none.
pub fn json(file: &str, bounds: &GraphBounds) -> Value {
    let path = |path: &PathBound| json!({ "bound_ns": path.bound_ns, "reason": path.reason });
    let callback = |callback: &CallbackBound| {
        json!({
            "executor": callback.executor,
            "priority": callback.priority,
            "period_ns": callback.period_ns,
            "bound_ns": callback.bound_ns,
            "reason": callback.reason,
        })
    };
    let paths = bounds.paths.iter().map(|one| (&*one.id, path(one)));
    let callbacks = bounds.callbacks.iter().map(|one| (&*one.name, callback(one)));
    json!({
        "schema": "keeptime.graph-analysis",
        "version": 1,
        "system": file,
        "bounded": bounds.complete(),
        "paths": Value::from_iter(paths),
        "callbacks": Value::from_iter(callbacks),
    })
}
