//! Refusals of a device, with the numbers that tell why.

use crate::{ContextId, KernelId, Level, StreamId};

/// Reason why a device refused a call. Accepted work reports its end in its outcome instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel id is unknown.
    #[error("no kernel {}", .0.0)]
    UnknownKernel(KernelId),
    /// The context does not exist, or was destroyed.
    #[error("no context {}", .0.0)]
    UnknownContext(ContextId),
    /// The stream does not exist, or was destroyed.
    #[error("no stream {}", .0.0)]
    UnknownStream(StreamId),
    /// The device has fewer levels.
    #[error("no level {}: the device has {levels}", .level.0)]
    UnknownLevel {
        /// The level asked for.
        level: Level,
        /// Number of levels.
        levels: u8,
    },
    /// The event is armed by work that has not completed.
    #[error("the event is armed already")]
    EventBusy,
    /// An argument of a launch is out of range.
    #[error("kernel {kernel}: argument {index} is {value}, allowed is {least} to {most}")]
    BadArgument {
        /// Name of the kernel.
        kernel: &'static str,
        /// Index of the argument.
        index: usize,
        /// Its value.
        value: u64,
        /// The smallest allowed value.
        least: u64,
        /// The largest allowed value, given the other arguments.
        most: u64,
    },
    /// A buffer is too short for the arguments.
    #[error("the {buffer} has {length} bytes, needed are {needed}")]
    ShortBuffer {
        /// `input`, `output` or `destination`.
        buffer: &'static str,
        /// Bytes that it needs; saturated when the arguments ask for more than can be counted.
        needed: u64,
        /// Bytes that it has.
        length: u64,
    },
    /// The device has no more room.
    #[error("limit of {limit} {what} reached")]
    Exhausted {
        /// Kind of the objects.
        what: &'static str,
        /// Largest number of them.
        limit: u64,
    },
    /// The device was shut down.
    #[error("the device is shut down")]
    Closed,
    /// The device could not be started.
    #[error("device: {0}")]
    Start(String),
}
