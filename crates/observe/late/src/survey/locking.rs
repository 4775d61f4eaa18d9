//! Effect of the events of locks on the thread and on the lock.

use super::World;
use super::locks::Mark;
use super::thread::ThreadState;
use crate::function::Group;
use crate::identity::{Family, NO_LOCK};
use crate::snapshot::{LockHold, Wait};
use record::{Action, Class, Record};

impl World {
    /// Applies an event of a lock.
    pub(super) fn lock(
        &mut self,
        thread: &mut ThreadState,
        record: &Record,
        class: Class,
        action: Action,
    ) {
        let key = thread.key(Family::of(class), record.subject);
        match action {
            Action::Created => return self.locks.created(&mut thread.cache, key, record),
            Action::Destroyed => return self.locks.destroyed(key, record.time),
            _ => {}
        }
        let lock = self.locks.find(&mut thread.cache, key, record.time);
        match action {
            _ if class == Class::Once => self.once(thread, record, action, lock),
            Action::Waiting => self.waits(thread, record, class, lock),
            Action::Acquired if class == Class::Condition => {
                self.condition_returns(thread, record, lock);
            }
            Action::Acquired => self.acquires(thread, record, class, lock),
            Action::Failed => self.fails(thread, record, lock),
            Action::Released if class == Class::Semaphore => {
                self.locks.states[lock as usize].signal(record.time);
            }
            Action::Released => self.releases(thread, record.time, lock, true),
            Action::HandedOver => self.locks.states[lock as usize].handed_over += 1,
            _ => self.locks.states[lock as usize].signal(record.time),
        }
    }

    fn once(&mut self, thread: &mut ThreadState, record: &Record, action: Action, lock: u32) {
        if action == Action::Waiting {
            thread.once.push((lock, record.time));
            return;
        }
        let at = thread.once.iter().rposition(|(once, _)| *once == lock);
        let since = at.map(|at| thread.once.remove(at).1);
        if action == Action::Acquired {
            let (kind, actor) = (thread.kind(), thread.actor());
            let state = &mut self.locks.states[lock as usize];
            state.count(record, Class::Once, kind);
            state.ran_once(since, record.time, actor);
        }
    }

    fn waits(&mut self, thread: &mut ThreadState, record: &Record, class: Class, lock: u32) {
        if thread.wait.is_some() {
            self.forget_wait(thread);
        }
        let (mut mutex, mut had_mutex) = (NO_LOCK, false);
        if class == Class::Condition {
            let key = thread.key(Family::Mutex, record.detail);
            mutex = self.locks.find(&mut thread.cache, key, record.time);
            had_mutex = thread.held.iter().any(|held| held.lock == mutex);
            self.releases(thread, record.time, mutex, false);
        }
        let mark = self.locks.states[lock as usize].wait_begins();
        let (since, owner) = (record.time, record.number);
        let wait = Wait { lock, class, since, owner, mutex, had_mutex };
        thread.wait = Some((wait, mark));
    }

    /// Ends the thread's wait if it is for this lock.
    fn wait_ends(&mut self, thread: &mut ThreadState, lock: u32) -> Option<(Wait, Mark)> {
        let (wait, _) = thread.wait.as_ref()?;
        if wait.lock != lock {
            return None;
        }
        self.locks.states[lock as usize].wait_ends();
        thread.wait.take()
    }

    #[inline]
    fn acquires(&mut self, thread: &mut ThreadState, record: &Record, class: Class, lock: u32) {
        let (kind, now, actor) = (thread.kind(), record.time, thread.actor());
        let wait = self.wait_ends(thread, lock);
        let state = &mut self.locks.states[lock as usize];
        state.count(record, class, kind);
        if let Some((wait, mark)) = &wait {
            state.waited(wait, mark, now, actor);
            thread.has_waited(now - wait.since);
        }
        let serial = self.locks.identities.identity(lock).serial;
        thread.step(serial, class, true, now);
        thread.about.acquisitions += 1;
        if let Some(frame) = thread.frames.last_mut() {
            frame.acquisitions += 1;
            if state.first_in_launch.is_none()
                && self.functions.of(frame.kind).0.group == Group::Launch
            {
                state.first_in_launch = Some(now);
            }
        }
        if !Family::of(class).held() {
            return;
        }
        if let Some(held) = thread.held.iter_mut().rev().find(|held| held.lock == lock) {
            held.depth += 1;
            return;
        }
        state.granted(class, wait.is_some(), now, actor);
        let read = class == Class::Read;
        thread.held.push(LockHold { lock, read, depth: 1, since: now, kind });
    }

    /// A wait for a condition is over: its mutex is held again.
    fn condition_returns(&mut self, thread: &mut ThreadState, record: &Record, lock: u32) {
        let (now, actor) = (record.time, thread.actor());
        let wait = self.wait_ends(thread, lock);
        let key = thread.key(Family::Mutex, record.detail);
        let mutex = self.locks.find(&mut thread.cache, key, now);
        if let Some((wait, _)) = &wait {
            let state = &mut self.locks.states[lock as usize];
            let relock = state.condition_waited(wait, record.number, now, actor);
            thread.has_waited(relock);
        }
        // If only contended acquisitions are recorded, the release of a mutex that was taken
        // without waiting is not, so it must not be taken for held.
        let known = !self.contended_only || wait.is_some_and(|(wait, _)| wait.had_mutex);
        if known && !thread.held.iter().any(|held| held.lock == mutex) {
            let kind = thread.kind();
            self.locks.states[mutex as usize].granted(Class::Mutex, true, now, actor);
            thread.held.push(LockHold { lock: mutex, read: false, depth: 1, since: now, kind });
        }
    }

    fn fails(&mut self, thread: &mut ThreadState, record: &Record, lock: u32) {
        let (wait, actor) = (self.wait_ends(thread, lock), thread.actor());
        let state = &mut self.locks.states[lock as usize];
        match wait {
            Some((wait, _)) => {
                state.given_up(&wait, record.number, record.time, actor);
                thread.has_waited(record.time - wait.since);
            }
            None => state.busy += 1,
        }
    }

    #[inline]
    fn releases(&mut self, thread: &mut ThreadState, now: u64, lock: u32, step: bool) {
        let Some(at) = thread.held.iter().rposition(|held| held.lock == lock) else {
            self.losses.unmatched_releases += u64::from(step && !self.contended_only);
            return;
        };
        let held = &mut thread.held[at];
        let class = if held.read { Class::Read } else { Class::Write };
        // Giving up a mutex for a condition gives it up altogether.
        held.depth = if step { held.depth - 1 } else { 0 };
        let last = held.depth == 0;
        let (read, since, kind) = (held.read, held.since, held.kind);
        if last {
            thread.held.remove(at);
            let actor = thread.actor();
            self.locks.states[lock as usize].released(read, since, now, kind, actor);
        }
        if step {
            let serial = self.locks.identities.identity(lock).serial;
            thread.step(serial, class, false, now);
        }
    }

    /// The end of a wait is missing.
    pub(super) fn forget_wait(&mut self, thread: &mut ThreadState) {
        if let Some((wait, _)) = thread.wait.take() {
            let state = &mut self.locks.states[wait.lock as usize];
            state.wait_ends();
            state.unknown_waits += 1;
            self.losses.unknown_waits += 1;
        }
    }
}
