//! Page faults of one core, counted by the kernel; it wakes a thread when so many have happened.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const RING_PAGES: usize = 8;
/// Where the kernel's place in the ring, and the reader's, lie in its first page.
const HEAD: usize = std::mem::offset_of!(abi::perf_event_mmap_page, data_head);
const TAIL: usize = std::mem::offset_of!(abi::perf_event_mmap_page, data_tail);
const HEADER_BYTES: u64 = 8;

/// The counter of a core. It is not counting when it is new.
pub struct Counter {
    event: OwnedFd,
    ring: NonNull<u8>,
    page_bytes: usize,
}

// SAFETY: the mapping is shared with the kernel only, stays until the drop, and is used by
// whoever has the value.
unsafe impl Send for Counter {}

impl Counter {
    /// A counter of a core.
    ///
    /// # Errors
    /// The kernel's; `EACCES` without CAP_PERFMON where `perf_event_paranoid` forbids it.
    pub fn open(core: usize) -> io::Result<Self> {
        let mut attributes = abi::perf_event_attr::default();
        attributes.size = size_of::<abi::perf_event_attr>() as u32;
        attributes.type_ = abi::PERF_TYPE_SOFTWARE;
        attributes.config = abi::PERF_COUNT_SW_PAGE_FAULTS.into();
        attributes.sample_type = abi::PERF_SAMPLE_TID.into();
        attributes.__bindgen_anon_1.sample_period = u64::MAX / 4;
        attributes.__bindgen_anon_2.wakeup_events = 1;
        attributes.set_disabled(1);
        let flags = abi::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the attributes are initialised, say their size, and outlive the call.
        let event = unsafe { perf_event_open(&mut attributes, -1, core as i32, -1, flags) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave a new descriptor that nobody else knows.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let page_bytes = rustix::param::page_size();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let bytes = (1 + RING_PAGES) * page_bytes;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let ring = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, &event, 0)? };
        let ring = NonNull::new(ring.cast()).expect("a mapping is not at address 0");
        Ok(Self { event, ring, page_bytes })
    }

    /// Counts anew, and makes [`wait`](Self::wait) return after `budget` events; 0 is never.
    ///
    /// # Errors
    /// The kernel's.
    pub fn arm(&mut self, budget: u64) -> io::Result<()> {
        self.disarm()?;
        self.forget();
        let period = if budget == 0 { u64::MAX / 4 } else { budget };
        // A new period on an event that stands begins a new count when it goes on. The kernel wants
        // the address of the number, which the binding declares as the number.
        let address = &raw const period as u64;
        // SAFETY: the descriptor is this event's, and the kernel reads one u64, which outlives the call.
        done(unsafe { ioctls::PERIOD(self.event.as_raw_fd(), address) })?;
        // SAFETY: the descriptor is this event's; no pointer is passed.
        done(unsafe { ioctls::ENABLE(self.event.as_raw_fd(), 0) })
    }

    /// Counts no more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn disarm(&mut self) -> io::Result<()> {
        // SAFETY: the descriptor is this event's; no pointer is passed.
        done(unsafe { ioctls::DISABLE(self.event.as_raw_fd(), 0) })
    }

    /// Sleeps until the budget is spent, and gives the thread of the last event; `None` when it
    /// was not within `time`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self, time: Duration) -> io::Result<Option<i32>> {
        let timeout = rustix::time::Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let mut events = [PollFd::new(&self.event, PollFlags::IN)];
        match poll(&mut events, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.culprit()),
            Err(error) => Err(error.into()),
        }
    }

    /// All events that were counted since the counter was made.
    ///
    /// # Errors
    /// The kernel's.
    pub fn total(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        rustix::io::read(&self.event, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are inside the first page of the mapping, aligned to 8, and
        // accessed atomically by both sides. The mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.ring.as_ptr().add(offset).cast()) }
    }

    fn forget(&mut self) {
        // Acquire: pairs with the kernel's release after it has written a record.
        let head = self.counter(HEAD).load(Ordering::Acquire);
        self.counter(TAIL).store(head, Ordering::Release);
    }

    /// The thread of the last sample, and empties the ring. Records are whole and a multiple of 8
    /// bytes; anything that is not such a one ends the walk.
    fn culprit(&mut self) -> Option<i32> {
        let head = self.counter(HEAD).load(Ordering::Acquire);
        let mut tail = self.counter(TAIL).load(Ordering::Relaxed);
        let mut thread = None;
        while tail < head {
            let header = self.word(tail);
            let (kind, size) = (header as u32, header >> 48);
            if kind == abi::PERF_RECORD_SAMPLE && size >= HEADER_BYTES + 8 {
                thread = Some((self.word(tail + HEADER_BYTES) >> 32) as i32);
            }
            if size < HEADER_BYTES {
                break;
            }
            tail += size;
        }
        self.counter(TAIL).store(head, Ordering::Release);
        thread
    }

    fn word(&self, at: u64) -> u64 {
        let bytes = RING_PAGES * self.page_bytes;
        let offset = self.page_bytes + (at % bytes as u64) as usize / 8 * 8;
        // SAFETY: inside the mapping's data, whose length is a multiple of 8, and aligned to 8; the
        // kernel does not write there before the tail has passed.
        unsafe { self.ring.as_ptr().add(offset).cast::<u64>().read_volatile() }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrowed from it is left.
        let unmapped =
            unsafe { munmap(self.ring.as_ptr().cast(), (1 + RING_PAGES) * self.page_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}

fn done(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
