//! Cores and executors: who has a core, which callback an executor takes, what a step leads to.
//!
//! A core runs the first of its executors that wants it: one that computes, spins, or is free
//! while a callback is ready. An executor takes a callback only while it has its core, so a
//! preempted one takes none. What it takes it keeps until the callback ends.

use super::simulator::{NEVER, Phase, Simulator};
use super::trace::{Doing, Resource};

impl Simulator {
    /// Gives the core to the first of its executors that wants it.
    pub(super) fn decide_core(&mut self, core: usize) {
        self.account_core(core);
        let first = self.cores[core].executors.iter().copied().find(|&e| self.wants_core(e));
        self.cores[core].runs = first;
        self.alarms[core] = match first {
            Some(executor) => self.proceed(executor),
            None => NEVER,
        };
    }

    fn wants_core(&self, executor: usize) -> bool {
        let process = &self.processes[executor];
        match process.phase {
            Phase::Free => process.ready > 0,
            Phase::Computes => true,
            Phase::Requests => self.plan.chains[process.chain].spins,
        }
    }

    /// The executor has its core: takes a callback if it is free. When its step will have ended.
    fn proceed(&mut self, executor: usize) -> u64 {
        if self.processes[executor].phase == Phase::Free {
            self.take_callback(executor);
        }
        let process = &self.processes[executor];
        match process.phase {
            Phase::Computes => self.now_ns.saturating_add(process.left_ns),
            Phase::Free | Phase::Requests => NEVER,
        }
    }

    fn take_callback(&mut self, executor: usize) {
        let is_ready = |&chain: &usize| {
            let progress = &self.chains[chain];
            progress.is_ready && self.plan.callbacks[progress.callback].executor == executor
        };
        let chains = &self.plan.executors[executor].chains;
        let chain = chains.iter().copied().find(is_ready).expect("a callback is ready here");
        self.chains[chain].is_ready = false;
        self.chains[chain].step = 0;
        let process = &mut self.processes[executor];
        process.ready -= 1;
        process.chain = chain;
        if let Some(recorder) = &mut self.recorder {
            recorder.started(chain, self.now_ns);
        }
        self.begin_step(executor);
    }

    /// The executor's callback goes on with processor time.
    pub(super) fn begin_step(&mut self, executor: usize) {
        let process = &mut self.processes[executor];
        let progress = &self.chains[process.chain];
        let step = self.plan.callbacks[progress.callback].first_step + progress.step;
        process.phase = Phase::Computes;
        process.left_ns = self.demand.steps_ns[step];
    }

    /// The executor that has the core has done its step: it asks for an accelerator, or its
    /// callback ends.
    pub(super) fn end_step(&mut self, core: usize) {
        self.account_core(core);
        self.alarms[core] = NEVER;
        self.cores[core].is_stale = true;
        let executor = self.cores[core].runs.expect("only a running executor ends a step");
        let progress = &self.chains[self.processes[executor].chain];
        let callback = &self.plan.callbacks[progress.callback];
        if progress.step == callback.requests.len() {
            self.end_callback(executor);
        } else {
            let request = callback.requests.start + progress.step;
            self.begin_request(executor, request);
        }
    }

    /// Takes the time that the core has spent from what its executor has left.
    pub(super) fn account_core(&mut self, core: usize) {
        let state = &mut self.cores[core];
        let since_ns = std::mem::replace(&mut state.since_ns, self.now_ns);
        let Some(executor) = state.runs else { return };
        let process = &mut self.processes[executor];
        let doing = match process.phase {
            Phase::Computes => {
                process.left_ns -= self.now_ns - since_ns;
                Doing::Run
            }
            Phase::Requests => Doing::Spin,
            Phase::Free => return,
        };
        if self.recorder.is_some() {
            let resource = Resource::Core(self.plan.cores[core].id);
            self.write_interval(resource, executor, doing, since_ns);
        }
    }
}
