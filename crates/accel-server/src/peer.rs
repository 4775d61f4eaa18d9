//! Who is at the other end of a session's socket, according to the kernel.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::sched_getaffinity;
use std::fmt;

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

/// Threads of one process that are looked at.
const MAX_THREADS: usize = 64;
/// Cores that are looked at.
const MAX_CORES: usize = 1024;

/// Where the kernel runs a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placement {
    cores: Vec<usize>,
    /// `SCHED_FIFO` priority; None for another policy.
    fifo: Option<u32>,
}

impl Placement {
    fn of(thread: Pid) -> Option<Placement> {
        let set = sched_getaffinity(Some(thread)).ok()?;
        let cores = (0..MAX_CORES).filter(|&core| set.is_set(core)).collect();
        let tid = thread.as_raw_nonzero().get();
        // SAFETY: takes a number, touches no memory.
        let policy = unsafe { libc::sched_getscheduler(tid) };
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: writes one structure, for which there is room.
        let read = unsafe { libc::sched_getparam(tid, &raw mut param) };
        if policy < 0 || read < 0 {
            return None;
        }
        // A bit of the policy says that children do not inherit it.
        const RESET_ON_FORK: i32 = 0x4000_0000;
        let fifo = policy & !RESET_ON_FORK == libc::SCHED_FIFO;
        let priority = u32::try_from(param.sched_priority).ok();
        Some(Placement { cores, fifo: priority.filter(|_| fifo) })
    }

    fn is(&self, core: u32, priority: u32) -> bool {
        self.cores == [core as usize] && self.fifo.unwrap_or(0) == priority
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cores[..] {
            [core] => write!(f, "core {core}")?,
            _ => write!(f, "{} cores", self.cores.len())?,
        }
        match self.fifo {
            Some(priority) => write!(f, " at priority {priority}"),
            None => write!(f, " at normal priority"),
        }
    }
}

/// Where the kernel says something else than a client that declares this core and priority; None
/// where one of the process' threads is as declared, or the kernel does not tell.
///
/// A session is one thread, but only the process is known that connected: so any of its threads
/// may be the one. A client may also register first and take its priority later.
pub(crate) fn contradiction(pid: i32, core: u32, priority: u32) -> Option<String> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let names = folder.flatten().take(MAX_THREADS).map(|entry| entry.file_name());
    let threads = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
    let placements: Vec<Placement> = threads.filter_map(Placement::of).collect();
    if placements.iter().any(|placement| placement.is(core, priority)) {
        return None;
    }
    let first = placements.first()?;
    let others = match placements.len() {
        1 => String::new(),
        count => format!(", and none of its {count} threads is as declared"),
    };
    Some(format!("declares core {core} at priority {priority}, runs on {first}{others}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_thread_is_found_where_it_is() {
        let pid = std::process::id() as i32;
        let core = realtime::thread::cores()[0];
        std::thread::scope(|scope| {
            let pinned = scope.spawn(move || {
                realtime::thread::pin(&[core]).unwrap();
                contradiction(pid, core as u32, 0)
            });
            assert_eq!(pinned.join().unwrap(), None);
        });
        let said = contradiction(pid, 1000, 77).unwrap();
        assert!(said.starts_with("declares core 1000 at priority 77, runs on "), "{said}");
        assert_eq!(contradiction(i32::MAX, 0, 0), None, "no such process");
    }
}
