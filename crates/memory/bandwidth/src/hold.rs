//! A program's right to hold the bandwidth lock.
//!
//! Attaching asks the regulator for three pages over its socket, maps them, and closes every
//! descriptor again, so that a program that closes or counts its descriptors sees none of ours.
//! From then on the lock is taken and given back in memory ([`crate::page`]): without a lock, an
//! allocation, a panic or a change of `errno`, and with one system call only if the regulator
//! sleeps.
//!
//! A forked child has the mapping but no right to it: the regulator knows the parent, and what the
//! child counts there would be the parent's. A fourth page, which the kernel wipes in a child,
//! tells it so; a child that wants the lock attaches anew.
//!
//! A regulator that ends, or is started anew, is not noticed here, and nothing waits for it:
//! acquisitions go into memory that no regulator reads. A program that wants the next regulator
//! attaches again; who wants to know keeps the connection, which then hangs up
//! ([`Hold::attach_connected`]).

use crate::ceiling::Ceiling;
use crate::handshake::{self, Hello, PACKET_BYTES, Welcome};
use crate::page::{Bell, Cell, PAGE_BYTES, VERSION, Watch};
use crate::{Error, memory};
use realtime::clock::monotonic_ns;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use shm::peer::ServerUser;
use shm::socket::Socket;
use std::io::IoSliceMut;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The environment variable that names the regulator's socket.
pub const VARIABLE: &str = "KEEPTIME_BANDWIDTH";
/// Longest time for which attaching waits for a place in the regulator's queue and for its answer,
/// together, in milliseconds.
pub const PATIENCE_MS: u32 = 500;

/// Returns the path at which a program looks for the regulator by default: `$KEEPTIME_BANDWIDTH`;
/// without it the socket of a regulator of this user, if there is one:
/// `$XDG_RUNTIME_DIR/keeptime/bandwidth.sock`, `/run/user/UID/keeptime/bandwidth.sock`,
/// `/tmp/keeptime-UID/bandwidth.sock`; otherwise `/run/keeptime/bandwidth.sock`.
///
/// A program with more rights than its parent process (set-user-id, set-group-id, capabilities of
/// its file) does not look at these variables.
pub fn default_socket() -> PathBuf {
    shm::environment::server_socket(VARIABLE, "bandwidth")
}

/// Four pages: one that a fork wipes, the holder's, the bell, the watch.
const PAGES: usize = 4;
const ATTACHED: u32 = 1;

/// A place among the holders of the lock. Any number of threads may use it, and it counts over all
/// of them: the lock is held until each acquisition has been given back, by whichever thread.
///
/// Its acquisitions end with it, and with its process.
#[derive(Debug)]
pub struct Hold {
    base: NonNull<u8>,
    offset: usize,
}

// SAFETY: the mapping is shared by the threads that have the hold, only atomics are in it, and it
// goes with the last owner.
unsafe impl Send for Hold {}
// SAFETY: as above.
unsafe impl Sync for Hold {}

impl Hold {
    /// Attaches to the regulator that listens at `socket`. Takes a few system calls, and waits for
    /// at most [`PATIENCE_MS`]; allocates nothing if the path has fewer than 256 bytes, and leaves
    /// `errno` alone.
    ///
    /// # Errors
    /// [`Error::NoRegulator`] when no process listens there or answers in time, [`Error::Refused`]
    /// when the regulator says no, [`Error::Protocol`] when it is none, or neither root's nor of
    /// the user whose rights this program has, [`Error::System`] when the kernel refuses.
    pub fn attach(socket: &Path) -> Result<Hold, Error> {
        Hold::attach_to(socket, ServerUser::default()).map(|(hold, _)| hold)
    }

    /// Attaches as [`Hold::attach`] does, and returns also the connection, which hangs up when the
    /// regulator has ended or has released this hold. Nothing is to be read from it.
    ///
    /// # Errors
    /// As for [`Hold::attach`].
    pub fn attach_connected(socket: &Path) -> Result<(Hold, OwnedFd), Error> {
        Hold::attach_to(socket, ServerUser::default())
    }

    /// Attaches as [`Hold::attach_connected`] does, to the regulator of a certain user.
    ///
    /// # Errors
    /// As for [`Hold::attach`].
    pub fn attach_to(socket: &Path, user: ServerUser) -> Result<(Hold, OwnedFd), Error> {
        let (connection, offset, [page, bell, watch]) = knock(socket, user)?;
        let protocol = |found| Error::Protocol { found };
        for fd in [&page, &bell, &watch] {
            if !memory::is_sealed_page(fd) {
                return Err(protocol("a page that is not sealed memory of 4096 bytes"));
            }
        }
        let hold = Hold::over([page.as_fd(), bell.as_fd(), watch.as_fd()], offset)?;
        if hold.watch().version() != VERSION {
            return Err(protocol("a watch page of another version of the protocol"));
        }
        Ok((hold, connection))
    }

    /// Maps the three pages.
    pub(crate) fn over(pages: [BorrowedFd<'_>; 3], offset: u32) -> Result<Hold, Error> {
        let system = Error::system("mmap");
        let (null, all) = (std::ptr::null_mut(), PAGES * PAGE_BYTES);
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(null, all, both, MapFlags::PRIVATE) };
        let base = base.map_err(&system)?.cast::<u8>();
        let offset = offset as usize;
        // From here on dropping it unmaps whatever is there.
        let hold = Hold { base: NonNull::new(base).ok_or_else(|| system(Errno::NOMEM))?, offset };
        for (at, (page, access)) in pages.into_iter().zip([both, both, ProtFlags::READ]).enumerate()
        {
            let address = base.wrapping_add((at + 1) * PAGE_BYTES).cast();
            let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
            // SAFETY: it replaces a page of the mapping made above, which no code uses yet.
            unsafe { rustix::mm::mmap(address, PAGE_BYTES, access, flags, page, 0) }
                .map_err(&system)?;
        }
        // SAFETY: the first page is ours alone, and a child needs nothing in it.
        unsafe { rustix::mm::madvise(base.cast(), PAGE_BYTES, Advice::LinuxWipeOnFork) }
            .map_err(Error::system("madvise(MADV_WIPEONFORK)"))?;
        // Relaxed: a thread gets the hold by an operation that orders.
        hold.image().store(ATTACHED, Ordering::Relaxed);
        Ok(hold)
    }

    /// Takes the lock, once more if it is held already. Returns when the regulator has been told;
    /// false when nothing was taken: in a forked child, or with [`crate::page::MOST_HOLDS`]
    /// acquisitions open.
    ///
    /// Lock-free, any thread, also in a signal handler.
    #[inline]
    pub fn acquire(&self) -> bool {
        self.acquire_after().is_some()
    }

    /// Acquires as [`Hold::acquire`] does; returns the number of acquisitions that were open
    /// before, None when nothing was taken.
    #[inline]
    pub fn acquire_after(&self) -> Option<u32> {
        if !self.is_attached() {
            return None;
        }
        self.cell().acquire_after(self.bell(), self.watch(), monotonic_ns)
    }

    /// Gives one acquisition back; false when there was none to give back, or in a forked child.
    ///
    /// Lock-free, any thread, also in a signal handler.
    #[inline]
    pub fn release(&self) -> bool {
        self.release_to().is_some()
    }

    /// Releases as [`Hold::release`] does; returns the number of acquisitions left, None when there
    /// was none.
    #[inline]
    pub fn release_to(&self) -> Option<u32> {
        if self.is_attached() { self.cell().release_to() } else { None }
    }

    /// Takes the lock until the guard goes, and runs the calling thread at the regulator's ceiling
    /// meanwhile, if it has one and the thread may.
    pub fn hold(&self) -> HeldLock<'_> {
        let ceiling = self.ceiling().filter(|ceiling| ceiling.raise());
        HeldLock { hold: self, taken: self.acquire(), ceiling, not_send: PhantomData }
    }

    /// The priority at which threads of holders should run, if the regulator names one.
    pub fn ceiling(&self) -> Option<Ceiling> {
        // The regulator is believed as far as such priorities go.
        Ceiling::new(self.watch().ceiling())
    }

    /// False in a forked child, for which this hold does nothing.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.image().load(Ordering::Relaxed) == ATTACHED
    }

    fn image(&self) -> &AtomicU32 {
        // SAFETY: the first page of the mapping, which lives as long as `self` and begins at a
        // page.
        unsafe { self.base.cast().as_ref() }
    }

    fn cell(&self) -> &Cell {
        // SAFETY: the offset is a multiple of 64 and the cell lies in the second page, as
        // `Welcome::parse` has checked; a cell is atomics only.
        unsafe { self.base.byte_add(PAGE_BYTES + self.offset).cast().as_ref() }
    }

    fn bell(&self) -> &Bell {
        // SAFETY: the beginning of the third page; a bell is atomics only.
        unsafe { self.base.byte_add(2 * PAGE_BYTES).cast().as_ref() }
    }

    fn watch(&self) -> &Watch {
        // SAFETY: the beginning of the fourth page; a watch is atomics only, of which holders
        // only load.
        unsafe { self.base.byte_add(3 * PAGE_BYTES).cast().as_ref() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_attached() {
            self.cell().close();
        }
        // SAFETY: the mapping is this hold's own, and no code has a reference into it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), PAGES * PAGE_BYTES) };
    }
}

/// The lock, held until this goes. Stays on the thread that took it, which has the ceiling.
#[derive(Debug)]
pub struct HeldLock<'a> {
    hold: &'a Hold,
    taken: bool,
    ceiling: Option<Ceiling>,
    not_send: PhantomData<*const ()>,
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.hold.release();
        }
        if let Some(ceiling) = self.ceiling {
            ceiling.restore();
        }
    }
}

/// Sends the hello; returns the connection, the offset of the holder's cell in its page, and the
/// three pages.
fn knock(path: &Path, user: ServerUser) -> Result<(OwnedFd, u32, [OwnedFd; 3]), Error> {
    let nobody = |call| move |errno| Error::NoRegulator { call, errno };
    let until_ns = monotonic_ns() + u64::from(PATIENCE_MS) * 1_000_000;
    let patience = Duration::from_millis(PATIENCE_MS.into());
    let socket = OwnedFd::from(Socket::connect(path, patience).map_err(nobody("connect"))?);
    if user.stranger(socket.as_fd()).map_err(nobody("getsockopt"))?.is_some() {
        return Err(Error::Protocol {
            found: "a server of a user who is neither root nor this user",
        });
    }
    let hello = Hello { version: VERSION, image: handshake::image() };
    match rustix::net::send(&socket, &hello.packet(), SendFlags::NOSIGNAL) {
        // One that refuses at the door has closed already, and its answer is there.
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => {}
        Err(errno) => return Err(nobody("send")(errno)),
    }
    wait_readable(&socket, until_ns).map_err(nobody("poll"))?;
    let answer = match receive(&socket) {
        // The kernel says once that the other side closed early, ahead of its last words.
        Err(Errno::CONNRESET) => receive(&socket),
        result => result,
    };
    let (offset, pages) = answer.map_err(nobody("recvmsg"))??;
    Ok((socket, offset, pages))
}

type Answer = Result<(u32, [OwnedFd; 3]), Error>;

/// Reads the answer. The outer error is the kernel's.
fn receive(socket: &OwnedFd) -> Result<Answer, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut packet = [0u8; PACKET_BYTES + 1];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(&mut packet)];
    let length = rustix::net::recvmsg(socket, &mut parts, &mut control, flags)?.bytes;
    let mut pages = [const { None }; 3];
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            // More than three are closed here.
            descriptors.enumerate().for_each(|(at, descriptor)| {
                if let Some(page) = pages.get_mut(at) {
                    *page = Some(descriptor);
                }
            });
        }
    }
    let protocol = |found| Error::Protocol { found };
    let Some(answer) = packet.get(..length).and_then(Welcome::parse) else {
        return Ok(Err(protocol("an unknown answer")));
    };
    Ok(match (answer, pages) {
        (Welcome::Refused(refusal), _) => Err(Error::Refused(refusal)),
        (Welcome::Offset(offset), [Some(page), Some(bell), Some(watch)]) => {
            Ok((offset, [page, bell, watch]))
        }
        _ => Err(protocol("an answer without three memory pages")),
    })
}

/// Waits until there is something to read, but not for long.
fn wait_readable(socket: &OwnedFd, until_ns: u64) -> Result<(), Errno> {
    loop {
        let left = until_ns.saturating_sub(monotonic_ns()) as i64;
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: left.min(999_999_999) };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
