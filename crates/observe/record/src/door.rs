//! The recorder's socket, at which processes ask for the memory that cannot open it themselves.
//!
//! Its name can be read by every process in `/proc/net/unix`, so that any process can connect, send
//! nothing, and come again. Guests are served beside each other as soon as they show the token;
//! those who have not yet said anything wait in a bounded list, in which each user has a few
//! places: when they are taken, that user's longest silent guest goes. So no user takes another
//! user's place.

use crate::Error;
use crate::attach::{HALF, Invitation, PATIENCE_MS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};
use shm::peer::Credentials;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// The kernel takes at most `net.core.somaxconn` of them.
const BACKLOG: i32 = 4096;
/// Silent guests of one user.
const MOST_OF_A_USER: usize = 16;
/// Silent guests of all users.
const MOST: usize = 256;
/// Guests that are let in at once, before those who wait are looked at.
const BATCH: usize = 64;

/// The recorder's socket.
#[derive(Debug)]
pub struct RecorderSocket {
    socket: OwnedFd,
    invitation: Invitation,
    silent: Vec<Guest>,
}

/// A client that has not sent anything yet.
#[derive(Debug)]
struct Guest {
    socket: OwnedFd,
    uid: u32,
    until: Instant,
}

/// Message of a guest.
enum Said {
    Nothing,
    Token,
    Nonsense,
}

impl RecorderSocket {
    /// Opens it.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn open(invitation: Invitation) -> Result<RecorderSocket, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
            .map_err(Error::system("socket"))?;
        let address = invitation.address().map_err(Error::system("bind"))?;
        rustix::net::bind(&socket, &address).map_err(Error::system("bind"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(Error::system("listen"))?;
        Ok(RecorderSocket { socket, invitation, silent: Vec::new() })
    }

    /// The descriptors to wait for, to be readable.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let guests = self.silent.iter().map(|guest| guest.socket.as_fd());
        std::iter::once(self.socket.as_fd()).chain(guests)
    }

    /// Returns the longest time to wait for them; None if no guest is silent.
    pub fn patience(&self) -> Option<Duration> {
        let first = self.silent.iter().map(|guest| guest.until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// Waits for a client to be served, for `longest` at most, or without it until there is
    /// one, or one has been silent for too long.
    pub fn wait(&self, longest: Option<Duration>) {
        let mut watched: Vec<PollFd<'_>> =
            self.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = longest.into_iter().chain(self.patience()).min();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // After an error, as when a signal interrupts it, no client is there; the caller comes
        // again.
        let _ = poll(&mut watched, timeout.as_ref());
    }

    /// Serves all who are there: passes the memory to who shows the token. Never blocks. Returns
    /// how many got it.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses; a guest's fault is none.
    pub fn serve(&mut self, memory: impl AsFd, size: usize) -> Result<usize, Error> {
        let came = self.let_in();
        let now = Instant::now();
        let (mut served, token) = (0, self.invitation.token());
        self.silent.retain(|guest| match listen(&guest.socket, &token) {
            Said::Nothing => now < guest.until,
            Said::Nonsense => false,
            Said::Token => {
                served += usize::from(pass(&guest.socket, memory.as_fd(), size));
                false
            }
        });
        for uid in self.users() {
            self.make_room(|guest| guest.uid == uid, MOST_OF_A_USER);
        }
        self.make_room(|_| true, MOST);
        came.map(|()| served)
    }

    /// Lets in those who knocked.
    fn let_in(&mut self) -> Result<(), Error> {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return Err(Error::System { call: "accept", errno }),
            };
            let Ok(Credentials { uid, .. }) = Credentials::of(socket.as_fd()) else { continue };
            let until = Instant::now() + Duration::from_millis(u64::from(PATIENCE_MS));
            self.silent.push(Guest { socket, uid, until });
        }
        Ok(())
    }

    fn users(&self) -> Vec<u32> {
        let mut users: Vec<u32> = self.silent.iter().map(|guest| guest.uid).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// Lets those go who came first, so that at most `most` of these guests are left.
    fn make_room(&mut self, of: impl Fn(&Guest) -> bool, most: usize) {
        let count = self.silent.iter().filter(|guest| of(guest)).count();
        let mut surplus = count.saturating_sub(most);
        self.silent.retain(|guest| {
            let goes = surplus > 0 && of(guest);
            surplus -= usize::from(goes);
            !goes
        });
    }
}

fn listen(guest: &OwnedFd, token: &[u8; HALF]) -> Said {
    let mut said = [0u8; HALF + 1];
    match rustix::net::recv(guest, &mut said[..], RecvFlags::DONTWAIT) {
        Ok((_, bytes)) if said[..bytes] == token[..] => Said::Token,
        Err(Errno::AGAIN | Errno::INTR) => Said::Nothing,
        _ => Said::Nonsense,
    }
}

fn pass(guest: &OwnedFd, memory: BorrowedFd<'_>, size: usize) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let memory = [memory];
    control.push(SendAncillaryMessage::ScmRights(&memory));
    let size = (size as u64).to_le_bytes();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // A guest that has gone meanwhile needs nothing any more.
    rustix::net::sendmsg(guest, &[IoSlice::new(&size)], &mut control, flags).is_ok()
}

// Miri has no memory files.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Recording, Settings};

    fn guest(invitation: &Invitation) -> OwnedFd {
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&socket, &invitation.address().unwrap()).unwrap();
        socket
    }

    #[test]
    fn silent_guests_keep_nobody_waiting_and_only_a_few_stay() {
        let recording = Recording::create(1 << 16, &Settings::default()).unwrap();
        let invitation = Invitation::new(recording.fd()).unwrap();
        let mut door = RecorderSocket::open(invitation).unwrap();
        let silent: Vec<OwnedFd> = (0..50).map(|_| guest(&invitation)).collect();
        let speaks = guest(&invitation);
        rustix::net::send(&speaks, &invitation.token(), SendFlags::empty()).unwrap();
        assert_eq!(door.serve(recording.fd(), recording.size()).unwrap(), 1);
        assert_eq!(door.silent.len(), MOST_OF_A_USER);
        assert_eq!(door.descriptors().count(), 1 + MOST_OF_A_USER);
        // The latest may still speak.
        let latest = silent.last().unwrap();
        rustix::net::send(latest, &invitation.token(), SendFlags::empty()).unwrap();
        assert_eq!(door.serve(recording.fd(), recording.size()).unwrap(), 1);
        assert!(door.patience().is_some_and(|left| left.as_millis() <= u128::from(PATIENCE_MS)));
        drop(silent);
        assert_eq!(door.serve(recording.fd(), recording.size()).unwrap(), 0);
        assert!(door.silent.is_empty() && door.patience().is_none());
    }
}
