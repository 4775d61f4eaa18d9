//! The locking patterns of a kind of call: which locks one call takes and releases, in which order.
//!
//! While a call runs, its steps are gathered and hashed. When it returns, the hash says whether
//! the same pattern was seen before. The steps of each distinct pattern are kept once; when they
//! happened, relative to the call's begin, is kept for a few calls chosen evenly among all
//! (reservoir sampling), for the median.

use super::hash::{Map, Mix};
use record::Class;
use std::collections::HashSet;
use std::hash::Hasher;

/// Most distinct patterns that are kept for one kind of call; calls with others are counted only.
const MOST_PATTERNS: usize = 1024;
/// Most distinct patterns that are told apart.
const MOST_DISTINCT: usize = 1 << 16;
/// Most steps of a call that are kept.
pub(crate) const MOST_STEPS: usize = 512;
/// Calls of a pattern whose times are kept.
const SAMPLES: u64 = 31;

/// One step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The lock's serial number.
    pub serial: u32,
    /// Class of the use.
    pub class: Class,
    /// Acquired, else released.
    pub acquired: bool,
    /// Time of the step, in ticks.
    pub time: u64,
}

impl Step {
    /// The hash of the steps so far and this one.
    #[inline(always)]
    pub(crate) fn mixed(&self, hash: Mix) -> Mix {
        let what = (self.class as u64) << 1 | u64::from(self.acquired);
        hash.with(u64::from(self.serial) << 8 | what)
    }
}

/// A pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// Calls that had it.
    pub count: u64,
    /// Its steps, at the times of the first such call, relative to its begin.
    pub steps: Vec<Step>,
    /// Times of some calls, relative to their begin, one call after the other.
    times: Vec<u64>,
}

/// The patterns of one kind of call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    kept: Map<u64, Pattern>,
    distinct: HashSet<u64>,
    /// Calls that took a lock.
    pub calls: u64,
    /// Calls with a pattern that is not kept.
    pub others: u64,
    /// Calls with more than [`MOST_STEPS`], which have no pattern.
    pub too_long: u64,
}

impl Patterns {
    /// Counts a call that began at `begin` and had these steps.
    pub(crate) fn add(&mut self, hash: Mix, begin: u64, steps: &[Step]) {
        self.calls += 1;
        let hash = hash.finish();
        let full = self.kept.len() >= MOST_PATTERNS;
        match self.kept.get_mut(&hash) {
            Some(pattern) => pattern.add(begin, steps),
            None => {
                if self.distinct.len() < MOST_DISTINCT {
                    self.distinct.insert(hash);
                }
                if full {
                    self.others += 1;
                } else {
                    self.kept.insert(hash, Pattern::new(begin, steps));
                }
            }
        }
    }

    /// Returns the number of distinct patterns; a lower bound if the second value is true.
    pub(crate) fn distinct(&self) -> (usize, bool) {
        (self.distinct.len(), self.distinct.len() >= MOST_DISTINCT)
    }

    /// The kept patterns, the most frequent first.
    pub(crate) fn ranked(&self) -> Vec<&Pattern> {
        let mut ranked: Vec<&Pattern> = self.kept.values().collect();
        ranked.sort_by_key(|pattern| {
            let serials: Vec<u32> = pattern.steps.iter().map(|step| step.serial).collect();
            (std::cmp::Reverse(pattern.count), pattern.steps.len(), serials)
        });
        ranked
    }
}

impl Pattern {
    fn new(begin: u64, steps: &[Step]) -> Pattern {
        let mut pattern = Pattern { count: 0, steps: steps.to_vec(), times: Vec::new() };
        for step in &mut pattern.steps {
            step.time -= begin.min(step.time);
        }
        pattern.add(begin, steps);
        pattern
    }

    fn add(&mut self, begin: u64, steps: &[Step]) {
        self.count += 1;
        let place = if self.count <= SAMPLES {
            self.times.resize(self.times.len() + steps.len(), 0);
            self.count - 1
        } else {
            // Any good mixing of the count chooses evenly, and the same calls each time.
            Mix::default().with(self.count).with(self.count).finish() % self.count
        };
        if place < SAMPLES {
            let from = place as usize * steps.len();
            for (time, step) in self.times[from..].iter_mut().zip(steps) {
                *time = step.time.saturating_sub(begin);
            }
        }
    }

    /// Returns the median time of each step, relative to the begin of the call.
    pub(crate) fn medians(&self) -> Vec<u64> {
        let length = self.steps.len();
        let calls = self.times.len().checked_div(length).unwrap_or(0);
        let median = |step: usize| {
            let mut times: Vec<u64> =
                (0..calls).map(|call| self.times[call * length + step]).collect();
            times.sort_unstable();
            times.get(calls / 2).copied().unwrap_or(0)
        };
        (0..length).map(median).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(serials: &[u32], begin: u64, gap: u64) -> (Mix, Vec<Step>) {
        let mut hash = Mix::default();
        let step = |(at, serial): (usize, &u32)| Step {
            serial: *serial,
            class: Class::Mutex,
            acquired: at % 2 == 0,
            time: begin + gap * (at as u64 + 1),
        };
        let steps: Vec<Step> = serials.iter().enumerate().map(step).collect();
        for step in &steps {
            hash = step.mixed(hash);
        }
        (hash, steps)
    }

    #[test]
    fn most_frequent_pattern_comes_first_with_its_median_times() {
        let mut patterns = Patterns::default();
        for call in 0..1000u64 {
            let locks: &[u32] = if call % 10 == 0 { &[1, 1] } else { &[1, 1, 2, 2] };
            let (hash, steps) = steps(locks, call * 100, 5 + call % 3);
            patterns.add(hash, call * 100, &steps);
        }
        let ranked = patterns.ranked();
        assert_eq!((ranked[0].count, ranked[1].count), (900, 100));
        assert_eq!(ranked[0].medians(), [6, 12, 18, 24]);
        assert_eq!(patterns.distinct(), (2, false));
        assert_eq!(ranked[0].times.len() as u64, SAMPLES * 4);
    }

    #[test]
    fn number_of_kept_patterns_is_bounded_and_the_rest_counted() {
        let mut patterns = Patterns::default();
        for call in 0..3000 {
            let (hash, steps) = steps(&[call, call], 0, 1);
            patterns.add(hash, 0, &steps);
        }
        assert_eq!(patterns.ranked().len(), MOST_PATTERNS);
        assert_eq!(patterns.others, 3000 - MOST_PATTERNS as u64);
        assert_eq!(patterns.distinct(), (3000, false));
    }
}
