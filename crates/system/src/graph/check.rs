//! What two values of a graph can have wrong with each other.

use super::{Graph, Input, Node};
use crate::check::{Checker, Index};
use crate::tree::{Step, shorten};
use crate::{Error, Segment};
use std::collections::HashMap;

impl Checker<'_> {
    /// Checks the graph against itself and the rest of the file.
    pub(crate) fn graph(&self, graph: &Graph, index: &Index<'_>) -> Result<(), Error> {
        self.unique_in("nodes", graph.nodes.iter().map(|node| node.id.as_str()))?;
        self.unique_in("paths", graph.paths.iter().map(|path| path.id.as_str()))?;
        self.topics(graph)?;
        self.callback_priorities(graph)?;
        for (i, node) in graph.nodes.iter().enumerate() {
            self.node(i, node, graph, index)?;
        }
        self.paths(graph)
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

    fn node(&self, i: usize, node: &Node, graph: &Graph, index: &Index<'_>) -> Result<(), Error> {
        let here = |key: &str| vec![step("graph"), step("nodes"), i.into(), step(key)];
        if !index.executors.contains(node.executor.as_str()) {
            return Err(self.unknown(&here("executor"), &node.executor, "executors"));
        }
        let of_timer = node.timer.iter().flat_map(|timer| &timer.segments);
        self.segments_at(&here("segments"), of_timer, index)?;
        for (j, Input { from, segments, .. }) in node.inputs.iter().enumerate() {
            if graph.publisher(from).is_none() {
                let expected = "a topic that a node publishes".to_owned();
                return Err(self.refuse(&input_path(i, j, "from"), shorten(from), expected));
            }
            self.segments_at(&input_path(i, j, "segments"), segments.iter(), index)?;
        }
        let again = |input: &Input| {
            let fed = node.forwarded(input).map_or_else(Vec::new, |topic| graph.fed_by(topic));
            // A timer breaks the circle.
            let mut fed = fed.into_iter().filter(|next| next.timer.is_none());
            fed.any(|next| graph.downstream(&next.id).contains(node.id.as_str()))
        };
        match node.inputs.iter().position(again) {
            Some(j) => {
                let expected = "messages that do not come back to this node".to_owned();
                let found = shorten(&node.inputs[j].from);
                Err(self.refuse(&input_path(i, j, "from"), found, expected))
            }
            None => Ok(()),
        }
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

    fn paths(&self, graph: &Graph) -> Result<(), Error> {
        for (i, path) in graph.paths.iter().enumerate() {
            let at = |key: &str| vec![step("graph"), step("paths"), i.into(), step(key)];
            if graph.node(&path.sink).is_none() {
                let expected = "one of the nodes".to_owned();
                return Err(self.refuse(&at("sink"), shorten(&path.sink), expected));
            }
            for (j, root) in path.roots.iter().enumerate() {
                let place: Vec<Step> = at("roots").into_iter().chain([j.into()]).collect();
                let has_timer = graph.node(root).is_some_and(|node| node.timer.is_some());
                if !has_timer {
                    let expected = "a node with a timer".to_owned();
                    return Err(self.refuse(&place, shorten(root), expected));
                }
                if !graph.downstream(root).contains(path.sink.as_str()) {
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
