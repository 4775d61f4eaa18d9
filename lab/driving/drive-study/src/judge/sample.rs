//! Durations of many drives, drawn again and again.

use crate::Times;
use crate::times::upper_ns;

/// A number of many durations.
#[derive(Clone, Copy)]
pub(super) enum Statistic {
    Mean,
    Longest,
    /// The 99.9th percentile.
    Tail,
}

/// The durations of a drive, as they are drawn thousands of times.
#[derive(Default)]
pub(super) struct Sample {
    sum_ns: u64,
    max_ns: u64,
    count: u64,
    buckets: Vec<(u32, u64)>,
}

impl Sample {
    pub(super) fn new(times: &Times) -> Sample {
        let buckets = times.buckets.iter().map(|(bucket, count)| (*bucket, *count)).collect();
        Sample { sum_ns: times.sum_ns, max_ns: times.max_ns, count: times.count(), buckets }
    }
}

impl Statistic {
    pub(super) fn of<'a>(self, samples: impl Iterator<Item = &'a Sample> + Clone) -> Option<f64> {
        let count: u64 = samples.clone().map(|sample| sample.count).sum();
        if count == 0 {
            return None;
        }
        Some(match self {
            Statistic::Mean => samples.map(|it| it.sum_ns as f64).sum::<f64>() / count as f64,
            Statistic::Longest => samples.map(|it| it.max_ns).max()? as f64,
            Statistic::Tail => tail(samples, count) as f64,
        })
    }
}

fn tail<'a>(samples: impl Iterator<Item = &'a Sample> + Clone, count: u64) -> u64 {
    let last = samples.clone().filter_map(|it| it.buckets.last()).map(|it| it.0).max();
    let mut counts = vec![0; last.map_or(0, |last| last as usize + 1)];
    for (bucket, count) in samples.flat_map(|it| &it.buckets) {
        counts[*bucket as usize] += count;
    }
    let rank = (0.999 * count as f64).ceil() as u64;
    let mut seen = 0;
    let found = counts.iter().position(|count| {
        seen += count;
        seen >= rank
    });
    upper_ns(found.unwrap_or(counts.len().saturating_sub(1)) as u32)
}
