//! The processes of the measurement: servers with their gateways, and a client for each way.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use realtime::thread;
use report::transport::Sample;

use super::Way;
use super::client::Answer;
use super::hosts::{self, Hosts};

/// Device, cores, priorities and domain of servers and clients.
pub struct Place {
    device: String,
    server_core: usize,
    client_core: usize,
    priorities: [u8; 2],
    largest: u64,
    domain: u16,
}

/// A server with a gateway; both end with this value.
pub struct Server {
    child: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

/// A client; it ends with this value.
pub struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Results of one turn of a client.
pub struct Batch {
    /// The requests that were answered.
    pub samples: Vec<Sample>,
    /// Number of times that a request was sent again.
    pub repeated: u64,
    /// Requests without an answer in time.
    pub unanswered: u64,
}

impl Place {
    /// The server on the first core, the clients on the last one.
    pub fn new(device: &str, realtime: bool, largest: u64) -> Place {
        let cores = thread::cores();
        Place {
            device: device.into(),
            server_core: cores[0],
            client_core: cores[cores.len() - 1],
            priorities: if realtime { [50, 90] } else { [0, 0] },
            largest,
            // Others on this machine are unlikely to use it.
            domain: 1 + (std::process::id() % 100) as u16,
        }
    }

    /// A server on this machine, or on the first of the hosts.
    pub fn serve(&self, hosts: Option<&Hosts>) -> anyhow::Result<Server> {
        let folder = tempfile::tempdir()?;
        let (file, socket) = (folder.path().join("bench.yaml"), folder.path().join("bench.sock"));
        std::fs::write(&file, self.system(hosts.is_some()))?;
        let mut command = program(crate::tool::keeptime()?, hosts.map(Hosts::server));
        command.arg("serve").arg(&file).arg("--socket").arg(&socket);
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child = child.context("the server cannot be started")?;
        let mut server = Server { child, socket, _folder: folder };
        let stderr = server.child.stderr.take().context("no standard error")?;
        let (mut lines, mut said) = (BufReader::new(stderr).lines(), Vec::new());
        loop {
            match lines.next().transpose()? {
                Some(line) if line.contains("keeptime ros-gateway: node") => break,
                Some(line) => said.push(line),
                None => anyhow::bail!("the server ended: {}", said.join("; ")),
            }
        }
        // It must not wait for a reader.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                tell!("{line}");
            }
        });
        Ok(server)
    }

    fn system(&self, far: bool) -> String {
        let Place { device, server_core: core, domain, .. } = self;
        let address = if far { hosts::ADDRESSES[0] } else { "127.0.0.1" };
        let request = self.largest.next_multiple_of(64) + self.largest / 2;
        format!(
            "accelerators: [{{id: bench, buckets: 4, device: \"{device}\", cores: [{core}]}}]\n\
             server: {{cores: [{core}], priority: {}}}\n\
             ros: {{domain: {domain}, interfaces: [{address}], limits: {{priority: 50, \
             lease: 60 s, request: {request} B, registrations: 64}}}}\n",
            self.priorities[1]
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// Starts the client of a way.
    pub fn start(
        way: Way,
        place: &Place,
        server: &Server,
        hosts: Option<&Hosts>,
    ) -> anyhow::Result<Peer> {
        let namespace = hosts.filter(|_| way == Way::Hosts).map(Hosts::client);
        let own = std::env::current_exe().context("this program's own file")?;
        let mut command = program(own, namespace);
        command.args(["bench", "transport", "--client-core", &place.client_core.to_string()]);
        command.args(["--client-priority", &place.priorities[0].to_string()]);
        command.args(["--client-domain", &place.domain.to_string()]);
        match way {
            Way::Shared => command.arg("--client-socket").arg(&server.socket),
            Way::Loopback => command.args(["--client-interface", "127.0.0.1"]),
            Way::Hosts => command.args(["--client-interface", hosts::ADDRESSES[1]]),
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the client cannot be started")?;
        let orders = child.stdin.take().context("no standard input")?;
        let answers = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut peer = Peer { child, orders, answers };
        let line = peer.line()?;
        ensure!(line == "ready", "the client said {line:?}");
        Ok(peer)
    }

    /// Sends requests.
    pub fn ask(&mut self, bytes: u64, count: usize) -> anyhow::Result<Batch> {
        writeln!(self.orders, "{bytes} {count}").context("the client ended")?;
        let answer: Answer = serde_json::from_str(&self.line()?)?;
        ensure!(
            answer.samples.len() as u64 + answer.unanswered == count as u64,
            "answers are missing"
        );
        let sample = |(whole_ns, steps_ns)| Sample { whole_ns, steps_ns };
        let samples = answer.samples.into_iter().map(sample).collect();
        Ok(Batch { samples, repeated: answer.repeated, unanswered: answer.unanswered })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line)?;
        ensure!(read > 0, "the client ended: its reason is above");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program, in a network namespace where one is named.
fn program(program: PathBuf, namespace: Option<&str>) -> Command {
    match namespace {
        None => Command::new(program),
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(program);
            command
        }
    }
}
