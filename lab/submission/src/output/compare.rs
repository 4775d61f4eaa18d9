//! Contenders beside the streams of the same GPU.

use super::contender::Contender;
use crate::Method;
use crate::study::Study;
use crate::summary::{Gain, Time, gains};

/// A contender, and how many times faster it is than the streams of the same GPU.
pub(super) struct Comparison<'c> {
    /// The contender.
    pub(super) contender: &'c Contender<'c>,
    /// Gains at each size that both were measured at.
    submission: Vec<Gain>,
    completion: Vec<Gain>,
}

impl Comparison<'_> {
    /// Speed-ups of one of the times, one for each size.
    pub(super) fn gains(&self, time: Time) -> &[Gain] {
        match time {
            Time::Submission => &self.submission,
            Time::Completion => &self.completion,
        }
    }

    /// The size at which it is slowest and that at which it is fastest, compared with streams.
    pub(super) fn range(&self, time: Time) -> Option<(Gain, Gain)> {
        let gains = || self.gains(time).iter().copied();
        let by_times = |a: &Gain, b: &Gain| a.times.total_cmp(&b.times);
        Some((gains().min_by(by_times)?, gains().max_by(by_times)?))
    }

    /// The middle of the gains at all sizes.
    pub(super) fn median(&self, time: Time) -> Option<f64> {
        let times: Vec<f64> = self.gains(time).iter().map(|gain| gain.times).collect();
        stats::nearest_rank(&stats::ascending(&times), 500)
    }
}

/// All contenders that can be compared with streams: other methods of an accelerator that has
/// streams, and accelerators of the same name that have none, as Vulkan beside CUDA.
pub(super) fn comparisons<'c>(
    study: &Study,
    contenders: &'c [Contender<'c>],
) -> Vec<Comparison<'c>> {
    let compared = |contender: &'c Contender<'c>| {
        if contender.method == Method::Streams {
            return None;
        }
        let streams = streams_of(study, contenders, contender.accelerator)?;
        let gains_in =
            |time| gains(study, (contender.accelerator, contender.method), streams, time);
        let (submission, completion) = (gains_in(Time::Submission), gains_in(Time::Completion));
        (!submission.is_empty()).then_some(Comparison { contender, submission, completion })
    };
    contenders.iter().filter_map(compared).collect()
}

/// The accelerator whose streams run on the same device.
pub(super) fn streams_of(
    study: &Study,
    contenders: &[Contender<'_>],
    accelerator: usize,
) -> Option<usize> {
    let name = |index: usize| study.accelerators[index].name.trim().to_lowercase();
    let mut with_streams =
        contenders.iter().filter(|one| one.method == Method::Streams).map(|one| one.accelerator);
    let own = with_streams.clone().find(|index| *index == accelerator);
    own.or_else(|| with_streams.find(|index| name(*index) == name(accelerator)))
}
