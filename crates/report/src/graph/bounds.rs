//! The bounds of a graph without a run: one line for each key path, one for each callback.

use graph_bounds::{CallbackBound, GraphBounds, PathBound};
use serde_json::{Map, Value, json};
use terminal::page::{BAD, Cell, FAINT, GOOD, HEAD, PLAIN, Page, clean};

/// The bounds of the key paths, then those of the callbacks, the most urgent one first.
pub fn table(file: &str, bounds: &GraphBounds, color: bool) -> String {
    let mut page = Page::new(crate::analysis::WIDTH, color);
    page.paint(HEAD, &format!("{}: ", clean(file)));
    match bounds.complete() {
        true => page.line(GOOD, "bounded"),
        false => page.line(BAD, "not all of it is bounded"),
    }
    if !bounds.paths.is_empty() {
        page.end();
        page.line(FAINT, "  times in ms, from the oldest nominal release to the end of the sink");
        let rows: Vec<Vec<Cell>> = bounds
            .paths
            .iter()
            .map(|path| {
                let [bound, status] = cells(path.bound_us, path.reason.as_deref());
                vec![(clean(&path.id), PLAIN), bound, status]
            })
            .collect();
        page.table(&[("path", true), ("bound", false), ("status", true)], &rows);
    }
    page.end();
    page.line(FAINT, "  times in ms, from the nominal release of its timers to the end");
    let mut callbacks: Vec<&CallbackBound> = bounds.callbacks.iter().collect();
    callbacks.sort_by_key(|callback| std::cmp::Reverse(callback.priority));
    let rows: Vec<Vec<Cell>> = callbacks.into_iter().map(row).collect();
    let columns = [
        ("callback", true),
        ("executor", true),
        ("priority", false),
        ("period", false),
        ("bound", false),
        ("status", true),
    ];
    page.table(&columns, &rows);
    page.finish()
}

fn row(callback: &CallbackBound) -> Vec<Cell> {
    let [bound, status] = cells(callback.bound_us, callback.reason.as_deref());
    vec![
        (clean(&callback.name), PLAIN),
        (clean(&callback.executor), FAINT),
        (callback.priority.to_string(), PLAIN),
        (ms(callback.period_us), PLAIN),
        bound,
        status,
    ]
}

fn cells(bound_us: Option<f64>, reason: Option<&str>) -> [Cell; 2] {
    match bound_us {
        Some(us) => [(ms(us), PLAIN), ("guaranteed".to_owned(), GOOD)],
        None => {
            let reason = clean(reason.unwrap_or_default());
            [("-".to_owned(), PLAIN), (format!("no bound: {reason}"), BAD)]
        }
    }
}

/// Rounded up, so that a bound never looks shorter than it is.
fn ms(us: f64) -> String {
    format!("{:.3}", us.ceil() / 1e3)
}

/// `paths` and `callbacks`, by name, times in microseconds, null where there is none.
pub fn json(file: &str, bounds: &GraphBounds) -> Value {
    let path = |path: &PathBound| {
        let value = json!({ "bound_us": path.bound_us, "reason": path.reason });
        (path.id.clone(), value)
    };
    let callback = |callback: &CallbackBound| {
        let value = json!({
            "executor": callback.executor,
            "priority": callback.priority,
            "period_us": callback.period_us,
            "bound_us": callback.bound_us,
            "reason": callback.reason,
        });
        (callback.name.clone(), value)
    };
    json!({
        "system": file,
        "bounded": bounds.complete(),
        "paths": bounds.paths.iter().map(path).collect::<Map<String, Value>>(),
        "callbacks": bounds.callbacks.iter().map(callback).collect::<Map<String, Value>>(),
    })
}
