//! All that happened in one simulation, for pictures and for [`Trace::check`].

use super::simulator::{NEVER, Phase, Simulator};
use super::{Scenario, ScheduleOutcome};
use std::collections::VecDeque;

/// All that happened in one simulation. Every list is in the order of its first instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Scenario that was simulated.
    pub scenario: Scenario,
    /// The responses.
    pub outcome: ScheduleOutcome,
    /// Every job.
    pub jobs: Vec<Job>,
    /// Every callback of every job, from when it was ready.
    pub callbacks: Vec<CallbackRun>,
    /// Every request of every job.
    pub requests: Vec<Request>,
    /// Activity of cores and accelerators. Outside of the intervals they did nothing.
    pub intervals: Vec<Interval>,
}

/// One job of a chain. Instants that were not reached are [`u64::MAX`], here and below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The chain.
    pub chain: usize,
    /// Its number, from 0.
    pub job: u64,
    /// Nominal release; responses count from it.
    pub nominal_ns: u64,
    /// Release.
    pub released_ns: u64,
    /// End of its last callback.
    pub end_ns: u64,
}

/// One callback of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackRun {
    /// The chain.
    pub chain: usize,
    /// The number of its job.
    pub job: u64,
    /// An index of [`crate::Chain::callbacks`].
    pub callback: usize,
    /// Executor on which it runs.
    pub executor: usize,
    /// Time from which its executor could have taken it.
    pub ready_ns: u64,
    /// Time at which its executor took it.
    pub start_ns: u64,
    /// Time at which it ended.
    pub end_ns: u64,
    /// Its processor time, with `epsilon`.
    pub cpu_ns: u64,
}

/// One request of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The chain.
    pub chain: usize,
    /// The number of its job.
    pub job: u64,
    /// An index of [`crate::Chain::callbacks`].
    pub callback: usize,
    /// An index of [`crate::Callback::segments`].
    pub segment: usize,
    /// The accelerator.
    pub accelerator: usize,
    /// The bucket on it.
    pub bucket: u32,
    /// Its time on the accelerator, with `sigma`, and with `kappa` where that always counts.
    pub time_ns: u64,
    /// Time at which the callback asked.
    pub asked_ns: u64,
    /// Time at which the device first turned to it.
    pub start_ns: u64,
    /// Time at which the device had done it.
    pub end_ns: u64,
}

/// Activity of one core or accelerator for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The core or accelerator.
    pub resource: Resource,
    /// Its activity.
    pub doing: Doing,
    /// The executor that ran, or whose request was served.
    pub executor: usize,
    /// The chain that it ran for.
    pub chain: usize,
    /// The number of the chain's job.
    pub job: u64,
    /// An index of [`crate::Chain::callbacks`].
    pub callback: usize,
    /// The request that was served or waited for, an index of [`crate::Callback::segments`].
    pub segment: Option<usize>,
    /// Start of the interval.
    pub start_ns: u64,
    /// End of the interval; later than `start_ns`.
    pub end_ns: u64,
}

/// Core or accelerator that does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// A core, by the number that the system gives it.
    Core(u32),
    /// An accelerator, an index of [`crate::System::accelerators`].
    Accelerator(usize),
}

/// Activity of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Work of a callback or a request.
    Run,
    /// A core: nothing but waiting for an accelerator.
    Spin,
    /// An accelerator: changing to a request.
    Switch,
}

/// Writes a trace down.
pub(super) struct Recorder {
    trace: Trace,
    open: Vec<Open>,
    /// The last interval of each resource.
    last: Vec<(Resource, usize)>,
}

/// Places of what has not ended yet, for one chain.
#[derive(Default, Clone)]
struct Open {
    jobs: VecDeque<usize>,
    released: u64,
    callback: usize,
    request: usize,
}

impl Recorder {
    pub(super) fn new(scenario: &Scenario) -> Recorder {
        let trace = Trace {
            scenario: scenario.clone(),
            outcome: ScheduleOutcome::default(),
            jobs: Vec::new(),
            callbacks: Vec::new(),
            requests: Vec::new(),
            intervals: Vec::new(),
        };
        Recorder { trace, open: vec![Open::default(); scenario.chains.len()], last: Vec::new() }
    }

    pub(super) fn finish(mut self, outcome: &ScheduleOutcome) -> Trace {
        self.trace.outcome.clone_from(outcome);
        self.trace.intervals.sort_by_key(|interval| (interval.start_ns, interval.resource));
        self.trace
    }

    pub(super) fn released(&mut self, chain: usize, nominal_ns: u64, released_ns: u64) {
        let open = &mut self.open[chain];
        let job = open.released;
        open.released += 1;
        open.jobs.push_back(self.trace.jobs.len());
        self.trace.jobs.push(Job { chain, job, nominal_ns, released_ns, end_ns: NEVER });
    }

    pub(super) fn job_ended(&mut self, chain: usize, end_ns: u64) {
        if let Some(job) = self.open[chain].jobs.pop_front() {
            self.trace.jobs[job].end_ns = end_ns;
        }
    }

    pub(super) fn ready(&mut self, run: CallbackRun) {
        self.open[run.chain].callback = self.trace.callbacks.len();
        self.trace.callbacks.push(run);
    }

    pub(super) fn started(&mut self, chain: usize, start_ns: u64) {
        self.trace.callbacks[self.open[chain].callback].start_ns = start_ns;
    }

    pub(super) fn ended(&mut self, chain: usize, end_ns: u64) {
        self.trace.callbacks[self.open[chain].callback].end_ns = end_ns;
    }

    pub(super) fn asked(&mut self, request: Request) {
        self.open[request.chain].request = self.trace.requests.len();
        self.trace.requests.push(request);
    }

    pub(super) fn request_started(&mut self, chain: usize, start_ns: u64) {
        self.trace.requests[self.open[chain].request].start_ns = start_ns;
    }

    pub(super) fn request_ended(&mut self, chain: usize, end_ns: u64) {
        self.trace.requests[self.open[chain].request].end_ns = end_ns;
    }

    /// Adds an interval, or makes the resource's last one longer.
    fn interval(&mut self, interval: Interval) {
        let last = self.last.iter().position(|(resource, _)| *resource == interval.resource);
        if let Some(place) = last {
            let before = &mut self.trace.intervals[self.last[place].1];
            let start_ns = before.start_ns;
            if before.end_ns == interval.start_ns
                && *before == (Interval { start_ns, end_ns: before.end_ns, ..interval })
            {
                before.end_ns = interval.end_ns;
                return;
            }
            self.last[place].1 = self.trace.intervals.len();
        } else {
            self.last.push((interval.resource, self.trace.intervals.len()));
        }
        self.trace.intervals.push(interval);
    }
}

impl Simulator {
    /// Writes down what a resource has done for an executor until now.
    pub(super) fn write_interval(
        &mut self,
        resource: Resource,
        executor: usize,
        doing: Doing,
        start_ns: u64,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        if start_ns == self.now_ns {
            return;
        }
        let process = &self.processes[executor];
        let progress = &self.chains[process.chain];
        recorder.interval(Interval {
            resource,
            doing,
            executor,
            chain: process.chain,
            job: self.outcome.chains[process.chain].jobs,
            callback: progress.callback - self.plan.chains[process.chain].callbacks.start,
            segment: (process.phase == Phase::Requests).then_some(progress.step),
            start_ns,
            end_ns: self.now_ns,
        });
    }
}
