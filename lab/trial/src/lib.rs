//! What experiments share.
#![forbid(unsafe_code)]

use std::fs::Permissions;
use std::io::{Error, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes a file into a folder, whole or not at all, and returns its path.
///
/// # Errors
/// It cannot be written. An older file of that name is then as it was.
pub fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let mut file = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(path)
}

/// FNV-1a in 64 bits: it is there to tell runs apart and to find damage, not to withstand malice.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_as_a_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["one", "two"] {
            let path = write_whole(folder.path(), "rows", text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_whole(&folder.path().join("nowhere"), "rows", b"").is_err());
    }

    #[test]
    fn checksum_is_that_of_the_published_test_vectors() {
        assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
