//! A process that an experiment starts, and the dialogue with it.
//!
//! Messages are values as JSON, one a line, on the child's standard input and output. What it
//! writes to standard error is kept, and its last lines are part of the error when the child ends
//! where it should not.
//!
//! A child is another program, or this one again: `PROGRAM child --parent ID NAME`, whose first
//! message is its order. There the other side of the dialogue is a [`Parent`].
//!
//! No child outlives this process, and none a moment after the first [signal](crate::signals)
//! (`process.rs`). Dropping a [`Child`] kills and reaps it; a [`Parent`] asks the
//! kernel to be killed with the thread that started it, so a child is started by a thread that
//! stays as long as it does. Each is a process group of its own, so that Ctrl-C reaches this process
//! alone, which then takes its children down.

use std::fs::File;
use std::io::{BufRead, BufReader, StdinLock, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use realtime::clock::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::process::Process;
use crate::signals;

/// The subcommand that is a child.
const SUBCOMMAND: &str = "child";
/// Number of last lines of a failed child's standard error that are shown.
const SHOWN_LINES: usize = 12;
/// Longest time that a child whose output has ended may take to end, in nanoseconds.
const END_NS: u64 = 1_000_000_000;
/// Interval at which a wait for output looks for signals that another thread has handled.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The option that names the process that a child ends with.
pub fn parent_option() -> [String; 2] {
    ["--parent".into(), std::process::id().to_string()]
}

/// Waits until `done` says so, at most until `until_ns` of the monotonic clock; false if it does not.
///
/// # Errors
/// [`Interrupted`](signals::Interrupted) when a signal came; the error of `done`.
pub fn wait_until(
    until_ns: u64,
    mut done: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    while !done()? {
        signals::check()?;
        if monotonic_ns() >= until_ns {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// A process that this one has started; it is killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: Arc<Process>,
    input: Option<ChildStdin>,
    pub(crate) output: Option<BufReader<ChildStdout>>,
    errors: File,
}

impl Child {
    /// Starts a program; its name is that in errors.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(name: impl Into<String>, mut command: Command) -> anyhow::Result<Child> {
        let name = name.into();
        let errors = File::from(memfd_create("errors", MemfdFlags::CLOEXEC)?);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!("{}: {name} cannot be started", command.get_program().to_string_lossy())
            })?;
        let (input, output) = (process.stdin.take(), process.stdout.take().map(BufReader::new));
        Ok(Child { name, process: Process::new(process), input, output, errors })
    }

    /// Starts this program again for an order, which its [`Parent`] hears first.
    ///
    /// # Errors
    /// It cannot be started, or ends at once.
    pub fn order(name: &str, order: &impl Serialize) -> anyhow::Result<Child> {
        Child::order_by(name, order, |command| command)
    }

    /// [`Child::order`] by a changed command: as another user, or by another program.
    ///
    /// # Errors
    /// As [`Child::order`].
    pub fn order_by(
        name: &str,
        order: &impl Serialize,
        change: impl FnOnce(Command) -> Command,
    ) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.arg(SUBCOMMAND).args(parent_option()).arg(name);
        let mut child = Child::start(name, change(command))?;
        child.tell(order)?;
        Ok(child)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The child has ended; with its last words.
    pub fn tell(&mut self, message: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(message)?;
        self.tell_line(&line)
    }

    /// Sends a line to a program that knows no JSON.
    ///
    /// # Errors
    /// As [`Child::tell`].
    pub fn tell_line(&mut self, line: &str) -> anyhow::Result<()> {
        let told = self.input.as_mut().map(|input| {
            input.write_all(format!("{line}\n").as_bytes())?;
            input.flush()
        });
        if matches!(told, Some(Ok(()))) { Ok(()) } else { Err(self.failure()) }
    }

    /// Waits for a message. An empty one says that the child is ready.
    ///
    /// # Errors
    /// The child has ended, with its last words; or says something else.
    pub fn hear<M: DeserializeOwned>(&mut self) -> anyhow::Result<M> {
        let line = self.hear_line()?;
        self.read(&line)
    }

    /// Waits for a line of a program that knows no JSON.
    ///
    /// # Errors
    /// The child has ended; with its last words. [`Interrupted`](signals::Interrupted) when a signal
    /// came.
    pub fn hear_line(&mut self) -> anyhow::Result<String> {
        self.wait_for_output()?;
        let mut line = String::new();
        match self.output.as_mut().map(|output| output.read_line(&mut line)) {
            Some(Ok(1..)) => Ok(line.trim_end().to_owned()),
            _ => Err(self.failure()),
        }
    }

    /// Waits until there is output, or its end.
    fn wait_for_output(&self) -> anyhow::Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
        while output.buffer().is_empty() {
            let mut found = [PollFd::new(output.get_ref(), PollFlags::IN)];
            match poll(&mut found, Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => signals::check()?,
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for the end of a program that says what it has to say and ends: its status, and all that
    /// it wrote to standard output and to standard error.
    ///
    /// # Errors
    /// Its output cannot be read. [`Interrupted`](signals::Interrupted) when a signal came.
    pub fn run_out(mut self) -> anyhow::Result<(ExitStatus, String, String)> {
        drop(self.input.take());
        let mut all = Vec::new();
        loop {
            self.wait_for_output()?;
            let Some(output) = &mut self.output else { break };
            let read = output.fill_buf()?;
            all.extend_from_slice(read);
            let length = read.len();
            output.consume(length);
            if length == 0 {
                break;
            }
        }
        let until_ns = monotonic_ns() + END_NS;
        let status = self.end(until_ns).with_context(|| format!("{} does not end", self.name))?;
        Ok((status, String::from_utf8_lossy(&all).into_owned(), self.words()))
    }

    /// Sends a message and waits for the answer.
    ///
    /// # Errors
    /// As [`Child::tell`] and [`Child::hear`].
    pub fn ask<M: DeserializeOwned>(&mut self, message: &impl Serialize) -> anyhow::Result<M> {
        self.tell(message)?;
        self.hear()
    }

    pub(crate) fn read<M: DeserializeOwned>(&self, line: &str) -> anyhow::Result<M> {
        serde_json::from_str(line).with_context(|| {
            let shown: String = line.chars().take(100).collect();
            format!("{} says {shown:?}", self.name)
        })
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns true if it still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.status().is_none()
    }

    /// Sends a signal; to a child that has ended it does nothing.
    pub fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until it ends by itself, at most until `until_ns`; its status.
    pub fn end(&mut self, until_ns: u64) -> Option<ExitStatus> {
        loop {
            match self.process.status() {
                None if monotonic_ns() < until_ns => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                ended => return ended,
            }
        }
    }

    /// Returns the error of a child that should not have ended, with its last words;
    /// [`Interrupted`](signals::Interrupted) after a signal, which ends all children.
    pub fn failure(&mut self) -> anyhow::Error {
        if let Some(interrupted) = signals::interrupted() {
            return interrupted.into();
        }
        // Its output has ended, so it ends as well, unless it was tampered with.
        let status = self.end(monotonic_ns() + END_NS);
        let (name, said) = (&self.name, self.last_words());
        match status {
            Some(status) => anyhow::anyhow!("{name} ended with {status}{said}"),
            None => anyhow::anyhow!("{name} does not answer{said}"),
        }
    }

    /// Text of its standard error so far.
    pub fn words(&self) -> String {
        let length = self.errors.metadata().map_or(0, |file| file.len());
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        // The position in the file is the child's, and stays where it is.
        let read = self.errors.read_exact_at(&mut bytes, 0);
        read.map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The end of what it has said on standard error, with a leading colon.
    pub fn last_words(&self) -> String {
        let text = self.words();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        if shown.is_empty() { String::new() } else { format!(": {}", shown.join("; ")) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill();
        self.process.reap();
    }
}

/// The process that started this one, as a child sees it.
#[derive(Debug)]
pub struct Parent(StdinLock<'static>);

impl Parent {
    /// Makes this process end with the one that started it, whose number is this.
    ///
    /// # Errors
    /// It has ended already.
    pub fn join(parent: i32) -> anyhow::Result<Parent> {
        realtime::process::die_with(parent)?;
        Ok(Parent(std::io::stdin().lock()))
    }

    /// Waits for a message; none if no more come.
    ///
    /// # Errors
    /// It is not of this kind.
    pub fn hear_more<M: DeserializeOwned>(&mut self) -> anyhow::Result<Option<M>> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line)
            .map(Some)
            .context("cannot read a message of the starting process")
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// There is none, or it is not of this kind.
    pub fn hear<M: DeserializeOwned>(&mut self) -> anyhow::Result<M> {
        self.hear_more()?.context("the starting process is gone")
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The parent does not hear any more.
    pub fn tell(&self, message: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(message)? + "\n";
        let mut out = std::io::stdout().lock();
        Ok(out.write_all(line.as_bytes()).and_then(|()| out.flush())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Child::start("the child", command).unwrap()
    }

    #[test]
    fn messages_are_values_and_what_is_none_is_quoted() {
        let mut child = shell("read line; echo \"[$line,2]\"; echo nonsense");
        assert_eq!(child.ask::<(u32, u32)>(&1).unwrap(), (1, 2));
        let error = child.hear::<u32>().unwrap_err().to_string();
        assert_eq!(error, "the child says \"nonsense\"");
    }

    #[test]
    fn child_that_ends_is_named_with_its_status_and_last_words() {
        let mut child = shell("echo first >&2; echo last >&2; exit 3");
        let error = child.hear::<()>().unwrap_err().to_string();
        assert_eq!(error, "the child ended with exit status: 3: first; last");
        assert!(!child.is_running());
        let missing = Child::start("nobody", Command::new("/no/such/program")).unwrap_err();
        assert_eq!(missing.to_string(), "/no/such/program: nobody cannot be started");
    }

    #[test]
    fn words_can_be_read_while_the_child_goes_on() {
        let mut child = shell("echo one >&2; echo; read line; echo two >&2; echo");
        child.hear_line().unwrap();
        assert_eq!(child.words(), "one\n");
        child.tell(&()).unwrap();
        child.hear_line().unwrap();
        assert_eq!(child.words(), "one\ntwo\n");
    }

    #[test]
    fn dropped_child_is_gone() {
        let mut child = shell("echo; read line");
        child.hear_line().unwrap();
        let process = std::path::PathBuf::from(format!("/proc/{}", child.id()));
        assert!(process.exists());
        drop(child);
        assert!(!process.exists());
    }
}
