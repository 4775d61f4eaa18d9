//! One event of a core, counted by the kernel or by the processor, with an alarm.

use super::super::counted::SoftwareEvent;
use super::super::ring::{Attributes, Record, Ring, open};
use perf_event_open_sys::{bindings as abi, ioctls};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::io;

/// The thread whose event spent a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub thread: i32,
    /// Time on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
}

/// An event of a core.
pub(super) struct Event {
    fd: OwnedFd,
    ring: Ring,
    /// Count at the beginning of the period.
    base: u64,
}

impl Event {
    pub(super) fn software(event: SoftwareEvent, core: usize) -> io::Result<Event> {
        Event::open(abi::PERF_TYPE_SOFTWARE, event.config(), core)
    }

    /// An event by the kernel's numbers for its type and for itself. It does not count yet.
    pub(super) fn open(kind: u32, config: u64, core: usize) -> io::Result<Event> {
        let mut attributes = Attributes::default();
        attributes.type_ = kind;
        attributes.config = config;
        attributes.sample_type = u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME);
        // Never, until it is armed.
        attributes.__bindgen_anon_1.sample_period = i64::MAX as u64;
        attributes.__bindgen_anon_2.wakeup_events = 1;
        attributes.set_use_clockid(1);
        attributes.clockid = libc::CLOCK_MONOTONIC;
        // One of the processor's must not share its counter with others by turns.
        attributes.set_pinned(u64::from(kind != abi::PERF_TYPE_SOFTWARE));
        let fd = open(attributes, core)?;
        let ring = Ring::map(fd.as_fd())?;
        Ok(Event { fd, ring, base: 0 })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Begins a period: what was counted and sampled so far is forgotten.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.base = self.count()?;
        self.ring.drain(|_| {});
        Ok(())
    }

    /// Counts, and wakes the polling thread after this number of further events.
    pub(super) fn arm(&mut self, events: u64) -> io::Result<()> {
        // A count that stands takes the new number as a whole when it goes on; one that runs would
        // overflow at its next event.
        self.disarm()?;
        // The kernel wants the number's address, which the binding declares as the number.
        let address = &raw const events as u64;
        // SAFETY: the descriptor is this event's; the kernel reads one u64, which outlives the
        // call.
        done(unsafe { ioctls::PERIOD(self.fd.as_raw_fd(), address) })?;
        // SAFETY: the descriptor is this event's; no pointer is passed.
        done(unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    pub(super) fn disarm(&mut self) -> io::Result<()> {
        // SAFETY: the descriptor is this event's; no pointer is passed.
        done(unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Events of the period.
    pub(super) fn used(&self) -> io::Result<u64> {
        Ok(self.count()?.saturating_sub(self.base))
    }

    /// The last sample, and forgets all.
    pub(super) fn take(&mut self) -> Option<Sample> {
        let mut last = None;
        self.ring.drain(|record| {
            if let Record::Sample { thread, time_ns } = record {
                last = Some(Sample { thread, time_ns });
            }
        });
        last
    }

    fn count(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        match rustix::io::read(&self.fd, &mut count)? {
            8 => Ok(u64::from_ne_bytes(count)),
            // The kernel's answer if a pinned event found no counter.
            _ => Err(io::Error::other("all counters of the core are taken")),
        }
    }
}

fn done(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
