//! Signals that reach the recorder while the program runs: all of them are blocked, and read from
//! a descriptor, by which the kernel also says where they come from.
//!
//! Signals that the kernel raises for an instruction of this process (SIGSEGV and its like) end
//! it in spite of that.

use super::inherited::Inherited;
use crate::Error;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::process::{Pid, getpid};
use std::io;
use std::mem::MaybeUninit;

/// Bytes of the kernel's set of signals.
const SET_BYTES: usize = 8;
/// Signals that are read at once.
const BATCH: usize = 16;

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    /// Its number.
    pub signal: i32,
    /// `si_code`: how it was sent.
    pub code: i32,
    /// Process id of the sender; 0 if it cannot be seen from here.
    pub pid: u32,
    /// User id of the sender.
    uid: u32,
    /// Value that `sigqueue` sent with it.
    value: u64,
}

/// The blocked signals.
pub(super) struct Signals {
    descriptor: OwnedFd,
    inherited: Inherited,
}

impl Signals {
    /// Blocks all signals of this thread and of those that it will start. They stay blocked: what
    /// comes after the program's end has no effect.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub(super) fn block_all() -> Result<Signals, Error> {
        let blocked = block(u64::MAX);
        let children_ignored = is_ignored(libc::SIGCHLD);
        // A process that ignores SIGCHLD does not hear how the program ended.
        // SAFETY: the default does nothing.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let inherited = Inherited::new(blocked, children_ignored)?;
        Ok(Signals { descriptor: descriptor().map_err(Error::system("signalfd"))?, inherited })
    }

    /// Returns the state that the program inherits.
    pub(super) fn inherited(&self) -> &Inherited {
        &self.inherited
    }

    /// All that came since the last call.
    pub(super) fn came(&self) -> Vec<Came> {
        came(self.descriptor.as_fd())
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A descriptor of this process's pending signals.
pub(super) fn descriptor() -> io::Result<OwnedFd> {
    let (all, flags) = (u64::MAX, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
    // SAFETY: a set of signals of the size that is told.
    let made = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &raw const all, SET_BYTES, flags) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that no other code owns.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}

/// All signals that can be read from a descriptor.
pub(super) fn came(descriptor: BorrowedFd<'_>) -> Vec<Came> {
    let mut all = Vec::new();
    loop {
        let mut batch = [MaybeUninit::<libc::signalfd_siginfo>::uninit(); BATCH];
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as large as told.
        let read =
            unsafe { libc::read(descriptor.as_raw_fd(), batch.as_mut_ptr().cast(), size * BATCH) };
        // Nothing there, which is the only error of a read that does not block.
        let count = usize::try_from(read).unwrap_or(0) / size;
        all.extend(batch[..count].iter().map(|info| {
            // SAFETY: the kernel has written so many of them.
            let info = unsafe { info.assume_init_ref() };
            Came {
                signal: info.ssi_signo as i32,
                code: info.ssi_code,
                pid: info.ssi_pid,
                uid: info.ssi_uid,
                value: info.ssi_ptr,
            }
        }));
        if count < BATCH {
            return all;
        }
    }
}

impl Came {
    /// Sends it to a process; what `sigqueue` sent also with its value and its sender.
    pub(super) fn send(&self, process: BorrowedFd<'_>) {
        /// `siginfo_t` of 64-bit kernels, as far as it is used.
        #[repr(C)]
        struct Queued {
            signal: i32,
            errno: i32,
            code: i32,
            gap: i32,
            pid: u32,
            uid: u32,
            value: u64,
            rest: [u64; 12],
        }
        const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());
        let Came { signal, code, pid, uid, value } = *self;
        let queued = Queued { signal, errno: 0, code, gap: 0, pid, uid, value, rest: [0; 12] };
        let is_queued = code == libc::SI_QUEUE;
        let info = if is_queued { &raw const queued } else { std::ptr::null() };
        // SAFETY: the structure is as large as the kernel's, or there is none. Fails only when
        // the process is gone, or of another user, who is not to be sent anything.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, info, 0);
        }
    }
}

/// Blocks exactly these signals of this thread, also those that the C library keeps for itself;
/// returns which were blocked. Async-signal-safe.
pub(super) fn block(signals: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: two sets of signals of the size that is told. Cannot fail with valid arguments.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const signals,
            &raw mut before,
            SET_BYTES,
        );
    }
    before
}

/// Returns true if this process ignores a signal.
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for a disposition, and changes nothing; zeros are a valid one.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Has a signal its default effect on this process, and comes back if that is none: after a stop
/// when the process is continued.
pub(super) fn suffer(signal: i32) {
    let own = Pid::as_raw(Some(getpid()));
    // SAFETY: the default runs no code of ours. The signal is pending, once, until it is let
    // through; SIGSTOP and SIGKILL cannot be blocked.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(own, signal);
    }
    let blocked = block(!(1 << (signal - 1)));
    block(blocked);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, WaitIdOptions, kill_process};

    unsafe extern "C" {
        fn pthread_sigqueue(
            thread: libc::pthread_t,
            signal: libc::c_int,
            value: libc::sigval,
        ) -> libc::c_int;
    }

    #[test]
    fn signals_tell_how_they_were_sent() {
        // On a thread of its own, whose signals are its own affair.
        std::thread::spawn(|| {
            let before = block(u64::MAX);
            let descriptor = descriptor().unwrap();
            let value = libc::sigval { sival_ptr: 0x1234_5678_9abc as *mut _ };
            // SAFETY: signals to this thread, which blocks them all.
            unsafe {
                assert_eq!(libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1), 0);
                assert_eq!(pthread_sigqueue(libc::pthread_self(), 40, value), 0);
            }
            let came = came(descriptor.as_fd());
            let told: Vec<_> = came.iter().map(|came| (came.signal, came.code)).collect();
            assert_eq!(told, [(libc::SIGUSR1, libc::SI_TKILL), (40, libc::SI_QUEUE)]);
            assert_eq!((came[1].pid, came[1].value), (std::process::id(), 0x1234_5678_9abc));
            block(before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn process_that_suffers_a_stop_goes_on_when_it_is_continued() {
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            block(u64::MAX);
            suffer(libc::SIGSTOP);
            suffer(libc::SIGUSR1);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(1) };
        }
        let pid = Pid::from_raw(child).unwrap();
        let id = rustix::process::WaitId::Pid(pid);
        let wait = |options| rustix::process::waitid(id.clone(), options).unwrap().unwrap();
        assert_eq!(wait(WaitIdOptions::STOPPED).stopping_signal(), Some(libc::SIGSTOP));
        kill_process(pid, Signal::CONT).unwrap();
        assert_eq!(wait(WaitIdOptions::EXITED).terminating_signal(), Some(libc::SIGUSR1));
    }
}
