//! Why a study does not go on.

use std::path::{Path, PathBuf};

/// Why a study does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is no study.
    #[error("{option}: found {found}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// What it was.
        found: String,
        /// What it can be.
        expected: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What it holds, and what was expected.
        problem: String,
    },
    /// A line of a file holds something else.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What it holds, and what was expected.
        problem: String,
    },
    /// A scenario was not driven.
    #[error("{what}: {source}")]
    Drive {
        /// Which, how.
        what: String,
        /// Why.
        source: Box<driving::drive::Error>,
    },
    /// The machine refused a core to a thread.
    #[error(transparent)]
    Core(#[from] realtime::Error),
    /// What takes the cache beside a module cannot be had.
    #[error("hogs: {0}")]
    Hog(#[from] bandwidth::workload::Error),
    /// The results cannot be written as Parquet.
    #[error("Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A part of the results is no JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    }

    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Error {
        Error::Content { path: path.to_owned(), problem: problem.into() }
    }
}
