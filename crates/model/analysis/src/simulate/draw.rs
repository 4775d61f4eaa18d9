//! The times of one job: how long its work takes, how it is split, when it is released.
//!
//! Every job has its own generator, made from the scenario's seed, the chain and the job's number.
//! So a job keeps its times when something else in the scenario changes, which makes the search
//! for bad schedules a climb instead of a lottery.

use super::plan::{Plan, PlannedCallback};
use super::{Behaviour, Execution, Jitter, Kappa, Release, Scenario, Split};
use crate::Span;
use fastrand::Rng;

/// Generator of the times of a job's work.
const WORK: u64 = 1;
/// Generator of a job's release.
const RELEASE: u64 = 2;

/// Duration of the work of every chain's present job.
#[derive(Default)]
pub(super) struct Demand {
    /// Time of each step of processor time of [`Plan::callbacks`], with its `epsilon`.
    pub steps_ns: Vec<u64>,
    /// Time of each of [`Plan::requests`], with its overheads.
    pub requests_ns: Vec<u64>,
}

impl Behaviour {
    /// Returns true if all jobs of the chain take the same times.
    pub(super) fn is_fixed(&self) -> bool {
        self.execution != Execution::Random && self.split != Split::Random
    }
}

impl Demand {
    pub(super) fn new(plan: &Plan) -> Demand {
        Demand { steps_ns: vec![0; plan.steps()], requests_ns: vec![0; plan.requests.len()] }
    }

    /// Draws the times of a job.
    pub(super) fn draw(&mut self, plan: &Plan, scenario: &Scenario, chain: usize, job: u64) {
        let behaviour = &scenario.chains[chain];
        let mut rng = generator(scenario.seed, WORK, chain, job);
        for callback in &plan.callbacks[plan.chains[chain].callbacks.clone()] {
            self.split_cpu(plan, callback, behaviour, &mut rng);
            self.add_epsilon(plan, callback, behaviour, &mut rng);
            for request in callback.requests.clone() {
                let planned = &plan.requests[request];
                let preempts = plan.devices[planned.device].preempts;
                let switches = if scenario.kappa == Kappa::Worst && preempts { 2 } else { 0 };
                self.requests_ns[request] = time(planned.exec, behaviour.execution, &mut rng)
                    + plan.sigma_ns
                    + switches * plan.kappa_ns;
            }
        }
    }

    fn split_cpu(
        &mut self,
        plan: &Plan,
        callback: &PlannedCallback,
        behaviour: &Behaviour,
        rng: &mut Rng,
    ) {
        let requests = callback.requests.len();
        let steps = &mut self.steps_ns[callback.first_step..=callback.first_step + requests];
        for (step, request) in steps.iter_mut().zip(callback.requests.clone()) {
            *step = plan.requests[request].cpu_before_ns;
        }
        steps[requests] = 0;
        let fixed_ns: u64 = steps.iter().sum();
        let cpu = Span { min_ns: callback.cpu.min_ns.max(fixed_ns), ..callback.cpu };
        let free_ns = time(cpu, behaviour.execution, rng) - fixed_ns;
        match shape(behaviour.split, rng) {
            Split::First => steps[0] += free_ns,
            Split::Last => steps[requests] += free_ns,
            Split::Even => {
                let share_ns = free_ns / steps.len() as u64;
                steps.iter_mut().for_each(|step| *step += share_ns);
                steps[0] += free_ns - share_ns * steps.len() as u64;
            }
            Split::Random => {
                let mut left_ns = free_ns;
                for step in &mut steps[..requests] {
                    let share_ns = rng.u64(..=left_ns);
                    *step += share_ns;
                    left_ns -= share_ns;
                }
                steps[requests] += left_ns;
            }
        }
    }

    fn add_epsilon(
        &mut self,
        plan: &Plan,
        callback: &PlannedCallback,
        behaviour: &Behaviour,
        rng: &mut Rng,
    ) {
        for step in callback.first_step..callback.first_step + callback.requests.len() {
            let epsilon_ns = time(Span::up_to(plan.epsilon_ns), behaviour.execution, rng);
            let before_ns = match shape(behaviour.split, rng) {
                Split::First => epsilon_ns,
                Split::Last => 0,
                Split::Even => epsilon_ns / 2,
                Split::Random => rng.u64(..=epsilon_ns),
            };
            self.steps_ns[step] += before_ns;
            self.steps_ns[step + 1] += epsilon_ns - before_ns;
        }
    }
}

/// Extremes are worse than what lies between more often than not: a random split is one of them
/// in two of three cases.
fn shape(split: Split, rng: &mut Rng) -> Split {
    match split {
        Split::Random => [Split::First, Split::Last, Split::Random][rng.usize(..3)],
        fixed => fixed,
    }
}

fn time(span: Span, execution: Execution, rng: &mut Rng) -> u64 {
    match execution {
        Execution::Worst => span.max_ns,
        Execution::Least => span.min_ns,
        Execution::Random => match rng.u8(..3) {
            0 => span.max_ns,
            1 => span.min_ns,
            _ => rng.u64(span.min_ns..=span.max_ns),
        },
    }
}

/// Returns the delay of this job's release after its nominal instant.
pub(super) fn jitter_ns(scenario: &Scenario, chain: usize, job: u64, most_ns: u64) -> u64 {
    match scenario.chains[chain].jitter {
        Jitter::None => 0,
        Jitter::Alternate if job % 2 == 0 => most_ns,
        Jitter::First if job == 0 => most_ns,
        Jitter::Alternate | Jitter::First => 0,
        Jitter::Random => {
            let mut rng = generator(scenario.seed, RELEASE, chain, job);
            time(Span::up_to(most_ns), Execution::Random, &mut rng)
        }
    }
}

/// Returns the time by which the distance of this job and the next exceeds a period.
pub(super) fn extra_ns(scenario: &Scenario, chain: usize, job: u64) -> u64 {
    match scenario.chains[chain].release {
        Release::Periodic => 0,
        Release::Sporadic { extra_ns } => {
            let mut rng = generator(scenario.seed, !RELEASE, chain, job);
            if rng.bool() { 0 } else { rng.u64(..=extra_ns) }
        }
    }
}

fn generator(seed: u64, purpose: u64, chain: usize, job: u64) -> Rng {
    // Odd constants spread small numbers over all bits; the generator mixes its seed again.
    let place = (chain as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(purpose);
    let mixed = (seed ^ place.rotate_left(32)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    Rng::with_seed((mixed ^ mixed >> 31).wrapping_add(job.wrapping_mul(0x94D0_49BB_1331_11EB)))
}
