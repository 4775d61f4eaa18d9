//! Errors that keep a server from starting.

use std::path::PathBuf;

/// An error of the server itself; what clients do wrong is answered to them, not raised here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be served.
    #[error("{key}: {found}: {expected}")]
    Config {
        /// The key in the system file.
        key: String,
        /// The value that was found.
        found: String,
        /// The expected value, in words.
        expected: String,
    },
    /// The socket cannot be set up.
    #[error("{path}: {reason}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The reason, such as another server that runs there.
        reason: shm::door::Closed,
    },
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// The reason.
        errno: rustix::io::Errno,
    },
    /// A thread cannot be started.
    #[error("thread {name}: {reason}")]
    Thread {
        /// Its name.
        name: &'static str,
        /// The reason.
        reason: std::io::Error,
    },
    /// The device does not start.
    #[error("accelerators.{id}.device: {device}: {reason}")]
    Start {
        /// The accelerator's id.
        id: String,
        /// The device that the file names.
        device: String,
        /// The reason.
        reason: device::Error,
    },
    /// The device failed.
    #[error("accelerator {id}: {reason}")]
    Device {
        /// The accelerator's id.
        id: String,
        /// The reason.
        reason: device::Error,
    },
    /// The measured execution times cannot be used.
    #[error("calibration {path}: {reason}")]
    Calibration {
        /// The file.
        path: PathBuf,
        /// The reason: the found and the expected content.
        reason: String,
    },
    /// Shared memory failed.
    #[error(transparent)]
    Memory(#[from] shm::Error),
}

impl Error {
    pub(crate) fn system(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
        move |errno| Error::System { call, errno }
    }
}
