//! Files up to a limit: one without an end (a device, a pipe) is not read to its end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The bytes of a file.
///
/// # Errors
/// The kernel's reason; [`ErrorKind::FileTooLarge`] for more than `most` bytes.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 <= most {
        return Ok(bytes);
    }
    Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {most} bytes")))
}

/// The text of a file.
///
/// # Errors
/// Those of [`bytes`]; [`ErrorKind::InvalidData`] for what is no UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String> {
    let no_text = |_| Error::new(ErrorKind::InvalidData, "not a text in UTF-8");
    String::from_utf8(bytes(path, most)?).map_err(no_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_up_to_its_limit_and_not_beyond() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let length = file.metadata().unwrap().len();
        assert_eq!(text(&file, length).unwrap().len() as u64, length);
        assert_eq!(text(&file, length - 1).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let endless = bytes(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(endless.to_string(), "larger than 1048576 bytes");
    }
}
