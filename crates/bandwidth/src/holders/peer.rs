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
        let credentials = rustix::net::sockopt::socket_peercred(socket)?;
        let mut groups = vec![credentials.gid.as_raw()];
        groups.extend(supplementary_groups(socket)?);
        let process = match socket_pidfd(socket) {
            Some(process) => process,
            None => pidfd_of_waiting(socket, credentials.pid)?,
        };
        let pid = credentials.pid.as_raw_nonzero().get();
        Ok((Peer { pid, uid: credentials.uid.as_raw(), groups }, process))
    }
}

/// SO_PEERPIDFD, Linux 6.5 and newer: names the very process that connected.
fn socket_pidfd(socket: &OwnedFd) -> Option<OwnedFd> {
    const SO_PEERPIDFD: i32 = 77;
    let mut fd: i32 = -1;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option writes one int, for which there is room, and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    // SAFETY: on success the kernel has made a new descriptor that nobody else owns.
    (result == 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
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
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ERANGE) if count > groups.len() => groups.resize(count, 0),
            Some(libc::ENOPROTOOPT) => return Ok(Vec::new()),
            code => return Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO))),
        }
    }
}
