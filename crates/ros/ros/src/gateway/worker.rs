//! One registration: a session of the accelerator server, and the service that requests come to.
//!
//! Each registration has a thread of its own, and a request topic and a response topic of its own.
//! A client that floods its registration overwrites only its own requests, and one that died without
//! acknowledging its answers holds up no other client's.
//!
//! The requests of a registration are executed one after the other, in the order of arrival; among
//! registrations the server decides, by chain priority.

use super::limits::output;
use super::window::{Verdict, Window};
use crate::message::keeptime::{Outcome, Submit, SubmitRequest, SubmitResponse};
use crate::pace::REPAIR;
use crate::{Bell, Error, Mapping, Node, Qos, RequestId, Server};
use accel::{CallbackId, Client, Registration, Request};
use realtime::clock::monotonic_ns;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Period in which a thread that waits for the server checks that it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Longest delay of an answer until its client is found, as in ROS 2 itself.
const CONNECT: Duration = Duration::from_millis(100);

/// Period of the check that the client has been found: nothing reports it.
const LOOK_FOR_CLIENT: Duration = Duration::from_millis(1);

/// Parts of a registration.
pub(crate) struct Order {
    pub number: u32,
    pub client: [u8; 16],
    pub registration: Registration,
    pub memory: u64,
    pub service: String,
    pub mapping: Mapping,
    pub in_flight: u16,
    pub socket: PathBuf,
    pub node: Arc<Node>,
    pub shared: Arc<Shared>,
}

/// State shared by a registration's thread and the gateway.
pub(crate) struct Shared {
    pub bell: Arc<Bell>,
    pub stop: AtomicBool,
    pub heard: Heard,
    pub counts: Counts,
}

/// Time at which a client was last heard, in nanoseconds since the gateway began.
#[derive(Clone)]
pub(crate) struct Heard {
    start: Instant,
    last: Arc<AtomicU64>,
}

impl Heard {
    pub(super) fn new(start: Instant) -> Heard {
        let heard = Heard { start, last: Arc::default() };
        heard.now();
        heard
    }

    pub(super) fn now(&self) {
        // Relaxed: a time stamp, which orders nothing else.
        self.last.store(self.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    pub(super) fn silent(&self) -> Duration {
        let last = Duration::from_nanos(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }
}

/// Counts of a registration. Relaxed: nothing depends on them.
#[derive(Default)]
pub(crate) struct Counts {
    pub requests: AtomicU64,
    pub total_ns: AtomicU64,
    pub longest_ns: AtomicU64,
    pub expired: AtomicU64,
    pub repeated: AtomicU64,
    pub refused: AtomicU64,
    pub malformed: AtomicU64,
}

impl Counts {
    pub(super) fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Registers, says what came of it, and then serves until it is told to stop.
pub(crate) fn run(order: Order, registered: impl FnOnce(Result<u32, Outcome>)) {
    match Worker::new(order) {
        Ok(mut worker) => {
            registered(Ok(worker.bucket));
            worker.serve();
        }
        Err(outcome) => registered(Err(outcome)),
    }
}

struct Worker {
    number: u32,
    owner: [u8; 16],
    memory: u64,
    client: Client,
    callback: CallbackId,
    bucket: u32,
    server: Server<Submit>,
    window: Window<SubmitResponse>,
    sent: Instant,
    shared: Arc<Shared>,
}

impl Worker {
    fn new(order: Order) -> Result<Worker, Outcome> {
        let mut client = Client::connect(&order.socket).map_err(|error| outcome(&error))?;
        let callback = client.register(&order.registration).map_err(|error| outcome(&error))?;
        let bucket = client.bucket(callback).map_err(|error| outcome(&error))?;
        let qos = Qos {
            max_bytes: (order.memory as usize).saturating_add(1024),
            window: order.in_flight.saturating_mul(4),
            ..Qos::default().depth(order.in_flight)
        };
        let failed = |error: Error| Outcome::new(Outcome::UNAVAILABLE, error.to_string());
        let server = order.node.server(&order.service, order.mapping, qos).map_err(failed)?;
        let bell = Arc::clone(&order.shared.bell);
        server.on_request(move || bell.ring());
        Ok(Worker {
            number: order.number,
            owner: order.client,
            memory: order.memory,
            client,
            callback,
            bucket,
            window: Window::new(order.in_flight.into()),
            sent: Instant::now(),
            server,
            shared: order.shared,
        })
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    fn serve(&mut self) {
        while !self.stopped() {
            match self.server.take() {
                Ok(Some((id, request))) => {
                    let response = self.answer(&id, &request);
                    self.respond(&id, &response);
                }
                Ok(None) => {
                    if self.shared.bell.wait(None).is_err() {
                        return;
                    }
                }
                Err(_) => Counts::add(&self.shared.counts.malformed),
            }
        }
    }

    fn respond(&mut self, id: &RequestId, response: &SubmitResponse) {
        if response.repeated && self.sent.elapsed() < REPAIR && !self.server.is_acknowledged() {
            // DDS repairs the first copy; a second one would make both late.
            return;
        }
        // A request may come before DDS has connected this side's writer with its client.
        let start = Instant::now();
        while !self.server.is_heard() && start.elapsed() < CONNECT && !self.stopped() {
            // Rings for requests are not missed: they are looked for before the next wait.
            let _ = self.shared.bell.wait(Some(LOOK_FOR_CLIENT));
        }
        self.sent = Instant::now();
        // A client that does not take its answers asks again, or has gone.
        let _ = self.server.respond(id, response);
    }

    fn answer(&mut self, id: &RequestId, request: &SubmitRequest) -> SubmitResponse {
        let counts = &self.shared.counts;
        let sequence = request.sequence;
        let refuse = |code, reason: &str| {
            let result = Outcome::new(code, reason);
            SubmitResponse { result, sequence, ..SubmitResponse::default() }
        };
        if request.client != self.owner || request.registration != self.number {
            Counts::add(&counts.refused);
            return refuse(Outcome::UNKNOWN, "no such registration of this client");
        }
        self.shared.heard.now();
        match self.window.ask(sequence) {
            Verdict::Kept(answer) => {
                Counts::add(&counts.repeated);
                return SubmitResponse { repeated: true, ..answer.clone() };
            }
            Verdict::TooOld | Verdict::Pending => {
                Counts::add(&counts.refused);
                return refuse(Outcome::TOO_OLD, "sequence: its answer is not kept any more");
            }
            Verdict::New => {}
        }
        let response = self.execute(id, request);
        self.count(&response, age(id));
        self.window.keep(sequence, response.clone());
        response
    }

    fn count(&self, response: &SubmitResponse, took: Duration) {
        let counts = &self.shared.counts;
        match response.result.code {
            Outcome::OK => {
                let took = took.as_nanos() as u64;
                Counts::add(&counts.requests);
                counts.total_ns.fetch_add(took, Ordering::Relaxed);
                counts.longest_ns.fetch_max(took, Ordering::Relaxed);
            }
            Outcome::EXPIRED => Counts::add(&counts.expired),
            _ => Counts::add(&counts.refused),
        }
    }

    fn execute(&mut self, id: &RequestId, request: &SubmitRequest) -> SubmitResponse {
        let mut response =
            SubmitResponse { sequence: request.sequence, ..SubmitResponse::default() };
        if let Err(result) = self.launch(id, request, &mut response) {
            response.result = result;
            response.output.clear();
        }
        response
    }

    fn launch(
        &mut self,
        id: &RequestId,
        request: &SubmitRequest,
        response: &mut SubmitResponse,
    ) -> Result<(), Outcome> {
        let (offset, length) = output(request, self.memory)?;
        let expired = || Outcome::new(Outcome::EXPIRED, "timeout over before the request began");
        let timeout = match request.timeout_ns {
            0 => Duration::MAX,
            timeout_ns => Duration::from_nanos(timeout_ns),
        };
        if age(id) >= timeout {
            return Err(expired());
        }
        let memory = self.client.memory(self.callback).map_err(|error| outcome(&error))?;
        let failed = |error: shm::Error| Outcome::new(Outcome::FAILED, error.to_string());
        memory.write(0, &request.input).map_err(failed)?;
        let launch = Request::new()
            .arguments(&request.arguments)
            .input(0, request.input.len())
            .output(offset, length);
        response.arrived_ns = arrived_ns(id);
        let mut ticket =
            self.client.submit(self.callback, &launch).map_err(|error| outcome(&error))?;
        let mut cancelled = false;
        let done = loop {
            let left = timeout.saturating_sub(age(id)).max(Duration::from_micros(100));
            match self.client.wait(&mut ticket, Some(left.min(LOOK))) {
                Ok(done) => break done,
                Err(accel::Error::TimedOut { .. }) => {}
                Err(error) => return Err(outcome(&error)),
            }
            if !cancelled && (age(id) >= timeout || self.stopped()) {
                // One try: what has begun is waited for.
                cancelled = true;
                self.client.cancel(&mut ticket).map_err(|error| outcome(&error))?;
            }
        };
        if done.status == accel::Status::Cancelled {
            return Err(expired());
        }
        done.ok().map_err(|error| outcome(&error))?;
        response.waited_ns = done.submitted_ns.saturating_sub(response.arrived_ns);
        response.noticed_ns = done.arrived_ns.saturating_sub(done.submitted_ns);
        response.queued_ns = done.started_ns.saturating_sub(done.submitted_ns);
        response.executed_ns = done.finished_ns.saturating_sub(done.started_ns);
        response.output = vec![0; length];
        let memory = self.client.memory(self.callback).map_err(|error| outcome(&error))?;
        memory.read(offset, &mut response.output).map_err(failed)?;
        response.returned_ns = monotonic_ns().saturating_sub(done.finished_ns);
        Ok(())
    }
}

fn age(id: &RequestId) -> Duration {
    SystemTime::now().duration_since(id.received()).unwrap_or_default()
}

/// Returns the time at which the request came, on the monotonic clock.
fn arrived_ns(id: &RequestId) -> u64 {
    monotonic_ns().saturating_sub(age(id).as_nanos() as u64)
}

/// Translates an error of the server into the outcome that a client on the graph gets.
fn outcome(error: &accel::Error) -> Outcome {
    let code = match error {
        accel::Error::Refused(_) => Outcome::REFUSED,
        accel::Error::NoServer { .. } | accel::Error::ServerLost { .. } => Outcome::UNAVAILABLE,
        accel::Error::BadName { .. } => Outcome::MALFORMED,
        _ => Outcome::FAILED,
    };
    Outcome::new(code, error.to_string())
}
