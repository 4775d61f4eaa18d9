//! Random systems, for studies and to falsify bounds.
//!
//! A generator is a pure function of its parameters and of a stream of random numbers, and
//! [`stream`] is a pure function of (seed, point, set). So any set of a study can be drawn again
//! alone, on any machine, without the ones before it: a study records those three numbers.
//!
//! - [`Fig14`]: the chain sets of PAAM's figure 14, with their priorities, which ignore periods.
//! - [`Proposal`]: sets as a designer would make them: deadline-monotonic priorities, executors
//!   that are shared, overheads, and every quantity a parameter.
//! - [`random`]: everything that the model allows, in odd combinations.
//! - [`tiny`]: the same in systems of a few nanoseconds, where an error of one shows.
//!
//! ```
//! use analysis::generate::{Fig14, stream};
//!
//! let point = Fig14::a(6, 10);
//! let set = point.draw(&mut stream(1, 6, 42));
//! assert_eq!(set.chains.len(), 6);
//! assert_eq!(set, point.draw(&mut stream(1, 6, 42)));
//! ```

mod distribution;
mod fig14;
mod proposal;
mod random;

pub use distribution::{log_uniform, split, uunifast, uunifast_discard};
pub use fastrand::Rng;
pub use fig14::Fig14;
pub use proposal::Proposal;
pub use random::{random, tiny};

use crate::{Chain, System};

/// Reason why no system could be drawn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A parameter is out of its range.
    #[error("{parameter}: found {found}, expected {expected}")]
    Parameter {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        found: String,
        /// Expected value.
        expected: &'static str,
    },
    /// Every draw had a chain that asks for too much.
    #[error(
        "{draws} draws in a row had a chain above its cap of {cap}: found {chains} chains that \
         share {total}, expected a lower total, a higher cap or more chains"
    )]
    Discarded {
        /// The number of chains.
        chains: usize,
        /// Total that they share.
        total: f64,
        /// Largest value of one of them.
        cap: f64,
        /// Number of draws.
        draws: u32,
    },
}

/// The random numbers of one set of a study.
///
/// The three numbers go through the finaliser of SplitMix64 one after the other, so that
/// neighbouring sets, points and seeds have nothing in common.
pub fn stream(seed: u64, point: u64, set: u64) -> Rng {
    let mixed = [seed, point, set].into_iter().fold(0, |state: u64, number| mix(state ^ number));
    Rng::with_seed(mixed)
}

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Cost of requests and hops in every set of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overheads {
    /// See [`System::kappa_ns`].
    pub kappa_ns: u64,
    /// See [`System::epsilon_ns`].
    pub epsilon_ns: u64,
    /// See [`System::sigma_ns`].
    pub sigma_ns: u64,
    /// See [`System::hop_ns`].
    pub hop_ns: u64,
}

impl Overheads {
    /// Requests cost nothing.
    pub const NONE: Overheads = Overheads { kappa_ns: 0, epsilon_ns: 0, sigma_ns: 0, hop_ns: 0 };

    /// The largest costs that PAAM measured: 129 us for a preemption of the device (its table I),
    /// 391 us for a request.
    pub const PAPER: Overheads =
        Overheads { kappa_ns: 129_000, epsilon_ns: 391_000, sigma_ns: 0, hop_ns: 0 };

    /// A system that has nothing but these costs.
    fn system(self) -> System {
        System {
            kappa_ns: self.kappa_ns,
            epsilon_ns: self.epsilon_ns,
            sigma_ns: self.sigma_ns,
            hop_ns: self.hop_ns,
            ..System::default()
        }
    }
}

/// Spreads the chains that use `accelerator` evenly over its buckets by their rank: the most
/// critical ones into the highest bucket. The other chains keep theirs.
fn rank_even(chains: &mut [Chain], accelerator: usize, buckets: u32) {
    let mut users: Vec<&mut Chain> =
        chains.iter_mut().filter(|chain| chain.uses(accelerator)).collect();
    users.sort_by_key(|chain| std::cmp::Reverse(chain.priority));
    let count = users.len() as u64;
    for (rank, chain) in (0..).zip(users) {
        let below = u32::try_from(rank * u64::from(buckets) / count).unwrap_or(u32::MAX);
        chain.buckets[accelerator] = (buckets - 1).saturating_sub(below);
    }
}

/// The same system with deadline-monotonic priorities, buckets that are even by rank, and executors
/// in the order of their most critical chains: what a designer would try first.
///
/// Among equal deadlines the first chain is more critical. Executors that no chain uses come last.
pub fn deadline_monotonic(system: &System) -> System {
    let mut system = system.clone();
    order_by_deadline(&mut system.chains);
    for (index, accelerator) in system.accelerators.iter().enumerate() {
        rank_even(&mut system.chains, index, accelerator.buckets);
    }
    let mut highest: Vec<(u32, usize)> = (0..system.executors.len()).map(|e| (0, e)).collect();
    for chain in &system.chains {
        for callback in &chain.callbacks {
            let highest = &mut highest[callback.executor].0;
            *highest = chain.priority.max(*highest);
        }
    }
    highest.sort_unstable();
    for (rank, (_, executor)) in (1..).zip(highest) {
        system.executors[executor].priority = rank;
    }
    system
}

/// Gives the chains the priorities 1 to their number, the shortest deadline highest; among equal
/// deadlines the first chain is higher.
fn order_by_deadline(chains: &mut [Chain]) {
    let mut order: Vec<usize> = (0..chains.len()).collect();
    order.sort_by_key(|&chain| std::cmp::Reverse((chains[chain].deadline_ns, chain)));
    for (priority, chain) in (1..).zip(order) {
        chains[chain].priority = priority;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Callback, Segment, Span, Wait};

    fn chain(deadline_ns: u64) -> Chain {
        let segment = Segment { accelerator: 0, exec: Span::up_to(1), cpu_before_ns: 0 };
        Chain {
            priority: 0,
            period_ns: deadline_ns,
            deadline_ns,
            jitter_ns: 0,
            wait: Wait::Suspend,
            best_effort: false,
            buckets: vec![0],
            callbacks: vec![Callback { executor: 0, cpu: Span::up_to(1), segments: vec![segment] }],
        }
    }

    #[test]
    fn shorter_deadlines_come_first_and_fill_the_buckets_from_above() {
        let mut chains: Vec<Chain> = [30, 10, 20, 10, 50].map(chain).into();
        order_by_deadline(&mut chains);
        assert_eq!(chains.iter().map(|c| c.priority).collect::<Vec<_>>(), [2, 5, 3, 4, 1]);
        let mut buckets = |count| {
            rank_even(&mut chains, 0, count);
            chains.iter().map(|c| c.buckets[0]).collect::<Vec<_>>()
        };
        assert_eq!(buckets(5), [1, 4, 2, 3, 0]);
        assert_eq!(buckets(2), [0, 1, 1, 1, 0]);
        assert_eq!(buckets(6), [2, 5, 3, 4, 1]);
        assert_eq!(buckets(1), [0; 5]);
    }

    #[test]
    fn every_one_of_the_three_numbers_changes_the_stream() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..10 {
            for point in 0..10 {
                for set in 0..100 {
                    assert!(seen.insert(stream(seed, point, set).u64(..)));
                }
            }
        }
    }
}
