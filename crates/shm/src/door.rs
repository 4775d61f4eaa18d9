//! The door of a service: a listening socket, its permissions, and how often somebody may knock.

use crate::socket::Socket;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::collections::HashMap;
use std::io::Error as IoError;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const BACKLOG: i32 = 128;

/// A listening socket at a path, removed when this goes.
#[derive(Debug)]
pub struct Door {
    /// It accepts connections, and never blocks.
    pub socket: Socket,
    path: PathBuf,
}

/// Why a door cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// Somebody listens there.
    #[error("somebody listens there")]
    InUse,
    /// A call failed.
    #[error("{call}: {errno}")]
    Call {
        /// The call.
        call: &'static str,
        /// The reason.
        errno: Errno,
    },
}

fn failed(call: &'static str) -> impl Fn(Errno) -> Closed {
    move |errno| Closed::Call { call, errno }
}

fn io(call: &'static str) -> impl Fn(IoError) -> Closed {
    move |error| failed(call)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

impl Door {
    /// Opens the door; the folder is made if it is missing. The socket gets its group and its
    /// permissions under another name, before anybody can connect, and then its own name, so that
    /// nobody finds it half-open. One that a dead process left is replaced.
    ///
    /// # Errors
    /// [`Closed::InUse`] when somebody listens there, [`Closed::Call`] when the kernel refuses.
    pub fn open(path: &Path, mode: u32, group: Option<u32>) -> Result<Door, Closed> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(io("mkdir"))?;
        }
        if Socket::connect(path).is_ok() {
            return Err(Closed::InUse);
        }
        let hidden = path.with_extension(format!("new.{}", std::process::id()));
        let _ = std::fs::remove_file(&hidden);
        let socket = crate::socket::new_socket().map_err(failed("socket"))?;
        let address = SocketAddrUnix::new(&hidden).map_err(failed("bind"))?;
        rustix::net::bind(&socket, &address).map_err(failed("bind"))?;
        let open = || {
            std::os::unix::fs::chown(&hidden, None, group).map_err(io("chown"))?;
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&hidden, permissions).map_err(io("chmod"))?;
            rustix::net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
            std::fs::rename(&hidden, path).map_err(io("rename"))
        };
        if let Err(closed) = open() {
            let _ = std::fs::remove_file(&hidden);
            return Err(closed);
        }
        Ok(Door { socket: socket.into(), path: path.to_path_buf() })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// How often each user may connect: a bucket of tokens for each.
#[derive(Debug)]
pub struct Pace {
    per_second: u32,
    users: HashMap<u32, (f64, u64)>,
}

impl Pace {
    /// So many connections a second, and at once.
    pub fn new(per_second: u32) -> Pace {
        Pace { per_second, users: HashMap::new() }
    }

    /// Whether this user may connect now.
    pub fn admits(&mut self, uid: u32, now_ns: u64) -> bool {
        let most = f64::from(self.per_second);
        let (tokens, then_ns) = self.users.entry(uid).or_insert((most, now_ns));
        let earned = now_ns.saturating_sub(*then_ns) as f64 * 1e-9 * most;
        (*tokens, *then_ns) = ((*tokens + earned).min(most), now_ns);
        let admitted = *tokens >= 1.0;
        if admitted {
            *tokens -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_kept_for_each_user() {
        let mut pace = Pace::new(10);
        assert_eq!((0..20).filter(|_| pace.admits(1, 0)).count(), 10);
        assert!(pace.admits(2, 0));
        assert!(pace.admits(1, 100_000_000));
        assert!(!pace.admits(1, 100_000_001));
    }

    #[test]
    fn door_replaces_what_a_dead_process_left_but_not_a_living_one() {
        let folder = std::env::temp_dir().join(format!("keeptime-door-{}", std::process::id()));
        let path = folder.join("door.sock");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, "left over").unwrap();
        let door = Door::open(&path, 0o640, None).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(Door::open(&path, 0o640, None).unwrap_err(), Closed::InUse);
        drop(door);
        assert!(!path.exists());
        let long = folder.join("x".repeat(200));
        let closed = Door::open(&long, 0o640, None).unwrap_err();
        assert!(matches!(closed, Closed::Call { call: "bind", .. }), "{closed:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
