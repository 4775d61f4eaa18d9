//! Ways of a process of the recorded program to get at the recording's memory.
//!
//! The environment variable [`VARIABLE`], which only the program and its children have, says where
//! it is. A process asks once, when its image starts: a forked child has the memory already. There
//! are two ways.
//!
//! 1. It opens the recorder's descriptor of the memory file through `/proc`. The kernel
//!    admits every user who could also trace the recorder: its user, and root. No other process is
//!    asked, so that none can be in the way, and a recorder that is stopped or out of breath costs
//!    nothing. It goes into other network namespaces and other roots, as long as they have a
//!    `/proc`.
//! 2. If that is refused, as to a process that has become another user's, or has fewer
//!    capabilities, it goes to the recorder's socket, and shows the token that stands in the
//!    variable ([`RecorderSocket`](crate::door::RecorderSocket)). The socket has a name in the abstract namespace,
//!    which needs no file that a program could lack the right to.
//!
//! The process takes only memory that belongs to its own user or to root, and is sealed; and it
//! waits for at most [`PATIENCE_MS`], then runs unrecorded.

use crate::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use shm::peer::Credentials;
use std::ffi::CStr;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The environment variable that tells a process where to attach.
pub const VARIABLE: &str = "KEEPTIME_RECORD";
/// Longest time for which a process waits for its recorder: one that gives up is not recorded at
/// all, and a recorder that shares its core with a real-time thread may not run for most of a
/// second.
pub const PATIENCE_MS: u32 = 2000;
/// Bytes of a name, and of a token.
pub(crate) const HALF: usize = 16;
/// Bytes of an invitation.
const BYTES: usize = 2 * HALF + 16;

/// Data with which a process finds the recorder and attaches.
///
/// ```text
/// byte 0      16      32             36           40                 48
///      +------+-------+--------------+------------+------------------+
///      | name | token | recorder pid | descriptor | inode of memory  |
///      +------+-------+--------------+------------+------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Invitation {
    bytes: [u8; BYTES],
}

impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Invitation(secret)")
    }
}

impl Invitation {
    /// Creates an invitation to this process's memory file, with a random name and token.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel gives no random bytes, or does not know the file.
    pub fn new(memory: BorrowedFd<'_>) -> Result<Invitation, Error> {
        let mut bytes = [0u8; BYTES];
        let random = &mut bytes[..2 * HALF];
        let got = rustix::rand::getrandom(&mut *random, rustix::rand::GetRandomFlags::empty())
            .map_err(Error::system("getrandom"))?;
        if got != 2 * HALF {
            return Err(Error::System { call: "getrandom", errno: Errno::IO });
        }
        let inode = rustix::fs::fstat(memory).map_err(Error::system("fstat"))?.st_ino;
        bytes[32..36].copy_from_slice(&std::process::id().to_le_bytes());
        bytes[36..40].copy_from_slice(&memory.as_raw_fd().to_le_bytes());
        bytes[40..].copy_from_slice(&inode.to_le_bytes());
        Ok(Invitation { bytes })
    }

    /// The value of [`VARIABLE`]: hexadecimal digits.
    pub fn value(&self) -> String {
        self.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Decodes the value of [`VARIABLE`]; `None` for anything else. Allocates nothing.
    pub fn parse(value: &[u8]) -> Option<Invitation> {
        if value.len() != 2 * BYTES {
            return None;
        }
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let mut bytes = [0u8; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(value.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Invitation { bytes })
    }

    pub(crate) fn token(&self) -> [u8; HALF] {
        let mut token = [0; HALF];
        token.copy_from_slice(&self.bytes[HALF..2 * HALF]);
        token
    }

    fn recorder(&self) -> u32 {
        self.word(32)
    }

    fn descriptor(&self) -> u32 {
        self.word(36)
    }

    fn inode(&self) -> u64 {
        u64::from(self.word(44)) << 32 | u64::from(self.word(40))
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = &self.bytes;
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    pub(crate) fn address(&self) -> rustix::io::Result<SocketAddrUnix> {
        let mut name = *b"keeptime-record-................";
        for (at, byte) in name[HALF..].chunks_exact_mut(1).zip(&self.bytes) {
            // Letters only, so that the name prints; the lost bits do not matter.
            at[0] = b'a' + byte % 26;
        }
        SocketAddrUnix::new_abstract_name(&name)
    }
}

/// Gets the recording's memory file; also its size. Allocates nothing, takes no lock, and leaves
/// `errno` alone.
pub fn knock(invitation: &Invitation) -> Option<(OwnedFd, usize)> {
    open(invitation).or_else(|| ask(invitation))
}

/// Opens the recorder's descriptor.
fn open(invitation: &Invitation) -> Option<(OwnedFd, usize)> {
    let mut path = Path::new();
    path.add(b"/proc/")?.number(invitation.recorder())?;
    path.add(b"/fd/")?.number(invitation.descriptor())?;
    // Only a look at first: the process of this number may be another one by now, and opening what
    // it has there may have effects.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let seen = rustix::fs::open(path.text()?, flags, Mode::empty()).ok()?;
    let about = rustix::fs::fstat(&seen).ok()?;
    let own = rustix::process::geteuid().as_raw();
    if about.st_ino != invitation.inode() || ![0, own].contains(&about.st_uid) {
        return None;
    }
    let mut path = Path::new();
    path.add(b"/proc/self/fd/")?.number(u32::try_from(seen.as_raw_fd()).ok()?)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let memory = rustix::fs::open(path.text()?, flags, Mode::empty()).ok()?;
    let size = sealed_size(&memory)?;
    Some((memory, size))
}

/// A path, in place.
struct Path {
    bytes: [u8; 48],
    length: usize,
}

impl Path {
    fn new() -> Path {
        Path { bytes: [0; 48], length: 0 }
    }

    fn add(&mut self, text: &[u8]) -> Option<&mut Path> {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end)?.copy_from_slice(text);
        self.length = end;
        Some(self)
    }

    fn number(&mut self, mut number: u32) -> Option<&mut Path> {
        let (mut digits, mut at) = ([0u8; 10], 10);
        while at == 10 || number > 0 {
            at -= 1;
            *digits.get_mut(at)? = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.add(digits.get(at..)?)
    }

    fn text(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

/// Requests the memory at the recorder's socket.
fn ask(invitation: &Invitation) -> Option<(OwnedFd, usize)> {
    let kind = SocketType::SEQPACKET;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).ok()?;
    // If many knock at once, a new one waits for a place.
    let patience = Duration::from_millis(u64::from(PATIENCE_MS));
    set_socket_timeout(&socket, Timeout::Send, Some(patience)).ok()?;
    let address = invitation.address().ok()?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    let host = Credentials::of(socket.as_fd()).ok()?;
    if host.uid != 0 && host.uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::net::send(&socket, &invitation.token(), flags).ok()?;
    if sent != HALF || !wait(&socket, PollFlags::IN) {
        return None;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut size = [0u8; 8];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(&mut size)], &mut control, flags)
        .ok()?;
    let memory = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })?;
    let actual = sealed_size(&memory)?;
    (got.bytes == size.len() && u64::from_le_bytes(size) == actual as u64)
        .then_some((memory, actual))
}

/// The size of a memory file that cannot shrink.
fn sealed_size(memory: &OwnedFd) -> Option<usize> {
    let seals = rustix::fs::fcntl_get_seals(memory).ok()?;
    let size = rustix::fs::fstat(memory).ok()?.st_size;
    seals.contains(SealFlags::SHRINK).then(|| usize::try_from(size).ok()).flatten()
}

/// Waits until the socket is ready, but not for long.
fn wait(socket: &OwnedFd, flags: PollFlags) -> bool {
    let timeout = rustix::time::Timespec {
        tv_sec: i64::from(PATIENCE_MS / 1000),
        tv_nsec: i64::from(PATIENCE_MS % 1000) * 1_000_000,
    };
    loop {
        match poll(&mut [PollFd::new(socket, flags)], Some(&timeout)) {
            Ok(ready) => return ready == 1,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

// Miri has no memory files.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::door::RecorderSocket;
    use crate::{Recording, Settings};

    fn recording() -> Recording {
        Recording::create(1 << 16, &Settings::default()).unwrap()
    }

    #[test]
    fn invitation_survives_the_environment() {
        let invitation = Invitation::new(recording().fd()).unwrap();
        assert_eq!(Invitation::parse(invitation.value().as_bytes()), Some(invitation));
        assert_eq!(Invitation::parse(b""), None);
        assert_eq!(Invitation::parse(&[b'g'; 2 * BYTES]), None);
        assert_eq!(invitation.recorder(), std::process::id());
    }

    #[test]
    fn memory_of_the_same_user_is_opened_without_asking() {
        let recording = recording();
        let invitation = Invitation::new(recording.fd()).unwrap();
        // No recorder listens.
        let (memory, size) = knock(&invitation).unwrap();
        let inode = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_ino;
        assert_eq!((inode(memory.as_fd()), size), (inode(recording.fd()), recording.size()));
    }

    #[test]
    fn another_file_in_its_place_is_not_taken() {
        let (one, other) = (recording(), recording());
        let mut invitation = Invitation::new(one.fd()).unwrap();
        invitation.bytes[36..40].copy_from_slice(&other.fd().as_raw_fd().to_le_bytes());
        assert!(open(&invitation).is_none());
        invitation.bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(open(&invitation).is_none());
    }

    #[test]
    fn who_shows_the_token_gets_the_memory_and_nobody_else() {
        let recording = recording();
        let invitation = Invitation::new(recording.fd()).unwrap();
        let mut door = RecorderSocket::open(invitation).unwrap();
        let guest = std::thread::spawn(move || {
            let mut wrong = invitation;
            wrong.bytes[HALF..2 * HALF].fill(0);
            (ask(&wrong).is_some(), ask(&invitation))
        });
        let mut served = 0;
        while !guest.is_finished() {
            door.wait(Some(Duration::from_millis(1)));
            served += door.serve(recording.fd(), recording.size()).unwrap();
        }
        let (wrong, right) = guest.join().unwrap();
        assert!(!wrong);
        assert_eq!(served, 1);
        assert_eq!(right.unwrap().1, recording.size());
    }

    #[test]
    fn nobody_at_home_means_no_memory() {
        assert!(ask(&Invitation::new(recording().fd()).unwrap()).is_none());
    }
}
