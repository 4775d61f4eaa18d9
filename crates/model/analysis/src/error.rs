//! Reasons for which there is no result, most of them faults of a model.

use std::fmt::Display;

/// Reason why a system cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A chain contradicts itself or the rest of the system.
    #[error("chain {chain}: {what}: found {found}, expected {expected}")]
    Model {
        /// The chain, an index.
        chain: usize,
        /// Name of the value.
        what: &'static str,
        /// The value.
        found: String,
        /// Expected value.
        expected: String,
    },
    /// Times so long that they cannot be summed.
    #[error("execution times and overheads of {work_ns} ns in all, expected at most 2^60 ns")]
    Work {
        /// Sum of those.
        work_ns: u128,
    },
    /// Two real-time executors have the same place.
    #[error("two executors have priority {priority} on core {core}, expected an order")]
    Executors {
        /// The core.
        core: u32,
        /// The process priority.
        priority: u32,
    },
    /// The [`Watch`](crate::Watch) ended the computation before it had a result.
    #[error("ended before there was a result")]
    Stopped,
}

impl Error {
    pub(crate) fn model(
        chain: usize,
        what: &'static str,
        found: impl Display,
        expected: String,
    ) -> Error {
        Error::Model { chain, what, found: found.to_string(), expected }
    }
}
