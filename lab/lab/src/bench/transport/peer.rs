//! The processes of the measurement: servers with their gateways, and a client for each way.

use std::process::Command;

use anyhow::ensure;
use realtime::clock::monotonic_ns;
use realtime::thread;
use report::transport::Sample;
use trial::Child;

use super::Way;
use super::client::{Answer, Client, Link};
use super::hosts::{self, Hosts};
use crate::bench::service::Service;
use crate::child::Order;

/// Line of a server whose gateway takes part in DDS.
const READY: &str = "keeptime ros-gateway: node";
/// Longest time until then, in nanoseconds.
const READY_NS: u64 = 60_000_000_000;

/// Device, cores, priorities and domain of servers and clients.
pub(super) struct Place {
    device: String,
    server_core: usize,
    client_core: usize,
    priorities: [u8; 2],
    largest: u64,
    domain: u16,
}

/// A client; it ends with this value.
pub(super) struct Peer(Child);

/// Results of one turn of a client.
pub(super) struct Batch {
    /// The requests that were answered.
    pub samples: Vec<Sample>,
    /// Number of times that a request was sent again.
    pub repeated: u64,
    /// Requests without an answer in time.
    pub unanswered: u64,
}

impl Place {
    /// The server on the first core, the clients on the last one.
    pub(super) fn new(device: &str, realtime: bool, largest: u64) -> Place {
        let cores = thread::cores();
        Place {
            device: device.into(),
            server_core: cores[0],
            client_core: cores[cores.len() - 1],
            priorities: if realtime { [50, 90] } else { [0, 0] },
            largest,
            // Others on this machine are unlikely to use it.
            domain: 1 + (std::process::id() % 100) as u16,
        }
    }

    /// A server with a gateway on this machine, or on the first of the hosts.
    pub(super) fn serve(&self, hosts: Option<&Hosts>) -> anyhow::Result<Service> {
        let mut service = Service::by(&self.system(hosts.is_some()), |command| {
            inside(hosts.map(Hosts::server), command)
        })?;
        let server = &mut service.server;
        let is_up = trial::wait_until(monotonic_ns() + READY_NS, || {
            if server.is_running() {
                Ok(server.words().contains(READY))
            } else {
                Err(server.failure())
            }
        })?;
        ensure!(is_up, "the gateway is not ready{}", server.last_words());
        Ok(service)
    }

    fn system(&self, far: bool) -> String {
        let Place { device, server_core: core, domain, .. } = self;
        let address = if far { hosts::ADDRESSES[0] } else { "127.0.0.1" };
        let request = self.largest.next_multiple_of(64) + self.largest / 2;
        format!(
            "accelerators: [{{id: bench, buckets: 4, device: \"{device}\", cores: [{core}]}}]\n\
             server: {{cores: [{core}], priority: {}}}\n\
             ros: {{domain: {domain}, interfaces: [{address}], limits: {{priority: 50, \
             lease: 60 s, request: {request} B, registrations: 64}}}}\n",
            self.priorities[1]
        )
    }
}

impl Peer {
    /// Starts the client of a way.
    pub(super) fn start(
        way: Way,
        place: &Place,
        server: &Service,
        hosts: Option<&Hosts>,
    ) -> anyhow::Result<Peer> {
        let dds = |interface: &str| -> anyhow::Result<Link> {
            Ok(Link::Dds { interface: interface.parse()?, domain: place.domain })
        };
        let link = match way {
            Way::Shared => Link::Shared(server.socket.clone()),
            Way::Loopback => dds("127.0.0.1")?,
            Way::Hosts => dds(hosts::ADDRESSES[1])?,
        };
        let client = Client { link, core: place.client_core, priority: place.priorities[0] };
        let namespace = hosts.filter(|_| way == Way::Hosts).map(Hosts::client);
        let order = Order::Transport(client);
        let mut client =
            Child::order_by("the client", &order, |command| inside(namespace, command))?;
        client.hear::<()>()?;
        Ok(Peer(client))
    }

    /// Sends requests.
    pub(super) fn ask(&mut self, bytes: u64, count: usize) -> anyhow::Result<Batch> {
        let answer: Answer = self.0.ask(&(bytes, count))?;
        ensure!(
            answer.samples.len() as u64 + answer.unanswered == count as u64,
            "answers are missing"
        );
        let sample = |(whole_ns, steps_ns)| Sample { whole_ns, steps_ns };
        let samples = answer.samples.into_iter().map(sample).collect();
        Ok(Batch { samples, repeated: answer.repeated, unanswered: answer.unanswered })
    }
}

/// A command, in a network namespace where one is named.
fn inside(namespace: Option<&str>, command: Command) -> Command {
    let Some(namespace) = namespace else { return command };
    let mut inside = Command::new("ip");
    inside.args(["netns", "exec", namespace]).arg(command.get_program()).args(command.get_args());
    inside
}
