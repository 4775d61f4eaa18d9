//! An unfair hand-over: the lock is not given to the thread that waited longest.

use super::case::Case;
use super::{Evidence, Remedy, Verdict};
use crate::identity::Family;

pub(super) fn judge(case: &Case<'_>, place: u32) -> Option<Verdict> {
    let lock = case.lock(place);
    let most = lock.overtaken.worst.as_ref().map_or(0, |worst| worst.others);
    let exclusive = matches!(lock.family, Family::Mutex | Family::Spin);
    if !exclusive || (most < 2 && lock.reacquired.count < 2) {
        return None;
    }
    let wait = &lock.others.wait;
    let longest = lock.overtaken.longest.as_ref().or(lock.others.longest_wait.as_ref());
    let evidence = Evidence::UnfairHandOver {
        overtaken: lock.overtaken.count,
        most_overtaken: most,
        reacquired: lock.reacquired.count,
        barged: lock.barged,
        wait_p50_ns: wait.p50,
        wait_p99_9_ns: wait.p99_9,
        wait_max_ns: wait.max,
    };
    let mut remedies = vec![Remedy::FairMutex];
    if lock.family == Family::Mutex && !lock.inherits() {
        remedies.push(Remedy::InheritanceMutex);
    }
    Some(case.of_lock(place, longest, evidence, remedies))
}
