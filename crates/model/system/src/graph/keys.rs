//! Keys of the graph in a file, where they are not those of its types.

use super::{Input, Node, NodeKind, NodeTimer, Work};
use crate::Segment;
use crate::field::{TimeAbove0, is, name, number};
use crate::quantity::format_time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The most messages that an input keeps.
const MAX_DEPTH: u32 = 1000;
/// The largest limit of the search for prime numbers: some minutes of work.
const MAX_PRIMES: u32 = 100_000_000;

/// The keys of a node of any kind; [`check`](super::graph_check) refuses those that its kind has not.
#[derive(Serialize, Deserialize)]
pub(super) struct NodeKeys {
    #[serde(deserialize_with = "name")]
    id: String,
    kind: NodeKind,
    #[serde(deserialize_with = "name")]
    executor: String,
    #[serde(default, with = "TimeAbove0")]
    cpu: Option<u64>,
    #[serde(default, deserialize_with = "number::<_, _, 2, MAX_PRIMES>")]
    primes: Option<u32>,
    #[serde(default, with = "TimeAbove0")]
    period: Option<u64>,
    priority: Option<u32>,
    #[serde(default)]
    segments: Vec<Segment>,
    #[serde(default)]
    inputs: Vec<InputKeys>,
}

#[derive(Serialize, Deserialize)]
struct InputKeys {
    #[serde(deserialize_with = "name")]
    from: String,
    #[serde(default, deserialize_with = "name")]
    output: Option<String>,
    priority: u32,
    #[serde(default = "crate::field::constant::<1>", skip_serializing_if = "is::<1>")]
    #[serde(deserialize_with = "number::<_, _, 1, MAX_DEPTH>")]
    depth: u32,
    /// Those of the node if there are none.
    segments: Option<Vec<Segment>>,
}

impl From<NodeKeys> for Node {
    fn from(keys: NodeKeys) -> Node {
        let NodeKeys { id, kind, executor, cpu, primes, period, priority, segments, inputs } = keys;
        let work = match (primes, cpu) {
            (Some(limit), cpu_ns) => Work::Primes { limit: limit.into(), cpu_ns },
            (None, Some(cpu_ns)) => Work::Cpu(cpu_ns),
            (None, None) => Work::None,
        };
        // Segments that stand at a node with a timer are the timer's.
        let (of_timer, of_inputs) = match kind.has_timer() {
            true => (segments, Vec::new()),
            false => (Vec::new(), segments),
        };
        let timer = kind.has_timer().then(|| NodeTimer {
            period_ns: period.unwrap_or_default(),
            priority: priority.unwrap_or_default(),
            segments: of_timer,
        });
        let input = |InputKeys { from, output, priority, depth, segments }| {
            let segments = segments.unwrap_or_else(|| of_inputs.clone());
            Input { from, output, priority, depth, segments }
        };
        let inputs = inputs.into_iter().map(input).collect();
        Node { id, kind, executor, work, timer, inputs }
    }
}

impl From<Node> for NodeKeys {
    fn from(node: Node) -> NodeKeys {
        let Node { id, kind, executor, work, timer, inputs } = node;
        let (primes, cpu) = match work {
            Work::None => (None, None),
            Work::Cpu(cpu_ns) => (None, Some(cpu_ns)),
            Work::Primes { limit, cpu_ns } => (u32::try_from(limit).ok(), cpu_ns),
        };
        let input = |Input { from, output, priority, depth, segments }| InputKeys {
            from,
            output,
            priority,
            depth,
            segments: Some(segments),
        };
        let inputs = inputs.into_iter().map(input).collect();
        let (period, priority, segments) = match timer {
            Some(timer) => (Some(timer.period_ns), Some(timer.priority), timer.segments),
            None => (None, None, Vec::new()),
        };
        NodeKeys { id, kind, executor, cpu, primes, period, priority, segments, inputs }
    }
}

/// Times by name.
pub(super) mod times {
    use super::*;

    pub(in crate::graph) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, u64>, D::Error> {
        #[derive(Deserialize)]
        struct Time(#[serde(with = "TimeAbove0")] u64);

        let times = BTreeMap::<String, Time>::deserialize(from)?;
        Ok(times.into_iter().map(|(name, time_ns)| (name, time_ns.0)).collect())
    }

    pub(in crate::graph) fn serialize<S: Serializer>(
        times: &BTreeMap<String, u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(times.iter().map(|(name, time_ns)| (name, format_time(*time_ns))))
    }
}
