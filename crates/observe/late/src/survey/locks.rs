//! The locks of the first pass: who has them, how long they are waited for and held, and how
//! fairly they are given on.
//!
//! Since records come in the order of time across all threads, a lock's state is known at each of
//! them: how many wait, how often it was taken, by which thread last. A wait notes the counters
//! when it begins; their difference when it ends says how many others got the lock meanwhile, so
//! that fairness costs a few additions for each wait and no queue.

use crate::histogram::Histogram;
use crate::identity::{Identities, Key, NO_LOCK};
use crate::snapshot::Wait;
use record::{Class, Record};

/// Value for no stream.
pub(crate) const NOBODY: u32 = u32::MAX;
/// `ETIMEDOUT`, the same on every architecture that is recorded.
const TIMED_OUT: u32 = 110;
/// Most callers that are kept for a lock.
const MOST_CALLERS: usize = 16;

/// One wait or hold that stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Duration of the wait or hold, in ticks.
    pub ticks: u64,
    /// Begin of the wait or hold.
    pub since: u64,
    /// The stream of the thread.
    pub stream: u32,
    /// Kind of the call in which it was.
    pub kind: u32,
    /// Thread id of the lock's owner when the wait began; 0 unknown.
    pub owner: u32,
    /// Number of acquisitions by other threads meanwhile, or of other threads that waited.
    pub others: u64,
}

impl Instance {
    fn keep_longest(kept: &mut Option<Instance>, new: Instance) {
        if kept.is_none_or(|kept| new.ticks > kept.ticks) {
            *kept = Some(new);
        }
    }

    fn keep_most(kept: &mut Option<Instance>, new: Instance) {
        if kept.is_none_or(|kept| (new.others, new.ticks) > (kept.others, kept.ticks)) {
            *kept = Some(new);
        }
    }
}

/// Number of times that an event happened, and the instances that stand out: the one with most
/// others, and the longest one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub count: u64,
    pub worst: Option<Instance>,
    pub longest: Option<Instance>,
}

impl Tally {
    fn add(&mut self, instance: Instance) {
        self.count += 1;
        Instance::keep_most(&mut self.worst, instance);
        Instance::keep_longest(&mut self.longest, instance);
    }
}

/// A lock's counters and histograms. Index 1 is for readers, 0 for everybody else.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockState {
    pub attributes: Option<u32>,
    pub created: Option<u64>,
    pub destroyed: Option<u64>,
    pub acquisitions: [u64; 2],
    pub contended: [u64; 2],
    /// Attempts that did not wait and did not get it.
    pub busy: u64,
    /// Waits that ended without it.
    pub gave_up: u64,
    /// Waits of these, and waits for a signal, that ended by their time limit.
    pub timed_out: u64,
    /// Waits that had not ended when their thread's records did.
    pub never_ended: u64,
    /// Durations of the waits that ended without it.
    pub in_vain: Histogram,
    pub longest_in_vain: Option<Instance>,
    pub handed_over: u64,
    pub signals: u64,
    pub wait: [Histogram; 2],
    pub hold: [Histogram; 2],
    pub relock: Histogram,
    pub queue: Histogram,
    pub meanwhile: Histogram,
    pub longest_wait: [Option<Instance>; 2],
    pub longest_hold: [Option<Instance>; 2],
    /// The longest hold during which another thread waited.
    pub longest_blocking: Option<Instance>,
    pub overtaken: Tally,
    pub reacquired: Tally,
    pub starved_readers: Tally,
    pub starved_writers: Tally,
    /// Acquisitions by threads that had not waited, while others did.
    pub barged: u64,
    pub unknown_waits: u64,
    pub unknown_holds: u64,
    pub kinds: Vec<(u32, u64)>,
    pub callers: Vec<(u64, u64)>,
    /// Time at which it was first taken in a launch.
    pub first_in_launch: Option<u64>,
    waiting: u32,
    waiting_at_release: u32,
    last_owner: Option<u32>,
    grants: u64,
    write_grants: u64,
    barging_reads: u64,
    signalled: Option<u64>,
    pub(super) users: u32,
}

/// Counters of a lock when a wait for it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    grants: u64,
    write_grants: u64,
    barging_reads: u64,
    ahead: u32,
}

/// The thread that does something, and the call in which it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Actor {
    pub stream: u32,
    pub kind: u32,
    /// True if measured times may be wrong, since records are missing around them.
    pub doubtful: bool,
}

impl LockState {
    /// A wait begins.
    pub(crate) fn wait_begins(&mut self) -> Mark {
        let mark = Mark {
            grants: self.grants,
            write_grants: self.write_grants,
            barging_reads: self.barging_reads,
            ahead: self.waiting,
        };
        self.waiting += 1;
        mark
    }

    /// A wait ends, whichever way.
    pub(crate) fn wait_ends(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Counts a wait that ended with the lock. [`LockState::granted`] comes after it.
    pub(crate) fn waited(&mut self, wait: &Wait, mark: &Mark, now: u64, actor: Actor) {
        let mode = usize::from(wait.class == Class::Read);
        self.contended[mode] += 1;
        if actor.doubtful {
            self.unknown_waits += 1;
            return;
        }
        let meanwhile = self.grants - mark.grants;
        let Actor { stream, kind, .. } = actor;
        let (ticks, since) = (now - wait.since, wait.since);
        let instance =
            Instance { ticks, since, stream, kind, owner: wait.owner, others: meanwhile };
        self.wait[mode].add(ticks);
        self.queue.add(u64::from(mark.ahead) + 1);
        self.meanwhile.add(meanwhile);
        Instance::keep_longest(&mut self.longest_wait[mode], instance);
        match wait.class {
            Class::Read => {
                let others = self.write_grants - mark.write_grants;
                if others >= 2 {
                    self.starved_readers.add(Instance { others, ..instance });
                }
            }
            Class::Write => {
                let others = self.barging_reads - mark.barging_reads;
                if others >= 2 {
                    self.starved_writers.add(Instance { others, ..instance });
                }
            }
            _ => {
                // Each of those ahead gets it once; more came later and went before.
                let others = meanwhile.saturating_sub(u64::from(mark.ahead));
                if others > 0 {
                    self.overtaken.add(Instance { others, ..instance });
                }
            }
        }
    }

    /// Counts a wait that ended without the lock, with this result.
    pub(crate) fn given_up(&mut self, wait: &Wait, result: u32, now: u64, actor: Actor) {
        self.gave_up += 1;
        self.timed_out += u64::from(result == TIMED_OUT);
        if actor.doubtful {
            self.unknown_waits += 1;
            return;
        }
        let (ticks, since, Actor { stream, kind, .. }) = (now - wait.since, wait.since, actor);
        let instance = Instance { ticks, since, stream, kind, owner: wait.owner, others: 0 };
        self.in_vain.add(ticks);
        Instance::keep_longest(&mut self.longest_in_vain, instance);
    }

    /// A thread has got the lock.
    pub(crate) fn granted(&mut self, class: Class, waited: bool, now: u64, actor: Actor) {
        let read = class == Class::Read;
        if !waited && self.waiting > 0 {
            self.barging_reads += u64::from(read);
            self.barged += u64::from(!read);
        }
        if !read && self.waiting_at_release > 0 && self.last_owner == Some(actor.stream) {
            let others = u64::from(self.waiting_at_release);
            let Actor { stream, kind, .. } = actor;
            self.reacquired.add(Instance {
                others,
                since: now,
                stream,
                kind,
                ..Instance::default()
            });
        }
        self.grants += 1;
        self.write_grants += u64::from(class == Class::Write);
        self.waiting_at_release = 0;
        self.last_owner = None;
        self.users += 1;
    }

    /// Counts an acquisition.
    #[inline]
    pub(crate) fn count(&mut self, record: &Record, class: Class, kind: u32) {
        self.acquisitions[usize::from(class == Class::Read)] += 1;
        self.attributes = Some(record.number);
        count_in(&mut self.kinds, kind, usize::MAX);
        count_in(&mut self.callers, record.detail, MOST_CALLERS);
    }

    /// A thread releases the lock.
    pub(crate) fn released(&mut self, read: bool, since: u64, now: u64, kind: u32, actor: Actor) {
        self.left(read, Some(actor.stream));
        if actor.doubtful {
            self.unknown_holds += 1;
            return;
        }
        let mode = usize::from(read);
        let ticks = now - since;
        let others = u64::from(self.waiting);
        let instance = Instance { ticks, since, stream: actor.stream, kind, owner: 0, others };
        self.hold[mode].add(ticks);
        Instance::keep_longest(&mut self.longest_hold[mode], instance);
        if others > 0 {
            Instance::keep_longest(&mut self.longest_blocking, instance);
        }
    }

    /// A thread no longer has the lock, or it is not known any more whether it has it.
    pub(crate) fn left(&mut self, read: bool, by: Option<u32>) {
        self.users = self.users.saturating_sub(1);
        (self.last_owner, self.waiting_at_release) =
            if read { (None, 0) } else { (by, self.waiting) };
    }

    /// Counts a wait for a condition that began at `since`; returns how much of it was waiting
    /// for the mutex.
    pub(crate) fn condition_waited(
        &mut self,
        wait: &Wait,
        result: u32,
        now: u64,
        actor: Actor,
    ) -> u64 {
        self.contended[0] += 1;
        self.timed_out += u64::from(result == TIMED_OUT);
        // A wait that timed out was not ended by a signal.
        let signalled = self.signalled.filter(|at| result == 0 && (wait.since..=now).contains(at));
        let relock = signalled.map_or(0, |at| now - at);
        if actor.doubtful {
            self.unknown_waits += 1;
            return relock;
        }
        let (ticks, since) = (now - wait.since - relock, wait.since);
        let Actor { stream, kind, .. } = actor;
        let instance = Instance { ticks, since, stream, kind, owner: 0, others: 0 };
        self.wait[0].add(ticks);
        self.relock.add(relock);
        Instance::keep_longest(&mut self.longest_wait[0], instance);
        relock
    }

    /// A once control was run, or another thread's running of it was waited for.
    pub(crate) fn ran_once(&mut self, since: Option<u64>, now: u64, actor: Actor) {
        let Some(since) = since.filter(|_| !actor.doubtful) else {
            self.unknown_waits += 1;
            return;
        };
        let Actor { stream, kind, .. } = actor;
        let instance = Instance { ticks: now - since, since, stream, kind, ..Instance::default() };
        self.wait[0].add(instance.ticks);
        Instance::keep_longest(&mut self.longest_wait[0], instance);
    }

    /// A signal is sent.
    pub(crate) fn signal(&mut self, now: u64) {
        self.signals += 1;
        self.signalled = Some(now);
    }

    /// Returns true if nothing would be missed if it were forgotten.
    fn forgettable(&self) -> bool {
        let quiet =
            self.contended == [0; 2] && self.gave_up + self.never_ended == 0 && self.waiting == 0;
        quiet && self.users == 0 && self.unknown_holds + self.unknown_waits == 0
    }
}

/// Counts `what` in a short list that keeps the frequent ones in front. A full list gives the
/// place of its rarest to the new one, with its count, which may so be too high (the
/// "space-saving" rule).
#[inline]
fn count_in<T: Copy + PartialEq>(list: &mut Vec<(T, u64)>, what: T, most: usize) {
    match list.iter().position(|(have, _)| *have == what) {
        Some(at) => {
            list[at].1 += 1;
            if at > 0 && list[at - 1].1 < list[at].1 {
                list.swap(at - 1, at);
            }
        }
        None if list.len() < most => list.push((what, 1)),
        None => {
            let last = list.last_mut().expect("the list is full");
            *last = (what, last.1 + 1);
        }
    }
}

/// Uncontended locks that were destroyed and forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forgotten {
    pub locks: u64,
    pub acquisitions: u64,
}

/// All locks of the trace.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    pub identities: Identities,
    pub states: Vec<LockState>,
    pub forgotten: Forgotten,
}

/// The lock that an address meant lately, for each of some addresses: a thread's own, small and
/// without hashing.
#[derive(Clone, Debug)]
pub(crate) struct Cache([(u64, u32, u32); 64]);

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache([(0, 0, NO_LOCK); 64])
    }
}

impl Locks {
    /// The lock that an address means now.
    #[inline]
    pub(crate) fn find(&mut self, cache: &mut Cache, key: Key, now: u64) -> u32 {
        // The family is in the lowest bits of the tag: locks are aligned to four bytes.
        let tag = key.address.rotate_left(3) ^ key.family as u64;
        let slot = &mut cache.0[(key.address >> 3 ^ key.address >> 9) as usize & 63];
        if slot.0 == tag && slot.1 == self.identities.epoch() && slot.2 != NO_LOCK {
            return slot.2;
        }
        let lock = self.identities.current(key, now);
        *slot = (tag, self.identities.epoch(), lock);
        if lock as usize >= self.states.len() {
            self.states.resize_with(lock as usize + 1, LockState::default);
        }
        lock
    }

    /// A lock is created: its address means a new one, unless nothing was known of it.
    pub(crate) fn created(&mut self, cache: &mut Cache, key: Key, record: &Record) {
        if let Some(known) = self.identities.known(key) {
            self.end(known, record.time);
        }
        let lock = self.find(cache, key, record.time);
        let state = &mut self.states[lock as usize];
        state.created = Some(record.time);
        state.attributes = Some(record.number);
    }

    /// A lock is destroyed.
    pub(crate) fn destroyed(&mut self, key: Key, now: u64) {
        if let Some(known) = self.identities.known(key) {
            self.end(known, now);
        }
    }

    fn end(&mut self, lock: u32, now: u64) {
        self.identities.end(self.identities.identity(lock).key);
        let state = &mut self.states[lock as usize];
        state.destroyed = Some(now);
        if state.forgettable() {
            self.forgotten.locks += 1;
            self.forgotten.acquisitions += state.acquisitions.iter().sum::<u64>();
            *state = LockState::default();
            self.identities.forget(lock);
        }
    }
}
