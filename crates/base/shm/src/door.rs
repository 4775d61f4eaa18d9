//! The door of a service: a listening socket, its permissions, and who is let in how often.

mod acceptor;
mod lock;
mod openers;
mod pace;
mod places;

pub use acceptor::{Acceptor, Guest, Turned};
pub use openers::{Openers, make_folder};
pub use pace::Pace;
pub use places::ConnectionPlace;

use crate::socket::Socket;
use lock::{Lock, named, same};
use rustix::fd::AsRawFd;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::io::Error as IoError;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connections that wait to be accepted. Enough for a crowd that starts at once, and few enough
/// that a client does not wait long for a place in the queue.
const BACKLOG: i32 = 256;

/// Longest path of a socket.
const MOST_PATH: usize = 107;

/// A listening socket at a path, removed when this goes, if it is still there.
#[derive(Debug)]
pub struct ServiceSocket {
    /// The listening socket, which never blocks.
    socket: Socket,
    path: PathBuf,
    /// Status of the file that was made there.
    made: Stat,
    openers: Openers,
    /// Held for as long as the door is open; let go after the socket was removed.
    _lock: Lock,
}

/// Limits of the connections that are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one user in a second.
    pub connects_per_second: u32,
    /// Connections of one user that have not said yet what they want.
    pub unfinished_per_user: u32,
    /// The same of all users together, without root and the service's own user: for these two
    /// there is always a place.
    pub unfinished: u32,
}

impl Limits {
    /// Limits of this number of connections of a user per second; 64 unfinished connections of a
    /// user, and 192 of all users.
    pub fn paced(connects_per_second: u32) -> Limits {
        Limits { connects_per_second, unfinished_per_user: 64, unfinished: 192 }
    }
}

/// Reason for which a door cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// Another process listens there.
    #[error("address already in use{}", by(process))]
    InUse {
        /// The process, as it says.
        process: Option<u32>,
    },
    /// There is something that is no socket.
    #[error(
        "found a file that is not a socket, expected a socket or no file: remove the file, or \
         choose another path"
    )]
    NoSocket,
    /// The lock file beside the socket cannot be trusted.
    #[error(
        "lock file beside the socket (.lock): found {found}, expected a regular file of this user \
         with one link"
    )]
    Lock {
        /// The fault that was found.
        found: &'static str,
    },
    /// The file system has no access lists.
    #[error(
        "the file system has no POSIX access control lists, which more than one group, or users \
         besides the owner, need: allow one group only, or put the socket elsewhere, such as under \
         /run"
    )]
    NoAccessList,
    /// A call failed.
    #[error("{call}: {errno}{}", advice(errno))]
    Call {
        /// The call.
        call: &'static str,
        /// The reason.
        errno: Errno,
    },
}

/// Advice for a place where this user may not make files.
fn advice(errno: &Errno) -> &'static str {
    match *errno {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            "; choose a path in a folder that this user may write to (--socket)"
        }
        _ => "",
    }
}

fn by(process: &Option<u32>) -> String {
    process.map_or(String::new(), |process| format!(" by process {process}"))
}

fn failed(call: &'static str) -> impl Fn(Errno) -> Closed {
    move |errno| Closed::Call { call, errno }
}

fn io(call: &'static str) -> impl Fn(IoError) -> Closed {
    move |error| failed(call)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

impl ServiceSocket {
    /// Opens the door; the folder is made if it is missing. The socket gets its group and its
    /// permissions under another name, before any client can connect, and then its own name, so
    /// that no client finds it half-open. One that a dead process left is replaced; nothing else
    /// is.
    ///
    /// # Errors
    /// [`Closed::InUse`] when another process listens there or is about to, [`Closed::NoSocket`]
    /// and [`Closed::Lock`] for files that are in the way, [`Closed::NoAccessList`] and
    /// [`Closed::Call`] when the kernel refuses.
    pub fn open(path: &Path, openers: Openers) -> Result<ServiceSocket, Closed> {
        if let Some(folder) = path.parent() {
            openers::make_folder(folder)?;
        }
        let lock = Lock::take(path)?;
        check_replaceable(path)?;
        let hidden = hidden(path);
        // Only the owner of the lock makes it, so it was left by one that was killed.
        if named(&hidden).is_ok_and(|found| is_socket(&found)) {
            let _ = std::fs::remove_file(&hidden);
        }
        let socket = crate::socket::new_socket().map_err(failed("socket"))?;
        let address = SocketAddrUnix::new(&hidden).map_err(failed("bind"))?;
        rustix::net::bind(&socket, &address).map_err(failed("bind"))?;
        let open = || {
            let made = named(&hidden).map_err(failed("stat"))?;
            openers.apply(&hidden)?;
            rustix::net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
            std::fs::rename(&hidden, path).map_err(io("rename"))?;
            Ok(made)
        };
        match open() {
            Ok(made) => {
                let path = path.into();
                Ok(ServiceSocket { socket: socket.into(), path, made, openers, _lock: lock })
            }
            Err(closed) => {
                let _ = std::fs::remove_file(&hidden);
                Err(closed)
            }
        }
    }

    /// The file of the socket, to change who may open it while it is open.
    pub fn file(&self) -> SocketFile {
        SocketFile { path: self.path.clone(), made: self.made }
    }

    /// A folder above the socket that lets through fewer than the socket does, with its mode. Who
    /// belongs to its group, or stands in its access list, may still pass.
    pub fn blocked_by(&self) -> Option<(PathBuf, u32)> {
        self.openers.blocked_by(&self.path)
    }
}

/// The file of an open door.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    made: Stat,
}

impl SocketFile {
    /// Opens the file to others from now on. Connections that are there stay.
    ///
    /// # Errors
    /// [`Closed::NoSocket`] if another file has its place now, [`Closed::NoAccessList`] and
    /// [`Closed::Call`] when the kernel refuses.
    pub fn admit(&self, openers: &Openers) -> Result<(), Closed> {
        // The file itself, whatever has its name a moment later.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.path, flags, Mode::empty()).map_err(failed("open"))?;
        let found = rustix::fs::fstat(&file).map_err(failed("stat"))?;
        if !same(&found, &self.made) {
            return Err(Closed::NoSocket);
        }
        openers.apply(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }
}

/// Returns the place of the socket until it is ready: beside its final place, or at that place if
/// the longer name would not fit an address.
fn hidden(path: &Path) -> PathBuf {
    let mut hidden = path.as_os_str().to_owned();
    if hidden.len() + 4 <= MOST_PATH {
        hidden.push(".new");
    }
    hidden.into()
}

fn is_socket(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Socket
}

/// Only a socket at which no process listens may be replaced. That of a program which does not know
/// of the lock file answers: a queue that is full, or a socket of another type, is in use too.
fn check_replaceable(path: &Path) -> Result<(), Closed> {
    match named(path) {
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed("stat")(errno)),
        Ok(found) if !is_socket(&found) => return Err(Closed::NoSocket),
        Ok(_) => {}
    }
    match Socket::connect(path, Duration::ZERO) {
        Ok(_) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(Closed::InUse { process: None }),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed("connect")(errno)),
    }
}

impl Drop for ServiceSocket {
    fn drop(&mut self) {
        // A file that another process put there meanwhile stays.
        if named(&self.path).is_ok_and(|found| same(&found, &self.made)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
