//! Operations of a callback while it runs.

use crate::Error;
use crate::executor::Stop;
use accel::{CallbackId, Client, Outcome, Request, Ticket};
use shm::PeerSlice;
use std::time::Duration;

/// Handed to every callback: accelerators, and the executor itself.
///
/// There is one for each thread, with a connection of its own. A callback that waits for an
/// accelerator keeps its thread: no other callback runs on it meanwhile.
pub struct Context {
    pub(crate) client: Option<Client>,
    pub(crate) stop: Stop,
    pub(crate) ready_ns: u64,
}

impl Context {
    /// Since when the callback has been ready, by the monotonic clock: the nominal release of its
    /// timer, or the arrival of its message.
    pub fn ready_ns(&self) -> u64 {
        self.ready_ns
    }

    /// Has a request done and waits for its end, asleep or spinning, as the executor was told to
    /// when it connected.
    ///
    /// # Errors
    /// [`Error::NotConnected`], and everything that [`Client::run`] fails with.
    pub fn run(&mut self, service: CallbackId, request: &Request) -> Result<Outcome, Error> {
        Ok(self.client()?.run(service, request)?)
    }

    /// Sends a request and goes on at once.
    ///
    /// # Errors
    /// [`Error::NotConnected`], and everything that [`Client::submit`] fails with.
    pub fn submit(&mut self, service: CallbackId, request: &Request) -> Result<Ticket, Error> {
        Ok(self.client()?.submit(service, request)?)
    }

    /// The outcome of a request of this callback, if it is there.
    ///
    /// # Errors
    /// [`Error::NotConnected`], and everything that [`Client::poll`] fails with.
    pub fn poll(&mut self, ticket: &mut Ticket) -> Result<Option<Outcome>, Error> {
        Ok(self.client()?.poll(ticket)?)
    }

    /// Waits for a request of this callback, at most `timeout`. A ticket is good on the thread
    /// that sent it only: wait before the callback returns, or use a
    /// [`Continuation`](crate::Continuation).
    ///
    /// # Errors
    /// [`Error::NotConnected`], and everything that [`Client::wait`] fails with.
    pub fn wait(
        &mut self,
        ticket: &mut Ticket,
        timeout: Option<Duration>,
    ) -> Result<Outcome, Error> {
        Ok(self.client()?.wait(ticket, timeout)?)
    }

    /// This thread's memory of a registered service.
    ///
    /// # Errors
    /// [`Error::NotConnected`], [`accel::Error::UnknownCallback`].
    pub fn memory(&mut self, service: CallbackId) -> Result<&PeerSlice, Error> {
        Ok(self.client()?.memory(service)?)
    }

    /// Ends the executor after this callback.
    pub fn stop(&self) {
        self.stop.stop();
    }

    fn client(&mut self) -> Result<&mut Client, Error> {
        self.client.as_mut().ok_or(Error::NotConnected)
    }
}
