//! The graph: nodes that feed each other by messages, as in the Autoware reference system.
//!
//! A chain is a line; a graph is what several chains are when they meet. Each node has callbacks,
//! one for its timer and one for each input, and a rule of when it computes and publishes, by its
//! [`NodeKind`]. What a node publishes is a topic; inputs name topics.

mod edges;
mod graph_check;
mod keys;

use crate::Segment;
use crate::field::{Size, name, names};
use edges::Edges;
use files::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nodes, and the paths through them that matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    /// Size of every message.
    #[serde(default = "Graph::message_bytes", rename = "message", with = "Size::<1, { 1 << 20 }>")]
    pub message_bytes: u64,
    /// The nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// The paths whose latency is a key indicator.
    #[serde(default)]
    pub paths: Vec<KeyPath>,
}

/// Rule for the times at which a node computes and publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A node that runs at each release of its timer and has no inputs.
    Sensor,
    /// A node that runs at each message of its one input.
    Transform,
    /// A node that runs as soon as it has a new message of every input.
    Fusion,
    /// A node that runs at each release of its timer, with the newest messages of its inputs.
    Cyclic,
    /// A node that runs at each message; each input has a topic of its own to publish to.
    Intersection,
    /// A node that runs at each message of its one input and publishes nothing.
    Command,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "keys::NodeKeys", into = "keys::NodeKeys")]
pub struct Node {
    /// Unique name; also the topic of what it publishes, except for an intersection.
    pub id: String,
    /// Rule for the times at which it computes.
    pub kind: NodeKind,
    /// The executor that runs its callbacks.
    pub executor: String,
    /// Work that it does each time it computes.
    pub work: Work,
    /// The timer of a sensor or a cyclic node.
    pub timer: Option<NodeTimer>,
    /// Inputs, in order of registration.
    pub inputs: Vec<Input>,
}

/// Processor work of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Work {
    /// None.
    #[default]
    None,
    /// Nanoseconds of processor time.
    Cpu(u64),
    /// Prime numbers, by trial division up to the square root.
    Primes {
        /// Those up to this number.
        limit: u64,
        /// Longest time that they take, where the file says it.
        cpu_ns: Option<u64>,
    },
}

/// The timer of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTimer {
    /// Distance between two releases.
    pub period_ns: u64,
    /// Priority of the callback; larger is more urgent.
    pub priority: u32,
    /// The accelerator requests of the callback, after the node's work.
    pub segments: Vec<Segment>,
}

/// One input of a node, with the callback that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The topic.
    pub from: String,
    /// The topic that an intersection publishes to for this input.
    pub output: Option<String>,
    /// Priority of the callback; larger is more urgent.
    pub priority: u32,
    /// Number of messages kept that were not served yet; older ones are dropped.
    pub depth: u32,
    /// The accelerator requests of the callback, after the node's work, where it computes.
    pub segments: Vec<Segment>,
}

/// A path through the graph whose latency counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPath {
    /// Its name.
    #[serde(deserialize_with = "name")]
    pub id: String,
    /// Nodes with timers, at whose releases it begins.
    #[serde(deserialize_with = "names")]
    pub roots: Vec<String>,
    /// The node at the end of whose callback it ends.
    #[serde(deserialize_with = "name")]
    pub sink: String,
    /// Longest latencies that others reported of it, by method, to be shown beside what is
    /// measured.
    #[serde(default, skip_serializing_if = "is_default")]
    #[serde(rename = "reported", with = "keys::times")]
    pub reported_ns: BTreeMap<String, u64>,
}

impl NodeKind {
    /// Every kind, with the name that it has in a file.
    pub const ALL: [(&str, NodeKind); 6] = [
        ("sensor", NodeKind::Sensor),
        ("transform", NodeKind::Transform),
        ("fusion", NodeKind::Fusion),
        ("cyclic", NodeKind::Cyclic),
        ("intersection", NodeKind::Intersection),
        ("command", NodeKind::Command),
    ];

    /// The name that it has in a file.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns true if a timer releases it.
    pub fn has_timer(self) -> bool {
        matches!(self, Self::Sensor | Self::Cyclic)
    }
}

impl Work {
    /// The longest processor time, where the file says it.
    pub fn cpu_ns(self) -> Option<u64> {
        match self {
            Work::None => Some(0),
            Work::Cpu(ns) => Some(ns),
            Work::Primes { cpu_ns, .. } => cpu_ns,
        }
    }
}

impl Node {
    /// The accelerator requests of all of its callbacks.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        let of_timer = self.timer.iter().flat_map(|timer| &timer.segments);
        of_timer.chain(self.inputs.iter().flat_map(|input| &input.segments))
    }

    /// The priorities of its callbacks.
    pub fn priorities(&self) -> impl Iterator<Item = u32> {
        let of_timer = self.timer.iter().map(|timer| timer.priority);
        of_timer.chain(self.inputs.iter().map(|input| input.priority))
    }

    /// The topics that it publishes.
    pub fn topics(&self) -> Vec<&str> {
        match self.kind {
            NodeKind::Command => Vec::new(),
            NodeKind::Intersection => {
                self.inputs.iter().filter_map(|input| input.output.as_deref()).collect()
            }
            _ => vec![&self.id],
        }
    }

    /// The topic to which messages of an input lead.
    pub fn forwarded<'n>(&'n self, input: &'n Input) -> Option<&'n str> {
        match self.kind {
            NodeKind::Transform | NodeKind::Fusion => Some(&self.id),
            NodeKind::Intersection => input.output.as_deref(),
            NodeKind::Sensor | NodeKind::Cyclic | NodeKind::Command => None,
        }
    }
}

impl Graph {
    /// Size of a message where the file says nothing: that of the reference system.
    fn message_bytes() -> u64 {
        4096
    }

    /// The node with this name.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node that publishes a topic.
    pub fn publisher(&self, topic: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.topics().contains(&topic))
    }

    /// Returns the number of inputs that a topic has.
    pub fn subscriptions(&self, topic: &str) -> usize {
        self.nodes.iter().flat_map(|node| &node.inputs).filter(|input| input.from == topic).count()
    }

    /// The nodes of a path, in the order of the file: all that lie on a way from a root to the
    /// sink along which every message is forwarded.
    pub fn on_path(&self, path: &KeyPath) -> Vec<&Node> {
        let (edges, mut steps) = (Edges::new(self), 0);
        let roots = path.roots.iter().filter_map(|root| edges.node(root));
        let after = edges.downstream(roots, &mut steps);
        let nodes = self.nodes.iter().filter(|node| after.contains(node.id.as_str()));
        let mut reaches =
            |node: &Node| edges.downstream(edges.node(&node.id), &mut steps).contains(&*path.sink);
        nodes.filter(|node| reaches(node)).collect()
    }
}
