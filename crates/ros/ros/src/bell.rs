//! A bell: a descriptor that becomes readable when something has come.
//!
//! An event counter of the kernel. Rings before the next look are counted as one; no ring is lost,
//! because the counter stays above zero until it is cleared. Any thread may ring; it never
//! waits.

use crate::Error;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// An event counter that wakes the threads that poll its descriptor.
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that has not rung.
    ///
    /// # Errors
    /// [`Error::Event`] when the process has no descriptor left.
    pub fn new() -> Result<Bell, Error> {
        Ok(Bell(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Wakes the waiter, now or when it next waits.
    pub fn ring(&self) {
        // A counter that cannot take one more is far above zero: the waiter wakes anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes all rings so far: were there any?
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }

    /// Waits for a ring, at most as long as given, and clears it: did it ring?
    ///
    /// # Errors
    /// [`Error::Event`] when the kernel cannot poll.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) if self.clear() => return Ok(true),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_before_the_wait_are_one_and_are_not_lost() {
        let bell = Bell::new().unwrap();
        bell.ring();
        bell.ring();
        assert!(bell.wait(None).unwrap());
        assert!(!bell.wait(Some(Duration::ZERO)).unwrap());
        bell.ring();
        assert!(bell.clear());
        assert!(!bell.clear());
    }
}
