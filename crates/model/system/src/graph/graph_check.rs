//! Conflicts between two values of a graph.

use super::{Edges, Graph, Input, Node, NodeKind};
use crate::check::{Checker, Index, steps};
use crate::{Error, Segment};
use files::{Step, shorten};
use std::collections::HashMap;

/// The most inputs that are looked at to see where messages lead.
const MAX_STEPS: u64 = 10_000_000;

impl Checker<'_> {
    /// Checks the graph against itself and the rest of the file.
    pub(crate) fn graph(&self, graph: &Graph, index: &Index<'_>) -> Result<(), Error> {
        if graph.nodes.is_empty() {
            return Err(self.tree.wrong(steps!["graph", "nodes"], "at least one node"));
        }
        for (i, node) in graph.nodes.iter().enumerate() {
            self.keys(i, node)?;
        }
        self.unique(steps!["graph", "nodes"], "id", graph.nodes.iter().map(|node| &node.id))?;
        self.unique(steps!["graph", "paths"], "id", graph.paths.iter().map(|path| &path.id))?;
        self.topics(graph)?;
        self.callback_priorities(graph)?;
        let (edges, mut steps) = (Edges::new(graph), 0);
        for (i, node) in graph.nodes.iter().enumerate() {
            self.node(i, node, &edges, &mut steps, index)?;
        }
        self.paths(graph, &edges, &mut steps)
    }

    /// Refuses keys that the node's kind has not, and a node without a key that it needs.
    fn keys(&self, i: usize, node: &Node) -> Result<(), Error> {
        let tree = self.tree;
        let here = steps!["graph", "nodes", i];
        let at = |key: &'static str| steps!["graph", "nodes", i, key].to_vec();
        let kind = node.kind;
        for key in ["period", "priority"] {
            if kind.has_timer() {
                tree.required_key(here, key)?;
            } else if tree.has(&at(key)) {
                let expected = format!("no {key} of a {}, which has no timer", kind.name());
                return Err(tree.wrong(&at(key), expected));
            }
        }
        let (fits, expected) = expected_inputs(kind, node.inputs.len());
        if !fits {
            return Err(match tree.has(&at("inputs")) {
                true => tree.wrong(&at("inputs"), expected),
                false => tree.wrong(here, format!("inputs: {expected}")),
            });
        }
        for (j, input) in node.inputs.iter().enumerate() {
            if kind == NodeKind::Intersection {
                tree.required_key(steps!["graph", "nodes", i, "inputs", j], "output")?;
            } else if input.output.is_some() {
                let path = input_path(i, j, "output");
                return Err(tree.wrong(&path, "output only with an intersection"));
            }
        }
        Ok(())
    }

    fn topics(&self, graph: &Graph) -> Result<(), Error> {
        let mut seen: HashMap<&str, &str> = HashMap::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            for (j, topic) in node.topics().into_iter().enumerate() {
                if let Some(other) = seen.insert(topic, &node.id) {
                    let expected = format!("a topic of its own; {} publishes it", shorten(other));
                    let path = match topic == node.id {
                        true => steps!["graph", "nodes", i, "id"].to_vec(),
                        false => input_path(i, j, "output"),
                    };
                    return Err(self.tree.wrong(&path, expected));
                }
            }
        }
        Ok(())
    }

    /// A comparison of two callbacks must find one of them the more urgent one.
    fn callback_priorities(&self, graph: &Graph) -> Result<(), Error> {
        let mut seen: HashMap<u32, &str> = HashMap::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            let of_timer = steps!["graph", "nodes", i, "priority"].to_vec();
            let timer = node.timer.iter().map(|timer| (timer.priority, of_timer.clone()));
            let inputs = node.inputs.iter().enumerate();
            let inputs = inputs.map(|(j, input)| (input.priority, input_path(i, j, "priority")));
            for (priority, path) in timer.chain(inputs) {
                if let Some(other) = seen.insert(priority, &node.id) {
                    let expected =
                        format!("a priority of its own; a callback of {} has it", shorten(other));
                    return Err(self.tree.wrong(&path, expected));
                }
            }
        }
        Ok(())
    }

    /// Following messages through a graph takes its square at worst.
    fn budget(&self, steps: u64) -> Result<(), Error> {
        if steps <= MAX_STEPS {
            return Ok(());
        }
        let found = format!("more than {MAX_STEPS} steps along the ways of its messages");
        Err(self.tree.refuse(steps!["graph"], &found, "fewer nodes, inputs or paths"))
    }

    fn node(
        &self,
        i: usize,
        node: &Node,
        edges: &Edges<'_>,
        steps: &mut u64,
        index: &Index<'_>,
    ) -> Result<(), Error> {
        let here = |key: &'static str| steps!["graph", "nodes", i, key].to_vec();
        if !index.executors.contains(node.executor.as_str()) {
            return Err(self.unknown(&here("executor"), &node.executor, "executors"));
        }
        let of_timer = node.timer.iter().flat_map(|timer| &timer.segments);
        self.segments_at(&here("segments"), of_timer, index)?;
        for (j, Input { from, segments, .. }) in node.inputs.iter().enumerate() {
            if !edges.is_published(from) {
                let path = input_path(i, j, "from");
                return Err(self.tree.wrong(&path, "a topic that a node publishes"));
            }
            self.segments_at(&input_path(i, j, "segments"), segments.iter(), index)?;
        }
        for (j, input) in node.inputs.iter().enumerate() {
            let fed = node.forwarded(input).into_iter().flat_map(|topic| edges.fed_by(topic));
            // A timer breaks the circle.
            let after = edges.downstream(fed.filter(|next| next.timer.is_none()), steps);
            self.budget(*steps)?;
            if after.contains(node.id.as_str()) {
                let path = input_path(i, j, "from");
                return Err(self.tree.wrong(&path, "messages that do not come back to this node"));
            }
        }
        Ok(())
    }

    fn segments_at<'s>(
        &self,
        path: &[Step<'_>],
        segments: impl Iterator<Item = &'s Segment>,
        index: &Index<'_>,
    ) -> Result<(), Error> {
        for (k, segment) in segments.enumerate() {
            self.segment(&[path, steps![k]].concat(), segment, index)?;
        }
        Ok(())
    }

    fn paths(&self, graph: &Graph, edges: &Edges<'_>, steps: &mut u64) -> Result<(), Error> {
        for (i, path) in graph.paths.iter().enumerate() {
            let at = |key: &'static str| steps!["graph", "paths", i, key].to_vec();
            if edges.node(&path.sink).is_none() {
                return Err(self.tree.wrong(&at("sink"), "one of the nodes"));
            }
            if path.roots.is_empty() {
                return Err(self.tree.wrong(&at("roots"), "at least one root"));
            }
            for (j, root) in path.roots.iter().enumerate() {
                let place = steps!["graph", "paths", i, "roots", j];
                let Some(node) = edges.node(root).filter(|node| node.timer.is_some()) else {
                    return Err(self.tree.wrong(place, "a node with a timer"));
                };
                let reached = edges.downstream([node], steps);
                self.budget(*steps)?;
                if !reached.contains(path.sink.as_str()) {
                    let expected = format!("a root whose messages reach {}", shorten(&path.sink));
                    return Err(self.tree.wrong(place, expected));
                }
            }
        }
        Ok(())
    }
}

fn input_path(node: usize, input: usize, key: &str) -> Vec<Step<'_>> {
    steps!["graph", "nodes", node, "inputs", input, key].to_vec()
}

/// Returns true if a node of this kind has `inputs` inputs, and the number that it has in words.
fn expected_inputs(kind: NodeKind, inputs: usize) -> (bool, &'static str) {
    match kind {
        NodeKind::Sensor => (inputs == 0, "no inputs of a sensor"),
        NodeKind::Transform => (inputs == 1, "one input of a transform"),
        NodeKind::Command => (inputs == 1, "one input of a command"),
        NodeKind::Fusion => (inputs >= 2, "at least two inputs of a fusion"),
        NodeKind::Cyclic => (inputs >= 1, "at least one input of a cyclic node"),
        NodeKind::Intersection => (inputs >= 1, "at least one input of an intersection"),
    }
}
