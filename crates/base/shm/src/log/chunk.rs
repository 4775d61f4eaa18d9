//! The words of a log in shared memory.

use super::{CAPACITY, UNWRITTEN, adopt::REGISTER};
use crate::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg_attr(not(loom), repr(C))]
pub(super) struct Slot {
    pub words: [AtomicU64; 3],
    pub number: AtomicU32,
    /// Kind in the lower half, lap in the upper.
    pub tag: AtomicU32,
}

impl Slot {
    /// Returns true if a tag that was read from it says that it is whole, in this lap of its chunk.
    pub(super) fn is_whole(&self, lap: u16, tag: u32) -> bool {
        tag as u16 != UNWRITTEN && (tag >> 16) as u16 == lap
    }

    /// The words, of which each is read once.
    pub(super) fn words(&self) -> [u64; 3] {
        // Relaxed: the caller has acquired the tag, or wrote them.
        core::array::from_fn(|at| self.words[at].load(Ordering::Relaxed))
    }
}

#[cfg_attr(not(loom), repr(C))]
pub(super) struct Chunk {
    /// See [`State`].
    pub state: AtomicU64,
    /// Writer that may append, packed: the latest one that took it.
    pub holder: AtomicU64,
    /// Namespace of thread ids that the holder's id belongs to; 0: unknown.
    pub space: AtomicU32,
    /// Lower half of the ticket + 1 that the header belongs to.
    pub owner: AtomicU32,
    /// Slot of the holder's mark.
    pub start: AtomicU32,
    /// Number of its slots that are marks.
    pub marks: AtomicU32,
    reserved: [AtomicU32; 2],
    /// Entries that the latest thread could not append after this chunk, and when the first and
    /// last.
    pub lost: AtomicU64,
    pub lost_first: AtomicU64,
    pub lost_last: AtomicU64,
    pub slots: [Slot; CAPACITY as usize],
}

#[cfg_attr(not(loom), repr(C))]
pub(super) struct Head {
    /// Tickets given out.
    pub next: AtomicU64,
    /// Entries of threads that never had a chunk, and when the first and last.
    pub lost: AtomicU64,
    pub lost_first: AtomicU64,
    pub lost_last: AtomicU64,
    /// Entries that gave way to later ones.
    pub overwritten: AtomicU64,
    /// Numbers of cursors given out.
    pub cursors: AtomicU64,
    /// Start of the next search in the register.
    pub hint: AtomicU64,
    /// Chunks that threads write or have written; 0: none. No more than hints.
    pub register: [AtomicU32; REGISTER],
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Slot>() == 32);
    assert!(offset_of!(Slot, number) == 24);
    assert!(offset_of!(Slot, tag) == 28);
    assert!(offset_of!(Chunk, slots) == 64);
    assert!(size_of::<Chunk>() <= super::CHUNK_BYTES);
    assert!(size_of::<Head>() <= super::SIDE_OFFSET);
};

/// The state word of a chunk. 0: never used. Else ticket + 1 in bits 16 to 63, how often it was
/// taken over from an ended thread, twice, in bits 1 to 15, and in bit 0 if a thread may append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub u64);

/// Set in a state while a thread may append.
pub(super) const OPEN: u64 = 1;
/// One step of taking a chunk over; an odd number of steps: a thread is taking it over now.
pub(super) const HAND: u64 = 2;
const HANDS: u64 = 0xfffe;
const TICKET_BITS: u32 = 16;

impl State {
    pub(super) fn opened(ticket: u64) -> State {
        State((ticket + 1) << TICKET_BITS | OPEN)
    }

    pub(super) fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    pub(super) fn ticket(self) -> u64 {
        (self.0 >> TICKET_BITS).wrapping_sub(1)
    }

    /// Returns the value that the owner word must have.
    pub(super) fn owner(self) -> u32 {
        (self.0 >> TICKET_BITS) as u32
    }

    /// Returns true if it can be taken over once more.
    pub(super) fn can_be_handed(self) -> bool {
        let hands = self.0 & HANDS;
        hands & HAND == 0 && hands < HANDS - HAND
    }

    /// Returns true if the chunk is still in the same use, perhaps of another holder.
    pub(super) fn is_same_use(self, other: State) -> bool {
        self.0 >> TICKET_BITS == other.0 >> TICKET_BITS
    }
}

#[cfg(loom)]
mod model {
    use super::*;

    impl Default for Chunk {
        fn default() -> Chunk {
            let slot = || Slot {
                words: core::array::from_fn(|_| AtomicU64::new(0)),
                number: AtomicU32::new(0),
                tag: AtomicU32::new(0),
            };
            let (word, half) = (|| AtomicU64::new(0), || AtomicU32::new(0));
            Chunk {
                state: word(),
                holder: word(),
                space: half(),
                owner: half(),
                start: half(),
                marks: half(),
                reserved: core::array::from_fn(|_| half()),
                lost: word(),
                lost_first: word(),
                lost_last: word(),
                slots: core::array::from_fn(|_| slot()),
            }
        }
    }

    impl Default for Head {
        fn default() -> Head {
            let word = || AtomicU64::new(0);
            Head {
                next: word(),
                lost: word(),
                lost_first: word(),
                lost_last: word(),
                overwritten: word(),
                cursors: word(),
                hint: word(),
                register: core::array::from_fn(|_| AtomicU32::new(0)),
            }
        }
    }
}
