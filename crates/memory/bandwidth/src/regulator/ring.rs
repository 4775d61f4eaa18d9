//! The memory in which the kernel writes what it saw of an event of a core.
//!
//! ```text
//!   page 0                          8 pages
//!   +-------- ... ------+------+    +--------------+--------------+---
//!   | head (kernel's)   | tail |    | header | body | header | body |
//!   +-------- ... ------+------+    +--------------+--------------+---
//!   header: kind u32, misc u16, size u16 (of all of it, a multiple of 8)
//!   sample        body: pid u32, tid u32, time u64
//!   switch        body: other pid u32, other tid u32, own pid u32, own tid u32
//! ```

use perf_event_open_sys::bindings as abi;
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use abi::perf_event_attr as Attributes;

const PAGES: usize = 8;
const HEAD: usize = std::mem::offset_of!(abi::perf_event_mmap_page, data_head);
const TAIL: usize = std::mem::offset_of!(abi::perf_event_mmap_page, data_tail);
const HEADER_BYTES: u64 = 8;

/// Record that the kernel wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// An event that was the last of its number.
    Sample {
        /// The thread that it was of.
        thread: i32,
        time_ns: u64,
    },
    /// A thread came to the core.
    On {
        thread: i32,
        /// The thread that had the core before.
        before: i32,
    },
    /// Records are missing here.
    Lost,
    /// Nothing that is used.
    Other,
}

/// Opens an event of everything that runs on a core. It does not count yet.
pub(super) fn open(mut attributes: Attributes, core: usize) -> io::Result<OwnedFd> {
    attributes.size = size_of::<Attributes>() as u32;
    attributes.set_disabled(1);
    let flags = abi::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes are initialised, say their size, and outlive the call.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(&mut attributes, -1, core as i32, -1, flags)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave a new descriptor that no other code knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The records of an event.
pub(super) struct Ring {
    base: NonNull<u8>,
    page_bytes: usize,
}

// SAFETY: the mapping is shared with the kernel only, stays until the drop, and is used by
// the owner of the value.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn map(event: BorrowedFd<'_>) -> io::Result<Ring> {
        let page_bytes = rustix::param::page_size();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let bytes = (1 + PAGES) * page_bytes;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, event, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { base, page_bytes })
    }

    /// Shows all records, oldest first, and gives their room back. One that cannot be ends the
    /// walk.
    pub(super) fn drain(&mut self, mut show: impl FnMut(Record)) {
        // Acquire: pairs with the kernel's release after it has written a record.
        let head = self.place(HEAD).load(Ordering::Acquire);
        // Relaxed: only this side writes it.
        let mut tail = self.place(TAIL).load(Ordering::Relaxed);
        while tail < head {
            let header = self.word(tail);
            let size = header >> 48;
            if size < HEADER_BYTES || size % 8 != 0 || size > head - tail {
                break;
            }
            let body = [1, 2].map(|at| match at * 8 < size {
                true => self.word(tail + at * 8),
                false => 0,
            });
            show(record(header, body));
            tail += size;
        }
        // Release: pairs with the kernel's look before it writes; all was read.
        self.place(TAIL).store(head, Ordering::Release);
    }

    fn place(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are inside the first page, aligned to 8, and accessed atomically by
        // both sides. The mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn word(&self, at: u64) -> u64 {
        let bytes = (PAGES * self.page_bytes) as u64;
        let offset = self.page_bytes + (at % bytes) as usize / 8 * 8;
        // SAFETY: inside the data, whose length is a multiple of 8, and aligned to 8; the kernel
        // does not write there before the tail has passed.
        unsafe { self.base.as_ptr().add(offset).cast::<u64>().read_volatile() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrowed from it is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), (1 + PAGES) * self.page_bytes) };
    }
}

/// The record of a header and the first two words behind it.
fn record(header: u64, [first, second]: [u64; 2]) -> Record {
    let (kind, misc, size) = (header as u32, (header >> 32) as u16 as u32, header >> 48);
    let whole = size >= HEADER_BYTES + 16;
    // The second half of a pair of process and thread.
    let thread = |word: u64| (word >> 32) as i32;
    match kind {
        abi::PERF_RECORD_SAMPLE if whole => {
            Record::Sample { thread: thread(first), time_ns: second }
        }
        abi::PERF_RECORD_SWITCH_CPU_WIDE
            if whole && misc & abi::PERF_RECORD_MISC_SWITCH_OUT == 0 =>
        {
            Record::On { thread: thread(second), before: thread(first) }
        }
        abi::PERF_RECORD_LOST => Record::Lost,
        _ => Record::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u32, misc: u32, size: u64) -> u64 {
        u64::from(kind) | u64::from(misc) << 32 | size << 48
    }

    #[test]
    fn records_are_taken_apart_and_short_ones_are_nothing() {
        let pair = |process: u64, thread: u64| process | thread << 32;
        let sample = header(abi::PERF_RECORD_SAMPLE, 0, 24);
        let expected = Record::Sample { thread: 8, time_ns: 99 };
        assert_eq!(record(sample, [pair(7, 8), 99]), expected);
        let on = header(abi::PERF_RECORD_SWITCH_CPU_WIDE, 0, 24);
        let bodies = [pair(1, 2), pair(3, 4)];
        assert_eq!(record(on, bodies), Record::On { thread: 4, before: 2 });
        let misc = abi::PERF_RECORD_MISC_SWITCH_OUT;
        let off = header(abi::PERF_RECORD_SWITCH_CPU_WIDE, misc, 24);
        assert_eq!(record(off, bodies), Record::Other);
        assert_eq!(record(header(abi::PERF_RECORD_LOST, 0, 24), [0, 1]), Record::Lost);
        assert_eq!(record(header(abi::PERF_RECORD_SAMPLE, 0, 16), [1, 2]), Record::Other);
    }
}
