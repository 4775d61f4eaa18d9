//! A graph of nodes, run for real under several methods.
//!
//! The runner fills a [`GraphRun`]. What counts are the key indicators of the Autoware reference
//! system: the latency of each key path, the messages that its nodes missed, and the period of
//! cyclic nodes.

pub mod bounds;
mod graph_conclusion;
mod graph_json;
mod indicators;

pub use graph_json::json;
pub use indicators::document;

use serde::{Deserialize, Serialize};
use stats::Summary;

/// The method that the others are compared with.
pub const KEEPTIME: &str = "keeptime";

/// The result of running a graph.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphRun {
    /// The system file.
    pub system_name: String,
    /// The machine, in words.
    pub machine: String,
    /// The command that made this result.
    pub command: String,
    /// Date of the run, as text.
    pub date: String,
    /// Running time of each method.
    pub duration_ns: u64,
    /// Number of threads of the executors, in words.
    pub threads: String,
    /// Transport of the messages, in words.
    pub transport: String,
    /// Description of the times that the bounds are of, if not those that the file declares.
    #[serde(default)]
    pub margin: Option<String>,
    /// Notes on the validity of all results.
    pub marks: Vec<String>,
    /// The key paths.
    pub paths: Vec<PathInfo>,
    /// The cyclic nodes.
    pub cycles: Vec<CycleInfo>,
    /// The methods that the bounds of paths are for.
    pub bounded: Vec<String>,
    /// One result per method.
    pub methods: Vec<MethodRun>,
}

/// Facts about a key path that are known before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathInfo {
    /// Its name.
    pub id: String,
    /// The nodes whose timers begin it.
    pub roots: Vec<String>,
    /// The node that ends it.
    pub sink: String,
    /// All nodes on it.
    pub nodes: Vec<String>,
    /// The shortest period of its roots.
    pub period_ns: u64,
    /// Planned number of releases of that root.
    pub releases: u64,
    /// Longest latencies that others reported, by method.
    pub reported: Vec<Reported>,
    /// The longest latency that is possible under the methods of [`GraphRun::bounded`], where
    /// that is known.
    pub bound_ns: Option<u64>,
    /// Reason why the bound is not known.
    pub no_bound: Option<String>,
}

/// Facts about a cyclic node that are known before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CycleInfo {
    /// The node.
    pub id: String,
    /// Its nominal period.
    pub period_ns: u64,
}

/// A longest latency that others reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// The method.
    pub method: String,
    /// The longest latency.
    pub max_ns: u64,
}

/// The results under one method.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MethodRun {
    /// The method.
    pub method: String,
    /// Notes on the validity of the results of this method.
    pub marks: Vec<String>,
    /// One result per key path.
    pub paths: Vec<PathResult>,
    /// One result per cyclic node.
    pub cycles: Vec<CycleResult>,
    /// One result per callback, the most urgent one first.
    pub callbacks: Vec<CallbackResult>,
    /// Other facts, name and value.
    pub facts: Vec<(String, String)>,
}

/// The instances of a key path that reached its sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// The path.
    pub id: String,
    /// Times from the oldest release of a root to the end of the sink's callback.
    pub latency_ns: Vec<u64>,
    /// Messages that the nodes of the path missed, for each instance.
    pub dropped: Vec<u32>,
}

/// The periods of a cyclic node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CycleResult {
    /// The node.
    pub id: String,
    /// Times from each start of its callback to the next.
    pub period_ns: Vec<u64>,
}

/// Median, 99th percentile and maximum, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

/// Results of one callback.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallbackResult {
    /// Its name.
    pub id: String,
    /// Its executor.
    pub executor: String,
    /// Larger is more urgent.
    pub priority: u32,
    /// Number of its runs.
    pub count: u64,
    /// Messages or releases that were never served.
    pub dropped: u64,
    /// Times from the release, or the arrival of the message, to the end.
    pub response_ns: Option<Times>,
    /// Times from the start to the end.
    pub execution_ns: Option<Times>,
}

impl GraphRun {
    /// The results of the method with this name.
    pub fn method(&self, name: &str) -> Option<&MethodRun> {
        self.methods.iter().find(|run| run.method == name)
    }

    /// The bound of a path under a method.
    fn bound_ns(&self, path: &PathInfo, method: &str) -> Option<u64> {
        path.bound_ns.filter(|_| self.bounded.iter().any(|bounded| bounded == method))
    }

    /// Number of instances of a path that took longer under a method than its bound.
    fn over(&self, path: &PathInfo, method: &MethodRun) -> usize {
        let bound_ns = self.bound_ns(path, &method.method).unwrap_or(u64::MAX);
        let result = method.path(&path.id).map_or(&[][..], |result| &result.latency_ns);
        result.iter().filter(|&&ns| ns > bound_ns).count()
    }

    /// Returns true if every path with a bound stayed within it.
    pub fn keeps_bounds(&self) -> bool {
        let over = |method: &MethodRun| self.paths.iter().any(|path| self.over(path, method) > 0);
        !self.methods.iter().any(over)
    }
}

impl MethodRun {
    /// The result of the path with this name.
    pub fn path(&self, id: &str) -> Option<&PathResult> {
        self.paths.iter().find(|path| path.id == id)
    }

    /// The result of the cyclic node with this name.
    pub fn cycle(&self, id: &str) -> Option<&CycleResult> {
        self.cycles.iter().find(|cycle| cycle.id == id)
    }
}

impl PathResult {
    /// Order statistics of the latencies; none where no instance reached the sink.
    pub fn summary(&self) -> Option<Summary<u64>> {
        Summary::of_ns(&self.latency_ns)
    }

    /// Messages missed by the nodes of the path, in all instances, and the most in one.
    pub fn drops(&self) -> (u64, u32) {
        let all = self.dropped.iter().map(|count| u64::from(*count)).sum();
        (all, self.dropped.iter().copied().max().unwrap_or(0))
    }
}

impl CycleResult {
    /// Order statistics of the periods; none before the second start.
    pub fn summary(&self) -> Option<Summary<u64>> {
        Summary::of_ns(&self.period_ns)
    }

    /// The longest distance of a period from the nominal one, as a share of it.
    pub fn deviation(&self, nominal_ns: u64) -> Option<f64> {
        let summary = self.summary()?;
        let most = summary.max.abs_diff(nominal_ns).max(summary.min.abs_diff(nominal_ns));
        (nominal_ns > 0).then(|| most as f64 / nominal_ns as f64)
    }
}

/// Milliseconds with two digits.
fn ms(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e6)
}

/// A bound in milliseconds: never shorter than it is.
fn above(ns: u64) -> String {
    format!("{:.2}", ns.div_ceil(10_000) as f64 / 100.0)
}

/// A time inside a sentence: three digits or so.
fn words(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    let digits = match ms {
        ms if ms >= 100.0 => 0,
        ms if ms >= 10.0 => 1,
        _ => 2,
    };
    format!("{ms:.digits$} ms")
}
