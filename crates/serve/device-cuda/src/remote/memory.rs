//! The clients' memory that the GPU's process has been given.

use shm::Mapping;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Mappings, each passed on once, under a number that is never given twice. They are kept until
/// they have no other holder: an address tells which one it is.
#[derive(Default)]
pub(super) struct Memories(Mutex<Known>);

#[derive(Default)]
struct Known {
    all: Vec<(u64, Arc<Mapping>)>,
    last: u64,
}

impl Memories {
    /// The number of a mapping, which is passed on when it is seen first.
    ///
    /// # Errors
    /// Those of `pass`.
    pub(super) fn number<E>(
        &self,
        mapping: &Arc<Mapping>,
        pass: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut known = self.lock();
        if let Some((number, _)) = known.all.iter().find(|(_, one)| Arc::ptr_eq(one, mapping)) {
            return Ok(*number);
        }
        known.last += 1;
        let number = known.last;
        pass(number)?;
        known.all.push((number, mapping.clone()));
        Ok(number)
    }

    /// Takes out memory that has no other holder.
    pub(super) fn unused(&self) -> Vec<u64> {
        let mut known = self.lock();
        let is_used = |(_, mapping): &(u64, Arc<Mapping>)| Arc::strong_count(mapping) > 1;
        let (used, unused): (Vec<_>, Vec<_>) = known.all.drain(..).partition(is_used);
        known.all = used;
        unused.into_iter().map(|(number, _)| number).collect()
    }

    /// Takes out a mapping that only the caller has, too.
    pub(super) fn take(&self, memory: &Arc<Mapping>) -> Option<u64> {
        let mut known = self.lock();
        let is_last = |(_, mapping): &(u64, Arc<Mapping>)| {
            Arc::ptr_eq(mapping, memory) && Arc::strong_count(memory) == 2
        };
        let at = known.all.iter().position(is_last)?;
        Some(known.all.remove(at).0)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
