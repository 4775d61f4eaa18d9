//! Texts of foreign files.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::path::Path;

/// Reads the text of a file of at most `most` bytes; refuses a pipe or a device, which may have no
/// end.
pub(crate) fn read(path: &Path, most: u64) -> Result<String> {
    let refuse = || Error::other(format!("it is no ordinary file of at most {most} bytes"));
    // Looked at first: a pipe would have to be waited for.
    if !std::fs::metadata(path)?.is_file() {
        return Err(refuse());
    }
    let mut text = String::new();
    let bytes = File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if bytes as u64 > most { Err(refuse()) } else { Ok(text) }
}
