//! `keeptime regulate-load`: one of the loads that a regulator is tried with, started by keeptime
//! itself.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use bandwidth::regulator::Load;
use rustix::process::{Pid, Signal, kill_process};

/// Load, and its core.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(value_parser = parse)]
    load: Load,
    core: usize,
}

fn parse(name: &str) -> Result<Load, String> {
    let found = Load::ALL.into_iter().find(|load| load.name() == name);
    found.ok_or_else(|| format!("expected one of {}", Load::ALL.map(Load::name).join(", ")))
}

/// Runs the load.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.load.run(args.core, || {
        // A parent that does not read it has ended.
        let _ = writeln!(std::io::stdout(), "begins");
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A load that runs until this is dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Starts one, and waits until it is on its core.
    pub(crate) fn start(load: Load, core: usize) -> anyhow::Result<Running> {
        let program = std::env::current_exe().context("this program's own file")?;
        let mut command = Command::new(program);
        command.args(["regulate-load", load.name(), &core.to_string()]).stdout(Stdio::piped());
        let failed = || format!("cannot start the load {:?} on core {core}", load.name());
        let mut running = Running(command.spawn().with_context(failed)?);
        let said = running.0.stdout.take().map_or(Ok(0), |mut out| out.read(&mut [0; 64]));
        match said.with_context(failed)? {
            0 => bail!("the load {:?} on core {core} ended when it should begin", load.name()),
            _ => Ok(running),
        }
    }

    /// Halts it, until it is to go on.
    pub(crate) fn halt(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // It is this process's child and was not waited for, so the number is its own.
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is this process's child and is waited for here, so the number is its own.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
