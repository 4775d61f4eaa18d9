//! Identity of the process at the other end of a socket, according to the kernel.
//!
//! A process of a process-id namespace that cannot be seen from here has no number: the kernel says
//! 0. Nothing here takes that for a process.

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// SO_PEERCRED: the process that connected, or for who connected the one that listens, and its
/// user and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// None for a process that cannot be seen from here.
    pub pid: Option<Pid>,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

impl Credentials {
    /// Returns the credentials of the other end of a connected socket. Allocates nothing, and
    /// leaves `errno` alone.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn of(socket: BorrowedFd<'_>) -> Result<Credentials, Errno> {
        let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        option(socket, libc::SO_PEERCRED, &mut found)?;
        Ok(Credentials { pid: Pid::from_raw(found.pid), uid: found.uid, gid: found.gid })
    }
}

/// Users whose server a client talks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerUser {
    /// Root's, or that of the user whose rights this program has.
    #[default]
    RootOrOwn,
    /// Root's, or that of this user.
    RootOr(u32),
}

impl ServerUser {
    /// Returns true if a client talks to a server of this user.
    pub fn trusts(self, uid: u32) -> bool {
        let other = match self {
            ServerUser::RootOrOwn => rustix::process::geteuid().as_raw(),
            ServerUser::RootOr(user) => user,
        };
        uid == 0 || uid == other
    }

    /// The user of the server at the other end of a connected socket, if it is not one of these.
    /// The kernel says who it was that began to listen.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn stranger(self, socket: BorrowedFd<'_>) -> Result<Option<u32>, Errno> {
        let uid = Credentials::of(socket)?.uid;
        Ok((!self.trusts(uid)).then_some(uid))
    }
}

/// The kernel's word about a connected process, as of its connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number here.
    pub pid: Pid,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group first, then the supplementary groups.
    pub groups: Vec<u32>,
}

/// Reason for which nothing is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Its process has no number here.
    #[error("the process is in a process-id namespace that is not visible from here")]
    Unseen,
    /// A call failed.
    #[error("getsockopt: {0}")]
    Call(Errno),
}

impl Peer {
    /// Returns the process, user and groups at the other end of a connected socket.
    ///
    /// # Errors
    /// [`Unknown::Unseen`] for a process that cannot be seen from here; the kernel's reason.
    pub fn of(socket: BorrowedFd<'_>) -> Result<Peer, Unknown> {
        let Credentials { pid, uid, gid } = Credentials::of(socket).map_err(Unknown::Call)?;
        let pid = pid.ok_or(Unknown::Unseen)?;
        let mut groups = vec![gid];
        groups.extend(supplementary_groups(socket).map_err(Unknown::Call)?);
        Ok(Peer { pid, uid, groups })
    }

    /// A descriptor that becomes readable when the process ends which is at the other end of this
    /// socket.
    ///
    /// # Errors
    /// `SRCH` when it has ended; the kernel's reason, such as that it has no such descriptors.
    pub fn process(&self, socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        match socket_pidfd(socket) {
            Some(process) => Ok(process),
            None => pidfd_of_waiting(socket, self.pid),
        }
    }

    /// Its number, as the kernel writes it.
    pub fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

/// SO_PEERPIDFD, Linux 6.5 and newer: names the very process that connected.
fn socket_pidfd(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    const SO_PEERPIDFD: i32 = 77;
    let mut fd: i32 = -1;
    option(socket, SO_PEERPIDFD, &mut fd).ok()?;
    // SAFETY: on success the kernel has made a new descriptor that no other code owns.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens the process by its number, which a successor could have by now. But then the process that
/// connected has ended, and its socket has hung up unless it gave it away.
fn pidfd_of_waiting(socket: BorrowedFd<'_>, pid: Pid) -> Result<OwnedFd, Errno> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let process = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now))? {
        0 => Ok(process),
        _ => Err(Errno::SRCH),
    }
}

/// SO_PEERGROUPS: the supplementary groups at the time of the connect.
fn supplementary_groups(socket: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
        let into = groups.as_mut_ptr().cast();
        // SAFETY: the buffer has `length` bytes.
        let result = unsafe { get(socket, libc::SO_PEERGROUPS, into, &mut length) };
        let count = length as usize / size_of::<u32>();
        match result {
            Ok(()) => {
                groups.truncate(count);
                return Ok(groups);
            }
            Err(Errno::RANGE) if count > groups.len() => groups.resize(count, 0),
            Err(Errno::NOPROTOOPT) => return Ok(Vec::new()),
            Err(errno) => return Err(errno),
        }
    }
}

/// Numbers that the kernel may write over.
trait Plain {}
impl Plain for i32 {}
impl Plain for libc::ucred {}

/// Reads an option of a socket.
fn option<T: Plain>(socket: BorrowedFd<'_>, name: i32, into: &mut T) -> Result<(), Errno> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: there is room for `length` bytes, which may have any value.
    unsafe { get(socket, name, std::ptr::from_mut(into).cast(), &mut length) }
}

/// getsockopt, without a change of `errno`.
///
/// # Safety
/// There must be `length` bytes at `into`.
unsafe fn get(
    socket: BorrowedFd<'_>,
    name: i32,
    into: *mut libc::c_void,
    length: &mut libc::socklen_t,
) -> Result<(), Errno> {
    // SAFETY: the kernel writes at most `length` bytes to `into`, as the caller promises, and the
    // length that there is; `errno` is the calling thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, into, length);
        let reason = std::mem::replace(&mut *errno, before);
        if result == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(reason)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Socket;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::AsFd;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no sockets of packets")]
    fn own_process_is_at_both_ends_of_a_pair() {
        let [one, other] = Socket::pair().unwrap();
        let peer = Peer::of(one.as_fd()).unwrap();
        assert_eq!(peer.number(), std::process::id() as i32);
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.groups[0], rustix::process::getegid().as_raw());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        for process in
            [peer.process(one.as_fd()).unwrap(), pidfd_of_waiting(one.as_fd(), peer.pid).unwrap()]
        {
            assert_eq!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&now)), Ok(0));
        }
        drop(other);
        assert_eq!(pidfd_of_waiting(one.as_fd(), peer.pid).unwrap_err(), Errno::SRCH);
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(Credentials::of(file.as_fd()), Err(Errno::NOTSOCK));
        assert_eq!(Peer::of(file.as_fd()), Err(Unknown::Call(Errno::NOTSOCK)));
    }
}
