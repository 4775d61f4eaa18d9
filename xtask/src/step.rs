//! Command of a task, run in the root of the repository, with its output left as it is.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// A command that is about to run.
pub(crate) struct Step {
    command: Command,
    shown: String,
}

impl Step {
    /// A step that runs `program`, shown as it would be typed.
    pub(crate) fn program(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program.as_ref());
        command.current_dir(crate::root());
        let path = program.as_ref().to_string_lossy();
        let root = format!("{}/", crate::root().display());
        Self { command, shown: path.strip_prefix(&root).unwrap_or(&path).to_owned() }
    }

    /// A step that runs this command.
    pub(crate) fn command(command: Command) -> Self {
        let arguments = command.get_args().map(|argument| argument.to_owned());
        Self::program(command.get_program()).args(arguments)
    }

    /// A step that runs cargo with `arguments`, which are separated by blanks.
    pub(crate) fn cargo(arguments: &str) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut step = Self::program(cargo);
        step.shown = "cargo".into();
        step.args(arguments.split(' '))
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        let argument = argument.as_ref();
        self.command.arg(argument);
        self.shown += &format!(" {}", argument.to_string_lossy());
        self
    }

    /// Adds arguments.
    pub(crate) fn args(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref();
        self.command.env(name, value);
        self.shown = format!("{name}='{}' {}", value.to_string_lossy(), self.shown);
        self
    }

    /// Takes environment variables away.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        for name in names {
            self.command.env_remove(name);
        }
        self
    }

    /// Runs it in another folder than the root of the repository.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs the command and says how long it took.
    ///
    /// # Errors
    /// If the command cannot be started or does not succeed.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let seconds = self.run_to(0)?;
        eprintln!("==> done in {seconds:.1} s");
        Ok(())
    }

    /// Runs a `keeptime` command that has the last word. Its answer may also be no, which is its
    /// exit status 1.
    ///
    /// # Errors
    /// If the command cannot be started or could not do its work.
    pub(crate) fn answers(self) -> anyhow::Result<()> {
        self.run_to(1).map(|_| ())
    }

    /// Runs the command and returns what it printed on its standard output.
    ///
    /// # Errors
    /// If the command cannot be started or does not succeed.
    pub(crate) fn said(mut self) -> anyhow::Result<String> {
        eprintln!("==> {}", self.shown);
        self.command.stdout(Stdio::piped());
        let child = self.command.spawn().with_context(|| format!("cannot start {}", self.shown))?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{} ended with {}", self.shown, output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command whose exit status says nothing.
    ///
    /// # Errors
    /// If the command cannot be started, or a signal ended it.
    pub(crate) fn ends(self) -> anyhow::Result<()> {
        self.run_to(i32::MAX).map(|_| ())
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
