//! A holder that was kept from running: a call waited for a thread that had a lock and could run,
//! but another thread ran. It is a priority inversion if the waiter was more urgent than both.

use super::case::Case;
use super::{Evidence, Remedy, Verdict};
use crate::explain::part::{Cause, Explained, Holder, HolderState, Part, Task};
use crate::identity::Family;
use crate::result::Lock;
use std::collections::BTreeSet;

/// The kernel's number of the most urgent priority that is not a real-time one.
const FIRST_ORDINARY: u16 = 100;

pub(super) fn judge(case: &Case<'_>) -> Vec<Verdict> {
    let parts = case.explained.iter().flat_map(|call| &call.parts);
    let waited: BTreeSet<u32> = parts
        .filter_map(|part| match &part.cause {
            Cause::Lock { lock, .. } => Some(*lock),
            _ => None,
        })
        .collect();
    let both = |lock| [true, false].map(|inversions| of_lock(case, lock, inversions));
    waited.into_iter().flat_map(both).flatten().collect()
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

/// The parts of a call that waited for this lock and a holder that was kept from running, with
/// (`inversions`) or without an inversion of priorities: the part, the holder, who ran instead.
fn parts<'c>(
    case: &Case<'_>,
    call: &'c Explained,
    lock: u32,
    inversions: bool,
) -> impl Iterator<Item = (&'c Part, &'c Task, Option<&'c Task>)> {
    let priority = case.survey.threads[case.call(call).thread as usize].priority;
    call.parts.iter().filter_map(move |part| {
        let Cause::Lock { lock: waited, holders, .. } = &part.cause else { return None };
        let (holder, by) = kept_from_running(holders)?;
        let is = *waited == lock && inverted(priority, &holder.task, by) == inversions;
        is.then_some((part, &holder.task, by))
    })
}

fn of_lock(case: &Case<'_>, lock: u32, inversions: bool) -> Option<Verdict> {
    let ns = |call: &Explained| {
        parts(case, call, lock, inversions).map(|(part, ..)| part.duration_ns).sum()
    };
    let loss = case.loss(ns)?;
    let longest = parts(case, loss.worst, lock, inversions);
    let (_, holder, by) = longest.max_by_key(|(part, ..)| part.duration_ns)?;
    let (holder, by) = (holder.clone(), by.cloned());
    let waiter = case.task(case.call(loss.worst).thread);
    let urgent = waiter.priority.is_some_and(|priority| priority < FIRST_ORDINARY);
    let evidence = if inversions {
        Evidence::PriorityInversion { waiter, holder, by }
    } else {
        Evidence::PreemptedHolder { holder, by }
    };
    let remedies = remedies(case.lock(lock), inversions, urgent);
    Some(case.verdict(loss, Some(lock), evidence, remedies))
}

/// A real-time waiter can lend its priority; between ordinary threads there is none to lend.
fn remedies(lock: &Lock, inversion: bool, urgent: bool) -> Vec<Remedy> {
    let mut remedies = vec![Remedy::HigherPriority];
    let lends = match lock.family {
        Family::Mutex if !lock.inherits() => Some(Remedy::InheritanceMutex),
        Family::ReadWrite => Some(Remedy::PhaseFairRwLock),
        _ => None,
    };
    let at = usize::from(!urgent);
    remedies.splice(at..at, lends);
    if !inversion {
        remedies.push(Remedy::FewerThreads);
    }
    remedies
}
