//! What is wrong, with the numbers that say so, and what would help.
//!
//! Each rule reads the survey's tables or the parts of the explained calls. What a rule says of a
//! lock's whole life (convoys, starvation, unfairness, long holds) comes from the first pass, so
//! its counts are of the whole trace; what needs the chain of causes (priority inversion,
//! preempted holders, a full queue) comes from the explained calls, so its counts are of those.

use super::Options;
use super::explain::part::{Cause, Explained, Holder, HolderState, Reason, Task};
use super::function::Group;
use super::identity::Family;
use super::result::{Instance, Lock, Survey, Use};
use serde::Serialize;

/// Waits from which a lock's distribution says something.
const ENOUGH_WAITS: u64 = 16;
/// Waiters, the new one included, from which a queue is a convoy, if it is so for half the waits.
const CONVOY_QUEUE: u64 = 3;
/// How much longer than a hold a wait is in a convoy.
const CONVOY_RATIO: u64 = 3;
/// Share of time, in percent, with more threads than processors that is worth a word.
const OVERSUBSCRIBED_PERCENT: u64 = 5;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What, and how that is known.
    pub evidence: Evidence,
    /// The lock that it is about, as its place in [`Survey::locks`].
    pub lock: Option<u32>,
    /// The longest time that one call or wait lost by it. Verdicts are in the order of this.
    pub severity_ns: u64,
    /// When that was.
    pub worst: Option<Occasion>,
    /// What would help, the most promising first.
    pub remedies: Vec<Remedy>,
}

/// One time that something went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occasion {
    /// When the wait, hold or call began.
    pub at_ns: u64,
    /// How long it was.
    pub duration_ns: u64,
    /// Whose, as a place in [`Survey::threads`].
    pub thread: u32,
    /// In which kind of call; none is outside of every call.
    pub kind: Option<u32>,
    /// The explained call that shows it, if one does, as its place in [`Survey::worst`].
    pub explained: Option<u32>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Evidence {
    /// A queue of waiters passes a lock on from one to the next: each waits for all before it,
    /// though none holds it for long.
    LockConvoy {
        /// Waits.
        waits: u64,
        /// Acquisitions.
        acquisitions: u64,
        /// Waiters when half of the waits had begun, at least.
        queue_p50: u64,
        /// Most waiters at once.
        queue_max: u64,
        /// Half of the waits are at most so long.
        wait_p50_ns: u64,
        /// The longest wait.
        wait_max_ns: u64,
        /// Half of the holds are at most so long.
        hold_p50_ns: u64,
        /// The longest hold.
        hold_max_ns: u64,
    },
    /// Readers waited while writers got the lock one after the other.
    ReaderStarvation {
        /// How often.
        times: u64,
        /// Most writers that got it during one wait.
        most_writers: u64,
        /// Readers' waits altogether.
        waits: u64,
        /// The longest of them.
        wait_max_ns: u64,
    },
    /// A writer waited while readers came and got the lock.
    WriterStarvation {
        /// How often.
        times: u64,
        /// Most readers that came and got it during one wait.
        most_readers: u64,
        /// Writers' waits altogether.
        waits: u64,
        /// The longest of them.
        wait_max_ns: u64,
    },
    /// The lock is not given to who waited longest.
    UnfairHandOver {
        /// Waits during which who came later got it first.
        overtaken: u64,
        /// How often that happened during one wait, at most.
        most_overtaken: u64,
        /// Acquisitions by the thread that had just released it, while others waited.
        reacquired: u64,
        /// Acquisitions without waiting, while others waited.
        barged: u64,
        /// Half of the waits are at most so long.
        wait_p50_ns: u64,
        /// 99.9 % of the waits are at most so long.
        wait_p99_9_ns: u64,
        /// The longest wait.
        wait_max_ns: u64,
    },
    /// A call waited for a less urgent thread that could not run, since a third one did.
    PriorityInversion {
        /// Explained calls in which it happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
        /// Who waited, the longest time.
        waiter: Task,
        /// Who had the lock.
        holder: Task,
        /// Who ran instead.
        by: Option<Task>,
    },
    /// A call waited for a thread that had been taken off its processor.
    PreemptedHolder {
        /// Explained calls in which it happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
        /// Who had the lock, the longest time.
        holder: Task,
        /// Who ran instead.
        by: Option<Task>,
    },
    /// More threads want to run than there are processors.
    Oversubscription {
        /// Time in which that was so, in percent of the time that is known.
        percent: u64,
        /// Most threads at once.
        most: u32,
        /// Processors.
        processors: u32,
        /// Time that explained calls were able to run and did not.
        waited_ns: u64,
    },
    /// A lock is held for long while others wait for it, and that is most of their wait.
    LongCriticalSection {
        /// The longest such hold.
        hold_ns: u64,
        /// Half of all holds are at most so long.
        hold_p50_ns: u64,
        /// Threads that waited at its end.
        waiting: u64,
        /// The longest wait for this lock.
        wait_max_ns: u64,
        /// The kind of call that held it; none is outside of every call.
        kind: Option<u32>,
    },
    /// Calls had to wait for room in the device's queue.
    DeviceQueueFull {
        /// Explained calls in which it probably happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
        /// Most launches outstanding.
        most_outstanding: u32,
        /// Whether the scheduler's records say that these calls executed; else they may have been
        /// suspended.
        executing: bool,
    },
    /// Calls that only give work to the device were off the processor, in a system call or a page
    /// fault.
    BlockedElsewhere {
        /// Explained calls in which it happened.
        calls: u64,
        /// Time in them.
        total_ns: u64,
    },
    /// The same launches and copies are made one by one, again and again.
    RepeatedLaunches {
        /// Place in [`Survey::sequences`].
        sequence: u32,
        /// Calls of one repetition.
        length: u64,
        /// Repetitions.
        repeats: u64,
        /// Time in the calls of one repetition.
        launching_ns: u64,
        /// What a graph would save of it: an estimate.
        estimated_saving_ns: u64,
        /// Locks taken by one repetition.
        locks: f64,
    },
}

/// What would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Mutexes that lend their waiters' priority to their owner.
    InheritanceMutex,
    /// Mutexes that are given to who waited longest.
    FairMutex,
    /// Read-write locks that let readers and writers in by turns.
    PhaseFairRwLock,
    /// Copies from and to pinned memory, which need no lock while the data moves.
    PinnedMemory,
    /// Smaller copies.
    SmallerCopies,
    /// Launching all at once as a graph.
    CudaGraph,
    /// Fewer threads that use the device or want a processor.
    FewerThreads,
    /// A real-time priority, or a higher one.
    HigherPriority,
    /// Waiting for the device more often, so that less is outstanding.
    FewerOutstandingLaunches,
    /// Memory that is locked and touched beforehand, so that no page fault comes.
    LockedMemory,
}

/// What is wrong, the worst first.
pub fn verdicts(survey: &Survey, explained: &[Explained], options: &Options) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (lock, of) in (0u32..).zip(&survey.locks) {
        let about = [
            convoy(of),
            starved_readers(of),
            starved_writers(of),
            unfair(of),
            long_hold(survey, of, options),
        ];
        let about = about.into_iter().flatten();
        verdicts.extend(about.map(|verdict| Verdict { lock: Some(lock), ..verdict }));
        verdicts.extend(preempted(survey, explained, lock, true));
        verdicts.extend(preempted(survey, explained, lock, false));
    }
    verdicts.extend(oversubscription(survey, explained));
    verdicts.extend(queue_full(survey, explained));
    verdicts.extend(blocked(survey, explained, options));
    verdicts.extend(repeated(survey));
    verdicts.sort_by_key(|verdict| (std::cmp::Reverse(verdict.severity_ns), verdict.lock));
    verdicts
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

fn inherits(lock: &Lock) -> bool {
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

/// The last holder of a part, if it could have run and somebody else did.
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

/// Whether the waiter is more urgent than the holder, and than who ran instead.
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

/// What helps against holders that do not run.
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

/// How many explained calls lost time to something, how much, and which one the most.
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
        let parts = call.parts.iter().filter(|part| {
            part.cause == Cause::Unexplained { reason: Reason::QueueMayBeFull }
        });
        parts.map(|part| part.duration_ns).sum::<u64>()
    };
    let executing = explained.iter().any(|call| call.sums.queue_full_ns > 0);
    let found = find(explained, |call| call.sums.queue_full_ns + maybe(call))?;
    let of = |call: &Explained| survey.worst[call.worst as usize].outstanding;
    let full = explained.iter().filter(|call| call.sums.queue_full_ns + maybe(call) > 0);
    let evidence = Evidence::DeviceQueueFull {
        calls: found.calls,
        total_ns: found.total_ns,
        most_outstanding: full.map(of).max().unwrap_or(0),
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
    if sequence.estimated_saving_ns == 0 {
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
