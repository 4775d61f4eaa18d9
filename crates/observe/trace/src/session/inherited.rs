//! State that this process was started with and that is not the same any more when the program
//! starts: signals that are blocked or ignored, standard descriptors that are closed, the limit on
//! the size of files. The program gets all of it as it was.
//!
//! Rust's runtime ignores SIGPIPE and opens `/dev/null` in place of closed standard descriptors
//! before `main`; so [`look`] runs before the runtime does, as a constructor.

use super::signals;
use crate::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static BROKEN_PIPES_IGNORED: AtomicBool = AtomicBool::new(false);
/// Bit N: descriptor N was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    BROKEN_PIPES_IGNORED.store(signals::is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    let closed = (0..3).filter(|descriptor| {
        // SAFETY: asks for the flags of a descriptor, and changes nothing.
        unsafe { libc::fcntl(*descriptor, libc::F_GETFD) == -1 }
    });
    CLOSED.store(closed.fold(0, |bits, descriptor| bits | 1 << descriptor), Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// State that the program inherits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inherited {
    /// Blocked signals; the lowest bit is signal 1.
    pub blocked: u64,
    /// True if SIGCHLD was ignored.
    pub children_ignored: bool,
    /// RLIMIT_FSIZE.
    file_bytes: libc::rlimit,
}

impl Inherited {
    /// Creates the state from these blocked signals, from whether SIGCHLD is ignored, and from this
    /// process's present limit on the size of files. That limit is raised here for this process, as
    /// far as possible: its memory and its trace may be larger than the files that the program may
    /// write.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub(super) fn new(blocked: u64, children_ignored: bool) -> Result<Inherited, Error> {
        let mut file_bytes = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes the limit to a local variable.
        check(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut file_bytes) })
            .map_err(Error::system("getrlimit"))?;
        let raised = libc::rlimit { rlim_cur: file_bytes.rlim_max, ..file_bytes };
        // SAFETY: reads the limit from a local variable.
        check(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const raised) })
            .map_err(Error::system("setrlimit"))?;
        Ok(Inherited { blocked, children_ignored, file_bytes })
    }

    /// The largest file that this process may write; `None` for no limit.
    pub(super) fn largest_file_bytes(&self) -> Option<u64> {
        let bytes = self.file_bytes.rlim_max;
        (bytes != libc::RLIM_INFINITY).then_some(bytes)
    }

    /// Puts everything back. Runs in the forked child: async-signal-safe, allocates nothing.
    pub(super) fn restore(&self) -> io::Result<()> {
        signals::block(self.blocked);
        let pipes = BROKEN_PIPES_IGNORED.load(Ordering::Relaxed);
        for (signal, is_ignored) in [(libc::SIGPIPE, pipes), (libc::SIGCHLD, self.children_ignored)]
        {
            let disposition = if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: neither disposition runs any code of ours.
            unsafe { libc::signal(signal, disposition) };
        }
        // SAFETY: reads the limit from memory that outlives the call.
        check(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const self.file_bytes) })?;
        let closed = CLOSED.load(Ordering::Relaxed);
        for descriptor in (0..3).filter(|descriptor| closed >> descriptor & 1 == 1) {
            // SAFETY: what the runtime put there, in place of nothing; nothing in the child uses
            // it.
            unsafe { libc::close(descriptor) };
        }
        Ok(())
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
