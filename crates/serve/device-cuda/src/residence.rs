//! Memory of the GPU that a launch of several slices has to itself.
//!
//! Slices of one launch run on several units, one after the other or at the same time, and other
//! launches come in between: so what they share is the launch's. The first slice that gets there
//! puts the input in and clears what has to be zero; the streams of the others wait for that, on
//! the GPU. What follows the slices, and the copy of the output to the client, is put behind the
//! last ones if all others have ended by then; if not, it is done once all have.
//!
//! Residences are used again: a launch takes the smallest free one that it fits in, and gives it
//! back when it is over, in whatever way. Memory is allocated only when none is free that is large
//! enough, and freed when the GPU goes. There are at most as many of a size as there were launches
//! at the same time that had begun and not ended.
//!
//! The launch knows its residence by a word of its workspace: 0 before the first slice, then the
//! residence's number.

use crate::builtin::Shape;
use crate::slice::SliceAddresses;
use cudarc::driver::{DriverError, result, sys};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The least that is allocated.
const LEAST_BYTES: u64 = 1 << 16;
/// Parts of the memory begin at multiples of this, as allocations do.
const ALIGNMENT: u64 = 256;

/// All residences of a GPU.
#[derive(Default)]
pub(crate) struct Residences(Mutex<Table>);

/// A residence's number is its place here, from 1.
#[derive(Default)]
struct Table {
    held: Vec<KeptResidence>,
}

struct KeptResidence {
    residence: Arc<Residence>,
    /// A launch has it.
    taken: bool,
}

/// Memory for one launch at a time.
pub(crate) struct Residence {
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Made when it is needed first.
    memory: Option<Memory>,
    stage: Stage,
    /// Slices that have ended well.
    ended: u64,
    /// True if the work that follows the last slice has been put into a stream.
    concluded: bool,
}

#[derive(Clone, Copy)]
struct Memory {
    base: sys::CUdeviceptr,
    /// Behind what fills it.
    filled: sys::CUevent,
}

#[derive(Clone, Copy, Default)]
enum Stage {
    #[default]
    Empty,
    /// The event tells when it is filled.
    Filling,
    Filled,
    Failed(sys::CUresult),
}

// SAFETY: handles of the driver, which any thread may use that has made the context its own.
unsafe impl Send for Memory {}

impl Residences {
    /// The residence of a launch, whose word this is; it gets one if it has none.
    pub(crate) fn of(&self, word: &AtomicU64, shape: &Shape) -> Arc<Residence> {
        let mut table = self.lock();
        // Relaxed: the word is only used under the lock.
        let number = word.load(Ordering::Relaxed);
        if let Some(held) = table.find(number) {
            return held.residence.clone();
        }
        let index = table.take(size(shape));
        word.store(index as u64 + 1, Ordering::Relaxed);
        table.held[index].residence.clone()
    }

    /// A launch is over: its residence is free.
    pub(crate) fn end(&self, word: &AtomicU64) {
        if let Some(held) = self.lock().find(word.load(Ordering::Relaxed)) {
            held.taken = false;
        }
    }

    /// Gives all memory back. Nothing uses it any more; the calling thread has the context.
    pub(crate) fn free(&self) {
        for held in self.lock().held.drain(..) {
            if let Some(Memory { base, filled }) = held.residence.lock().memory.take() {
                // SAFETY: made in `Memory::new`, and taken out; the caller's promise.
                unsafe {
                    let _ = result::free_sync(base);
                    let _ = result::event::destroy(filled);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The smallest free residence of this number of bytes or more, or a new one.
    fn take(&mut self, bytes: u64) -> usize {
        let fits = |held: &KeptResidence| !held.taken && held.residence.bytes >= bytes;
        let found = (0..self.held.len())
            .filter(|index| fits(&self.held[*index]))
            .min_by_key(|index| self.held[*index].residence.bytes);
        let index = found.unwrap_or_else(|| {
            let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes).max(LEAST_BYTES);
            let residence = Arc::new(Residence { bytes, state: Mutex::default() });
            self.held.push(KeptResidence { residence, taken: false });
            self.held.len() - 1
        });
        let held = &mut self.held[index];
        held.taken = true;
        let mut state = held.residence.lock();
        *state = State { memory: state.memory, ..State::default() };
        drop(state);
        index
    }

    fn find(&mut self, word: u64) -> Option<&mut KeptResidence> {
        self.held.get_mut(usize::try_from(word.checked_sub(1)?).ok()?)
    }
}

impl Residence {
    /// Puts into a stream what so many slices need before they run: `fill`, if nobody has yet, or
    /// else a wait for it. Tells where they work, and whether the caller has to conclude the launch
    /// behind them.
    ///
    /// # Errors
    /// The driver's error, for this slice or for the one that filled it.
    pub(crate) fn enter(
        &self,
        stream: sys::CUstream,
        shape: &Shape,
        count: u64,
        fill: impl FnOnce(SliceAddresses) -> Result<(), DriverError>,
    ) -> Result<(SliceAddresses, bool), DriverError> {
        let state = &mut *self.lock();
        match state.stage {
            Stage::Empty => {
                let filled = self.memory(state).and_then(|memory| {
                    fill(place(memory.base, shape))?;
                    // SAFETY: the event is the residence's, and lives as it does.
                    unsafe { result::event::record(memory.filled, stream) }
                });
                state.stage =
                    filled.map_or_else(|error| Stage::Failed(error.0), |()| Stage::Filling);
                filled?;
            }
            Stage::Filling => {
                let memory = self.memory(state)?;
                let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                // SAFETY: as above; it was recorded when the stage was reached.
                unsafe { result::stream::wait_event(stream, memory.filled, flags)? };
            }
            Stage::Filled => {}
            Stage::Failed(why) => return Err(DriverError(why)),
        }
        let last = state.ended + count == shape.slices();
        state.concluded |= last;
        Ok((place(self.memory(state)?.base, shape), last))
    }

    /// Counts slices that have ended well: the input is there.
    pub(crate) fn leave(&self, count: u64) {
        let mut state = self.lock();
        state.stage = Stage::Filled;
        state.ended += count;
    }

    /// Returns true if the work that follows the last slice was put into a stream.
    pub(crate) fn is_concluded(&self) -> bool {
        self.lock().concluded
    }

    /// Marks the launch as concluded, all slices having ended, and returns its place.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn conclude(&self, shape: &Shape) -> Result<SliceAddresses, DriverError> {
        let state = &mut *self.lock();
        state.concluded = true;
        Ok(place(self.memory(state)?.base, shape))
    }

    fn memory(&self, state: &mut State) -> Result<Memory, DriverError> {
        if let Some(memory) = state.memory {
            return Ok(memory);
        }
        let memory = Memory::new(self.bytes)?;
        state.memory = Some(memory);
        Ok(memory)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn new(bytes: u64) -> Result<Memory, DriverError> {
        let filled = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        // SAFETY: it is freed once, in `Residences::free`.
        match unsafe { result::malloc_sync(bytes as usize) } {
            Ok(base) => Ok(Memory { base, filled }),
            Err(error) => {
                // SAFETY: made just now, and nowhere else.
                let _ = unsafe { result::event::destroy(filled) };
                Err(error)
            }
        }
    }
}

/// Bytes that a launch needs; a user says how many, so that it may be more than there can be.
fn size(shape: &Shape) -> u64 {
    let parts = [shape.input, shape.output, 8 * shape.workspace.max(1)];
    parts.iter().fold(0u64, |sum, bytes| sum.saturating_add(bytes.next_multiple_of(ALIGNMENT)))
}

fn place(base: sys::CUdeviceptr, shape: &Shape) -> SliceAddresses {
    let output = base + shape.input.next_multiple_of(ALIGNMENT);
    let workspace = output + shape.output.next_multiple_of(ALIGNMENT);
    SliceAddresses { input: base, output, workspace, direct: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(bytes: u64) -> Shape {
        Shape { input: bytes, blocks: 2, slice: 1, ..Shape::default() }
    }

    #[test]
    fn launch_takes_the_smallest_that_is_free_and_gives_it_back() {
        let residences = Residences::default();
        let [small, large, other] = [(); 3].map(|()| AtomicU64::new(0));
        let bytes = |word: &AtomicU64, bytes| residences.of(word, &shape(bytes)).bytes;
        assert_eq!(bytes(&large, 1 << 20), 1 << 21);
        assert_eq!(bytes(&small, 1), LEAST_BYTES);
        assert_eq!(bytes(&small, 1), LEAST_BYTES, "it keeps what it has");
        assert_eq!(bytes(&other, 2), LEAST_BYTES, "one of its own");
        assert_eq!(residences.lock().held.len(), 3);
        [&small, &large, &other].into_iter().for_each(|word| residences.end(word));
        for _ in 0..10 {
            let again = AtomicU64::new(0);
            assert_eq!(bytes(&again, 1), LEAST_BYTES);
            residences.end(&again);
        }
        assert_eq!(bytes(&AtomicU64::new(0), LEAST_BYTES), 1 << 21, "the only one it fits in");
        assert_eq!(residences.lock().held.len(), 3);
    }
}
