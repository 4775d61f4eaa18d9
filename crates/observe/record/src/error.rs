//! Errors of a recording.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Too little memory was asked for.
    #[error("a recording of {bytes} bytes is too small, expected at least {least} bytes")]
    TooSmall {
        /// Asked for.
        bytes: u64,
        /// The least.
        least: u64,
    },
    /// The machine does not give that much memory.
    #[error("no memory for a recording of {bytes} bytes: {source}")]
    Memory {
        /// Asked for, with what surrounds the records.
        bytes: u64,
        /// Its reason.
        source: shm::Error,
    },
    /// The names of the libraries do not fit.
    #[error("the names of the libraries take more than {limit} bytes")]
    TooManyLibraries {
        /// Most bytes.
        limit: usize,
    },
    /// The path of a socket does not fit.
    #[error("{}: the path of a socket has at most {limit} bytes, this one {}",
        path.display(), path.as_os_str().len())]
    LongSocket {
        /// The path.
        path: std::path::PathBuf,
        /// Most bytes.
        limit: usize,
    },
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// The operating system's reason.
        errno: rustix::io::Errno,
    },
}

impl Error {
    pub(crate) fn system(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
        move |errno| Error::System { call, errno }
    }
}
