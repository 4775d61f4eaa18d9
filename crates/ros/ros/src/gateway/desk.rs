//! Registered clients, their leases and their registrations.

use super::window::{Verdict, Window};
use super::worker::{self, Counts, Heard, Shared};
use super::{Settings, chain_name};
use crate::message::keeptime::{
    ChainStatus, DeregisterRequest, DeregisterResponse, GatewayStatus, KeepAliveRequest,
    KeepAliveResponse, Outcome, RegisterRequest, RegisterResponse,
};
use crate::{Bell, Node, RequestId};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Repetitions of one request to register that wait for its answer.
const MAX_WAITING: usize = 8;

type ClientId = [u8; 16];

/// Next step of a request to register.
pub(crate) enum Reply {
    /// The answer is known.
    Now(Box<RegisterResponse>),
    /// The answer comes from [`Desk::finished`].
    Later,
}

pub(crate) struct Desk {
    settings: Settings,
    node: Arc<Node>,
    bell: Arc<Bell>,
    start: Instant,
    clients: BTreeMap<ClientId, Client>,
    registrations: BTreeMap<u32, Entry>,
    numbers: u32,
    events: (Sender<Event>, Receiver<Event>),
    ended: Ended,
}

struct Client {
    heard: Heard,
    window: Window<RegisterResponse>,
    waiting: BTreeMap<u64, Vec<RequestId>>,
}

struct Entry {
    client: ClientId,
    sequence: u64,
    slot: u32,
    response: RegisterResponse,
    priority: u32,
    shared: Arc<Shared>,
}

/// Sums of registrations that are over.
#[derive(Default)]
struct Ended {
    answered: u64,
    refused: u64,
    malformed: u64,
    leases: u64,
}

enum Event {
    Registered(u32, Result<u32, Outcome>),
    Ended(u32),
}

/// Status of one chain of clients on the graph, as they get it.
pub(crate) struct Remote {
    pub chain: String,
    pub status: ChainStatus,
}

impl Desk {
    pub(super) fn new(settings: Settings, node: Arc<Node>, bell: Arc<Bell>) -> Desk {
        Desk {
            settings,
            node,
            bell,
            start: Instant::now(),
            clients: BTreeMap::new(),
            registrations: BTreeMap::new(),
            numbers: random(),
            events: channel(),
            ended: Ended::default(),
        }
    }

    /// Begins a registration, unless its request is a repetition or breaks a limit.
    pub(super) fn register(&mut self, id: RequestId, request: RegisterRequest) -> Reply {
        let reject = |result| {
            Reply::Now(Box::new(RegisterResponse { result, ..RegisterResponse::default() }))
        };
        if let Err(outcome) = self.settings.limits.check(&request) {
            self.ended.refused += 1;
            return reject(outcome);
        }
        let full = self.full(&request);
        let limit = self.settings.limits.registrations.max(4) as usize;
        let start = self.start;
        let client = match self.clients.get_mut(&request.client) {
            Some(client) => client,
            None => {
                if let Some(outcome) = full {
                    self.ended.refused += 1;
                    return reject(outcome);
                }
                let window = Window::new(2 * limit);
                let client = Client { heard: Heard::new(start), window, waiting: BTreeMap::new() };
                self.clients.entry(request.client).or_insert(client)
            }
        };
        client.heard.now();
        match client.window.ask(request.sequence) {
            Verdict::Kept(response) => return Reply::Now(Box::new(response.clone())),
            Verdict::TooOld => {
                return reject(Outcome::new(
                    Outcome::TOO_OLD,
                    "sequence: its answer is not kept any more",
                ));
            }
            Verdict::Pending => {
                let waiting = client.waiting.entry(request.sequence).or_default();
                if waiting.len() < MAX_WAITING {
                    waiting.push(id);
                }
                return Reply::Later;
            }
            Verdict::New => {}
        }
        if let Some(result) = full {
            self.ended.refused += 1;
            let response = RegisterResponse { result, ..RegisterResponse::default() };
            client.window.keep(request.sequence, response.clone());
            return Reply::Now(Box::new(response));
        }
        client.waiting.insert(request.sequence, vec![id]);
        let heard = client.heard.clone();
        self.begin(&request, heard)
    }

    /// Returns the refusal if there is no room for one more registration.
    fn full(&self, request: &RegisterRequest) -> Option<Outcome> {
        let limits = &self.settings.limits;
        let known = self.clients.contains_key(&request.client);
        if !known && self.clients.len() >= limits.clients as usize {
            let text = format!("limit of {} remote clients reached", limits.clients);
            return Some(Outcome::new(Outcome::REFUSED, text));
        }
        (self.registrations.len() >= limits.registrations as usize).then(|| {
            let text = format!("limit of {} remote registrations reached", limits.registrations);
            Outcome::new(Outcome::REFUSED, text)
        })
    }

    fn begin(&mut self, request: &RegisterRequest, heard: Heard) -> Reply {
        self.numbers = self.numbers.wrapping_add(1).max(1);
        let number = self.numbers;
        // DDS remembers every topic that ever was: names are used again.
        let slot = (0..).find(|slot| self.registrations.values().all(|one| one.slot != *slot));
        let slot = slot.unwrap_or(0);
        let chain = chain_name(request);
        let service = format!("{}/submit_{slot}", self.node.name());
        let response = RegisterResponse {
            result: Outcome::default(),
            registration: number,
            chain: chain.clone(),
            submit_service: service.clone(),
            bucket: 0,
            lease_ns: self.settings.limits.lease.as_nanos() as u64,
            in_flight: self.settings.limits.in_flight.into(),
        };
        let unavailable = |error: &dyn std::fmt::Display| {
            let result = Outcome::new(Outcome::UNAVAILABLE, error.to_string());
            Reply::Now(Box::new(RegisterResponse { result, ..RegisterResponse::default() }))
        };
        let bell = match Bell::new() {
            Ok(bell) => Arc::new(bell),
            Err(error) => return unavailable(&error),
        };
        let counts = Counts::default();
        let shared = Arc::new(Shared { bell, stop: false.into(), heard, counts });
        let mut registration = accel::Registration::service(&request.service)
            .chain(&chain, request.priority)
            .callback(request.callback)
            .memory(request.memory_bytes as usize);
        if !request.accelerator.is_empty() {
            registration = registration.accelerator(&request.accelerator);
        }
        let order = worker::Order {
            number,
            client: request.client,
            registration,
            memory: request.memory_bytes,
            service,
            mapping: self.settings.mapping,
            in_flight: self.settings.limits.in_flight,
            socket: self.settings.socket.clone(),
            node: Arc::clone(&self.node),
            shared: Arc::clone(&shared),
        };
        let (events, bell) = (self.events.0.clone(), Arc::clone(&self.bell));
        let thread = std::thread::Builder::new().name(format!("remote-{slot}"));
        let spawned = thread.spawn(move || {
            let report = |event| {
                // The gateway outlives its registrations; after it no registration is left to tell.
                let _ = events.send(event);
                bell.ring();
            };
            worker::run(order, |result| report(Event::Registered(number, result)));
            report(Event::Ended(number));
        });
        if let Err(error) = spawned {
            return unavailable(&error);
        }
        let (client, sequence, priority) = (request.client, request.sequence, request.priority);
        let entry = Entry { client, sequence, slot, response, priority, shared };
        self.registrations.insert(number, entry);
        Reply::Later
    }

    /// Answers to registrations that the server has decided meanwhile.
    pub(super) fn finished(&mut self) -> Vec<(RequestId, RegisterResponse)> {
        let mut answers = Vec::new();
        while let Ok(event) = self.events.1.try_recv() {
            match event {
                Event::Registered(number, result) => self.decided(number, result, &mut answers),
                Event::Ended(number) => self.ended(number),
            }
        }
        answers
    }

    fn decided(
        &mut self,
        number: u32,
        result: Result<u32, Outcome>,
        answers: &mut Vec<(RequestId, RegisterResponse)>,
    ) {
        let Some(entry) = self.registrations.get_mut(&number) else { return };
        match result {
            Ok(bucket) => entry.response.bucket = bucket,
            Err(result) => {
                self.ended.refused += 1;
                entry.response = RegisterResponse { result, ..RegisterResponse::default() };
            }
        }
        let Some(client) = self.clients.get_mut(&entry.client) else { return };
        client.window.keep(entry.sequence, entry.response.clone());
        for id in client.waiting.remove(&entry.sequence).unwrap_or_default() {
            answers.push((id, entry.response.clone()));
        }
    }

    /// The thread of a registration is gone, and its session with it.
    fn ended(&mut self, number: u32) {
        let Some(entry) = self.registrations.remove(&number) else { return };
        let sums = sums(&entry.shared.counts);
        self.ended.answered += sums.answered;
        self.ended.refused += sums.refused;
        self.ended.malformed += sums.malformed;
    }

    pub(super) fn deregister(&mut self, request: &DeregisterRequest) -> DeregisterResponse {
        let entry = self.registrations.get(&request.registration);
        let result = match entry.filter(|entry| entry.client == request.client) {
            Some(entry) => {
                entry.shared.heard.now();
                entry.stop();
                Outcome::default()
            }
            None => Outcome::new(Outcome::UNKNOWN, "no such registration of this client"),
        };
        DeregisterResponse { result }
    }

    pub(super) fn keep_alive(&mut self, request: &KeepAliveRequest) -> KeepAliveResponse {
        let lease_ns = self.settings.limits.lease.as_nanos() as u64;
        let result = match self.clients.get(&request.client) {
            Some(client) if self.has_registrations(&request.client) => {
                client.heard.now();
                Outcome::default()
            }
            _ => Outcome::new(Outcome::UNKNOWN, "this client has no registrations"),
        };
        KeepAliveResponse { result, lease_ns }
    }

    fn has_registrations(&self, client: &ClientId) -> bool {
        let mut of_client = self.registrations.values().filter(|one| one.client == *client);
        of_client.any(|one| !one.shared.stop.load(Ordering::Acquire))
    }

    /// Takes everything from clients that have been silent for too long.
    pub(super) fn end_leases(&mut self) {
        let lease = self.settings.limits.lease;
        let silent = |client: &Client| client.heard.silent() >= lease;
        let over = self.clients.iter().filter(|(_, client)| silent(client));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.ended.leases += u64::from(self.has_registrations(&id));
            self.registrations.values().filter(|one| one.client == id).for_each(Entry::stop);
            self.clients.remove(&id);
        }
    }

    /// Returns the time until a lease may end.
    pub(super) fn next_lease(&self) -> Duration {
        let lease = self.settings.limits.lease;
        let left = self.clients.values().map(|client| lease.saturating_sub(client.heard.silent()));
        left.min().unwrap_or(Duration::MAX).max(Duration::from_millis(1))
    }

    pub(super) fn status(&self, malformed: u64) -> GatewayStatus {
        let mut status = GatewayStatus {
            clients: self.clients.len() as u32,
            registrations: self.registrations.len() as u32,
            answered: self.ended.answered,
            refused: self.ended.refused,
            malformed: self.ended.malformed + malformed,
            leases_ended: self.ended.leases,
            restarts: self.settings.restarts,
        };
        for entry in self.registrations.values() {
            let sums = sums(&entry.shared.counts);
            status.answered += sums.answered;
            status.refused += sums.refused;
            status.malformed += sums.malformed;
        }
        status
    }

    /// Returns the sums of the registrations of each remote chain.
    pub(super) fn chains(&self) -> Vec<Remote> {
        let mut chains: BTreeMap<&str, (ChainStatus, u64)> = BTreeMap::new();
        for entry in self.registrations.values() {
            let (status, total_ns) = chains.entry(entry.response.chain.as_str()).or_default();
            let counts = &entry.shared.counts;
            let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
            status.name.clone_from(&entry.response.chain);
            status.priority = entry.priority;
            status.remote = true;
            status.remote_requests += read(&counts.requests);
            status.remote_expired += read(&counts.expired);
            status.remote_repeated += read(&counts.repeated);
            status.remote_longest_ns = status.remote_longest_ns.max(read(&counts.longest_ns));
            *total_ns += read(&counts.total_ns);
        }
        let finish = |(chain, (mut status, total_ns)): (&str, (ChainStatus, u64))| {
            status.remote_mean_ns = total_ns.checked_div(status.remote_requests).unwrap_or(0);
            Remote { chain: chain.to_owned(), status }
        };
        chains.into_iter().filter(|(name, _)| !name.is_empty()).map(finish).collect()
    }
}

/// Draws the first number of registrations. A request that a client still sends for a registration
/// of a gateway that died must not meet one of this gateway.
fn random() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

impl Entry {
    fn stop(&self) {
        // Release: pairs with the worker's look after the bell.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
    }
}

fn sums(counts: &Counts) -> Ended {
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    Ended {
        answered: read(&counts.requests) + read(&counts.expired) + read(&counts.repeated),
        refused: read(&counts.refused),
        malformed: read(&counts.malformed),
        leases: 0,
    }
}
