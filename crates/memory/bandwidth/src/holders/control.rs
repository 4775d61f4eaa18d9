//! The control thread: lets holders in, and sees them off.
//!
//! It sleeps in one epoll set on the door, on every connection that has not said hello yet, on a
//! descriptor of every holder's process, and on a bell that a thread rings which finds an
//! impossible value. A connection is for one question and one answer; that of a holder stays open
//! until its slot is freed, and tells it so by its end. Nothing here waits for a peer: what does
//! not fit a socket's buffer is not sent.

use super::access::allows;
use super::entries::Guest;
use super::{Config, Shared};
use crate::Error;
use crate::handshake::{Hello, PACKET_BYTES, Refusal, Welcome};
use crate::page::VERSION;
use realtime::clock::monotonic_ns;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use shm::door::{Acceptor, ConnectionPlace, Guest as Arrival, Limits, ServiceSocket, Turned};
use shm::peer::{Peer, Unknown};
use shm::socket::Socket;
use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const DOOR: u64 = 0;
/// Connections and processes have the numbers of [`super::entries::Entries::next_id`], which are
/// smaller.
const NEWS: u64 = u64::MAX;

/// Time within which a new connection must say hello, in nanoseconds.
const HELLO_NS: u64 = 1_000_000_000;

pub(super) struct Control {
    config: Config,
    acceptor: Acceptor,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    pending: HashMap<u64, Pending>,
}

/// A client that may hold the lock but has not sent its hello.
struct Pending {
    socket: OwnedFd,
    peer: Peer,
    process: OwnedFd,
    since_ns: u64,
    _place: ConnectionPlace,
}

impl Control {
    pub(super) fn new(
        config: Config,
        door: ServiceSocket,
        shared: Arc<Shared>,
    ) -> Result<Control, Error> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        let acceptor = attend(&config, door, shared.clone())?;
        let pending = HashMap::new();
        let control = Control { config, acceptor, shared, epoll, pending };
        let watched = control.watch(control.acceptor.as_fd(), DOOR, epoll::EventFlags::empty());
        let watched = watched
            .and_then(|()| control.watch(control.shared.news.as_fd(), NEWS, epoll::EventFlags::ET));
        watched.map_err(Error::system("epoll_ctl"))?;
        Ok(control)
    }

    /// The thread: serves until the regulator ends.
    pub(super) fn run(mut self) {
        if let Some(priority) = self.config.priority {
            // Without the right to it, deaths are noticed as soon as an ordinary thread runs.
            let _ = realtime::thread::set_policy(realtime::thread::Scheduling::Fifo(priority));
        }
        let mut events = Vec::with_capacity(64);
        // Acquire: pairs with the release in the drop of `Holders`, which then rings.
        while !self.shared.stop.load(Ordering::Acquire) {
            events.clear();
            let timeout = self.timeout();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // None that this set can give.
                Err(errno) => panic!("epoll_wait: {errno}"),
            }
            for event in &events {
                match event.data.u64() {
                    DOOR => self.answer_the_door(),
                    NEWS => self.drop_nonsense(),
                    id if self.pending.contains_key(&id) => self.serve(id),
                    id => self.bury(id),
                }
            }
            self.housekeeping();
        }
    }

    fn watch(&self, fd: BorrowedFd<'_>, id: u64, more: epoll::EventFlags) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | more;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(id), flags)
    }

    /// Returns the time until the next event that no descriptor will announce.
    fn timeout(&self) -> Option<Timespec> {
        let hello = self.pending.values().map(|pending| pending.since_ns + HELLO_NS).min();
        let wait_ns = hello?.saturating_sub(monotonic_ns()).clamp(1000, 999_999_999);
        Some(Timespec { tv_sec: 0, tv_nsec: wait_ns as i64 })
    }

    fn answer_the_door(&mut self) {
        // A bounded number, so that guests do not keep the thread from the dead.
        for _ in 0..16 {
            let (socket, place) = match self.acceptor.next() {
                Ok(Some(Arrival { socket, place })) => (OwnedFd::from(socket), place),
                Ok(None) => return,
                Err(_) => {
                    self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
            match self.admit(&socket) {
                Ok((peer, process)) => self.keep(socket, place, peer, process),
                Err(refusal) => self.refuse(&socket, refusal),
            }
        }
    }

    fn admit(&self, socket: &OwnedFd) -> Result<(Peer, OwnedFd), Refusal> {
        let peer = Peer::of(socket.as_fd()).map_err(|unknown| match unknown {
            Unknown::Unseen => Refusal::Unseen,
            Unknown::Call(_) => Refusal::Resources,
        })?;
        // Without it the end of the process would not be noticed.
        let process = peer.process(socket.as_fd()).map_err(|_| Refusal::Resources)?;
        if !allows(&self.config, &peer) {
            return Err(Refusal::NotAllowed);
        }
        Ok((peer, process))
    }

    fn keep(&mut self, socket: OwnedFd, place: ConnectionPlace, peer: Peer, process: OwnedFd) {
        let id = self.shared.entries().next_id();
        match self.watch(socket.as_fd(), id, epoll::EventFlags::empty()) {
            Ok(()) => {
                let (since_ns, _place) = (monotonic_ns(), place);
                let pending = Pending { socket, peer, process, since_ns, _place };
                self.pending.insert(id, pending);
            }
            Err(_) => self.refuse(&socket, Refusal::Resources),
        }
    }

    /// A connection has something to say, or has closed.
    fn serve(&mut self, id: u64) {
        let Some(pending) = self.pending.get(&id) else { return };
        let mut packet = [0u8; PACKET_BYTES + 1];
        let received = rustix::net::recv(&pending.socket, &mut packet[..], RecvFlags::DONTWAIT);
        let length = match received {
            Ok((_, length)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => 0,
        };
        // One question: nothing else is read from it.
        let Some(Pending { socket, peer, process, .. }) = self.pending.remove(&id) else { return };
        let _ = epoll::delete(&self.epoll, &socket);
        if length == 0 {
            return;
        }
        let answer = match packet.get(..length).and_then(Hello::parse) {
            None => Err(Refusal::Malformed),
            Some(hello) if hello.version != VERSION => Err(Refusal::Version),
            Some(hello) => self.add(&socket, Guest { peer, image: hello.image, process, id }),
        };
        match answer {
            Ok(()) => self.shared.entries().keep_open(id, socket),
            Err(refusal) => self.refuse(&socket, refusal),
        }
    }

    /// Makes a client a holder.
    fn add(&mut self, socket: &OwnedFd, guest: Guest) -> Result<(), Refusal> {
        let (id, uid) = (guest.id, guest.peer.uid);
        let shared = self.shared.clone();
        let mut entries = shared.entries();
        entries.collect_images(&shared.table, guest.peer.number() as u32, guest.image);
        if entries.count_of(&shared.table, uid) >= self.config.holders_per_user {
            return Err(Refusal::Full);
        }
        // Watched first: a process that has ended shows at once, and the set keeps what it watches
        // until the entry closes it.
        self.watch(guest.process.as_fd(), id, epoll::EventFlags::empty())
            .map_err(|_| Refusal::Resources)?;
        let (page, offset) = match entries.add(&shared.table, Some(guest)) {
            Ok(added) => added,
            Err(Error::Refused(refusal)) => return Err(refusal),
            Err(_) => return Err(Refusal::Resources),
        };
        let pages = [page.as_fd(), shared.bell.as_fd(), shared.watch.as_fd()];
        if send(socket.as_fd(), Welcome::Offset(offset), &pages).is_err() {
            entries.bury(&shared.table, id);
        }
        Ok(())
    }

    fn refuse(&self, socket: &OwnedFd, refusal: Refusal) {
        refuse(&self.shared, socket.as_fd(), refusal);
    }

    /// A holder's process has ended.
    fn bury(&self, id: u64) {
        let counters = &self.shared.counters;
        if let Some(held) = self.shared.entries().bury(&self.shared.table, id) {
            counters.died.fetch_add(1, Ordering::Relaxed);
            counters.died_holding.fetch_add(u64::from(held), Ordering::Relaxed);
        }
    }

    fn drop_nonsense(&self) {
        let shared = &self.shared;
        let suspects = shared.table.suspects();
        let dropped = shared.entries().drop_nonsense(&shared.table, &suspects);
        shared.counters.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Late hellos.
    fn housekeeping(&mut self) {
        let now_ns = monotonic_ns();
        let late = self.pending.iter().filter(|(_, pending)| now_ns >= pending.since_ns + HELLO_NS);
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        for id in late {
            if let Some(pending) = self.pending.remove(&id) {
                self.refuse(&pending.socket, Refusal::Malformed);
            }
        }
    }
}

/// Starts the thread at the door, below all real-time threads and above all others if the
/// regulator has a priority.
fn attend(config: &Config, door: ServiceSocket, shared: Arc<Shared>) -> Result<Acceptor, Error> {
    let limits = Limits::paced(config.connects_per_second);
    let realtime = config.priority.is_some();
    let prepare = move || {
        if realtime {
            // Without the right to it, it shares with others.
            let _ = realtime::thread::set_policy(realtime::thread::Scheduling::Fifo(1));
        }
    };
    let refuse = move |socket: &Socket, turned| {
        let refusal = match turned {
            Turned::Pace { .. } => Refusal::Pace,
            Turned::Unfinished { .. } | Turned::Full { .. } => Refusal::Full,
            Turned::Unknown(_) => Refusal::Resources,
        };
        refuse(&shared, socket.as_fd(), refusal);
    };
    Acceptor::start(door, limits, prepare, refuse).map_err(Error::system("clone"))
}

fn refuse(shared: &Shared, socket: BorrowedFd<'_>, refusal: Refusal) {
    shared.counters.refused.fetch_add(1, Ordering::Relaxed);
    // A client that does not read it learns nothing.
    let _ = send(socket, Welcome::Refused(refusal), &[]);
}

/// Sends one packet, with descriptors. Returns at once.
fn send(socket: BorrowedFd<'_>, welcome: Welcome, pages: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !pages.is_empty() && !control.push(SendAncillaryMessage::ScmRights(pages)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(&welcome.packet())], &mut control, flags)?;
    Ok(())
}
