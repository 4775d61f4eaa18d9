//! Logs of many threads in chunks of one shared segment, which outlives the threads.
//!
//! ```text
//!   segment   | head | side area (its owner's)   | chunk 16 | chunk 17 |  ...  |
//!             0      4096                        1 MiB      64 KiB each
//!
//!   chunk     | header: state, holder, lost | slot 0 | slot 1 |  ...  | slot 2045 |
//!             0                             64       96
//!
//!   slot      | word 0 | word 1 | word 2 | number | tag |        32 bytes
//!             0        8        16       24       28
//!
//!   slots     | mark of 7 | 7's | 7's | mark of 9 | 9's | 9's | ...     a chunk of two threads
//! ```
//!
//! A thread has one *cursor*, a word of its own memory: the chunk it writes, and the next slot.
//! To append, it takes a slot by one `xadd` on its cursor, fills it and stores the tag last, with
//! the lap of the chunk in its upper half: a slot whose tag shows the current lap is whole. When
//! the chunk is full, the thread takes another one, and begins it with a *mark*: a slot that says
//! whose the slots after it are, and how many entries came before. What lies between two marks is
//! a *segment*, of one thread.
//!
//! A chunk comes from one of two places:
//! - The thread takes the next ticket of the log; ticket modulo chunks is its new chunk. A log that
//!   *keeps the first* gives out each chunk once, then counts what it cannot take. A log that *keeps
//!   the last* gives the oldest closed chunk again; one that is still open, since its thread writes
//!   rarely, is passed over.
//! - The thread adopts what an ended thread left of its chunk ([`adopt`]): a thread's first chunk, if
//!   there is such a one, and any where there are no others.
//!
//! - A signal handler may append while its thread is appending: the handler gets other slots. If
//!   both need a chunk, the one that comes first moves the cursor on; the other sees that it is moved
//!   and goes on there, and keeps its own chunk for the next time. So a thread's chunks follow one
//!   another, each full to the last slot, and what the mark counts is exact.
//! - [`Log::append`] is wait-free: the search for a chunk gives up after [`ATTEMPTS`], and at once
//!   while the process' unused memory is unmapped ([`mapping`]).
//!   A handler that interrupts an append for so long that the whole log turns over may spoil one
//!   entry of the chunk's next owner, whose tag shows it.
//! - A thread that dies half-way leaves a slot without its tag, and an open chunk. A reader that
//!   knows that the thread is dead closes it ([`Log::close_dead`]), or adopts the rest.
//! - [`Log::read`] may run at any time beside writers. It believes nothing: a chunk that was
//!   reused meanwhile is left out, and so is a slot that is not whole.

mod adopt;
mod chunk;
mod cursor;
mod mapping;
mod read;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::atomic::{Ordering, fence};
use crate::mutant::Mutant;
pub use adopt::Process;
use chunk::{Chunk, HAND, Head, OPEN, Slot, State};
pub use cursor::Cursor;
use cursor::CursorPlace;
pub use mapping::Gate;
pub use read::{Copy, Lost};

/// Bytes of a chunk with its header.
pub const CHUNK_BYTES: usize = 65536;
/// Slots of a chunk, one of which is a mark.
pub const CAPACITY: u32 = if cfg!(loom) { 4 } else { 2046 };
/// Chunks that the head and the side area take up at the beginning of the segment.
pub const AREA_CHUNKS: u32 = 16;
/// Offset of the side area; it ends where the first chunk begins.
pub const SIDE_OFFSET: usize = 4096;
/// Number of chunks that one search for a chunk looks at.
pub const ATTEMPTS: u32 = if cfg!(loom) { 3 } else { 256 };
/// Number of attempts of an append while signal handlers move its cursor on.
const RETRIES: u32 = 4;
/// Tag value of a slot that no writer has finished: kinds begin at 1.
pub const UNWRITTEN: u16 = 0;
/// Kind of a mark, which belongs to the log.
const MARK: u16 = u16::MAX;

/// Content of a slot: three words, a number, and a kind of the writer's, which is neither
/// [`UNWRITTEN`] nor the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// Three words whose meaning the kind tells.
    pub words: [u64; 3],
    /// A number whose meaning the kind tells.
    pub number: u32,
    /// Kind of the entry.
    pub kind: u16,
}

/// Thread that appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Writer {
    /// Number of the process image in this log.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
}

impl Writer {
    fn pack(self) -> u64 {
        u64::from(self.process) << 32 | u64::from(self.thread)
    }

    fn unpack(word: u64) -> Writer {
        Writer { process: (word >> 32) as u32, thread: word as u32 }
    }
}

/// The beginning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Mark {
    writer: Writer,
    /// Number of the cursor in this log. A thread id that is given again has another one.
    cursor: u32,
    /// Number of segments that the cursor had before this one.
    sequence: u32,
    /// Entries that were appended through the cursor before this segment.
    before: u64,
}

impl Mark {
    fn entry(self) -> Entry {
        let numbers = u64::from(self.cursor) << 32 | u64::from(self.sequence);
        Entry { words: [self.writer.pack(), numbers, self.before], number: 0, kind: MARK }
    }

    fn of(words: [u64; 3]) -> Mark {
        let [writer, numbers, before] = words;
        let (cursor, sequence) = ((numbers >> 32) as u32, numbers as u32);
        Mark { writer: Writer::unpack(writer), cursor, sequence, before }
    }
}

/// Entries that a full log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The first entries; later ones are counted as lost.
    First,
    /// The last entries; the oldest chunks are reused.
    Last,
}

/// A log over a segment, for its writers and its reader.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub struct Log {
    base: *const u8,
    chunks: u32,
    keep: Keep,
    process: Option<Process>,
}

// SAFETY: a log is an address, numbers and functions; everything behind the address is atomics.
#[cfg(not(loom))]
unsafe impl Send for Log {}
// SAFETY: as for `Send`.
#[cfg(not(loom))]
unsafe impl Sync for Log {}

#[cfg(not(loom))]
impl Log {
    /// The log in the `size` bytes at `base`, zeroed when the log was new; `None` when not even
    /// one chunk fits.
    ///
    /// # Safety
    /// The bytes must be a mapping aligned to 64 bytes that stays for as long as the log is used.
    pub const unsafe fn over(base: *const u8, size: usize, keep: Keep) -> Option<Log> {
        let chunks = size / CHUNK_BYTES;
        if chunks <= AREA_CHUNKS as usize {
            return None;
        }
        let chunks = chunks - AREA_CHUNKS as usize;
        let chunks = if chunks > MOST_CHUNKS as usize { MOST_CHUNKS } else { chunks as u32 };
        Some(Log { base, chunks, keep, process: None })
    }

    #[inline(always)]
    fn head(&self) -> &Head {
        // SAFETY: `over` was promised a mapping that is larger than the head; atomics only.
        unsafe { &*self.base.cast::<Head>() }
    }

    /// The chunk with this number, which the caller has checked or has been given by a claim.
    #[inline(always)]
    fn chunk(&self, number: u32) -> &Chunk {
        debug_assert!((AREA_CHUNKS..AREA_CHUNKS + self.chunks).contains(&number));
        // SAFETY: `over` was promised a mapping of that many chunks; atomics only.
        unsafe { &*self.base.add(number as usize * CHUNK_BYTES).cast::<Chunk>() }
    }

    /// Has the kernel put the pages of a chunk in place, so that the entries that follow do not
    /// fault one page after the other. That it may refuse does not matter.
    fn populate(&self, number: u32) {
        self.populate_chunks(number, 1);
    }

    /// The same for the chunks that are given next, up to `bytes` of them. Those who are about to
    /// append where time counts call it before, so that taking a chunk costs them little then.
    pub fn prepare(&self, bytes: usize) {
        // Relaxed: a hint.
        let given = self.head().next.load(Ordering::Relaxed).min(u64::from(self.chunks)) as u32;
        let wanted = u32::try_from(bytes / CHUNK_BYTES).unwrap_or(u32::MAX);
        self.populate_chunks(AREA_CHUNKS + given, wanted.min(self.chunks - given));
    }

    fn populate_chunks(&self, first: u32, count: u32) {
        // Miri's memory is always present, and has no such call.
        if cfg!(miri) {
            return;
        }
        let at = self.base.wrapping_add(first as usize * CHUNK_BYTES);
        let bytes = count as usize * CHUNK_BYTES;
        // SAFETY: the range is chunks of our mapping; populating changes no bytes.
        let _ = unsafe {
            rustix::mm::madvise(at as *mut _, bytes, rustix::mm::Advice::LinuxPopulateWrite)
        };
    }
}

/// Most chunks of a log: their numbers must fit into a [`CursorPlace`].
#[cfg(not(loom))]
const MOST_CHUNKS: u32 = CursorPlace::MASK as u32 - AREA_CHUNKS;

/// A log in model memory.
#[cfg(loom)]
pub struct Log {
    head: Head,
    chunks_in_memory: Vec<Chunk>,
    chunks: u32,
    keep: Keep,
    process: Option<Process>,
}

#[cfg(loom)]
impl Log {
    /// A log of this number of chunks.
    pub fn new(chunks: u32, keep: Keep) -> Log {
        let chunks_in_memory = (0..chunks).map(|_| Chunk::default()).collect();
        Log { head: Head::default(), chunks_in_memory, chunks, keep, process: None }
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn chunk(&self, number: u32) -> &Chunk {
        &self.chunks_in_memory[(number - AREA_CHUNKS) as usize]
    }

    fn populate(&self, _: u32) {}
}

impl Log {
    /// Appends an entry at `time`; false when it was lost, which is counted.
    ///
    /// Wait-free; may be called in a signal handler. Needs one system call when a chunk is full,
    /// and some for a thread's first one, which leave `errno` alone. Where no chunk was found, the
    /// next entries are lost without another search.
    #[inline(always)]
    pub fn append(&self, cursor: &Cursor, writer: Writer, time: u64, entry: &Entry) -> bool {
        let place = cursor.reserve();
        interrupt::here();
        if place.has_room() {
            self.write(place, entry);
            return true;
        }
        if place.waits() {
            self.count_lost(place.chunk(), time);
            return false;
        }
        self.append_to_new_segment(cursor, writer, time, entry)
    }

    #[inline(always)]
    fn write(&self, place: CursorPlace, entry: &Entry) {
        let slot = &self.chunk(place.chunk()).slots[place.slot() as usize];
        let tag = u32::from(place.lap()) << 16 | u32::from(entry.kind);
        if Mutant::TagBeforeWords.is_on() {
            slot.tag.store(tag, Ordering::Relaxed);
        }
        for (at, word) in slot.words.iter().zip(entry.words) {
            // Relaxed: released by the tag.
            at.store(word, Ordering::Relaxed);
        }
        slot.number.store(entry.number, Ordering::Relaxed);
        // Release: pairs with the reader's acquire of the tag; everything above is whole then.
        slot.tag.store(tag, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn append_to_new_segment(
        &self,
        cursor: &Cursor,
        writer: Writer,
        time: u64,
        entry: &Entry,
    ) -> bool {
        let gate = self.process.map(|process| process.gate);
        if gate.is_some_and(|gate| !gate.enter()) {
            self.count_lost(cursor.place().chunk(), time);
            return false;
        }
        let appended = self.append_inside(cursor, writer, entry);
        if let Some(gate) = gate {
            gate.leave();
        }
        if !appended {
            self.count_lost(cursor.no_room(), time);
        }
        appended
    }

    fn append_inside(&self, cursor: &Cursor, writer: Writer, entry: &Entry) -> bool {
        for _ in 0..RETRIES {
            let full = cursor.place();
            if full.has_room() {
                // A handler has moved the cursor on.
                let place = cursor.reserve();
                if place.has_room() {
                    self.write(place, entry);
                    return true;
                }
                continue;
            }
            let Some(fresh) = self.new_place(cursor, writer, full) else { break };
            interrupt::here();
            // Relaxed: only this thread reads them, and the thread that takes the chunk after it.
            let chunk = self.chunk(fresh.chunk());
            chunk.start.store(fresh.slot(), Ordering::Relaxed);
            chunk.marks.fetch_add(1, Ordering::Relaxed);
            self.write(fresh, &self.mark(cursor, writer, full).entry());
            interrupt::here();
            if cursor.move_on(full, fresh.after(2)) {
                interrupt::here();
                self.register(cursor, fresh.chunk());
                self.close(full.chunk());
                interrupt::here();
                self.write(fresh.after(1), entry);
                return true;
            }
            // The mark stays without a segment.
            self.keep_for_later(cursor, fresh.after(1));
        }
        false
    }

    /// A slot of a chunk that no other thread writes, with at least one more after it.
    fn new_place(&self, cursor: &Cursor, writer: Writer, full: CursorPlace) -> Option<CursorPlace> {
        let claim = || self.claim(writer);
        let adopt = || self.adopt(cursor, writer);
        match cursor.take_kept() {
            Some(kept) => Some(kept),
            None if full.chunk() == 0 => adopt().or_else(claim),
            None => claim().or_else(adopt),
        }
    }

    /// Returns the mark of the cursor's next segment, when the cursor leaves a full chunk.
    fn mark(&self, cursor: &Cursor, writer: Writer, full: CursorPlace) -> Mark {
        // Relaxed: a number that no other thread has.
        let number = || self.head().cursors.fetch_add(1, Ordering::Relaxed) as u32;
        let first = Mark { writer, cursor: cursor.number(number), sequence: 0, before: 0 };
        if full.chunk() == 0 {
            return first;
        }
        // Relaxed: this thread wrote them.
        let chunk = self.chunk(full.chunk());
        let start = chunk.start.load(Ordering::Relaxed).min(CAPACITY - 1);
        let had = Mark::of(chunk.slots[start as usize].words());
        let before = had.before.wrapping_add(u64::from(CAPACITY - 1 - start));
        Mark { sequence: had.sequence.wrapping_add(1), before, ..first }
    }

    /// Keeps a place of a chunk for the cursor's next segment.
    fn keep_for_later(&self, cursor: &Cursor, place: CursorPlace) {
        let kept = place.slot() + 1 < CAPACITY && cursor.keep(place);
        if !kept {
            self.close(place.chunk());
        }
    }

    /// Returns the number of times that the chunk was given out before, modulo 2^16.
    fn lap(&self, state: State) -> u16 {
        match self.keep {
            Keep::First => 0,
            Keep::Last => (state.ticket() / u64::from(self.chunks)) as u16,
        }
    }

    /// The beginning of a chunk that no thread writes.
    fn claim(&self, writer: Writer) -> Option<CursorPlace> {
        let head = self.head();
        for _ in 0..ATTEMPTS {
            // Looked at first, so that a full log does not count tickets for ever.
            if self.keep == Keep::First
                && head.next.load(Ordering::Relaxed) >= u64::from(self.chunks)
            {
                return None;
            }
            // Relaxed: the ticket only names a chunk; the chunk's own state orders its use.
            let ticket = head.next.fetch_add(1, Ordering::Relaxed);
            if self.keep == Keep::First && ticket >= u64::from(self.chunks) {
                return None;
            }
            let number = AREA_CHUNKS + (ticket % u64::from(self.chunks)) as u32;
            let chunk = self.chunk(number);
            let seen = State(chunk.state.load(Ordering::Relaxed));
            if seen.is_open() && !Mutant::OpenChunkGivenAgain.is_on() {
                continue;
            }
            let open = State::opened(ticket);
            // Acquire: pairs with the release of `close`, so that the last thread's writes to
            // the chunk come before ours.
            let claimed =
                chunk.state.compare_exchange(seen.0, open.0, Ordering::Acquire, Ordering::Relaxed);
            if claimed.is_ok() {
                // Release: a reader that sees one of our words also sees the new state.
                fence(Ordering::Release);
                self.count_overwritten(chunk, seen);
                self.populate(number);
                self.begin(chunk, writer, open);
                return Some(CursorPlace::new(self.lap(open), number, 0));
            }
        }
        None
    }

    /// Counts what a chunk holds that was just claimed, and was in this state before. A chunk that
    /// was closed by its thread is full; one that was closed as a dead one's is looked through.
    fn count_overwritten(&self, chunk: &Chunk, before: State) {
        if before.0 == 0 {
            return;
        }
        let lap = self.lap(before);
        // Relaxed: the claim has acquired them.
        let is_whole = |slot: &&Slot| slot.is_whole(lap, slot.tag.load(Ordering::Relaxed));
        let slots = if chunk.slots.last().as_ref().is_some_and(is_whole) {
            u64::from(CAPACITY)
        } else {
            chunk.slots.iter().filter(is_whole).count() as u64
        };
        let marks = chunk.marks.load(Ordering::Relaxed);
        let entries = slots.saturating_sub(u64::from(marks));
        // Relaxed: a counter that only the report reads.
        self.head().overwritten.fetch_add(entries, Ordering::Relaxed);
    }

    /// Writes the header of a chunk that was just claimed.
    fn begin(&self, chunk: &Chunk, writer: Writer, state: State) {
        // Relaxed: the owner word releases them.
        chunk.holder.store(writer.pack(), Ordering::Relaxed);
        chunk.space.store(self.space(), Ordering::Relaxed);
        chunk.marks.store(0, Ordering::Relaxed);
        for counter in [&chunk.lost, &chunk.lost_first, &chunk.lost_last] {
            counter.store(0, Ordering::Relaxed);
        }
        // Release: pairs with the acquire of `read`, `close_dead` and `adopt`, which believe the
        // header only when the owner word is that of the state.
        chunk.owner.store(state.owner(), Ordering::Release);
    }

    fn close(&self, number: u32) {
        if number != 0 {
            // Release: pairs with the acquire of the claim that gives the chunk again.
            self.chunk(number).state.fetch_and(!OPEN, Ordering::Release);
        }
    }

    /// Counts an entry that a cursor whose latest chunk is this one could not append.
    #[cold]
    fn count_lost(&self, last: u32, time: u64) {
        let head = self.head();
        let (lost, first, end) = if last == 0 {
            (&head.lost, &head.lost_first, &head.lost_last)
        } else {
            let chunk = self.chunk(last);
            (&chunk.lost, &chunk.lost_first, &chunk.lost_last)
        };
        // Relaxed: counters that only the report reads.
        lost.fetch_add(1, Ordering::Relaxed);
        let _ = first.compare_exchange(0, time, Ordering::Relaxed, Ordering::Relaxed);
        end.fetch_max(time, Ordering::Relaxed);
    }
}

/// Point at which tests let a signal handler come; nothing in all other builds.
mod interrupt {
    #[cfg(all(test, not(loom)))]
    pub(super) use super::tests::interrupted as here;

    #[cfg(not(all(test, not(loom))))]
    #[inline(always)]
    pub(super) fn here() {}
}
