//! A system of chains, run for real under several policies, beside its bounds.
//!
//! The runner fills a [`ChainsRun`]. A chain of a policy is matched to its [`ChainInfo`] by id;
//! the order of the tables is that of [`ChainsRun::chains`], the order of the policies that of
//! [`ChainsRun::policies`].

mod conclusion;
mod html;
mod json;
mod plot;
mod table;
mod theme;
pub(crate) mod unit;

pub use conclusion::conclusion;
pub use html::html;
pub use json::json;
pub use table::table;

use serde::{Deserialize, Serialize};
use stats::Summary;

/// The policy that the others are compared with.
pub const PRIORITY: &str = "priority";

/// The result of running a system of chains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainsRun {
    /// The system file.
    pub system_name: String,
    /// The machine, in words.
    pub machine: String,
    /// The command that made this result.
    pub command: String,
    /// Date of the run, as text.
    pub date: String,
    /// Running time of each policy, in seconds.
    pub duration_s: f64,
    /// Notes on the validity of all results, such as "ran at normal priority".
    pub marks: Vec<String>,
    /// The chains.
    pub chains: Vec<ChainInfo>,
    /// One result per policy.
    pub policies: Vec<PolicyRun>,
}

/// Facts about a chain that are known before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainInfo {
    /// Its name.
    pub id: String,
    /// Larger is more critical.
    pub priority: u32,
    /// Distance between two releases.
    pub period_us: f64,
    /// Relative deadline.
    pub deadline_us: f64,
    /// True if its deadline does not count.
    pub best_effort: bool,
    /// The guaranteed response time under [`PRIORITY`], where there is one.
    pub bound_us: Option<f64>,
}

/// The results under one policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyRun {
    /// The policy.
    pub policy: String,
    /// Notes on the validity of the results of this policy.
    pub marks: Vec<String>,
    /// One result per chain.
    pub chains: Vec<ChainResult>,
    /// Other facts, name and value, such as the share of time the accelerator was busy.
    pub facts: Vec<(String, String)>,
}

/// The result of one chain under one policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainResult {
    /// The chain.
    pub id: String,
    /// Completed jobs.
    pub jobs: u64,
    /// Releases that were left out because the job before was still running.
    pub skipped: u64,
    /// Jobs that were still running at the end.
    pub unfinished: u64,
    /// Missed deadlines.
    pub misses: u64,
    /// Response times, in order of release.
    pub response_us: Vec<f64>,
    /// The slowest of them.
    pub slowest: Option<Slowest>,
}

/// Parts of the response time of a chain's slowest job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// The number of its release, from 0.
    pub job: u64,
    /// From its release to its end: the sum of all below.
    pub response_us: f64,
    /// It waited until a callback of it ran.
    pub waiting_us: f64,
    /// Its callbacks ran, or their core ran something more urgent.
    pub computing_us: f64,
    /// From submissions until the server took them.
    pub sending_us: f64,
    /// From then, until the accelerator began.
    pub queued_us: f64,
    /// Until the accelerator had finished, what came in between included.
    pub working_us: f64,
    /// Until the callback went on.
    pub answering_us: f64,
}

impl Slowest {
    /// The parts that the response time is made of, with names.
    pub fn parts(&self) -> [(&'static str, f64); 6] {
        [
            ("until it ran", self.waiting_us),
            ("computing", self.computing_us),
            ("to the server", self.sending_us),
            ("queued", self.queued_us),
            ("on the accelerator", self.working_us),
            ("answered", self.answering_us),
        ]
    }
}

impl ChainsRun {
    /// The chain with the highest priority whose deadline counts; where none counts, the chain
    /// with the highest priority.
    pub fn most_critical(&self) -> Option<&ChainInfo> {
        self.chains.iter().max_by_key(|chain| (!chain.best_effort, chain.priority))
    }

    /// The results of the policy with this name.
    pub fn policy(&self, name: &str) -> Option<&PolicyRun> {
        self.policies.iter().find(|run| run.policy == name)
    }
}

impl PolicyRun {
    /// The result of the chain with this name.
    pub fn chain(&self, id: &str) -> Option<&ChainResult> {
        self.chains.iter().find(|chain| chain.id == id)
    }
}

impl ChainResult {
    /// Order statistics of the response times; none where there are none.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.response_us)
    }

    /// "3 skipped, 1 unfinished", or nothing where every release became a completed job.
    fn left_out(&self) -> Option<String> {
        match (self.skipped, self.unfinished) {
            (0, 0) => None,
            (skipped, 0) => Some(format!("{skipped} skipped")),
            (0, unfinished) => Some(format!("{unfinished} unfinished")),
            (skipped, unfinished) => Some(format!("{skipped} skipped, {unfinished} unfinished")),
        }
    }
}

/// Returns true if a response was longer than the guaranteed one. Only [`PRIORITY`] is guaranteed.
fn over_bound(policy: &str, chain: &ChainInfo, summary: Option<Summary>) -> bool {
    match (chain.bound_us, summary) {
        (Some(bound_us), Some(summary)) => policy == PRIORITY && summary.max > bound_us,
        _ => false,
    }
}
