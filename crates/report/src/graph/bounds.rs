//! The bounds of a graph without a run: one line for each key path, one for each callback.

use crate::analysis::terminal::{BAD, Cell, FAINT, GOOD, HEAD, PLAIN, Page, clean};
use serde_json::{Map, Value, json};

/// The bounds of a graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphBounds {
    /// The key paths, in the order of the file.
    pub paths: Vec<PathBound>,
    /// The callbacks; those of a fusion may be one.
    pub callbacks: Vec<CallbackBound>,
}

/// The bound of a key path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathBound {
    /// Its name.
    pub id: String,
    /// From the oldest nominal release of its roots to the end of its sink's callback.
    pub bound_us: Option<f64>,
    /// Reason why there is no bound.
    pub reason: Option<String>,
}

/// The bound of a callback.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallbackBound {
    /// Its name.
    pub name: String,
    /// Its executor.
    pub executor: String,
    /// Larger is more urgent.
    pub priority: u32,
    /// The period of the timers that it descends from.
    pub period_us: f64,
    /// From the nominal release of these timers to its end.
    pub bound_us: Option<f64>,
    /// Reason why there is no bound.
    pub reason: Option<String>,
}

impl GraphBounds {
    /// Returns true if each key path has a bound; where the file names none, each callback.
    pub fn complete(&self) -> bool {
        let callbacks = || self.callbacks.iter().all(|callback| callback.bound_us.is_some());
        let paths = self.paths.iter().all(|path| path.bound_us.is_some());
        if self.paths.is_empty() { callbacks() } else { paths }
    }
}

/// The bounds of the key paths, then those of the callbacks, the most urgent one first.
pub fn table(file: &str, bounds: &GraphBounds, color: bool) -> String {
    let mut page = Page::new(color);
    page.paint(HEAD, &format!("{}: ", clean(file)));
    match bounds.complete() {
        true => page.line(GOOD, "bounded"),
        false => page.line(BAD, "not all of it is bounded"),
    }
    if !bounds.paths.is_empty() {
        page.line(FAINT, "\n  times in ms, from the oldest nominal release to the end of the sink");
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
    page.line(FAINT, "\n  times in ms, from the nominal release of its timers to the end");
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
