//! A client of an accelerator server on another machine.
//!
//! ```no_run
//! use ros::remote::{Client, Registration, Request};
//! use std::time::Duration;
//!
//! let second = Duration::from_secs(1);
//! let client = Client::connect(&ros::Options::default(), "/keeptime", Default::default(), second)?;
//! let add = Registration::service("vecadd").chain("perception", 42).memory(12 << 10);
//! let mut add = client.register(&add, second)?;
//! let input: Vec<u8> = [1.5f32; 2048].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let answer = add.run(Request::new(input).arguments(&[1024]).output(4096), second)?;
//! assert_eq!(answer.output.len(), 4096);
//! # Ok::<(), ros::remote::Error>(())
//! ```
//!
//! Messages get lost, and come twice: DDS repairs what the link loses, and whatever arrived and is
//! not answered is sent again, with the same number, so that the server executes it once. A thread of the client says that it lives, as long as it
//! has registrations. What a registration holds is freed when it is dropped, or when the server has
//! not heard of the client for the lease.

use crate::message::keeptime::{
    ChainStatus, DeregisterChain, DeregisterRequest, KeepAlive, KeepAliveRequest, ListChains,
    ListRequest, Outcome, RegisterChain, RegisterRequest, RegisterResponse, Submit, SubmitRequest,
    SubmitResponse,
};
use crate::pace::{Due, Pace, Retry};
use crate::{Bell, Context, Mapping, Node, Options, Qos, Service};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// First time to wait for an answer before its request is sent again. It doubles.
const FIRST_RETRY: Duration = Duration::from_millis(50);

/// The longest distance between repetitions.
const LAST_RETRY: Duration = Duration::from_secs(1);

/// Errors of requests to a remote server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server was not seen on the graph.
    #[error("no accelerator server {server} in domain {domain} within {waited:?}")]
    NoServer {
        /// The node's name.
        server: String,
        /// The domain.
        domain: u16,
        /// Time for which the client looked for it.
        waited: Duration,
    },
    /// No answer came within the time given. Whether the request was executed is not known.
    #[error("{what}: no answer within {waited:?}, after {sent} tries")]
    TimedOut {
        /// Name of the request.
        what: &'static str,
        /// The time given.
        waited: Duration,
        /// Number of times that the request was sent.
        sent: u32,
    },
    /// The server said no.
    #[error("the server refused: {} (code {})", .0.reason, .0.code)]
    Refused(Outcome),
    /// The graph failed.
    #[error(transparent)]
    Ros(#[from] crate::Error),
    /// The machine has no random numbers or no thread left.
    #[error("{what}: {reason}")]
    System {
        /// Name of the resource that was asked for.
        what: &'static str,
        /// The reason.
        reason: std::io::Error,
    },
}

/// A registration to ask for: a service, for a callback of a chain.
#[derive(Clone, Debug, Default)]
pub struct Registration(RegisterRequest);

impl Registration {
    /// A registration for the service of this name, in a chain of its own at priority 0.
    pub fn service(name: &str) -> Registration {
        let (service, chain) = (name.to_owned(), name.to_owned());
        Registration(RegisterRequest { service, chain, ..RegisterRequest::default() })
    }

    /// The chain that the callback belongs to, and its priority; larger is more critical.
    pub fn chain(mut self, name: &str, priority: u32) -> Registration {
        (self.0.chain, self.0.priority) = (name.to_owned(), priority);
        self
    }

    /// Bytes for the input and the output of a request together.
    pub fn memory(mut self, bytes: u64) -> Registration {
        self.0.memory_bytes = bytes;
        self
    }

    /// The accelerator, where the server has several that offer the service.
    pub fn accelerator(mut self, id: &str) -> Registration {
        self.0.accelerator = id.to_owned();
        self
    }

    /// The client's own number for the callback.
    pub fn callback(mut self, number: u64) -> Registration {
        self.0.callback = number;
        self
    }
}

/// One request: arguments, input, and how much output is wanted.
#[derive(Clone, Debug, Default)]
pub struct Request {
    arguments: Vec<u64>,
    input: Vec<u8>,
    output_bytes: u64,
}

impl Request {
    /// A request with this input.
    pub fn new(input: Vec<u8>) -> Request {
        Request { input, ..Request::default() }
    }

    /// Arguments of the kernel, at most four.
    pub fn arguments(mut self, arguments: &[u64]) -> Request {
        self.arguments = arguments.to_vec();
        self
    }

    /// The size of the output in bytes.
    pub fn output(mut self, bytes: u64) -> Request {
        self.output_bytes = bytes;
        self
    }
}

/// A connection to a remote server.
pub struct Client {
    shared: Arc<Shared>,
    register: Mutex<crate::Client<RegisterChain>>,
    list: Mutex<crate::Client<ListChains>>,
    sequence: AtomicU64,
    mapping: Mapping,
    stop: Option<Sender<()>>,
    alive: Option<JoinHandle<()>>,
}

/// State of the client that its registrations share.
struct Shared {
    id: [u8; 16],
    keep_alive: crate::Client<KeepAlive>,
    deregister: crate::Client<DeregisterChain>,
    lease_ns: AtomicU64,
    registrations: AtomicU64,
    node: Node,
    _context: Context,
}

impl Client {
    /// Joins the graph, and waits until the server's node is seen.
    ///
    /// # Errors
    /// [`Error::NoServer`]; [`Error::Ros`] when the graph cannot be joined.
    pub fn connect(
        options: &Options,
        server: &str,
        mapping: Mapping,
        patience: Duration,
    ) -> Result<Client, Error> {
        let mut id = [0; 16];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut id))
            .map_err(|reason| Error::System { what: "/dev/urandom", reason })?;
        let context = Context::new(options)?;
        let suffix = u32::from_le_bytes([id[0], id[1], id[2], id[3]]);
        let node = context.node("/", &format!("keeptime_client_{suffix:08x}"))?;
        let name = |service: &str| format!("{server}/{service}");
        let register = node.client(&name("register"), mapping, Qos::default())?;
        let list = node.client(&name("list_chains"), mapping, Qos::default())?;
        let keep_alive = node.client(&name("keep_alive"), mapping, Qos::default())?;
        let deregister = node.client(&name("deregister"), mapping, Qos::default())?;
        let bell = Bell::new()?;
        let start = Instant::now();
        while !(register.is_served() && list.is_served() && deregister.is_served()) {
            if start.elapsed() >= patience {
                let (server, domain) = (server.to_owned(), options.domain);
                return Err(Error::NoServer { server, domain, waited: patience });
            }
            // Discovery has no bell, and is looked at while nothing else goes on.
            bell.wait(Some(Duration::from_millis(20)))?;
        }
        let shared = Arc::new(Shared {
            id,
            keep_alive,
            deregister,
            lease_ns: AtomicU64::new(1_000_000_000),
            registrations: AtomicU64::new(0),
            node,
            _context: context,
        });
        let (stop, stopped) = channel();
        let living = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("keep-alive".into());
        let alive = thread
            .spawn(move || {
                let pause = || Duration::from_nanos(living.lease_ns.load(Ordering::Relaxed) / 4);
                while stopped.recv_timeout(pause()) == Err(RecvTimeoutError::Timeout) {
                    if living.registrations.load(Ordering::Relaxed) > 0 {
                        // The next message makes up for a lost one; answers only say the lease.
                        let _ = living.keep_alive.send(&KeepAliveRequest { client: living.id });
                        while let Ok(Some((_, answer))) = living.keep_alive.take() {
                            let least = answer.lease_ns.max(10_000_000);
                            living.lease_ns.store(least, Ordering::Relaxed);
                        }
                    }
                }
            })
            .map_err(|reason| Error::System { what: "a thread", reason })?;
        Ok(Client {
            shared,
            register: Mutex::new(register),
            list: Mutex::new(list),
            sequence: AtomicU64::new(0),
            mapping,
            stop: Some(stop),
            alive: Some(alive),
        })
    }

    /// The chains of the server.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Refused`].
    pub fn chains(&self, timeout: Duration) -> Result<Vec<ChainStatus>, Error> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let response = call(&*list, "list_chains", &ListRequest { remote_only: false }, timeout)?;
        checked(response.result)?;
        Ok(response.chains)
    }

    /// Registers a callback.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's reason; [`Error::TimedOut`].
    pub fn register(
        &self,
        registration: &Registration,
        timeout: Duration,
    ) -> Result<Callback, Error> {
        let start = Instant::now();
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let client = self.shared.id;
        let request = RegisterRequest { client, sequence, ..registration.0.clone() };
        let register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        let response = call(&*register, "register", &request, timeout)?;
        drop(register);
        checked(response.result.clone())?;
        self.shared.lease_ns.store(response.lease_ns.max(10_000_000), Ordering::Relaxed);
        let bytes = registration.0.memory_bytes as usize;
        let qos = Qos { max_bytes: bytes.saturating_add(1024), ..Qos::default().depth(64) };
        let shared = Arc::clone(&self.shared);
        let submit = shared.node.client(&response.submit_service, self.mapping, qos);
        let bell = Arc::new(Bell::new()?);
        let waiting = BTreeMap::new();
        self.shared.registrations.fetch_add(1, Ordering::Relaxed);
        // From here on it is deregistered when something fails.
        let mut callback = Callback {
            shared,
            submit: None,
            response,
            bell,
            sequence: 0,
            waiting,
            received: SystemTime::UNIX_EPOCH,
            repetitions: 0,
            pace: Pace::default(),
        };
        let submit: crate::Client<Submit> = submit?;
        let ring = Arc::clone(&callback.bell);
        submit.on_response(move || ring.ring());
        while !submit.is_served() {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::TimedOut { what: "submit", waited: timeout, sent: 0 });
            }
            callback.bell.wait(Some(left.min(Duration::from_millis(10))))?;
        }
        callback.submit = Some(submit);
        Ok(callback)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(alive) = self.alive.take() {
            // If it panicked, the lease ends by itself.
            let _ = alive.join();
        }
    }
}

/// A registered callback. Dropping it deregisters.
pub struct Callback {
    shared: Arc<Shared>,
    submit: Option<crate::Client<Submit>>,
    response: RegisterResponse,
    bell: Arc<Bell>,
    sequence: u64,
    waiting: BTreeMap<u64, Option<(SubmitResponse, SystemTime)>>,
    received: SystemTime,
    repetitions: u64,
    pace: Pace,
}

/// A request that was sent. Dropping it forgets the answer; the request itself goes on.
#[derive(Debug)]
pub struct Pending {
    request: SubmitRequest,
    sent: u32,
    begun: Instant,
    timeout: Duration,
    retry: Retry,
}

impl Callback {
    /// Name that the server gives the chain.
    pub fn chain(&self) -> &str {
        &self.response.chain
    }

    /// The bucket that requests go to.
    pub fn bucket(&self) -> u32 {
        self.response.bucket
    }

    /// Number of times that requests were sent again.
    pub fn repetitions(&self) -> u64 {
        self.repetitions
    }

    /// Time at which the last answer that was given out had come to this process. Before the first
    /// one, the beginning of time.
    pub fn received(&self) -> SystemTime {
        self.received
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Refused`].
    pub fn run(&mut self, request: Request, timeout: Duration) -> Result<SubmitResponse, Error> {
        let mut pending = self.submit(request, timeout)?;
        self.wait(&mut pending)
    }

    /// Sends a request and returns at once. The server does not begin it any more when the time is
    /// over.
    ///
    /// # Errors
    /// [`Error::Ros`] when the message cannot be sent.
    pub fn submit(&mut self, request: Request, timeout: Duration) -> Result<Pending, Error> {
        self.sequence += 1;
        let Request { arguments, input, output_bytes } = request;
        let request = SubmitRequest {
            client: self.shared.id,
            registration: self.response.registration,
            sequence: self.sequence,
            timeout_ns: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
            arguments,
            input,
            output_bytes,
        };
        let begun = Instant::now();
        let bytes = request.input.len() as u64;
        let retry = self.pace.begin(begun, bytes.saturating_add(output_bytes));
        let mut pending = Pending { request, sent: 0, begun, timeout, retry };
        self.waiting.insert(self.sequence, None);
        self.send(&mut pending)?;
        Ok(pending)
    }

    /// The answer, if it has come. Sends the request again when that is due.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Refused`].
    pub fn poll(&mut self, pending: &mut Pending) -> Result<Option<SubmitResponse>, Error> {
        self.receive()?;
        let sequence = pending.request.sequence;
        if let Some(Some(_)) = self.waiting.get(&sequence) {
            let answer = self.waiting.remove(&sequence).flatten();
            let Some((answer, received)) = answer else { return Ok(None) };
            self.received = received;
            self.pace.answered(&pending.retry, pending.begun.elapsed(), pending.sent);
            checked(answer.result.clone())?;
            return Ok(Some(answer));
        }
        if pending.begun.elapsed() >= pending.timeout {
            self.waiting.remove(&sequence);
            let (waited, sent) = (pending.timeout, pending.sent);
            return Err(Error::TimedOut { what: "submit", waited, sent });
        }
        let is_acknowledged = || self.submit.as_ref().is_some_and(crate::Client::is_acknowledged);
        let now = Instant::now();
        if now >= pending.retry.next() && pending.retry.due(now, is_acknowledged()) == Due::Send {
            self.repetitions += u64::from(pending.sent > 0);
            pending.retry.repeated(now);
            self.send(pending)?;
        }
        Ok(None)
    }

    /// Waits for an answer, as long as the request's time is not over.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Refused`].
    pub fn wait(&mut self, pending: &mut Pending) -> Result<SubmitResponse, Error> {
        loop {
            if let Some(answer) = self.poll(pending)? {
                return Ok(answer);
            }
            let left = pending.timeout.saturating_sub(pending.begun.elapsed());
            let next = pending.retry.next().saturating_duration_since(Instant::now());
            self.bell.wait(Some(left.min(next)))?;
        }
    }

    fn send(&mut self, pending: &mut Pending) -> Result<(), Error> {
        let Some(submit) = &self.submit else { return Ok(()) };
        match submit.send(&pending.request) {
            Ok(_) => pending.sent += 1,
            // The link is full or down: the next try comes.
            Err(crate::Error::WouldBlock { .. }) => pending.retry.refused(Instant::now()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Keeps the answers that are waited for.
    fn receive(&mut self) -> Result<(), Error> {
        let Some(submit) = &self.submit else { return Ok(()) };
        loop {
            match submit.take_with_time() {
                Ok(None) => return Ok(()),
                Ok(Some((_, response, received))) => {
                    if let Some(place) = self.waiting.get_mut(&response.sequence) {
                        *place = Some((response, received));
                    }
                }
                // From whoever it was: the request is sent again.
                Err(crate::Error::Malformed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.shared.registrations.fetch_sub(1, Ordering::Relaxed);
        let (client, registration) = (self.shared.id, self.response.registration);
        // If this is lost, the lease frees it, once the client has no other registrations.
        let _ = self.shared.deregister.send(&DeregisterRequest { client, registration });
    }
}

fn checked(outcome: Outcome) -> Result<(), Error> {
    match outcome.code {
        Outcome::OK => Ok(()),
        _ => Err(Error::Refused(outcome)),
    }
}

/// Calls a service whose requests may be repeated.
fn call<S: Service>(
    client: &crate::Client<S>,
    what: &'static str,
    request: &S::Request,
    timeout: Duration,
) -> Result<S::Response, Error> {
    let bell = Arc::new(Bell::new()?);
    let ring = Arc::clone(&bell);
    client.on_response(move || ring.ring());
    let start = Instant::now();
    let mut retry = FIRST_RETRY;
    let mut numbers = Vec::new();
    while start.elapsed() < timeout {
        numbers.push(client.send(request)?);
        let next = Instant::now() + retry;
        retry = (2 * retry).min(LAST_RETRY);
        loop {
            while let Some((number, response)) = client.take()? {
                if numbers.contains(&number) {
                    return Ok(response);
                }
            }
            let left = timeout.saturating_sub(start.elapsed());
            let left = left.min(next.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            bell.wait(Some(left))?;
        }
    }
    Err(Error::TimedOut { what, waited: timeout, sent: numbers.len() as u32 })
}
