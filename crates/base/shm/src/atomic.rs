//! The one facade for atomics that processes share.
//!
//! Normal builds use the processor's atomics, laid over the shared mapping. Under `--cfg loom`
//! the same names are loom's model atomics, which live in ordinary memory; and [`Payload`]
//! becomes a loom cell that reports a data race when reader and writer are not ordered.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Eight words that one side writes and the other reads, ordered by an index elsewhere.
///
/// The peer may break that order, so the words are atomics: a torn message is possible then,
/// undefined behaviour is not.
#[cfg(not(loom))]
#[repr(C)]
pub(crate) struct Payload([AtomicU64; 8]);

#[cfg(not(loom))]
impl Payload {
    pub(crate) fn store(&self, words: &[u64; 8]) {
        for (slot, word) in self.0.iter().zip(words) {
            // Relaxed: ordered by the ring index, released after this store.
            slot.store(*word, Ordering::Relaxed);
        }
    }

    pub(crate) fn load(&self) -> [u64; 8] {
        // Relaxed: ordered by the ring index, acquired before this load.
        core::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}

/// The same under loom, where an unordered access is found and reported.
#[cfg(loom)]
pub(crate) struct Payload(loom::cell::UnsafeCell<[u64; 8]>);

#[cfg(loom)]
impl Payload {
    pub(crate) fn new() -> Payload {
        Payload(loom::cell::UnsafeCell::new([0; 8]))
    }

    pub(crate) fn store(&self, words: &[u64; 8]) {
        // SAFETY: the ring's indices keep reader and writer apart; loom checks that they do.
        self.0.with_mut(|slot| unsafe { *slot = *words });
    }

    pub(crate) fn load(&self) -> [u64; 8] {
        // SAFETY: as for `store`.
        self.0.with(|slot| unsafe { *slot })
    }
}

// SAFETY: the model payload is shared between loom threads like the atomics it stands for; loom
// reports any access that the ring's protocol leaves unordered.
#[cfg(loom)]
unsafe impl Sync for Payload {}
