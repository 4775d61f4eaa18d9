//! Passes on the signals that reach the recorder, so that their sender need not know that it is
//! there, until the program has ended.
//!
//! | signal | goes to |
//! |---|---|
//! | of the terminal, or sent to the whole process group | none: the program has got it |
//! | of a timer that began before the recorder did | the program |
//! | for what the recorder itself does (SIGPIPE, SIGXFSZ, SIGCHLD) | none |
//! | sent by the program to its parent | the recorder's parent |
//! | any other | the program |
//!
//! If the program stops, the recorder stops by the same signal, so that a shell sees a job that has
//! stopped. SIGSTOP for the recorder alone cannot be seen here, and the program goes on.

use super::keeper::Keeper;
use super::signals::{self, Came, Signals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, pidfd_send_signal, waitid,
};

/// Passes signals on to the program.
pub(super) struct Relay<'a> {
    /// Source of the signals that come.
    pub signals: &'a Signals,
    /// Source of the whole group's signals; without it, only the terminal's signals are known.
    pub keeper: Option<&'a Keeper>,
    /// Signals that came before there was a program.
    pub early: Vec<Came>,
    /// The program.
    pub pid: Pid,
    /// A descriptor of it.
    pub program: OwnedFd,
}

/// Receiver of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    Program,
    Parent,
    Nobody,
}

impl Relay<'_> {
    /// Passes signals on until the program has ended.
    pub(super) fn run(&self) {
        // Before the program was there, the signals of its group were for it, too.
        for came in self.early.iter().filter(|came| !is_own(came)) {
            came.send(self.program.as_fd());
        }
        loop {
            let mut watched = [
                PollFd::new(self.signals, PollFlags::IN),
                PollFd::new(&self.program, PollFlags::IN),
            ];
            // All signals are blocked, so that none interrupts it.
            let _ = poll(&mut watched, None);
            let ended = !watched[1].revents().is_empty();
            let mut came = self.signals.came();
            while !came.is_empty() {
                for came in &came {
                    self.pass_on(came);
                }
                let is_child = came.iter().any(|came| came.signal == libc::SIGCHLD);
                came = if is_child && !ended { self.stop_with_program() } else { Vec::new() };
            }
            if ended {
                return;
            }
        }
    }

    fn pass_on(&self, came: &Came) {
        match self.receiver(came) {
            Receiver::Program => came.send(self.program.as_fd()),
            Receiver::Parent => {
                let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
                if parent > 0 {
                    // SAFETY: a signal to another process. It fails as it would for the program.
                    unsafe { libc::kill(parent, came.signal) };
                }
            }
            Receiver::Nobody => {}
        }
    }

    fn receiver(&self, came: &Came) -> Receiver {
        let got_by_group = || match self.keeper {
            Some(keeper) => keeper.group_got(came),
            None => came.code == libc::SI_KERNEL && !is_timer(came.signal),
        };
        if is_own(came) || got_by_group() {
            Receiver::Nobody
        } else if came.pid == self.pid.as_raw_nonzero().get() as u32 {
            Receiver::Parent
        } else {
            receiver_of_alone(came)
        }
    }

    /// Stops as the program has stopped, if it has. Comes back when this process is continued, with
    /// the signals that came.
    fn stop_with_program(&self) -> Vec<Came> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let stopped = waitid(WaitId::PidFd(self.program.as_fd()), options).ok().flatten();
        let Some(signal) = stopped.and_then(|status| status.stopping_signal()) else {
            return Vec::new();
        };
        signals::suffer(signal);
        let came = self.signals.came();
        // A stop that was sent after SIGCONT has removed it from what is pending. Where the group
        // got either, the program has.
        let told = [libc::SIGCONT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        let is_there = came.iter().any(|came| came.signal == libc::SIGCONT);
        if !is_there && !self.keeper.is_some_and(|keeper| keeper.group_got_any(&told)) {
            let _ = pidfd_send_signal(&self.program, Signal::CONT);
        }
        came
    }
}

/// Returns true if a signal is from this process, or about the state of its child.
fn is_own(came: &Came) -> bool {
    let is_of_child = came.signal == libc::SIGCHLD && came.code > 0;
    is_of_child || came.pid == getpid().as_raw_nonzero().get() as u32
}

/// Returns the receiver of a signal that only this process got.
fn receiver_of_alone(came: &Came) -> Receiver {
    let is_of_session = [libc::SIGHUP, libc::SIGCONT].contains(&came.signal) && leads_session();
    // The kernel's own: for the use of processor time, say, which the program is told of for its
    // own use.
    let is_kernels = came.code == libc::SI_KERNEL;
    if is_kernels && !is_timer(came.signal) && !is_of_session {
        Receiver::Nobody
    } else {
        Receiver::Program
    }
}

/// Returns true if this process is the first of its session. In a container that was entered from
/// outside (`docker exec`, `nsenter`) the session's leader cannot be seen: the kernel then says 0,
/// which rustix's `getsid` takes for impossible.
fn leads_session() -> bool {
    // SAFETY: asks for a number.
    let session = unsafe { libc::getsid(0) };
    session == getpid().as_raw_nonzero().get()
}

/// Timers of a process (`alarm`, `setitimer`) go on when it becomes another program.
fn is_timer(signal: i32) -> bool {
    [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF].contains(&signal)
}
