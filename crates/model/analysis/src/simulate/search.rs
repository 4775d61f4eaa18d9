//! The search for bad schedules: random scenarios, then hill climbing for each chain.
//!
//! A climb changes one or two things of the worst scenario so far and keeps the change unless the
//! chain responds faster with it. Most changes move releases, and most of these to where it hurts:
//! right before, at or after the release of the job that responded worst, or so long before it as
//! some work takes, so that this work has just begun. What a search finds is a response that is
//! possible, not the longest one.

use super::scenario::{Behaviour, Execution, Jitter, Release, Scenario, Split, Tie, horizon_ns};
use super::{ChainOutcome, Kappa, Simulator};
use crate::{Error, System};
use fastrand::Rng;

/// Effort of a search, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchOptions {
    /// Random scenarios, tried for all chains together.
    pub starts: u32,
    /// Changes tried for each chain, in all its climbs.
    pub steps: u32,
    /// Climbs of each chain: the first from the worst that is known, the others from new random
    /// scenarios.
    pub climbs: u32,
    /// Length of each simulation, in periods of the chain with the longest one.
    pub periods: u32,
    /// Seed of all drawn numbers.
    pub seed: u64,
    /// Only this cost of preemption; None: either.
    pub kappa: Option<Kappa>,
    /// Only this order of what happens at one instant; None: any.
    pub tie: Option<Tie>,
}

impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions {
            starts: 100,
            steps: 400,
            climbs: 2,
            periods: 6,
            seed: 1,
            kappa: None,
            tie: None,
        }
    }
}

/// The worst that a search found for one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worst {
    /// The responses of the chain in the schedule that has the longest one.
    pub outcome: ChainOutcome,
    /// All of them, in the order of the jobs.
    pub responses_ns: Vec<u64>,
    /// The scenario of that schedule; simulating it again gives the same responses.
    pub scenario: Scenario,
}

/// Searches for the longest response of each chain, in the order of the system. The same options
/// find the same.
///
/// `watch` is told how many schedules of how many were simulated, many times a second; if it returns
/// false, the worst ones are those of the schedules so far.
///
/// # Errors
/// [`Error`] when the system contradicts itself; [`Error::Stopped`] when `watch` ended the first
/// schedule.
pub fn search(
    system: &System,
    options: &SearchOptions,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Vec<Worst>, Error> {
    let simulator = Simulator::new(system)?;
    let mut scenario = Scenario::synchronous(system);
    scenario.horizon_ns = horizon_ns(system, options.periods.into());
    scenario.kappa = options.kappa.unwrap_or_default();
    scenario.tie = options.tie.unwrap_or_default();
    let nothing = Worst {
        outcome: ChainOutcome::default(),
        responses_ns: Vec::new(),
        scenario: scenario.clone(),
    };
    let climbs = options.climbs.max(1);
    let each = u64::from(climbs) * (1 + u64::from(options.steps / climbs));
    let all = 1 + u64::from(options.starts) + system.chains.len() as u64 * each;
    let mut search = Search {
        system,
        options,
        watch,
        done: 0,
        all,
        is_over: false,
        simulator,
        rng: Rng::with_seed(options.seed),
        work_ns: work_ns(system),
        worst: vec![nothing; system.chains.len()],
    };
    search.attempt(&scenario);
    for _ in 0..options.starts {
        if search.is_over {
            break;
        }
        let scenario = search.draw();
        search.attempt(&scenario);
    }
    for chain in 0..system.chains.len() {
        search.climb(chain);
    }
    if search.done == 0 { Err(Error::Stopped) } else { Ok(search.worst) }
}

struct Search<'s> {
    system: &'s System,
    options: &'s SearchOptions,
    watch: &'s mut dyn FnMut(u64, u64) -> bool,
    /// Schedules that were simulated, of all that there will be.
    done: u64,
    all: u64,
    /// True when the rest is not wanted.
    is_over: bool,
    simulator: Simulator,
    rng: Rng,
    /// Durations that occur in the system.
    work_ns: Vec<u64>,
    worst: Vec<Worst>,
}

/// Durations by which releases may have to lie apart for something to have just begun.
fn work_ns(system: &System) -> Vec<u64> {
    let callbacks = || system.chains.iter().flat_map(|chain| &chain.callbacks);
    let mut work_ns: Vec<u64> = callbacks().map(|callback| callback.cpu.max_ns).collect();
    for segment in callbacks().flat_map(|callback| &callback.segments) {
        work_ns.push(segment.exec.max_ns);
        work_ns.push(segment.exec.max_ns + 2 * system.kappa_ns + system.sigma_ns);
    }
    work_ns.extend([0, system.epsilon_ns, system.kappa_ns, system.hop_ns]);
    work_ns.sort_unstable();
    work_ns.dedup();
    work_ns
}

impl Search<'_> {
    /// A random scenario within the options.
    fn draw(&mut self) -> Scenario {
        let drawn = Scenario::random(self.system, self.rng.u64(..));
        Scenario {
            horizon_ns: horizon_ns(self.system, self.options.periods.into()),
            kappa: self.options.kappa.unwrap_or(drawn.kappa),
            tie: self.options.tie.unwrap_or(drawn.tie),
            ..drawn
        }
    }

    /// Simulates a scenario and remembers it for every chain for which it is the worst so far.
    fn attempt(&mut self, scenario: &Scenario) {
        let mut watch = |_| (self.watch)(self.done, self.all);
        if !self.simulator.run_watched(scenario, &mut watch) {
            self.is_over = true;
            return;
        }
        self.done += 1;
        self.is_over |= !(self.watch)(self.done, self.all);
        let outcomes = self.simulator.outcome.chains.iter().zip(&self.simulator.responses_ns);
        for ((outcome, responses_ns), worst) in outcomes.zip(&mut self.worst) {
            if self.done == 1 || outcome.worst_ns > worst.outcome.worst_ns {
                worst.outcome = *outcome;
                worst.responses_ns.clone_from(responses_ns);
                worst.scenario.clone_from(scenario);
            }
        }
    }

    fn climb(&mut self, chain: usize) {
        let climbs = self.options.climbs.max(1);
        for climb in 0..climbs {
            if self.is_over {
                return;
            }
            let mut at = if climb == 0 { self.worst[chain].scenario.clone() } else { self.draw() };
            self.attempt(&at);
            let mut height = self.simulator.outcome.chains[chain];
            let mut changed = at.clone();
            for _ in 0..self.options.steps / climbs {
                if self.is_over {
                    return;
                }
                changed.clone_from(&at);
                for _ in 0..=self.rng.u8(..3) / 2 {
                    self.change(&mut changed, &height);
                }
                self.attempt(&changed);
                let found = self.simulator.outcome.chains[chain];
                if found.worst_ns >= height.worst_ns {
                    height = found;
                    std::mem::swap(&mut at, &mut changed);
                }
            }
        }
    }

    /// Changes one thing, for a chain whose job `worst.worst_job` is to respond later.
    fn change(&mut self, scenario: &mut Scenario, worst: &ChainOutcome) {
        let chain = self.rng.usize(..scenario.chains.len());
        let model = &self.system.chains[chain];
        let behaviour = &mut scenario.chains[chain];
        match self.rng.u8(..16) {
            0 => behaviour.execution = Execution::random(&mut self.rng),
            1 => behaviour.split = Split::random(&mut self.rng),
            2 if model.jitter_ns > 0 => behaviour.jitter = Jitter::random(&mut self.rng),
            3 => behaviour.release = Release::random(model, &mut self.rng),
            4 => *behaviour = Behaviour::random(model, &mut self.rng),
            5 => scenario.seed = self.rng.u64(..),
            6 if self.options.tie.is_none() => {
                scenario.tie = Tie::ALL[self.rng.usize(..Tie::ALL.len())];
            }
            7 if self.options.kappa.is_none() => {
                scenario.kappa = Kappa::ALL[self.rng.usize(..Kappa::ALL.len())];
            }
            _ => {
                let period_ns = i128::from(model.period_ns);
                let offset_ns = self.offset_ns(scenario, chain, worst).rem_euclid(period_ns);
                scenario.chains[chain].offset_ns = offset_ns as u64;
            }
        }
    }

    /// Another offset for the chain; any whole number, to be taken modulo the period.
    fn offset_ns(&mut self, scenario: &Scenario, chain: usize, worst: &ChainOutcome) -> i128 {
        let now_ns = i128::from(scenario.chains[chain].offset_ns);
        let period_ns = self.system.chains[chain].period_ns;
        let victim_ns = i128::from(worst.worst_release_ns);
        let apart_ns = self.apart_ns();
        match self.rng.u8(..8) {
            0 => i128::from(self.rng.u64(..period_ns)),
            1 => now_ns + i128::from(self.rng.i8(-1..=1)),
            2 => now_ns + i128::from(period_ns >> self.rng.u32(1..20)),
            3 => now_ns - i128::from(period_ns >> self.rng.u32(1..20)),
            4 => now_ns + apart_ns,
            5 => {
                let other = self.rng.usize(..scenario.chains.len());
                i128::from(scenario.chains[other].offset_ns) + apart_ns
            }
            6 => victim_ns + i128::from(self.rng.u64(..=worst.worst_ns.unwrap_or(0))),
            _ => victim_ns + apart_ns,
        }
    }

    /// A little before, at or after, by up to two durations that occur in the system.
    fn apart_ns(&mut self) -> i128 {
        let mut apart_ns = i128::from(self.rng.i8(-1..=1));
        for _ in 0..self.rng.u8(..3) {
            let work_ns = i128::from(self.work_ns[self.rng.usize(..self.work_ns.len())]);
            apart_ns += if self.rng.bool() { work_ns } else { -work_ns };
        }
        apart_ns
    }
}
