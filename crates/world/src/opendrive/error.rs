//! Why a file was refused.

/// Why an OpenDRIVE file was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot be read: {reason}")]
    Read {
        /// The file.
        file: String,
        /// What the operating system said.
        reason: std::io::Error,
    },
    /// It is not XML.
    #[error("{file}: found what is no XML, expected OpenDRIVE: {reason}")]
    Form {
        /// The file.
        file: String,
        /// What the XML reader said, with line and column.
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
        /// What stands there.
        found: String,
        /// What would be right.
        expected: String,
    },
}
