//! Check that a trace keeps to the rules of the model, judged from the trace alone.
//!
//! Nothing here shares code with the simulator. A span in which an executor wants a resource is
//! walked along what the resource did: it must be busy all the time, and only with what goes
//! first. Ties are left open: what happens at one instant may have happened in any order.

use super::trace::{CallbackRun, Doing, Interval, Request, Resource, Trace};
use super::{Execution, Kappa};
use crate::{System, Wait};
use std::collections::HashMap;

/// A rule that a trace breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {at_ns} ns: {what}")]
pub struct Violation {
    /// Instant at which the rule is broken.
    pub at_ns: u64,
    /// The rule, and the jobs or resources that break it.
    pub what: String,
}

type Verdict = Result<(), Violation>;

impl Trace {
    /// Checks that all jobs ended with exactly their work done, that nothing overlaps that must
    /// not, that what must not be preempted was not, and that priorities were obeyed everywhere.
    ///
    /// # Errors
    /// [`Violation`] names the first rule that is broken.
    pub fn check(&self, system: &System) -> Verdict {
        let check = Check::new(self, system);
        check.jobs()?;
        check.callbacks()?;
        check.requests()?;
        check.no_overlap()?;
        check.executors()?;
        check.cores()?;
        check.buckets()?;
        check.devices()?;
        check.switches()
    }
}

fn ensure(holds: bool, at_ns: u64, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Violation { at_ns, what: what() }) }
}

/// Chain, job and callback.
type JobCallback = (usize, u64, usize);

struct Check<'t> {
    trace: &'t Trace,
    system: &'t System,
    /// Intervals of each resource, in order.
    did: HashMap<Resource, Vec<Interval>>,
    callbacks: HashMap<JobCallback, CallbackRun>,
    requests: HashMap<JobCallback, Vec<Request>>,
    /// Callbacks that each executor ran, in order of their start.
    runs: Vec<Vec<CallbackRun>>,
}

impl<'t> Check<'t> {
    fn new(trace: &'t Trace, system: &'t System) -> Check<'t> {
        let mut did: HashMap<Resource, Vec<Interval>> = HashMap::new();
        for interval in &trace.intervals {
            did.entry(interval.resource).or_default().push(*interval);
        }
        let mut callbacks = HashMap::new();
        let mut runs = vec![Vec::new(); system.executors.len()];
        for run in &trace.callbacks {
            callbacks.insert((run.chain, run.job, run.callback), *run);
            runs[run.executor].push(*run);
        }
        runs.iter_mut().for_each(|runs| runs.sort_by_key(|run| (run.start_ns, run.end_ns)));
        let mut requests: HashMap<JobCallback, Vec<Request>> = HashMap::new();
        for request in &trace.requests {
            let place = (request.chain, request.job, request.callback);
            requests.entry(place).or_default().push(*request);
        }
        Check { trace, system, did, callbacks, requests, runs }
    }

    fn did(&self, resource: Resource) -> &[Interval] {
        self.did.get(&resource).map_or(&[], Vec::as_slice)
    }

    fn requests_of(&self, run: &CallbackRun) -> &[Request] {
        let place = (run.chain, run.job, run.callback);
        self.requests.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Releases keep their distance, jobs of a chain follow each other, responses are as told.
    fn jobs(&self) -> Verdict {
        for (chain, model) in self.system.chains.iter().enumerate() {
            let mut before: Option<super::Job> = None;
            let mut worst_ns = None;
            for job in self.trace.jobs.iter().filter(|job| job.chain == chain) {
                let at_ns = job.nominal_ns;
                let name = || format!("job {} of chain {chain}", job.job);
                let latest_ns = job.nominal_ns + model.jitter_ns;
                ensure((at_ns..=latest_ns).contains(&job.released_ns), at_ns, || {
                    format!("{} released at {}", name(), job.released_ns)
                })?;
                ensure(job.end_ns < u64::MAX, at_ns, || format!("{} never ended", name()))?;
                let free_ns = before.map_or(0, |before| before.end_ns);
                let distance = before.is_none_or(|b| b.nominal_ns + model.period_ns <= at_ns);
                ensure(distance, at_ns, || format!("{} comes too early", name()))?;
                let begin_ns = job.released_ns.max(free_ns);
                let first = self.callbacks.get(&(chain, job.job, 0));
                ensure(first.is_some_and(|run| run.ready_ns == begin_ns), begin_ns, || {
                    format!("{} did not begin here", name())
                })?;
                worst_ns = worst_ns.max(Some(job.end_ns - job.nominal_ns));
                before = Some(*job);
            }
            let told_ns = self.trace.outcome.chains[chain].worst_ns;
            ensure(told_ns == worst_ns, 0, || {
                format!("chain {chain} responded in {worst_ns:?}, not {told_ns:?}")
            })?;
        }
        Ok(())
    }

    /// Callbacks of a job follow each other, and each computes for exactly its time.
    fn callbacks(&self) -> Verdict {
        let mut computed: HashMap<JobCallback, u64> = HashMap::new();
        for interval in &self.trace.intervals {
            if matches!(interval.resource, Resource::Core(_)) && interval.doing == Doing::Run {
                let place = (interval.chain, interval.job, interval.callback);
                *computed.entry(place).or_default() += interval.end_ns - interval.start_ns;
            }
        }
        for run in &self.trace.callbacks {
            let name = || format!("callback {} of chain {}", run.callback, run.chain);
            let place = (run.chain, run.job, run.callback);
            let computed_ns = computed.get(&place).copied().unwrap_or(0);
            ensure(computed_ns == run.cpu_ns, run.start_ns, || {
                format!("{} computed for {computed_ns}, not {}", name(), run.cpu_ns)
            })?;
            let model = &self.system.chains[run.chain].callbacks[run.callback];
            let requests = model.segments.len() as u64;
            let most_ns = model.cpu.max_ns + requests * self.system.epsilon_ns;
            ensure((model.cpu.min_ns..=most_ns).contains(&run.cpu_ns), run.start_ns, || {
                format!("{} was given {}", name(), run.cpu_ns)
            })?;
            let is_worst = self.trace.scenario.chains[run.chain].execution == Execution::Worst;
            ensure(!is_worst || run.cpu_ns == most_ns, run.start_ns, || {
                format!("{} was not given the greatest time", name())
            })?;
            self.follows(run)?;
        }
        Ok(())
    }

    /// The callback was ready when the one before it had ended and the chain had arrived.
    fn follows(&self, run: &CallbackRun) -> Verdict {
        let ordered = run.ready_ns <= run.start_ns && run.start_ns <= run.end_ns;
        ensure(ordered, run.ready_ns, || format!("disordered: {run:?}"))?;
        if run.callback == 0 {
            return Ok(());
        }
        let before = self.callbacks.get(&(run.chain, run.job, run.callback - 1));
        let hop_ns = |executor| if executor == run.executor { 0 } else { self.system.hop_ns };
        let is_next = before.is_some_and(|b| b.end_ns + hop_ns(b.executor) == run.ready_ns);
        ensure(is_next, run.ready_ns, || format!("not right after the one before: {run:?}"))
    }

    /// Requests of a callback follow each other, with the processor time that lies before each,
    /// and each is served for exactly its time.
    fn requests(&self) -> Verdict {
        for run in &self.trace.callbacks {
            let model = &self.system.chains[run.chain].callbacks[run.callback];
            let requests = self.requests_of(run);
            ensure(requests.len() == model.segments.len(), run.start_ns, || {
                format!("{} requests, not {}", requests.len(), model.segments.len())
            })?;
            let mut since_ns = run.start_ns;
            for (request, segment) in requests.iter().zip(&model.segments) {
                let at_ns = request.asked_ns;
                let ordered = since_ns <= at_ns
                    && at_ns <= request.start_ns
                    && request.start_ns <= request.end_ns
                    && request.end_ns <= run.end_ns;
                ensure(ordered, at_ns, || format!("disordered: {request:?}"))?;
                let core = Resource::Core(self.system.executors[run.executor].core);
                let before_ns = self.spent(core, request, Doing::Run, since_ns, request.asked_ns);
                ensure(before_ns >= segment.cpu_before_ns, at_ns, || {
                    format!("computed for {before_ns} before {request:?}")
                })?;
                self.served(request, segment.exec)?;
                since_ns = request.end_ns;
            }
        }
        Ok(())
    }

    fn served(&self, request: &Request, exec: crate::Span) -> Verdict {
        let at_ns = request.asked_ns;
        let device = Resource::Accelerator(request.accelerator);
        let served_ns = self.spent(device, request, Doing::Run, request.start_ns, request.end_ns);
        ensure(served_ns == request.time_ns, at_ns, || {
            format!("served for {served_ns}: {request:?}")
        })?;
        let users = self.system.chains.iter().filter(|chain| chain.uses(request.accelerator));
        let mut buckets = users.map(|chain| chain.buckets[request.accelerator]);
        let preempts = buckets.any(|bucket| bucket != request.bucket);
        let always = preempts && self.trace.scenario.kappa == Kappa::Worst;
        let overhead_ns = self.system.sigma_ns + if always { 2 * self.system.kappa_ns } else { 0 };
        let allowed = exec.min_ns + overhead_ns..=exec.max_ns + overhead_ns;
        ensure(allowed.contains(&request.time_ns), at_ns, || {
            format!("was given the wrong time: {request:?}")
        })
    }

    /// Time for which a resource worked for the callback of a request between two instants.
    fn spent(
        &self,
        resource: Resource,
        request: &Request,
        doing: Doing,
        from_ns: u64,
        to_ns: u64,
    ) -> u64 {
        let did = self.did(resource);
        let first = did.partition_point(|interval| interval.end_ns <= from_ns);
        let within = did[first..].iter().take_while(|interval| interval.start_ns < to_ns);
        let own = within.filter(|interval| {
            (interval.chain, interval.job, interval.callback)
                == (request.chain, request.job, request.callback)
                && interval.doing == doing
        });
        own.map(|interval| interval.end_ns.min(to_ns) - interval.start_ns.max(from_ns)).sum()
    }

    /// A resource does one thing at a time, and only inside of the callback or request it is for.
    fn no_overlap(&self) -> Verdict {
        for did in self.did.values() {
            for pair in did.windows(2) {
                ensure(pair[0].end_ns <= pair[1].start_ns, pair[1].start_ns, || {
                    format!("overlap: {:?} and {:?}", pair[0], pair[1])
                })?;
            }
        }
        for interval in &self.trace.intervals {
            let run = self.callbacks.get(&(interval.chain, interval.job, interval.callback));
            let is_inside = run.is_some_and(|run| self.is_inside(interval, run));
            ensure(is_inside, interval.start_ns, || format!("out of place: {interval:?}"))?;
        }
        Ok(())
    }

    fn is_inside(&self, interval: &Interval, run: &CallbackRun) -> bool {
        let within = |from_ns, to_ns| from_ns <= interval.start_ns && interval.end_ns <= to_ns;
        let request = interval.segment.and_then(|segment| self.requests_of(run).get(segment));
        let here = interval.executor == run.executor && within(run.start_ns, run.end_ns);
        let spins = self.system.chains[run.chain].wait == Wait::Spin;
        here && match (interval.resource, interval.doing, request) {
            (Resource::Core(core), Doing::Run, None) => {
                let waits =
                    |r: &Request| r.asked_ns.max(interval.start_ns) < r.end_ns.min(interval.end_ns);
                core == self.system.executors[run.executor].core
                    && !self.requests_of(run).iter().any(waits)
            }
            (Resource::Core(core), Doing::Spin, Some(request)) => {
                core == self.system.executors[run.executor].core
                    && spins
                    && within(request.asked_ns, request.end_ns)
            }
            (Resource::Accelerator(_), Doing::Run | Doing::Switch, Some(request)) => {
                within(request.start_ns, request.end_ns)
            }
            _ => false,
        }
    }

    /// An executor runs one callback at a time, and takes the one of the highest chain.
    fn executors(&self) -> Verdict {
        for runs in &self.runs {
            for pair in runs.windows(2) {
                ensure(pair[0].end_ns <= pair[1].start_ns, pair[1].start_ns, || {
                    format!("one executor ran both {:?} and {:?}", pair[0], pair[1])
                })?;
            }
            for (place, taken) in runs.iter().enumerate() {
                let priority = |run: &CallbackRun| self.system.chains[run.chain].priority;
                let better = runs[place + 1..].iter().find(|other| {
                    other.ready_ns < taken.start_ns
                        && taken.start_ns < other.start_ns
                        && priority(other) > priority(taken)
                });
                ensure(better.is_none(), taken.start_ns, || {
                    format!("took {taken:?} rather than {better:?}")
                })?;
            }
        }
        Ok(())
    }

    /// An executor that wants its core has it, or a higher executor has.
    fn cores(&self) -> Verdict {
        for (executor, model) in self.system.executors.iter().enumerate() {
            let resource = Resource::Core(model.core);
            let goes_first = |interval: &Interval| {
                let other = self.system.executors[interval.executor].priority;
                interval.executor == executor || other > model.priority || model.priority == 0
            };
            let busy: Vec<(u64, u64)> =
                self.runs[executor].iter().map(|run| (run.start_ns, run.end_ns)).collect();
            for run in &self.runs[executor] {
                let suspends = self.system.chains[run.chain].wait == Wait::Suspend;
                let requests = self.requests_of(run).iter().filter(|_| suspends);
                let waits: Vec<(u64, u64)> =
                    requests.map(|request| (request.asked_ns, request.end_ns)).collect();
                let active = gaps((run.start_ns, run.end_ns), &waits);
                let waiting = gaps((run.ready_ns, run.start_ns), &busy);
                for span in active.into_iter().chain(waiting) {
                    self.walk(resource, span, goes_first)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that a bucket starts one request at a time, the one of the highest chain.
    fn buckets(&self) -> Verdict {
        for taken in &self.trace.requests {
            let at_ns = taken.start_ns;
            let priority = |request: &Request| self.system.chains[request.chain].priority;
            let wrong = self.trace.requests.iter().find(|other| {
                (other.accelerator, other.bucket) == (taken.accelerator, taken.bucket)
                    && other.asked_ns < at_ns
                    && other.end_ns > at_ns
                    && other.start_ns != at_ns
                    && (other.start_ns < at_ns || priority(other) > priority(taken))
            });
            ensure(wrong.is_none(), at_ns, || format!("started {taken:?} in spite of {wrong:?}"))?;
        }
        Ok(())
    }

    /// While a request is pending its device serves it, or its bucket, or a higher one, or it
    /// switches.
    fn devices(&self) -> Verdict {
        for request in &self.trace.requests {
            let resource = Resource::Accelerator(request.accelerator);
            let goes_first = |interval: &Interval| {
                let bucket = self.system.chains[interval.chain].buckets[request.accelerator];
                let is_started = interval.start_ns >= request.start_ns;
                let had_begun = interval.start_ns <= request.asked_ns;
                interval.chain == request.chain
                    || bucket > request.bucket
                    || bucket == request.bucket && !is_started
                    || interval.doing == Doing::Switch && had_begun
            };
            self.walk(resource, (request.asked_ns, request.end_ns), goes_first)?;
        }
        Ok(())
    }

    /// A device switches for exactly `kappa`, where a request continues or starts over a lower
    /// one, and nowhere else.
    fn switches(&self) -> Verdict {
        let kappa_ns = self.system.kappa_ns;
        let is_physical = self.trace.scenario.kappa == Kappa::Physical && kappa_ns > 0;
        for accelerator in 0..self.system.accelerators.len() {
            let did = self.did(Resource::Accelerator(accelerator));
            for (place, interval) in did.iter().enumerate() {
                let at_ns = interval.start_ns;
                let before = place.checked_sub(1).map(|before| did[before]);
                let is_switched = before.is_some_and(|before| {
                    before.doing == Doing::Switch
                        && before.end_ns == at_ns
                        && before.chain == interval.chain
                });
                if interval.doing == Doing::Switch {
                    let length_ns = interval.end_ns - at_ns;
                    ensure(is_physical && length_ns == kappa_ns, at_ns, || {
                        format!("switched for {length_ns}")
                    })?;
                }
                let is_begun = interval.doing == Doing::Switch || !is_switched;
                if is_physical && is_begun {
                    let needed = self.needs_switch(interval);
                    let switches = interval.doing == Doing::Switch;
                    ensure(needed.is_none_or(|needed| needed == switches), at_ns, || {
                        format!("{interval:?} with a switch: {switches}, needed: {needed:?}")
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if the device has to switch before it turns to the request of this interval.
    /// None where it depends on the order within one instant.
    fn needs_switch(&self, interval: &Interval) -> Option<bool> {
        let at_ns = interval.start_ns;
        let run = self.callbacks.get(&(interval.chain, interval.job, interval.callback))?;
        let own = self.requests_of(run).get(interval.segment?)?;
        if own.start_ns < at_ns {
            return Some(true);
        }
        let lower = self.trace.requests.iter().filter(|other| {
            other.accelerator == own.accelerator
                && other.bucket < own.bucket
                && other.start_ns <= at_ns
                && other.end_ns >= at_ns
        });
        let surely = |other: &&Request| other.start_ns < at_ns && other.end_ns > at_ns;
        let lower: Vec<&Request> = lower.collect();
        match (lower.iter().any(surely), lower.is_empty()) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    /// The resource is busy all through the span, and only with what goes first.
    fn walk(
        &self,
        resource: Resource,
        (mut at_ns, end_ns): (u64, u64),
        goes_first: impl Fn(&Interval) -> bool,
    ) -> Verdict {
        let did = self.did(resource);
        let first = did.partition_point(|interval| interval.end_ns <= at_ns);
        for interval in &did[first..] {
            if at_ns >= end_ns {
                return Ok(());
            }
            ensure(interval.start_ns <= at_ns, at_ns, || format!("{resource:?} rests"))?;
            ensure(goes_first(interval), at_ns, || format!("out of turn: {interval:?}"))?;
            at_ns = interval.end_ns;
        }
        ensure(at_ns >= end_ns, at_ns, || format!("{resource:?} rests"))
    }
}

/// Returns the parts of a span that lie in none of these others, which are in order.
fn gaps((mut from_ns, to_ns): (u64, u64), others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    for &(start_ns, end_ns) in others {
        if start_ns > from_ns && start_ns.min(to_ns) > from_ns {
            gaps.push((from_ns, start_ns.min(to_ns)));
        }
        from_ns = from_ns.max(end_ns);
    }
    if from_ns < to_ns {
        gaps.push((from_ns, to_ns));
    }
    gaps
}
