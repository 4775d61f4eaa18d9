//! A second process beside the recorder, in the same process group.
//!
//! **It knows which signals went to the whole group.** A signal of the terminal, or of
//! `kill -- -GROUP`, reaches the recorder and the program; one that was sent to the recorder alone
//! reaches the program only if it is passed on. Nothing in the signal tells them apart. The keeper
//! does: it blocks all signals, and what it has got, the group has. The kernel serves the latest
//! members of a group first, so that the keeper, which is younger, has a signal before the
//! recorder does.
//!
//! **It outlives the recorder.** When that is killed, the keeper reads the end of their socket, and
//! does what is to be done then.
//!
//! ```text
//!   recorder -> keeper: 0              which signals came?   -> one packet of (signal, sender)
//!   recorder -> keeper: process id     of the program, once
//! ```

use super::signals::{self, Came};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::cell::RefCell;

/// A signal of the group, and who sent it.
type Seen = [u32; 2];
/// Signals of one packet: more than can be pending without being queued.
const PACKET: usize = 128;
/// Longest time for an answer of the keeper, which has nothing else to do.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The second process, until it is dropped. It stays when the recorder panics.
pub(super) struct Keeper {
    socket: OwnedFd,
    pid: Pid,
    process: OwnedFd,
    /// Signals that the group got and the recorder has not looked at yet.
    seen: RefCell<Vec<Seen>>,
}

impl Keeper {
    /// Starts it; all signals are blocked. In its process `orphaned` runs if the recorder dies,
    /// with a descriptor of the program, if there was one. Of the descriptors only `kept` stay
    /// open.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(super) fn start(
        kept: &[RawFd],
        orphaned: impl FnOnce(Option<OwnedFd>),
    ) -> Result<Keeper, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let (own, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // SAFETY: the child runs on a copy of this thread alone. It allocates only after the
        // recorder has died; the C library's allocator is whole in a forked child.
        match unsafe { libc::fork() } {
            -1 => Err(last_errno()),
            0 => {
                let kept = [&[other.as_raw_fd()], kept].concat();
                close_all_but(kept);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    orphaned(keep(&other));
                }));
                // SAFETY: ends the process without anything that belongs to the recorder.
                unsafe { libc::_exit(i32::from(ended.is_err())) }
            }
            child => {
                let pid = Pid::from_raw(child).ok_or(Errno::SRCH)?;
                let process = pidfd_open(pid, PidfdFlags::empty())?;
                Ok(Keeper { socket: own, pid, process, seen: RefCell::default() })
            }
        }
    }

    /// Tells the keeper the process id of the program.
    pub(super) fn tell(&self, program: Pid) {
        // Fails only when the keeper was killed.
        let _ = send(&self.socket, &pid_bytes(Some(program)), SendFlags::NOSIGNAL);
    }

    /// Returns true if the whole group got a signal that the recorder has got. Each is told once.
    pub(super) fn group_got(&self, came: &Came) -> bool {
        self.ask();
        let mut seen = self.seen.borrow_mut();
        let same = |seen: &Seen| *seen == [came.signal as u32, came.pid];
        let found = seen.iter().position(same);
        found.map(|at| seen.swap_remove(at)).is_some()
    }

    /// Returns true if the whole group got any of these signals that the recorder has not asked for
    /// yet.
    pub(super) fn group_got_any(&self, signals: &[i32]) -> bool {
        self.ask();
        self.seen.borrow().iter().any(|[signal, _]| signals.contains(&(*signal as i32)))
    }

    /// Forgets what the group has got so far.
    pub(super) fn forget(&self) {
        self.ask();
        self.seen.borrow_mut().clear();
    }

    /// Asks the keeper for the signals that came. Without an answer, none did.
    fn ask(&self) {
        // It may have been stopped, as by `kill -STOP -- -GROUP`.
        let _ = pidfd_send_signal(&self.process, Signal::CONT);
        if send(&self.socket, &pid_bytes(None), SendFlags::NOSIGNAL).is_err() {
            return;
        }
        let mut packet = [0u8; PACKET * size_of::<Seen>()];
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        if !matches!(poll(&mut watched, Some(&PATIENCE)), Ok(1)) {
            return;
        }
        let Ok((_, bytes)) = recv(&self.socket, &mut packet[..], RecvFlags::DONTWAIT) else {
            return;
        };
        let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let own = std::process::id();
        let told = packet[..bytes].chunks_exact(8).map(|pair| [word(pair), word(&pair[4..])]);
        self.seen.borrow_mut().extend(told.filter(|[_, sender]| *sender != own));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = pidfd_send_signal(&self.process, Signal::KILL);
            let _ = rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty());
        }
    }
}

/// The keeper's work. Returns when the recorder has died; a descriptor of the program, if there was
/// one.
fn keep(recorder: &OwnedFd) -> Option<OwnedFd> {
    // SAFETY: names this process, for those who list them.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"keeptime-keeper".as_ptr()) };
    let pending = signals::descriptor().ok();
    let mut program = None;
    loop {
        let mut request = [0u8; 4];
        match recv(recorder, &mut request[..], RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Ok((_, 4)) => match Pid::from_raw(i32::from_ne_bytes(request)) {
                None => answer(recorder, pending.as_ref()),
                Some(told) => program = pidfd_open(told, PidfdFlags::empty()).ok(),
            },
            _ => return program,
        }
    }
}

fn answer(recorder: &OwnedFd, pending: Option<&OwnedFd>) {
    let came = pending.map(|pending| signals::came(pending.as_fd())).unwrap_or_default();
    // Those that are queued beyond a packet are taken for the recorder's alone.
    let words = came.iter().take(PACKET).flat_map(|came| [came.signal as u32, came.pid]);
    let bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    // Fails only when the recorder has died, as the next request tells.
    let _ = send(recorder, &bytes, SendFlags::NOSIGNAL);
}

fn pid_bytes(pid: Option<Pid>) -> [u8; 4] {
    Pid::as_raw(pid).to_ne_bytes()
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Closes what belongs to the recorder, above all the standard streams: who reads them waits for
/// their end.
fn close_all_but(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut next = 0;
    for descriptor in kept.into_iter().chain([RawFd::MAX]) {
        let last = descriptor - 1;
        // SAFETY: the recorder's copies stay open; nothing here uses these.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, next, last, 0) } == 0;
        if !closed && next <= last {
            // Before Linux 5.9. More are not closed, which only costs their memory.
            for old in next..=last.min(4096) {
                // SAFETY: as above.
                unsafe { libc::close(old) };
            }
        }
        next = descriptor.saturating_add(1);
    }
}
