//! Confidence in a number: percentile bootstrap over scenarios, and the exact bound of a share.

use fastrand::Rng;
use serde::Serialize;

/// Samples that are drawn of the scenarios.
const SAMPLES: usize = 2_000;
/// Seed of the random numbers: the same drives give the same intervals.
const SEED: u64 = 0x6472_6976_6573;
/// Scenarios below which an interval says nothing.
const LEAST: usize = 5;

/// A number with the interval in which it lies with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Measured value.
    pub value: f64,
    /// The 2.5th percentile.
    pub low: f64,
    /// The 97.5th percentile.
    pub high: f64,
}

/// A statistic of scenarios, which are drawn again and again with replacement (Efron's percentile
/// method). Samples for which the statistic is not defined are left out. None if it is not
/// defined for the scenarios as they are; the widest interval if there are too few of them.
pub(crate) fn bootstrap<S>(
    scenarios: &[S],
    statistic: impl Fn(&[&S]) -> Option<f64>,
) -> Option<Interval> {
    let value =
        statistic(&scenarios.iter().collect::<Vec<_>>()).filter(|value| value.is_finite())?;
    let mut rng = Rng::with_seed(SEED);
    let mut found: Vec<f64> = (0..SAMPLES)
        .filter_map(|_| {
            let draw = |_| &scenarios[rng.usize(..scenarios.len())];
            statistic(&(0..scenarios.len()).map(draw).collect::<Vec<_>>())
        })
        .filter(|value| value.is_finite())
        .collect();
    if scenarios.len() < LEAST || found.len() < SAMPLES / 2 {
        return Some(Interval { value, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    found.sort_by(f64::total_cmp);
    let at = |share: f64| found[((share * found.len() as f64) as usize).min(found.len() - 1)];
    Some(Interval { value, low: at(0.025), high: at(0.975) })
}

/// The largest probability with which `hits` or fewer of `trials` still happen in 5 % of all cases
/// (one-sided, Clopper and Pearson 1934); 1 without trials.
pub fn exact_upper(hits: u64, trials: u64) -> f64 {
    if hits >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if at_most(hits, trials, middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

/// The probability of at most `hits` of `trials`, each with this probability.
fn at_most(hits: u64, trials: u64, probability: f64) -> f64 {
    let (yes, no) = (probability.ln(), (-probability).ln_1p());
    let mut term = trials as f64 * no;
    let mut sum = term.exp();
    for count in 1..=hits {
        term += ((trials - count + 1) as f64 / count as f64).ln() + yes - no;
        sum += term.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_a_mean_is_that_of_the_normal_distribution() {
        let mut rng = Rng::with_seed(7);
        // A sum of twelve uniform ones: mean 6, deviation 1.
        let samples: Vec<f64> = (0..400).map(|_| (0..12).map(|_| rng.f64()).sum()).collect();
        let mean = |drawn: &[&f64]| Some(drawn.iter().copied().sum::<f64>() / drawn.len() as f64);
        let found = bootstrap(&samples, mean).unwrap();
        let half = 1.96 / 20.0;
        assert!((found.value - 6.0).abs() < 2.0 * half, "{found:?}");
        assert!((found.high - found.value - half).abs() < 0.15 * half, "{found:?}");
        assert!((found.value - found.low - half).abs() < 0.15 * half, "{found:?}");
        assert_eq!(bootstrap(&samples, mean), Some(found));
    }

    #[test]
    fn few_scenarios_say_nothing_and_none_less() {
        let few = bootstrap(&[1.0, 2.0], |drawn| Some(*drawn[0])).unwrap();
        assert_eq!((few.value, few.low, few.high), (1.0, f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(bootstrap(&[] as &[f64], |drawn| drawn.first().map(|one| **one)), None);
    }

    #[test]
    fn bound_of_a_share_is_the_published_one() {
        // The rule of three, and tables of Clopper and Pearson.
        assert!((exact_upper(0, 8000) - 0.000_374_4).abs() < 1e-6);
        assert!((exact_upper(0, 10) - 0.258_9).abs() < 1e-4);
        assert!((exact_upper(2, 20) - 0.282_6).abs() < 1e-4);
        assert_eq!((exact_upper(3, 3), exact_upper(0, 0)), (1.0, 1.0));
    }
}
