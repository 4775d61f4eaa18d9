//! Errors of an executor.

use std::path::PathBuf;

/// Errors of building and running an executor, and of its requests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A thread could not be set up: its core or its priority does not exist.
    #[error(transparent)]
    Thread(#[from] realtime::Error),
    /// A thread could not be started.
    #[error("thread of the executor: {0}")]
    Start(#[source] std::io::Error),
    /// The accelerator server refused, or is not there.
    #[error(transparent)]
    Accelerator(#[from] accel::Error),
    /// The executor has no connection to an accelerator server; see
    /// [`Executor::connect`](crate::Executor::connect).
    #[error("the executor is not connected to an accelerator server")]
    NotConnected,
    /// A pipe for messages between processes could not be opened.
    #[error("{}: cannot be opened as a pipe for messages: {source}", path.display())]
    Mailbox {
        /// The path of the pipe.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// An executor needs a thread.
    #[error("an executor without threads: expected at least one")]
    NoThreads,
    /// A continuation has as many outstanding requests as it may have.
    #[error("{outstanding} requests of this continuation are outstanding, which is the limit")]
    Full {
        /// The limit.
        outstanding: usize,
    },
}
