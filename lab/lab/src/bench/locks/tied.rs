//! Becomes another program that ends when its parent ends, however that ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};

/// Options of the hidden command.
#[derive(clap::Args)]
pub struct Args {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let error = Command::new(&args.program[0]).args(&args.program[1..]).exec();
    Err(error).with_context(|| args.program[0].display().to_string())
}

/// A command that runs a program in this way.
pub fn command(program: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench-tied", program]);
    Ok(command)
}
