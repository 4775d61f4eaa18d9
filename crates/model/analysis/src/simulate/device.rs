//! Accelerators: which request a device serves.
//!
//! A device serves the request of the largest bucket; inside a bucket one that has started, or
//! else the one of the highest chain. Priorities are unique and a chain has one request at most,
//! so arrival never decides.

use super::simulator::{NEVER, Phase, Simulator};
use super::trace::{Doing, Resource};
use super::{Kappa, Request};

/// The lower half of a request's rank is the chain's priority; the upper one is the bucket.
const BUCKET: u32 = 32;

impl Simulator {
    /// The executor's callback asks for its accelerator.
    pub(super) fn begin_request(&mut self, executor: usize, request: usize) {
        let planned = &self.plan.requests[request];
        let process = &mut self.processes[executor];
        process.phase = Phase::Requests;
        process.left_ns = self.demand.requests_ns[request];
        (process.device, process.rank) = (planned.device, planned.rank);
        process.is_started = false;
        self.devices[planned.device].is_stale = true;
        if let Some(recorder) = &mut self.recorder {
            let chain = process.chain;
            let progress = &self.chains[chain];
            recorder.asked(Request {
                chain,
                job: self.outcome.chains[chain].jobs,
                callback: progress.callback - self.plan.chains[chain].callbacks.start,
                segment: progress.step,
                accelerator: planned.device,
                bucket: (planned.rank >> BUCKET) as u32,
                time_ns: process.left_ns,
                asked_ns: self.now_ns,
                start_ns: NEVER,
                end_ns: NEVER,
            });
        }
    }

    /// Gives the device to the request that is due. A switch that has begun is ended first.
    pub(super) fn decide_device(&mut self, device: usize) {
        if self.devices[device].switches {
            return;
        }
        let Choice { first, is_preempted } = self.choose(device);
        if first == self.devices[device].serves {
            return;
        }
        self.account_device(device);
        self.devices[device].serves = first;
        let alarm = self.cores.len() + device;
        self.alarms[alarm] = match first {
            None => NEVER,
            Some(executor) => {
                let resumes = self.start(executor);
                let switches = self.scenario.kappa == Kappa::Physical
                    && self.plan.kappa_ns > 0
                    && (resumes || is_preempted);
                self.devices[device].switches = switches;
                let takes_ns =
                    if switches { self.plan.kappa_ns } else { self.processes[executor].left_ns };
                self.now_ns.saturating_add(takes_ns)
            }
        };
    }

    /// The request that should have the device.
    fn choose(&self, device: usize) -> Choice {
        let mut first: Option<(u64, bool, u64)> = None;
        let mut lowest_started = u64::MAX;
        let mut choice = Choice { first: None, is_preempted: false };
        for &executor in &self.plan.devices[device].clients {
            let process = &self.processes[executor];
            if process.phase != Phase::Requests || process.device != device {
                continue;
            }
            let bucket = process.rank >> BUCKET;
            if process.is_started {
                lowest_started = lowest_started.min(bucket);
            }
            let key = Some((bucket, process.is_started, process.rank));
            if key > first {
                first = key;
                choice.first = Some(executor);
            }
        }
        choice.is_preempted = first.is_some_and(|(bucket, ..)| lowest_started < bucket);
        choice
    }

    /// Starts the executor's request. True where it had started before.
    fn start(&mut self, executor: usize) -> bool {
        let process = &mut self.processes[executor];
        let resumes = std::mem::replace(&mut process.is_started, true);
        if !resumes {
            if let Some(recorder) = &mut self.recorder {
                recorder.request_started(process.chain, self.now_ns);
            }
        }
        resumes
    }

    /// The device has done its switch or its request.
    pub(super) fn end_service(&mut self, device: usize) {
        self.account_device(device);
        let state = &mut self.devices[device];
        state.is_stale = true;
        let executor = state.serves.expect("only a request that is served ends");
        let alarm = self.cores.len() + device;
        if std::mem::take(&mut state.switches) {
            self.alarms[alarm] = self.now_ns.saturating_add(self.processes[executor].left_ns);
            return;
        }
        state.serves = None;
        self.alarms[alarm] = NEVER;
        let core = self.plan.executors[executor].core;
        if self.cores[core].runs == Some(executor) {
            // Written down as spinning, before it computes again.
            self.account_core(core);
        }
        self.cores[core].is_stale = true;
        let chain = self.processes[executor].chain;
        if let Some(recorder) = &mut self.recorder {
            recorder.request_ended(chain, self.now_ns);
        }
        self.chains[chain].step += 1;
        self.begin_step(executor);
    }

    /// Takes the time that the device has spent from what its request has left.
    fn account_device(&mut self, device: usize) {
        let state = &mut self.devices[device];
        let since_ns = std::mem::replace(&mut state.since_ns, self.now_ns);
        let Some(executor) = state.serves else { return };
        let doing = if state.switches { Doing::Switch } else { Doing::Run };
        if doing == Doing::Run {
            self.processes[executor].left_ns -= self.now_ns - since_ns;
        }
        if self.recorder.is_some() {
            self.write_interval(Resource::Accelerator(device), executor, doing, since_ns);
        }
    }
}

/// Executor whose request should have a device.
struct Choice {
    first: Option<usize>,
    /// True if a request of a lower bucket is started and unfinished.
    is_preempted: bool,
}
