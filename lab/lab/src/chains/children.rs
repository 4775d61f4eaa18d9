//! The processes of one run: the server and the executors.
//!
//! No child outlives this process: each asks the kernel to be killed with it ([`realtime::process::die_with`]), and
//! dropping [`Children`] kills and reaps what is left. The kernel means the thread that started a
//! child, so all children are started by the main thread. They are process groups of their own,
//! so that Ctrl-C reaches this process alone, which then takes them down.
//!
//! Children answer in lines on their standard output, which one thread per child passes on; what
//! they say on standard error goes to a file that is shown when a child fails.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use realtime::clock::monotonic_ns;
use rustix::process::{Pid, Signal, kill_process};

/// Interval at which a waiting parent looks at its signals and shows its progress.
const TICK: Duration = Duration::from_millis(100);
/// Number of last lines of a failed child's standard error that are shown.
const SHOWN_LINES: usize = 12;

/// The option that tells a child whom to end with.
pub fn parent_option() -> [OsString; 2] {
    ["--parent".into(), std::process::id().to_string().into()]
}

/// Waits until `done` says so, at most until `until_ns`.
///
/// # Errors
/// "interrupted" when a signal came; the error of `done`.
pub fn wait_until(
    interrupted: &AtomicBool,
    until_ns: u64,
    mut done: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    loop {
        if done()? {
            return Ok(true);
        }
        check(interrupted)?;
        if monotonic_ns() >= until_ns {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn check(interrupted: &AtomicBool) -> anyhow::Result<()> {
    // Relaxed: the flag stands for itself, nothing else is read because of it.
    anyhow::ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// The processes of one run.
pub struct Children {
    folder: PathBuf,
    processes: Vec<Process>,
    sender: Sender<(usize, Option<String>)>,
    lines: Receiver<(usize, Option<String>)>,
    interrupted: Arc<AtomicBool>,
}

struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    errors: PathBuf,
}

impl Children {
    /// No children yet; their files go to `folder`.
    pub fn new(folder: &Path, interrupted: Arc<AtomicBool>) -> Children {
        let (sender, lines) = channel();
        Children { folder: folder.into(), processes: Vec::new(), sender, lines, interrupted }
    }

    /// Starts this program with other arguments and returns the child's number. To be called by
    /// the main thread.
    pub fn spawn<S: AsRef<OsStr>>(
        &mut self,
        name: String,
        arguments: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<usize> {
        let program = std::env::current_exe().context("this program's file")?;
        self.spawn_program(&program, name, arguments)
    }

    /// Starts a program and returns the child's number. To be called by the main thread.
    pub fn spawn_program<S: AsRef<OsStr>>(
        &mut self,
        program: &Path,
        name: String,
        arguments: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<usize> {
        let number = self.processes.len();
        let errors = self.folder.join(format!("errors-{number}"));
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).with_context(|| errors.display().to_string())?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("{}: {name} cannot be started", program.display()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        // From here on dropping this ends the child.
        self.processes.push(Process { name, child, input, errors });
        let sender = self.sender.clone();
        let read = move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                let Ok(line) = line else { break };
                let _ = sender.send((number, Some(line)));
            }
            // Nobody receives any more once the run is over.
            let _ = sender.send((number, None));
        };
        std::thread::Builder::new().name("kt-lines".into()).spawn(read)?;
        Ok(number)
    }

    /// Writes one line to a child.
    pub fn tell(&mut self, number: usize, line: &str) -> anyhow::Result<()> {
        let process = &mut self.processes[number];
        let told = process.input.as_mut().map(|input| {
            input.write_all(line.as_bytes())?;
            input.write_all(b"\n")?;
            input.flush()
        });
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure(number)),
        }
    }

    /// The number of a child and its next line, none at the end of its output. Calls `tick` again
    /// and again.
    ///
    /// # Errors
    /// It takes longer than until `until_ns`, or a signal interrupts.
    pub fn next_line(
        &mut self,
        until_ns: u64,
        mut tick: impl FnMut(),
    ) -> anyhow::Result<(usize, Option<String>)> {
        loop {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            check(&self.interrupted)?;
            anyhow::ensure!(monotonic_ns() < until_ns, "an executor gave no answer in time");
            tick();
        }
    }

    /// Returns true if a child still runs.
    pub fn is_running(&mut self, number: usize) -> bool {
        matches!(self.processes[number].child.try_wait(), Ok(None))
    }

    /// Asks a child to end by SIGTERM, and returns its status if it ends until `until_ns`.
    pub fn stop(&mut self, number: usize, until_ns: u64) -> anyhow::Result<Option<ExitStatus>> {
        let child = &mut self.processes[number].child;
        let mut status = child.try_wait()?;
        if status.is_none()
            && let Some(pid) = Pid::from_raw(child.id().cast_signed())
        {
            // It is not reaped yet, so the number is still its own.
            kill_process(pid, Signal::TERM).context("kill")?;
        }
        wait_until(&self.interrupted, until_ns, || {
            status = child.try_wait()?;
            Ok(status.is_some())
        })?;
        Ok(status)
    }

    /// Returns the error of a child that should not have ended, with its last words.
    pub fn failure(&mut self, number: usize) -> anyhow::Error {
        let process = &mut self.processes[number];
        let name = &process.name;
        // Its output has ended, so it ends as well, unless it was tampered with.
        let end = monotonic_ns() + 1_000_000_000;
        let _ = wait_until(&self.interrupted, end, || Ok(process.child.try_wait()?.is_some()));
        let said = last_words(&process.errors);
        match process.child.try_wait() {
            Ok(Some(status)) => anyhow::anyhow!("{name} ended with {status}{said}"),
            _ => anyhow::anyhow!("{name} does not answer{said}"),
        }
    }

    /// The end of what a child said on standard error, with a leading colon.
    pub fn last_words(&self, number: usize) -> String {
        last_words(&self.processes[number].errors)
    }
}

fn last_words(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    if shown.is_empty() { String::new() } else { format!(": {}", shown.join("; ")) }
}

impl Drop for Children {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // A child that has ended cannot be killed, which is as good.
            let _ = process.child.kill();
        }
        for process in &mut self.processes {
            let _ = process.child.wait();
        }
    }
}
