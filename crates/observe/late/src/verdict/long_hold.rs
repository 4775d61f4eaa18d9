//! A long critical section: one hold of a lock is most of the longest wait for it.

use super::case::Case;
use super::{Evidence, Remedy, Verdict};
use crate::function::Group;

pub(super) fn judge(case: &Case<'_>, place: u32) -> Option<Verdict> {
    let lock = case.lock(place);
    let hold = lock.longest_blocking.as_ref()?;
    let longest = [&lock.others, &lock.readers].map(|of| of.wait.max);
    let wait_max_ns = longest[0].max(longest[1]);
    if hold.duration_ns < case.options.long_hold_ns || 2 * hold.duration_ns < wait_max_ns {
        return None;
    }
    let evidence = Evidence::LongCriticalSection {
        hold_ns: hold.duration_ns,
        hold_p50_ns: lock.others.hold.p50.max(lock.readers.hold.p50),
        waiting: hold.others,
        wait_max_ns,
        kind: hold.kind,
    };
    let remedies = match hold.kind.map(|kind| case.survey.kinds[kind as usize].group) {
        Some(Group::Copy) => vec![Remedy::PinnedMemory, Remedy::SmallerCopies],
        Some(Group::Launch) => vec![Remedy::CudaGraph],
        _ => vec![Remedy::ShorterHolds],
    };
    // What calls lost by it is their waits; the hold itself is no loss.
    let waits = [&lock.others, &lock.readers].map(|of| of.longest_wait.as_ref());
    let wait = waits.into_iter().flatten().max_by_key(|wait| wait.duration_ns);
    Some(case.of_lock(place, wait, evidence, remedies))
}
