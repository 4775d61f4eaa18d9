//! The client: connects, registers callbacks, sends requests and waits for them.
//!
//! A [`Client`] belongs to one thread at a time, like the ring behind it; a program with several
//! executors opens one client in each. Requests of one client may be outstanding together, up to
//! [`SLOTS`](crate::session::SLOTS).
//!
//! The memory of a registration belongs to the client: a sealed segment that it creates, passes
//! to the server and keeps. When the server restarts, the client finds it again, passes the same
//! memory, and its contents are still there.

use crate::Error;
use crate::control::{self, Packet};
use crate::link::{Link, lost};
use crate::registration::{Callback, CallbackId, Registration};
use crate::request::{Order, Request, Status};
use crate::ticket::{RequestOutcome, Ticket};
use realtime::clock::monotonic_ns;
use shm::peer::ServerUser;
use shm::{PeerSlice, Segment};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Longest sleep of a waiting client before it checks that the server still lives.
const LIVENESS_NS: u64 = 20_000_000;

/// Returns the path at which a client looks for its server by default: `$KEEPTIME_SOCKET`; without
/// it the socket of a server of this user, if there is one: `$XDG_RUNTIME_DIR/keeptime/keeptime.sock`,
/// `/run/user/UID/keeptime/keeptime.sock`, `/tmp/keeptime-UID/keeptime.sock`; otherwise
/// `/run/keeptime/keeptime.sock`.
///
/// A program with more rights than the user who started it (set-user-id, set-group-id, capabilities
/// of its file) does not look at these variables.
pub fn default_socket() -> PathBuf {
    shm::environment::server_socket("KEEPTIME_SOCKET", "keeptime")
}

/// Way in which a client waits for a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Sleeps until the server wakes it.
    #[default]
    Suspend,
    /// Watches the completion and keeps its core busy.
    Spin,
}

/// A connection to an accelerator server, with its registered callbacks.
pub struct Client {
    path: PathBuf,
    user: ServerUser,
    link: Option<Link>,
    callbacks: Vec<Option<Callback>>,
    launches: u64,
    wait: Wait,
}

impl Client {
    /// Connects to the server at a socket's path.
    ///
    /// # Errors
    /// [`Error::NoServer`], also if it takes no connection within [`crate::CONNECT_PATIENCE`];
    /// [`Error::Stranger`] when it is neither root's nor of the user whose rights this program
    /// has; [`Error::Refused`], or [`Error::Protocol`] when something else listens there.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, Error> {
        Client::connect_to(path, ServerUser::default())
    }

    /// Connects to the server of a certain user, who is trusted with what this program asks for
    /// and computes. It is named here and never in the environment, which may be another user's.
    ///
    /// # Errors
    /// As for [`Client::connect`].
    pub fn connect_to(path: impl AsRef<Path>, user: ServerUser) -> Result<Client, Error> {
        let path = path.as_ref().to_path_buf();
        let link = Link::open(&path, user)?;
        let wait = Wait::Suspend;
        Ok(Client { path, user, link: Some(link), callbacks: Vec::new(), launches: 0, wait })
    }

    /// Chooses how this client waits from now on.
    pub fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// Registers a callback for a service.
    ///
    /// # Errors
    /// [`Error::Refused`] says what the server found and expected; [`Error::Memory`] when the
    /// memory cannot be had.
    pub fn register(&mut self, registration: &Registration) -> Result<CallbackId, Error> {
        let segment = match registration.memory {
            0 => None,
            bytes => Some(Segment::create("keeptime-data", bytes)?),
        };
        let memory = match &segment {
            None => PeerSlice::empty(),
            Some(segment) => PeerSlice::whole(segment.map()?),
        };
        let registration = registration.clone();
        let mut callback = Callback { registration, segment, memory, number: 0, bucket: 0 };
        self.with_link(|link, _| link.register(&mut callback))?;
        let free = self.callbacks.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.callbacks.push(None);
            self.callbacks.len() - 1
        });
        self.callbacks[index] = Some(callback);
        Ok(CallbackId(index))
    }

    /// Ends a registration. Its queued requests end as cancelled.
    ///
    /// # Errors
    /// [`Error::UnknownCallback`], [`Error::ServerLost`].
    pub fn deregister(&mut self, callback: CallbackId) -> Result<(), Error> {
        let number = self.callback(callback)?.number;
        self.with_link(|link, _| {
            let ask = control::Deregister { kind: control::Deregister::KIND, registration: number };
            link.ask::<control::Done>(ask.as_bytes(), &[]).map(|_| ())
        })?;
        self.callbacks[callback.0] = None;
        Ok(())
    }

    /// Gives a callback's chain another priority, for requests sent from now on.
    ///
    /// A chain that was declared moves as a whole, with its callbacks in other clients; these keep
    /// declaring the old priority when they connect anew, and are refused then. A chain that was
    /// not declared is not known as one: only this callback moves.
    ///
    /// # Errors
    /// [`Error::Refused`] when this user may not ask for it, or when a chain would miss its
    /// deadline: then everything is as before. [`Error::UnknownCallback`].
    pub fn reprioritise(&mut self, callback: CallbackId, priority: u32) -> Result<(), Error> {
        let registration = self.callback(callback)?.number;
        let answer = self.with_link(|link, _| {
            let kind = control::Reprioritise::KIND;
            let ask = control::Reprioritise { kind, registration, chain_priority: priority };
            link.ask::<control::Registered>(ask.as_bytes(), &[])
        })?;
        let moved = self.callback_mut(callback)?;
        moved.bucket = answer.bucket;
        moved.registration.priority = priority;
        if moved.registration.declares() {
            let chain = moved.registration.chain_name().to_owned();
            let callbacks = self.callbacks.iter_mut().flatten();
            for callback in callbacks.filter(|c| c.registration.declares()) {
                if callback.registration.chain_name() == chain {
                    callback.registration.priority = priority;
                }
            }
        }
        Ok(())
    }

    /// The memory of a callback, shared with the server and the device.
    ///
    /// # Errors
    /// [`Error::UnknownCallback`].
    pub fn memory(&self, callback: CallbackId) -> Result<&PeerSlice, Error> {
        Ok(&self.callback(callback)?.memory)
    }

    /// The bucket in which the server put the callback when it registered.
    ///
    /// # Errors
    /// [`Error::UnknownCallback`].
    pub fn bucket(&self, callback: CallbackId) -> Result<u32, Error> {
        Ok(self.callback(callback)?.bucket)
    }

    /// Sends a request and waits until it is done.
    ///
    /// # Errors
    /// [`Error::Failed`] with how it ended; [`Error::ServerLost`] when the server went away
    /// meanwhile; [`Error::Full`].
    pub fn run(
        &mut self,
        callback: CallbackId,
        request: &Request,
    ) -> Result<RequestOutcome, Error> {
        let mut ticket = self.submit(callback, request)?;
        self.wait(&mut ticket, None)?.ok()
    }

    /// Sends a request and returns at once.
    ///
    /// # Errors
    /// [`Error::Full`] when [`SLOTS`](crate::session::SLOTS) requests are outstanding; [`Error::UnknownCallback`].
    pub fn submit(&mut self, callback: CallbackId, request: &Request) -> Result<Ticket, Error> {
        self.callback(callback)?;
        self.refresh()?;
        let number = self.callback(callback)?.number;
        self.launches += 1;
        let launch_id = self.launches;
        let request = *request;
        self.send(launch_id, |slot| Order::Launch {
            launch_id,
            registration: number,
            slot,
            request,
        })
    }

    /// The outcome of a request, if it is there.
    ///
    /// # Errors
    /// [`Error::ServerLost`].
    pub fn poll(&mut self, ticket: &mut Ticket) -> Result<Option<RequestOutcome>, Error> {
        if let Some(outcome) = ticket.outcome {
            return Ok(Some(outcome));
        }
        let link = self.link_of(ticket)?;
        match link.cell(ticket).and_then(|cell| cell.poll()) {
            Some(completion) => link.settle(ticket, &completion).map(Some),
            None if monotonic_ns().saturating_sub(link.alive_ns) < LIVENESS_NS => Ok(None),
            None => self.check_alive(Some(ticket.launch_id)).map(|()| None),
        }
    }

    /// Waits for a request, at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], after which the ticket is still good; [`Error::ServerLost`].
    pub fn wait(
        &mut self,
        ticket: &mut Ticket,
        timeout: Option<Duration>,
    ) -> Result<RequestOutcome, Error> {
        let end = timeout.map(|time| monotonic_ns().saturating_add(time.as_nanos() as u64));
        loop {
            if let Some(outcome) = self.poll(ticket)? {
                return Ok(outcome);
            }
            let now = monotonic_ns();
            let left = end.map_or(u64::MAX, |end| end.saturating_sub(now));
            if left == 0 {
                return Err(Error::TimedOut { launch_id: ticket.launch_id });
            }
            self.doze(ticket, left.min(LIVENESS_NS));
        }
    }

    /// Takes a request back if it has not begun. True when it was taken back: it then ends as
    /// cancelled. False when it had begun or ended already: wait for it as usual.
    ///
    /// # Errors
    /// [`Error::ServerLost`]; [`Error::Full`] when no slot is left to ask with.
    pub fn cancel(&mut self, ticket: &mut Ticket) -> Result<bool, Error> {
        if ticket.outcome.is_some() {
            return Ok(false);
        }
        self.link_of(ticket)?;
        self.launches += 1;
        let (launch_id, target_slot, target_launch_id) =
            (self.launches, ticket.slot, ticket.launch_id);
        let mut asking = self.send(launch_id, |slot| Order::Cancel {
            launch_id,
            slot,
            target_slot,
            target_launch_id,
        })?;
        Ok(self.wait(&mut asking, None)?.status == Status::Done)
    }

    /// The server's counters.
    ///
    /// # Errors
    /// [`Error::ServerLost`].
    pub fn status(&mut self) -> Result<control::Counters, Error> {
        let ask = control::QueryStatus { kind: control::QueryStatus::KIND };
        self.ask(ask.as_bytes())
    }

    /// Connects again, for as long as `patience` lasts, and registers all callbacks anew. Only
    /// needed to wait for a server that is being restarted; other calls connect by themselves.
    ///
    /// # Errors
    /// That of the last try.
    pub fn reconnect(&mut self, patience: Duration) -> Result<(), Error> {
        let end = monotonic_ns().saturating_add(patience.as_nanos() as u64);
        self.drop_link();
        loop {
            match self.with_link(|_, _| Ok(())) {
                Err(Error::NoServer { .. } | Error::ServerLost { .. }) if monotonic_ns() < end => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
    }

    /// Asks on the control plane.
    pub(crate) fn ask<A: Packet>(&mut self, ask: &[u8]) -> Result<A, Error> {
        self.with_link(|link, _| link.ask::<A>(ask, &[]))
    }

    fn callback(&self, id: CallbackId) -> Result<&Callback, Error> {
        self.callbacks.get(id.0).and_then(Option::as_ref).ok_or(Error::UnknownCallback(id.0))
    }

    fn callback_mut(&mut self, id: CallbackId) -> Result<&mut Callback, Error> {
        self.callbacks.get_mut(id.0).and_then(Option::as_mut).ok_or(Error::UnknownCallback(id.0))
    }

    /// Runs `act` on the link, which is opened first if it was lost.
    fn with_link<T>(
        &mut self,
        act: impl FnOnce(&mut Link, &mut [Option<Callback>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.link.is_none() {
            let mut link = Link::open(&self.path, self.user)?;
            for callback in self.callbacks.iter_mut().flatten() {
                link.register(callback)?;
            }
            self.link = Some(link);
        }
        let link = self.link.as_mut().expect("opened above");
        let result = act(link, &mut self.callbacks);
        if matches!(result, Err(Error::ServerLost { .. })) {
            self.drop_link();
        }
        result
    }

    fn drop_link(&mut self) {
        self.link = None;
    }

    /// Checks that the server is still there, before a request that is sent after a pause.
    fn refresh(&mut self) -> Result<(), Error> {
        let stale = |link: &Link| monotonic_ns().saturating_sub(link.alive_ns) >= LIVENESS_NS;
        if self.link.as_ref().is_some_and(stale) && self.check_alive(None).is_err() {
            self.drop_link();
        }
        self.with_link(|_, _| Ok(()))
    }

    fn check_alive(&mut self, launch_id: Option<u64>) -> Result<(), Error> {
        let link = self.link.as_mut().ok_or_else(|| lost(launch_id, ""))?;
        let result = link.check_alive(launch_id);
        if result.is_err() {
            self.drop_link();
        }
        result
    }

    fn send(&mut self, launch_id: u64, order: impl FnOnce(u16) -> Order) -> Result<Ticket, Error> {
        self.with_link(|link, _| {
            let slot = link.take_slot()?;
            let (abandoned, submitted_ns) = (link.abandoned.clone(), monotonic_ns());
            link.send(slot, &order(slot))?;
            Ok(Ticket { slot, launch_id, submitted_ns, abandoned, outcome: None })
        })
    }

    /// The link that a ticket belongs to, unless that link is gone.
    fn link_of(&mut self, ticket: &Ticket) -> Result<&mut Link, Error> {
        let link =
            self.link.as_mut().filter(|link| Arc::ptr_eq(&link.abandoned, &ticket.abandoned));
        link.ok_or_else(|| lost(Some(ticket.launch_id), ""))
    }

    /// Waits in the chosen way until something may have changed, at most `limit_ns`.
    fn doze(&mut self, ticket: &Ticket, limit_ns: u64) {
        let Some(link) = &self.link else { return };
        let Some(cell) = link.cell(ticket) else { return };
        match self.wait {
            Wait::Suspend => {
                cell.wait(Some(Duration::from_nanos(limit_ns)));
            }
            Wait::Spin => {
                let end = monotonic_ns().saturating_add(limit_ns);
                while cell.poll().is_none() && monotonic_ns() < end {
                    for _ in 0..32 {
                        std::hint::spin_loop();
                        if cell.poll().is_some() {
                            return;
                        }
                    }
                }
            }
        }
    }
}
