//! An accelerator server in a process of its own, with one device.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use accel::Client;
use anyhow::Context;
use realtime::clock::monotonic_ns;
use trial::{Child, signals};

use crate::tool;

/// A server's device, and where both are.
pub(super) struct Place {
    /// The core of the server's own threads.
    pub server: usize,
    /// Device as in a system file.
    pub device: String,
    /// The cores of the device's threads.
    pub cores: Vec<usize>,
    /// True if those threads look for the end without sleeping.
    pub spin: bool,
}

impl Place {
    /// The server on this core. The threads of a GPU wait while the server works: they have cores
    /// of their own if there are any beside these two.
    pub(super) fn new(device: &str, server: usize, client: usize, spin: bool) -> Place {
        let is_free = |core: &usize| *core != server && *core != client;
        let apart: Vec<usize> = realtime::thread::cores().into_iter().filter(is_free).collect();
        let own = device != "cpu" && !apart.is_empty();
        let cores = if own { apart } else { vec![server] };
        Place { server, device: device.into(), cores, spin }
    }
}

/// The server; it ends with this value.
pub(super) struct Service {
    /// Socket at which the server listens.
    pub socket: PathBuf,
    /// Its process.
    pub server: Child,
    _folder: tempfile::TempDir,
}

impl Service {
    /// Starts a server with one device, each on its cores.
    pub(super) fn start(place: &Place, priority: u8) -> anyhow::Result<Service> {
        let Place { server, device, cores, spin } = place;
        let spin = if *spin && device != "cpu" { ", spin: true" } else { "" };
        Service::with(&format!(
            "accelerators: [{{id: bench, buckets: 6, device: \"{device}\", cores: {cores:?}{spin}}}]\n\
             server: {{cores: [{server}], priority: {priority}, limits: {{connects_per_second: 10000}}}}\n"
        ))
    }

    /// Starts a server with a system file's text.
    pub(super) fn with(text: &str) -> anyhow::Result<Service> {
        Service::by(text, |command| command)
    }

    /// The same by a changed command.
    pub(super) fn by(
        text: &str,
        change: impl FnOnce(Command) -> Command,
    ) -> anyhow::Result<Service> {
        let folder = tempfile::tempdir()?;
        let (config, socket) = (folder.path().join("bench.yaml"), folder.path().join("bench.sock"));
        std::fs::write(&config, text)?;
        let command = change(tool::serve(&config, &socket, &[])?);
        let server = tool::start_server(command, &socket)?;
        Ok(Service { socket, server, _folder: folder })
    }

    /// Waits until no other sessions than so many are open, and none is opened or closed; returns
    /// what the server has then. One that does not come to rest within 20 s shows it by what it
    /// has.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) fn settle(&self, watcher: &mut Client, sessions: u32) -> anyhow::Result<Footprint> {
        /// Time longer than a server waits for a client's hello.
        const SILENCE_NS: u64 = 2_000_000_000;
        let end_ns = monotonic_ns() + 20_000_000_000;
        let mut same_since_ns = monotonic_ns();
        let mut last = Footprint::of(self, watcher.status()?.memory_bytes)?;
        loop {
            signals::sleep(Duration::from_millis(10))?;
            let counters = watcher.status()?;
            let now = Footprint::of(self, counters.memory_bytes)?;
            if counters.sessions > sessions || now.descriptors != last.descriptors {
                same_since_ns = monotonic_ns();
            }
            last = now;
            if monotonic_ns() - same_since_ns > SILENCE_NS || monotonic_ns() > end_ns {
                return Ok(now);
            }
        }
    }
}

/// Memory, descriptors and threads of a server.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Footprint {
    /// Session segments and registered memory that are mapped.
    pub mapped_bytes: u64,
    /// Memory that is resident, from any source.
    pub resident_kib: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

impl Footprint {
    /// Footprint of this server, which says that so many bytes are mapped.
    ///
    /// # Errors
    /// If the process is gone.
    pub(super) fn of(service: &Service, mapped_bytes: u64) -> anyhow::Result<Footprint> {
        let process = PathBuf::from(format!("/proc/{}", service.server.id()));
        let status = std::fs::read_to_string(process.join("status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let entries =
            |folder| Ok::<_, std::io::Error>(std::fs::read_dir(process.join(folder))?.count());
        Ok(Footprint {
            mapped_bytes,
            resident_kib: resident.context("the server has no VmRSS")?,
            descriptors: entries("fd")?,
            threads: entries("task")?,
        })
    }

    /// One line for a terminal.
    pub(super) fn change(before: &Footprint, after: &Footprint) -> String {
        format!(
            "server: {} -> {} bytes mapped, {} -> {} KiB resident, {} -> {} descriptors, \
             {} -> {} threads\n",
            before.mapped_bytes,
            after.mapped_bytes,
            before.resident_kib,
            after.resident_kib,
            before.descriptors,
            after.descriptors,
            before.threads,
            after.threads
        )
    }
}
