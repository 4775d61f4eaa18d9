//! The program at one moment of the second pass: the open calls of each thread, who has which
//! lock, and who waits for what.
//!
//! A scene is set up from the snapshots of the first pass and then follows the records. The
//! snapshots of different threads are from different times before the window; the set of holders
//! of each lock becomes exact once all threads have been followed to the window's begin, because
//! a holder is added and taken away by its own records only.

use crate::function::{Functions, NO_KIND};
use crate::hash::Map;
use crate::identity::{Family, Identities, Key, NO_LOCK};
use crate::processors::Processors;
use crate::snapshot::{LockHold, Snapshot, Wait};
use crate::survey::locks::NOBODY;
use record::{Action, Class, Kind, Record};
use trace::{StreamKind, Trace};

/// A thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub calls: Vec<(u32, u64)>,
    pub held: Vec<LockHold>,
    pub wait: Option<Wait>,
    /// Time of the last signal to the object that the thread waits for.
    pub signalled: Option<u64>,
    /// Once controls that it runs or waits for.
    pub once: Vec<u32>,
    /// Its records are missing now, or may be.
    pub lost: bool,
}

/// A thread that has a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Has {
    pub stream: u32,
    pub read: bool,
    pub since: u64,
}

/// A lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockNow {
    pub holders: Vec<Has>,
    waiting: Vec<u32>,
    pub waiting_writers: u32,
    /// Time at which a thread last got it or let it go, or its assumed owner woke a waiter.
    pub changed: u64,
    /// The thread id of who let it go, if that was the last thing that happened to it.
    pub released_by: Option<u32>,
    /// True if a thread whose records are missing had it.
    pub lost: bool,
}

/// Effect of a record, with the locks concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Locks whose holders or waiters changed.
    pub locks: [u32; 2],
    pub what: What,
}

/// Kind of a record's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Nothing of the following.
    Plain,
    /// A call began.
    Enter,
    /// A call that had begun at this time returned.
    Exit(u64),
    /// The thread began to wait.
    Waits,
    /// The thread's wait is over, or it got a lock without one. False: it did not get it, or a
    /// condition was not signalled.
    Got(u32, bool),
    /// A condition, or another thing that is waited for, was signalled.
    Signal(u32),
}

/// The program.
#[derive(Debug)]
pub(crate) struct Scene<'s> {
    trace: &'s Trace,
    identities: &'s Identities,
    functions: Functions,
    pub contended_only: bool,
    pub threads: Vec<Seen>,
    locks: Map<u32, LockNow>,
    pub processors: Processors,
    by_tid: Map<u32, Vec<u32>>,
}

impl<'s> Scene<'s> {
    pub(crate) fn new(
        trace: &'s Trace,
        identities: &'s Identities,
        functions: &Functions,
        processors: Processors,
    ) -> Scene<'s> {
        let mut by_tid: Map<u32, Vec<u32>> = Map::default();
        for (stream, of) in (0u32..).zip(trace.streams()) {
            if of.kind == StreamKind::Thread {
                by_tid.entry(of.id).or_default().push(stream);
            }
        }
        Scene {
            trace,
            identities,
            functions: functions.clone(),
            contended_only: trace.metadata().settings.contended_only,
            threads: vec![Seen::default(); trace.streams().len()],
            locks: Map::default(),
            processors,
            by_tid,
        }
    }

    /// A thread is as the first pass left it here.
    pub(crate) fn restore(&mut self, stream: u32, snapshot: Snapshot, lost: bool) {
        for held in &snapshot.held {
            let has = Has { stream, read: held.read, since: held.since };
            self.locks.entry(held.lock).or_default().holders.push(has);
        }
        if let Some(wait) = &snapshot.wait {
            self.begin_wait(stream, wait);
        }
        for lock in &snapshot.lost {
            self.locks.entry(*lock).or_default().lost = true;
        }
        let Snapshot { calls, held, wait, .. } = snapshot;
        self.threads[stream as usize] = Seen { calls, held, wait, lost, ..Seen::default() };
    }

    /// A lock as it is now; none if no thread has used it.
    pub(crate) fn lock(&self, lock: u32) -> Option<&LockNow> {
        self.locks.get(&lock)
    }

    /// Returns true if an object is no lock that is held, but one that is signalled.
    pub(crate) fn is_signal(&self, lock: u32) -> bool {
        lock != NO_LOCK && !self.identities.identity(lock).key.family.held()
    }

    /// The thread id of a stream.
    pub(crate) fn tid(&self, stream: u32) -> u32 {
        self.trace.streams()[stream as usize].id
    }

    /// The stream of a thread id at a time: the latest one that has begun by then.
    pub(crate) fn stream(&self, tid: u32, now: u64) -> u32 {
        let first = |stream: u32| self.trace.streams()[stream as usize].blocks[0].first;
        let streams = self.by_tid.get(&tid).map_or(&[][..], Vec::as_slice).iter().copied();
        let begun = streams.filter(|stream| first(*stream) <= now);
        begun.max_by_key(|stream| first(*stream)).unwrap_or(NOBODY)
    }

    /// Records of a thread are missing from now on.
    pub(crate) fn gap_begins(&mut self, stream: u32) {
        let seen = std::mem::take(&mut self.threads[stream as usize]);
        for held in seen.held {
            let lock = self.locks.entry(held.lock).or_default();
            lock.holders.retain(|has| has.stream != stream);
            lock.lost = true;
        }
        if let Some(wait) = seen.wait {
            self.end_wait(stream, &wait);
        }
        self.threads[stream as usize].lost = true;
    }

    fn begin_wait(&mut self, stream: u32, wait: &Wait) {
        let lock = self.locks.entry(wait.lock).or_default();
        lock.waiting.push(stream);
        lock.waiting_writers += u32::from(wait.class == Class::Write);
    }

    fn end_wait(&mut self, stream: u32, wait: &Wait) {
        let lock = self.locks.entry(wait.lock).or_default();
        lock.waiting.retain(|waiting| *waiting != stream);
        lock.waiting_writers -= u32::from(wait.class == Class::Write).min(lock.waiting_writers);
    }

    /// A thread's record.
    pub(crate) fn apply(&mut self, stream: u32, record: &Record) -> Changed {
        let changed = |what| Changed { locks: [NO_LOCK; 2], what };
        let calls = &mut self.threads[stream as usize].calls;
        match record.kind {
            Kind::Enter => {
                calls.push((self.functions.kind(record.number, record.detail), record.time));
                changed(What::Enter)
            }
            Kind::Exit => changed(calls.pop().map_or(What::Plain, |(_, begin)| What::Exit(begin))),
            Kind::Lock(class, action) => self.lock_event(stream, record, class, action),
            _ => changed(What::Plain),
        }
    }

    fn find(&self, stream: u32, family: Family, address: u64, now: u64) -> u32 {
        let process = self.trace.streams()[stream as usize].process;
        self.identities.at(Key { process, family, address }, now).unwrap_or(NO_LOCK)
    }

    fn lock_event(
        &mut self,
        stream: u32,
        record: &Record,
        class: Class,
        action: Action,
    ) -> Changed {
        let now = record.time;
        let lock = self.find(stream, Family::of(class), record.subject, now);
        let mut mutex = NO_LOCK;
        let what = match action {
            Action::Created | Action::Destroyed | Action::HandedOver => What::Plain,
            Action::Waiting if class == Class::Once => {
                self.threads[stream as usize].once.push(lock);
                What::Plain
            }
            _ if class == Class::Once => {
                self.threads[stream as usize].once.retain(|once| *once != lock);
                What::Plain
            }
            Action::Waiting => {
                mutex = self.waits(stream, record, class, lock);
                What::Waits
            }
            Action::Acquired if class == Class::Condition => {
                mutex = self.find(stream, Family::Mutex, record.detail, now);
                let wait = self.stop_waiting(stream, lock);
                if !self.contended_only || wait.is_some_and(|wait| wait.had_mutex) {
                    self.take(stream, mutex, false, now);
                }
                What::Got(lock, record.number == 0)
            }
            Action::Acquired => {
                self.stop_waiting(stream, lock);
                if Family::of(class).held() {
                    self.take(stream, lock, class == Class::Read, now);
                }
                What::Got(lock, true)
            }
            Action::Failed => match self.stop_waiting(stream, lock) {
                Some(_) => What::Got(lock, false),
                None => What::Plain,
            },
            Action::Released if class != Class::Semaphore => {
                self.release(stream, lock, now, false);
                What::Plain
            }
            _ => {
                self.signal(lock, now);
                What::Signal(lock)
            }
        };
        Changed { locks: [lock, mutex], what }
    }

    /// Returns the mutex that is given up for a condition.
    fn waits(&mut self, stream: u32, record: &Record, class: Class, lock: u32) -> u32 {
        let (mut mutex, mut had_mutex) = (NO_LOCK, false);
        if class == Class::Condition {
            mutex = self.find(stream, Family::Mutex, record.detail, record.time);
            let held = &self.threads[stream as usize].held;
            had_mutex = held.iter().any(|held| held.lock == mutex);
            self.release(stream, mutex, record.time, true);
        }
        let (since, owner) = (record.time, record.number);
        let wait = Wait { lock, class, since, owner, mutex, had_mutex };
        if let Some(old) = self.threads[stream as usize].wait.replace(wait) {
            self.end_wait(stream, &old);
        }
        self.threads[stream as usize].signalled = None;
        self.begin_wait(stream, &wait);
        mutex
    }

    fn stop_waiting(&mut self, stream: u32, lock: u32) -> Option<Wait> {
        let seen = &mut self.threads[stream as usize];
        let wait = seen.wait.take_if(|wait| wait.lock == lock)?;
        seen.signalled = None;
        self.end_wait(stream, &wait);
        Some(wait)
    }

    fn take(&mut self, stream: u32, lock: u32, read: bool, now: u64) {
        let seen = &mut self.threads[stream as usize];
        if let Some(held) = seen.held.iter_mut().find(|held| held.lock == lock) {
            held.depth += 1;
            return;
        }
        let kind = seen.calls.last().map_or(NO_KIND, |(kind, _)| *kind);
        seen.held.push(LockHold { lock, read, depth: 1, since: now, kind });
        let state = self.locks.entry(lock).or_default();
        state.holders.push(Has { stream, read, since: now });
        (state.changed, state.released_by, state.lost) = (now, None, false);
    }

    fn release(&mut self, stream: u32, lock: u32, now: u64, altogether: bool) {
        let tid = self.tid(stream);
        let held = &mut self.threads[stream as usize].held;
        if let Some(at) = held.iter().rposition(|held| held.lock == lock) {
            held[at].depth -= 1;
            if held[at].depth > 0 && !altogether {
                return;
            }
            held.remove(at);
        }
        let state = self.locks.entry(lock).or_default();
        state.holders.retain(|has| has.stream != stream);
        (state.changed, state.released_by, state.lost) = (now, Some(tid), false);
    }

    fn signal(&mut self, lock: u32, now: u64) {
        let Some(state) = self.locks.get(&lock) else { return };
        for stream in &state.waiting {
            self.threads[*stream as usize].signalled = Some(now);
        }
    }

    /// A thread was woken by another. If it waits for a lock that is known to be the other's only
    /// from the lock's word when the wait began, then the other has let it go; returns that lock.
    pub(crate) fn woken(&mut self, waker: u32, wakee: u32, now: u64) -> u32 {
        let stream = self.stream(wakee, now);
        let Some(seen) = self.threads.get(stream as usize) else { return NO_LOCK };
        let Some(wait) = seen.wait.filter(|wait| wait.owner == waker && waker != 0) else {
            return NO_LOCK;
        };
        let lock = self.locks.entry(wait.lock).or_default();
        if !lock.holders.is_empty() {
            return NO_LOCK;
        }
        lock.changed = now;
        wait.lock
    }
}
