//! The gateway: the accelerator server as a node on the ROS 2 graph.
//!
//! ```text
//!  remote machine            this machine
//! +----------------+  DDS  +------------------------------------+ socket +-----------------+
//! | ROS 2 node, or |------>| gateway   (an ordinary process)    |------->| keeptime serve  |
//! | remote::Client |       |  register, list, query, keep alive |  and   |  by chain       |
//! |                |<------|  one thread for each registration  |<-------|  priority       |
//! +----------------+       +------------------------------------+ memory +-----------------+
//! ```
//!
//! The network never reaches the server's process: the gateway is one of its clients, with a
//! session for each registration, and with no more rights than any. It copies each request's data
//! once into the session's memory. What comes from the graph is an allegation, and what a client may
//! take is bounded ([`Limits`]); a client that is silent for longer than its lease loses everything.
//!
//! The node serves and publishes:
//!
//! | name | type |
//! |---|---|
//! | `~/register`, `~/deregister`, `~/keep_alive`, `~/list_chains`, `~/query_chain` | services of `keeptime_msgs` |
//! | `~/submit_N` | `keeptime_msgs/srv/Submit`, for one registration |
//! | `~/status` | `keeptime_msgs/msg/Status` |
//! | `/diagnostics` | `diagnostic_msgs/msg/DiagnosticArray` |

mod desk;
mod limits;
mod report;
pub mod window;
mod worker;

pub use limits::Limits;

use crate::message::diagnostic::DiagnosticArray;
use crate::message::keeptime::{
    DeregisterChain, KeepAlive, ListChains, ListResponse, Outcome, QueryChain, QueryResponse,
    RegisterChain, Status,
};
use crate::{Bell, Context, Error, Mapping, Node, Options, Publisher, Qos, RequestId, Server};
use crate::{Service, message::keeptime};
use desk::{Desk, Reply};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Place of the gateway on the graph, its server, and its limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The domain and the interfaces.
    pub options: Options,
    /// The namespace of the node.
    pub namespace: String,
    /// The name of the node.
    pub name: String,
    /// The way in which requests and responses find each other.
    pub mapping: Mapping,
    /// The server's socket.
    pub socket: PathBuf,
    /// Limits of clients on the graph.
    pub limits: Limits,
    /// The distance between two messages of status.
    pub status_period: Duration,
    /// Number of restarts of the gateway.
    pub restarts: u32,
}

/// The largest request of all services but `submit`.
const MAX_REQUEST_BYTES: usize = 4096;

/// Requests of one service that may wait, of all clients together.
const WAITING: u16 = 64;

/// Joins the graph, and serves until the process ends.
///
/// # Errors
/// [`Error`] when the node or its endpoints cannot be had.
pub fn run(settings: Settings) -> Result<std::convert::Infallible, Error> {
    let mut gateway = Gateway::new(settings)?;
    loop {
        gateway.serve();
        gateway.bell.wait(Some(gateway.pause()))?;
    }
}

struct Gateway {
    bell: Arc<Bell>,
    desk: Desk,
    report: report::Reporter,
    register: Server<RegisterChain>,
    deregister: Server<DeregisterChain>,
    keep_alive: Server<KeepAlive>,
    list: Server<ListChains>,
    query: Server<QueryChain>,
    status: Publisher<Status>,
    diagnostics: Publisher<DiagnosticArray>,
    next_status: Instant,
    status_period: Duration,
    malformed: u64,
    // Last, so that its endpoints leave the graph before it.
    _context: Context,
}

impl Gateway {
    fn new(settings: Settings) -> Result<Gateway, Error> {
        let context = Context::new(&settings.options)?;
        let node = Arc::new(context.node(&settings.namespace, &settings.name)?);
        let bell = Arc::new(Bell::new()?);
        // One message a period: a window that outlasts the lease of a reader that died.
        let qos = Qos { window: 128, ..Qos::default() };
        Ok(Gateway {
            register: serve(&node, "~/register", settings.mapping, &bell)?,
            deregister: serve(&node, "~/deregister", settings.mapping, &bell)?,
            keep_alive: serve(&node, "~/keep_alive", settings.mapping, &bell)?,
            list: serve(&node, "~/list_chains", settings.mapping, &bell)?,
            query: serve(&node, "~/query_chain", settings.mapping, &bell)?,
            status: node.publisher("~/status", qos)?,
            diagnostics: node.publisher("/diagnostics", qos)?,
            report: report::Reporter::new(settings.socket.clone(), settings.restarts),
            next_status: Instant::now(),
            status_period: settings.status_period,
            malformed: 0,
            desk: Desk::new(settings, node, Arc::clone(&bell)),
            bell,
            _context: context,
        })
    }

    /// Time until the next status or the end of a lease.
    fn pause(&self) -> Duration {
        let status = self.next_status.saturating_duration_since(Instant::now());
        status.min(self.desk.next_lease())
    }

    fn serve(&mut self) {
        let desk = &mut self.desk;
        for (reply, response) in desk.finished() {
            answer(&self.register, &reply, &response);
            self.report.forget();
        }
        each(&self.register, &mut self.malformed, |id, request| match desk.register(id, request) {
            Reply::Now(response) => Some(*response),
            Reply::Later => None,
        });
        each(&self.deregister, &mut self.malformed, |_, request| Some(desk.deregister(&request)));
        each(&self.keep_alive, &mut self.malformed, |_, request| Some(desk.keep_alive(&request)));
        desk.end_leases();
        let (report, remote) = (&mut self.report, desk.chains());
        each(&self.list, &mut self.malformed, |_, request| {
            Some(match report.chains(&remote) {
                Ok(mut chains) => {
                    chains.retain(|chain| chain.remote || !request.remote_only);
                    ListResponse { result: Outcome::default(), chains }
                }
                Err(result) => ListResponse { result, chains: Vec::new() },
            })
        });
        each(&self.query, &mut self.malformed, |_, request| {
            Some(match report.chains(&remote) {
                Err(result) => QueryResponse { result, ..QueryResponse::default() },
                Ok(chains) => match chains.into_iter().find(|one| one.name == request.chain) {
                    Some(chain) => QueryResponse { result: Outcome::default(), chain },
                    None => {
                        let result = Outcome::new(Outcome::UNKNOWN, "no chain of that name");
                        QueryResponse { result, ..QueryResponse::default() }
                    }
                },
            })
        });
        if Instant::now() >= self.next_status {
            self.say();
        }
    }

    fn say(&mut self) {
        // Missed periods are not made up for.
        self.next_status = Instant::now() + self.status_period;
        let gateway = self.desk.status(self.malformed);
        let (status, diagnostics) = self.report.status(gateway, &self.desk.chains());
        // A full window means that some reader has acknowledged nothing for 128 periods.
        let _ = self.status.publish(&status);
        let _ = self.diagnostics.publish(&diagnostics);
    }
}

fn serve<S: Service>(
    node: &Node,
    name: &str,
    mapping: Mapping,
    bell: &Arc<Bell>,
) -> Result<Server<S>, Error> {
    let qos = Qos { max_bytes: MAX_REQUEST_BYTES, ..Qos::default().depth(WAITING) };
    let server = node.server(name, mapping, qos)?;
    let ring = Arc::clone(bell);
    server.on_request(move || ring.ring());
    Ok(server)
}

/// Answers what waits, at most as many as may wait, so that no service keeps the others waiting.
fn each<S: Service>(
    server: &Server<S>,
    malformed: &mut u64,
    mut respond: impl FnMut(RequestId, S::Request) -> Option<S::Response>,
) {
    for _ in 0..WAITING {
        match server.take() {
            Ok(None) => return,
            Ok(Some((id, request))) => {
                if let Some(response) = respond(id, request) {
                    answer(server, &id, &response);
                }
            }
            Err(_) => *malformed += 1,
        }
    }
}

fn answer<S: Service>(server: &Server<S>, id: &RequestId, response: &S::Response) {
    // A client that is not reached asks again, or has gone.
    let _ = server.respond(id, response);
}

/// Names of chains that belong to clients on the graph.
fn chain_name(request: &keeptime::RegisterRequest) -> String {
    let [a, b, c, ..] = request.client;
    format!("ros/{a:02x}{b:02x}{c:02x}/{}", request.chain)
}
