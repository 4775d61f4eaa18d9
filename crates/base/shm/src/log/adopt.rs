//! Chunks of ended threads, whose rest serves others.
//!
//! A thread that ends leaves its chunk open, and tells no other thread. A thread that needs a chunk
//! looks at some of those in the *register*, where each thread has a place with its latest chunk,
//! and asks the kernel whether the holder still is ([`Process`]). A holder that is gone writes no
//! more, so that the slots after its last whole one are free.
//!
//! Three parties may want the same chunk: two threads that adopt it, and the reader that closes
//! chunks of the dead. The state word decides, in two steps:
//!
//! ```text
//!   adopter:  state + 1 hand (of two adopters, one)   holder: adopter   state + 1 hand
//!   closer:   reads the state   reads the holder: dead?   closes, if the state is the same
//! ```
//!
//! A thread that closes between the steps, having seen the old holder or not, makes the second one
//! fail; the adopter gives up. An adopter that dies between them leaves the chunk to the closer.
//! Each step is wait-free.

use super::{CAPACITY, Chunk, Cursor, CursorPlace, Gate, HAND, Log, State, Writer, interrupt};
use crate::atomic::Ordering;

/// Places in the register.
pub(super) const REGISTER: usize = if cfg!(loom) { 2 } else { 960 };
/// Number of living holders after which one search gives up.
const QUESTIONS: u32 = 16;
/// Slots that are worth it.
const WORTH: u32 = if cfg!(loom) { 2 } else { 8 };

/// Knowledge of a log about the process that appends to it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// A number of the space of thread ids that the calling process is in, the same in each process
    /// there; 0 if it is not known, and then only threads of its own process are asked for.
    pub space: fn() -> u32,
    /// Returns true if no thread of this space has this id. May not be wrong about one that lives.
    pub is_dead: fn(u32) -> bool,
    /// Gate for the threads of this process that look for a chunk.
    pub gate: Gate,
}

impl Log {
    /// The same log, for the threads of a process, which may adopt what is left of chunks of ended
    /// threads.
    #[must_use]
    pub fn of_process(self, process: Process) -> Log {
        Log { process: Some(process), ..self }
    }

    pub(super) fn space(&self) -> u32 {
        self.process.map_or(0, |process| (process.space)())
    }

    /// Notes that a cursor has gone on to a chunk.
    pub(super) fn register(&self, cursor: &Cursor, chunk: u32) {
        let register = &self.head().register;
        // Relaxed, in the register: no more than hints.
        if let Some(at) = cursor.registered() {
            register[at].store(chunk, Ordering::Relaxed);
            return;
        }
        let place = self.places().find(|at| {
            let place = &register[*at];
            place.compare_exchange(0, chunk, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if let Some(at) = place {
            cursor.set_registered(at);
        }
    }

    /// All places of the register, from another one on each time.
    fn places(&self) -> impl Iterator<Item = usize> {
        let hint = self.head().hint.fetch_add(1, Ordering::Relaxed);
        (0..REGISTER).map(move |at| (hint as usize).wrapping_add(at) % REGISTER)
    }

    /// The next slot of an ended thread's chunk.
    #[cold]
    pub(super) fn adopt(&self, cursor: &Cursor, writer: Writer) -> Option<CursorPlace> {
        let Process { space, is_dead, .. } = self.process?;
        let space = space();
        let mut questions = QUESTIONS;
        for at in self.places() {
            let number = self.head().register[at].load(Ordering::Relaxed);
            if !self.numbers().contains(&number) {
                continue;
            }
            let chunk = self.chunk(number);
            // Acquire: pairs with the release of the second step, below.
            let state = State(chunk.state.load(Ordering::Acquire));
            if !state.is_open() {
                self.unregister(at, number);
                continue;
            }
            // Acquire: as in `read`; the header is this state's.
            if chunk.owner.load(Ordering::Acquire) != state.owner() || !state.can_be_handed() {
                continue;
            }
            let holder = Writer::unpack(chunk.holder.load(Ordering::Relaxed));
            let is_known = chunk.space.load(Ordering::Relaxed) == space && space != 0;
            if !is_known && holder.process != writer.process {
                continue;
            }
            // An image that the thread's present one has replaced.
            let is_former = holder.thread == writer.thread && holder.process != writer.process;
            if !is_former && !is_dead(holder.thread) {
                questions -= 1;
                if questions == 0 {
                    return None;
                }
                continue;
            }
            let place = take_over(chunk, state, holder, writer).and_then(|state| {
                if holder.process != writer.process {
                    self.populate(number);
                }
                let place = self.rest(number, state);
                if place.is_none() {
                    self.close(number);
                    self.unregister(at, number);
                }
                place
            });
            if let Some(place) = place {
                cursor.set_registered(at);
                return Some(place);
            }
        }
        None
    }

    fn unregister(&self, at: usize, number: u32) {
        let place = &self.head().register[at];
        let _ = place.compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the place at which a chunk that was taken over goes on, if enough slots are left.
    fn rest(&self, number: u32, state: State) -> Option<CursorPlace> {
        let (chunk, lap) = (self.chunk(number), self.lap(state));
        let is_whole = |slot: u32| {
            let slot = &chunk.slots[slot as usize];
            // Relaxed: its writer is gone.
            slot.is_whole(lap, slot.tag.load(Ordering::Relaxed))
        };
        let free = (0..CAPACITY).rev().find(|slot| is_whole(*slot)).map_or(0, |slot| slot + 1);
        if free + WORTH > CAPACITY {
            return None;
        }
        Some(CursorPlace::new(lap, number, free))
    }
}

/// Makes a thread the holder of a chunk that was in this state, and whose holder is dead.
fn take_over(chunk: &Chunk, state: State, dead: Writer, writer: Writer) -> Option<State> {
    let step = |from: u64| {
        // Acquire: what the dead thread, and those before it, have written comes before what we
        // will. Release: a thread that sees the state sees the holder.
        let next = from + HAND;
        let stepped = chunk.state.compare_exchange(from, next, Ordering::AcqRel, Ordering::Relaxed);
        stepped.ok().map(|_| next)
    };
    let begun = step(state.0)?;
    interrupt::here();
    // Compared: between the steps it may be closed and given to another thread.
    let (dead, writer) = (dead.pack(), writer.pack());
    chunk.holder.compare_exchange(dead, writer, Ordering::Relaxed, Ordering::Relaxed).ok()?;
    interrupt::here();
    step(begun).map(State)
}
