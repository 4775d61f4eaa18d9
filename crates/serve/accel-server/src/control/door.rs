//! Connections until they say hello: who is let in, and who is turned away with which words.
//!
//! The thread at the door (`shm::door::Acceptor`) has accepted them and keeps the pace of each
//! user; here the rules of `server.access` are asked. A connection counts as unfinished until its
//! hello, and as a session from then on.

use super::{Connection, Control, HELLO_NS};
use crate::Error;
use crate::access::Grant;
use crate::dispatch::Dispatcher;
use crate::journal::{Journal, Kind};
use crate::refusal::Refusal;
use accel::control::{Code, Refused};
use accel::socket::Socket;
use realtime::clock::monotonic_ns;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd};
use shm::door::{Acceptor, Guest, Limits, ServiceSocket, Turned};
use shm::peer::Peer;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Sessions beyond the server's limit that root and the server's own user find.
pub(super) const KEPT_SESSIONS: usize = 4;

/// Starts the thread at the door. `prepare` gives it its priority and cores.
pub(crate) fn attend(
    door: ServiceSocket,
    limits: &system::Limits,
    engine: Arc<Dispatcher>,
    journal: Arc<Journal>,
    prepare: impl FnOnce() + Send + 'static,
) -> Result<Acceptor, Error> {
    let limits = Limits::paced(limits.connects_per_second);
    let refuse = move |socket: &Socket, turned| {
        let (code, text) = words(turned);
        engine.count_refusal();
        let _ = socket.send(Refused::new(code, &text).as_bytes(), &[]);
        let uid = turned.uid().unwrap_or(u32::MAX);
        journal.tell(Kind::Refused, uid, || format!("connection refused: {text}"));
    };
    Acceptor::start(door, limits, prepare, refuse).map_err(Error::system("thread kt-door"))
}

fn words(turned: Turned) -> Refusal {
    match turned {
        Turned::Pace { uid, per_second } => {
            (Code::Limit, format!("user {uid} connects more than {per_second} times a second"))
        }
        Turned::Unfinished { uid, most } => {
            let text = format!("user {uid} has {most} connections open that have not said hello");
            (Code::Limit, text)
        }
        Turned::Full { uid } => {
            let text = "too many connections of all users have not said hello";
            (Code::Limit, format!("user {uid} cannot connect: {text}"))
        }
        Turned::Unknown(errno) => (Code::NotAllowed, format!("no credentials: {errno}")),
    }
}

impl Control {
    pub(super) fn answer_the_door(&mut self) {
        // A bounded number, so that guests do not keep the thread from the sessions.
        for _ in 0..16 {
            let guest = match self.acceptor.next() {
                Ok(Some(guest)) => guest,
                Ok(None) => return,
                Err(errno) => {
                    self.engine.count_refusal();
                    let line = || format!("a connection is lost: {errno}");
                    self.settings.journal.tell(Kind::Refused, u32::MAX, line);
                    continue;
                }
            };
            match self.judge(&guest.socket) {
                Ok(peer) => self.keep(peer, guest),
                Err((uid, (code, text))) => {
                    let _ = guest.socket.send(Refused::new(code, &text).as_bytes(), &[]);
                    self.engine.count_refusal();
                    let line = || format!("connection refused: {text}");
                    self.settings.journal.tell(Kind::Refused, uid, line);
                }
            }
        }
    }

    /// Checks that this connection may stay; if not, returns the user with the reason.
    fn judge(&self, socket: &Socket) -> Result<(Peer, Grant), (u32, Refusal)> {
        let peer = Peer::of(socket.as_fd()).map_err(|unknown| {
            (u32::MAX, (Code::NotAllowed, format!("no credentials: {unknown}")))
        })?;
        let uid = peer.uid;
        let grant = self.settings.access.grant(&peer).ok_or_else(|| {
            let text = format!(
                "user {uid} is not among server.access of this server: add a rule for the user, or \
                 for one of its groups, to the system file, and send SIGHUP to the server"
            );
            (uid, (Code::NotAllowed, text))
        })?;
        self.check_sessions(&peer, &grant).map_err(|refusal| (uid, refusal))?;
        Ok((peer, grant))
    }

    /// Checks that this user may open another session now.
    pub(super) fn check_sessions(&self, peer: &Peer, grant: &Grant) -> Result<(), Refusal> {
        let open = || self.connections.values().filter(|connection| connection.open.is_some());
        let own = open().filter(|connection| connection.peer.uid == peer.uid).count();
        if own >= grant.sessions as usize {
            let text = format!(
                "user {} has {own} sessions open, the limit is {}",
                peer.uid, grant.sessions
            );
            return Err((Code::Limit, text));
        }
        let limit = self.settings.limits.sessions as usize;
        let kept = [0, rustix::process::geteuid().as_raw()].contains(&peer.uid);
        let most = if kept { limit + KEPT_SESSIONS } else { limit };
        if open().count() >= most {
            return Err((Code::Limit, format!("{limit} sessions are open, the server's limit")));
        }
        Ok(())
    }

    fn keep(&mut self, (peer, grant): (Peer, Grant), guest: Guest) {
        let Guest { socket, place } = guest;
        let session = self.next_session;
        self.next_session += 1;
        let watch = |fd: BorrowedFd<'_>, token| self.watch(fd, token, epoll::EventFlags::empty());
        // The end of the socket, which shows as well, has to do where there is none.
        let process = peer.process(socket.as_fd()).ok();
        let watched = watch(socket.as_fd(), 2 * session)
            .and_then(|()| process.as_ref().map_or(Ok(()), |p| watch(p.as_fd(), 2 * session + 1)));
        if watched.is_ok() {
            let since_ns = monotonic_ns();
            let (open, deaf, _process, _place) = (None, false, process, Some(place));
            let connection =
                Connection { socket, peer, _process, grant, since_ns, deaf, _place, open };
            self.connections.insert(session, connection);
        }
    }

    /// Ends the connections that have not said hello in time.
    pub(super) fn end_the_silent(&mut self, now_ns: u64) {
        let late = |c: &Connection| c.open.is_none() && now_ns >= c.since_ns + HELLO_NS;
        let late: Vec<u64> =
            self.connections.iter().filter(|(_, c)| late(c)).map(|(id, _)| *id).collect();
        for session in late {
            self.end(session, Some((Code::Malformed, "no hello within 1 s".into())));
        }
    }
}
