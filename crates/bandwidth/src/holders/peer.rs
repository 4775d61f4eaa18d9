//! Who is at the other end of a socket, according to the kernel.

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The kernel's word about a connected process, as of its connect.
#[derive(Debug)]
pub(crate) struct Peer {
    pub pid: i32,
    pub uid: u32,
    /// Effective group first, then the supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Reads the credentials of a connected socket; also a descriptor that becomes readable when
    /// the process ends.
    pub(crate) fn of(socket: &OwnedFd) -> Result<(Peer, OwnedFd), Errno> {
        let credentials = credentials(socket)?;
        // 0 for a process of another name space that cannot be seen from here.
        let pid = Pid::from_raw(credentials.pid).ok_or(Errno::SRCH)?;
        let mut groups = vec![credentials.gid];
        groups.extend(supplementary_groups(socket)?);
        let process = match socket_pidfd(socket) {
            Some(process) => process,
            None => pidfd_of_waiting(socket, pid)?,
        };
        Ok((Peer { pid: credentials.pid, uid: credentials.uid, groups }, process))
    }
}

/// SO_PEERCRED: process, user and group at the time of the connect.
fn credentials(socket: &OwnedFd) -> Result<libc::ucred, Errno> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    match option(socket, libc::SO_PEERCRED, &mut credentials) {
        true => Ok(credentials),
        false => Err(last_errno()),
    }
}

/// SO_PEERPIDFD, Linux 6.5 and newer: names the very process that connected.
fn socket_pidfd(socket: &OwnedFd) -> Option<OwnedFd> {
    const SO_PEERPIDFD: i32 = 77;
    let mut fd: i32 = -1;
    let got = option(socket, SO_PEERPIDFD, &mut fd);
    // SAFETY: on success the kernel has made a new descriptor that nobody else owns.
    (got && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Numbers that the kernel may write over.
trait Plain {}
impl Plain for i32 {}
impl Plain for libc::ucred {}

/// Reads an option of a socket; false with `errno` set when there is none.
fn option<T: Plain>(socket: &OwnedFd, name: i32, into: &mut T) -> bool {
    let mut length = size_of::<T>() as libc::socklen_t;
    let into = std::ptr::from_mut(into).cast();
    // SAFETY: the kernel writes at most `length` bytes, for which there is room, and the length.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, into, &raw mut length)
    };
    result == 0
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// By its number, which a successor could have by now. But then the process that connected is
/// gone, and its socket has hung up unless it gave it away.
fn pidfd_of_waiting(socket: &OwnedFd, pid: Pid) -> Result<OwnedFd, Errno> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let process = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now))? {
        0 => Ok(process),
        _ => Err(Errno::SRCH),
    }
}

/// SO_PEERGROUPS: the supplementary groups at the time of the connect.
fn supplementary_groups(socket: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the buffer has `length` bytes; the kernel writes at most that many and says
        // how many there are.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = length as usize / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        match last_errno() {
            Errno::RANGE if count > groups.len() => groups.resize(count, 0),
            Errno::NOPROTOOPT => return Ok(Vec::new()),
            errno => return Err(errno),
        }
    }
}
