//! The thread from which a core's own thread has taken the core, by the kernel's records of
//! switches.

use super::super::ring::{Attributes, Record, Ring, open};
use perf_event_open_sys::{bindings as abi, ioctls};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use std::io;

/// The switches of a core, looked at by its own thread.
pub(super) struct Switches {
    fd: OwnedFd,
    ring: Ring,
    thread: i32,
}

impl Switches {
    /// Opens the event for the calling thread.
    pub(super) fn open(core: usize) -> io::Result<Switches> {
        let mut attributes = Attributes::default();
        attributes.type_ = abi::PERF_TYPE_SOFTWARE;
        attributes.config = abi::PERF_COUNT_SW_DUMMY.into();
        attributes.sample_type = abi::PERF_SAMPLE_TID.into();
        attributes.set_context_switch(1);
        attributes.set_sample_id_all(1);
        let fd = open(attributes, core)?;
        let ring = Ring::map(fd.as_fd())?;
        Ok(Switches { fd, ring, thread: realtime::thread::id() as i32 })
    }

    /// Records from here on.
    pub(super) fn arm(&mut self) -> io::Result<()> {
        self.ring.drain(|_| {});
        // SAFETY: the descriptor is this event's; no pointer is passed.
        done(unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Records no more. The thread that ran before the calling one, 0 for none; `None` if the
    /// record was lost.
    pub(super) fn take(&mut self) -> io::Result<Option<i32>> {
        // SAFETY: as above.
        done(unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) })?;
        let (mut before, own) = (None, self.thread);
        self.ring.drain(|record| match record {
            Record::On { thread, before: other } if thread == own => before = Some(other),
            Record::Lost => before = None,
            _ => {}
        });
        Ok(before)
    }
}

fn done(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
