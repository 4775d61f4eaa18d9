//! SUMO as a process of our own, for one drive.

use super::{Error, Sumo};
use crate::scenario;
use socket2::{Domain, Socket, Type};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The variable that names the program `sumo`, where it is not on the path.
pub const VARIABLE: &str = "KEEPTIME_SUMO";

/// No answer takes as long.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A process whose connection broke has ended within this, or goes on.
const ENDS: Duration = Duration::from_secs(2);
/// Message of SUMO if the port is in use. SUMO can only be told a port; it is then told another
/// one: so many in all.
const TAKEN: &str = "Address already in use";
const PORTS: usize = 5;
/// Lines of a program's last words that an error repeats.
const WORDS: usize = 6;
/// SUMO's message about a subscription whose vehicle has left the roads, which is no error.
const LEFT: &str = "Answered with error to command";

/// A running SUMO, with a folder for what it writes.
pub(super) struct Server {
    child: Child,
    program: PathBuf,
    folder: TempDir,
}

impl Server {
    /// Starts SUMO with the traffic of a scenario in steps of `step` s, and connects to it.
    pub(super) fn start(
        traffic: &scenario::Sumo,
        roads: &Path,
        step: f64,
        ego: &str,
    ) -> Result<(Server, Sumo), Error> {
        let program = std::env::var_os(VARIABLE).map_or_else(|| "sumo".into(), PathBuf::from);
        let folder = tempfile::tempdir().map_err(|reason| failed(&program, reason))?;
        let network = match &traffic.network {
            Some(network) => network.clone(),
            None => convert(&program, roads, folder.path())?,
        };
        let launch = |program: &Path, folder: &Path| {
            let launched = launch(program, traffic, &network, step, folder);
            launched.map_err(|reason| failed(program, reason))
        };
        let (child, port) = launch(&program, folder.path())?;
        let mut server = Server { child, program, folder };
        let mut connected = server.connect(port.address, ego);
        for _ in 1..PORTS {
            if !matches!(&connected, Err(Error::Ended { said, .. }) if said.contains(TAKEN)) {
                break;
            }
            let (child, port) = launch(&server.program, server.folder.path())?;
            server.child = child;
            connected = server.connect(port.address, ego);
        }
        connected.map(|sumo| (server, sumo))
    }

    /// Connects to SUMO as soon as it listens.
    fn connect(&mut self, address: SocketAddr, ego: &str) -> Result<Sumo, Error> {
        const WHEN: &str = "before the drive began";
        let mut starts = || match self.child.try_wait() {
            Ok(Some(status)) => Err(self.ended(WHEN, status)),
            _ => Ok(()),
        };
        let sumo = Sumo::connect_while(address, ego, TIMEOUT, &mut starts);
        sumo.map_err(|error| self.why(WHEN, error))
    }

    /// Reason of an error: that SUMO has ended, if it has.
    pub(super) fn why(&mut self, during: &'static str, error: Error) -> Error {
        let closed =
            |kind| !matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
        let Error::Connection { reason, .. } = &error else { return error };
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return self.ended(during, status),
                // The socket is closed a little before the process is gone.
                Ok(None) if closed(reason.kind()) && begun.elapsed() < ENDS => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => return error,
            }
        }
    }

    /// Refuses routes of which SUMO has said that it leaves some out.
    pub(super) fn heeds(&self, routes: &Path) -> Result<(), Error> {
        let said = self.said();
        match said.lines().find(|line| line.contains("ignoring")) {
            None => Ok(()),
            Some(line) => Err(Error::Routes {
                file: routes.display().to_string(),
                said: line.trim().trim_start_matches("Warning: ").to_owned(),
            }),
        }
    }

    fn said(&self) -> String {
        let said = std::fs::read(self.folder.path().join("words")).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    fn ended(&self, during: &'static str, status: ExitStatus) -> Error {
        let program = self.program.display().to_string();
        Error::Ended { program, during, status, said: last_words(&self.said()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends by itself when its client has left; this is for one that hangs. A process that
        // cannot be killed is gone.
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < ENDS {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(program: &Path, reason: std::io::Error) -> Error {
    Error::Program { program: program.display().to_string(), reason }
}

/// A port that no other process is given while this exists: another user's SUMO would answer there,
/// and close the connection when its own client comes.
struct Port {
    address: SocketAddr,
    /// Bound, but it does not listen, so that SUMO can.
    _holds: Socket,
}

impl Port {
    fn free() -> std::io::Result<Port> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        // Of several who say so one may listen; SUMO does.
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?.as_socket();
        let address = address.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
        Ok(Port { address, _holds: socket })
    }
}

/// SUMO, which is to listen at a free port, and whose words go into a file of the folder.
fn launch(
    program: &Path,
    traffic: &scenario::Sumo,
    network: &Path,
    step: f64,
    folder: &Path,
) -> std::io::Result<(Child, Port)> {
    let port = Port::free()?;
    let words = std::fs::File::create(folder.join("words"))?;
    let child = Command::new(program)
        .arg("--net-file")
        .arg(network)
        .arg("--route-files")
        .arg(&traffic.routes)
        .args(["--remote-port", &port.address.port().to_string()])
        .args(["--seed", &traffic.seed.to_string(), "--step-length", &step.to_string()])
        // Drivers decide as often as those of the world do, and take their time between lanes.
        .args(["--default.action-step-length", "0.1", "--lanechange.duration", "3"])
        // A vehicle that is hit, or that waits for long, does not vanish.
        .args(["--collision.action", "none", "--time-to-teleport", "-1"])
        .args(["--no-step-log", "true", "--xml-validation", "never"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(words)
        .spawn()?;
    Ok((child, port))
}

/// SUMO's network of an OpenDRIVE file, with the file's coordinates.
fn convert(sumo: &Path, roads: &Path, folder: &Path) -> Result<PathBuf, Error> {
    let name = sumo.file_name().and_then(OsStr::to_str).unwrap_or("sumo");
    let program = sumo.with_file_name(name.replacen("sumo", "netconvert", 1));
    let network = folder.join("net.xml");
    let output = Command::new(&program)
        .args(["--offset.disable-normalization", "true", "--no-turnarounds", "true"])
        .args(["--xml-validation", "never", "--opendrive-files"])
        .arg(roads)
        .arg("--output-file")
        .arg(&network)
        .stdin(Stdio::null())
        .output()
        .map_err(|reason| failed(&program, reason))?;
    if !output.status.success() {
        return Err(Error::Ended {
            program: program.display().to_string(),
            during: "before it had made a network of the roads",
            status: output.status,
            said: last_words(&String::from_utf8_lossy(&output.stderr)),
        });
    }
    Ok(network)
}

/// Last lines of a program's output, after a colon; empty if there are none.
fn last_words(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains(LEFT));
    let lines: Vec<&str> = lines.collect();
    let words = lines[lines.len().saturating_sub(WORDS)..].join(" ");
    if words.is_empty() { words } else { format!(": {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    #[test]
    fn a_port_is_given_to_nobody_else_and_lets_one_listen_who_shares_it() {
        let ports: Vec<Port> = (0..500).map(|_| Port::free().unwrap()).collect();
        let addresses: BTreeSet<SocketAddr> = ports.iter().map(|port| port.address).collect();
        assert_eq!(addresses.len(), ports.len());
        // The library of Rust shares addresses, as SUMO does.
        let listener = TcpListener::bind(ports[0].address).unwrap();
        assert_eq!(listener.local_addr().unwrap(), ports[0].address);
    }
}
