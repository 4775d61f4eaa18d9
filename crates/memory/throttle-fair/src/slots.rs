//! The memory that the scheduler shares with the process that loaded it: a line for each task, and
//! for each core the number of periods that have begun there.
//!
//! ```text
//!   +------------+----------+--------+----------+------+------+---------+
//!   | charged_ns | taken_ns | run_ns | vtime_ns | runs | core | padding |   64 bytes, native order
//!   | u64        | u64      | u64    | u64      | u64  | u32  | u32 x 5 |
//!   +------------+----------+--------+----------+------+------+---------+
//!     added to     the rest is written by the scheduler
//!     here
//! ```
//!
//! Every word is read and written whole. A reader may see one word newer than the next.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Largest number of tasks, as in the scheduler.
pub const SLOTS: usize = 1024;
/// Largest number of cores, as in the scheduler.
pub const CORES: usize = 1024;

/// Slot of one task, laid out as in the scheduler.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    charged_ns: AtomicU64,
    taken_ns: AtomicU64,
    run_ns: AtomicU64,
    vtime_ns: AtomicU64,
    runs: AtomicU64,
    core: AtomicU32,
    padding: [u32; 5],
}

const _: () = assert!(size_of::<Slot>() == 64 && align_of::<Slot>() == 8);

impl Slot {
    /// Charges the task. The scheduler takes it when it next decides about the task; nothing else
    /// hangs on the order.
    pub fn charge(&self, ns: u64) {
        self.charged_ns.fetch_add(ns, Relaxed);
    }

    /// All that was charged.
    pub fn charged_ns(&self) -> u64 {
        self.charged_ns.load(Relaxed)
    }

    /// Run time; of a run that lasts, up to the last tick.
    pub fn run_ns(&self) -> u64 {
        self.run_ns.load(Relaxed)
    }

    /// Virtual run time, with what is charged and not yet taken, at the weight of nice 0. Less than
    /// nothing for a task that lagged behind when it came to a core that had just begun.
    pub fn vtime_ns(&self) -> i64 {
        let open = self.charged_ns().wrapping_sub(self.taken_ns.load(Relaxed));
        self.vtime_ns.load(Relaxed).wrapping_add(open) as i64
    }

    /// Returns the number of times that the task was picked.
    pub fn runs(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    /// The core where it ran last.
    pub fn core(&self) -> u32 {
        self.core.load(Relaxed)
    }

    /// Makes it as new; only while no task has it.
    pub fn clear(&self) {
        let words = [&self.charged_ns, &self.taken_ns, &self.run_ns, &self.vtime_ns, &self.runs];
        words.iter().for_each(|word| word.store(0, Relaxed));
        self.core.store(0, Relaxed);
    }
}

/// Type that an array of the scheduler may hold: any that both sides access atomically.
///
/// # Safety
/// The type consists of atomics and padding, and has the size of the array's values.
pub unsafe trait Entry {}

// SAFETY: atomics and padding, and of the size that is asserted above.
unsafe impl Entry for Slot {}
// SAFETY: an atomic; the array holds u64.
unsafe impl Entry for AtomicU64 {}

/// An array of the scheduler, mapped until this is dropped.
#[derive(Debug)]
pub struct Shared<T, const COUNT: usize> {
    map: NonNull<T>,
}

// SAFETY: the mapping belongs to no thread, and all access to it is atomic.
unsafe impl<T: Entry, const COUNT: usize> Send for Shared<T, COUNT> {}
// SAFETY: as above.
unsafe impl<T: Entry, const COUNT: usize> Sync for Shared<T, COUNT> {}

impl<T: Entry, const COUNT: usize> Shared<T, COUNT> {
    const BYTES: usize = COUNT * size_of::<T>();

    /// Maps an array of `COUNT` values.
    ///
    /// # Errors
    /// The kernel's, also when the array is smaller.
    pub fn map(array: impl AsFd) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let map = unsafe { mmap(std::ptr::null_mut(), Self::BYTES, protection, flags, array, 0)? };
        Ok(Self { map: NonNull::new(map.cast()).expect("a mapping is not at address 0") })
    }

    /// Returns one of the values; None beyond the last one.
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: inside the mapping, which lives as long as `self` and is aligned to a page; the
        // value consists of atomics, for which any bytes are valid.
        (index < COUNT).then(|| unsafe { self.map.add(index).as_ref() })
    }
}

impl<T, const COUNT: usize> Drop for Shared<T, COUNT> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrowed from it is left.
        let unmapped = unsafe { munmap(self.map.as_ptr().cast(), COUNT * size_of::<T>()) };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}
