//! The control thread: opens sessions, registers callbacks where admission control lets them in,
//! and cleans up after clients.
//!
//! It sleeps in one epoll set on the door, on every session's socket, on a descriptor of every
//! client process, and on a bell that the dispatcher rings. A client's death shows at once as a
//! hang-up of its socket, or, where a child of the client still holds the socket, as the end of
//! the process. Nothing here waits for a client: packets that do not fit its socket end it.
//!
//! The work of this thread is part of no promise, so the thread runs below every real-time thread,
//! and gives each user a share of its time ([`share`]). Memory is made present in slices, between
//! which others are served ([`arrival`]).

mod arrival;
pub(crate) mod door;
mod registration;
mod remains;
mod share;
mod status;

use crate::access::{Access, Grant};
use crate::admission::Admission;
use crate::budget::Budget;
use crate::dispatch::Dispatcher;
use crate::inbox::Inbox;
use crate::journal::{Journal, Kind};
use crate::meter::Tally;
use crate::refusal::Refusal;
use crate::register::Services;
use crate::seeker::Seeker;
use crate::session::{Entry, OwedRings, Session};
use crate::{Error, Level};
use accel::control::{self, Ask, Code, Packet, Refused};
use accel::session::{SEGMENT_BYTES, SLOTS, SessionMemory};
use accel::socket::{Received, Socket};
use arrival::Arriving;
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use remains::Remains;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use share::Shares;
use shm::door::{Acceptor, ConnectionPlace};
use shm::peer::Peer;
use shm::{Consumer, Doorbell, Mapping, Segment};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::IntoBytes;

const DOOR: u64 = 0;
const BELL: u64 = 1;
/// Sessions use two tokens each: twice their number for the socket, one more for the process.
const FIRST_SESSION: u64 = 1;

/// Longest time that a new connection may take to say hello.
const HELLO_NS: u64 = 1_000_000_000;
/// Time between two attempts to unmap the memory of ended clients, while there is any.
const REMAINS_NS: u64 = 1_000_000;

/// Rules that change while the server runs: for connections and registrations from then on.
pub(crate) struct NewRules {
    pub access: Access,
    pub limits: system::Limits,
}

/// Settings of the control thread.
pub(crate) struct Settings {
    pub access: Access,
    pub limits: system::Limits,
    pub services: Services,
    pub facts: Facts,
    pub journal: Arc<Journal>,
    /// Rules that take the place of these at the next bell.
    pub new_rules: Arc<Mutex<Option<NewRules>>>,
}

impl Settings {
    /// Takes the new rules, if there are any.
    fn renew(&mut self) {
        let new = self.new_rules.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(NewRules { access, limits }) = new {
            (self.access, self.limits) = (access, limits);
        }
    }
}

/// Facts that the server reports about itself.
pub(crate) struct Facts {
    pub system: system::System,
    pub policy: system::ArbitrationPolicy,
    /// Reason for which admission control is off although it is asked for; or empty.
    pub note: String,
    pub realtime: Arc<AtomicBool>,
    /// None when no service asks for the bandwidth lock.
    pub seeker: Option<Arc<Seeker>>,
}

pub(crate) struct Control {
    settings: Settings,
    admission: Admission,
    engine: Arc<Dispatcher>,
    inbox: Arc<Inbox>,
    acceptor: Acceptor,
    epoll: OwnedFd,
    stop: Arc<AtomicBool>,
    budget: Budget,
    shares: Shares,
    connections: HashMap<u64, Connection>,
    /// Sessions with a registration whose memory is being made present, the next one first.
    arriving: VecDeque<u64>,
    next_session: u64,
    dying: Vec<Remains>,
    /// Tallies of chains whose registrations are gone; requests may still count in them.
    old_tallies: Vec<Arc<Tally>>,
}

struct Connection {
    socket: Socket,
    peer: Peer,
    /// Becomes readable when its process ends; None on kernels that cannot tell.
    _process: Option<OwnedFd>,
    grant: Grant,
    since_ns: u64,
    /// Its packets are not read: its user rests, or its last packet is not answered yet.
    deaf: bool,
    /// Place of the connection until it says hello.
    _place: Option<ConnectionPlace>,
    open: Option<Open>,
}

/// An open session's resources.
struct Open {
    doorbell: Arc<Doorbell>,
    mapping: Arc<Mapping>,
    /// Memory by registration number.
    memory: HashMap<u32, Arc<Mapping>>,
    memory_bytes: u64,
    arriving: Option<Box<Arriving>>,
}

impl Control {
    pub(crate) fn new(
        settings: Settings,
        admission: Admission,
        engine: Arc<Dispatcher>,
        inbox: Arc<Inbox>,
        acceptor: Acceptor,
        stop: Arc<AtomicBool>,
    ) -> Result<Control, Error> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("epoll_create"))?;
        let budget = Budget::new(&settings.limits);
        let shares = Shares::new(settings.limits.control_percent);
        let control = Control {
            settings,
            admission,
            engine,
            inbox,
            acceptor,
            epoll,
            stop,
            budget,
            shares,
            connections: HashMap::new(),
            arriving: VecDeque::new(),
            next_session: FIRST_SESSION,
            dying: Vec::new(),
            old_tallies: Vec::new(),
        };
        control.watch(control.acceptor.as_fd(), DOOR, epoll::EventFlags::empty())?;
        control.watch(control.engine.control.as_fd(), BELL, epoll::EventFlags::ET)?;
        Ok(control)
    }

    /// The bytes mapped now, for the counters.
    pub(crate) fn memory_gauge(&self) -> Arc<AtomicU64> {
        self.budget.gauge()
    }

    /// The thread: serves the control plane until the server is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        // Acquire: pairs with the release in `Server::stop`, which then rings the bell.
        while !self.stop.load(Ordering::Acquire) {
            events.clear();
            let timeout = self.timeout();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    let line = format!("control thread ends: epoll_wait: {errno}");
                    self.settings.journal.say(Level::Error, &line);
                    break;
                }
            }
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                let uid = self.connections.get(&(token / 2)).map(|c| c.peer.uid);
                let begin_ns = thread_cpu_ns();
                match token {
                    DOOR => self.answer_the_door(),
                    BELL => self.settings.renew(),
                    token if token % 2 == 0 => self.hear(token / 2, flags),
                    token => self.end(token / 2, None),
                }
                uid.into_iter().for_each(|uid| self.charge(uid, begin_ns));
            }
            self.arrive();
            self.news();
            self.housekeeping();
        }
        self.close();
    }

    fn watch(&self, fd: BorrowedFd<'_>, token: u64, more: epoll::EventFlags) -> Result<(), Error> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | more;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags)
            .map_err(Error::system("epoll_ctl"))
    }

    /// Time until the next event that no descriptor will announce.
    fn timeout(&self) -> Option<Timespec> {
        let now_ns = monotonic_ns();
        let waiting = self.connections.values().filter(|connection| connection.open.is_none());
        let hello = waiting.map(|connection| connection.since_ns + HELLO_NS).min();
        let remains = (!self.dying.is_empty()).then_some(now_ns + REMAINS_NS);
        let rested = self
            .connections
            .values()
            .filter(|connection| connection.deaf)
            .map(|c| self.shares.rests_until(c.peer.uid, now_ns).unwrap_or(now_ns));
        let lines = self.settings.journal.due_ns();
        let next = [hello, remains, rested.min(), lines].into_iter().flatten().min()?;
        let wait_ns = next.saturating_sub(now_ns).min(999_999_999);
        Some(Timespec { tv_sec: 0, tv_nsec: wait_ns as i64 })
    }

    /// Takes a session's next packet.
    fn serve(&mut self, session: u64) {
        let mut buffer = [0; control::MAX_PACKET + 1];
        // One packet a turn: the set is level-triggered, and others wait too.
        let Some(connection) = self.connections.get(&session) else { return };
        let (length, fds) = match connection.socket.receive(&mut buffer) {
            Ok(Received::Packet(length, fds)) => (length, fds),
            Ok(Received::Nothing) => return,
            Ok(Received::Closed) | Err(_) => return self.end(session, None),
        };
        let answered = match Ask::parse(&buffer[..length]) {
            Some(ask) => self.answer(session, ask, fds),
            None => {
                let text = format!(
                    "a packet of {length} bytes, expected a message of version {}",
                    control::VERSION
                );
                return self.end(session, Some((Code::Malformed, text)));
            }
        };
        self.conclude(session, answered);
    }

    /// Tells a client that it is refused what it asked for, or ends it.
    fn conclude(&mut self, session: u64, answered: Result<(), Refusal>) {
        match answered {
            Ok(()) => {}
            Err((code @ (Code::Version | Code::Malformed | Code::Violation), text)) => {
                self.end(session, Some((code, text)));
            }
            // Without a session there is nothing else to ask for.
            Err(refusal) if self.connections.get(&session).is_some_and(|c| c.open.is_none()) => {
                self.engine.count_refusal();
                self.end(session, Some(refusal));
            }
            Err((code, text)) => {
                self.engine.count_refusal();
                self.send(session, Refused::new(code, &text).as_bytes(), &[]);
            }
        }
    }

    fn answer(&mut self, session: u64, ask: Ask, fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        let open = self.connections.get(&session).is_some_and(|c| c.open.is_some());
        match ask {
            Ask::Hello(hello) if !open => self.open(session, &hello),
            Ask::Hello(_) => Err((Code::Malformed, "hello in an open session".into())),
            _ if !open => Err((Code::Malformed, "no hello before the first request".into())),
            Ask::Register(packet) => self.arrives(session, &packet, fds),
            Ask::Deregister(packet) => self.deregister(session, packet.registration),
            Ask::Reprioritise(packet) => self.reprioritise(session, &packet),
            ask => {
                self.tell(session, &ask);
                Ok(())
            }
        }
    }

    fn open(&mut self, session: u64, hello: &control::Hello) -> Result<(), Refusal> {
        if (hello.magic, hello.version) != (control::MAGIC, control::VERSION) {
            let text = format!(
                "protocol version {}, this server speaks version {}",
                hello.version,
                control::VERSION
            );
            return Err((Code::Version, text));
        }
        if let Some(connection) = self.connections.get(&session) {
            self.check_sessions(&connection.peer, &connection.grant)?;
        }
        let memory = |error: shm::Error| (Code::Memory, error.to_string());
        let uid = self.connections.get(&session).map_or(u32::MAX, |c| c.peer.uid);
        self.budget.fits(uid, SEGMENT_BYTES as u64)?;
        let segment = Segment::create("keeptime-session", SEGMENT_BYTES).map_err(memory)?;
        let mapping = segment.map_guarded(&self.engine.control).map_err(memory)?;
        mapping.populate(0, mapping.size()).map_err(memory)?;
        let mapping = Arc::new(mapping);
        let doorbell = Arc::new(Doorbell::new().map_err(memory)?);
        let shared = SessionMemory::initialise(mapping.clone());
        let Some(connection) = self.connections.get_mut(&session) else { return Ok(()) };
        self.engine.add_session(Entry {
            session: Arc::new(Session::new(session, connection.peer.number(), uid, shared.clone())),
            memory: shared,
            consumer: Consumer::default(),
            registrations: Vec::new(),
            owed: OwedRings::default(),
            evicted: false,
            doorbell: doorbell.clone(),
        });
        self.budget.charge(uid, mapping.cost_bytes());
        self.admission.touch();
        let kind = control::Welcome::KIND;
        let segment_bytes = SEGMENT_BYTES as u64;
        let welcome = control::Welcome { kind, slots: SLOTS as u32, session, segment_bytes };
        let listened = self.inbox.add(session, doorbell.as_fd());
        let sent = connection.socket.send(welcome.as_bytes(), &[segment.as_fd(), doorbell.as_fd()]);
        let memory = HashMap::new();
        let arriving = None;
        connection.open = Some(Open { doorbell, mapping, memory, memory_bytes: 0, arriving });
        connection._place = None;
        let process = connection.peer.number();
        let journal = &self.settings.journal;
        journal.tell(Kind::Session, uid, || format!("process {process} of user {uid} connected"));
        if listened.is_err() || sent.is_err() {
            self.end(session, None);
        }
        Ok(())
    }

    /// Sends a packet; a client that does not read its socket is ended.
    fn send(&mut self, session: u64, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let Some(connection) = self.connections.get(&session) else { return };
        if connection.socket.send(bytes, fds).is_err() {
            self.end(session, None);
        }
    }

    /// Ends a session, whatever state it is in, and tells the client why if there is a reason.
    fn end(&mut self, session: u64, reason: Option<Refusal>) {
        let Some(connection) = self.connections.remove(&session) else { return };
        let (uid, process) = (connection.peer.uid, connection.peer.number());
        let journal = &self.settings.journal;
        if let Some((code, text)) = &reason {
            let _ = connection.socket.send(Refused::new(*code, text).as_bytes(), &[]);
            journal.tell(Kind::Closed, uid, || format!("process {process} closed: {text}"));
        } else {
            let line = || format!("process {process} of user {uid} disconnected");
            journal.tell(Kind::Session, uid, line);
        }
        if let Some(open) = connection.open {
            self.inbox.remove(open.doorbell.as_fd());
            let entry = self.engine.forget(session);
            let registrations = entry.iter().flat_map(|entry| entry.registrations.iter().flatten());
            registrations.for_each(|registration| self.keep_tally(registration));
            self.release(session, None);
            let mappings = open.memory.into_values();
            let own = mappings.filter(|mapping| !Arc::ptr_eq(mapping, &open.mapping));
            let mut mappings: Vec<Arc<Mapping>> = own.collect();
            mappings.extend(open.arriving.and_then(|arriving| arriving.prepared.mapping));
            mappings.push(open.mapping);
            self.dying.push(Remains { session: entry, uid, mappings });
        }
    }

    /// Logs the dispatcher's notices; ends sessions that it evicts, or whose memory was lost.
    fn news(&mut self) {
        let (notices, evictions) = self.engine.take_news();
        for (session, notice) in notices {
            let uid = self.connections.get(&session).map_or(u32::MAX, |c| c.peer.uid);
            self.settings.journal.tell(Kind::Request, uid, || notice.to_string());
        }
        for (session, reason) in evictions {
            self.end(session, Some((Code::Violation, reason.to_string())));
        }
        let broken = |open: &Open| {
            open.mapping.is_broken() || open.memory.values().any(|mapping| mapping.is_broken())
        };
        let open = self.connections.iter().filter_map(|(id, c)| Some((id, c.open.as_ref()?)));
        let broken: Vec<u64> = open.filter(|(_, open)| broken(open)).map(|(id, _)| *id).collect();
        for session in broken {
            let text = "memory lost: a page was taken away and could not be replaced";
            self.end(session, Some((Code::Violation, text.into())));
        }
    }

    /// Late hellos, and the memory of the dead.
    fn housekeeping(&mut self) {
        let now_ns = monotonic_ns();
        self.end_the_silent(now_ns);
        self.settings.journal.flush(now_ns);
        let heard: Vec<u64> = (self.connections.iter().filter(|(_, c)| c.deaf))
            .filter(|(_, c)| c.open.as_ref().is_none_or(|open| open.arriving.is_none()))
            .filter(|(_, c)| self.shares.rests_until(c.peer.uid, now_ns).is_none())
            .map(|(id, _)| *id)
            .collect();
        heard.into_iter().for_each(|session| self.listen(session, true));
        self.bury();
    }

    fn close(mut self) {
        let sessions: Vec<u64> = self.connections.keys().copied().collect();
        for session in sessions {
            self.end(session, Some((Code::Ending, "the server is ending".into())));
        }
        self.housekeeping();
        self.settings.journal.close();
    }
}
