//! The thread at the door: accepts every connection at once, and drops those that are too many.
//!
//! All users share one queue of connections that wait to be accepted, and the kernel fills it in
//! the order in which they come. So a client that connects in a loop keeps others out for as long
//! as the queue is full, whichever client is asked to be patient. The remedy is to empty it faster
//! than it can be filled: this thread does nothing but accept, ask the kernel for the user, and
//! either drop the connection or pass it on. It never waits for a peer, for the thread behind it,
//! or for a lock.
//!
//! A connection that is passed on is within its user's pace and number of unfinished connections,
//! so the thread behind this one sees a bounded number of them. They go through a pair of sockets,
//! as descriptors: a queue with a bound, without a lock that a thread of lower priority could hold.
//!
//! While it drops more than it passes on, it rests as long as it works: knocking costs others at
//! most half a core, at the lowest of the real-time priorities.

use super::places::{ConnectionPlace, NoPlace, Places, Taken};
use super::{Limits, Pace, ServiceSocket};
use crate::Doorbell;
use crate::peer::Credentials;
use crate::socket::{Received, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that are looked at before the time is.
const BATCH: usize = 64;
/// Time until the next look at a door for which the kernel had no memory or descriptor.
const RETRY: Duration = Duration::from_millis(10);

/// Reason for which a client was turned away at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// The user connects more often than the limit per second.
    Pace {
        /// The user.
        uid: u32,
        /// Largest number of its connections in one second.
        per_second: u32,
    },
    /// The user has too many connections on which it has sent nothing yet.
    Unfinished {
        /// The user.
        uid: u32,
        /// Largest number of its unfinished connections.
        most: u32,
    },
    /// There are too many unfinished connections of all users.
    Full {
        /// The user.
        uid: u32,
    },
    /// The kernel does not say who connected.
    Unknown(Errno),
}

impl Turned {
    /// The user who was turned away.
    pub fn uid(&self) -> Option<u32> {
        match *self {
            Turned::Pace { uid, .. } | Turned::Unfinished { uid, .. } | Turned::Full { uid } => {
                Some(uid)
            }
            Turned::Unknown(_) => None,
        }
    }
}

/// A connection that was let in.
#[derive(Debug)]
pub struct Guest {
    /// The connection.
    pub socket: Socket,
    /// Place of the connection among the unfinished ones; dropped when the client has sent its
    /// request.
    pub place: ConnectionPlace,
}

/// The door, and the thread that stands at it. Dropping it ends both.
#[derive(Debug)]
pub struct Acceptor {
    guests: Socket,
    taken: Taken,
    stop: std::sync::Arc<Doorbell>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Starts the thread. It calls `prepare` first, where it may take its priority and cores, and
    /// `refuse` for each connection that it drops: that may send a packet, and may not block.
    ///
    /// # Errors
    /// The kernel's reason for not starting it.
    pub fn start(
        door: ServiceSocket,
        limits: Limits,
        prepare: impl FnOnce() + Send + 'static,
        refuse: impl FnMut(&Socket, Turned) + Send + 'static,
    ) -> Result<Acceptor, Errno> {
        let [inside, guests] = Socket::pair()?;
        let no_bell = |_| Errno::MFILE;
        let stop = std::sync::Arc::new(Doorbell::new().map_err(no_bell)?);
        let places = Places::new(limits);
        let taken = places.counts();
        let pace = Pace::new(limits.connects_per_second);
        let (bell, start, spare) = (stop.clone(), Instant::now(), spare());
        let mut hall = Hall { door, inside, places, pace, refuse, start, spare };
        let thread = std::thread::Builder::new().name("kt-door".into()).spawn(move || {
            prepare();
            hall.run(bell.as_fd());
        });
        let thread =
            thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(Acceptor { guests, taken, stop, thread: Some(thread) })
    }

    /// The next connection that was let in, if there is one. Returns at once.
    ///
    /// # Errors
    /// The kernel's reason, such as that this process has no descriptor left: then the connection
    /// is lost.
    pub fn next(&self) -> Result<Option<Guest>, Errno> {
        let mut number = [0; 4];
        match self.guests.receive(&mut number)? {
            Received::Packet(_, mut sockets) => {
                // Also if the kernel had no descriptor for the connection itself.
                let place = self.taken.place(u32::from_ne_bytes(number));
                let socket = Socket::from(sockets.pop().ok_or(Errno::MFILE)?);
                Ok(Some(Guest { socket, place }))
            }
            Received::Nothing | Received::Closed => Ok(None),
        }
    }
}

/// Becomes readable when there is a next connection.
impl AsFd for Acceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.guests.as_fd()
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// State of the thread.
struct Hall<R> {
    door: ServiceSocket,
    inside: Socket,
    places: Places,
    pace: Pace,
    refuse: R,
    start: Instant,
    /// A descriptor that is given up for a connection that finds none, so that it can be dropped.
    spare: Option<OwnedFd>,
}

impl<R: FnMut(&Socket, Turned)> Hall<R> {
    fn run(&mut self, stop: BorrowedFd<'_>) {
        while !wait(&[self.door.socket.as_fd(), stop], 1, None) {
            let begin = Instant::now();
            let rest = match self.accept_some() {
                Ok(dropped) if dropped > BATCH / 2 => begin.elapsed(),
                Ok(_) => continue,
                Err(_) => RETRY,
            };
            if wait(&[stop], 0, Some(rest)) {
                return;
            }
        }
    }

    /// Accepts who waits; returns how many were dropped.
    fn accept_some(&mut self) -> Result<usize, Errno> {
        let mut dropped = 0;
        for _ in 0..BATCH {
            let socket = match self.door.socket.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => break,
                Err(Errno::MFILE | Errno::NFILE) if self.spare.take().is_some() => {
                    let lost = self.door.socket.accept();
                    self.spare = spare();
                    drop(lost?);
                    dropped += 1;
                    continue;
                }
                Err(errno) => return Err(errno),
            };
            if let Err(turned) = self.let_in(&socket) {
                (self.refuse)(&socket, turned);
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    fn let_in(&mut self, socket: &Socket) -> Result<(), Turned> {
        let Credentials { uid, .. } = Credentials::of(socket.as_fd()).map_err(Turned::Unknown)?;
        let now_ns = self.start.elapsed().as_nanos() as u64;
        if !self.pace.admits(uid, now_ns) {
            return Err(Turned::Pace { uid, per_second: self.places.limits().connects_per_second });
        }
        let most = self.places.limits().unfinished_per_user;
        let number = self.places.take(uid).map_err(|no_place| match no_place {
            NoPlace::User => Turned::Unfinished { uid, most },
            NoPlace::All => Turned::Full { uid },
        })?;
        self.inside.send(&number.to_ne_bytes(), &[socket.as_fd()]).map_err(|_| {
            drop(self.places.counts().place(number));
            Turned::Full { uid }
        })
    }
}

fn spare() -> Option<OwnedFd> {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).ok()
}

/// Waits until one of these is readable; whether the one at `which` is.
fn wait(fds: &[BorrowedFd<'_>], which: usize, timeout: Option<Duration>) -> bool {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // An interrupted wait is as good as one that saw nothing.
    poll(&mut polled, timeout.as_ref()).is_ok() && !polled[which].revents().is_empty()
}
