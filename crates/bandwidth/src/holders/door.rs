//! The listening socket and its permissions.

use crate::Error;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const BACKLOG: i32 = 128;

/// A listening socket at a path, removed when the regulator ends.
#[derive(Debug)]
pub(super) struct Door {
    pub socket: OwnedFd,
    path: PathBuf,
}

impl Door {
    /// Opens the door. The socket gets its permissions under another name and then its own, so
    /// that nobody finds it half-open; one that a dead regulator left is replaced.
    pub(super) fn open(path: &Path, mode: u32, group: Option<u32>) -> Result<Door, Error> {
        let failed = |call| move |errno| Error::Socket { path: path.to_path_buf(), call, errno };
        let io = |call| {
            let failed = failed(call);
            move |error: std::io::Error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(io("mkdir"))?;
        }
        let address = SocketAddrUnix::new(path).map_err(failed("bind"))?;
        if rustix::net::connect(socket().map_err(failed("socket"))?, &address).is_ok() {
            return Err(Error::InUse { path: path.to_path_buf() });
        }
        let hidden = path.with_extension(format!("new.{}", std::process::id()));
        let _ = std::fs::remove_file(&hidden);
        let listener = socket().map_err(failed("socket"))?;
        let address = SocketAddrUnix::new(&hidden).map_err(failed("bind"))?;
        rustix::net::bind(&listener, &address).map_err(failed("bind"))?;
        let open = || {
            std::os::unix::fs::chown(&hidden, None, group).map_err(io("chown"))?;
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&hidden, permissions).map_err(io("chmod"))?;
            rustix::net::listen(&listener, BACKLOG).map_err(failed("listen"))?;
            std::fs::rename(&hidden, path).map_err(io("rename"))
        };
        if let Err(error) = open() {
            let _ = std::fs::remove_file(&hidden);
            return Err(error);
        }
        Ok(Door { socket: listener, path: path.to_path_buf() })
    }

    /// Somebody who has knocked, if there is one.
    pub(super) fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&self.socket, flags) {
            Ok(guest) => Ok(Some(guest)),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn door_replaces_what_a_dead_regulator_left_but_not_a_living_one() {
        let folder = std::env::temp_dir().join(format!("keeptime-bw-door-{}", std::process::id()));
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
