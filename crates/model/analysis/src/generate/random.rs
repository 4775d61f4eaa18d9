//! Random systems that try to break a bound: everything that the model allows, in odd
//! combinations.
//!
//! [`random`] and [`tiny`] are one generator with two sets of sizes. Utilisations are spread so
//! that some chains have a bound within their deadline and some have none: only the first kind
//! can be broken, only the second shows that a bound is refused.

use super::distribution::{chance, log_uniform, split, unit, uunifast};
use super::{Rng, order_by_deadline, rank_even};
use crate::{Accelerator, Callback, Chain, Executor, Segment, Span, System, Wait};

/// A system of ordinary times: 1 to 3 cores, 1 to 5 executors, 1 to 3 accelerators with 1 to 6
/// buckets, and 1 to 8 chains with periods from 10 ms to 500 ms. Chains may come back to an
/// executor; they spin, suspend, or some of each. Each overhead, best-case times, processor time
/// before requests, jitter, short deadlines and best effort are there or not.
pub fn random(rng: &mut Rng) -> System {
    let sizes = Sizes {
        chains: 8,
        callbacks: 5,
        period_ns: (10_000_000, 500_000_000),
        grid_ns: 1_000,
        kappa_ns: 200_000,
        epsilon_ns: 300_000,
        sigma_ns: 100_000,
        hop_ns: 1_000_000,
    };
    Draw { rng, sizes }.system()
}

/// A system like those of [`random`], but with periods from 8 ns to 40 ns and overheads of at most
/// 1 ns, so that a bound that is wrong by one is often wrong by a noticeable share, and all
/// alignments of a few jobs can be tried.
pub fn tiny(rng: &mut Rng) -> System {
    let sizes = Sizes {
        chains: 5,
        callbacks: 4,
        period_ns: (8, 40),
        grid_ns: 1,
        kappa_ns: 1,
        epsilon_ns: 1,
        sigma_ns: 1,
        hop_ns: 1,
    };
    Draw { rng, sizes }.system()
}

/// The largest numbers and times of a system.
struct Sizes {
    chains: usize,
    callbacks: usize,
    period_ns: (u64, u64),
    grid_ns: u64,
    kappa_ns: u64,
    epsilon_ns: u64,
    sigma_ns: u64,
    hop_ns: u64,
}

/// Properties that all chains of one system have in common.
struct Habits {
    executors: usize,
    accelerators: usize,
    wait: Option<Wait>,
    /// The probability that the next callback is on another executor.
    moving: f64,
    best_case: bool,
    cpu_before: bool,
    jitter: bool,
    short_deadlines: bool,
}

struct Draw<'r> {
    rng: &'r mut Rng,
    sizes: Sizes,
}

impl Draw<'_> {
    fn system(&mut self) -> System {
        let executors = self.executors();
        let accelerators = self.accelerators();
        let habits = self.habits(executors.len(), accelerators.len());
        let count = self.rng.usize(1..=self.sizes.chains);
        let load = 0.03 + 0.5 * unit(self.rng);
        let shares = uunifast(self.rng, count, load);
        let mut chains: Vec<Chain> =
            shares.into_iter().map(|share| self.chain(share.min(0.9), &habits)).collect();
        self.priorities(&mut chains);
        for (index, accelerator) in accelerators.iter().enumerate() {
            self.buckets(&mut chains, index, accelerator.buckets);
        }
        System {
            kappa_ns: self.overhead(self.sizes.kappa_ns),
            epsilon_ns: self.overhead(self.sizes.epsilon_ns),
            sigma_ns: self.overhead(self.sizes.sigma_ns),
            hop_ns: self.overhead(self.sizes.hop_ns),
            accelerators,
            executors,
            chains,
        }
    }

    /// Half of the time nothing.
    fn overhead(&mut self, most_ns: u64) -> u64 {
        if chance(self.rng, 0.5) { 0 } else { self.rng.u64(1..=most_ns) }
    }

    fn executors(&mut self) -> Vec<Executor> {
        let count = self.rng.usize(1..=5);
        let cores = self.rng.u32(1..=3);
        let mut priorities: Vec<u32> = (1..=count as u32).collect();
        self.rng.shuffle(&mut priorities);
        let place = |priority| Executor { core: self.rng.u32(..cores), priority };
        priorities.into_iter().map(place).collect()
    }

    fn accelerators(&mut self) -> Vec<Accelerator> {
        // One is the hardest case: all chains meet there.
        let count = [1, 1, 1, 2, 2, 3][self.rng.usize(..6)];
        let bucket = |_| Accelerator { buckets: self.rng.u32(1..=6), concurrent_lowest: false };
        (0..count).map(bucket).collect()
    }

    fn habits(&mut self, executors: usize, accelerators: usize) -> Habits {
        Habits {
            executors,
            accelerators,
            wait: [Some(Wait::Suspend), Some(Wait::Spin), None][self.rng.usize(..3)],
            moving: [0.0, 0.3, 0.7][self.rng.usize(..3)],
            best_case: chance(self.rng, 0.4),
            cpu_before: chance(self.rng, 0.3),
            jitter: chance(self.rng, 0.25),
            short_deadlines: chance(self.rng, 0.3),
        }
    }

    /// A chain whose processor and accelerator time take this share of its period.
    fn chain(&mut self, share: f64, habits: &Habits) -> Chain {
        let (least_ns, most_ns) = self.sizes.period_ns;
        let period_ns = log_uniform(self.rng, least_ns, most_ns, self.sizes.grid_ns);
        let deadline_ns = match habits.short_deadlines {
            true => self.rng.u64(period_ns / 2 + 1..=period_ns),
            false => period_ns,
        };
        let both_ns = (share * period_ns as f64) as u64;
        let on_accelerator = unit(self.rng);
        let callbacks = self.callbacks(both_ns, on_accelerator, habits);
        Chain {
            priority: 0,
            period_ns,
            deadline_ns,
            jitter_ns: if habits.jitter { self.rng.u64(0..=deadline_ns / 8) } else { 0 },
            wait: habits.wait.unwrap_or_else(|| self.any_wait()),
            best_effort: chance(self.rng, 0.05),
            buckets: vec![0; habits.accelerators],
            callbacks,
        }
    }

    fn any_wait(&mut self) -> Wait {
        if chance(self.rng, 0.5) { Wait::Spin } else { Wait::Suspend }
    }

    fn callbacks(&mut self, both_ns: u64, on_accelerator: f64, habits: &Habits) -> Vec<Callback> {
        let count = self.rng.usize(1..=self.sizes.callbacks);
        let no_accelerator = chance(self.rng, 0.1);
        let segments: Vec<usize> = (0..count)
            .map(|_| if no_accelerator { 0 } else { [0, 1, 1, 1, 2, 3][self.rng.usize(..6)] })
            .collect();
        let total: usize = segments.iter().sum();
        let exec_ns = if total == 0 { 0 } else { (both_ns as f64 * on_accelerator) as u64 };
        let mut execs = split(self.rng, exec_ns, total, 1).into_iter();
        let cpus = split(self.rng, both_ns - exec_ns, count, 0);
        let mut executor = self.rng.usize(..habits.executors);
        let mut callbacks = Vec::with_capacity(count);
        for (cpu_ns, segments) in cpus.into_iter().zip(segments) {
            if chance(self.rng, habits.moving) {
                executor = self.rng.usize(..habits.executors);
            }
            let execs: Vec<u64> = execs.by_ref().take(segments).collect();
            // A callback does something.
            let cpu_ns = if execs.is_empty() { cpu_ns.max(1) } else { cpu_ns };
            callbacks.push(self.callback(executor, cpu_ns, &execs, habits));
        }
        callbacks
    }

    fn callback(
        &mut self,
        executor: usize,
        cpu_ns: u64,
        execs: &[u64],
        habits: &Habits,
    ) -> Callback {
        let mut cpu = self.span(cpu_ns, habits);
        let before = match habits.cpu_before && chance(self.rng, 0.6) {
            // One part more than there are requests: what comes after the last.
            true => split(self.rng, cpu_ns, execs.len() + 1, 0),
            false => vec![0; execs.len() + 1],
        };
        // Time that is always spent is a best case.
        cpu.min_ns = cpu.min_ns.max(before[..execs.len()].iter().sum());
        let segment = |(&exec_ns, cpu_before_ns)| Segment {
            accelerator: self.rng.usize(..habits.accelerators),
            exec: self.span(exec_ns, habits),
            cpu_before_ns,
        };
        Callback { executor, cpu, segments: execs.iter().zip(before).map(segment).collect() }
    }

    fn span(&mut self, max_ns: u64, habits: &Habits) -> Span {
        match habits.best_case {
            true if chance(self.rng, 0.2) => Span::exactly(max_ns),
            true => Span { min_ns: self.rng.u64(0..=max_ns), max_ns },
            false => Span::up_to(max_ns),
        }
    }

    /// Deadline monotonic, or in any order.
    fn priorities(&mut self, chains: &mut [Chain]) {
        if chance(self.rng, 0.6) {
            return order_by_deadline(chains);
        }
        let mut priorities: Vec<u32> = (1..=chains.len() as u32).collect();
        self.rng.shuffle(&mut priorities);
        for (chain, priority) in chains.iter_mut().zip(priorities) {
            chain.priority = priority;
        }
    }

    /// Even by rank, or any map that does not fall as priority rises.
    fn buckets(&mut self, chains: &mut [Chain], accelerator: usize, buckets: u32) {
        if chance(self.rng, 0.5) {
            return rank_even(chains, accelerator, buckets);
        }
        let mut drawn: Vec<u32> = chains.iter().map(|_| self.rng.u32(..buckets)).collect();
        drawn.sort_unstable();
        for chain in chains {
            chain.buckets[accelerator] = drawn[chain.priority as usize - 1];
        }
    }
}
