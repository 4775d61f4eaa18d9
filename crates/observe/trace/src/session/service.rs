//! Service beside the program while it is recorded, on one thread: processes that attach are given
//! the memory, and chunks of dead threads are closed.

use super::dead::Dead;
use crate::Error;
use record::Recording;
use record::door::RecorderSocket;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Shortest interval between two searches for dead threads.
const ROUND: Duration = Duration::from_millis(100);
/// The largest part of the time that this may take.
const LARGEST_SHARE: u32 = 20;

/// Handle that stops the service when it is dropped.
pub(super) struct Stop(OwnedFd);

impl Stop {
    /// Something to stop a service by.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub(super) fn new() -> Result<Stop, Error> {
        eventfd(0, EventfdFlags::CLOEXEC).map(Stop).map_err(Error::system("eventfd"))
    }

    /// Returns a descriptor that becomes readable when the service is to stop.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub(super) fn watch(&self) -> Result<OwnedFd, Error> {
        rustix::io::fcntl_dupfd_cloexec(&self.0, 0).map_err(Error::system("fcntl"))
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // Cannot fail: the counter is at most 1.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// State of the service.
pub(super) struct Service<'a> {
    /// The socket at which processes attach.
    pub door: RecorderSocket,
    /// The recording whose memory they are given.
    pub recording: &'a Recording,
    /// True if chunks of dead threads are given again.
    pub keep_last: bool,
}

impl Service<'_> {
    /// Serves until it is stopped. Returns what went wrong meanwhile, and how often.
    pub(super) fn run(mut self, stop: &OwnedFd) -> Option<(u64, String)> {
        let mut dead = self.keep_last.then(Dead::new);
        let mut next_round = Instant::now() + ROUND;
        let mut failed: Option<(u64, String)> = None;
        let mut rest_from_door = false;
        loop {
            let mut watched = vec![PollFd::new(stop, PollFlags::IN)];
            if !rest_from_door {
                let door = self.door.descriptors();
                watched.extend(door.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            }
            let timed = dead.is_some() || rest_from_door;
            let round = timed.then(|| next_round.saturating_duration_since(Instant::now()));
            wait(&mut watched, round.into_iter().chain(self.door.patience()).min());
            if !watched[0].revents().is_empty() {
                return failed;
            }
            rest_from_door = false;
            if let Err(error) = self.door.serve(self.recording.fd(), self.recording.size()) {
                failed = Some((failed.map_or(1, |(count, _)| count + 1), error.to_string()));
                // Such as too many open files: it may be better in the next round.
                rest_from_door = true;
            }
            if Instant::now() >= next_round {
                next_round = self.look_for_dead(dead.as_mut());
            }
        }
    }

    /// Closes chunks of dead threads if chunks are about to run out; returns when to look again.
    fn look_for_dead(&self, dead: Option<&mut Dead>) -> Instant {
        let start = Instant::now();
        let log = self.recording.log();
        if let Some(dead) = dead.filter(|_| log.taken() >= log.numbers().len() as u64 / 2) {
            dead.close(&log, &self.recording.side());
        }
        Instant::now() + ROUND.max(start.elapsed() * LARGEST_SHARE)
    }
}

/// Waits for any of the descriptors, for ever without a timeout.
fn wait(watched: &mut [PollFd], timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    // After an error, as when a signal interrupts it, nothing is ready; the caller comes again.
    let _ = poll(watched, timeout.as_ref());
}

/// A descriptor of a process that stays its own when the process id is given again.
///
/// # Errors
/// [`Error::System`] when the kernel refuses.
pub(super) fn process_descriptor(pid: rustix::process::Pid) -> Result<OwnedFd, Error> {
    let flags = rustix::process::PidfdFlags::empty();
    rustix::process::pidfd_open(pid, flags).map_err(Error::system("pidfd_open"))
}
