//! Who is at the other end of a session's socket, according to the kernel.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

/// The kernel's word about a connected process, as of its connect.
#[derive(Debug)]
pub(crate) struct Peer {
    pub pid: i32,
    pub uid: u32,
    /// Effective group first, then the supplementary groups.
    pub groups: Vec<u32>,
    /// Becomes readable when the process ends; None on kernels that cannot tell.
    pub pidfd: Option<OwnedFd>,
}

impl Peer {
    /// Reads the credentials of a connected socket.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Result<Peer, Errno> {
        let credentials = rustix::net::sockopt::socket_peercred(socket)?;
        let pid = credentials.pid;
        let mut groups = vec![credentials.gid.as_raw()];
        groups.extend(supplementary_groups(socket)?);
        // A descriptor from the socket names the very process that connected. One from the
        // number could name a successor; but then the socket has hung up, which ends the session
        // just as well.
        let pidfd = socket_pidfd(socket).or_else(|| pidfd_open(pid, PidfdFlags::NONBLOCK).ok());
        Ok(Peer { pid: pid.as_raw_nonzero().get(), uid: credentials.uid.as_raw(), groups, pidfd })
    }
}

/// SO_PEERPIDFD, Linux 6.5 and newer.
fn socket_pidfd(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    const SO_PEERPIDFD: i32 = 77;
    let mut fd: i32 = -1;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option writes one int, for which there is room, and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    // SAFETY: on success the kernel has made a new descriptor that nobody else owns.
    (result == 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// SO_PEERGROUPS: the supplementary groups at the time of the connect.
fn supplementary_groups(socket: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the buffer has `length` bytes; the kernel writes at most that many and says
        // how many there are.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
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
