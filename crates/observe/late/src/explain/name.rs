//! Turns the account of a call from ids and ticks into plain data.

use super::account::{Account, Slice, Sum};
use super::part::{Cause, Explained, GpuState, Holder, HolderState, Part, Reason, Sums, Task};
use super::raw::{Chain, Gpu, Holding, Link, Raw};
use crate::function::NO_KIND;
use crate::gpu::NO_WORK;
use crate::identity::NO_LOCK;
use crate::processors::{Stand, UNKNOWN_PRIORITY, UNKNOWN_TID, Who};
use crate::result::Survey;
use crate::survey::locks::NOBODY;
use record::clock::Calibration;
use std::collections::HashMap;
use trace::{StreamKind, Trace};

/// Names of everything.
pub(super) struct Names<'r> {
    survey: &'r Survey,
    contended_only: bool,
    tasks: HashMap<u32, &'r str>,
    /// Place in the survey's threads of each stream.
    threads: Vec<Option<u32>>,
    /// Places in the survey's threads of each thread id.
    by_tid: HashMap<u32, Vec<u32>>,
}

impl<'r> Names<'r> {
    pub(super) fn new(trace: &'r Trace, survey: &'r Survey) -> Names<'r> {
        let mut count = 0;
        let mut by_tid: HashMap<u32, Vec<u32>> = HashMap::new();
        let streams = trace.streams().iter().map(|stream| {
            let is = stream.kind == StreamKind::Thread;
            let place = is.then_some(count);
            if is {
                by_tid.entry(stream.id).or_default().push(count);
            }
            count += u32::from(is);
            place
        });
        let threads = streams.collect();
        let tasks = trace.metadata().tasks.iter();
        Names {
            survey,
            contended_only: survey.contended_only,
            tasks: tasks.map(|task| (task.thread, task.name.as_str())).collect(),
            threads,
            by_tid,
        }
    }

    /// A closed account.
    pub(super) fn explained(&self, account: &Account) -> Explained {
        let clock = &self.survey.inner.clock;
        let mut teller = Teller { clock, ticks: 0 };
        let mut parts = Vec::new();
        for slice in &account.slices {
            let Slice { from, to, raw, readers } = *slice;
            let sum = Sum { ticks: to - from, times: 1, readers };
            let cause = self.cause(&raw, sum.readers, account);
            parts.push(teller.part(true, sum, cause));
        }
        let mut sums: Vec<(Cause, Sum)> = account
            .sums
            .iter()
            .map(|(raw, sum)| (self.cause(raw, sum.readers, account), *sum))
            .collect();
        sums.sort_by_cached_key(|(cause, sum)| (u64::MAX - sum.ticks, format!("{cause:?}")));
        for (cause, sum) in sums {
            parts.push(teller.part(false, sum, cause));
        }
        explained(account.worst, clock, teller.ticks, parts)
    }

    fn cause(&self, raw: &Raw, readers: u32, account: &Account) -> Cause {
        match *raw {
            Raw::Executing => Cause::Executing,
            Raw::NotRecorded => Cause::Unexplained { reason: Reason::NoScheduler },
            Raw::QueueMayBeFull => Cause::Unexplained { reason: Reason::QueueMayBeFull },
            Raw::Lost => Cause::Unexplained { reason: Reason::Lost },
            Raw::Lock { lock, relock, chain } => {
                let (lock, holders) = (self.lock(lock), self.holders(&chain));
                Cause::Lock { lock, after_signal: relock, holders, readers }
            }
            Raw::HandOver { lock, relock, to } => Cause::HandOver {
                lock: self.lock(lock),
                after_signal: relock,
                to: to.and_then(|to| self.task(to)),
                certain: !self.contended_only,
            },
            Raw::WokenLate { lock, by } => Cause::WokenLate {
                lock: (lock != NO_LOCK).then(|| self.lock(lock)),
                behind: self.task(by),
            },
            Raw::Preempted { by } => Cause::Preempted { by: self.task(by) },
            // The first pass has forgotten the object that the thread waits for.
            Raw::Signal { lock: NO_LOCK } => Cause::Unexplained { reason: Reason::Lost },
            Raw::Signal { lock } => Cause::Signal {
                lock: self.lock(lock),
                family: self.survey.inner.identities.identity(lock).key.family,
            },
            Raw::Blocked => Cause::Blocked,
            Raw::QueueFull => Cause::QueueFull { outstanding: account.target.outstanding },
            Raw::Gpu(gpu) => {
                let (state, work) = match gpu {
                    Gpu::Own(work) => (GpuState::OwnWork, work),
                    Gpu::Longer(work) => (GpuState::LongerThanUsual, work),
                    Gpu::Between => (GpuState::Between, NO_WORK),
                    Gpu::NotGiven => (GpuState::NotGiven, NO_WORK),
                    Gpu::Over => (GpuState::Over, NO_WORK),
                    Gpu::ToldLate => (GpuState::ToldLate, NO_WORK),
                    Gpu::NotRecorded => (GpuState::NotRecorded, NO_WORK),
                };
                Cause::Gpu { state, work: (work != NO_WORK).then_some(work) }
            }
        }
    }

    fn lock(&self, lock: u32) -> u32 {
        self.survey.inner.lock_places.get(lock as usize).copied().unwrap_or(NO_LOCK)
    }

    fn holders(&self, chain: &Chain) -> Vec<Holder> {
        let links = chain.links();
        let state = |at: usize| {
            if at + 1 < links.len() { HolderState::WaitsForLock } else { self.state(chain.last) }
        };
        let holder = |(at, link): (usize, &Link)| Holder {
            lock: self.lock(link.lock),
            task: self.thread(link),
            call: (link.kind != NO_KIND).then(|| self.survey.inner.kind_places[link.kind as usize]),
            read: link.read,
            assumed: link.assumed,
            state: state(at),
        };
        links.iter().enumerate().map(holder).collect()
    }

    fn state(&self, holding: Holding) -> HolderState {
        match holding {
            Holding::Stands(stand) => match stand {
                Stand::Running => HolderState::Executing,
                Stand::Preempted(by) => HolderState::Preempted { by: self.task(by) },
                Stand::Woken(by) => HolderState::WokenLate { behind: self.task(by) },
                Stand::Blocked => HolderState::Blocked,
                Stand::NotRecorded => HolderState::NotKnown,
                Stand::Lost => HolderState::Lost,
            },
            Holding::HandOver(lock) => HolderState::HandOver { lock: self.lock(lock) },
            Holding::Signal(lock) => HolderState::Signal { lock: self.lock(lock) },
            Holding::NotFollowed => HolderState::NotFollowed,
            Holding::Lost => HolderState::Lost,
        }
    }

    fn thread(&self, link: &Link) -> Task {
        let place = match link.stream {
            NOBODY => None,
            stream => self.threads.get(stream as usize).copied().flatten(),
        };
        self.named(link.who, place)
    }

    fn task(&self, who: Who) -> Option<Task> {
        if who.tid == UNKNOWN_TID {
            return None;
        }
        // An id that was used again may mean several threads; then it is left open which.
        let places = self.by_tid.get(&who.tid).map_or(&[][..], Vec::as_slice);
        let place = if let [one] = places { Some(*one) } else { None };
        Some(self.named(who, place))
    }

    fn named(&self, who: Who, thread: Option<u32>) -> Task {
        let own = thread.map(|place| &self.survey.threads[place as usize]);
        let name = own.map(|thread| thread.name.as_str()).filter(|name| !name.is_empty());
        let name = name.or_else(|| self.tasks.get(&who.tid).copied()).unwrap_or_default();
        let seen = (who.priority != UNKNOWN_PRIORITY).then_some(who.priority);
        Task {
            tid: who.tid,
            name: name.to_owned(),
            thread,
            priority: seen.or(own.and_then(|thread| thread.priority)),
        }
    }
}

/// Converter of parts to nanoseconds whose sum is exact: each part ends where the next one begins.
struct Teller<'c> {
    clock: &'c Calibration,
    /// Ticks told so far.
    ticks: u64,
}

impl Teller<'_> {
    fn part(&mut self, timed: bool, sum: Sum, cause: Cause) -> Part {
        let from = self.clock.duration_ns(self.ticks);
        self.ticks += sum.ticks;
        Part {
            from_ns: timed.then_some(from),
            duration_ns: self.clock.duration_ns(self.ticks) - from,
            ticks: sum.ticks,
            times: sum.times,
            cause,
        }
    }
}

fn explained(worst: usize, clock: &Calibration, ticks: u64, parts: Vec<Part>) -> Explained {
    let mut sums = Sums::default();
    parts.iter().for_each(|part| sums.add(part));
    let (duration_ticks, duration_ns) = (ticks, clock.duration_ns(ticks));
    Explained { worst: worst as u32, duration_ticks, duration_ns, parts, sums }
}

/// A call whose records are not where the first pass saw them: the file was changed meanwhile.
pub(super) fn not_found(survey: &Survey, worst: usize) -> Explained {
    let inner = &survey.inner;
    let ticks = inner.targets[worst].ticks;
    let sum = Sum { ticks, times: 1, readers: 0 };
    let part = Teller { clock: &inner.clock, ticks: 0 }.part(
        true,
        sum,
        Cause::Unexplained { reason: Reason::Lost },
    );
    explained(worst, &inner.clock, ticks, vec![part])
}
