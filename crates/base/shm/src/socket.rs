//! Packets with descriptors over a Unix socket.
//!
//! Sequenced packets keep message boundaries, so that half a message cannot block a reader.
//! All calls here but [`Socket::connect`] return at once; who wants to wait polls first.

use crate::Error;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{Duration, Instant};

/// Descriptors that one packet may carry.
pub const MAX_FDS: usize = 2;

/// One end of a connection.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// Result of a receive.
#[derive(Debug)]
pub enum Received {
    /// A packet of this many bytes, with descriptors.
    Packet(usize, Vec<OwnedFd>),
    /// Nothing now.
    Nothing,
    /// The other end is closed.
    Closed,
}

impl Socket {
    /// Two ends that are connected. They survive no `exec`.
    ///
    /// # Errors
    /// The operating system's reason.
    pub fn pair() -> Result<[Socket; 2], Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let ends =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok([Socket(ends.0), Socket(ends.1)])
    }

    /// Connects to a server's socket. While the server's queue is full, the kernel lets this
    /// thread sleep, and wakes one of those that do whenever the server has accepted a client.
    ///
    /// Allocates nothing if the path has fewer than 256 bytes, and leaves `errno` alone.
    ///
    /// # Errors
    /// `AGAIN` when the queue stayed full for as long as the patience lasts, otherwise the
    /// operating system's reason.
    pub fn connect(path: &Path, patience: Duration) -> Result<Socket, Errno> {
        let address = SocketAddrUnix::new(path)?;
        let socket = new_socket()?;
        let begin = Instant::now();
        loop {
            let left = patience.saturating_sub(begin.elapsed());
            wait_in_connect(&socket, left)?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                // A signal. The kernel forgets how long it had waited.
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        wait_in_connect(&socket, Duration::ZERO)?;
        Ok(Socket(socket))
    }

    /// Accepts a connection, if one waits.
    ///
    /// # Errors
    /// The operating system's reason.
    pub fn accept(&self) -> Result<Option<Socket>, Errno> {
        match rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(Socket(socket))),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Sends one packet. Returns at once.
    ///
    /// # Errors
    /// `AGAIN` when the other side does not read, otherwise the operating system's reason.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Receives one packet into `buffer`. Returns at once. Descriptors beyond [`MAX_FDS`] are
    /// closed by the kernel; a packet longer than the buffer is cut.
    ///
    /// # Errors
    /// The operating system's reason.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        match self.receive_once(buffer) {
            // The other side closed before it had read everything. The kernel says so once, ahead
            // of the last words that may still be there.
            Err(Errno::CONNRESET) => match self.receive_once(buffer) {
                Err(Errno::CONNRESET) => Ok(Received::Closed),
                result => result,
            },
            result => result,
        }
    }

    fn receive_once(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let iov = &mut [IoSliceMut::new(buffer)];
        let got = match rustix::net::recvmsg(&self.0, iov, &mut control, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
            Err(errno) => return Err(errno),
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        // No message of this protocol is empty, so an empty packet is as good as the end.
        if got.bytes == 0 {
            return Ok(Received::Closed);
        }
        Ok(Received::Packet(got.bytes, fds))
    }

    /// Returns true if the other end has closed or sent something, now or within `timeout_ms`.
    ///
    /// # Errors
    /// [`Error::System`] when polling fails.
    pub fn wait_readable(&self, timeout_ms: i64) -> Result<bool, Error> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout =
            Timespec { tv_sec: timeout_ms / 1000, tv_nsec: (timeout_ms % 1000) * 1_000_000 };
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(Error::System { call: "poll", errno }),
        }
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Socket {
        Socket(fd)
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.0
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sets the longest time for which a connect waits for a place in the server's queue; no other call
/// waits by this.
fn wait_in_connect(socket: &OwnedFd, patience: Duration) -> Result<(), Errno> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let waits = patience >= Duration::from_micros(1);
    if waits {
        set_socket_timeout(socket, Timeout::Send, Some(patience))?;
    }
    rustix::io::ioctl_fionbio(socket, !waits)
}

pub(crate) fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}
