//! Results from the trace of a drive: how long each module took and waited, how long frames took to
//! become commands, and the critical paths of the worst of them.
//!
//! Filled by `keeptime report` from a trace that `keeptime-lab drive --trace` wrote.

mod flow_json;
mod flow_perfetto;
mod headline;
mod middleware;
mod modules;

pub use flow_json::json;
pub use flow_perfetto::perfetto;
pub use middleware::TopicTimes;
pub use modules::document;

use headline::sentences;

/// A trace of drives of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRun {
    /// The trace.
    pub file: String,
    /// Scenario that was driven.
    pub scenario: String,
    /// The graph that drove.
    pub stack: String,
    /// The command that wrote the trace.
    pub command: String,
    /// One for each policy.
    pub drives: Vec<FlowDrive>,
}

/// One drive.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowDrive {
    /// Policy of the drive.
    pub policy: String,
    /// Time for which the vehicle drove, s.
    pub driven_s: f64,
    /// Events that the trace has lost: its times and paths may be wrong then.
    pub lost: u64,
    /// Its modules, in the graph's order.
    pub modules: Vec<ModuleTimes>,
    /// Its topics, and then its sources, with what their messages took on the way.
    pub topics: Vec<TopicTimes>,
    /// Time of each frame that led to a command, from its capture to that, ms.
    pub frames_ms: Vec<f64>,
    /// Part of each of these times that the middleware took, on the critical path, ms.
    pub carried_ms: Vec<f64>,
    /// Frames that led to none.
    pub unanswered: usize,
    /// The reaction to the hazard, if there was one.
    pub reaction: Option<CriticalPath>,
    /// The frames that took longest, the longest first.
    pub worst: Vec<CriticalPath>,
    /// Number of times that work ahead was there when it was asked for, and number of times that it
    /// was asked for.
    pub ahead: (usize, usize),
    /// Number of times that a guest was let in, and number of times that one wanted in.
    pub guests: (usize, usize),
    /// Number of times that a host found a guest on its core.
    pub overruns: usize,
    /// Times in which each run had a core, in the order of time.
    pub spans: Vec<FlowSpan>,
}

/// Times of a module's runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleTimes {
    /// Its name.
    pub name: String,
    /// Time for which each run had a core, ms.
    pub took_ms: Vec<f64>,
    /// Time for which each run's message had waited when the run began, ms.
    pub waited_ms: Vec<f64>,
    /// Runs on the fast path.
    pub fast: usize,
    /// Runs on other groups' cores.
    pub guests: usize,
    /// Runs that were cancelled.
    pub cancelled: usize,
}

/// The way from what happened to the command, in parts that sum to the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalPath {
    /// The frame that the command was computed from.
    pub frame: u64,
    /// Start, s.
    pub from_s: f64,
    /// Time until the frame came in, ns; from the first frame that showed the hazard to this one.
    pub sensor_ns: u64,
    /// Time until the frame that was reacted to, ns; part of `sensor_ns`.
    pub confirm_ns: u64,
    /// The runs.
    pub steps: Vec<PathStep>,
}

/// A run on a critical path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// Name of the module.
    pub module: String,
    /// Time for which its message waited before it, ns.
    pub waited_ns: u64,
    /// The part of it until the message was in the mailbox, ns.
    pub hop_ns: u64,
    /// Time for which it had a core until it published, ns.
    pub ran_ns: u64,
    /// The part of it that made messages of bytes, ns.
    pub deserialise_ns: u64,
    /// The part of it that made bytes of what it published, ns.
    pub serialise_ns: u64,
    /// Time for which it had no core in between, ns.
    pub preempted_ns: u64,
}

/// A time in which a run had a core.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpan {
    /// The module; none for work ahead.
    pub module: Option<usize>,
    /// The core's group and its number there.
    pub core: (String, u16),
    /// Number of the frame; 0 if nothing was published.
    pub frame: u64,
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// True on the fast path.
    pub fast: bool,
    /// True on another group's core.
    pub guest: bool,
    /// True if the run was cancelled.
    pub cancelled: bool,
}

impl CriticalPath {
    /// Time in modules, ns.
    pub fn module_ns(&self) -> u64 {
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(step.ran_ns))
    }

    /// Time in the modules' own code, ns.
    fn code_ns(&self) -> u64 {
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(step.code_ns()))
    }

    /// Waiting between and inside of them, ns.
    pub fn bubble_ns(&self) -> u64 {
        let bubble_of = |step: &PathStep| step.waited_ns.saturating_add(step.preempted_ns);
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(bubble_of(step)))
    }

    /// Time in the middleware, which is a part of both, ns.
    pub fn middleware_ns(&self) -> u64 {
        let carried_of = |step: &PathStep| {
            step.hop_ns.saturating_add(step.deserialise_ns).saturating_add(step.serialise_ns)
        };
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(carried_of(step)))
    }

    /// The whole, ns.
    pub fn total_ns(&self) -> u64 {
        self.sensor_ns.saturating_add(self.module_ns()).saturating_add(self.bubble_ns())
    }
}

impl PathStep {
    /// Time for which the module's own code had a core, ns.
    fn code_ns(&self) -> u64 {
        self.ran_ns.saturating_sub(self.deserialise_ns.saturating_add(self.serialise_ns))
    }
}

fn ms(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}
