//! Errors of an executor.

/// Errors of building and running an executor, and of its requests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A thread could not be set up: its core or its priority does not exist.
    #[error(transparent)]
    Thread(#[from] realtime::Error),
    /// A thread could not be started.
    #[error("a thread of the executor: {0}")]
    Start(#[source] std::io::Error),
    /// The accelerator server refused, or is not there.
    #[error(transparent)]
    Accelerator(#[from] accel::Error),
    /// The executor has no connection to an accelerator server; see
    /// [`Executor::connect`](crate::Executor::connect).
    #[error("this executor is connected to no accelerator server")]
    NotConnected,
    /// An executor needs a thread.
    #[error("an executor without threads: expected at least one")]
    NoThreads,
    /// So many requests of one continuation are on the way already.
    #[error("{outstanding} requests of this continuation are on the way, at most as many may be")]
    Full {
        /// The limit.
        outstanding: usize,
    },
}
