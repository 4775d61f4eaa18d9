//! Callbacks that run when an accelerator request has ended.
//!
//! No thread can sleep for messages, for releases and for completions at once: completions are
//! words of memory that each client shares with the server. So each continuation has a *clerk*, a
//! thread with a connection of its own that sends a request, sleeps until it is done, and puts the
//! outcome into a queue, which releases the continuation as a message would. The clerk has the
//! executor's priority and nearly no work.
//!
//! Requests of one continuation are done in the order in which they were sent, one at a time.

use crate::executor::{Helper, Stop};
use crate::input::{Arrived, Input, Queue};
use crate::{Bell, Error};
use accel::{CallbackId, Client, Registration, Request, RequestOutcome};
use shm::PeerSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests of one continuation that may be on the way.
const MAX_OUTSTANDING: usize = 16;

/// Result of a request of a continuation.
pub type Ended = Result<RequestOutcome, accel::Error>;

/// Sends requests whose end releases a callback.
#[derive(Clone)]
pub struct Continuation {
    line: Arc<Line>,
    memory: PeerSlice,
}

/// State that the sender, the clerk and the callback share.
struct Line {
    requests: Arc<Queue<Request>>,
    ended: Arc<Queue<Ended>>,
    outstanding: AtomicUsize,
}

impl Continuation {
    /// Sends a request. The callback runs when it has ended, whatever its end is.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub fn submit(&self, request: &Request) -> Result<(), Error> {
        // Relaxed: only the number matters; the queues order what they carry.
        let more = |count| (count < MAX_OUTSTANDING).then_some(count + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.line.outstanding.fetch_update(set, fetch, more).is_err() {
            return Err(Error::Full { outstanding: MAX_OUTSTANDING });
        }
        self.line.requests.push(*request);
        Ok(())
    }

    /// The memory that requests and results share. A request that is on the way may use it.
    pub fn memory(&self) -> &PeerSlice {
        &self.memory
    }
}

/// The outcomes, as an input: taking one makes room for a request.
pub(crate) struct Outcomes(Arc<Line>);

impl Input for Outcomes {
    type Message = Ended;

    fn ready(&self) -> bool {
        self.0.ended.ready()
    }

    fn take(&self) -> Option<Arrived<Ended>> {
        let ended = self.0.ended.take()?;
        self.0.outstanding.fetch_sub(1, Ordering::Relaxed);
        Some(ended)
    }

    fn dropped(&self) -> u64 {
        self.0.ended.dropped()
    }

    fn connect(&self, bell: Arc<Bell>) {
        self.0.ended.connect(bell);
    }
}

/// The thread behind a continuation.
struct Clerk {
    line: Arc<Line>,
    client: Client,
    service: CallbackId,
    bell: Arc<Bell>,
}

/// Connects a clerk and registers its service.
pub(crate) fn open(
    socket: &Path,
    registration: &Registration,
) -> Result<(Continuation, Outcomes, Helper), Error> {
    let mut client = Client::connect(socket)?;
    let service = client.register(registration)?;
    let memory = client.memory(service)?.clone();
    let (requests, ended) = (Queue::new(MAX_OUTSTANDING), Queue::new(MAX_OUTSTANDING));
    let bell = Arc::new(Bell::default());
    requests.connect(bell.clone());
    let line = Arc::new(Line { requests, ended, outstanding: AtomicUsize::new(0) });
    let mut clerk = Clerk { line: line.clone(), client, service, bell: bell.clone() };
    let helper = Helper {
        work: Box::new(move |stop| clerk.work(stop)),
        wake: Box::new(move || bell.ring()),
    };
    Ok((Continuation { line: line.clone(), memory }, Outcomes(line), helper))
}

impl Clerk {
    /// Sends and waits until the executor stops.
    fn work(&mut self, stop: &Stop) {
        loop {
            let seen = self.bell.rings();
            match self.line.requests.take() {
                Some(Arrived { message, .. }) => {
                    let ended = self.client.run(self.service, &message);
                    self.line.ended.push(ended);
                }
                None if stop.is_set() => return,
                None => self.bell.wait(seen, u64::MAX),
            }
        }
    }
}
