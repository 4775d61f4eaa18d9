//! Errors of a study.

use std::path::{Path, PathBuf};

/// Reason for which a study does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has a value that makes no study.
    #[error("{option}: found {found}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// Value that was found.
        found: String,
        /// Values that are possible.
        expected: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Content that was found, and the expected one.
        problem: String,
    },
    /// A line of a file holds something else.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Content that was found, and the expected one.
        problem: String,
    },
    /// A scenario was not driven.
    #[error("{what}: {source}")]
    Drive {
        /// Name of the drive, or of its scenario.
        what: String,
        /// Error of the drive.
        source: Box<driving::drive::Error>,
    },
    /// The machine refused a core to a thread.
    #[error(transparent)]
    Core(#[from] realtime::Error),
    /// The hogs that take the cache beside a module cannot be had.
    #[error("hogs: {0}")]
    Hog(#[from] bandwidth::workload::Error),
    /// The results cannot be written as Parquet.
    #[error("Parquet: {0}")]
    Parquet(#[from] trial::columns::ParquetError),
    /// A part of the results is no JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// Returns true if a signal stopped a drive.
    pub(crate) fn is_stopped(&self) -> bool {
        let Error::Drive { source, .. } = self else { return false };
        matches!(**source, driving::drive::Error::Stopped)
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    }

    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Error {
        Error::Content { path: path.to_owned(), problem: problem.into() }
    }
}
