//! Texts of foreign files.

use std::io::{Error, Result};
use std::path::Path;

/// Reads the text of an ordinary file of at most `most` bytes. A pipe would have to be waited for.
pub(crate) fn read(path: &Path, most: u64) -> Result<String> {
    match std::fs::metadata(path)?.is_file() {
        true => files::text(path, most),
        false => Err(Error::other(format!("expected a regular file of at most {most} bytes"))),
    }
}
