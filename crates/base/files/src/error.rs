//! Errors in a file, in the form `FILE:LINE:COLUMN: KEY: found, expected`.

use std::io;

/// Reason for which a file was refused.
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
    /// Something in the file is wrong.
    #[error("{file}:{line}:{column}: {message}")]
    Content {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The key with its path, as in `chains[2].perod`, what was found and what was expected; or
        /// why the text is neither YAML nor JSON.
        message: String,
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
