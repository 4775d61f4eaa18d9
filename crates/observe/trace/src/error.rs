//! Errors of recording a program, and of writing or reading a trace.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate. Offsets and sizes are in bytes. What was the reason stands in the
/// message, so there is no source beside it, which would print it twice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something about a trace file.
    #[error("{}: cannot be {action}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The action that failed, as a past participle such as `written`.
        action: &'static str,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// A directory, a device or a pipe where a trace should be.
    #[error("{}: not a regular file; a trace is written to and read from one", file.display())]
    NotRegular {
        /// The file.
        file: PathBuf,
    },
    /// The file begins with something else.
    #[error("{}: not a trace: begins with \"{}\", expected \"KEEPTIME\"",
        file.display(), found.escape_ascii())]
    NotATrace {
        /// The file.
        file: PathBuf,
        /// Its first bytes, at most 8.
        found: Vec<u8>,
    },
    /// The trace is of another version.
    #[error("{}: offset {offset}: version {found}, this program reads versions 1 to {expected}",
        file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Offset of the version in the file.
        offset: u64,
        /// The file's version.
        found: u32,
        /// The newest version that is read; the oldest is 1.
        expected: u32,
    },
    /// The end is missing.
    #[error("{}: incomplete: {bytes} bytes, and no footer in the last {footer}", file.display())]
    Incomplete {
        /// The file.
        file: PathBuf,
        /// Its size.
        bytes: u64,
        /// Size of a footer.
        footer: u64,
    },
    /// A part of the file is not where it can be.
    #[error("{}: {part}: {bytes} bytes at offset {offset}, \
        expected inside {from} to {to}, without a gap", file.display())]
    Bounds {
        /// The file.
        file: PathBuf,
        /// Name of the part.
        part: &'static str,
        /// Offset at which the part begins, according to the file.
        offset: u64,
        /// Size of the part, according to the file.
        bytes: u64,
        /// Smallest offset at which the part may begin.
        from: u64,
        /// Offset at which the part must end, or the largest one at which it may end.
        to: u64,
    },
    /// A part is larger than anything this program writes.
    #[error("{}: {part}: {found}, at most {limit} are read", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Name of the part, with its unit.
        part: &'static str,
        /// Size of the part.
        found: u64,
        /// The largest that is read.
        limit: u64,
    },
    /// A value that no writer writes.
    #[error("{}: offset {offset}: {field} is {found}, expected {expected}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// Offset of the structure that holds the value.
        offset: u64,
        /// Name of the value.
        field: &'static str,
        /// The value.
        found: u64,
        /// Description of a correct value.
        expected: String,
    },
    /// The metadata is not the JSON that it should be.
    #[error("{}: metadata at offset {offset}: {reason}", file.display())]
    Metadata {
        /// The file.
        file: PathBuf,
        /// Offset of the metadata in the file.
        offset: u64,
        /// The error of the JSON parser.
        reason: serde_json::Error,
    },
    /// The clock readings of the metadata make no clock.
    #[error("{}: metadata: clock readings (ticks, ns) {start:?} and {end:?}, \
        expected the second at least 1000 ns and 1 tick after the first", file.display())]
    Clock {
        /// The file.
        file: PathBuf,
        /// Ticks and nanoseconds at the start.
        start: (u64, u64),
        /// Ticks and nanoseconds at the end.
        end: (u64, u64),
    },
    /// The memory of the recording could not be had.
    #[error("{0}")]
    Recording(record::Error),
    /// More memory was asked for than the machine, or this process's control group, has left.
    #[error("{bytes} bytes of memory for the recording, {available} bytes are available")]
    Memory {
        /// Asked for.
        bytes: u64,
        /// Available.
        available: u64,
    },
    /// Files may not be as large as the smallest recording.
    #[error("files may have at most {limit} bytes (ulimit -H -f), a recording needs {least}")]
    FileLimit {
        /// The limit, in bytes.
        limit: u64,
        /// Size of the smallest recording, in bytes.
        least: u64,
    },
    /// The library cannot be preloaded.
    #[error("{}: cannot be preloaded: {reason}", file.display())]
    Preload {
        /// The library.
        file: PathBuf,
        /// Reason why the library cannot be preloaded.
        reason: String,
    },
    /// The program could not be started.
    #[error("cannot run {program}: {reason}")]
    Start {
        /// The program.
        program: String,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// A request to the kernel cannot be fulfilled here.
    #[error("{0}")]
    Kernel(crate::kernel::Error),
    /// A system call failed.
    #[error("{call}: {reason}")]
    System {
        /// The call, with what it was about.
        call: String,
        /// The operating system's reason.
        reason: io::Error,
    },
}

impl From<record::Error> for Error {
    fn from(error: record::Error) -> Error {
        Error::Recording(error)
    }
}

impl From<crate::kernel::Error> for Error {
    fn from(error: crate::kernel::Error) -> Error {
        Error::Kernel(error)
    }
}

impl Error {
    pub(crate) fn file(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |reason| Error::File { file: file.to_owned(), action, reason }
    }

    pub(crate) fn system<E: Into<io::Error>>(call: impl Into<String>) -> impl FnOnce(E) -> Error {
        move |error| Error::System { call: call.into(), reason: error.into() }
    }
}
