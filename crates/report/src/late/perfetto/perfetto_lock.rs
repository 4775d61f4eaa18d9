//! State of each lock at one moment, from the records of all threads.

use crate::late::spans::spans_lock::{Key, LockNames};
use late::Survey;
use std::collections::HashMap;

/// A lock at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LockNow {
    /// Its place in the survey.
    pub place: Option<u32>,
    /// Threads that wait for it.
    pub waiting: u32,
    /// The number of its counter, once a thread has waited for it.
    pub counter: Option<u32>,
    /// Latest release of the lock, or post of the semaphore: its time in ticks, and its stream.
    pub release: Option<(u64, u32)>,
    /// Latest signal of the condition: its time in ticks, and its stream.
    pub signal: Option<(u64, u32)>,
    /// The stream of who took it last, while that one has it.
    pub holder: Option<u32>,
}

/// The locks in use.
pub(super) struct Locks<'s> {
    pub names: LockNames<'s>,
    now: HashMap<Key, LockNow>,
    counters: u32,
}

impl<'s> Locks<'s> {
    pub(super) fn new(survey: &'s Survey) -> Locks<'s> {
        Locks { names: LockNames::new(survey), now: HashMap::new(), counters: 0 }
    }

    /// The lock at an address.
    pub(super) fn now(&mut self, key: Key, at_ns: u64) -> &mut LockNow {
        let place = || self.names.find(key, at_ns);
        self.now.entry(key).or_insert_with(|| LockNow { place: place(), ..LockNow::default() })
    }

    /// A number for the counter of a lock.
    pub(super) fn counter(&mut self) -> u32 {
        self.counters += 1;
        self.counters
    }

    /// The address means another lock from now on, or none.
    pub(super) fn ends(&mut self, key: Key) {
        self.now.remove(&key);
    }

    /// Name of a lock.
    pub(super) fn name(&mut self, key: Key, at_ns: u64) -> &'s str {
        let place = self.now(key, at_ns).place;
        self.names.name(place, key.1)
    }
}
