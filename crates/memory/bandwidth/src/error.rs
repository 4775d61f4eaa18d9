//! Errors at either end of the control socket.

use crate::handshake::Refusal;
use rustix::io::Errno;
use std::path::PathBuf;

/// An error of this crate. Those of [`crate::Hold::attach`] hold no memory of their own.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No regulator answers at the socket.
    #[error("no regulator answers: {call}: {errno}; `keeptime regulate` starts one")]
    NoRegulator {
        /// The call that failed.
        call: &'static str,
        /// The reason.
        errno: Errno,
    },
    /// The regulator said no.
    #[error("the regulator refuses: {0}")]
    Refused(Refusal),
    /// The process that listens at the socket is no regulator of this version.
    #[error(
        "found {found}, expected a regulator of version {expected}",
        expected = crate::page::VERSION
    )]
    Protocol {
        /// Behaviour that was found instead.
        found: &'static str,
    },
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// The reason.
        errno: Errno,
    },
    /// The configuration cannot be served.
    #[error("{key}: {found}: {expected}")]
    Config {
        /// The setting.
        key: &'static str,
        /// Value that was found.
        found: String,
        /// Value that was expected.
        expected: String,
    },
    /// The socket cannot be set up.
    #[error("{path}: {reason}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The reason, such as another regulator that runs there.
        reason: shm::door::Closed,
    },
    /// Shared memory failed.
    #[error(transparent)]
    Memory(#[from] shm::Error),
}

impl Error {
    pub(crate) fn system(call: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| Error::System { call, errno }
    }
}
