//! A scenario: everything that the model leaves open, settled.

use super::hyperperiod_ns;
use crate::{Chain, System};
use fastrand::Rng;

/// One schedule of a system. The same scenario always gives the same schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Behaviour of each chain, in the order of [`System::chains`].
    pub chains: Vec<Behaviour>,
    /// Nominal releases lie before this instant. The jobs released until then run to their end.
    pub horizon_ns: u64,
    /// Cost of preemption of a device.
    pub kappa: Kappa,
    /// The order of what happens at one instant.
    pub tie: Tie,
    /// Seed of all drawn values. Each job has its own numbers, whatever the schedule.
    pub seed: u64,
}

/// Behaviour of one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// Nominal release of the first job.
    pub offset_ns: u64,
    /// Duration of processor and accelerator work.
    pub execution: Execution,
    /// Place of the processor time of a callback among its requests.
    pub split: Split,
    /// The distance between nominal releases.
    pub release: Release,
    /// Delay of releases.
    pub jitter: Jitter,
}

/// Duration of work, between its least and its greatest time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Execution {
    /// Always the greatest time, and all of `epsilon`.
    #[default]
    Worst,
    /// Always the least time, and no `epsilon`.
    Least,
    /// Drawn each time: the greatest, the least, or anything between, each as often.
    Random,
}

/// Place of the processor time of a callback among its requests. [`crate::Segment::cpu_before_ns`]
/// is kept to in any case; this is about the rest, and about `epsilon`, which lies directly before
/// or after its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Split {
    /// Drawn for each callback.
    #[default]
    Random,
    /// All before the first request; `epsilon` before each.
    First,
    /// All after the last request; `epsilon` after each.
    Last,
    /// The same before, between and after the requests; half of `epsilon` on either side.
    Even,
}

/// The distance between two nominal releases of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Release {
    /// The period.
    #[default]
    Periodic,
    /// The period in half of the cases, and up to `extra_ns` more in the others.
    Sporadic {
        /// The most that is added.
        extra_ns: u64,
    },
}

/// Delay of a release after its nominal instant, up to [`crate::Chain::jitter_ns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Jitter {
    /// Never later.
    #[default]
    None,
    /// Drawn each time.
    Random,
    /// Releases as late as may be and not late at all in turn, beginning late.
    Alternate,
    /// The first job as late as may be, the others not at all.
    First,
}

/// Cost of preemption of a device. Nothing in either case where all chains that use it share one
/// bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kappa {
    /// Every request takes twice `kappa` longer, as the bounds assume.
    #[default]
    Worst,
    /// The device switches for `kappa` before a request starts while one of a lower bucket is
    /// started and unfinished, and again before such a preempted request continues. A switch is
    /// not preempted.
    Physical,
}

/// The order of what happens at one instant: releases (and arrivals of chains at their next
/// executor), ends of processor work, ends of requests, and the decisions of executors, cores and
/// devices. The model allows any order. Work ends only while its executor holds its core, or
/// its request the device: what is preempted with nothing left to do ends when it is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tie {
    /// All ends, then all releases, then the decisions, and again while that makes anything end.
    /// Nothing is preempted at the instant at which it ends, and every decision sees the releases
    /// of its instant. Work of no length begins with a decision, so it comes after the releases.
    #[default]
    CompletionFirst,
    /// Releases, then ends of processor work, then ends of requests, each followed at once by the
    /// decisions that it calls for. A release preempts what would end at its instant, and so does
    /// a request on its device.
    ReleaseFirst,
    /// Ends of requests, then ends of processor work, then releases, each followed at once by the
    /// decisions that it calls for. A freed executor or bucket takes what waited there, before it
    /// sees what comes at the same instant.
    DecisionFirst,
    /// Drawn at each step, and also whether decisions follow at once.
    Random,
}

impl Tie {
    /// Every order.
    pub const ALL: [Tie; 4] =
        [Tie::CompletionFirst, Tie::ReleaseFirst, Tie::DecisionFirst, Tie::Random];
}

impl Kappa {
    /// Both.
    pub const ALL: [Kappa; 2] = [Kappa::Worst, Kappa::Physical];
}

/// Longest periods that [`Scenario::synchronous`] and [`Scenario::random`] last.
const PERIODS: u64 = 8;

impl Scenario {
    /// All chains released at 0 and then periodically, all times the greatest, processor work
    /// before the requests. Lasts a hyperperiod, but at most 8 times the longest period.
    pub fn synchronous(system: &System) -> Scenario {
        let longest = horizon_ns(system, PERIODS);
        let behaviour = Behaviour { split: Split::First, ..Behaviour::default() };
        Scenario {
            chains: vec![behaviour; system.chains.len()],
            horizon_ns: hyperperiod_ns(system).map_or(longest, |all| all.min(longest)),
            kappa: Kappa::default(),
            tie: Tie::default(),
            seed: 0,
        }
    }

    /// Everything drawn from a seed. Lasts 8 times the longest period.
    pub fn random(system: &System, seed: u64) -> Scenario {
        let mut rng = Rng::with_seed(seed);
        Scenario {
            chains: system.chains.iter().map(|chain| Behaviour::random(chain, &mut rng)).collect(),
            horizon_ns: horizon_ns(system, PERIODS),
            kappa: Kappa::ALL[rng.usize(..Kappa::ALL.len())],
            tie: Tie::ALL[rng.usize(..Tie::ALL.len())],
            seed: rng.u64(..),
        }
    }
}

/// Length of this number of periods of the chain with the longest one.
pub(super) fn horizon_ns(system: &System, periods: u64) -> u64 {
    let longest_ns = system.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(0);
    longest_ns.saturating_mul(periods)
}

impl Behaviour {
    /// Everything drawn, the greatest times and periodic releases most often.
    pub(super) fn random(chain: &Chain, rng: &mut Rng) -> Behaviour {
        Behaviour {
            offset_ns: rng.u64(..chain.period_ns),
            execution: Execution::random(rng),
            split: Split::random(rng),
            release: Release::random(chain, rng),
            jitter: Jitter::random(rng),
        }
    }
}

impl Execution {
    pub(super) fn random(rng: &mut Rng) -> Execution {
        match rng.u8(..8) {
            0 => Execution::Least,
            1 | 2 => Execution::Random,
            _ => Execution::Worst,
        }
    }
}

impl Split {
    pub(super) fn random(rng: &mut Rng) -> Split {
        [Split::Random, Split::First, Split::Last, Split::Even][rng.usize(..4)]
    }
}

impl Release {
    pub(super) fn random(chain: &Chain, rng: &mut Rng) -> Release {
        match rng.u8(..4) {
            0 => Release::Sporadic { extra_ns: rng.u64(..=chain.period_ns) },
            _ => Release::Periodic,
        }
    }
}

impl Jitter {
    pub(super) fn random(rng: &mut Rng) -> Jitter {
        [Jitter::None, Jitter::Random, Jitter::Alternate, Jitter::First][rng.usize(..4)]
    }
}
