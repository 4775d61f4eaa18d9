//! Times that messages took on their way between modules (COLA, figure 8: middleware).

use super::{FlowDrive, ms};
use crate::text::clean;
use minijinja::context;
use serde_json::{Value, json};
use stats::Summary;

/// The messages of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicTimes {
    /// The topic; of what comes in from outside, its source.
    pub topic: String,
    /// Size of a message at each serialisation and deserialisation, in bytes.
    pub bytes: Vec<f64>,
    /// Time for which each serialisation of a message had a core, ms.
    pub serialise_ms: Vec<f64>,
    /// From the publication of a message until it was in a mailbox, ms.
    pub hop_ms: Vec<f64>,
    /// Time for which each deserialisation of a message had a core, ms.
    pub deserialise_ms: Vec<f64>,
}

impl TopicTimes {
    /// Of a topic whose messages have not been seen yet.
    pub fn new(topic: &str) -> TopicTimes {
        TopicTimes {
            topic: topic.to_owned(),
            bytes: Vec::new(),
            serialise_ms: Vec::new(),
            hop_ms: Vec::new(),
            deserialise_ms: Vec::new(),
        }
    }

    /// Returns true if its messages were not only shared pointers that arrive at once.
    fn costs(&self) -> bool {
        !self.bytes.is_empty() || self.hop_ms.iter().any(|ms| *ms > 0.0)
    }

    fn mean_bytes(&self) -> Option<f64> {
        Summary::of(&self.bytes).map(|_| self.bytes.iter().sum::<f64>() / self.bytes.len() as f64)
    }
}

/// The table of the topics; nothing if messages cost nothing.
pub(super) fn text(drive: &FlowDrive) -> String {
    let topics = || drive.topics.iter().filter(|topic| topic.costs());
    if topics().next().is_none() {
        return String::new();
    }
    let mut text = format!(
        "{:<13} {:>6} {:>7}  {:>22}  {:>22}  {:>22}\n",
        "middleware",
        "hops",
        "bytes",
        "serialise: p50 p99 max",
        "hop: p50 p99 max",
        "deserial.: p50 p99 max"
    );
    for topic in topics() {
        text += &format!(
            "{:<13} {:>6} {:>7}  {:>22}  {:>22}  {:>22}\n",
            clean(&topic.topic),
            topic.hop_ms.len(),
            topic.mean_bytes().map_or("-".to_owned(), |bytes| format!("{bytes:.0}")),
            times(&topic.serialise_ms),
            times(&topic.hop_ms),
            times(&topic.deserialise_ms)
        );
    }
    text
}

fn times(samples: &[f64]) -> String {
    let of = |all: Summary| format!("{:>6.3} {:>7.3} {:>7.3}", all.p50, all.p99, all.max);
    Summary::of(samples).map_or("-".to_owned(), of)
}

/// Less is not seen in a tenth of a millisecond, ns.
const SEEN_NS: u64 = 50_000;

/// Of a step of a critical path; nothing if there is too little of the middleware to be seen.
pub(super) fn step(step: &super::PathStep) -> String {
    let (hop, made, sent) = (step.hop_ns, step.deserialise_ns, step.serialise_ns);
    if hop.max(made).max(sent) < SEEN_NS {
        return String::new();
    }
    format!("  hop {:>5}  deserialise {:>5}  serialise {:>5}", ms(hop), ms(made), ms(sent))
}

/// The topics for the page.
pub(super) fn rows(drive: &FlowDrive) -> Vec<minijinja::Value> {
    let two = |samples: &[f64]| {
        let of = |all: Summary| [all.p50, all.p99, all.max].map(|ms| format!("{ms:.3}")).to_vec();
        Summary::of(samples).map_or_else(|| vec!["-".to_owned(); 3], of)
    };
    let row = |topic: &TopicTimes| {
        let bytes = topic.mean_bytes().map_or("-".to_owned(), |bytes| format!("{bytes:.0}"));
        let parts = [&topic.serialise_ms, &topic.hop_ms, &topic.deserialise_ms];
        let times: Vec<String> = parts.into_iter().flat_map(|part| two(part)).collect();
        context! { topic => topic.topic.as_str(), hops => topic.hop_ms.len(), bytes, times }
    };
    drive.topics.iter().filter(|topic| topic.costs()).map(row).collect()
}

/// The topics for machines.
pub(super) fn json(drive: &FlowDrive) -> Value {
    let topic = |topic: &TopicTimes| {
        json!({
            "topic": topic.topic,
            "bytes": {"count": topic.bytes.len(), "mean": topic.mean_bytes()},
            "serialise_ms": super::json::times(&topic.serialise_ms),
            "hop_ms": super::json::times(&topic.hop_ms),
            "deserialise_ms": super::json::times(&topic.deserialise_ms),
        })
    };
    drive.topics.iter().map(topic).collect()
}
