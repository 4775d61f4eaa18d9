//! Environment variables, as far as a program may believe them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Default path of the socket `NAME.sock` of a server of this user: in `/run/keeptime` for root,
/// otherwise in `$XDG_RUNTIME_DIR/keeptime`, where an unset variable means `/run/user/UID`.
pub fn own_socket(name: &str) -> PathBuf {
    let is_root = rustix::process::geteuid().is_root();
    socket_in(if is_root { Path::new("/run").to_owned() } else { runtime_folder() }, name)
}

/// The socket `NAME.sock` at which a program looks for its server by default: the one that the
/// `named` variable has; without it `$XDG_RUNTIME_DIR/keeptime/NAME.sock` (an unset variable means
/// `/run/user/UID`) if there is one; otherwise `/run/keeptime/NAME.sock`.
pub fn server_socket(named: &str, name: &str) -> PathBuf {
    if let Some(path) = variable(named) {
        return path.into();
    }
    let own = socket_in(runtime_folder(), name);
    if own.exists() { own } else { socket_in("/run".into(), name) }
}

fn socket_in(folder: PathBuf, name: &str) -> PathBuf {
    folder.join("keeptime").join(name).with_extension("sock")
}

fn runtime_folder() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    variable("XDG_RUNTIME_DIR").map_or_else(|| format!("/run/user/{user}").into(), PathBuf::from)
}

/// The value of an environment variable; None if it is not set or empty.
///
/// Also None in a program that has rights that its parent process does not have: set-user-id,
/// set-group-id, or with capabilities of its file. Its environment comes from a user with fewer
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
