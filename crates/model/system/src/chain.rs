//! Chains: callbacks in sequence, released together once per period.

use crate::MAX_BUCKETS;
use crate::field::{self, AnyTime, TimeAbove0, name};
use files::is_default;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// One chain of callbacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Unique name.
    #[serde(deserialize_with = "name")]
    pub id: String,
    /// Unique; larger is more critical.
    #[serde(default)]
    pub priority: u32,
    /// Distance between two releases.
    #[serde(rename = "period", with = "TimeAbove0")]
    pub period_ns: u64,
    /// Relative deadline, at most the period. While a file is read, 0 stands for the period.
    #[serde(default, rename = "deadline", with = "TimeAbove0")]
    pub deadline_ns: u64,
    /// Largest delay of the release of a job after its nominal release, at most the period.
    #[serde(default, rename = "jitter", with = "AnyTime", skip_serializing_if = "is_default")]
    pub jitter_ns: u64,
    /// Behaviour of its callbacks while an accelerator works for them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Wait,
    /// True if its own deadline stays out of the verdict.
    #[serde(default, skip_serializing_if = "is_default")]
    pub best_effort: bool,
    /// Explicit buckets by accelerator; see [`System::bucket_map`](crate::System::bucket_map).
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "buckets")]
    pub bucket: BTreeMap<String, u32>,
    /// The callbacks, in the order in which they run.
    pub callbacks: Vec<Callback>,
}

fn buckets<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u32>, D::Error> {
    #[derive(Deserialize)]
    struct Bucket(#[serde(deserialize_with = "field::number::<_, _, 0, { MAX_BUCKETS - 1 }>")] u32);

    let buckets = BTreeMap::<String, Bucket>::deserialize(from)?;
    Ok(buckets.into_iter().map(|(accelerator, bucket)| (accelerator, bucket.0)).collect())
}

/// Behaviour of a callback while an accelerator works for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Gives up its core.
    #[default]
    Suspend,
    /// Keeps its core busy.
    Spin,
}

/// One callback: CPU work on an executor and accelerator segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// Unique in its chain.
    #[serde(deserialize_with = "name")]
    pub id: String,
    /// The executor it runs on.
    #[serde(deserialize_with = "name")]
    pub executor: String,
    /// Worst-case CPU time.
    #[serde(default, rename = "cpu", with = "AnyTime", skip_serializing_if = "is_default")]
    pub cpu_ns: u64,
    /// Least CPU time, where the file gives it.
    #[serde(default, rename = "cpu_min", with = "AnyTime")]
    pub cpu_min_ns: Option<u64>,
    /// Its requests to accelerators, in order.
    #[serde(default)]
    pub segments: Vec<Segment>,
}

/// One request to an accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The accelerator.
    #[serde(deserialize_with = "name")]
    pub accel: String,
    /// Worst-case time on the accelerator, without overheads.
    #[serde(rename = "exec", with = "TimeAbove0")]
    pub exec_ns: u64,
    /// Least time on the accelerator, where the file gives it.
    #[serde(default, rename = "exec_min", with = "AnyTime")]
    pub exec_min_ns: Option<u64>,
    /// CPU time that the callback always spends before this request, since its start or since the
    /// request before.
    #[serde(default, rename = "cpu_before", with = "AnyTime", skip_serializing_if = "is_default")]
    pub cpu_before_ns: u64,
    /// The service it calls, where the file names one.
    #[serde(default, deserialize_with = "name")]
    pub service: Option<String>,
}

/// A maximal run of consecutive callbacks of a chain on one executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'c> {
    /// The executor.
    pub executor: &'c str,
    /// The callbacks, in order; never empty.
    pub callbacks: &'c [Callback],
}

impl Chain {
    /// Cuts the chain where the executor changes.
    pub fn parts(&self) -> Vec<Part<'_>> {
        self.callbacks
            .chunk_by(|a, b| a.executor == b.executor)
            .map(|callbacks| Part { executor: &callbacks[0].executor, callbacks })
            .collect()
    }

    /// Every segment of the chain, in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.callbacks.iter().flat_map(|callback| &callback.segments)
    }

    /// Returns true if a segment of the chain runs on this accelerator.
    pub fn uses(&self, accelerator: &str) -> bool {
        self.segments().any(|segment| segment.accel == accelerator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callback(id: &str, executor: &str) -> Callback {
        let (id, executor) = (id.to_owned(), executor.to_owned());
        Callback { id, executor, cpu_ns: 1, cpu_min_ns: None, segments: Vec::new() }
    }

    #[test]
    fn a_chain_is_cut_where_the_executor_changes() {
        let chain = Chain {
            id: "chain".to_owned(),
            priority: 1,
            period_ns: 10,
            deadline_ns: 10,
            jitter_ns: 0,
            wait: Wait::Suspend,
            best_effort: false,
            bucket: BTreeMap::new(),
            callbacks: vec![
                callback("a", "e1"),
                callback("b", "e1"),
                callback("c", "e2"),
                callback("d", "e1"),
            ],
        };
        let parts: Vec<_> = chain
            .parts()
            .iter()
            .map(|part| (part.executor.to_owned(), part.callbacks.len()))
            .collect();
        assert_eq!(parts, [("e1".to_owned(), 2), ("e2".to_owned(), 1), ("e1".to_owned(), 1)]);
    }
}
