//! Errors while results are written.

use std::path::PathBuf;

/// Reason why results could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder is not there and cannot be made.
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The samples could not be encoded.
    #[error("samples.parquet: {0}")]
    Samples(#[from] trial::columns::ParquetError),
    /// A plot or the page could not be made.
    #[error("report.html: {0}")]
    Page(#[from] report::Error),
    /// The paper could not be typeset.
    #[error("report.pdf: {0}")]
    Paper(String),
}
