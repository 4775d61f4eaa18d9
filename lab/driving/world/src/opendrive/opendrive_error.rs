//! Error of a file that is refused.

/// Reason for which an OpenDRIVE file was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot be read: {reason}")]
    Read {
        /// The file.
        file: String,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The file is not XML.
    #[error("{file}: found malformed XML, expected OpenDRIVE: {reason}")]
    Form {
        /// The file.
        file: String,
        /// Error of the XML reader, with line and column.
        reason: roxmltree::Error,
    },
    /// An element or a value of it is missing, wrong, or in conflict with another one.
    #[error("{file}:{line}: {element}: found {found}, expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// The line where the element begins, from 1.
        line: usize,
        /// The element and, after a blank, the attribute, as in `geometry length`.
        element: String,
        /// Content that was found there.
        found: String,
        /// Content that was expected there.
        expected: String,
    },
}
