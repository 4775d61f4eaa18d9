//! Reading a log, and closing chunks of the dead.

use super::{AREA_CHUNKS, Entry, Log, MARK, Mark, OPEN, State, Writer};
use crate::atomic::{AtomicU64, Ordering, fence};

/// A copy of a segment: what one thread wrote to a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// Thread that wrote it.
    pub writer: Writer,
    /// Number of the thread's cursor: another one when its id was given again.
    pub cursor: u32,
    /// Number of segments that the thread had before this one.
    pub sequence: u32,
    /// Entries that the thread had appended before this segment.
    pub before: u64,
    /// True if its thread may still append.
    pub open: bool,
    /// Entries that the thread lost after it.
    pub lost: Lost,
    /// Slots that were taken before the last whole one and are not whole: their writer was
    /// interrupted there, or killed.
    pub torn: u32,
    /// The whole entries, in the order of their slots.
    pub entries: Vec<Entry>,
}

/// Entries that could not be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Number of these entries.
    pub count: u64,
    /// Time of the first one.
    pub first: u64,
    /// Time of the last one.
    pub last: u64,
}

impl Log {
    /// The numbers of all chunks of the segment, used or not.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        AREA_CHUNKS..AREA_CHUNKS + self.chunks
    }

    /// Returns the losses of threads that never had a chunk.
    pub fn lost_without_chunk(&self) -> Lost {
        let head = self.head();
        lost(&head.lost, &head.lost_first, &head.lost_last)
    }

    /// Entries that gave way to later ones, in a log that keeps the last.
    pub fn overwritten(&self) -> u64 {
        // Relaxed: a count.
        self.head().overwritten.load(Ordering::Relaxed)
    }

    /// Tickets given out so far: how many chunks were taken.
    pub fn taken(&self) -> u64 {
        // Relaxed: a count.
        self.head().next.load(Ordering::Relaxed)
    }

    /// Copies the segments of chunk `number`, in the order in which they were written; none when it
    /// was never used, or was reused while being copied.
    pub fn read(&self, number: u32) -> Vec<Copy> {
        let chunk = self.chunk(number);
        // Acquire: pairs with the release of `close`.
        let state = State(chunk.state.load(Ordering::Acquire));
        // Acquire: pairs with the release of the owner word; the header is this state's then.
        if state.0 == 0 || chunk.owner.load(Ordering::Acquire) != state.owner() {
            return Vec::new();
        }
        // Read before the slots: what is lost comes after the last one of them.
        let lost = lost(&chunk.lost, &chunk.lost_first, &chunk.lost_last);
        let mut segments = self.segments(number, state);
        if let Some(last) = segments.last_mut() {
            (last.open, last.lost) = (state.is_open(), lost);
        }
        segments.retain(|segment| !segment.entries.is_empty() || segment.lost.count > 0);
        segments
    }

    /// The segments of a chunk that was in this state; none when the chunk has been given again
    /// since.
    fn segments(&self, number: u32, state: State) -> Vec<Copy> {
        let chunk = self.chunk(number);
        let lap = self.lap(state);
        let mut segments: Vec<Copy> = Vec::new();
        let mut missing = 0;
        for slot in &chunk.slots {
            // Acquire: pairs with the release of the tag; the words are whole after it.
            let tag = slot.tag.load(Ordering::Acquire);
            let kind = tag as u16;
            if !slot.is_whole(lap, tag) {
                missing += 1;
                continue;
            }
            let words = slot.words();
            if kind == MARK {
                let Mark { writer, cursor, sequence, before } = Mark::of(words);
                // Slots that the last thread did not finish before it ended are no loss.
                missing = 0;
                segments.push(Copy { writer, cursor, sequence, before, ..Copy::default() });
                continue;
            }
            // The mark comes before the first entry, in each chunk that was not reused meanwhile.
            let Some(segment) = segments.last_mut() else { continue };
            segment.torn += std::mem::take(&mut missing);
            let number = slot.number.load(Ordering::Relaxed);
            segment.entries.push(Entry { words, number, kind });
        }
        // Acquire: pairs with the release fence of the claim. If a word above came from a later
        // use of the chunk, its state is seen here.
        fence(Ordering::Acquire);
        let after = State(chunk.state.load(Ordering::Relaxed));
        if after.is_same_use(state) { segments } else { Vec::new() }
    }

    /// The entries of a chunk without its header, for models: each word more that is read
    /// multiplies what the checker must go through.
    #[cfg(loom)]
    pub fn entries_now(&self, number: u32) -> Vec<Entry> {
        let state = State(self.chunk(number).state.load(Ordering::Acquire));
        if state.0 == 0 {
            return Vec::new();
        }
        self.segments(number, state).into_iter().flat_map(|segment| segment.entries).collect()
    }

    /// Closes the open chunks whose writer is dead, so that they can be given again; returns how
    /// many. `is_dead` is asked once for each open chunk.
    pub fn close_dead(&self, mut is_dead: impl FnMut(Writer) -> bool) -> usize {
        let mut closed = 0;
        for number in self.numbers() {
            let chunk = self.chunk(number);
            // Acquire: pairs with the release of the thread that adopted it.
            let state = chunk.state.load(Ordering::Acquire);
            // Acquire: as in `read`. Where it differs, the chunk is being claimed just now.
            let owned = chunk.owner.load(Ordering::Acquire) == State(state).owner();
            let holder = || Writer::unpack(chunk.holder.load(Ordering::Relaxed));
            if State(state).is_open() && owned && is_dead(holder()) {
                // The state is compared: the chunk may have a new, living writer by now.
                let shut = chunk.state.compare_exchange(
                    state,
                    state & !OPEN,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                closed += usize::from(shut.is_ok());
            }
        }
        closed
    }
}

fn lost(count: &AtomicU64, first: &AtomicU64, last: &AtomicU64) -> Lost {
    Lost {
        count: count.load(Ordering::Relaxed),
        first: first.load(Ordering::Relaxed),
        last: last.load(Ordering::Relaxed),
    }
}
