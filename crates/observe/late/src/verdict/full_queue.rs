//! A full queue of the device: a call that adds to it waits for room.

use super::case::{Case, part_ns};
use super::{Evidence, Remedy, Verdict};
use crate::explain::part::{Cause, Explained, Reason};

pub(super) fn judge(case: &Case<'_>) -> Option<Verdict> {
    let full_ns = |call: &Explained| {
        part_ns(call, |cause| {
            let maybe = Cause::Unexplained { reason: Reason::QueueMayBeFull };
            matches!(cause, Cause::QueueFull { .. }) || *cause == maybe
        })
    };
    let loss = case.loss(full_ns)?;
    let full = || case.explained.iter().filter(|call| loss.lost.by(call.worst) > 0);
    let evidence = Evidence::DeviceQueueFull {
        most_outstanding: full().map(|call| case.call(call).outstanding).max().unwrap_or(0),
        executing: full().any(|call| call.sums.queue_full_ns > 0),
    };
    let remedies = vec![Remedy::FewerOutstandingLaunches, Remedy::CudaGraph];
    Some(case.verdict(loss, None, evidence, remedies))
}
