//! Identity of the lock at an address, which changes over time.
//!
//! A lock is its process, its address and its family. When a lock is created or destroyed, its
//! address begins to mean another one: a *generation*. A lock that was destroyed without ever
//! having been waited for may be forgotten, so that a program that makes and destroys locks all
//! the time needs no memory for them; its place is then used again, but not its serial number.

use super::hash::Map;
use record::Class;
use serde::Serialize;

/// Value for no lock.
pub(crate) const NO_LOCK: u32 = u32::MAX;

/// Family of a lock, whichever way it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Mutexes.
    Mutex,
    /// Read-write locks.
    ReadWrite,
    /// Spinlocks.
    Spin,
    /// Semaphores.
    Semaphore,
    /// Barriers.
    Barrier,
    /// Once controls.
    Once,
    /// Condition variables.
    Condition,
}

impl Family {
    /// The family that a class of events is about.
    #[inline]
    pub fn of(class: Class) -> Family {
        match class {
            Class::Mutex => Family::Mutex,
            Class::Read | Class::Write | Class::ReadWrite => Family::ReadWrite,
            Class::Spin => Family::Spin,
            Class::Semaphore => Family::Semaphore,
            Class::Barrier => Family::Barrier,
            Class::Once => Family::Once,
            Class::Condition => Family::Condition,
        }
    }

    /// The letter that its locks' names begin with.
    pub fn letter(self) -> char {
        match self {
            Family::Mutex => 'M',
            Family::ReadWrite => 'R',
            Family::Spin => 'S',
            Family::Semaphore => 'P',
            Family::Barrier => 'B',
            Family::Once => 'O',
            Family::Condition => 'C',
        }
    }

    /// Returns true if a thread that has acquired it holds it until it releases it.
    #[inline]
    pub fn held(self) -> bool {
        matches!(self, Family::Mutex | Family::ReadWrite | Family::Spin)
    }
}

/// Identity of a lock at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub process: u32,
    pub family: Family,
    pub address: u64,
}

#[derive(Clone, Debug)]
struct Line {
    /// The lock that the address means now.
    current: u32,
    /// Begin and lock of each meaning of the address, in order.
    generations: Vec<(u64, u32)>,
    /// Generations that there were, those that are forgotten included.
    count: u32,
}

/// A lock of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub key: Key,
    /// 0 for the first lock at an address that is not forgotten, then 1, 2 and so on.
    pub generation: u32,
    /// Unique in the trace.
    pub serial: u32,
}

/// All locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities {
    lines: Map<Key, Line>,
    locks: Vec<Identity>,
    free: Vec<u32>,
    serials: u32,
    epoch: u32,
}

impl Identities {
    /// Grows whenever an address may have got another meaning.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The lock at a place of the table.
    pub(crate) fn identity(&self, lock: u32) -> &Identity {
        &self.locks[lock as usize]
    }

    /// Places of the table.
    pub(crate) fn len(&self) -> usize {
        self.locks.len()
    }

    /// The lock that an address means now, which is a new one if it meant none.
    pub(crate) fn current(&mut self, key: Key, now: u64) -> u32 {
        let fresh = || Line { current: NO_LOCK, generations: Vec::new(), count: 0 };
        let line = self.lines.entry(key).or_insert_with(fresh);
        if line.current != NO_LOCK {
            return line.current;
        }
        let identity = Identity { key, generation: line.count, serial: self.serials };
        self.serials = self.serials.wrapping_add(1);
        let lock = match self.free.pop() {
            Some(lock) => {
                self.locks[lock as usize] = identity;
                lock
            }
            None => {
                self.locks.push(identity);
                self.locks.len() as u32 - 1
            }
        };
        // Records from before anything was known of an address belong to its first lock.
        let since = if line.count == 0 { 0 } else { now };
        line.current = lock;
        line.generations.push((since, lock));
        line.count += 1;
        self.epoch += 1;
        lock
    }

    /// The lock that an address means now, if any.
    pub(crate) fn known(&self, key: Key) -> Option<u32> {
        self.lines.get(&key).map(|line| line.current).filter(|lock| *lock != NO_LOCK)
    }

    /// Ends the meaning of an address.
    pub(crate) fn end(&mut self, key: Key) {
        if let Some(line) = self.lines.get_mut(&key) {
            line.current = NO_LOCK;
            self.epoch += 1;
        }
    }

    /// Forgets the latest lock of an address, whose meaning has ended.
    pub(crate) fn forget(&mut self, lock: u32) {
        let key = self.locks[lock as usize].key;
        if let Some(line) = self.lines.get_mut(&key) {
            line.generations.retain(|(_, generation)| *generation != lock);
            if line.generations.is_empty() && line.current == NO_LOCK {
                self.lines.remove(&key);
            }
            self.free.push(lock);
            self.epoch += 1;
        }
    }

    /// The lock that an address meant at a time. Before the first that is known, it is that one:
    /// earlier ones were forgotten.
    pub(crate) fn at(&self, key: Key, time: u64) -> Option<u32> {
        let generations = &self.lines.get(&key)?.generations;
        let after = generations.partition_point(|(since, _)| *since <= time);
        generations.get(after.saturating_sub(1)).map(|(_, lock)| *lock)
    }

    /// Returns, for each place of the table, true if it is in use.
    pub(crate) fn places(&self) -> Vec<bool> {
        let mut used = vec![true; self.locks.len()];
        for lock in &self.free {
            used[*lock as usize] = false;
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { process: 1, family: Family::Mutex, address: 0x1000 };

    #[test]
    fn address_means_another_lock_after_its_lock_ended() {
        let mut locks = Identities::default();
        let first = locks.current(KEY, 100);
        assert_eq!(locks.current(KEY, 150), first);
        locks.end(KEY);
        assert_eq!(locks.known(KEY), None);
        let second = locks.current(KEY, 200);
        assert_ne!(first, second);
        assert_eq!((locks.at(KEY, 50), locks.at(KEY, 199)), (Some(first), Some(first)));
        assert_eq!(locks.at(KEY, 200), Some(second));
        assert_eq!(locks.identity(second).generation, 1);
        assert_eq!(locks.at(Key { process: 2, ..KEY }, 200), None);
    }

    #[test]
    fn forgotten_locks_take_no_room() {
        let mut locks = Identities::default();
        for now in 0..1000 {
            let lock = locks.current(KEY, now);
            assert_eq!(locks.identity(lock).serial, now as u32);
            locks.end(KEY);
            locks.forget(lock);
        }
        assert_eq!((locks.len(), locks.lines.len()), (1, 0));
        assert_eq!(locks.places(), [false]);
    }
}
