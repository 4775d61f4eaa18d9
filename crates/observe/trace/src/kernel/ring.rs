//! A `perf_event_open` event on one processor, and the ring that the kernel fills for it.
//!
//! ```text
//!   page 0                  pages 1 ..= 2^n
//!   +---------------------+------------------------------------------+
//!   | data_head data_tail | bytes of records, modulo the size        |
//!   +---------------------+------------------------------------------+
//!   data_head  written by the kernel, counts bytes for ever
//!   data_tail  written here: what is before it may be overwritten
//! ```
//!
//! The event counts nothing (it is the kernel's dummy): it exists for the records of switches,
//! names, births and deaths of a thread and of everything that thread starts. The bindings come
//! from `perf-event-open-sys2`: the request is a structure of 136 bytes with dozens of one-bit
//! fields, generated there from the kernel's header, and the crate brings little else.
//! Called by [`super::switches`].

use super::perf::{PerfRecord, parse_record};
use perf_event_open_sys::{bindings as abi, ioctls, perf_event_open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event, opened but without a ring.
#[derive(Debug)]
pub(super) struct EventOn {
    /// The processor.
    pub processor: u32,
    event: OwnedFd,
    counts_lost: bool,
}

impl EventOn {
    /// Opens the event for `process` and what it starts, on one processor. It is active at once
    /// and records as soon as it has a ring, which wakes its reader at `watermark_bytes`.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn open(process: u32, processor: u32, watermark_bytes: u32) -> io::Result<EventOn> {
        // Kernels before 6.0 do not know how to count what was lost.
        match EventOn::try_open(process, processor, watermark_bytes, true) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                EventOn::try_open(process, processor, watermark_bytes, false)
            }
            answer => answer,
        }
    }

    fn try_open(
        process: u32,
        processor: u32,
        watermark_bytes: u32,
        counts_lost: bool,
    ) -> io::Result<EventOn> {
        let mut attributes = abi::perf_event_attr::default();
        attributes.size = size_of::<abi::perf_event_attr>() as u32;
        attributes.type_ = abi::PERF_TYPE_SOFTWARE;
        attributes.config = abi::PERF_COUNT_SW_DUMMY.into();
        let trailer = abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CPU;
        attributes.sample_type = trailer.into();
        attributes.read_format = if counts_lost { abi::PERF_FORMAT_LOST.into() } else { 0 };
        attributes.clockid = rustix::time::ClockId::Monotonic as i32;
        attributes.wakeup_watermark = watermark_bytes;
        attributes.set_watermark(1);
        attributes.set_inherit(1);
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        attributes.set_context_switch(1);
        attributes.set_task(1);
        attributes.set_comm(1);
        attributes.set_sample_id_all(1);
        attributes.set_use_clockid(1);
        let (process, cpu) = (process as i32, processor as i32);
        let flags = abi::PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the attributes are initialised, say their size, and outlive the call.
        let event = unsafe { perf_event_open(&mut attributes, process, cpu, -1, flags) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave a new descriptor that no other code knows.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(EventOn { processor, event, counts_lost })
    }
}

/// An event with its ring.
#[derive(Debug)]
pub(super) struct Ring {
    on: EventOn,
    /// Mapping of `page_bytes + data_bytes`, until this is dropped.
    map: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
    tail: u64,
    copy: Vec<u8>,
}

// SAFETY: the mapping is shared with the kernel only, stays until the drop, and is reached
// through `&mut self`, so that one thread at a time uses it, whichever it is.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives an event a ring of `data_bytes`, a power of two of at least a page.
    ///
    /// # Errors
    /// The kernel's; `EPERM` when it is more than the user may lock. The event comes back.
    pub(super) fn new(on: EventOn, data_bytes: usize) -> Result<Ring, (EventOn, io::Error)> {
        let page_bytes = rustix::param::page_size();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let bytes = page_bytes + data_bytes;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let map = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, &on.event, 0) };
        match map {
            Ok(map) => {
                let map = NonNull::new(map.cast()).expect("a mapping is not at address 0");
                Ok(Ring { on, map, page_bytes, data_bytes, tail: 0, copy: Vec::new() })
            }
            Err(errno) => Err((on, errno.into())),
        }
    }

    /// The processor.
    pub(super) fn processor(&self) -> u32 {
        self.on.processor
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are inside the first page of the mapping, aligned to 8, and
        // accessed atomically by both sides. The mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.map.as_ptr().add(offset).cast()) }
    }

    /// Takes all whole records out of the ring.
    pub(super) fn drain(&mut self, take: &mut dyn FnMut(PerfRecord<'_>)) {
        // Pairs with the kernel's barrier between the records and the head.
        let head = self.counter(offset_of!(abi::perf_event_mmap_page, data_head));
        let head = head.load(Ordering::Acquire);
        let length = head.wrapping_sub(self.tail);
        if length == 0 || length > self.data_bytes as u64 {
            return;
        }
        self.copy_out(length as usize);
        // The records were copied before the kernel may write over them.
        let tail = self.counter(offset_of!(abi::perf_event_mmap_page, data_tail));
        tail.store(head, Ordering::Release);
        self.tail = head;
        let mut rest = self.copy.as_slice();
        while let Some((record, bytes)) = parse_record(rest) {
            take(record);
            rest = &rest[bytes..];
        }
    }

    fn copy_out(&mut self, length: usize) {
        let start = (self.tail % self.data_bytes as u64) as usize;
        let first = length.min(self.data_bytes - start);
        self.copy.clear();
        self.copy.reserve(length);
        // SAFETY: `start + first` and `length - first` are at most `data_bytes`, which the
        // mapping has after its first page. The kernel does not write between the tail and the
        // head. The copy has room for `length`, all of which is written before its length says so.
        unsafe {
            let data = self.map.as_ptr().add(self.page_bytes);
            let copy = self.copy.as_mut_ptr();
            std::ptr::copy_nonoverlapping(data.add(start), copy, first);
            std::ptr::copy_nonoverlapping(data, copy.add(first), length - first);
            self.copy.set_len(length);
        }
    }

    /// Stops the event, also for the threads that inherited it.
    pub(super) fn stop(&self) {
        // SAFETY: the call takes a flag, not a pointer. A refusal only means that records may
        // still come, which then stay in the ring.
        unsafe { ioctls::DISABLE(self.on.event.as_raw_fd(), 0) };
    }

    /// Number of records that the kernel had no room for; `None` if it does not count them.
    pub(super) fn lost(&self) -> Option<u64> {
        if !self.on.counts_lost {
            return None;
        }
        let mut words = [0; 16];
        let read = rustix::io::read(&self.on.event, &mut words).ok()?;
        let lost = words.get(8..16).filter(|_| read == 16)?;
        Some(u64::from_le_bytes(lost.try_into().ok()?))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.on.event.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::perf::What;
    use super::*;

    #[test]
    fn ring_that_nobody_reads_keeps_the_oldest_and_counts_the_others() {
        let (page, me) = (rustix::param::page_size(), realtime::thread::id());
        let processor = rustix::thread::sched_getcpu() as u32;
        realtime::thread::pin(&[processor as usize]).unwrap();
        let mut ring = match EventOn::open(me, processor, page as u32).map(|on| Ring::new(on, page))
        {
            Ok(Ok(ring)) => ring,
            refused => return eprintln!("SKIP: no switch records here: {refused:?}"),
        };
        // A shorter one may be over before the thread has gone to sleep: no switch then.
        let pause = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 200_000 };
        let sleep = || rustix::thread::nanosleep(&pause);
        (0..200).for_each(|_| drop(sleep()));
        let mut first = Vec::new();
        ring.drain(&mut |record| first.push((record.time_ns, format!("{:?}", record.what))));
        assert!(first.len() >= page / 32 - 1, "{} records in a page", first.len());
        assert!(first.is_sorted_by_key(|record| record.0));
        (0..10).for_each(|_| drop(sleep()));
        let mut lost = Vec::new();
        ring.drain(&mut |record| {
            assert_eq!(record.thread.thread, me);
            if let What::Lost(count) = record.what {
                lost.push(count);
            }
        });
        assert_eq!(lost.len(), 1, "one record says how many");
        assert!(lost[0] >= 400 - page as u64 / 32, "{lost:?}");
        if let Some(counted) = ring.lost() {
            assert_eq!(counted, lost[0]);
        }
    }
}
