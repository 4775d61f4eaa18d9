//! Logs of many threads in chunks of one shared segment, which outlives the threads.
//!
//! ```text
//!   segment   | head | side area (its owner's)   | chunk 16 | chunk 17 |  ...  |
//!             0      4096                        1 MiB      64 KiB each
//!
//!   chunk     | header: state, who, lost | slot 0 | slot 1 |  ...  | slot 2045 |
//!             0                          64       96
//!
//!   slot      | word 0 | word 1 | word 2 | number | tag |        32 bytes
//!             0        8        16       24       28
//! ```
//!
//! A thread has one *cursor*, a word of its own memory: the chunk it writes, and the next slot.
//! To append, it takes a slot by one `xadd` on its cursor, fills it and stores the tag last, with
//! the lap of the chunk in its upper half: a slot whose tag shows the current lap is whole. When
//! the chunk is full, the thread takes the next ticket of the log; ticket modulo chunks is its
//! new chunk. A log that *keeps the first* gives out each chunk once, then counts what it cannot
//! take. A log that *keeps the last* gives the oldest closed chunk again; one that is still open,
//! since its thread writes rarely, is passed over.
//!
//! - A signal handler may append while its thread is appending: the handler gets other slots, and
//!   if both need a chunk, both get one.
//! - [`Log::append`] is wait-free: the search for a chunk gives up after [`ATTEMPTS`].
//!   A handler that interrupts an append for so long that the whole log turns over may spoil one
//!   entry of the chunk's next owner, whose tag shows it.
//! - A thread that dies half-way leaves a slot without its tag, and an open chunk. Whoever knows
//!   that the thread is dead closes it ([`Log::close_dead`]).
//! - [`Log::read`] may run at any time beside writers. It believes nothing: a chunk that was
//!   reused meanwhile is left out, and so is a slot that is not whole.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::mutant::Mutant;

/// Bytes of a chunk with its header.
pub const CHUNK_BYTES: usize = 65536;
/// Slots of a chunk.
pub const CAPACITY: u32 = if cfg!(loom) { 2 } else { 2046 };
/// Chunks that the head and the side area take up at the beginning of the segment.
pub const AREA_CHUNKS: u32 = 16;
/// Where the side area begins; it ends where the first chunk begins.
pub const SIDE_OFFSET: usize = 4096;
/// How many chunks one search for a chunk looks at.
pub const ATTEMPTS: u32 = if cfg!(loom) { 3 } else { 256 };
/// Tag value of a slot that no writer has finished: kinds begin at 1.
pub const UNWRITTEN: u16 = 0;

/// What a slot holds: three words, a number, and a kind of the writer's, which is not
/// [`UNWRITTEN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// Three words whose meaning the kind tells.
    pub words: [u64; 3],
    /// A number whose meaning the kind tells.
    pub number: u32,
    /// What the entry is.
    pub kind: u16,
}

/// Who appends, written into the header of each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Writer {
    /// Number of the process image in this log.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
}

#[cfg_attr(not(loom), repr(C))]
struct Slot {
    words: [AtomicU64; 3],
    number: AtomicU32,
    /// Kind in the lower half, lap in the upper.
    tag: AtomicU32,
}

#[cfg_attr(not(loom), repr(C))]
struct Chunk {
    /// 0: never used. Else (ticket + 1) * 2, plus 1 while its thread may append.
    state: AtomicU64,
    process: AtomicU32,
    thread: AtomicU32,
    /// How many chunks the thread had before this one.
    sequence: AtomicU32,
    /// Lower half of the ticket + 1 that the header belongs to.
    owner: AtomicU32,
    /// Time of the claim.
    opened: AtomicU64,
    /// Entries that the thread had appended before this chunk.
    before: AtomicU64,
    /// Entries that the thread could not append after this chunk, and when the first and last.
    lost: AtomicU64,
    lost_first: AtomicU64,
    lost_last: AtomicU64,
    slots: [Slot; CAPACITY as usize],
}

impl Chunk {
    fn writer(&self) -> Writer {
        Writer {
            process: self.process.load(Ordering::Relaxed),
            thread: self.thread.load(Ordering::Relaxed),
        }
    }
}

#[cfg_attr(not(loom), repr(C))]
struct Head {
    /// Tickets given out.
    next: AtomicU64,
    /// Entries of threads that never had a chunk, and when the first and last.
    lost: AtomicU64,
    lost_first: AtomicU64,
    lost_last: AtomicU64,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Slot>() == 32);
    assert!(offset_of!(Slot, number) == 24);
    assert!(offset_of!(Slot, tag) == 28);
    assert!(offset_of!(Chunk, slots) == 64);
    assert!(size_of::<Chunk>() <= CHUNK_BYTES);
    assert!(size_of::<Head>() <= SIDE_OFFSET);
};

/// Where a cursor stands: lap of the chunk in bits 48 to 63, chunk in 24 to 47 (0: none), next
/// slot in 0 to 23, which counts on when the chunk is full.
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    const NONE: Place = Place(0);
    const BITS: u32 = 24;
    const MASK: u64 = (1 << Place::BITS) - 1;

    fn new(lap: u16, chunk: u32, slot: u32) -> Place {
        Place(u64::from(lap) << 48 | u64::from(chunk) << Place::BITS | u64::from(slot))
    }

    #[inline(always)]
    fn lap(self) -> u16 {
        (self.0 >> 48) as u16
    }

    #[inline(always)]
    fn chunk(self) -> u32 {
        (self.0 >> Place::BITS & Place::MASK) as u32
    }

    #[inline(always)]
    fn slot(self) -> u32 {
        (self.0 & Place::MASK) as u32
    }
}

/// Most chunks of a log: their numbers must fit into a [`Place`].
#[cfg(not(loom))]
const MOST_CHUNKS: u32 = Place::MASK as u32 - AREA_CHUNKS;

/// A thread's place in the log. Lives in the thread's own memory; all zero is "no chunk yet".
///
/// Only its thread and signal handlers on that thread may append through it.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(C))]
pub struct Cursor {
    /// See [`Place`].
    place: AtomicU64,
    /// Entries appended through earlier chunks.
    before: AtomicU64,
    /// Chunks taken so far.
    chunks: AtomicU32,
    /// The chunk that the thread had last (0: none).
    last: AtomicU32,
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor {
            place: AtomicU64::new(0),
            before: AtomicU64::new(0),
            chunks: AtomicU32::new(0),
            last: AtomicU32::new(0),
        }
    }
}

impl Cursor {
    /// Forgets its chunk, as a forked child must, whose log position belongs to its parent.
    pub fn reset(&self) {
        // Relaxed: the cursor is the calling thread's own.
        self.place.store(0, Ordering::Relaxed);
        self.before.store(0, Ordering::Relaxed);
        self.chunks.store(0, Ordering::Relaxed);
        self.last.store(0, Ordering::Relaxed);
    }

    /// Takes the next slot. One instruction, so that a signal handler comes before or after it,
    /// never in between. It needs no bus lock, since no other thread uses the cursor.
    #[inline(always)]
    fn reserve(&self) -> Place {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            let mut place: u64 = 1;
            // SAFETY: the word is a live atomic of this thread; `xadd` adds to it and returns
            // what it held. Only this thread writes it, so that it need not be locked.
            unsafe {
                core::arch::asm!("xadd qword ptr [{at}], {place}", at = in(reg) self.place.as_ptr(),
                    place = inout(reg) place, options(nostack));
            }
            Place(place)
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        {
            if Mutant::SlotTakenInTwoSteps.is_on() {
                let place = self.place.load(Ordering::Relaxed);
                self.place.store(place + 1, Ordering::Relaxed);
                return Place(place);
            }
            // Relaxed: only this thread and its signal handlers use the cursor.
            Place(self.place.fetch_add(1, Ordering::Relaxed))
        }
    }
}

/// Which entries a full log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Those that came first; later ones are counted as lost.
    First,
    /// Those that came last; the oldest chunks are given again.
    Last,
}

/// A log over a segment, for its writers and its reader.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub struct Log {
    base: *const u8,
    chunks: u32,
    keep: Keep,
}

// SAFETY: a log is an address and numbers; everything behind the address is atomics.
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
        Some(Log { base, chunks, keep })
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
        let at = self.base.wrapping_add(first as usize * CHUNK_BYTES);
        let bytes = count as usize * CHUNK_BYTES;
        // SAFETY: the range is chunks of our mapping; populating changes no bytes.
        let _ = unsafe {
            rustix::mm::madvise(at as *mut _, bytes, rustix::mm::Advice::LinuxPopulateWrite)
        };
    }
}

/// A log in model memory.
#[cfg(loom)]
pub struct Log {
    head: Head,
    chunks_in_memory: Vec<Chunk>,
    chunks: u32,
    keep: Keep,
}

#[cfg(loom)]
impl Log {
    /// A log of so many chunks.
    pub fn new(chunks: u32, keep: Keep) -> Log {
        let slot = || Slot {
            words: core::array::from_fn(|_| AtomicU64::new(0)),
            number: AtomicU32::new(0),
            tag: AtomicU32::new(0),
        };
        let word = || AtomicU64::new(0);
        let chunk = |_| Chunk {
            state: word(),
            process: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            sequence: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            opened: word(),
            before: word(),
            lost: word(),
            lost_first: word(),
            lost_last: word(),
            slots: core::array::from_fn(|_| slot()),
        };
        let head = Head { next: word(), lost: word(), lost_first: word(), lost_last: word() };
        Log { head, chunks_in_memory: (0..chunks).map(chunk).collect(), chunks, keep }
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
    /// which leaves `errno` alone.
    #[inline(always)]
    pub fn append(&self, cursor: &Cursor, writer: Writer, time: u64, entry: &Entry) -> bool {
        let place = cursor.reserve();
        if place.slot() < CAPACITY && place.chunk() != 0 {
            self.write(place, entry);
            return true;
        }
        self.append_to_new_chunk(cursor, writer, time, entry)
    }

    #[inline(always)]
    fn write(&self, place: Place, entry: &Entry) {
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

    /// How often the chunk was given out before, modulo 2^16.
    fn lap(&self, state: u64) -> u16 {
        match self.keep {
            Keep::First => 0,
            Keep::Last => (((state >> 1).wrapping_sub(1)) / u64::from(self.chunks)) as u16,
        }
    }

    #[cold]
    #[inline(never)]
    fn append_to_new_chunk(
        &self,
        cursor: &Cursor,
        writer: Writer,
        time: u64,
        entry: &Entry,
    ) -> bool {
        let Some((fresh, state)) = self.claim() else {
            self.leave(cursor, Place::NONE);
            // Relaxed: the cursor is this thread's own.
            self.count_lost(cursor.last.load(Ordering::Relaxed), time);
            return false;
        };
        self.populate(fresh);
        let before = self.leave(cursor, Place::NONE);
        let chunk = self.chunk(fresh);
        // Relaxed: the owner word and the first tag release them.
        chunk.process.store(writer.process, Ordering::Relaxed);
        chunk.thread.store(writer.thread, Ordering::Relaxed);
        chunk.sequence.store(cursor.chunks.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        chunk.opened.store(time, Ordering::Relaxed);
        chunk.before.store(before, Ordering::Relaxed);
        for counter in [&chunk.lost, &chunk.lost_first, &chunk.lost_last] {
            counter.store(0, Ordering::Relaxed);
        }
        // Release: pairs with the acquire of `read` and `close_dead`, which believe the header
        // only when the owner word is that of the state.
        chunk.owner.store((state >> 1) as u32, Ordering::Release);
        cursor.last.store(fresh, Ordering::Relaxed);
        // The first slot is this entry's. Only now may anybody append to the chunk: a handler
        // that came in between has taken a chunk of its own, which is left here.
        let lap = self.lap(state);
        self.write(Place::new(lap, fresh, 0), entry);
        self.leave(cursor, Place::new(lap, fresh, 1));
        true
    }

    /// Moves the cursor to `next`, closes the chunk it was in, and returns how many entries the
    /// thread has appended so far.
    fn leave(&self, cursor: &Cursor, next: Place) -> u64 {
        // Relaxed: the cursor is this thread's own. Swapped, so that exactly one of the thread
        // and its handlers closes each chunk.
        let old = Place(cursor.place.swap(next.0, Ordering::Relaxed));
        let (chunk, used) = (old.chunk(), old.slot().min(CAPACITY));
        if chunk == 0 {
            return cursor.before.load(Ordering::Relaxed);
        }
        self.close(chunk);
        cursor.before.fetch_add(u64::from(used), Ordering::Relaxed) + u64::from(used)
    }

    /// A chunk that nobody writes, and its new state.
    fn claim(&self) -> Option<(u32, u64)> {
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
            let state = &self.chunk(number).state;
            let seen = state.load(Ordering::Relaxed);
            if seen & 1 == 1 && !Mutant::OpenChunkGivenAgain.is_on() {
                continue;
            }
            let open = (ticket + 1) << 1 | 1;
            // Acquire: pairs with the release of `close`, so that the last thread's writes to
            // the chunk come before ours.
            let claimed = state.compare_exchange(seen, open, Ordering::Acquire, Ordering::Relaxed);
            if claimed.is_ok() {
                // Release: a reader that sees one of our words also sees the new state.
                fence(Ordering::Release);
                return Some((number, open));
            }
        }
        None
    }

    fn close(&self, number: u32) {
        if number != 0 {
            // Release: pairs with the acquire of the claim that gives the chunk again.
            self.chunk(number).state.fetch_and(!1, Ordering::Release);
        }
    }

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

/// A copy of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// Who wrote it.
    pub writer: Writer,
    /// How many chunks the thread had before this one.
    pub sequence: u32,
    /// Entries that the thread had appended before this chunk.
    pub before: u64,
    /// Time of the claim.
    pub opened: u64,
    /// Whether its thread may still append.
    pub open: bool,
    /// What the thread lost after it.
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
    /// How many.
    pub count: u64,
    /// When the first one came.
    pub first: u64,
    /// When the last one came.
    pub last: u64,
}

impl Log {
    /// The numbers of all chunks of the segment, used or not.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        AREA_CHUNKS..AREA_CHUNKS + self.chunks
    }

    /// What threads lost that never had a chunk.
    pub fn lost_without_chunk(&self) -> Lost {
        let head = self.head();
        lost(&head.lost, &head.lost_first, &head.lost_last)
    }

    /// Tickets given out so far: how many chunks were taken.
    pub fn taken(&self) -> u64 {
        self.head().next.load(Ordering::Relaxed)
    }

    /// Copies chunk `number`; `None` when it was never used, or was reused while being copied.
    pub fn read(&self, number: u32) -> Option<Copy> {
        let chunk = self.chunk(number);
        // Acquire: pairs with the release of `close`.
        let state = chunk.state.load(Ordering::Acquire);
        // Acquire: pairs with the release of the owner word; the header is this state's then.
        if state == 0 || chunk.owner.load(Ordering::Acquire) != (state >> 1) as u32 {
            return None;
        }
        let copy = Copy {
            writer: chunk.writer(),
            sequence: chunk.sequence.load(Ordering::Relaxed),
            before: chunk.before.load(Ordering::Relaxed),
            opened: chunk.opened.load(Ordering::Relaxed),
            open: state & 1 == 1,
            lost: lost(&chunk.lost, &chunk.lost_first, &chunk.lost_last),
            ..Copy::default()
        };
        let (entries, torn) = self.entries(number, state)?;
        Some(Copy { entries, torn, ..copy })
    }

    /// The whole entries of a chunk that was in this state, and how many before the last of them
    /// are not whole; `None` when the chunk has been given again since.
    fn entries(&self, number: u32, state: u64) -> Option<(Vec<Entry>, u32)> {
        let chunk = self.chunk(number);
        let lap = self.lap(state);
        let (mut entries, mut torn, mut missing) = (Vec::new(), 0, 0);
        for slot in &chunk.slots {
            // Acquire: pairs with the release of the tag; the words are whole after it.
            let tag = slot.tag.load(Ordering::Acquire);
            let kind = tag as u16;
            if kind == UNWRITTEN || (tag >> 16) as u16 != lap {
                missing += 1;
                continue;
            }
            torn += std::mem::take(&mut missing);
            entries.push(Entry {
                words: core::array::from_fn(|i| slot.words[i].load(Ordering::Relaxed)),
                number: slot.number.load(Ordering::Relaxed),
                kind,
            });
        }
        // Acquire: pairs with the release fence of the claim. If a word above came from a later
        // use of the chunk, its state is seen here.
        fence(Ordering::Acquire);
        let after = chunk.state.load(Ordering::Relaxed);
        (after | 1 == state | 1).then_some((entries, torn))
    }

    /// The entries of a chunk without its header, for models: each word more that is read
    /// multiplies what the checker must go through.
    #[cfg(loom)]
    pub fn entries_now(&self, number: u32) -> Vec<Entry> {
        let state = self.chunk(number).state.load(Ordering::Acquire);
        let found = if state == 0 { None } else { self.entries(number, state) };
        found.map(|(entries, _)| entries).unwrap_or_default()
    }

    /// Closes the open chunks whose writer is dead, so that they can be given again; returns how
    /// many. `is_dead` is asked once for each open chunk.
    pub fn close_dead(&self, mut is_dead: impl FnMut(Writer) -> bool) -> usize {
        let mut closed = 0;
        for number in self.numbers() {
            let chunk = self.chunk(number);
            let state = chunk.state.load(Ordering::Acquire);
            // Acquire: as in `read`. Where it differs, the chunk is being claimed just now.
            let owned = chunk.owner.load(Ordering::Acquire) == (state >> 1) as u32;
            if state & 1 == 1 && owned && is_dead(chunk.writer()) {
                // The state is compared: the chunk may have a new, living writer by now.
                let shut = chunk.state.compare_exchange(
                    state,
                    state & !1,
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
