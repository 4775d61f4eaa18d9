//! Signals that reach the recorder while the program runs.
//!
//! What is typed at the terminal, SIGINT and SIGQUIT, goes to the program as well: the recorder
//! lets it pass, so that the trace is written when the program ends of it, or goes on if the
//! program does. What is sent to the recorder alone, SIGTERM and SIGHUP, is passed on. Signals
//! that were ignored when the recorder began stay so, for the program, too. Only SIGCHLD must not
//! be ignored by the recorder, which would not hear how the program ended.

use crate::Error;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{SigId, flag, low_level};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A signal that is caught here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Its number.
    pub signal: i32,
    /// Whether the program is to ignore it, as this process did.
    pub was_ignored: bool,
}

/// The caught signals. After it is dropped, they go on to be without effect on this process.
pub struct Signals {
    registered: Vec<SigId>,
    caught: Vec<Caught>,
    passed_on: Vec<(rustix::process::Signal, UnixStream)>,
}

impl Signals {
    /// Begins to catch them.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn catch() -> Result<Signals, Error> {
        let ignored = ignored();
        let is_ignored = |signal: i32| ignored >> (signal - 1) & 1 == 1;
        let heeded = |signal: &i32| !is_ignored(*signal);
        let mut signals =
            Signals { registered: Vec::new(), caught: Vec::new(), passed_on: Vec::new() };
        let refused = || Error::system("sigaction");
        let let_pass = [SIGINT, SIGQUIT].into_iter().filter(heeded);
        for signal in let_pass.chain(Some(SIGCHLD).filter(|signal| is_ignored(*signal))) {
            let nobody = Arc::new(AtomicBool::new(false));
            signals.registered.push(flag::register(signal, nobody).map_err(refused())?);
            signals.caught.push(Caught { signal, was_ignored: is_ignored(signal) });
        }
        for signal in [SIGTERM, SIGHUP].into_iter().filter(heeded) {
            let (read, write) = UnixStream::pair().map_err(Error::system("socketpair"))?;
            read.set_nonblocking(true).map_err(Error::system("fcntl"))?;
            signals.registered.push(low_level::pipe::register(signal, write).map_err(refused())?);
            signals.caught.push(Caught { signal, was_ignored: false });
            let name = rustix::process::Signal::from_named_raw(signal);
            signals.passed_on.push((name.expect("one of the named signals"), read));
        }
        Ok(signals)
    }

    /// The signals whose dispositions are not what they were.
    pub fn caught(&self) -> &[Caught] {
        &self.caught
    }

    /// Descriptors that can be read after a signal came that is to be passed on.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.passed_on.iter().map(|(_, pipe)| pipe.as_fd())
    }

    /// The signals that came since the last call and are to be passed on.
    pub fn came(&self) -> impl Iterator<Item = rustix::process::Signal> {
        self.passed_on.iter().filter_map(|(signal, pipe)| {
            let got = rustix::io::read(pipe, &mut [0; 64]);
            got.is_ok_and(|bytes| bytes > 0).then_some(*signal)
        })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// The signals that this process ignores, as bits, the lowest one being signal 1.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_caught_and_told() {
        let signals = Signals::catch().unwrap();
        for signal in [SIGINT, SIGHUP, SIGQUIT] {
            low_level::raise(signal).unwrap();
        }
        // What runs the tests may ignore it, as `nohup` does.
        let heeds = signals.caught().iter().any(|caught| caught.signal == SIGHUP);
        let expected = heeds.then_some(rustix::process::Signal::HUP);
        assert_eq!(signals.came().collect::<Vec<_>>(), Vec::from_iter(expected));
        assert_eq!(signals.came().count(), 0);
    }

    #[test]
    fn runtime_ignores_broken_pipes() {
        assert_eq!(ignored() >> (signal_hook::consts::SIGPIPE - 1) & 1, 1);
    }
}
