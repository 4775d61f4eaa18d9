//! Survives the loss of memory that a peer owns.
//!
//! A peer can take the pages of a memory file away again that it has passed on: seals keep the
//! file from shrinking, not from having a hole. The kernel fills a hole with a new page when it is
//! touched; where it has none, a thread that touches it gets SIGBUS. The same signal comes for a
//! page that the hardware has lost. A process that maps the memory of others must not end for that.
//!
//! So each mapping of such memory ([`Segment::map_guarded`](crate::Segment::map_guarded)) stands
//! in a table. The handler of SIGBUS looks the address up there. It puts zeroed private memory in
//! place of the lost pages, so that the interrupted access goes on, marks the mapping as broken
//! ([`Mapping::is_broken`](crate::Mapping::is_broken)), and rings the mapping's bell. What was
//! computed from then on is worthless, and only the owner of the memory is harmed; a program that
//! hears the bell ends the peer. Any other SIGBUS goes where it went before.
//!
//! The handler allocates nothing, takes no lock and leaves `errno` alone: it reads the table
//! ([`range`]) and makes the system calls mmap and write.

pub mod range;

use crate::{Doorbell, Error};
use range::{Found, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Ranges in one piece of the table.
const PIECE: usize = 256;

/// Pieces are made when the table is full, and stay: the handler may be reading any of them.
struct Piece {
    ranges: [Range; PIECE],
    next: Option<&'static Piece>,
}

static TABLE: AtomicPtr<Piece> = AtomicPtr::new(std::ptr::null_mut());
/// Ranges that are none. The lock is for those who map and unmap; the handler does not take it.
static FREE: Mutex<Vec<&'static Range>> = Mutex::new(Vec::new());
/// Action for SIGBUS before the handler was set.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping's place in the table, until it is dropped. That has to happen before the memory is
/// unmapped: afterwards, the addresses may be another mapping's.
#[derive(Debug)]
pub(crate) struct Guard {
    range: &'static Range,
    /// Kept, so that its descriptor stays what it is.
    _bell: Arc<Doorbell>,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").field("broken", &self.is_broken()).finish_non_exhaustive()
    }
}

impl Guard {
    /// Guards `size` bytes from `base` on.
    ///
    /// # Errors
    /// [`Error::System`] when the handler cannot be set.
    pub(crate) fn new(
        base: NonNull<u8>,
        size: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Guard, Error> {
        install()?;
        let range = free_range();
        let begin = base.as_ptr() as u64;
        let bell_fd = bell.as_fd().as_raw_fd() as u32;
        range.set(Found { begin, end: begin + size as u64, bell: bell_fd });
        Ok(Guard { range, _bell: bell.clone() })
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.range.is_broken()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.range.set(Found { begin: 0, end: 0, bell: 0 });
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.range);
    }
}

fn free_range() -> &'static Range {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(range) = free.pop() {
        return range;
    }
    // Acquire: pairs with the release below, by another thread that held the lock.
    let first = NonNull::new(TABLE.load(Ordering::Acquire));
    // SAFETY: pieces are never freed.
    let next = first.map(|piece| unsafe { piece.as_ref() });
    let ranges = std::array::from_fn(|_| Range::none());
    let piece: &'static Piece = Box::leak(Box::new(Piece { ranges, next }));
    // Release: pairs with the acquire of the handler, for the piece's own memory.
    TABLE.store(std::ptr::from_ref(piece).cast_mut(), Ordering::Release);
    let [own, rest @ ..] = &piece.ranges;
    free.extend(rest);
    own
}

/// Sets the handler, once.
fn install() -> Result<(), Error> {
    static ONCE: Mutex<()> = Mutex::new(());
    let _once = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if BEFORE.get().is_some() {
        return Ok(());
    }
    let failed = || Error::System {
        call: "sigaction",
        errno: rustix::io::Errno::from_io_error(&std::io::Error::last_os_error())
            .unwrap_or(rustix::io::Errno::IO),
    };
    // SAFETY: a sigaction of zeros is one without a handler, flags or mask; both calls get room
    // for one structure. The handler does only what a handler may.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) < 0 {
            return Err(failed());
        }
        // Before the handler can run.
        let _ = BEFORE.set(before);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        if libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) < 0 {
            return Err(failed());
        }
    }
    Ok(())
}

/// The access at an address found no page there.
const ADDRESS: i32 = 2;
/// The access found a page that the hardware has lost.
const HARDWARE: i32 = 4;

extern "C" fn on_fault(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo to a handler with SA_SIGINFO; for the codes of a fault
    // it has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    let at_access = matches!(code, ADDRESS | HARDWARE);
    if at_access && find(address).is_some_and(|(range, found)| replace(range, found, address)) {
        return;
    }
    // SAFETY: sigaction and raise may be called in a handler. The signal is blocked until it
    // returns; then the access is tried again, or the signal that was sent is delivered, with the
    // handling that was in force before this one.
    unsafe {
        let before = BEFORE.get().map_or(std::ptr::null(), std::ptr::from_ref);
        libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
        if !at_access {
            libc::raise(libc::SIGBUS);
        }
    }
}

fn find(address: u64) -> Option<(&'static Range, Found)> {
    // Acquire: pairs with the release in `free_range`.
    let mut piece = NonNull::new(TABLE.load(Ordering::Acquire));
    while let Some(at) = piece {
        // SAFETY: pieces are never freed.
        let at: &'static Piece = unsafe { at.as_ref() };
        let found = at.ranges.iter().find_map(|range| Some((range, range.find(address)?)));
        if found.is_some() {
            return found;
        }
        piece = at.next.map(NonNull::from);
    }
    None
}

/// Pages are replaced by pieces of this size, so that a peer with many holes cannot make more
/// mappings of them than a process may have, and one piece takes microseconds to put in place.
const REPLACED: u64 = 1 << 20;

/// Puts zeroed memory in place of the lost page and its neighbours.
fn replace(range: &Range, found: Found, address: u64) -> bool {
    let begin = address - (address - found.begin) % REPLACED;
    let length = REPLACED.min(found.end - begin) as usize;
    let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::FIXED;
    // SAFETY: `begin..begin + length` lies in the mapping that stands in the table and that the
    // interrupted thread keeps alive; `begin` is a page's first byte, since the mapping's base
    // and REPLACED are multiples of the page. Readers of this memory expect any bytes.
    let mapped =
        unsafe { rustix::mm::mmap_anonymous(begin as *mut libc::c_void, length, access, flags) };
    if mapped.is_err() {
        return false;
    }
    range.mark_broken();
    // SAFETY: the bell is open as long as the range stands in the table.
    let bell = unsafe { BorrowedFd::borrow_raw(found.bell as i32) };
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    true
}
