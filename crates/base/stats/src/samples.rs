//! Order statistics of measured times.
//!
//! Percentiles are nearest-rank: the smallest sample such that at least that share of all samples
//! is not larger. They are always a value that was measured. With fewer than 100 samples the 99th
//! percentile is the largest one.

/// The nearest-rank quantile, in thousandths, of samples in ascending order; none where there are
/// no samples.
///
/// ```
/// assert_eq!(stats::nearest_rank(&[1.0, 2.0, 3.0, 4.0], 500), Some(2.0));
/// ```
pub fn nearest_rank<T: Copy>(ascending: &[T], permille: u32) -> Option<T> {
    let rank = (ascending.len() as u128 * u128::from(permille.min(1000))).div_ceil(1000);
    let index = usize::try_from(rank).unwrap_or(usize::MAX).saturating_sub(1);
    ascending.get(index).copied()
}

/// The samples that are finite, in ascending order.
pub fn ascending(samples: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<f64> = samples.iter().copied().filter(|s| s.is_finite()).collect();
    ascending.sort_by(f64::total_cmp);
    ascending
}

/// The numbers that a table shows of a set of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary<T = f64> {
    /// The smallest sample.
    pub min: T,
    /// The median.
    pub p50: T,
    /// The 99th percentile.
    pub p99: T,
    /// The largest sample.
    pub max: T,
}

impl Summary {
    /// Summarises samples in any order; none where no sample is finite.
    pub fn of(samples: &[f64]) -> Option<Self> {
        Self::of_ascending(&ascending(samples))
    }
}

impl Summary<u64> {
    /// Summarises times in nanoseconds in any order; none where there are none.
    pub fn of_ns(times_ns: &[u64]) -> Option<Self> {
        let mut ascending = times_ns.to_vec();
        ascending.sort_unstable();
        Self::of_ascending(&ascending)
    }
}

impl<T: Copy> Summary<T> {
    /// Summarises samples in ascending order; none where there are none.
    pub fn of_ascending(ascending: &[T]) -> Option<Self> {
        Some(Self {
            min: *ascending.first()?,
            p50: nearest_rank(ascending, 500)?,
            p99: nearest_rank(ascending, 990)?,
            max: *ascending.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_a_sample_at_the_nearest_rank() {
        let samples: Vec<f64> = (1..=1000).map(f64::from).collect();
        for (percent, expected) in [(0, 1.0), (1, 10.0), (50, 500.0), (99, 990.0), (100, 1000.0)] {
            assert_eq!(nearest_rank(&samples, 10 * percent), Some(expected), "p{percent}");
        }
        assert_eq!(nearest_rank(&samples[..101], 990), Some(100.0));
    }

    #[test]
    fn p99_of_fewer_than_a_hundred_samples_is_the_largest() {
        for count in 1..100 {
            let samples: Vec<f64> = (1..=count).map(f64::from).collect();
            assert_eq!(nearest_rank(&samples, 990), Some(f64::from(count)));
        }
    }

    #[test]
    fn no_samples_have_no_statistics() {
        assert_eq!(nearest_rank::<u64>(&[], 990), None);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn summary_sorts_and_drops_what_is_no_number() {
        let summary = Summary::of(&[3.0, f64::NAN, 1.0, 2.0]).unwrap();
        assert_eq!(summary, Summary { min: 1.0, p50: 2.0, p99: 3.0, max: 3.0 });
        let summary = Summary::of_ns(&[3, u64::MAX, 2]).unwrap();
        assert_eq!(summary, Summary { min: 2, p50: 3, p99: u64::MAX, max: u64::MAX });
    }
}
