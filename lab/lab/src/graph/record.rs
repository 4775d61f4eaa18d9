//! Measurements while callbacks run: instances of paths, starts of cyclic nodes, failures.
//!
//! Memory for all of it is taken beforehand; what comes in is one number under a short lock.

use realtime::mutex::PiMutex;
use report::graph::{CycleResult, PathResult};
use serde::{Deserialize, Serialize};
use system::{Graph, NodeKind};

use super::message::Message;
use crate::chains::access::Failure;

/// Measurements of the sinks and the cyclic nodes of one process.
pub(super) struct Record {
    paths: Vec<Path>,
    cycles: Vec<Cycle>,
}

struct Path {
    sink: u32,
    roots: Vec<u32>,
    nodes: Vec<u32>,
    seen: PiMutex<PathResult>,
}

struct Cycle {
    id: String,
    node: u32,
    starts_ns: PiMutex<Vec<u64>>,
}

impl Record {
    /// Room for what these nodes can measure in a run of this length.
    pub(super) fn new(graph: &Graph, nodes: &[usize], duration_ns: u64) -> Record {
        let number = |id: &str| {
            graph.nodes.iter().position(|node| node.id == id).map_or(u32::MAX, |at| at as u32)
        };
        let releases = |node: u32| {
            let timer = graph.nodes.get(node as usize).and_then(|node| node.timer.as_ref());
            timer.map_or(0, |timer| duration_ns.div_ceil(timer.period_ns) as usize + 1)
        };
        let here = |node: &u32| nodes.contains(&(*node as usize));
        let paths = graph.paths.iter().map(|path| {
            let roots: Vec<u32> = path.roots.iter().map(|root| number(root)).collect();
            let room = roots.iter().map(|root| releases(*root)).sum();
            let (latency_ns, dropped) = (Vec::with_capacity(room), Vec::with_capacity(room));
            Path {
                sink: number(&path.sink),
                roots,
                nodes: graph.on_path(path).iter().map(|node| number(&node.id)).collect(),
                seen: PiMutex::new(PathResult { id: path.id.clone(), latency_ns, dropped }),
            }
        });
        let cyclic = nodes.iter().filter(|node| graph.nodes[**node].kind == NodeKind::Cyclic);
        let cycles = cyclic.map(|node| {
            let (id, node) = (graph.nodes[*node].id.clone(), *node as u32);
            Cycle { id, node, starts_ns: PiMutex::new(Vec::with_capacity(releases(node))) }
        });
        Record { paths: paths.filter(|path| here(&path.sink)).collect(), cycles: cycles.collect() }
    }

    /// A timer's callback of a node began.
    pub(super) fn began(&self, node: u32, at_ns: u64) {
        if let Some(cycle) = self.cycles.iter().find(|cycle| cycle.node == node) {
            cycle.starts_ns.lock().push(at_ns);
        }
    }

    /// A callback of a node ended, having computed this message.
    pub(super) fn arrived(&self, node: u32, message: &Message, end_ns: u64) {
        for path in self.paths.iter().filter(|path| path.sink == node) {
            let roots = path.roots.iter().filter_map(|root| message.hop(*root));
            let Some(release_ns) = roots.map(|hop| hop.release_ns).min() else { continue };
            let on_path = message.hops.iter().filter(|hop| path.nodes.contains(&hop.node));
            let dropped = on_path.map(|hop| hop.dropped).sum();
            let mut seen = path.seen.lock();
            seen.latency_ns.push(end_ns.saturating_sub(release_ns));
            seen.dropped.push(dropped);
        }
    }

    /// The paths that end here.
    pub(super) fn paths(&self) -> Vec<PathResult> {
        self.paths.iter().map(|path| path.seen.lock().clone()).collect()
    }

    /// The distances between two starts of each cyclic node.
    pub(super) fn cycles(&self) -> Vec<CycleResult> {
        let result = |cycle: &Cycle| {
            let starts_ns = cycle.starts_ns.lock();
            let period_ns = starts_ns.windows(2).map(|two| two[1] - two[0]);
            CycleResult { id: cycle.id.clone(), period_ns: period_ns.collect() }
        };
        self.cycles.iter().map(result).collect()
    }
}

/// Failures of one process, counted by all its threads.
#[derive(Default)]
pub(super) struct Tally {
    counts: PiMutex<Failures>,
}

/// Counts of failures, and the words of the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failures {
    /// Accelerator requests that were not done, and so callbacks that did not publish.
    pub failed: u64,
    /// Callbacks whose request had not ended when the run was over.
    pub unfinished: u64,
    /// Messages that could not be sent.
    pub unsent: u64,
    /// The last failure in words.
    pub error: Option<String>,
}

impl Tally {
    /// A request was not done.
    pub(super) fn failed(&self, failure: Failure) {
        let mut counts = self.counts.lock();
        match failure {
            Failure::OutOfTime => counts.unfinished += 1,
            Failure::Failed(error) => {
                counts.failed += 1;
                counts.error = Some(error);
            }
        }
    }

    /// A message was not sent.
    pub(super) fn unsent(&self, error: &ros::Error) {
        let mut counts = self.counts.lock();
        counts.unsent += 1;
        counts.error = Some(error.to_string());
    }

    /// All failures.
    pub(super) fn failures(&self) -> Failures {
        self.counts.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Hop;
    use super::*;
    use system::System;

    const TEXT: &str = "
executors: [{id: e, core: 0, priority: 1}]
graph:
  nodes:
  - {id: left, kind: sensor, executor: e, period: 10 ms, priority: 1}
  - {id: right, kind: sensor, executor: e, period: 10 ms, priority: 2}
  - {id: fuse, kind: fusion, executor: e, inputs: [{from: left, priority: 3}, {from: right, priority: 4}]}
  - {id: plan, kind: cyclic, executor: e, period: 10 ms, priority: 6, inputs: [{from: fuse, priority: 5}]}
  paths: [{id: hot, roots: [left, right], sink: fuse}]
";

    #[test]
    fn latency_counts_from_the_oldest_root_and_drops_from_the_nodes_of_the_path() {
        let system = System::parse(TEXT, "test.yaml").unwrap();
        let record = Record::new(system.graph.as_ref().unwrap(), &[0, 1, 2, 3], 50_000_000);
        let hop = |node, release_ns, dropped| Hop { release_ns, node, dropped };
        // The planner is not on the path.
        let hops = vec![hop(1, 300, 0), hop(0, 100, 0), hop(3, 5, 9), hop(2, 500, 2)];
        record.arrived(2, &Message::new(0, hops.clone(), 0), 700);
        record.arrived(3, &Message::new(0, hops, 0), 900);
        let hot = PathResult { id: "hot".into(), latency_ns: vec![600], dropped: vec![2] };
        assert_eq!(record.paths(), [hot]);
        let elsewhere = Record::new(system.graph.as_ref().unwrap(), &[3], 50_000_000);
        assert!(elsewhere.paths().is_empty());
    }

    #[test]
    fn period_is_the_distance_of_two_starts_of_a_cyclic_node() {
        let system = System::parse(TEXT, "test.yaml").unwrap();
        let record = Record::new(system.graph.as_ref().unwrap(), &[0, 3], 50_000_000);
        [10, 22, 31].into_iter().for_each(|at| record.began(3, at));
        record.began(0, 40);
        let plan = CycleResult { id: "plan".into(), period_ns: vec![12, 9] };
        assert_eq!(record.cycles(), [plan]);
    }
}
