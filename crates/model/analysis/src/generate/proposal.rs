//! Sets as a designer would make them, with every quantity a parameter.

use super::distribution::{chance, log_uniform, split, uunifast_discard};
use super::{Error, Overheads, Rng, order_by_deadline, rank_even};
use crate::{Accelerator, Callback, Chain, Executor, Segment, Span, System, Wait};

const NS_PER_MS: u64 = 1_000_000;

/// Sets that exercise what figure 14 leaves out: executors that chains share, overheads, several
/// parts, accelerators and ways to wait; and priorities that follow the deadlines.
///
/// The accelerator time of all chains is drawn by UUniFast-discard, each chain's processor time
/// follows from it, and both are cut at random into segments and callbacks. Periods are
/// log-uniform from 20 ms to 1 s on a grid of 1 ms, priorities deadline monotonic, buckets even by
/// rank. The chains are dealt to executors at random; an executor has the rank of its most
/// critical chain, and executors take turns on the cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proposal {
    /// Number of chains.
    pub chains: usize,
    /// Accelerator time of all chains together, as a share of one accelerator's time.
    pub utilisation: f64,
    /// Least and largest number of callbacks of a chain.
    pub callbacks: (usize, usize),
    /// Least and largest number of segments of a callback.
    pub segments: (usize, usize),
    /// A chain's accelerator time over its processor time.
    pub accelerator_to_cpu: f64,
    /// Number of accelerators; each segment is on any of them.
    pub accelerators: usize,
    /// Buckets of each accelerator.
    pub buckets: u32,
    /// Number of cores.
    pub cores: u32,
    /// Chains that share an executor.
    pub chains_per_executor: usize,
    /// The probability that a chain waits spinning.
    pub spinning: f64,
    /// The probability that a chain ends on another executor than it began on.
    pub spanning: f64,
    /// Deadline as a share of the period.
    pub deadline_factor: f64,
    /// The largest share of its period that a chain's processor and accelerator time may take.
    pub cap: f64,
    /// Cost of requests.
    pub overheads: Overheads,
}

impl Proposal {
    /// The default set with this number of chains and this much accelerator time: four cores, one
    /// accelerator with six buckets, pairs of chains on an executor, the paper's overheads.
    pub const fn new(chains: usize, utilisation: f64) -> Proposal {
        Proposal {
            chains,
            utilisation,
            callbacks: (2, 5),
            segments: (0, 2),
            accelerator_to_cpu: 1.0,
            accelerators: 1,
            buckets: 6,
            cores: 4,
            chains_per_executor: 2,
            spinning: 0.0,
            spanning: 0.0,
            deadline_factor: 1.0,
            cap: 0.9,
            overheads: Overheads::PAPER,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Error::Parameter`] names the first that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |parameter, found: String, expected| {
            Err(Error::Parameter { parameter, found, expected })
        };
        let counts = [
            ("chains", self.chains),
            ("accelerators", self.accelerators),
            ("buckets", self.buckets as usize),
            ("cores", self.cores as usize),
            ("chains per executor", self.chains_per_executor),
        ];
        for (parameter, count) in counts {
            if !(1..=1000).contains(&count) {
                return refuse(parameter, count.to_string(), "1 to 1000");
            }
        }
        for (parameter, least, (low, high)) in
            [("callbacks", 1, self.callbacks), ("segments", 0, self.segments)]
        {
            if low < least || high < low.max(1) || high > 100 {
                let expected = "a range within 1 to 100, for segments from 0";
                return refuse(parameter, format!("{low} to {high}"), expected);
            }
        }
        for (parameter, share) in [("spinning", self.spinning), ("spanning", self.spanning)] {
            if !(0.0..=1.0).contains(&share) {
                return refuse(parameter, share.to_string(), "a probability from 0 to 1");
            }
        }
        for (parameter, share) in [("deadline factor", self.deadline_factor), ("cap", self.cap)] {
            if !(0.01..=1.0).contains(&share) {
                return refuse(parameter, share.to_string(), "0.01 to 1");
            }
        }
        if !(0.0..=100.0).contains(&self.utilisation) {
            return refuse("utilisation", self.utilisation.to_string(), "a share from 0 to 100");
        }
        if !(0.001..=1000.0).contains(&self.accelerator_to_cpu) {
            let found = self.accelerator_to_cpu.to_string();
            return refuse("accelerator to cpu", found, "a ratio from 0.001 to 1000");
        }
        Ok(())
    }

    /// Draws a set.
    ///
    /// # Errors
    /// [`Error::Parameter`], and [`Error::Discarded`] where `cap` leaves next to no set.
    pub fn draw(&self, rng: &mut Rng) -> Result<System, Error> {
        self.check()?;
        let both_per_accelerator = 1.0 + 1.0 / self.accelerator_to_cpu;
        let cap = self.cap / both_per_accelerator;
        let shares = uunifast_discard(rng, self.chains, self.utilisation, cap)?;
        let homes = self.homes(rng);
        let executors = self.chains.div_ceil(self.chains_per_executor);
        let mut chains: Vec<Chain> = (shares.into_iter().zip(&homes))
            .map(|(share, &home)| self.chain(share, home, executors, rng))
            .collect();
        order_by_deadline(&mut chains);
        for accelerator in 0..self.accelerators {
            rank_even(&mut chains, accelerator, self.buckets);
        }
        let accelerator = Accelerator { buckets: self.buckets, concurrent_lowest: false };
        Ok(System {
            accelerators: vec![accelerator; self.accelerators],
            executors: self.executors(&chains, &homes, executors),
            chains,
            ..self.overheads.system()
        })
    }

    /// The executor of each chain.
    fn homes(&self, rng: &mut Rng) -> Vec<usize> {
        let mut homes: Vec<usize> =
            (0..self.chains).map(|chain| chain / self.chains_per_executor).collect();
        rng.shuffle(&mut homes);
        homes
    }

    fn executors(&self, chains: &[Chain], homes: &[usize], count: usize) -> Vec<Executor> {
        let mut highest: Vec<(u32, usize)> = (0..count).map(|executor| (0, executor)).collect();
        for (chain, &home) in chains.iter().zip(homes) {
            highest[home].0 = highest[home].0.max(chain.priority);
        }
        highest.sort_unstable();
        let mut executors = vec![Executor { core: 0, priority: 0 }; count];
        for (rank, (_, executor)) in (1..).zip(highest) {
            executors[executor] = Executor { core: executor as u32 % self.cores, priority: rank };
        }
        executors
    }

    fn chain(&self, share: f64, home: usize, executors: usize, rng: &mut Rng) -> Chain {
        let period_ns = log_uniform(rng, 20, 1000, 1) * NS_PER_MS;
        let count = rng.usize(self.callbacks.0..=self.callbacks.1);
        let segments: Vec<usize> =
            (0..count).map(|_| rng.usize(self.segments.0..=self.segments.1)).collect();
        let segments = at_least_one(segments, rng);
        let exec_ns = (share * period_ns as f64) as u64;
        let cpu_ns = (share / self.accelerator_to_cpu * period_ns as f64) as u64;
        let mut execs = split(rng, exec_ns, segments.iter().sum(), 1).into_iter();
        let cpus = split(rng, cpu_ns, count, 1);
        let places = self.places(home, count, executors, rng);
        let mut segment = |rng: &mut Rng| Segment {
            accelerator: rng.usize(..self.accelerators),
            exec: Span::up_to(execs.next().unwrap_or(0)),
            cpu_before_ns: 0,
        };
        let callbacks = (cpus.into_iter().zip(places).zip(segments))
            .map(|((cpu_ns, executor), segments)| Callback {
                executor,
                cpu: Span::up_to(cpu_ns),
                segments: (0..segments).map(|_| segment(rng)).collect(),
            })
            .collect();
        Chain {
            priority: 0,
            period_ns,
            deadline_ns: ((self.deadline_factor * period_ns as f64) as u64).clamp(1, period_ns),
            jitter_ns: 0,
            wait: if chance(rng, self.spinning) { Wait::Spin } else { Wait::Suspend },
            best_effort: false,
            buckets: vec![0; self.accelerators],
            callbacks,
        }
    }

    /// The executor of each callback: the chain's own, and perhaps another one at the end.
    fn places(&self, home: usize, count: usize, executors: usize, rng: &mut Rng) -> Vec<usize> {
        let mut places = vec![home; count];
        if count > 1 && executors > 1 && chance(rng, self.spanning) {
            let other = (home + rng.usize(1..executors)) % executors;
            places[rng.usize(1..count)..].fill(other);
        }
        places
    }
}

/// A chain that uses no accelerator could not take its share of one.
fn at_least_one(mut segments: Vec<usize>, rng: &mut Rng) -> Vec<usize> {
    if segments.iter().all(|&count| count == 0) {
        let place = rng.usize(..segments.len());
        segments[place] = 1;
    }
    segments
}
