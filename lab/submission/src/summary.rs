//! Statistics of a case, and comparison of the methods.

use crate::Method;
use crate::measure::Sample;
use crate::network::Shape;
use crate::study::{Case, Study};
use serde::Serialize;
use stats::Summary;

/// One of the two times of a repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// Time until all was handed over.
    Submission,
    /// Time until the outputs were there.
    Completion,
}

impl Time {
    /// Both.
    pub const ALL: [Time; 2] = [Time::Submission, Time::Completion];

    /// That time of a sample, in nanoseconds.
    pub fn of(self, sample: &Sample) -> u64 {
        match self {
            Time::Submission => sample.submission_ns,
            Time::Completion => sample.completion_ns,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Time::Submission => "submission",
            Time::Completion => "completion",
        }
    }
}

/// Spread of one time of the repetitions that count, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Number of repetitions.
    pub count: usize,
    /// The shortest.
    pub min_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// The 99th percentile; of fewer than 100 repetitions the longest.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// The jitter: the longest less the shortest.
    pub jitter_ns: f64,
}

impl Spread {
    /// Spread of a case; none if nothing was measured.
    pub fn of(case: &Case, time: Time) -> Option<Spread> {
        let counted = case.samples.iter().filter(|sample| !sample.warm_up);
        let times: Vec<f64> = counted.map(|sample| time.of(sample) as f64).collect();
        let Summary { min, p50, p99, max } = Summary::of(&times)?;
        Some(Spread {
            count: times.len(),
            min_ns: min,
            median_ns: p50,
            p99_ns: p99,
            max_ns: max,
            jitter_ns: max - min,
        })
    }
}

/// Speed-up of a contender over streams on the same GPU, at the median.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Gain {
    /// Size.
    pub shape: Shape,
    /// The streams' median over the contender's.
    pub times: f64,
}

/// The gains of a contender over the streams of another accelerator (which may be the same one),
/// at all sizes that both were measured at, in the order of the sizes.
pub fn gains(
    study: &Study,
    (accelerator, method): (usize, Method),
    streams_of: usize,
    time: Time,
) -> Vec<Gain> {
    let all = study.by_contender();
    let none = std::collections::BTreeMap::new();
    let streams = all.get(&(streams_of, Method::Streams)).unwrap_or(&none);
    let contender = all.get(&(accelerator, method)).unwrap_or(&none);
    let gain = |(shape, case): (&Shape, &&Case)| {
        let baseline = Spread::of(streams.get(shape)?, time)?;
        let own = Spread::of(case, time)?;
        Some(Gain { shape: *shape, times: baseline.median_ns / own.median_ns })
    };
    contender.iter().filter_map(gain).collect()
}
