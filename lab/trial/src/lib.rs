//! Common parts of experiments.
//!
//! - [`Child`] is a process that an experiment starts, [`Parent`] the other side of the dialogue
//!   with it; [`Children`] work at the same time.
//! - [`signals`] end the wait for a child, and all children soon after; the experiment keeps its
//!   finished part.
//! - A [`Shard`] is the part of a study that one run makes; all of one study are [`complete`].
//! - [`columns`] writes Parquet files.
//! - [`write_whole`] writes files that are whole or not there, [`checksum`] finds damage.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! // This program again: its subcommand `child` joins its `Parent`, and hears the order.
//! let mut child = trial::Child::order("the adder", &"add")?;
//! let sum: u64 = child.ask(&[1, 2, 3])?;
//! assert_eq!(sum, 6);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod child;
mod children;
pub mod columns;
mod process;
mod shard;

pub use child::{Child, Parent, parent_option, wait_until};
pub use children::{Answer, Children};
pub use shard::{Shard, complete, difference};
pub use terminal::signals;

use std::hash::Hasher;
use std::io::Error;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;

/// Writes a file into a folder, whole or not at all, and returns its path.
///
/// # Errors
/// It cannot be written. An older file of that name is then as it was.
pub fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    terminal::output::whole(&path, bytes)?;
    Ok(path)
}

/// FNV-1a in 64 bits, as hexadecimal digits: it is there to tell runs apart and to find damage, not
/// to withstand malice.
pub fn checksum(bytes: &[u8]) -> String {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    format!("{:016x}", hasher.finish())
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
        assert_eq!(checksum(b""), "cbf29ce484222325");
        assert_eq!(checksum(b"a"), "af63dc4c8601ec8c");
        assert_eq!(checksum(b"foobar"), "85944171f73967e8");
    }
}
