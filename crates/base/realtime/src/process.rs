//! A process and the one that started it.

use std::io::{Error, ErrorKind};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Called in a child: the kernel kills it when its parent ends.
///
/// # Errors
/// The kernel refuses, or the parent has ended already.
pub fn die_with(parent: i32) -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let alive = getppid().is_some_and(|pid| pid.as_raw_pid() == parent);
    let gone = || Error::new(ErrorKind::NotFound, "the parent process has ended");
    if alive { Ok(()) } else { Err(gone()) }
}
