//! A convoy: a queue of waiters passes a lock on from one to the next. Each waits for all before
//! it, though none holds it for long.

use super::case::Case;
use super::{Evidence, Remedy, Verdict};
use crate::result::Use;

/// Waits from which a lock's distribution says something.
const ENOUGH_WAITS: u64 = 16;
/// Waiters, the new one included, from which a queue is a convoy, if it is so for half the waits.
const CONVOY_QUEUE: u64 = 3;
/// Smallest ratio of the median wait to the median hold in a convoy.
const CONVOY_RATIO: u64 = 3;

pub(super) fn judge(case: &Case<'_>, place: u32) -> Option<Verdict> {
    let lock = case.lock(place);
    let Use { wait, hold, acquisitions, contended, longest_wait, .. } = &lock.others;
    let queued = wait.count >= ENOUGH_WAITS && lock.queue.p50 >= CONVOY_QUEUE;
    let short_holds = hold.count > 0 && wait.p50 >= CONVOY_RATIO * hold.p50.max(1);
    // A convoy keeps itself alive: who releases the lock soon waits for it again.
    let mostly = 2 * contended >= *acquisitions;
    if !(lock.family.held() && queued && short_holds && mostly) {
        return None;
    }
    let evidence = Evidence::LockConvoy {
        waits: *contended,
        acquisitions: *acquisitions,
        queue_p50: lock.queue.p50,
        queue_max: lock.queue.max,
        wait_p50_ns: wait.p50,
        wait_max_ns: wait.max,
        hold_p50_ns: hold.p50,
        hold_max_ns: hold.max,
    };
    let mut remedies = vec![Remedy::FewerThreads];
    if lock.in_launches {
        remedies.push(Remedy::CudaGraph);
    }
    if lock.inherits() {
        // Such a mutex is handed over strictly, which makes convoys.
        remedies.push(Remedy::FairMutex);
    }
    Some(case.of_lock(place, longest_wait.as_ref(), evidence, remedies))
}
