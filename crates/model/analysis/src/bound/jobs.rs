//! Integer arithmetic of the recurrences: numbers of jobs, fixed points, exact utilisation.
//!
//! [`NONE`] stands for a value that does not exist. Sums saturate, so that whatever contains it
//! does not exist either, and no overflow can turn a large bound into a small one.

use crate::{Step, Watch};
use std::cell::Cell;

/// Mark of a value that does not exist.
pub(crate) const NONE: u64 = u64::MAX;

/// The value, if it exists.
pub(crate) fn some(value: u64) -> Option<u64> {
    (value != NONE).then_some(value)
}

/// A period with its reciprocal: a division becomes a product that is then made exact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    ns: u64,
    inverse: f64,
}

impl Period {
    pub(crate) const ONE: Period = Period { ns: 1, inverse: 1.0 };

    pub(crate) fn new(ns: u64) -> Period {
        Period { ns, inverse: 1.0 / ns as f64 }
    }

    /// `ceil(t / T)`, exactly.
    pub(crate) fn jobs(self, t: u64) -> u64 {
        // Below 2^53 both conversions are exact, and the product is off by less than one.
        if t >= 1 << 53 {
            return t.div_ceil(self.ns);
        }
        let guess = (t as f64 * self.inverse) as u64;
        let reached = guess * self.ns;
        if reached < t {
            // One step up is enough: the guess was the quotient or one below it.
            guess + 1 + u64::from(reached + self.ns < t)
        } else {
            // The guess was the exact quotient or one above it.
            guess - u64::from(reached - t >= self.ns)
        }
    }
}

/// `jobs * demand`, or [`NONE`].
pub(crate) fn times(jobs: u64, demand: u64) -> u64 {
    jobs.saturating_mul(demand)
}

/// Number of steps of recurrences that one analysis may still make. Systems of practice need tens
/// for each part; a system made to keep the analysis busy (periods of nanoseconds, utilisation just
/// below 1) runs out of them, and what is not finished then has no bound.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    left: Cell<u64>,
    watch: Watch,
    pass: Cell<u32>,
    chains: Cell<(usize, usize)>,
    is_stopped: Cell<bool>,
}

/// Number of steps between two calls of the watch: a step of a large system takes microseconds.
const LOOK: u64 = 1 << 8;

impl Budget {
    /// Budget for a system of this number of parts.
    pub(crate) fn new(parts: usize) -> Budget {
        let mut budget = Budget::default();
        budget.fill(parts);
        budget
    }

    /// Budget without steps, whose analysis is watched.
    pub(crate) fn watched(watch: Watch) -> Budget {
        Budget { watch, ..Budget::default() }
    }

    /// Begins an analysis.
    pub(crate) fn begin(&mut self) {
        self.pass.set(0);
        self.is_stopped.set(false);
    }

    /// Gives steps for a system of this number of parts.
    pub(crate) fn fill(&mut self, parts: usize) {
        self.left.set((1 << 18) + (parts as u64).saturating_mul(1 << 13));
    }

    /// Begins a pass over this number of chains.
    pub(crate) fn begin_pass(&self, chains: usize) {
        self.pass.set(self.pass.get() + 1);
        self.chains.set((0, chains));
    }

    /// Counts a chain of the pass as done; false if the rest is not wanted.
    pub(crate) fn end_chain(&self) -> bool {
        let (chains, of) = self.chains.get();
        self.chains.set(((chains + 1).min(of), of));
        self.look();
        !self.is_stopped()
    }

    /// Returns true if the watch has ended the analysis: its results are not complete.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    fn look(&self) {
        let (chains, of) = self.chains.get();
        let step = Step::Pass { number: self.pass.get(), chains, of };
        if !self.is_stopped() && !self.watch.goes_on(step) {
            self.is_stopped.set(true);
            self.left.set(0);
        }
    }

    /// Takes one step; whether there was one.
    fn take(&self) -> bool {
        let left = self.left.get();
        if left == 0 {
            return false;
        }
        self.left.set(left - 1);
        if left % LOOK == 0 {
            self.look();
        }
        !self.is_stopped()
    }
}

/// The least fixed point of a function that does not fall, from a start that is not above it;
/// [`NONE`] where it is above `cap`, or the steps have run out.
pub(crate) fn least_fixed_point(
    start: u64,
    cap: u64,
    budget: &Budget,
    step: impl Fn(u64) -> u64,
) -> u64 {
    let mut x = start;
    while x <= cap && budget.take() {
        let next = step(x);
        if next <= x {
            return x;
        }
        x = next;
    }
    NONE
}

/// Returns true if a sum of `demand / period` reaches 1, as rationals.
pub(crate) fn overloads(demands: impl Iterator<Item = (u64, Period)> + Clone) -> bool {
    let sum: f64 = demands.clone().map(|(demand, period)| demand as f64 * period.inverse).sum();
    // Each of the terms is off by at most 2^-51 of itself.
    if (sum - 1.0).abs() > 1e-9 {
        return sum > 1.0;
    }
    use num_bigint::BigUint;
    let (mut numerator, mut denominator) = (BigUint::ZERO, BigUint::from(1u32));
    for (demand, period) in demands {
        numerator = numerator * period.ns + &denominator * demand;
        denominator *= period.ns;
    }
    numerator >= denominator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_is_the_exact_quotient_rounded_up() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for _ in 0..200_000 {
            let period = (next() >> (next() % 60 + 4)).clamp(1, 1 << 53);
            let t = next() >> (next() % 60);
            for t in [t, t / period * period, (t / period * period).saturating_add(1), 0] {
                assert_eq!(Period::new(period).jobs(t), t.div_ceil(period), "{t} / {period}");
            }
        }
    }

    #[test]
    fn utilisation_of_one_is_told_from_almost_one() {
        let third = |demand| (demand, Period::new(3_000_000_000_000));
        let thirds = [third(1_000_000_000_000); 3];
        assert!(overloads(thirds.iter().copied()));
        let less = [thirds[0], thirds[1], third(999_999_999_999)];
        assert!(!overloads(less.iter().copied()));
        let more = [thirds[0], thirds[1], third(1_000_000_000_001)];
        assert!(overloads(more.iter().copied()));
        assert!(!overloads([(1, Period::new(2))].into_iter()));
    }

    #[test]
    fn fixed_point_above_the_cap_does_not_exist() {
        let search =
            |start, cap| least_fixed_point(start, cap, &Budget::new(1), |x| (x + 3).min(9));
        assert_eq!(search(1, 10), 9);
        assert_eq!(search(1, 8), NONE);
        assert_eq!(search(NONE, 10), NONE);
    }

    #[test]
    fn fixed_point_that_takes_too_many_steps_is_given_up() {
        let budget = Budget::new(1);
        let far = least_fixed_point(0, NONE - 1, &budget, |x| (x + 1).min(1 << 40));
        assert_eq!(far, NONE);
        assert_eq!(least_fixed_point(3, 10, &budget, |x| x), NONE, "nothing is left");
    }
}
