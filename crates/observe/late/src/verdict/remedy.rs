//! What helps against a cause.

use serde::Serialize;

/// A remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Mutexes that lend their waiters' priority to their owner.
    InheritanceMutex,
    /// Mutexes that are given to who waited longest.
    FairMutex,
    /// Read-write locks that let readers and writers in by turns.
    PhaseFairRwLock,
    /// Less time with the lock.
    ShorterHolds,
    /// Copies from and to pinned memory, which need no lock while the data moves.
    PinnedMemory,
    /// Smaller copies.
    SmallerCopies,
    /// Launching all at once as a graph.
    CudaGraph,
    /// Fewer threads that use the device or want a processor.
    FewerThreads,
    /// A real-time priority, or a higher one.
    HigherPriority,
    /// Waiting for the device more often, so that less is outstanding.
    FewerOutstandingLaunches,
    /// Memory that is locked and touched beforehand, so that no page fault comes.
    LockedMemory,
    /// Work of several processes in the order of their urgency.
    ArbitratedGpu,
}
