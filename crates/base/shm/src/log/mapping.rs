//! Giving back, for the time of one call, the memory that a process does not need.
//!
//! A process maps the whole segment and writes to a few of its chunks. Where that counts, when the
//! program locks all its memory, the rest is unmapped and mapped again afterwards:
//!
//! ```text
//!   appender: inside + 1 | shut? then counts a loss, inside - 1 | new chunk | inside - 1
//!   closer:   shut       | inside = 0? | unmaps | the call | maps | opens
//! ```
//!
//! Only an appender that needs a chunk touches memory that is not its own chunk, and it is inside
//! then: of an appender and a closer that come at once, one sees the other. The closer waits for
//! those inside, for a tenth of a second at most, and otherwise leaves everything mapped. An appender never
//! waits. A thread that dies inside keeps the closer out for good.
//!
//! The memory is mapped again where it was, by making what stayed longer: for that the kernel needs
//! no descriptor, and takes no place that another mapping has taken meanwhile. Where one has,
//! the log stays shut, and all that needs a new chunk is lost, which is counted.

use crate::atomic::{AtomicU32, Ordering, fence};
use crate::mutant::Mutant;

/// Count of the process' threads that look for a chunk, and a flag that shuts them out: two words
/// of its own memory, 0 in the beginning. A forked child has none of its parent's threads, and all
/// of its holes: there the first one must be 0 again, and the second one as it was.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Number of threads inside.
    pub inside: &'static AtomicU32,
    /// 1 while it is shut.
    pub shut: &'static AtomicU32,
}

impl Gate {
    /// Goes inside; false if that is shut.
    #[inline]
    pub fn enter(&self) -> bool {
        if Mutant::LookedBeforeEntering.is_on() {
            let shut = self.shut.load(Ordering::Acquire) != 0;
            self.inside.fetch_add(u32::from(!shut), Ordering::Relaxed);
            return !shut;
        }
        self.inside.fetch_add(1, Ordering::Relaxed);
        // SeqCst, here and in `try_shut`: of the two, one sees what the other has written.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release of `open`.
        if self.shut.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Goes out.
    #[inline]
    pub fn leave(&self) {
        // Release: pairs with the acquire of `is_empty`; what was done inside is done.
        self.inside.fetch_sub(1, Ordering::Release);
    }

    /// Shuts it; false if it was shut.
    pub fn try_shut(&self) -> bool {
        let is_first = self.shut.swap(1, Ordering::Acquire) == 0;
        fence(Ordering::SeqCst);
        is_first
    }

    /// Returns true if no thread is inside, after it was shut.
    pub fn is_empty(&self) -> bool {
        // Acquire: pairs with the release of `leave`.
        self.inside.load(Ordering::Acquire) == 0
    }

    /// Opens it.
    pub fn open(&self) {
        // Release: pairs with the acquire in `enter`; the memory is there.
        self.shut.store(0, Ordering::Release);
    }
}

#[cfg(not(loom))]
mod real {
    use super::super::{AREA_CHUNKS, CHUNK_BYTES, Log, State};
    use super::{Gate, Ordering};
    use rustix::mm::MremapFlags;
    use std::time::Duration;

    /// Longest time for which a closer waits for the threads inside, which need microseconds.
    const PATIENCE: Duration = Duration::from_millis(100);
    /// Most pieces that stay mapped; more threads than that keep the chunks between them, too.
    const PIECES: usize = 256;

    /// Chunks that stay mapped: from, to.
    type Piece = (u32, u32);

    impl Log {
        /// Makes a call while only the chunks of this process image are mapped, if no thread is
        /// looking for a chunk. The memory that is mapped afterwards is not locked.
        pub fn without_unused<T>(&self, process: u32, call: impl FnOnce() -> T) -> T {
            let Some(gate) = self.process.map(|process| process.gate) else { return call() };
            if !gate.try_shut() {
                return call();
            }
            if !wait_until_empty(&gate) {
                gate.open();
                return call();
            }
            let mut pieces = [(0, 0); PIECES];
            let pieces = self.used_pieces(process, &mut pieces);
            self.between(pieces, |log, from, to| log.unmap(from, to));
            let result = call();
            if self.map_again(pieces) {
                gate.open();
            }
            result
        }

        /// The runs of chunks that a thread of the process writes, with the head's.
        fn used_pieces<'a>(&self, process: u32, into: &'a mut [Piece; PIECES]) -> &'a [Piece] {
            into[0] = (0, AREA_CHUNKS);
            let mut last = 0;
            let taken = self.taken().min(u64::from(self.chunks)) as u32;
            for number in AREA_CHUNKS..AREA_CHUNKS + taken {
                let chunk = self.chunk(number);
                // Relaxed: of those that matter, threads of this process have written both before
                // they went out, which was acquired.
                let state = State(chunk.state.load(Ordering::Relaxed));
                let holder = super::super::Writer::unpack(chunk.holder.load(Ordering::Relaxed));
                if !state.is_open() || holder.process != process {
                    continue;
                }
                if into[last].1 != number && last + 1 < PIECES {
                    last += 1;
                    into[last].0 = number;
                }
                into[last].1 = number + 1;
            }
            &into[..=last]
        }

        /// Calls `each` with the runs of chunks between the pieces.
        fn between(&self, pieces: &[Piece], mut each: impl FnMut(&Log, u32, u32)) {
            for (at, (_, from)) in pieces.iter().enumerate() {
                let to = pieces.get(at + 1).map_or(AREA_CHUNKS + self.chunks, |piece| piece.0);
                if to > *from {
                    each(self, *from, to);
                }
            }
        }

        fn place(&self, number: u32) -> *mut std::ffi::c_void {
            self.base.wrapping_add(number as usize * CHUNK_BYTES).cast_mut().cast()
        }

        fn unmap(&self, from: u32, to: u32) {
            // SAFETY: chunks of our mapping that no thread of this process has, and that none takes
            // while the gate is shut. That it fails does not matter.
            let _ = unsafe { rustix::mm::munmap(self.place(from), bytes(from, to)) };
        }

        /// Makes each piece as long as it was. Pieces that the call has locked are unlocked first,
        /// so that what is added is not locked either.
        fn map_again(&self, pieces: &[Piece]) -> bool {
            for (from, to) in pieces {
                // SAFETY: a piece of our mapping; this changes no bytes.
                let _ = unsafe { rustix::mm::munlock(self.place(*from), bytes(*from, *to)) };
            }
            let mut is_whole = true;
            for (at, (from, to)) in pieces.iter().enumerate() {
                let end = pieces.get(at + 1).map_or(AREA_CHUNKS + self.chunks, |piece| piece.0);
                let (place, had) = (self.place(*from), bytes(*from, *to));
                // SAFETY: a piece of our mapping, which may not move.
                is_whole &= *to == end
                    || unsafe {
                        rustix::mm::mremap(place, had, bytes(*from, end), MremapFlags::empty())
                    }
                    .is_ok();
            }
            is_whole
        }
    }

    fn bytes(from: u32, to: u32) -> usize {
        (to - from) as usize * CHUNK_BYTES
    }

    /// Waits until no thread is inside; false if one stays.
    fn wait_until_empty(gate: &Gate) -> bool {
        const STEP: Duration = Duration::from_micros(100);
        for _ in 0..PATIENCE.as_micros() / STEP.as_micros() {
            let inside = gate.inside.load(Ordering::Acquire);
            if inside == 0 {
                return true;
            }
            // No wake-up: a thread that leaves has no time for it.
            crate::futex::wait(gate.inside, inside, Some(STEP));
        }
        gate.is_empty()
    }
}
