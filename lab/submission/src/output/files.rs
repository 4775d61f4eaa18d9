//! Files that are whole or not there.

use super::Error;
use std::path::{Path, PathBuf};

/// A folder of results.
pub(super) struct Folder {
    path: PathBuf,
    written: Vec<PathBuf>,
}

impl Folder {
    /// The folder, which is made where it does not exist.
    pub(super) fn create(path: &Path) -> Result<Folder, Error> {
        std::fs::create_dir_all(path)
            .map_err(|source| Error::Folder { path: path.to_owned(), source })?;
        Ok(Folder { path: path.to_owned(), written: Vec::new() })
    }

    /// Writes a file under another name, and renames it.
    pub(super) fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let failed = |source| Error::File { path: self.path.join(name), source };
        let path = trial::write_whole(&self.path, name, bytes).map_err(failed)?;
        self.written.push(path);
        Ok(())
    }

    /// All files so far, in order.
    pub(super) fn written(self) -> Vec<PathBuf> {
        self.written
    }
}
