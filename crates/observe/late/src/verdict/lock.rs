//! Verdicts on a lock's whole life, from the tables of the first pass.

use super::{Evidence, Occasion, Remedy, Verdict};
use crate::Options;
use crate::function::Group;
use crate::identity::Family;
use crate::result::{Instance, Lock, Survey, Use};

/// Waits from which a lock's distribution says something.
const ENOUGH_WAITS: u64 = 16;
/// Waiters, the new one included, from which a queue is a convoy, if it is so for half the waits.
const CONVOY_QUEUE: u64 = 3;
/// Smallest ratio of the median wait to the median hold in a convoy.
const CONVOY_RATIO: u64 = 3;
/// Returns the verdicts about a lock.
pub(super) fn judge(
    survey: &Survey,
    lock: &Lock,
    options: &Options,
) -> impl Iterator<Item = Verdict> {
    let about = [
        convoy(lock),
        starved_readers(lock),
        starved_writers(lock),
        unfair(lock),
        long_hold(survey, lock, options),
    ];
    about.into_iter().flatten()
}

fn occasion(instance: &Instance) -> Occasion {
    Occasion {
        at_ns: instance.at_ns,
        duration_ns: instance.duration_ns,
        thread: instance.thread,
        kind: instance.kind,
        explained: None,
    }
}

fn verdict(evidence: Evidence, worst: Option<&Instance>, remedies: Vec<Remedy>) -> Verdict {
    let severity_ns = worst.map_or(0, |worst| worst.duration_ns);
    Verdict { evidence, lock: None, severity_ns, worst: worst.map(occasion), remedies }
}

/// Returns true if a mutex lends its waiters' priority to its owner.
pub(super) fn inherits(lock: &Lock) -> bool {
    lock.attributes.as_ref().is_some_and(|attributes| attributes.inherit)
}

fn convoy(lock: &Lock) -> Option<Verdict> {
    let Use { wait, hold, acquisitions, contended, longest_wait, .. } = &lock.others;
    let queued = wait.count >= ENOUGH_WAITS && lock.queue.p50 >= CONVOY_QUEUE;
    let short_holds = hold.count > 0 && wait.p50 >= CONVOY_RATIO * hold.p50.max(1);
    // A convoy keeps itself alive: who releases the lock soon waits for it again.
    let mostly = 2 * contended >= *acquisitions;
    if !(lock.family.held() && queued && short_holds && mostly) {
        return None;
    }
    let evidence = Evidence::LockConvoy {
        waits: wait.count,
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
    if inherits(lock) {
        // Such a mutex is handed over strictly, which makes convoys.
        remedies.push(Remedy::FairMutex);
    }
    Some(verdict(evidence, longest_wait.as_ref(), remedies))
}

fn starved_readers(lock: &Lock) -> Option<Verdict> {
    let worst = lock.starved_readers.worst.as_ref()?;
    let evidence = Evidence::ReaderStarvation {
        times: lock.starved_readers.count,
        most_writers: worst.others,
        waits: lock.readers.wait.count,
        wait_max_ns: lock.readers.wait.max,
    };
    Some(verdict(evidence, Some(worst), vec![Remedy::PhaseFairRwLock]))
}

fn starved_writers(lock: &Lock) -> Option<Verdict> {
    let worst = lock.starved_writers.worst.as_ref()?;
    let evidence = Evidence::WriterStarvation {
        times: lock.starved_writers.count,
        most_readers: worst.others,
        waits: lock.others.wait.count,
        wait_max_ns: lock.others.wait.max,
    };
    Some(verdict(evidence, Some(worst), vec![Remedy::PhaseFairRwLock]))
}

fn unfair(lock: &Lock) -> Option<Verdict> {
    let most = lock.overtaken.worst.as_ref().map_or(0, |worst| worst.others);
    let exclusive = matches!(lock.family, Family::Mutex | Family::Spin);
    if !exclusive || (most < 2 && lock.reacquired.count < 2) {
        return None;
    }
    let wait = &lock.others.wait;
    let evidence = Evidence::UnfairHandOver {
        overtaken: lock.overtaken.count,
        most_overtaken: most,
        reacquired: lock.reacquired.count,
        barged: lock.barged,
        wait_p50_ns: wait.p50,
        wait_p99_9_ns: wait.p99_9,
        wait_max_ns: wait.max,
    };
    let worst = lock.overtaken.worst.as_ref().or(lock.others.longest_wait.as_ref());
    let mut remedies = vec![Remedy::FairMutex];
    if lock.family == Family::Mutex && !inherits(lock) {
        remedies.push(Remedy::InheritanceMutex);
    }
    Some(verdict(evidence, worst, remedies))
}

fn long_hold(survey: &Survey, lock: &Lock, options: &Options) -> Option<Verdict> {
    let hold = lock.longest_blocking.as_ref()?;
    let longest = [&lock.others, &lock.readers].map(|of| of.wait.max);
    let wait_max_ns = longest[0].max(longest[1]);
    if hold.duration_ns < options.long_hold_ns || 2 * hold.duration_ns < wait_max_ns {
        return None;
    }
    let evidence = Evidence::LongCriticalSection {
        hold_ns: hold.duration_ns,
        hold_p50_ns: lock.others.hold.p50.max(lock.readers.hold.p50),
        waiting: hold.others,
        wait_max_ns,
        kind: hold.kind,
    };
    let remedies = match hold.kind.map(|kind| survey.kinds[kind as usize].group) {
        Some(Group::Copy) => vec![Remedy::PinnedMemory, Remedy::SmallerCopies],
        Some(Group::Launch) => vec![Remedy::CudaGraph],
        _ => Vec::new(),
    };
    Some(verdict(evidence, Some(hold), remedies))
}
