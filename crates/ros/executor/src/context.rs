//! Operations of a callback while it runs.

use crate::Error;
use crate::executor::Stop;
use accel::Client;

/// Handed to every callback: accelerators, and the executor itself.
///
/// There is one for each thread, with a connection of its own. A callback that waits for an
/// accelerator keeps its thread: no other callback runs on it meanwhile.
pub struct Context {
    pub(crate) client: Option<Client>,
    pub(crate) stop: Stop,
    pub(crate) ready_ns: u64,
    pub(crate) until_ns: u64,
}

impl Context {
    /// Time since which the callback has been ready, by the monotonic clock: the nominal release of
    /// its timer, or the arrival of its message.
    pub fn ready_ns(&self) -> u64 {
        self.ready_ns
    }

    /// Latest time at which the executor ends, by the monotonic clock.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// This thread's connection to the accelerator server. It waits for requests as the executor was
    /// told to when it connected. A ticket is good on the thread that sent its request only: wait for
    /// it before the callback returns, or use a [`Continuation`](crate::Continuation).
    ///
    /// # Errors
    /// [`Error::NotConnected`].
    pub fn accelerators(&mut self) -> Result<&mut Client, Error> {
        self.client.as_mut().ok_or(Error::NotConnected)
    }

    /// Ends the executor after this callback.
    pub fn stop(&self) {
        self.stop.stop();
    }
}
