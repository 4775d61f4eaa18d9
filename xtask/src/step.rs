//! One command of a task, run in the root of the repository, with its output left as it is.

use std::ffi::OsStr;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// So much of the end of an output is kept.
const KEPT_BYTES: usize = 16 << 20;
/// Time for which a command's output may last after its end: processes that it left may hold it
/// open.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(10);

/// A command that is about to run.
pub struct Step {
    command: Command,
    shown: String,
}

/// A command that has run, with the end of what it wrote.
pub struct Watched {
    pub status: ExitStatus,
    /// Standard output and standard error in the order in which they were written.
    pub output: String,
    shown: String,
}

impl Watched {
    /// # Errors
    /// If the command did not succeed.
    pub fn succeeded(&self) -> anyhow::Result<()> {
        if self.status.success() {
            return Ok(());
        }
        bail!("{} ended with {}", self.shown, self.status)
    }
}

impl Step {
    /// A step that runs `program`, shown as it would be typed.
    pub fn program(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program.as_ref());
        command.current_dir(crate::root());
        let path = program.as_ref().to_string_lossy();
        let root = format!("{}/", crate::root().display());
        Self { command, shown: path.strip_prefix(&root).unwrap_or(&path).to_owned() }
    }

    /// A step that runs cargo with `arguments`, which are separated by blanks.
    pub fn cargo(arguments: &str) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut step = Self::program(cargo);
        step.shown = "cargo".into();
        step.args(arguments.split(' '))
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        let argument = argument.as_ref();
        self.command.arg(argument);
        self.shown += &format!(" {}", argument.to_string_lossy());
        self
    }

    /// Adds arguments.
    pub fn args(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref();
        self.command.env(name, value);
        self.shown = format!("{name}='{}' {}", value.to_string_lossy(), self.shown);
        self
    }

    /// Runs it in another folder than the root of the repository.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs the command and says how long it took.
    ///
    /// # Errors
    /// If the command cannot be started or does not succeed.
    pub fn run(self) -> anyhow::Result<()> {
        let seconds = self.run_to(0)?;
        eprintln!("==> done in {seconds:.1} s");
        Ok(())
    }

    /// Runs a `keeptime` command that has the last word. Its answer may also be no, which is its
    /// exit status 1.
    ///
    /// # Errors
    /// If the command cannot be started or could not do its work.
    pub fn answers(self) -> anyhow::Result<()> {
        self.run_to(1).map(|_| ())
    }

    /// Runs the command, says how long it took, and keeps the end of its output, which is passed
    /// through as it comes. All of it goes to the standard output.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn watch(self) -> anyhow::Result<Watched> {
        let Self { mut command, shown } = self;
        eprintln!("==> {shown}");
        let start = Instant::now();
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        command.stdout(writer.try_clone().context("cannot copy a pipe's end")?).stderr(writer);
        let child = command.spawn();
        // It holds the ends that are written to.
        drop(command);
        let mut child = child.with_context(|| format!("cannot start {shown}"))?;
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (sender, ended) = channel::<()>();
        let reading = Arc::clone(&kept);
        std::thread::spawn(move || {
            pass_through(reader, &reading);
            drop(sender);
        });
        let status = child.wait().with_context(|| format!("cannot wait for {shown}"))?;
        let _ = ended.recv_timeout(OUTPUT_PATIENCE);
        let output = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let seconds = start.elapsed().as_secs_f64();
        let how = if status.success() { "done in" } else { "failed after" };
        eprintln!("==> {how} {seconds:.1} s");
        Ok(Watched { status, output: String::from_utf8_lossy(&output).into_owned(), shown })
    }

    /// Runs the command, which may end with statuses up to `worst`; how many seconds it took.
    fn run_to(mut self, worst: i32) -> anyhow::Result<f64> {
        eprintln!("==> {}", self.shown);
        let start = Instant::now();
        let status =
            self.command.status().with_context(|| format!("cannot start {}", self.shown))?;
        let seconds = start.elapsed().as_secs_f64();
        if status.code().is_none_or(|code| code > worst) {
            eprintln!("==> failed after {seconds:.1} s");
            bail!("{} ended with {status}", self.shown);
        }
        Ok(seconds)
    }
}

/// Writes to the standard output what is read, until the last writer is gone, and keeps the end.
fn pass_through(mut reader: PipeReader, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1 << 16];
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => &buffer[..length],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return eprintln!("==> its output cannot be read: {error}"),
        };
        let mut output = std::io::stdout().lock();
        // The process that reads ours may have left; the command goes on.
        let _ = output.write_all(read).and_then(|()| output.flush());
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(read);
        let surplus = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..surplus);
    }
}
