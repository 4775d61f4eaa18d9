//! Environment variables, as far as a program may believe them.

use std::ffi::OsString;

/// The value of an environment variable; None if it is not set or empty.
///
/// Also None in a program that has rights which whoever started it has not: set-user-id,
/// set-group-id, or with capabilities of its file. Its environment is that of somebody with fewer
/// rights, who could name a server of his own there.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights() {
        return None;
    }
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns true if this program has more rights than the user who started it, as the kernel says.
pub fn has_more_rights() -> bool {
    // SAFETY: takes a number; every Linux knows this one.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
