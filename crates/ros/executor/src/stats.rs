//! Statistics of an executor and its callbacks.

use crate::Kind;

/// Executions whose times are kept one by one; memory for them is taken beforehand. Later ones
/// still count in sums and maxima.
const MAX_SAMPLES: usize = 1 << 16;

/// Times of one execution of a callback, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time from the nominal release, or the arrival of the message, to the end.
    pub response_ns: u64,
    /// Time from the start to the end: preemption in between is part of it, and so is the wait for
    /// an accelerator.
    pub execution_ns: u64,
}

/// Statistics of one callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackReport {
    /// Its name.
    pub name: String,
    /// Its class.
    pub kind: Kind,
    /// Its priority.
    pub priority: u32,
    /// Number of its executions.
    pub count: u64,
    /// Messages that others replaced before they were served; missed releases of a timer.
    pub dropped: u64,
    /// The longest response.
    pub response_max_ns: u64,
    /// The sum of all responses.
    pub response_total_ns: u64,
    /// The longest execution.
    pub execution_max_ns: u64,
    /// The sum of all executions.
    pub execution_total_ns: u64,
    /// The first executions one by one.
    pub samples: Vec<Sample>,
}

impl CallbackReport {
    pub(crate) fn new(name: &str, kind: Kind, priority: u32) -> CallbackReport {
        CallbackReport {
            name: name.into(),
            kind,
            priority,
            count: 0,
            dropped: 0,
            response_max_ns: 0,
            response_total_ns: 0,
            execution_max_ns: 0,
            execution_total_ns: 0,
            samples: Vec::with_capacity(MAX_SAMPLES),
        }
    }

    pub(crate) fn add(&mut self, ready_ns: u64, start_ns: u64, end_ns: u64) {
        let response_ns = end_ns.saturating_sub(ready_ns);
        let execution_ns = end_ns.saturating_sub(start_ns);
        self.count += 1;
        self.response_max_ns = self.response_max_ns.max(response_ns);
        self.response_total_ns += response_ns;
        self.execution_max_ns = self.execution_max_ns.max(execution_ns);
        self.execution_total_ns += execution_ns;
        if self.samples.len() < MAX_SAMPLES {
            self.samples.push(Sample { response_ns, execution_ns });
        }
    }
}

/// Statistics of an executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its callbacks, in order of registration.
    pub callbacks: Vec<CallbackReport>,
    /// Message about a refused real-time priority, in words that say how to grant it; the threads
    /// run at normal priority.
    pub refused: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_counts_from_the_release_and_execution_from_the_start() {
        let mut report = CallbackReport::new("a", Kind::Timer, 1);
        report.add(100, 150, 170);
        report.add(200, 200, 230);
        let sample = |response_ns, execution_ns| Sample { response_ns, execution_ns };
        assert_eq!(report.samples, [sample(70, 20), sample(30, 30)]);
        assert_eq!((report.count, report.response_max_ns, report.response_total_ns), (2, 70, 100));
        assert_eq!((report.execution_max_ns, report.execution_total_ns), (30, 50));
    }
}
