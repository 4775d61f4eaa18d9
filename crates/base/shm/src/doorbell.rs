//! Doorbell with which a client wakes the server.
//!
//! A doorbell is an event counter that each session has for itself. A word of shared memory that
//! all clients can write would let one client swallow another's wake-up; a counter of the kernel
//! cannot be rung for another session. The server watches all doorbells edge-triggered in one
//! epoll set and never reads them: each ring is an edge, whatever the counter says.

use crate::Error;
use rustix::event::EventfdFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One session's doorbell.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A new doorbell.
    ///
    /// # Errors
    /// [`Error::System`] when the process has no descriptor left.
    pub fn new() -> Result<Doorbell, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        rustix::event::eventfd(0, flags).map(Doorbell).map_err(Error::system("eventfd"))
    }

    /// A doorbell that a peer passed.
    pub fn from_fd(fd: OwnedFd) -> Doorbell {
        Doorbell(fd)
    }

    /// Rings. Any thread; never blocks. A counter at its limit is as good as rung.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
