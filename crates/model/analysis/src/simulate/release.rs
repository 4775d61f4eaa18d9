//! Chains: their releases, the jobs that wait, and the way of a job through its callbacks.

use super::ChainOutcome;
use super::draw::{extra_ns, jitter_ns};
use super::simulator::{Event, NEVER, Phase, Simulator};

/// Largest number of jobs of a chain that wait for the one before them. One more, and the chain is
/// overloaded.
pub const MAX_QUEUED: usize = 8;

/// Progress of a chain.
#[derive(Default, Clone)]
pub(super) struct Progress {
    /// Nominal release of the next job.
    pub next_ns: u64,
    /// The number of the next job.
    pub released: u64,
    /// Nominal releases of the job that runs, at the front, and of those that wait for it.
    pub jobs_ns: [u64; MAX_QUEUED + 1],
    /// Number of these jobs.
    pub queued: usize,
    /// Present callback, an index of all callbacks of the plan.
    pub callback: usize,
    /// Number of its steps that are done.
    pub step: usize,
    /// True if the present callback is ready, and not running.
    pub is_ready: bool,
}

impl Simulator {
    pub(super) fn begin_chains(&mut self) {
        self.outcome.chains.clear();
        self.outcome.chains.resize(self.chains.len(), ChainOutcome::default());
        self.responses_ns.iter_mut().for_each(Vec::clear);
        for chain in 0..self.chains.len() {
            let offset_ns = self.scenario.chains[chain].offset_ns;
            self.chains[chain] = Progress { next_ns: offset_ns, ..Progress::default() };
            self.schedule_release(chain);
            if self.scenario.chains[chain].is_fixed() {
                self.demand.draw(&self.plan, &self.scenario, chain, 0);
            }
        }
    }

    /// Sets the alarm of the next release.
    fn schedule_release(&mut self, chain: usize) {
        let progress = &self.chains[chain];
        let most_ns = self.plan.chains[chain].jitter_ns;
        let late_ns = if most_ns == 0 {
            0
        } else {
            jitter_ns(&self.scenario, chain, progress.released, most_ns)
        };
        let alarm = self.alarms_of(Event::Release).start + chain;
        self.alarms[alarm] = if progress.next_ns < self.scenario.horizon_ns {
            progress.next_ns.saturating_add(late_ns).max(self.now_ns)
        } else {
            NEVER
        };
    }

    pub(super) fn release(&mut self, chain: usize) {
        let progress = &mut self.chains[chain];
        if progress.queued == progress.jobs_ns.len() {
            self.outcome.chains[chain].overloaded = true;
            let alarm = self.alarms_of(Event::Release).start + chain;
            self.alarms[alarm] = NEVER;
            return;
        }
        let nominal_ns = progress.next_ns;
        let distance_ns = self.plan.chains[chain].period_ns.saturating_add(extra_ns(
            &self.scenario,
            chain,
            progress.released,
        ));
        progress.jobs_ns[progress.queued] = nominal_ns;
        progress.queued += 1;
        progress.released += 1;
        progress.next_ns = nominal_ns.saturating_add(distance_ns);
        let is_first = progress.queued == 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.released(chain, nominal_ns, self.now_ns);
        }
        self.schedule_release(chain);
        if is_first {
            self.begin_job(chain);
        }
    }

    fn begin_job(&mut self, chain: usize) {
        let job = self.outcome.chains[chain].jobs;
        if !self.scenario.chains[chain].is_fixed() {
            self.demand.draw(&self.plan, &self.scenario, chain, job);
        }
        self.chains[chain].callback = self.plan.chains[chain].callbacks.start;
        self.make_ready(chain);
    }

    /// The chain's present callback can run.
    fn make_ready(&mut self, chain: usize) {
        let progress = &mut self.chains[chain];
        progress.is_ready = true;
        let callback = &self.plan.callbacks[progress.callback];
        self.processes[callback.executor].ready += 1;
        self.cores[self.plan.executors[callback.executor].core].is_stale = true;
        if let Some(recorder) = &mut self.recorder {
            let first = self.plan.chains[chain].callbacks.start;
            let steps = callback.first_step..=callback.first_step + callback.requests.len();
            recorder.ready(super::CallbackRun {
                chain,
                job: self.outcome.chains[chain].jobs,
                callback: progress.callback - first,
                executor: callback.executor,
                ready_ns: self.now_ns,
                start_ns: NEVER,
                end_ns: NEVER,
                cpu_ns: self.demand.steps_ns[steps].iter().sum(),
            });
        }
    }

    /// The chain arrives at the executor of its next part.
    pub(super) fn arrive(&mut self, chain: usize) {
        let alarm = self.alarms_of(Event::Arrival).start + chain;
        self.alarms[alarm] = NEVER;
        self.make_ready(chain);
    }

    /// The executor's callback has ended: the chain goes on to its next one.
    pub(super) fn end_callback(&mut self, executor: usize) {
        let process = &mut self.processes[executor];
        process.phase = Phase::Free;
        let chain = process.chain;
        if let Some(recorder) = &mut self.recorder {
            recorder.ended(chain, self.now_ns);
        }
        let progress = &mut self.chains[chain];
        progress.callback += 1;
        if progress.callback == self.plan.chains[chain].callbacks.end {
            self.end_job(chain);
        } else if self.plan.callbacks[progress.callback].executor == executor
            || self.plan.hop_ns == 0
        {
            self.make_ready(chain);
        } else {
            let alarm = self.alarms_of(Event::Arrival).start + chain;
            self.alarms[alarm] = self.now_ns.saturating_add(self.plan.hop_ns);
        }
    }

    fn end_job(&mut self, chain: usize) {
        let progress = &mut self.chains[chain];
        let release_ns = progress.jobs_ns[0];
        progress.jobs_ns.copy_within(1..progress.queued, 0);
        progress.queued -= 1;
        let waits = progress.queued > 0;
        let response_ns = self.now_ns - release_ns;
        let deadline_ns = self.plan.chains[chain].deadline_ns;
        self.outcome.chains[chain].ended(release_ns, response_ns, deadline_ns);
        self.responses_ns[chain].push(response_ns);
        if let Some(recorder) = &mut self.recorder {
            recorder.job_ended(chain, self.now_ns);
        }
        if waits {
            self.begin_job(chain);
        }
    }

    pub(super) fn count_unfinished(&mut self) {
        for (chain, progress) in self.outcome.chains.iter_mut().zip(&self.chains) {
            chain.unfinished = progress.queued as u64;
        }
    }
}
