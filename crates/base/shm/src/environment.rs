//! Environment variables, as far as a program may believe them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Default path of the socket `NAME.sock` of a server of this user: in `/run/keeptime` for root,
/// otherwise in the first of these folders that belongs to the user: `$XDG_RUNTIME_DIR/keeptime`,
/// `/run/user/UID/keeptime`, `/tmp/keeptime-UID`. A user without a login session has the last one
/// alone, which the server makes.
pub fn own_socket(name: &str) -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return socket_in(Path::new("/run/keeptime"), name);
    }
    let session = session_folders().into_iter().find(|folder| is_own(folder));
    let folder = session.map_or_else(lasting_folder, |folder| folder.join("keeptime"));
    socket_in(&folder, name)
}

/// The socket `NAME.sock` at which a program looks for its server by default: the one that the
/// `named` variable has; without it the first one that exists in the folders of [`own_socket`];
/// otherwise `/run/keeptime/NAME.sock`. In `/tmp`, a folder of another user does not count.
pub fn server_socket(named: &str, name: &str) -> PathBuf {
    if let Some(path) = variable(named) {
        return path.into();
    }
    let session = session_folders().into_iter().map(|folder| folder.join("keeptime"));
    let lasting = Some(lasting_folder()).filter(|folder| is_own(folder));
    let own = session.chain(lasting).map(|folder| socket_in(&folder, name));
    let found = own.into_iter().find(|socket| socket.exists());
    found.unwrap_or_else(|| socket_in(Path::new("/run/keeptime"), name))
}

fn socket_in(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("sock")
}

/// Folders of the user's login session: the named one, and the usual one.
fn session_folders() -> Vec<PathBuf> {
    let named = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    named.into_iter().chain([usual]).collect()
}

/// The folder of a user without a login session.
fn lasting_folder() -> PathBuf {
    format!("/tmp/keeptime-{}", rustix::process::geteuid().as_raw()).into()
}

/// Returns true for a folder of this user, and not for a link to one.
fn is_own(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    rustix::fs::lstat(folder).is_ok_and(|found| {
        let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
        kind == rustix::fs::FileType::Directory && found.st_uid == own
    })
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
