//! How a process of the recorded program gets at the recording's memory.
//!
//! The recorder listens on a socket with a random name in the abstract namespace, which needs no
//! file that a program could lack the right to, and passes the memory file to whoever shows the
//! token. Name and token stand in the environment variable [`VARIABLE`], which only the program
//! and its children have. The process asks once, when its image starts: a forked child has the
//! memory already.
//!
//! Each side doubts the other. The recorder takes only the token. The process takes only a
//! recorder of its own user or of root, and only a sealed memory file; and it waits for at most
//! [`PATIENCE_MS`], then runs unrecorded.

use crate::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use shm::peer::Credentials;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// The environment variable that tells a process where to attach.
pub const VARIABLE: &str = "KEEPTIME_RECORD";
/// How long a process waits for its recorder: who gives up is not recorded at all, and a recorder
/// that shares its core with a real-time thread may not run for most of a second.
pub const PATIENCE_MS: u32 = 2000;
const HALF: usize = 16;

/// Where and with what to attach: a name and a token of 16 bytes each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Invitation {
    name: [u8; HALF],
    token: [u8; HALF],
}

impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Invitation(secret)")
    }
}

impl Invitation {
    /// A random one.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel gives no random bytes.
    pub fn new() -> Result<Invitation, Error> {
        let mut bytes = [0u8; 2 * HALF];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .map_err(Error::system("getrandom"))?;
        if got != bytes.len() {
            return Err(Error::System { call: "getrandom", errno: rustix::io::Errno::IO });
        }
        let (mut name, mut token) = ([0; HALF], [0; HALF]);
        name.copy_from_slice(&bytes[..HALF]);
        token.copy_from_slice(&bytes[HALF..]);
        Ok(Invitation { name, token })
    }

    /// The value of [`VARIABLE`]: 64 hexadecimal digits.
    pub fn value(&self) -> String {
        self.name.iter().chain(&self.token).map(|byte| format!("{byte:02x}")).collect()
    }

    /// From the value of [`VARIABLE`]; `None` for anything else. Allocates nothing.
    pub fn parse(value: &[u8]) -> Option<Invitation> {
        if value.len() != 4 * HALF {
            return None;
        }
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let mut bytes = [0u8; 2 * HALF];
        for (byte, pair) in bytes.iter_mut().zip(value.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        let (mut name, mut token) = ([0; HALF], [0; HALF]);
        name.copy_from_slice(&bytes[..HALF]);
        token.copy_from_slice(&bytes[HALF..]);
        Some(Invitation { name, token })
    }

    fn address(&self) -> rustix::io::Result<SocketAddrUnix> {
        let mut name = *b"keeptime-record-................";
        for (at, byte) in name[HALF..].chunks_exact_mut(1).zip(self.name) {
            // Letters only, so that the name prints; the lost bits do not matter.
            at[0] = b'a' + byte % 26;
        }
        SocketAddrUnix::new_abstract_name(&name)
    }
}

/// The recorder's socket.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
    invitation: Invitation,
}

impl Door {
    /// Opens it.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn open(invitation: Invitation) -> Result<Door, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
            .map_err(Error::system("socket"))?;
        let address = invitation.address().map_err(Error::system("bind"))?;
        rustix::net::bind(&socket, &address).map_err(Error::system("bind"))?;
        rustix::net::listen(&socket, 4096).map_err(Error::system("listen"))?;
        Ok(Door { socket, invitation })
    }

    /// To wait for somebody at the door.
    pub fn fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Serves one who knocked, if there is one: passes the memory to who shows the token.
    /// Never blocks for longer than [`PATIENCE_MS`].
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses; a guest's fault is none.
    pub fn serve(&self, memory: impl AsFd, size: usize) -> Result<bool, Error> {
        let guest = match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(guest) => guest,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(false),
            Err(errno) => return Err(Error::System { call: "accept", errno }),
        };
        let mut token = [0u8; HALF];
        let shown = wait(&guest, PollFlags::IN)
            && matches!(
                rustix::net::recv(&guest, &mut token[..], RecvFlags::DONTWAIT),
                Ok((_, HALF))
            );
        if !shown || token != self.invitation.token {
            return Ok(false);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let memory = [memory.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&memory));
        let size = (size as u64).to_le_bytes();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A guest that has gone meanwhile needs nothing any more.
        Ok(rustix::net::sendmsg(&guest, &[IoSlice::new(&size)], &mut control, flags).is_ok())
    }
}

/// Asks for the recording's memory file; also its size. Allocates nothing, takes no lock, and
/// leaves `errno` alone.
pub fn knock(invitation: &Invitation) -> Option<(OwnedFd, usize)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).ok()?;
    rustix::net::connect(&socket, &invitation.address().ok()?).ok()?;
    let host = Credentials::of(socket.as_fd()).ok()?;
    if host.uid != 0 && host.uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    let sent = rustix::net::send(&socket, &invitation.token, SendFlags::NOSIGNAL).ok()?;
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
    if got.bytes != size.len() {
        return None;
    }
    let size = u64::from_le_bytes(size);
    let seals = rustix::fs::fcntl_get_seals(&memory).ok()?;
    let actual = rustix::fs::fstat(&memory).ok()?.st_size as u64;
    let sealed = seals.contains(rustix::fs::SealFlags::SHRINK);
    (sealed && actual == size).then_some((memory, usize::try_from(size).ok()?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recording, Settings};

    #[test]
    fn invitation_survives_the_environment() {
        let invitation = Invitation::new().unwrap();
        assert_eq!(Invitation::parse(invitation.value().as_bytes()), Some(invitation));
        assert_eq!(Invitation::parse(b""), None);
        assert_eq!(Invitation::parse(&[b'g'; 64]), None);
    }

    #[test]
    fn who_shows_the_token_gets_the_memory_and_nobody_else() {
        let recording = Recording::create(1 << 16, &Settings::default()).unwrap();
        let invitation = Invitation::new().unwrap();
        let door = Door::open(invitation).unwrap();
        let guest = std::thread::spawn(move || {
            let wrong = Invitation { token: [0; HALF], ..invitation };
            (knock(&wrong).is_some(), knock(&invitation))
        });
        let mut served = 0;
        for _ in 0..2 {
            assert!(wait(&door.socket, PollFlags::IN));
            served += usize::from(door.serve(recording.fd(), recording.size()).unwrap());
        }
        let (wrong, right) = guest.join().unwrap();
        assert!(!wrong);
        assert_eq!(served, 1);
        assert_eq!(right.unwrap().1, recording.size());
    }

    #[test]
    fn nobody_at_home_means_no_memory() {
        assert!(knock(&Invitation::new().unwrap()).is_none());
    }
}
