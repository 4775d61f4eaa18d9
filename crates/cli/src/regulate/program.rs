//! The program that is run on the regulated cores.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::Sender;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use super::News;

/// A program, and its process once it is started.
pub(super) struct Program {
    words: Vec<OsString>,
    process: Option<Pid>,
}

impl Program {
    /// A program that is not started yet.
    pub(super) fn new(words: &[OsString]) -> Program {
        Program { words: words.to_vec(), process: None }
    }

    /// Starts it on the cores; its end goes to `sender`.
    pub(super) fn start(&mut self, cores: &[usize], sender: Sender<News>) -> anyhow::Result<()> {
        let name = self.words[0].to_string_lossy().into_owned();
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        let cores = cores.to_vec();
        // A process inherits the cores of the thread that starts it.
        let start = move || -> anyhow::Result<_> {
            realtime::thread::pin(&cores)?;
            Ok(command.spawn()?)
        };
        let child = std::thread::spawn(start).join().expect("nothing panics in it");
        let mut child = child.with_context(|| format!("cannot start {name}"))?;
        self.process = Some(Pid::from_child(&child));
        std::thread::spawn(move || {
            // A caller that is gone needs no answer.
            let _ = sender.send(News::Ended(child.wait()));
        });
        Ok(())
    }

    /// Passes a signal on.
    pub(super) fn signal(&self, signal: i32) {
        if let (Some(process), Some(signal)) = (self.process, Signal::from_named_raw(signal)) {
            // The program may have ended by itself.
            let _ = kill_process(process, signal);
        }
    }
}

/// The status with which a shell would end: of a program that was killed by a signal, 128 more.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}
