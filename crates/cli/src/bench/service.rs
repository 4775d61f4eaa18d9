//! An accelerator server in a process of its own, with one software accelerator.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use accel::Client;
use anyhow::Context;
use realtime::clock::monotonic_ns;

/// The server; it ends with this value.
pub struct Service {
    /// Where it listens.
    pub socket: PathBuf,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Service {
    /// Starts a server whose threads and accelerator share one core.
    pub fn start(core: usize, priority: u8) -> anyhow::Result<Service> {
        Service::with(&format!(
            "accelerators: [{{id: bench, buckets: 6, cores: [{core}]}}]\n\
             server: {{cores: [{core}], priority: {priority}, limits: {{connects_per_second: 10000}}}}\n"
        ))
    }

    /// Starts a server with a system file's text.
    pub fn with(text: &str) -> anyhow::Result<Service> {
        let folder = tempfile::tempdir()?;
        let (config, socket) = (folder.path().join("bench.yaml"), folder.path().join("bench.sock"));
        std::fs::write(&config, text)?;
        let child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(&config)
            .arg("--socket")
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .context("the server cannot be started")?;
        let mut service = Service { child, _folder: folder, socket };
        let end = monotonic_ns() + 10_000_000_000;
        while Client::connect(&service.socket).is_err() {
            anyhow::ensure!(service.child.try_wait()?.is_none(), "the server ended");
            anyhow::ensure!(monotonic_ns() < end, "the server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(service)
    }

    /// Process number of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
