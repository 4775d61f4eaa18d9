//! Waiting for whatever comes first: a message, room for one, or a point in time.
//!
//! The point in time is absolute. A relative timeout would be late by as long as this thread was
//! kept from running between reading the clock and falling asleep.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::mail::Mail;

/// A timer to wait with.
pub struct Alarm {
    timer: OwnedFd,
    set_ns: u64,
}

impl Alarm {
    /// A timer that is not set.
    pub fn new() -> rustix::io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        Ok(Alarm { timer, set_ns: 0 })
    }

    /// Waits for a message, for room for a message that could not be sent, or until `until_ns`
    /// of the monotonic clock, which is never 0.
    pub fn wait(&mut self, mail: &Mail, until_ns: u64) -> rustix::io::Result<()> {
        if self.set_ns != until_ns {
            self.set(until_ns)?;
        }
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let (inbox, timer) =
            (rustix::fd::AsFd::as_fd(mail.inbox()), rustix::fd::AsFd::as_fd(&self.timer));
        let result = match mail.full() {
            None => poll(&mut [readable(inbox), readable(timer)], None),
            Some(full) => {
                let writable = PollFd::new(full, PollFlags::OUT);
                poll(&mut [readable(inbox), readable(timer), writable], None)
            }
        };
        match result {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn set(&mut self, until_ns: u64) -> rustix::io::Result<()> {
        let until = Timespec {
            tv_sec: (until_ns / 1_000_000_000) as i64,
            tv_nsec: (until_ns % 1_000_000_000) as _,
        };
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval: once, it_value: until };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
        self.set_ns = until_ns;
        Ok(())
    }
}
