//! The runs of modules in a trace.

use dataflow::Path;
use dataflow::trace::{Class, Event, Point, RunEnd};
use std::collections::HashMap;

/// A run of a module, or a piece of work ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Its number in the trace.
    pub job: u64,
    /// The module's number; none for work ahead.
    pub module: Option<usize>,
    /// Time at which the message came that its output belongs to.
    pub ready_ns: u64,
    /// Time at which it had a core first.
    pub start_ns: u64,
    /// Time at which it ended.
    pub end_ns: u64,
    /// Time for which it and its pieces had a core.
    pub service_ns: u64,
    /// The frame of what it published last; 0 if it published nothing.
    pub frame: u64,
    /// Path that the run took.
    pub path: Path,
    /// Class under which it ran.
    pub class: Class,
    /// Outcome of the run.
    pub outcome: RunEnd,
}

impl Run {
    /// Time from the message to the end.
    pub fn response_ns(&self) -> u64 {
        self.end_ns - self.ready_ns
    }
}

/// The runs that ended, in the order in which they began.
pub fn runs(events: &[Event]) -> Vec<Run> {
    let mut arrived: HashMap<(u64, usize), u64> = HashMap::new();
    let mut begun: HashMap<u64, Run> = HashMap::new();
    let mut wholes: HashMap<u64, u64> = HashMap::new();
    let mut ended = Vec::new();
    for event in events {
        match event.point {
            Point::Arrived { message, module, kept: true } => {
                arrived.insert((message, module.index()), event.at_ns);
            }
            Point::Start { module, class, path, .. } => {
                let run = Run {
                    job: event.job,
                    module: module.map(|module| module.index()),
                    ready_ns: u64::MAX,
                    start_ns: event.at_ns,
                    end_ns: event.at_ns,
                    service_ns: 0,
                    frame: 0,
                    path,
                    class,
                    outcome: RunEnd::Nothing,
                };
                begun.insert(event.job, run);
            }
            Point::Piece { of, .. } => {
                wholes.insert(event.job, of);
            }
            Point::Read { message } => {
                if let Some(run) = begun.get_mut(&event.job).filter(|run| run.ready_ns == u64::MAX)
                {
                    let came = run.module.and_then(|module| arrived.get(&(message, module)));
                    run.ready_ns = came.copied().unwrap_or(run.start_ns);
                }
            }
            Point::Published { frame, .. } => {
                if let Some(run) = begun.get_mut(&event.job) {
                    run.frame = frame;
                }
            }
            Point::End { outcome, service_ns } => {
                let whole = wholes.get(&event.job).and_then(|whole| begun.get_mut(whole));
                if let Some(whole) = whole {
                    whole.service_ns += service_ns;
                }
                ended.extend(begun.remove(&event.job).map(|run| Run {
                    ready_ns: run.ready_ns.min(run.start_ns),
                    end_ns: event.at_ns,
                    service_ns: run.service_ns + service_ns,
                    outcome,
                    ..run
                }));
            }
            _ => {}
        }
    }
    ended.sort_by_key(|run| (run.start_ns, run.job));
    ended
}
