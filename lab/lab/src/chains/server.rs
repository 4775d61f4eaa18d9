//! The accelerator server of a run, as a process of its own.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use realtime::clock::monotonic_ns;
use rustix::process::Signal;
use system::ArbitrationPolicy;
use trial::Child;

use super::chains_trial::Arbitration;
use super::disturbance::Summary;
use super::fold::Cores;
use crate::tool;

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// Longest time that the server and the executors may take to get ready.
pub(crate) const READY_NS: u64 = 20 * SECOND_NS;
/// Longest time that the server may take to end, and executors to report after their patience.
pub(crate) const END_NS: u64 = 10 * SECOND_NS;

/// A folder that only this user can enter, gone when it is dropped.
pub(crate) fn private_folder() -> anyhow::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("keeptime-").permissions(Permissions::from_mode(0o700));
    builder.tempdir().context("cannot create a folder for the sockets of this run")
}

/// The server's socket in the folder of a run.
pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("server")
}

/// Parameters with which a server is started.
pub(crate) struct ServerProcess<'a> {
    /// The system file.
    pub file: &'a Path,
    /// Cores of accelerators, server and executors.
    pub cores: &'a Cores,
    /// The private folder of the run.
    pub folder: &'a Path,
}

impl ServerProcess<'_> {
    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// The server cannot start; the error is its message.
    pub(crate) fn start(&self, policy: ArbitrationPolicy) -> anyhow::Result<Child> {
        let socket = socket(self.folder);
        let command = tool::serve(self.file, &socket, &self.options(policy))?;
        tool::start_server(command, &socket)
    }

    fn options(&self, policy: ArbitrationPolicy) -> Vec<OsString> {
        let list =
            |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<String>>().join(",");
        let name = Arbitration::Server(policy).name();
        let mut options: Vec<OsString> = vec!["--policy".into(), name.into()];
        // A chain without a bound runs all the same: the run has to show its behaviour.
        options.extend(["--admission".into(), "report".into()]);
        options.extend(["--summary".into(), self.summary().into()]);
        if !self.cores.server.is_empty() {
            options.extend(["--cores".into(), list(&self.cores.server).into()]);
        }
        for (id, cores) in self.cores.accelerators.iter().filter(|(_, cores)| !cores.is_empty()) {
            let cores = format!("{id}={}", list(cores));
            options.extend(["--accelerator-cores".into(), cores.into()]);
        }
        options
    }

    /// Ends the server and reads what it wrote; the second value says why there is nothing.
    pub(crate) fn stop(&self, server: &mut Child) -> (Option<Summary>, Option<String>) {
        if !server.is_running() {
            return (None, Some(server.failure().to_string()));
        }
        server.signal(Signal::TERM);
        let status = server.end(monotonic_ns() + END_NS);
        match Summary::read(&self.summary()) {
            Ok(summary) => (Some(summary), None),
            Err(error) => {
                let status = status.map_or("does not end".into(), |s| format!("ended with {s}"));
                let said = server.last_words();
                (None, Some(format!("the accelerator server {status}{said}: {error:#}")))
            }
        }
    }

    fn summary(&self) -> PathBuf {
        self.folder.join("summary.json")
    }
}
