//! Verdicts on what the explained calls waited for.

use super::lock::inherits;
use super::{Evidence, Occasion, Remedy, Verdict};
use crate::Options;
use crate::explain::part::{Cause, Explained, Holder, HolderState, Reason, Task};
use crate::function::Group;
use crate::identity::Family;
use crate::result::{Lock, Survey};
use std::collections::BTreeSet;

/// Share of time, in percent, with more threads than processors that is worth a word.
const OVERSUBSCRIBED_PERCENT: u64 = 5;

/// Returns the verdicts about these calls.
pub(super) fn judge(survey: &Survey, explained: &[Explained], options: &Options) -> Vec<Verdict> {
    let parts = explained.iter().flat_map(|call| &call.parts);
    let waited: BTreeSet<u32> = parts
        .filter_map(|part| match &part.cause {
            Cause::Lock { lock, .. } => Some(*lock),
            _ => None,
        })
        .collect();
    let mut verdicts = Vec::new();
    for lock in waited {
        verdicts.extend(preempted(survey, explained, lock, true));
        verdicts.extend(preempted(survey, explained, lock, false));
    }
    verdicts.extend(oversubscription(survey, explained));
    verdicts.extend(queue_full(survey, explained));
    verdicts.extend(blocked(survey, explained, options));
    verdicts.extend(repeated(survey));
    verdicts
}

/// The last holder of a part, if it could have run and another thread did.
fn kept_from_running(holders: &[Holder]) -> Option<(&Holder, Option<&Task>)> {
    let last = holders.last()?;
    match &last.state {
        HolderState::Preempted { by } => Some((last, by.as_ref())),
        HolderState::WokenLate { behind } => {
            let behind = behind.as_ref();
            behind.is_none_or(|behind| behind.tid != 0).then_some((last, behind))
        }
        _ => None,
    }
}

/// Returns true if the waiter is more urgent than the holder, and than the thread that ran instead.
fn inverted(waiter: Option<u16>, holder: &Task, by: Option<&Task>) -> bool {
    let (Some(waiter), Some(holder)) = (waiter, holder.priority) else { return false };
    let third = by.and_then(|by| by.priority);
    waiter < holder && third.is_none_or(|third| waiter < third)
}

/// Calls that waited for this lock and a holder that was kept from running, with (`inversions`)
/// or without an inversion of priorities.
fn preempted(
    survey: &Survey,
    explained: &[Explained],
    lock: u32,
    inversions: bool,
) -> Option<Verdict> {
    let (mut calls, mut total_ns) = (0, 0);
    let mut worst: Option<(u64, &Explained, &Task, Option<&Task>)> = None;
    for call in explained {
        let of = &survey.worst[call.worst as usize];
        let priority = survey.threads[of.thread as usize].priority;
        let mut here = 0;
        let mut longest: Option<(u64, &Task, Option<&Task>)> = None;
        for part in &call.parts {
            let Cause::Lock { lock: waited, holders, .. } = &part.cause else { continue };
            let Some((holder, by)) = kept_from_running(holders) else { continue };
            if *waited != lock || inverted(priority, &holder.task, by) != inversions {
                continue;
            }
            here += part.duration_ns;
            if longest.is_none_or(|(ns, ..)| part.duration_ns > ns) {
                longest = Some((part.duration_ns, &holder.task, by));
            }
        }
        let Some((_, holder, by)) = longest else { continue };
        calls += 1;
        total_ns += here;
        if worst.is_none_or(|(ns, ..)| here > ns) {
            worst = Some((here, call, holder, by));
        }
    }
    let (severity_ns, call, holder, by) = worst?;
    let (holder, by) = (holder.clone(), by.cloned());
    let of = &survey.worst[call.worst as usize];
    let waiter = task(survey, of.thread);
    let evidence = if inversions {
        Evidence::PriorityInversion { calls, total_ns, waiter, holder, by }
    } else {
        Evidence::PreemptedHolder { calls, total_ns, holder, by }
    };
    let shown = Some(shown(survey, call));
    let remedies = held_up(&survey.locks[lock as usize], inversions);
    Some(Verdict { evidence, lock: Some(lock), severity_ns, worst: shown, remedies })
}

/// Returns the remedies against holders that do not run.
fn held_up(lock: &Lock, inversion: bool) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    match lock.family {
        Family::Mutex if !inherits(lock) => remedies.push(Remedy::InheritanceMutex),
        Family::ReadWrite => remedies.push(Remedy::PhaseFairRwLock),
        _ => {}
    }
    remedies.push(Remedy::HigherPriority);
    if !inversion {
        remedies.push(Remedy::FewerThreads);
    }
    remedies
}

fn task(survey: &Survey, thread: u32) -> Task {
    let of = &survey.threads[thread as usize];
    Task { tid: of.tid, name: of.name.clone(), thread: Some(thread), priority: of.priority }
}

fn shown(survey: &Survey, call: &Explained) -> Occasion {
    let of = &survey.worst[call.worst as usize];
    Occasion {
        at_ns: of.at_ns,
        duration_ns: of.duration_ns,
        thread: of.thread,
        kind: Some(of.kind),
        explained: Some(call.worst),
    }
}

/// Number of explained calls that lost time to one cause, their lost time, and the worst of them.
struct Found<'e> {
    calls: u64,
    total_ns: u64,
    most_ns: u64,
    worst: &'e Explained,
}

fn find(explained: &[Explained], ns: impl Fn(&Explained) -> u64) -> Option<Found<'_>> {
    let worst = explained.iter().max_by_key(|call| (ns(call), std::cmp::Reverse(call.worst)))?;
    Some(Found {
        calls: explained.iter().filter(|call| ns(call) > 0).count() as u64,
        total_ns: explained.iter().map(&ns).sum(),
        most_ns: ns(worst),
        worst,
    })
    .filter(|found| found.most_ns > 0)
}

fn oversubscription(survey: &Survey, explained: &[Explained]) -> Option<Verdict> {
    let load = survey.load.as_ref()?;
    let percent = (load.over_ns * 100).checked_div(load.observed_ns)?;
    if percent < OVERSUBSCRIBED_PERCENT {
        return None;
    }
    let found = find(explained, |call| call.sums.preempted_ns + call.sums.woken_late_ns);
    let evidence = Evidence::Oversubscription {
        percent,
        most: load.most,
        processors: survey.processors,
        waited_ns: found.as_ref().map_or(0, |found| found.total_ns),
    };
    Some(Verdict {
        evidence,
        lock: None,
        severity_ns: found.as_ref().map_or(0, |found| found.most_ns),
        worst: found.map(|found| shown(survey, found.worst)),
        remedies: vec![Remedy::FewerThreads, Remedy::HigherPriority],
    })
}

fn queue_full(survey: &Survey, explained: &[Explained]) -> Option<Verdict> {
    let maybe = |call: &Explained| {
        let parts = call
            .parts
            .iter()
            .filter(|part| part.cause == Cause::Unexplained { reason: Reason::QueueMayBeFull });
        parts.map(|part| part.duration_ns).sum::<u64>()
    };
    let executing = explained.iter().any(|call| call.sums.queue_full_ns > 0);
    let found = find(explained, |call| call.sums.queue_full_ns + maybe(call))?;
    let outstanding = |call: &Explained| survey.worst[call.worst as usize].outstanding;
    let full = explained.iter().filter(|call| call.sums.queue_full_ns + maybe(call) > 0);
    let evidence = Evidence::DeviceQueueFull {
        calls: found.calls,
        total_ns: found.total_ns,
        most_outstanding: full.map(outstanding).max().unwrap_or(0),
        executing,
    };
    Some(Verdict {
        evidence,
        lock: None,
        severity_ns: found.most_ns,
        worst: Some(shown(survey, found.worst)),
        remedies: vec![Remedy::FewerOutstandingLaunches, Remedy::CudaGraph],
    })
}

fn blocked(survey: &Survey, explained: &[Explained], options: &Options) -> Option<Verdict> {
    let long = |call: &Explained| {
        let kind = survey.worst[call.worst as usize].kind;
        let gives = matches!(survey.kinds[kind as usize].group, Group::Launch);
        let blocked = call.sums.blocked_ns;
        if gives && blocked >= options.long_hold_ns { blocked } else { 0 }
    };
    let found = find(explained, long)?;
    Some(Verdict {
        evidence: Evidence::BlockedElsewhere { calls: found.calls, total_ns: found.total_ns },
        lock: None,
        severity_ns: found.most_ns,
        worst: Some(shown(survey, found.worst)),
        remedies: vec![Remedy::LockedMemory],
    })
}

fn repeated(survey: &Survey) -> Option<Verdict> {
    let sequence = survey.sequences.first()?;
    if !sequence.is_worth_a_graph() {
        return None;
    }
    Some(Verdict {
        evidence: Evidence::RepeatedLaunches {
            sequence: 0,
            length: sequence.length,
            repeats: sequence.repeats,
            launching_ns: sequence.launching_ns,
            estimated_saving_ns: sequence.estimated_saving_ns,
            locks: sequence.locks,
        },
        lock: None,
        severity_ns: sequence.estimated_saving_ns,
        worst: None,
        remedies: vec![Remedy::CudaGraph],
    })
}
