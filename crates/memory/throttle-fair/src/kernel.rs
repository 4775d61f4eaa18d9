//! Check that the running kernel takes a scheduler in BPF.

use std::fs;
use std::path::Path;

use crate::Error;

const FOLDER: &str = "/sys/kernel/sched_ext";

/// Checks that the running kernel would take one now.
///
/// # Errors
/// [`Error::NoSchedExt`] if it takes none, [`Error::Occupied`] if it has one.
pub fn available() -> Result<(), Error> {
    if !Path::new(FOLDER).is_dir() {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        return Err(Error::NoSchedExt { release });
    }
    let state = fs::read_to_string(format!("{FOLDER}/state")).unwrap_or_default();
    if state.trim() == "disabled" || state.is_empty() {
        return Ok(());
    }
    let name = fs::read_to_string(Path::new(FOLDER).join("root").join("ops")).unwrap_or_default();
    Err(Error::Occupied { name: name.trim().to_owned() })
}
