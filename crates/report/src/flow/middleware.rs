//! Times that messages took on their way between modules (COLA, figure 8: middleware).

use super::FlowDrive;
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
    /// Time from the publication of a message until it was in a mailbox, ms.
    pub hop_ms: Vec<f64>,
    /// Time for which each deserialisation of a message had a core, ms.
    pub deserialise_ms: Vec<f64>,
}

impl TopicTimes {
    /// Times of a topic whose messages have not been seen yet.
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
    pub(super) fn costs(&self) -> bool {
        !self.bytes.is_empty() || self.hop_ms.iter().any(|ms| *ms > 0.0)
    }

    pub(super) fn mean_bytes(&self) -> Option<f64> {
        Summary::of(&self.bytes).map(|_| self.bytes.iter().sum::<f64>() / self.bytes.len() as f64)
    }
}

/// Less is not seen in a tenth of a millisecond, ns.
pub(super) const SEEN_NS: u64 = 50_000;

/// The topics for machines.
pub(super) fn json(drive: &FlowDrive) -> Value {
    let topic = |topic: &TopicTimes| {
        json!({
            "topic": topic.topic,
            "bytes": {"count": topic.bytes.len(), "mean": topic.mean_bytes()},
            "serialise_ns": super::flow_json::times_ns(&topic.serialise_ms),
            "hop_ns": super::flow_json::times_ns(&topic.hop_ms),
            "deserialise_ns": super::flow_json::times_ns(&topic.deserialise_ms),
        })
    };
    drive.topics.iter().map(topic).collect()
}
