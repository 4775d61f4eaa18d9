//! Numbers that look random and are the same for the same seed, on every machine, for ever.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A source of such numbers (ChaCha with 8 rounds).
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// One of many independent sources for a seed.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Random(generator)
    }

    /// Random number from `low`, below `high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        low + (high - low) * unit
    }

    /// A number of choices, at least 1: one of them, from 0.
    pub fn below(&mut self, choices: usize) -> usize {
        ((self.uniform(0.0, 1.0) * choices as f64) as usize).min(choices - 1)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform(0.0, 1.0) < probability
    }

    /// `from`, or `from` and a number of steps, up to `to`.
    pub fn grid(&mut self, from: f64, to: f64, step: f64) -> f64 {
        let steps = ((to - from) / step).round() as usize;
        from + step * self.below(steps + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_seed_are_fixed_and_streams_differ() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.uniform(0.0, 1.0), random.uniform(0.0, 1.0)].map(f64::to_bits)
        };
        assert_eq!(draw(7, 0), [4_594_853_223_840_476_064, 4_595_220_474_943_196_564]);
        assert_ne!(draw(7, 0), draw(7, 1));
        assert_ne!(draw(7, 0), draw(8, 0));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(1, 1);
        for _ in 0..10_000 {
            assert!((-2.0..3.0).contains(&random.uniform(-2.0, 3.0)));
            assert!(random.below(3) < 3);
            assert!([10.0, 15.0, 20.0].contains(&random.grid(10.0, 20.0, 5.0)));
        }
    }
}
