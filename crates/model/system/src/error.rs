//! Errors in a system file, in the form `FILE:LINE:COLUMN: KEY: found, expected`.

use std::io;

/// Reason for which a system file was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot be read: {reason}")]
    Read {
        /// The file.
        file: String,
        /// Reason of the operating system.
        reason: io::Error,
    },
    /// The file is larger than any system file should be.
    #[error("{file}: larger than {limit_bytes} bytes; is this a system file?")]
    TooLarge {
        /// The file.
        file: String,
        /// The largest size that is read.
        limit_bytes: u64,
    },
    /// The text is neither YAML nor JSON, or uses YAML that a system file has no use for.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Description of the error.
        message: String,
    },
    /// A key that a system file does not have there.
    #[error("{file}:{line}:{column}: {path}: unknown key; expected one of {expected}")]
    UnknownKey {
        /// The file.
        file: String,
        /// Line of the key, from 1.
        line: usize,
        /// Column of the key, from 1.
        column: usize,
        /// The key with its path, as in `chains[2].perod`.
        path: String,
        /// The keys that may stand there.
        expected: String,
    },
    /// A key that must be there is not.
    #[error("{file}:{line}:{column}: {path}: missing key")]
    MissingKey {
        /// The file.
        file: String,
        /// Line of the mapping that lacks the key, from 1.
        line: usize,
        /// Column of the mapping that lacks the key, from 1.
        column: usize,
        /// The key with its path.
        path: String,
    },
    /// A value of the wrong type, out of range, or in conflict with another one.
    #[error("{file}:{line}:{column}: {path}: found {found}, expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// Line of the value, from 1.
        line: usize,
        /// Column of the value, from 1.
        column: usize,
        /// The key with its path, as in `chains[2].bucket.gpu0`.
        path: String,
        /// The value.
        found: String,
        /// Expected value, in words.
        expected: String,
    },
    /// A section that this use of the file needs is empty.
    #[error("{file}: {section}: found none, expected at least one {item}")]
    Missing {
        /// The file.
        file: String,
        /// The key of the section.
        section: &'static str,
        /// Noun for one entry.
        item: &'static str,
    },
}
