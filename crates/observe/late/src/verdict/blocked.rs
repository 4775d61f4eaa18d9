//! Launches that are off the processor in a system call or a page fault, though they only give work
//! to the device.

use super::case::Case;
use super::{Evidence, Remedy, Verdict};
use crate::explain::part::Explained;
use crate::function::Group;

pub(super) fn judge(case: &Case<'_>) -> Option<Verdict> {
    let long = |call: &Explained| {
        let blocked = call.sums.blocked_ns;
        let gives = case.kind(call).group == Group::Launch;
        if gives && blocked >= case.options.long_hold_ns { blocked } else { 0 }
    };
    let loss = case.loss(long)?;
    Some(case.verdict(loss, None, Evidence::BlockedElsewhere {}, vec![Remedy::LockedMemory]))
}
