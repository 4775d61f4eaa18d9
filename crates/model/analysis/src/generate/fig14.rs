//! The chain sets of figure 14 of PAAM, as the published scripts draw them.

use super::{Overheads, Rng};
use crate::{Accelerator, Callback, Chain, Executor, Segment, Span, System, Wait};

/// Callbacks of each chain.
const CALLBACKS: u64 = 4;
/// Cores, from [`FIRST_CORE`] on.
const CORES: u32 = 6;
const FIRST_CORE: u32 = 2;
/// Buckets of the accelerator.
const BUCKETS: u32 = 6;
/// The first chain's priority is one less.
const PRIORITIES: u32 = 99;
/// Number of priorities that share a bucket.
const PER_BUCKET: u32 = 17;
const NS_PER_MS: u64 = 1_000_000;

/// The chain sets of figure 14 of PAAM (section V-D).
///
/// Every chain has four equal callbacks, each with one segment on the one accelerator, an executor
/// of its own with the chain's priority, and an implicit deadline. Chain i, counted from 1, has
/// priority 99 - i, whatever its period: these priorities are not rate monotonic. It runs on core
/// 2 + i mod 6. Its bucket is priority / 17, rounded, as in the published scripts, which puts the
/// first five chains into one bucket and the others, up to the twelfth, into the one below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fig14 {
    /// Number of chains, at most [`Fig14::MAX_CHAINS`].
    pub chains: u32,
    /// Processor and accelerator time of one chain, in percent of its period.
    pub utilisation_percent: u32,
    /// Accelerator time, in percent of that.
    pub accelerator_percent: u32,
    /// Behaviour of the chains while they wait.
    pub wait: Wait,
    /// Cost of requests; nothing in the paper's figure.
    pub overheads: Overheads,
}

impl Fig14 {
    /// The most chains for which the scripts' rule gives a bucket.
    pub const MAX_CHAINS: u32 = 90;

    /// Figure 14a: accelerator and processor time one to one.
    pub const fn a(chains: u32, utilisation_percent: u32) -> Fig14 {
        Fig14 {
            chains,
            utilisation_percent,
            accelerator_percent: 50,
            wait: Wait::Suspend,
            overheads: Overheads::NONE,
        }
    }

    /// Figure 14b: four chains, and the accelerator's part varies.
    pub const fn b(utilisation_percent: u32, accelerator_percent: u32) -> Fig14 {
        Fig14 { accelerator_percent, ..Fig14::a(4, utilisation_percent) }
    }

    /// Draws the periods.
    ///
    /// # Panics
    /// If there are more than [`Fig14::MAX_CHAINS`] chains, or a percentage is above 100.
    pub fn draw(&self, rng: &mut Rng) -> System {
        assert!(self.chains <= Fig14::MAX_CHAINS, "{} chains", self.chains);
        assert!(self.utilisation_percent <= 100 && self.accelerator_percent <= 100, "{self:?}");
        System {
            accelerators: vec![Accelerator { buckets: BUCKETS, concurrent_lowest: false }],
            executors: (1..=self.chains).map(executor).collect(),
            chains: (1..=self.chains).map(|i| self.chain(i, rng)).collect(),
            ..self.overheads.system()
        }
    }

    fn chain(&self, i: u32, rng: &mut Rng) -> Chain {
        let period_ns = period_ms(rng) * NS_PER_MS;
        // The period is a multiple of 10 ms, so that nothing is lost.
        let share_ns = |percent: u32| {
            period_ns * u64::from(self.utilisation_percent * percent) / (CALLBACKS * 100 * 100)
        };
        let exec_ns = share_ns(self.accelerator_percent);
        let segment = Segment { accelerator: 0, exec: Span::up_to(exec_ns), cpu_before_ns: 0 };
        let callback = Callback {
            executor: (i - 1) as usize,
            cpu: Span::up_to(share_ns(100 - self.accelerator_percent)),
            segments: if exec_ns > 0 { vec![segment] } else { Vec::new() },
        };
        let priority = PRIORITIES - i;
        Chain {
            priority,
            period_ns,
            deadline_ns: period_ns,
            jitter_ns: 0,
            wait: self.wait,
            best_effort: false,
            // The scripts count buckets from 1.
            buckets: vec![(priority + PER_BUCKET / 2) / PER_BUCKET - 1],
            callbacks: vec![callback; CALLBACKS as usize],
        }
    }
}

fn executor(i: u32) -> Executor {
    Executor { core: FIRST_CORE + i % CORES, priority: PRIORITIES - i }
}

/// 100 to 1000, each as likely, rounded to 10.
fn period_ms(rng: &mut Rng) -> u64 {
    (rng.u64(100..=1000) + 5) / 10 * 10
}
