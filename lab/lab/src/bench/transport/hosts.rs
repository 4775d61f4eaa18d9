//! Two hosts: network namespaces of this measurement's own, between them a hub in Python that
//! delays and loses frames, as the tests of the gateway have it (`link.py`). A hub
//! because not every kernel has `netem`. What the hub itself takes is part of the way.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use trial::Child;

/// The program of the hub.
const HUB: &str = include_str!("link.py");
/// The addresses of the server's host and of the client's.
pub(super) const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

/// Delay and loss of frames.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Delay of a frame.
    pub delay: Duration,
    /// The share that gets lost.
    pub loss: f64,
}

/// The namespaces and the hub; they end with this value.
pub(super) struct Hosts {
    /// Hub process, which ends before they do.
    _hub: Child,
    names: Namespaces,
}

struct Namespaces([String; 2]);

impl Hosts {
    /// Makes them.
    ///
    /// # Errors
    /// Says what is missing: root, `ip`, `/dev/net/tun` or Python.
    pub(super) fn new(link: Link) -> anyhow::Result<Hosts> {
        ensure!(rustix::process::geteuid().is_root(), "network namespaces need root");
        std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun")
            .context("/dev/net/tun")?;
        let process = std::process::id();
        let names = Namespaces(["s", "c"].map(|host| format!("kt-transport-{host}-{process}")));
        for name in &names.0 {
            let mut command = Command::new("ip");
            command.args(["netns", "add", name]);
            let ip = Child::start("ip", command).context("ip (package iproute2)")?;
            let (status, _, reason) = ip.run_out()?;
            ensure!(status.success(), "ip netns add {name}: {}", reason.trim());
        }
        let ports =
            names.0.iter().zip(ADDRESSES).map(|(name, address)| format!("{name}={address}"));
        let mut command = Command::new("python3");
        command.args(["-c", HUB]).args(ports);
        let mut hub = Child::start("the hub between the hosts", command)?;
        answers(&mut hub, "ready")?;
        let Link { delay, loss } = link;
        for name in &names.0 {
            let delay_ms = delay.as_secs_f64() * 1e3;
            hub.tell_line(&format!("{name} loss={loss} delay_ms={delay_ms}"))?;
            answers(&mut hub, "done")?;
        }
        Ok(Hosts { _hub: hub, names })
    }

    /// The namespace of the server.
    pub(super) fn server(&self) -> &str {
        &self.names.0[0]
    }

    /// The namespace of the client.
    pub(super) fn client(&self) -> &str {
        &self.names.0[1]
    }
}

fn answers(hub: &mut Child, word: &str) -> anyhow::Result<()> {
    let line = hub.hear_line()?;
    ensure!(line == word, "the hub between the hosts says {line:?}, expected {word}");
    Ok(())
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            // One that was not made cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}
