//! More threads want to run than there are processors.

use super::case::Case;
use super::{Evidence, Lost, Remedy, Verdict};

/// Share of time, in percent, with more threads than processors that is worth a word.
const OVERSUBSCRIBED_PERCENT: u64 = 5;

pub(super) fn judge(case: &Case<'_>) -> Option<Verdict> {
    let load = case.survey.load.as_ref()?;
    let percent = (load.over_ns * 100).checked_div(load.observed_ns)?;
    if percent < OVERSUBSCRIBED_PERCENT {
        return None;
    }
    let loss = case.loss(|call| call.sums.preempted_ns + call.sums.woken_late_ns);
    let evidence = Evidence::Oversubscription {
        percent,
        over_ns: load.over_ns,
        observed_ns: load.observed_ns,
        most: load.most,
        processors: case.survey.processors,
        waited_ns: loss.as_ref().map_or(0, |loss| loss.lost.total_ns()),
    };
    let remedies = vec![Remedy::FewerThreads, Remedy::HigherPriority];
    Some(match loss {
        Some(loss) => case.verdict(loss, None, evidence, remedies),
        None => Verdict {
            evidence,
            lock: None,
            asked: false,
            severity_ns: 0,
            worst: None,
            lost: Lost::default(),
            remedies,
        },
    })
}
