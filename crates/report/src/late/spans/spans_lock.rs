//! Lock that an address meant at a time.

use crate::late::name::family;
use late::{Family, Survey};
use std::collections::HashMap;

/// A lock, as records name it: process image, family, address.
pub(in crate::late) type Key = (u32, Family, u64);

/// Names of the survey's locks, by address and time.
#[derive(Debug)]
pub(in crate::late) struct LockNames<'s> {
    names: Vec<&'s str>,
    /// The locks that were at an address, the first one first.
    lives: HashMap<Key, Vec<Life>>,
}

/// Time in which an address meant a lock, in nanoseconds since the start of recording.
#[derive(Clone, Copy, Debug)]
struct Life {
    place: u32,
    generation: u32,
    from_ns: u64,
    to_ns: u64,
}

impl<'s> LockNames<'s> {
    pub(in crate::late) fn new(survey: &'s Survey) -> LockNames<'s> {
        let mut lives: HashMap<Key, Vec<Life>> = HashMap::new();
        for (place, lock) in (0..).zip(&survey.locks) {
            // Events before anything was known of an address belong to its first lock.
            let from_ns = if lock.generation == 0 { None } else { lock.created_at_ns };
            let (from_ns, to_ns) = (from_ns.unwrap_or(0), lock.destroyed_at_ns.unwrap_or(u64::MAX));
            let life = Life { place, generation: lock.generation, from_ns, to_ns };
            lives.entry((lock.process, lock.family, lock.address)).or_default().push(life);
        }
        lives.values_mut().for_each(|of| of.sort_by_key(|life| life.generation));
        LockNames { names: survey.locks.iter().map(|lock| lock.name.as_str()).collect(), lives }
    }

    /// The place of the lock in the survey, at a time since the start of recording; none for one
    /// that the survey has forgotten, since no thread ever waited for it.
    pub(in crate::late) fn find(&self, key: Key, at_ns: u64) -> Option<u32> {
        let life = self.lives.get(&key)?.iter().rev().find(|life| life.from_ns <= at_ns)?;
        (at_ns <= life.to_ns).then_some(life.place)
    }

    /// `M4`, or `mutex` for one that has no name.
    pub(in crate::late) fn name(&self, place: Option<u32>, of: Family) -> &'s str {
        place.map_or(family(of), |place| self.names[place as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_lock_that_was_there_at_the_time() {
        let first = Life { place: 0, generation: 0, from_ns: 0, to_ns: 100 };
        let later = Life { place: 1, generation: 3, from_ns: 500, to_ns: u64::MAX };
        let key = (0, Family::Mutex, 0x1000);
        let lives = HashMap::from([(key, vec![first, later])]);
        let names = LockNames { names: vec!["M1", "M2"], lives };
        let find = |at_ns| names.find(key, at_ns);
        assert_eq!([find(0), find(100), find(500)], [Some(0), Some(0), Some(1)]);
        // Between them were locks that no thread waited for.
        assert_eq!(find(300), None);
        assert_eq!(names.find((0, Family::Spin, 0x1000), 0), None);
        assert_eq!(names.name(Some(1), Family::Mutex), "M2");
        assert_eq!(names.name(None, Family::Spin), "spinlock");
    }
}
