//! A thread's place in a log.

use super::CAPACITY;
use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::mutant::Mutant;

/// Position of a cursor: lap of the chunk in bits 48 to 63, chunk in 24 to 47 (0: none), next slot
/// in 0 to 23, which counts on when the chunk is full.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CursorPlace(u64);

impl CursorPlace {
    const BITS: u32 = 24;
    pub(super) const MASK: u64 = (1 << CursorPlace::BITS) - 1;

    pub(super) fn new(lap: u16, chunk: u32, slot: u32) -> CursorPlace {
        CursorPlace(u64::from(lap) << 48 | u64::from(chunk) << CursorPlace::BITS | u64::from(slot))
    }

    #[inline(always)]
    pub(super) fn lap(self) -> u16 {
        (self.0 >> 48) as u16
    }

    #[inline(always)]
    pub(super) fn chunk(self) -> u32 {
        (self.0 >> CursorPlace::BITS & CursorPlace::MASK) as u32
    }

    #[inline(always)]
    pub(super) fn slot(self) -> u32 {
        (self.0 & CursorPlace::MASK) as u32
    }

    #[inline(always)]
    pub(super) fn has_room(self) -> bool {
        self.slot() < CAPACITY && self.chunk() != 0
    }

    /// Returns true during the pause after an append that found no room.
    pub(super) fn waits(self) -> bool {
        (CursorPlace::NO_ROOM..CursorPlace::NO_ROOM + PAUSE).contains(&self.slot())
    }

    /// Slot that counts the entries since no room was found.
    const NO_ROOM: u32 = 1 << 20;

    /// Returns the place this number of slots further on.
    pub(super) fn after(self, slots: u32) -> CursorPlace {
        CursorPlace(self.0 + u64::from(slots))
    }

    fn is_in_same_chunk(self, other: CursorPlace) -> bool {
        self.0 >> CursorPlace::BITS == other.0 >> CursorPlace::BITS
    }
}

/// Entries that are lost, after one for which no room was found, before the next search.
const PAUSE: u32 = if cfg!(loom) { 1 } else { 256 };

/// A thread's place in the log. Lives in the thread's own memory; all zero is "no chunk yet".
///
/// Only its thread and signal handlers on that thread may append through it.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(C))]
pub struct Cursor {
    /// See [`CursorPlace`].
    place: AtomicU64,
    /// A place of another chunk, which the next segment begins at; 0: none.
    kept: AtomicU64,
    /// Its number in the log + 1; 0: it has none yet.
    number: AtomicU32,
    /// The place in the log's register + 1 where its chunk stands; 0: none.
    registered: AtomicU32,
}

// Relaxed, all below: the cursor is the calling thread's own. Exchanged, where it matters which of
// the thread and its handlers comes first.
impl Cursor {
    /// Forgets its chunk, as a forked child must, whose log position belongs to its parent.
    pub fn reset(&self) {
        self.place.store(0, Ordering::Relaxed);
        self.kept.store(0, Ordering::Relaxed);
        self.number.store(0, Ordering::Relaxed);
        self.registered.store(0, Ordering::Relaxed);
    }

    /// Takes the next slot. One instruction, so that a signal handler comes before or after it,
    /// never in between. It needs no bus lock, since no other thread uses the cursor.
    #[inline(always)]
    pub(super) fn reserve(&self) -> CursorPlace {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        {
            let mut place: u64 = 1;
            // SAFETY: the word is a live atomic of this thread; `xadd` adds to it and returns
            // what it held. Only this thread writes it, so that it need not be locked.
            unsafe {
                core::arch::asm!("xadd qword ptr [{at}], {place}", at = in(reg) self.place.as_ptr(),
                    place = inout(reg) place, options(nostack));
            }
            CursorPlace(place)
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
        {
            if Mutant::SlotTakenInTwoSteps.is_on() {
                let place = self.place.load(Ordering::Relaxed);
                self.place.store(place + 1, Ordering::Relaxed);
                return CursorPlace(place);
            }
            CursorPlace(self.place.fetch_add(1, Ordering::Relaxed))
        }
    }

    pub(super) fn place(&self) -> CursorPlace {
        CursorPlace(self.place.load(Ordering::Relaxed))
    }

    /// Moves on from a full chunk; false if a handler has done so since it was seen.
    pub(super) fn move_on(&self, full: CursorPlace, next: CursorPlace) -> bool {
        if Mutant::CursorMovedBlindly.is_on() {
            self.place.store(next.0, Ordering::Relaxed);
            return true;
        }
        self.replace(full, next)
    }

    /// Records that no room was found. Returns the latest chunk.
    pub(super) fn no_room(&self) -> u32 {
        let place = self.place();
        self.replace(place, CursorPlace::new(place.lap(), place.chunk(), CursorPlace::NO_ROOM));
        place.chunk()
    }

    fn replace(&self, full: CursorPlace, next: CursorPlace) -> bool {
        let replaced = self.place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            // Handlers that need a chunk, too, have counted the slot on.
            let is_full = !CursorPlace(now).has_room() && CursorPlace(now).is_in_same_chunk(full);
            is_full.then_some(next.0)
        });
        replaced.is_ok()
    }

    pub(super) fn take_kept(&self) -> Option<CursorPlace> {
        let kept = self.kept.swap(0, Ordering::Relaxed);
        (kept != 0).then_some(CursorPlace(kept))
    }

    /// False if it keeps another one.
    pub(super) fn keep(&self, place: CursorPlace) -> bool {
        self.kept.compare_exchange(0, place.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The cursor's number, which `give` gives it if it has none.
    pub(super) fn number(&self, give: impl FnOnce() -> u32) -> u32 {
        let known = self.number.load(Ordering::Relaxed);
        if known != 0 {
            return known - 1;
        }
        let given = give().wrapping_add(1).max(1);
        let won = self.number.compare_exchange(0, given, Ordering::Relaxed, Ordering::Relaxed);
        won.err().unwrap_or(given) - 1
    }

    pub(super) fn registered(&self) -> Option<usize> {
        (self.registered.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    pub(super) fn set_registered(&self, at: usize) {
        self.registered.store(at as u32 + 1, Ordering::Relaxed);
    }
}
