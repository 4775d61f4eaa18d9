//! One participant in a DDS domain, and the nodes of this process in it.
//!
//! A participant has threads of its own, which receive, acknowledge and discover. They inherit the
//! scheduling policy, priority and cores of the thread that makes the context.

use crate::graph::{Announcement, Graph, NodeEntry};
use crate::node::Endpoints;
use crate::peers::{AnnouncementPort, Relay};
use crate::wire::{Adapter, Payload};
use crate::{Error, Node, NodeName, cdr};
use rustdds::no_key::DataWriter;
use rustdds::{DomainParticipant, DomainParticipantBuilder, GUID, QosPolicyBuilder, RTPSEntity};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest domain that has ports of its own (RTPS 2.3, section 9.6.1.1: 7400 + 250 x domain).
const LAST_DOMAIN: u16 = 232;

/// Distribution whose form of `ros_discovery_info` is sent. All are understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Humble and older: ids of 24 bytes.
    Humble,
    /// Iron, Jazzy and newer: ids of 16 bytes.
    #[default]
    Jazzy,
}

/// Domain, interfaces and security of a context.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The domain, `ROS_DOMAIN_ID` of ROS 2: 0 to 232.
    pub domain: u16,
    /// The addresses of the interfaces to use; all interfaces if there are none. `127.0.0.1` keeps
    /// everything on this machine.
    pub interfaces: Vec<IpAddr>,
    /// Machines that are told of this participant beside those that multicast reaches, by their
    /// addresses. One of two sides is enough.
    pub peers: Vec<Ipv4Addr>,
    /// The ROS 2 release whose form of `ros_discovery_info` is sent.
    pub distribution: Distribution,
    /// The enclave that secures this participant: a folder with the six files of ROS 2, as
    /// [`security`](crate::security) says. None: no security.
    pub security: Option<PathBuf>,
}

impl Options {
    /// Checks that the domain can be joined with the files of `security`; sends nothing.
    ///
    /// # Errors
    /// [`Error::Domain`], [`Error::Enclave`], [`Error::NoSecurity`].
    pub fn check(&self) -> Result<(), Error> {
        if self.domain > LAST_DOMAIN {
            return Err(Error::Domain(self.domain));
        }
        self.security.iter().try_for_each(|folder| crate::security::check(folder, self.domain))
    }
}

/// A participant in a domain.
pub struct Context {
    // First, so that nothing is forwarded of a participant that leaves.
    _relay: Option<Relay>,
    dds: Arc<Dds>,
    graph: Mutex<Graph>,
}

impl Context {
    /// Joins a domain, and starts the threads that do.
    ///
    /// # Errors
    /// Those of [`Options::check`]; [`Error::Create`] when the sockets cannot be had.
    pub fn new(options: &Options) -> Result<Context, Error> {
        options.check()?;
        let mut builder = DomainParticipantBuilder::new(options.domain);
        #[cfg(feature = "security")]
        if let Some(folder) = &options.security {
            builder = builder.builtin_security(crate::security::files(folder));
        }
        if !options.interfaces.is_empty() {
            builder = builder.with_only_networks(options.interfaces.iter().copied());
        }
        let failed = |what: &str| {
            let what = format!("{what} of domain {}", options.domain);
            move |reason: rustdds::dds::CreateError| Error::create(what, reason)
        };
        let has_peers = !options.peers.is_empty();
        let no_relay = |error: std::io::Error| Error::create("the relay to the peers", error);
        let place = has_peers
            .then(|| AnnouncementPort::take(options.domain).map_err(no_relay))
            .transpose()?;
        let participant = builder.build().map_err(failed("a participant"))?;
        let prefix = participant.guid().to_bytes();
        let prefix = std::array::from_fn(|i| prefix[i]);
        let relay = place.map(|place| place.tell(prefix, &options.peers));
        let relay = relay.transpose().map_err(no_relay)?;
        let none = QosPolicyBuilder::new().build();
        let publisher = participant.create_publisher(&none).map_err(failed("a publisher"))?;
        let subscriber = participant.create_subscriber(&none).map_err(failed("a subscriber"))?;
        let announcer = crate::graph::writer(&participant, &publisher)?;
        let graph = Mutex::new(Graph::new(&participant, &subscriber)?);
        let distribution = options.distribution;
        let nodes = Mutex::default();
        let dds = Dds { nodes, announcer, distribution, publisher, subscriber, participant };
        Ok(Context { _relay: relay, dds: Arc::new(dds), graph })
    }

    /// A node of this process. It is on the graph until it and all that it made are dropped.
    ///
    /// # Errors
    /// [`Error::Name`], also when this context has a node of that name.
    pub fn node(&self, namespace: &str, name: &str) -> Result<Node, Error> {
        let name = NodeName::new(namespace, name)?;
        self.dds.add(&name)?;
        Ok(Node::new(Endpoints::new(Arc::clone(&self.dds), name)))
    }

    /// The nodes of other participants, as they announced themselves, as long as they live.
    pub fn nodes(&self) -> Vec<NodeEntry> {
        let participant = &self.dds.participant;
        self.graph.lock().unwrap_or_else(PoisonError::into_inner).nodes(participant)
    }

    /// Names and types of the services that other participants serve: `("/a/b", "pkg/srv/Type")`.
    pub fn services(&self) -> BTreeSet<(String, String)> {
        crate::graph::services(&self.dds.participant)
    }
}

/// State that the entities of a context share.
pub(crate) struct Dds {
    nodes: Mutex<BTreeMap<NodeName, Entities>>,
    announcer: DataWriter<Payload, Adapter>,
    distribution: Distribution,
    pub publisher: rustdds::Publisher,
    pub subscriber: rustdds::Subscriber,
    pub participant: DomainParticipant,
}

/// The readers and writers of a node.
#[derive(Default)]
pub(crate) struct Entities {
    pub readers: BTreeSet<GUID>,
    pub writers: BTreeSet<GUID>,
}

impl Dds {
    fn add(&self, name: &NodeName) -> Result<(), Error> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.contains_key(name) {
            let expected = "expected a name that no other node of the process has";
            return Err(Error::Name { what: "node", name: name.to_string(), expected });
        }
        nodes.insert(name.clone(), Entities::default());
        self.announce(&nodes);
        Ok(())
    }

    pub(crate) fn remove(&self, name: &NodeName) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.remove(name);
        self.announce(&nodes);
    }

    pub(crate) fn change(&self, name: &NodeName, change: impl FnOnce(&mut Entities)) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entities) = nodes.get_mut(name) {
            change(entities);
            self.announce(&nodes);
        }
    }

    /// Says to all participants which nodes are here. What cannot be sent now is in the next
    /// announcement, which always says everything.
    fn announce(&self, nodes: &BTreeMap<NodeName, Entities>) {
        let announcement = Announcement::new(self.participant.guid(), nodes);
        let bytes = match self.distribution {
            Distribution::Humble => cdr::encode(&announcement.padded()),
            Distribution::Jazzy => cdr::encode(&announcement),
        };
        if let Ok(bytes) = bytes {
            let _ = self.announcer.write(Payload::new(bytes), None);
        }
    }
}
