//! Finds the regulator of memory bandwidth, and gives the dispatcher its hold of the lock.
//!
//! A thread of its own attaches, since the regulator may take its time to answer, and sleeps until
//! the connection hangs up. It looks for a new regulator once in [`RETRY`].

use crate::dispatch::Dispatcher;
use crate::holder::LockCounts;
use crate::{Level, Log};
use accel::control::{BandwidthStatus, Packet, pack_text};
use bandwidth::Hold;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use shm::Doorbell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Time after a failed attempt before the server looks for the regulator again.
const RETRY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// End of a log line: requests go on without the lock.
const GO_ON: &str = "services that ask for the bandwidth lock go on without it";

/// The thread that finds the regulator. The others ask it why there is none.
pub(crate) struct Seeker {
    /// Services that ask for the lock.
    services: u32,
    socket: PathBuf,
    stop: Doorbell,
    /// Empty while there is a regulator.
    why_not: Mutex<String>,
}

impl Seeker {
    /// The seeker for a system, if one of its services asks for the lock.
    pub(crate) fn of(system: &system::System) -> Result<Option<Arc<Seeker>>, shm::Error> {
        let services = system.services.iter().filter(|service| service.bandwidth_lock).count();
        if services == 0 {
            return Ok(None);
        }
        let given = system.server.bandwidth_socket.clone();
        let seeker = Seeker {
            services: u32::try_from(services).unwrap_or(u32::MAX),
            socket: given.unwrap_or_else(bandwidth::default_socket),
            stop: Doorbell::new()?,
            why_not: Mutex::default(),
        };
        Ok(Some(Arc::new(seeker)))
    }

    /// Returns the reason for which the lock cannot be held; empty while it can.
    pub(crate) fn why_not(&self) -> String {
        self.why_not.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Attaches to the regulator; the connection to it. Tells the log if it is the first failure,
    /// or the first success after one.
    pub(crate) fn attach(&self, engine: &Dispatcher, log: &Log) -> Option<OwnedFd> {
        let socket = self.socket.display();
        let (now, connection) = match Hold::attach_connected(&self.socket) {
            Ok((hold, connection)) => {
                engine.attach(hold);
                (String::new(), Some(connection))
            }
            Err(error) => (error.to_string(), None),
        };
        let mut why_not = self.why_not.lock().unwrap_or_else(PoisonError::into_inner);
        match (why_not.is_empty(), &connection) {
            (true, None) => log(Level::Warn, &format!("{socket}: {now}; {GO_ON}")),
            (false, Some(_)) => log(Level::Info, &format!("{socket}: regulator found")),
            _ => {}
        }
        *why_not = now;
        connection
    }

    /// The thread; `connection` is what [`Seeker::attach`] gave.
    pub(crate) fn run(&self, engine: &Dispatcher, log: &Log, mut connection: Option<OwnedFd>) {
        loop {
            let retry = connection.is_none().then_some(&RETRY);
            let stop = PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN);
            let (mut alone, mut both);
            let fds: &mut [PollFd<'_>] = match &connection {
                None => {
                    alone = [stop];
                    &mut alone
                }
                Some(connection) => {
                    both = [stop, PollFd::new(connection, PollFlags::IN)];
                    &mut both
                }
            };
            match poll(fds, retry) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return log(Level::Error, &format!("kt-holder ends: poll: {errno}")),
            }
            if !fds[0].revents().is_empty() {
                return;
            }
            if connection.take().is_some() {
                engine.detach();
                let lost = "the regulator has ended or closed the connection";
                log(Level::Warn, &format!("{}: {lost}; {GO_ON}", self.socket.display()));
                *self.why_not.lock().unwrap_or_else(PoisonError::into_inner) = lost.into();
                // Not at once: one that closes all connections is not to be asked all the time.
                continue;
            }
            connection = self.attach(engine, log);
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stop.ring();
    }
}

/// Builds the answer to a client that asks for the state of the lock.
pub(crate) fn status(seeker: Option<&Seeker>, held: LockCounts) -> BandwidthStatus {
    BandwidthStatus {
        kind: BandwidthStatus::KIND,
        services: seeker.map_or(0, |seeker| seeker.services),
        running: held.running,
        locked: held.locked,
        unlocked: held.unlocked,
        interrupted: held.interrupted,
        acquisitions: held.acquisitions,
        held_ns: held.held_ns,
        socket: pack_text(&seeker.map_or_else(String::new, |s| s.socket.display().to_string())),
        note: pack_text(&seeker.map_or_else(String::new, Seeker::why_not)),
    }
}
