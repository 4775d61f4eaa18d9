//! The tool, `keeptime`, which experiments run as its users do.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use accel::{Client, Error};
use anyhow::{Context, ensure};
use realtime::clock::monotonic_ns;
use trial::Child;

/// Longest time that a server may take to get ready, in nanoseconds.
const READY_NS: u64 = 20_000_000_000;

/// The program, beside this one.
///
/// # Errors
/// Names the file that is not there.
pub(crate) fn keeptime() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let tool = own.with_file_name("keeptime");
    ensure!(
        tool.is_file(),
        "{}: expected the command keeptime beside keeptime-lab",
        tool.display()
    );
    Ok(tool)
}

/// The command of a server for a system file, which ends with this process.
///
/// # Errors
/// There is no such program.
pub(crate) fn serve(file: &Path, socket: &Path, options: &[OsString]) -> anyhow::Result<Command> {
    let mut command = Command::new(keeptime()?);
    command.arg("serve").args(trial::parent_option()).arg("--socket").arg(socket);
    command.args(options).arg("--").arg(file);
    Ok(command)
}

/// Starts the command of a server, and waits until it answers at its socket.
///
/// # Errors
/// The server cannot start; the error is its message.
pub(crate) fn start_server(command: Command, socket: &Path) -> anyhow::Result<Child> {
    let mut server = Child::start("the accelerator server", command)?;
    let mut last = None;
    let until_ns = monotonic_ns() + READY_NS;
    let answers = trial::wait_until(until_ns, || {
        match Client::connect(socket) {
            Ok(_) => return Ok(true),
            Err(error @ (Error::NoServer { .. } | Error::ServerLost { .. })) => last = Some(error),
            Err(error) => return Err(error.into()),
        }
        if server.is_running() { Ok(false) } else { Err(server.failure()) }
    })?;
    match last {
        Some(error) if !answers => Err(error).context("the accelerator server is not ready"),
        _ => Ok(server),
    }
}
