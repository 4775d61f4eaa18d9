//! The accelerator server of a run, as a process of its own.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use accel::Client;
use anyhow::Context;
use realtime::clock::monotonic_ns;
use system::Policy;

use super::children::{Children, parent_option, wait_until};
use super::disturbance::Summary;
use super::fold::Cores;
use super::trial::Arbitration;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// Longest time that the server and the executors may take to get ready.
pub const READY_NS: u64 = 20 * SECOND_NS;
/// Longest time that the server may take to end, and executors to report after their patience.
pub const END_NS: u64 = 10 * SECOND_NS;

/// A folder that only this user can enter, gone when it is dropped.
pub fn private_folder() -> anyhow::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("keeptime-").permissions(Permissions::from_mode(0o700));
    builder.tempdir().context("a folder for the sockets of this run")
}

/// The server's socket in the folder of a run.
pub fn socket(folder: &Path) -> PathBuf {
    folder.join("server")
}

/// Parameters with which a server is started.
pub struct ServerProcess<'a> {
    /// The system file.
    pub file: &'a Path,
    /// Cores of accelerators, server and executors.
    pub cores: &'a Cores,
    /// The private folder of the run.
    pub folder: &'a Path,
    /// Set by a signal.
    pub interrupted: &'a AtomicBool,
}

impl ServerProcess<'_> {
    /// Starts the server and waits until it answers; returns its number among the children.
    ///
    /// # Errors
    /// The server cannot start; the error is its message.
    pub fn start(&self, children: &mut Children, policy: Policy) -> anyhow::Result<usize> {
        let name = "the accelerator server".into();
        let keeptime = crate::tool::keeptime()?;
        let server = children.spawn_program(&keeptime, name, self.arguments(policy))?;
        let until_ns = monotonic_ns() + READY_NS;
        let mut last = None;
        let answers = wait_until(self.interrupted, until_ns, || {
            match Client::connect(socket(self.folder)) {
                Ok(_) => return Ok(true),
                Err(error @ (accel::Error::NoServer { .. } | accel::Error::ServerLost { .. })) => {
                    last = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
            if children.is_running(server) { Ok(false) } else { Err(children.failure(server)) }
        })?;
        match last {
            Some(error) if !answers => Err(error).context("the accelerator server is not ready"),
            _ => Ok(server),
        }
    }

    fn arguments(&self, policy: Policy) -> Vec<OsString> {
        let list =
            |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<String>>().join(",");
        let mut arguments: Vec<OsString> = vec!["serve".into()];
        arguments.extend(parent_option());
        let name = Arbitration::Server(policy).name();
        arguments.extend(["--policy".into(), name.into()]);
        // A chain without a bound runs all the same: the run has to show its behaviour.
        arguments.extend(["--admission".into(), "report".into()]);
        arguments.extend(["--socket".into(), socket(self.folder).into()]);
        arguments.extend(["--summary".into(), self.summary().into()]);
        if !self.cores.server.is_empty() {
            arguments.extend(["--cores".into(), list(&self.cores.server).into()]);
        }
        for (id, cores) in self.cores.accelerators.iter().filter(|(_, cores)| !cores.is_empty()) {
            let cores = format!("{id}={}", list(cores));
            arguments.extend(["--accelerator-cores".into(), cores.into()]);
        }
        arguments.extend(["--".into(), self.file.into()]);
        arguments
    }

    /// Ends the server and reads what it wrote; the second value says why there is nothing.
    ///
    /// # Errors
    /// A signal interrupts.
    pub fn stop(
        &self,
        children: &mut Children,
        server: usize,
    ) -> anyhow::Result<(Option<Summary>, Option<String>)> {
        if !children.is_running(server) {
            return Ok((None, Some(children.failure(server).to_string())));
        }
        let status = children.stop(server, monotonic_ns() + END_NS)?;
        match Summary::read(&self.summary()) {
            Ok(summary) => Ok((Some(summary), None)),
            Err(error) => {
                let status = status.map_or("does not end".into(), |s| format!("ended with {s}"));
                let said = children.last_words(server);
                Ok((None, Some(format!("the accelerator server {status}{said}: {error:#}"))))
            }
        }
    }

    fn summary(&self) -> PathBuf {
        self.folder.join("summary.json")
    }
}
