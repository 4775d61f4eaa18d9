//! The cells of all holders, side by side.
//!
//! One page of a region of addresses for each slot. A slot without a holder is private zeroed
//! memory; that of a holder is its page. The kernel exchanges the one for the other in one step,
//! so that a thread that looks at a slot at that moment reads either, and no address that was read
//! once is ever unmapped while the regulator runs: readers need no lock and no count.

use crate::Error;
use crate::memory::Page;
use crate::page::{Cell, PAGE_BYTES, Said};
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Slots that there are.
pub const MOST: usize = 256;
const WORDS: usize = MOST / 64;
const CELL_BYTES: usize = size_of::<Cell>();

/// The region.
#[derive(Debug)]
pub(crate) struct Table {
    base: NonNull<u8>,
    /// First slot from which on no slot has ever had a holder.
    used: AtomicUsize,
    /// One bit for each slot in which an impossible value was found.
    suspects: [AtomicU64; WORDS],
}

// SAFETY: the region lives as long as the table; only atomics are in it, and the kernel exchanges
// its pages in one step.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// A region of free slots.
    pub(crate) fn new() -> Result<Table, Error> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (null, bytes) = (std::ptr::null_mut(), MOST * PAGE_BYTES);
        // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(null, bytes, access, MapFlags::PRIVATE) }
            .map_err(Error::system("mmap"))?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or(Error::System { call: "mmap", errno: rustix::io::Errno::NOMEM })?;
        let suspects = std::array::from_fn(|_| AtomicU64::new(0));
        Ok(Table { base, used: AtomicUsize::new(0), suspects })
    }

    /// Returns the offset of a slot's cell in its page, in bytes.
    pub(crate) fn offset(slot: usize) -> u32 {
        (slot * CELL_BYTES % PAGE_BYTES) as u32
    }

    /// The cell of a slot, which must be below [`MOST`].
    pub(crate) fn cell(&self, slot: usize) -> &Cell {
        assert!(slot < MOST);
        self.cell_below_most(slot)
    }

    /// Puts a holder's zeroed page into a free slot.
    pub(crate) fn put(&self, slot: usize, page: &Page) -> Result<(), Error> {
        let (access, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE,
        );
        let address = self.address(slot).cast();
        // SAFETY: replaces a page of the region by another one, in one step. Readers have
        // references to atomics there, which every page holds.
        unsafe { rustix::mm::mmap(address, PAGE_BYTES, access, flags, page.as_fd(), 0) }
            .map_err(Error::system("mmap"))?;
        self.forget_suspicion(slot);
        self.cell(slot).prepare();
        // Release: pairs with the acquire in `slots`.
        self.used.fetch_max(slot + 1, Ordering::Release);
        Ok(())
    }

    /// Frees a slot: from here on it says nothing.
    pub(crate) fn take(&self, slot: usize) {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::POPULATE;
        let address = self.address(slot).cast();
        // SAFETY: as in `put`.
        let freed = unsafe { rustix::mm::mmap_anonymous(address, PAGE_BYTES, access, flags) };
        if freed.is_err() {
            // The kernel has no memory for another mapping; the cell can still be emptied, which
            // a process that is dead cannot undo.
            self.cell(slot).close();
        }
        self.forget_suspicion(slot);
    }

    /// Returns true if a holder has the lock. `on_nonsense` is called once for each holder that
    /// is found to have written nonsense.
    #[inline]
    pub(crate) fn is_held(&self, on_nonsense: impl Fn()) -> bool {
        let mut held = false;
        for slot in self.slots() {
            match self.cell_below_most(slot).said() {
                Said::Holds(0) | Said::Free | Said::Closed => {}
                Said::Holds(_) => held = true,
                Said::Nonsense => self.suspect(slot, &on_nonsense),
            }
        }
        held
    }

    /// Returns true if any slot has a holder.
    pub(crate) fn has_holders(&self) -> bool {
        self.slots().any(|slot| matches!(self.cell_below_most(slot).said(), Said::Holds(_)))
    }

    /// The earliest time at which one that holds the lock took it.
    pub(crate) fn held_since_ns(&self) -> Option<u64> {
        let cells = self.slots().map(|slot| self.cell_below_most(slot));
        let held = cells.filter(|cell| matches!(cell.said(), Said::Holds(1..)));
        held.map(Cell::acquired_ns).min()
    }

    /// The slots in which nonsense was found and that were not freed since.
    pub(crate) fn suspects(&self) -> Vec<usize> {
        let slots = (0..MOST).filter(|slot| {
            self.suspects[slot / 64].load(Ordering::Relaxed) & 1 << (slot % 64) != 0
        });
        slots.collect()
    }

    #[cold]
    fn suspect(&self, slot: usize, on_nonsense: impl Fn()) {
        // Relaxed: the bell that follows orders it.
        let before = self.suspects[slot / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
        if before & 1 << (slot % 64) == 0 {
            on_nonsense();
        }
    }

    fn forget_suspicion(&self, slot: usize) {
        self.suspects[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Relaxed);
    }

    #[inline]
    fn slots(&self) -> std::ops::Range<usize> {
        // Acquire: pairs with the release in `put`.
        0..self.used.load(Ordering::Acquire).min(MOST)
    }

    fn address(&self, slot: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(slot * PAGE_BYTES)
    }

    #[inline]
    fn cell_below_most(&self, slot: usize) -> &Cell {
        let at = slot * PAGE_BYTES + Table::offset(slot) as usize;
        // SAFETY: the slot is one of the region, and its offset a multiple of 64 inside its page;
        // whatever page is there, a cell is atomics only.
        unsafe { self.base.byte_add(at).cast().as_ref() }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the region is this table's own, and no code has a reference into it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), MOST * PAGE_BYTES) };
    }
}
