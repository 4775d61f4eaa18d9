//! The ways of messages through a graph, looked up by topic.

use super::{Graph, Node};
use std::collections::{BTreeSet, HashMap};

/// Publishers and readers of each topic of a graph.
pub(crate) struct Edges<'g> {
    nodes: HashMap<&'g str, &'g Node>,
    topics: HashMap<&'g str, Readers<'g>>,
}

/// Nodes that have an input of a topic, each with the topic that it forwards its messages to.
type Readers<'g> = Vec<(&'g Node, Option<&'g str>)>;

impl<'g> Edges<'g> {
    pub(crate) fn new(graph: &'g Graph) -> Edges<'g> {
        let published = graph.nodes.iter().flat_map(Node::topics);
        let mut topics: HashMap<&str, Readers> =
            published.map(|topic| (topic, Readers::new())).collect();
        for node in &graph.nodes {
            for input in &node.inputs {
                let readers = topics.get_mut(input.from.as_str());
                readers.into_iter().for_each(|all| all.push((node, node.forwarded(input))));
            }
        }
        Edges { nodes: graph.nodes.iter().map(|node| (node.id.as_str(), node)).collect(), topics }
    }

    /// The node with this name.
    pub(crate) fn node(&self, id: &str) -> Option<&'g Node> {
        self.nodes.get(id).copied()
    }

    /// Returns true if a node publishes the topic.
    pub(crate) fn is_published(&self, topic: &str) -> bool {
        self.topics.contains_key(topic)
    }

    /// The nodes that have an input of a topic.
    pub(crate) fn fed_by(&self, topic: &str) -> impl Iterator<Item = &'g Node> {
        self.topics.get(topic).into_iter().flatten().map(|(node, _)| *node)
    }

    /// Nodes and every node that messages reach because of what they publish. Timers end it: what a
    /// cyclic node publishes does not come from a message. Counts the inputs that it looks at.
    pub(crate) fn downstream(
        &self,
        from: impl IntoIterator<Item = &'g Node>,
        steps: &mut u64,
    ) -> BTreeSet<&'g str> {
        let from: Vec<&Node> = from.into_iter().collect();
        let mut reached: BTreeSet<&str> = from.iter().map(|node| node.id.as_str()).collect();
        let mut open: Vec<&str> = from.iter().flat_map(|node| node.topics()).collect();
        let mut topics: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(topic) = open.pop() {
            *steps += 1;
            for (node, forwarded) in self.topics.get(topic).into_iter().flatten() {
                *steps += 1;
                reached.insert(&node.id);
                open.extend(forwarded.filter(|topic| topics.insert(topic)));
            }
        }
        reached
    }
}
