//! Conflicts between two values of a graph.

use super::{Edges, Graph, Input, Node};
use crate::check::{Checker, Index};
use crate::tree::{Step, shorten};
use crate::{Error, Segment};
use std::collections::HashMap;

/// The most inputs that are looked at to see where messages lead.
const MAX_STEPS: u64 = 10_000_000;

impl Checker<'_> {
    /// Checks the graph against itself and the rest of the file.
    pub(crate) fn graph(&self, graph: &Graph, index: &Index<'_>) -> Result<(), Error> {
        self.unique_in("nodes", graph.nodes.iter().map(|node| node.id.as_str()))?;
        self.unique_in("paths", graph.paths.iter().map(|path| path.id.as_str()))?;
        self.topics(graph)?;
        self.callback_priorities(graph)?;
        let (edges, mut steps) = (Edges::new(graph), 0);
        for (i, node) in graph.nodes.iter().enumerate() {
            self.node(i, node, &edges, &mut steps, index)?;
        }
        self.paths(graph, &edges, &mut steps)
    }

    fn unique_in<'n>(
        &self,
        section: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), Error> {
        let mut seen = HashMap::new();
        for (i, name) in names.enumerate() {
            if let Some(first) = seen.insert(name, i) {
                let expected = format!("a name of its own; graph.{section}[{first}] has it");
                let path = [step("graph"), step(section), i.into(), step("id")];
                return Err(self.refuse(&path, shorten(name), expected));
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
                        true => vec![step("graph"), step("nodes"), i.into(), step("id")],
                        false => input_path(i, j, "output"),
                    };
                    return Err(self.refuse(&path, shorten(topic), expected));
                }
            }
        }
        Ok(())
    }

    /// Whoever compares two callbacks must find one of them the more urgent one.
    fn callback_priorities(&self, graph: &Graph) -> Result<(), Error> {
        let mut seen: HashMap<u32, &str> = HashMap::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            let timer = node.timer.iter().map(|timer| {
                (timer.priority, vec![step("graph"), step("nodes"), i.into(), step("priority")])
            });
            let inputs = node.inputs.iter().enumerate();
            let inputs = inputs.map(|(j, input)| (input.priority, input_path(i, j, "priority")));
            for (priority, path) in timer.chain(inputs) {
                if let Some(other) = seen.insert(priority, &node.id) {
                    let expected =
                        format!("a priority of its own; a callback of {} has it", shorten(other));
                    return Err(self.refuse(&path, priority.to_string(), expected));
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
        Err(self.refuse(&[step("graph")], found, "fewer nodes, inputs or paths".to_owned()))
    }

    fn node(
        &self,
        i: usize,
        node: &Node,
        edges: &Edges<'_>,
        steps: &mut u64,
        index: &Index<'_>,
    ) -> Result<(), Error> {
        let here = |key: &str| vec![step("graph"), step("nodes"), i.into(), step(key)];
        if !index.executors.contains(node.executor.as_str()) {
            return Err(self.unknown(&here("executor"), &node.executor, "executors"));
        }
        let of_timer = node.timer.iter().flat_map(|timer| &timer.segments);
        self.segments_at(&here("segments"), of_timer, index)?;
        for (j, Input { from, segments, .. }) in node.inputs.iter().enumerate() {
            if !edges.is_published(from) {
                let expected = "a topic that a node publishes".to_owned();
                return Err(self.refuse(&input_path(i, j, "from"), shorten(from), expected));
            }
            self.segments_at(&input_path(i, j, "segments"), segments.iter(), index)?;
        }
        for (j, input) in node.inputs.iter().enumerate() {
            let fed = node.forwarded(input).into_iter().flat_map(|topic| edges.fed_by(topic));
            // A timer breaks the circle.
            let after = edges.downstream(fed.filter(|next| next.timer.is_none()), steps);
            self.budget(*steps)?;
            if after.contains(node.id.as_str()) {
                let expected = "messages that do not come back to this node".to_owned();
                return Err(self.refuse(&input_path(i, j, "from"), shorten(&input.from), expected));
            }
        }
        Ok(())
    }

    fn segments_at<'s>(
        &self,
        path: &[Step],
        segments: impl Iterator<Item = &'s Segment>,
        index: &Index<'_>,
    ) -> Result<(), Error> {
        for (k, segment) in segments.enumerate() {
            let path = path.iter().cloned().chain([k.into()]).collect::<Vec<Step>>();
            self.segment(&path, segment, index)?;
        }
        Ok(())
    }

    fn paths(&self, graph: &Graph, edges: &Edges<'_>, steps: &mut u64) -> Result<(), Error> {
        for (i, path) in graph.paths.iter().enumerate() {
            let at = |key: &str| vec![step("graph"), step("paths"), i.into(), step(key)];
            if edges.node(&path.sink).is_none() {
                let expected = "one of the nodes".to_owned();
                return Err(self.refuse(&at("sink"), shorten(&path.sink), expected));
            }
            for (j, root) in path.roots.iter().enumerate() {
                let place: Vec<Step> = at("roots").into_iter().chain([j.into()]).collect();
                let Some(node) = edges.node(root).filter(|node| node.timer.is_some()) else {
                    let expected = "a node with a timer".to_owned();
                    return Err(self.refuse(&place, shorten(root), expected));
                };
                let reached = edges.downstream([node], steps);
                self.budget(*steps)?;
                if !reached.contains(path.sink.as_str()) {
                    let expected = format!("a root whose messages reach {}", shorten(&path.sink));
                    return Err(self.refuse(&place, shorten(root), expected));
                }
            }
        }
        Ok(())
    }
}

fn step(key: &str) -> Step {
    key.into()
}

fn input_path(node: usize, input: usize, key: &str) -> Vec<Step> {
    vec![step("graph"), step("nodes"), node.into(), step("inputs"), input.into(), step(key)]
}
