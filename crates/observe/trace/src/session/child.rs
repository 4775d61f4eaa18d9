//! Starts the program so that it waits, just before it becomes the program, until collectors are
//! attached to it.
//!
//! The forked child tells its process id through one pipe, then reads one byte from another. Only
//! then it becomes the program. When the recorder lets go of the pipe, or dies, the child reads
//! its end instead and is gone without having run anything. `Command::spawn` returns only after
//! all that, so a thread of its own calls it. That thread waits for the program's end: a program
//! that asked for a signal when its parent dies gets it when the thread ends that started it.

use super::inherited::Inherited;
use crate::Error;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpid};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::thread::{Scope, ScopedJoinHandle};

/// A child that waits. When it is dropped, the child never runs the program.
pub(super) struct WaitingChild<'scope> {
    pid: Pid,
    go: OwnedFd,
    spawner: ScopedJoinHandle<'scope, Spawned>,
    program: String,
}

/// A child that may have become the program.
pub(super) struct Running<'scope> {
    spawner: ScopedJoinHandle<'scope, Spawned>,
    program: String,
}

/// Error of the start; or else the child's exit status, or the error of waiting for it.
type Spawned = io::Result<io::Result<ExitStatus>>;

impl<'scope> WaitingChild<'scope> {
    /// Forks the child of `command`, which can be used only once. The child gets what this process
    /// had `inherited`.
    ///
    /// # Errors
    /// [`Error::Start`] when it cannot be forked, or was killed at once; [`Error::System`] when
    /// there are no pipes.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        command: &'scope mut Command,
        inherited: &Inherited,
    ) -> Result<WaitingChild<'scope>, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(Error::system("pipe2"));
        let (told, tell) = pipe()?;
        let (wait, go) = pipe()?;
        let ends = Ends {
            tell: tell.as_raw_fd(),
            wait: wait.as_raw_fd(),
            others: [told.as_raw_fd(), go.as_raw_fd()],
        };
        let inherited = *inherited;
        // SAFETY: `hold` makes only calls that are async-signal-safe, and allocates nothing. The
        // spawner keeps its ends open until the child has been forked, `start` and `Held` theirs
        // until the child has been forked and has told its id.
        unsafe { command.pre_exec(move || hold(&ends, &inherited)) };
        let spawner = scope.spawn(move || {
            let spawned = command.spawn();
            drop((tell, wait));
            spawned.map(|mut child| child.wait())
        });
        let mut id = [0; 4];
        let told = read_all(&told, &mut id).map_err(Error::system("read"))?;
        let pid = told.then(|| Pid::from_raw(i32::from_le_bytes(id))).flatten();
        if let Some(pid) = pid {
            return Ok(WaitingChild { pid, go, spawner, program });
        }
        drop(go);
        let reason = match spawner.join().expect("the spawner does not panic") {
            Err(error) => error,
            Ok(_) => io::Error::other("the process was killed before it ran the program"),
        };
        Err(Error::Start { program, reason })
    }

    /// The waiting child.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets it become the program. Returns at once: the child may be stopped.
    pub(super) fn release(self) -> Running<'scope> {
        let WaitingChild { go, spawner, program, .. } = self;
        // Fails only when the child was killed meanwhile, as its parent will hear.
        let _ = rustix::io::write(&go, &[1]);
        Running { spawner, program }
    }
}

impl Running<'_> {
    /// Waits for its end.
    ///
    /// # Errors
    /// [`Error::Start`] when there is no such program, or it cannot be run; [`Error::System`] when
    /// its exit status is not known.
    pub(super) fn wait(self) -> Result<ExitStatus, Error> {
        let spawned = self.spawner.join().expect("the spawner does not panic");
        let program = self.program;
        let ended = spawned.map_err(|reason| Error::Start { program, reason })?;
        ended.map_err(Error::system("waitpid"))
    }
}

/// The descriptors that the child uses and those that it has to close.
struct Ends {
    tell: RawFd,
    wait: RawFd,
    others: [RawFd; 2],
}

/// Runs in the child.
fn hold(ends: &Ends, inherited: &Inherited) -> io::Result<()> {
    inherited.restore()?;
    for other in ends.others {
        // SAFETY: the child's copy of the parent's end; nothing in the child uses it. While it
        // were open, the pipe would not end when the parent dies.
        unsafe { rustix::io::close(other) };
    }
    // SAFETY: the spawning thread holds both descriptors open, so the child has them, too.
    let (tell, wait) =
        unsafe { (BorrowedFd::borrow_raw(ends.tell), BorrowedFd::borrow_raw(ends.wait)) };
    rustix::io::write(tell, &getpid().as_raw_nonzero().get().to_le_bytes())?;
    if read_all(wait, &mut [0])? { Ok(()) } else { Err(Errno::CANCELED.into()) }
}

/// Fills `bytes`; false when the pipe ends before.
fn read_all(pipe: impl std::os::fd::AsFd, bytes: &mut [u8]) -> rustix::io::Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::read(&pipe, &mut bytes[filled..]) {
            Ok(0) => return Ok(false),
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited() -> Inherited {
        Inherited::new(0, false).unwrap()
    }

    #[test]
    fn child_waits_until_it_is_released() {
        let (read, write) = io::pipe().unwrap();
        let mut command = Command::new("echo");
        command.arg("ran").stdout(write);
        std::thread::scope(|scope| {
            let held = WaitingChild::start(scope, &mut command, &inherited()).unwrap();
            let pid = held.pid().as_raw_nonzero().get();
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            assert!(!text.contains("(echo)"), "{text}");
            assert!(held.release().wait().unwrap().success());
        });
        drop(command);
        assert_eq!(io::read_to_string(read).unwrap(), "ran\n");
    }

    #[test]
    fn child_that_is_let_go_of_runs_nothing() {
        let mut command = Command::new("echo");
        let (read, write) = io::pipe().unwrap();
        command.stdout(write);
        std::thread::scope(|scope| {
            drop(WaitingChild::start(scope, &mut command, &inherited()).unwrap());
        });
        drop(command);
        assert_eq!(io::read_to_string(read).unwrap(), "");
    }

    #[test]
    fn program_that_is_not_there_is_named() {
        let mut command = Command::new("/no/such/program");
        std::thread::scope(|scope| {
            let held = WaitingChild::start(scope, &mut command, &inherited()).unwrap();
            let text = held.release().wait().unwrap_err().to_string();
            assert!(text.starts_with("cannot run /no/such/program: No such file"), "{text}");
        });
    }
}
