//! One connection to a server: what is lost when the server goes.

use crate::Error;
use crate::control::{self, Packet, Refused};
use crate::registration::Callback;
use crate::request::{Order, Status};
use crate::session::{SLOTS, SessionMemory};
use crate::socket::{Received, Socket};
use crate::ticket::{RequestOutcome, Ticket};
use realtime::clock::monotonic_ns;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use shm::peer::ServerUser;
use shm::{Completion, CompletionCell, Doorbell, Producer, Segment};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Longest time that the server may take to answer on the control plane.
const ANSWER_NS: u64 = 5_000_000_000;

/// Longest time for which a client waits for a place in the server's queue.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Connection to a server, which is lost when the server goes.
pub(crate) struct Link {
    socket: Socket,
    memory: SessionMemory,
    doorbell: Doorbell,
    producer: Producer,
    /// Bit set: the slot is in use.
    used: u64,
    pub abandoned: Arc<AtomicU64>,
    pub alive_ns: u64,
}

impl Link {
    pub(crate) fn open(path: &Path, user: ServerUser) -> Result<Link, Error> {
        let refused = |errno| Error::NoServer { path: path.into(), errno };
        let socket = Socket::connect(path, CONNECT_PATIENCE).map_err(refused)?;
        let stranger = user.stranger(socket.as_fd()).map_err(Error::system("getsockopt"))?;
        if let Some(uid) = stranger {
            return Err(Error::Stranger { path: path.into(), uid, user });
        }
        let version = control::VERSION;
        let hello = control::Hello { kind: control::Hello::KIND, version, magic: control::MAGIC };
        let (welcome, fds) = exchange::<control::Welcome>(&socket, hello.as_bytes(), &[])?;
        let two: Result<[OwnedFd; 2], _> = fds.try_into();
        let [segment, doorbell] =
            two.map_err(|_| Error::Protocol("welcome without segment and doorbell".into()))?;
        let segment = Segment::accept(segment, welcome.segment_bytes)?;
        Ok(Link {
            socket,
            memory: SessionMemory::attach(segment.map()?)?,
            doorbell: Doorbell::from_fd(doorbell),
            producer: Producer::default(),
            used: 0,
            abandoned: Arc::default(),
            alive_ns: monotonic_ns(),
        })
    }

    /// Registers a callback, or registers it anew after a loss.
    pub(crate) fn register(&mut self, callback: &mut Callback) -> Result<(), Error> {
        let ask = callback.registration.packet()?;
        let fds: Vec<BorrowedFd<'_>> = callback.segment.iter().map(AsFd::as_fd).collect();
        let answer = self.ask::<control::Registered>(ask.as_bytes(), &fds)?;
        (callback.number, callback.bucket) = (answer.registration, answer.bucket);
        Ok(())
    }

    /// The completion cell of a ticket's request.
    pub(crate) fn cell(&self, ticket: &Ticket) -> Option<&CompletionCell> {
        self.memory.completion(usize::from(ticket.slot))
    }

    /// Asks on the control plane.
    pub(crate) fn ask<A: Packet>(
        &mut self,
        ask: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<A, Error> {
        let (answer, _) = exchange::<A>(&self.socket, ask, fds)?;
        self.alive_ns = monotonic_ns();
        Ok(answer)
    }

    pub(crate) fn take_slot(&mut self) -> Result<u16, Error> {
        if self.used == u64::MAX {
            self.reap();
        }
        let slot = self.used.trailing_ones() as u16;
        if usize::from(slot) >= SLOTS {
            return Err(Error::Full { slots: SLOTS });
        }
        self.used |= 1 << slot;
        Ok(slot)
    }

    /// Frees the slots of forgotten requests that have completed.
    fn reap(&mut self) {
        // Relaxed: see the drop of a ticket.
        let abandoned = self.abandoned.load(Ordering::Relaxed);
        for slot in (0..SLOTS).filter(|slot| abandoned >> slot & 1 == 1) {
            if self.memory.completion(slot).is_some_and(|cell| cell.poll().is_some()) {
                self.abandoned.fetch_and(!(1 << slot), Ordering::Relaxed);
                self.used &= !(1 << slot);
            }
        }
    }

    pub(crate) fn send(&mut self, slot: u16, order: &Order) -> Result<(), Error> {
        if let Some(cell) = self.memory.completion(usize::from(slot)) {
            cell.arm();
        }
        if !self.producer.push(self.memory.ring(), &order.encode())? {
            self.used &= !(1 << slot);
            return Err(Error::Full { slots: SLOTS });
        }
        self.doorbell.ring();
        Ok(())
    }

    /// Turns a completion into the ticket's outcome and frees the slot.
    pub(crate) fn settle(
        &mut self,
        ticket: &mut Ticket,
        done: &Completion,
    ) -> Result<RequestOutcome, Error> {
        let status = Status::from_word(done.status)
            .ok_or_else(|| Error::Protocol(format!("completion with status {}", done.status)))?;
        let outcome = RequestOutcome {
            launch_id: ticket.launch_id,
            status,
            overran: done.status & Status::OVERRUN != 0,
            demoted: done.status & Status::DEMOTED != 0,
            submitted_ns: ticket.submitted_ns,
            arrived_ns: done.arrived_ns,
            started_ns: done.started_ns,
            finished_ns: done.finished_ns,
            busy_ns: done.busy_ns,
            answered_ns: done.answered_ns,
        };
        ticket.outcome = Some(outcome);
        self.used &= !(1 << ticket.slot);
        self.alive_ns = done.answered_ns;
        Ok(outcome)
    }

    /// Finds out whether the server closed the session, and what it said before.
    pub(crate) fn check_alive(&mut self, launch_id: Option<u64>) -> Result<(), Error> {
        if self.socket.wait_readable(0)? {
            let mut buffer = [0; control::MAX_PACKET];
            match self.socket.receive(&mut buffer) {
                Ok(Received::Nothing) => {}
                Ok(Received::Packet(length, _)) => {
                    let said = Refused::parse(&buffer[..length]).map(|refused| refused.unpack());
                    let said = said.map_or(String::new(), |refusal| refusal.text);
                    return Err(lost(launch_id, &said));
                }
                Ok(Received::Closed) | Err(_) => return Err(lost(launch_id, "")),
            }
        }
        self.alive_ns = monotonic_ns();
        Ok(())
    }
}

pub(crate) fn lost(launch_id: Option<u64>, said: &str) -> Error {
    let reason = if said.is_empty() { String::new() } else { format!(": {said}") };
    Error::ServerLost { launch_id, reason }
}

/// Sends one packet and receives its answer.
fn exchange<A: Packet>(
    socket: &Socket,
    ask: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(A, Vec<OwnedFd>), Error> {
    // A server that has just said goodbye closes before it reads: its last words still count.
    let sent = socket.send(ask, fds);
    let end = monotonic_ns().saturating_add(ANSWER_NS);
    let mut buffer = [0; control::MAX_PACKET];
    loop {
        match socket.receive(&mut buffer) {
            Ok(Received::Packet(length, fds)) => return answer(&buffer[..length], fds),
            Ok(Received::Closed) => return Err(lost(None, "")),
            Ok(Received::Nothing) if sent.is_err() => return Err(lost(None, "")),
            Ok(Received::Nothing) if monotonic_ns() < end => {
                socket.wait_readable(100)?;
            }
            Ok(Received::Nothing) => return Err(Error::Protocol("the server is silent".into())),
            Err(errno) => return Err(Error::System { call: "recvmsg", errno }),
        }
    }
}

fn answer<A: Packet>(bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(A, Vec<OwnedFd>), Error> {
    if let Some(answer) = A::parse(bytes) {
        return Ok((answer, fds));
    }
    Err(match Refused::parse(bytes) {
        Some(refused) => Error::Refused(refused.unpack()),
        None => Error::Protocol(format!("unexpected answer of {} bytes", bytes.len())),
    })
}
