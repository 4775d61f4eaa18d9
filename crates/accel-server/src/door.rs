//! The door: the listening socket, its permissions, and how often somebody may knock.

use crate::Error;
use crate::access;
use accel::socket::Socket;
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const BACKLOG: i32 = 128;

/// A listening socket at a path, removed when the server ends.
#[derive(Debug)]
pub(crate) struct Door {
    pub socket: Socket,
    path: PathBuf,
}

impl Door {
    /// Opens the door. The socket gets its permissions under another name and then its own, so
    /// that nobody finds it half-open; one that a dead server left is replaced.
    pub(crate) fn open(path: &Path, mode: u32, group: Option<&str>) -> Result<Door, Error> {
        let failed = |call| move |errno| Error::Socket { path: path.to_path_buf(), call, errno };
        let io = |call| {
            move |error: std::io::Error| {
                failed(call)(
                    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
                )
            }
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(io("mkdir"))?;
        }
        if Socket::connect(path).is_ok() {
            return Err(Error::InUse { path: path.to_path_buf() });
        }
        let hidden = path.with_extension(format!("new.{}", std::process::id()));
        let _ = std::fs::remove_file(&hidden);
        let socket = Socket::listen(&hidden, BACKLOG).map_err(failed("bind"))?;
        let opened = own(&hidden, mode, group, io)
            .and_then(|()| std::fs::rename(&hidden, path).map_err(io("rename")));
        if let Err(error) = opened {
            let _ = std::fs::remove_file(&hidden);
            return Err(error);
        }
        Ok(Door { socket, path: path.to_path_buf() })
    }
}

/// Gives a socket its group and its permissions.
fn own<E: FnOnce(std::io::Error) -> Error>(
    socket: &Path,
    mode: u32,
    group: Option<&str>,
    io: impl Fn(&'static str) -> E,
) -> Result<(), Error> {
    if let Some(name) = group {
        let unknown = || Error::Config {
            key: "server.group".into(),
            found: format!("{name:?}"),
            expected: "expected a group that this machine knows".into(),
        };
        let gid = access::group_id(name).ok_or_else(unknown)?;
        std::os::unix::fs::chown(socket, None, Some(gid)).map_err(io("chown"))?;
    }
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(socket, permissions).map_err(io("chmod"))
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// How often each user may connect: a bucket of tokens for each.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: u32,
    users: HashMap<u32, (f64, u64)>,
}

impl Pace {
    pub(crate) fn new(per_second: u32) -> Pace {
        Pace { per_second, users: HashMap::new() }
    }

    /// Whether this user may connect now.
    pub(crate) fn admits(&mut self, uid: u32, now_ns: u64) -> bool {
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
    fn door_replaces_what_a_dead_server_left_but_not_a_living_one() {
        let folder = std::env::temp_dir().join(format!("keeptime-door-{}", std::process::id()));
        let path = folder.join("door.sock");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, "left over").unwrap();
        let door = Door::open(&path, 0o640, None).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(matches!(Door::open(&path, 0o640, None), Err(Error::InUse { .. })));
        drop(door);
        assert!(!path.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
