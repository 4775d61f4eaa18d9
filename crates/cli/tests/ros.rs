//! `keeptime serve` with a `ros` section, and a foreign ROS 2 node: Cyclone DDS by its Python
//! binding, which knows nothing of Keeptime but the `.msg` and `.srv` files. On loopback, each test
//! in a domain of its own.

#[path = "../../ros/ros/tests/interfaces/mod.rs"]
mod interfaces;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use interfaces::{Add, Pair, Sum, Text, context, domain, on_loopback};
use ros::remote::{Client, Registration, Request};
use ros::{Bell, Mapping, Qos, Service};
use testing::until;
use testing::{attacker, random};

const SECOND: Duration = Duration::from_secs(1);

/// The Python that has `cyclonedds`; without it, says so.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("KEEPTIME_ROS_PYTHON").map(PathBuf::from);
    if python.is_none() {
        eprintln!("SKIP: KEEPTIME_ROS_PYTHON is not set to a Python with cyclonedds");
    }
    python
}

fn peer(python: &PathBuf, what: &str, domain: u16) -> Command {
    let here = env!("CARGO_MANIFEST_DIR");
    let mut command = Command::new(python);
    command.arg(format!("{here}/tests/programs/ros_peer.py")).arg(what).arg(domain.to_string());
    command.arg(format!("{here}/../ros/keeptime_msgs"));
    command
}

struct Running {
    child: Child,
    said: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, said) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            let lines = BufReader::new(stream).lines();
            std::thread::spawn(move || {
                lines.map_while(Result::ok).try_for_each(|l| sender.send(l))
            });
        }
        Running { child, said }
    }

    /// The next line that contains this.
    fn until(&self, text: &str) -> String {
        let mut lines = Vec::new();
        loop {
            match self.said.recv_timeout(60 * SECOND) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => lines.push(line),
                Err(_) => panic!("not said: {text}: {lines:#?}"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server on the graph, in a folder of its own.
struct Place {
    folder: tempfile::TempDir,
    domain: u16,
    server: Running,
}

impl Place {
    fn new(domain: u16, middleware: &str, lease: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("robot.yaml");
        let text = format!(
            "accelerators: [{{id: gpu0, buckets: 4}}]\n\
             server: {{priority: 0}}\n\
             ros:\n  domain: {domain}\n  interfaces: [127.0.0.1]\n  namespace: /robot\n  \
             middleware: {middleware}\n  status: 100 ms\n  memory: 256 MiB\n  services: [vecadd, busy]\n  \
             limits: {{priority: 50, lease: {lease}, registrations: 4}}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        command.arg("serve").arg(&file).arg("--socket").arg(folder.path().join("kt.sock"));
        let server = Running::start(command);
        server.until("node /robot/keeptime");
        Place { folder, domain, server }
    }

    fn client(&self, mapping: Mapping) -> Client {
        let patience = 60 * SECOND;
        Client::connect(&on_loopback(self.domain), "/robot/keeptime", mapping, patience).unwrap()
    }

    fn local(&self) -> accel::Client {
        accel::Client::connect(self.folder.path().join("kt.sock")).unwrap()
    }

    /// Registrations of the accelerator, as the server counts them.
    fn registrations(&self) -> u32 {
        self.local().snapshot().unwrap().accelerators[0].registrations
    }

    /// Waits until there are none. By one connection: the server has a limit for their pace.
    fn until_left(&self, event: &str) {
        let mut client = self.local();
        until(event, || client.snapshot().unwrap().accelerators[0].registrations == 0);
    }
}

fn floats(numbers: impl Iterator<Item = f32>) -> Vec<u8> {
    numbers.flat_map(f32::to_le_bytes).collect()
}

/// Half as many sums as there are numbers.
fn addition(numbers: u16) -> (Request, Vec<u8>) {
    let half = numbers / 2;
    let input = floats((0..numbers).map(f32::from));
    let sums = floats((0..half).map(|i| f32::from(i) + f32::from(i + half)));
    let request = Request::new(input).arguments(&[half.into()]).output(sums.len() as u64);
    (request, sums)
}

#[test]
fn foreign_client_lists_registers_submits_and_watches() {
    let Some(python) = python() else { return };
    let place = Place::new(domain(0), "cyclonedds", "10 s");
    let output = peer(&python, "client", place.domain).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for step in ["registered ros/", "submitted", "listed", "watched", "left"] {
        assert!(said.contains(step), "{step}: {said}");
    }
    place.until_left("the session's end");
}

#[test]
fn foreign_node_is_seen_heard_and_called() {
    let Some(python) = python() else { return };
    let domain = domain(1);
    let foreign = Running::start(peer(&python, "node", domain));
    foreign.until("ready");
    let context = context(domain);
    let node = context.node("/foreign", "visitor").unwrap();
    let chatter = node.subscription::<Text>("chatter", Qos::default()).unwrap();
    let answer = node.publisher::<Text>("answer", Qos::default()).unwrap();
    let add = node.client::<Add>("add", Mapping::Cyclone, Qos::default()).unwrap();
    until("the node", || {
        let nodes = context.nodes();
        let node = nodes.iter().find(|node| node.name.to_string() == "/foreign/adder");
        node.is_some_and(|node| node.readers.len() == 1 && node.writers.len() == 1)
    });
    let service = ("/foreign/add".to_owned(), Add::TYPE.to_owned());
    until("the service", || context.services().contains(&service));
    until("a word", || {
        chatter.take().unwrap().is_some_and(|sample| sample.message.data.starts_with("word "))
    });
    let bell = Arc::new(Bell::new().unwrap());
    let ring = Arc::clone(&bell);
    add.on_response(move || ring.ring());
    let mut sent = Vec::new();
    until("a sum", || {
        sent.push(add.send(&Pair { a: 40, b: 2 }).unwrap());
        bell.wait(Some(SECOND)).unwrap();
        let Some((number, Sum { sum })) = add.take().unwrap() else { return false };
        sent.contains(&number) && sum == 42
    });
    answer.publish(&Text { data: "thanks".into() }).unwrap();
    foreign.until("heard thanks");
}

struct Echo;

impl Service for Echo {
    const TYPE: &'static str = "keeptime_test/srv/Echo";
    type Request = Text;
    type Response = Text;
}

#[test]
fn foreign_node_reads_long_answers_that_name_their_request() {
    let Some(python) = python() else { return };
    let domain = domain(7);
    let foreign = Running::start(peer(&python, "node", domain));
    foreign.until("ready");
    let contexts = [(), ()].map(|()| context(domain));
    let [here, there] = [0, 1].map(|i| contexts[i].node("/foreign", &format!("echo{i}")).unwrap());
    let qos = Qos { max_bytes: 1 << 20, ..Qos::default() };
    // Cyclone DDS has to read over the data that Fast DDS's way to call services adds.
    let server = here.server::<Echo>("echo", Mapping::Enhanced, qos).unwrap();
    let client = there.client::<Echo>("echo", Mapping::Enhanced, qos).unwrap();
    until("the service", || client.is_served() && server.is_heard());
    let text = Text { data: "?".repeat(100_000) };
    let bell = Arc::new(Bell::new().unwrap());
    let ring = Arc::clone(&bell);
    client.on_response(move || ring.ring());
    until("the answer, read by the foreign node", || {
        // It may come too late for the first ones.
        let _ = client.send(&text);
        bell.wait(Some(Duration::from_millis(20))).unwrap();
        while let Some((id, request)) = server.take().unwrap() {
            let _ = server.respond(&id, &request);
        }
        while client.take().unwrap().is_some() {}
        foreign.said.try_iter().any(|line| line == "an answer of 100000 characters")
    });
}

#[test]
fn remote_client_computes_in_both_mappings() {
    for (offset, name, mapping) in
        [(2, "cyclonedds", Mapping::Cyclone), (3, "fastrtps", Mapping::Enhanced)]
    {
        let place = Place::new(domain(offset), name, "4 s");
        let client = place.client(mapping);
        let add = Registration::service("vecadd").chain("perception", 42).memory(16 << 10);
        let mut add = client.register(&add, 60 * SECOND).unwrap();
        // Several packets in each direction.
        let (request, sums) = addition(2000);
        for _ in 0..20 {
            let answer = add.run(request.clone(), 60 * SECOND).unwrap();
            assert_eq!(answer.output, sums, "{name}");
        }
        let mut pending: Vec<_> =
            (0..4).map(|_| add.submit(request.clone(), 60 * SECOND).unwrap()).collect();
        for pending in pending.iter_mut().rev() {
            assert_eq!(add.wait(pending).unwrap().output, sums, "{name}");
        }
        let chains = client.chains(60 * SECOND).unwrap();
        let mine = chains.iter().find(|chain| chain.name == add.chain()).unwrap();
        assert_eq!((mine.priority, mine.remote, mine.remote_requests), (42, true, 24));
        let refusal = Registration::service("vecadd").chain("greedy", 51);
        let refusal = client.register(&refusal, 60 * SECOND).err().unwrap().to_string();
        assert!(refusal.contains("priority: 51"), "{refusal}");
        // Quiet, but alive: longer than the lease.
        Bell::new().unwrap().wait(Some(5 * SECOND)).unwrap();
        assert_eq!(add.run(request, 60 * SECOND).unwrap().output, sums, "{name}");
        assert_eq!(place.registrations(), 1);
        drop(add);
        place.until_left("the registration's end");
    }
}

#[test]
fn silent_and_killed_clients_lose_what_they_had() {
    let Some(python) = python() else { return };
    let place = Place::new(domain(4), "cyclonedds", "5 s");
    let silent = Running::start(peer(&python, "silent", place.domain));
    silent.until("registered");
    assert_eq!(place.registrations(), 1);
    place.until_left("the end of the lease");
    let killed = Running::start(peer(&python, "silent", place.domain));
    killed.until("registered");
    drop(killed);
    place.until_left("the end of the killed client");
    // And nobody else has noticed.
    let client = place.client(Mapping::Cyclone);
    let (request, sums) = addition(100);
    let add = Registration::service("vecadd").memory(4096);
    let mut add = client.register(&add, 60 * SECOND).unwrap();
    assert_eq!(add.run(request, 60 * SECOND).unwrap().output, sums);
}

#[test]
fn gateway_that_dies_is_started_anew_and_the_server_goes_on() {
    let place = Place::new(domain(5), "cyclonedds", "10 s");
    let client = place.client(Mapping::Cyclone);
    let (request, _) = addition(100);
    let registration = Registration::service("vecadd").memory(4096);
    let mut add = client.register(&registration, 60 * SECOND).unwrap();
    add.run(request.clone(), 60 * SECOND).unwrap();
    let gateway = place.local().snapshot().unwrap().sessions[0].pid;
    assert_ne!(gateway, place.server.child.id());
    let done = Command::new("kill").args(["-9", &gateway.to_string()]).status().unwrap();
    assert!(done.success());
    place.server.until("the gateway ended (signal: 9 (SIGKILL)), start 2");
    place.until_left("the end of its sessions");
    place.server.until("node /robot/keeptime");
    // The old registration is unknown to the new gateway; a new one works.
    let client = place.client(Mapping::Cyclone);
    let mut add = client.register(&registration, 60 * SECOND).unwrap();
    add.run(request, 60 * SECOND).unwrap();
}

#[test]
fn gateway_outlives_100_000_hostile_packets_in_bounded_memory() {
    const PACKETS: usize = 100_000;
    let place = Place::new(domain(8), "cyclonedds", "10 s");
    let (request, sums) = addition(100);
    let registration = Registration::service("vecadd").memory(4096);
    let served_by = || {
        let client = place.client(Mapping::Cyclone);
        let mut add = client.register(&registration, 60 * SECOND).unwrap();
        assert_eq!(add.run(request.clone(), 60 * SECOND).unwrap().output, sums);
        place.local().snapshot().unwrap().sessions[0].pid
    };
    let gateway = served_by();
    let mut attacker = attacker::Attacker::new(place.domain, 2);
    let mut random = random::Random::new(0x6761_7465);
    attacker.attack(&mut random, PACKETS / 10);
    let before = attacker::resident_kib(gateway);
    attacker.attack(&mut random, PACKETS - PACKETS / 10);
    let after = attacker::resident_kib(gateway);
    assert!(after < before + (64 << 10), "{before} KiB became {after} KiB");
    // More than are kept; a newcomer finds room.
    attacker.crowd(&mut random, 2048);
    place.until_left("the end of the first client");
    assert_eq!(served_by(), gateway, "it was never started anew");
}

#[test]
fn command_line_client_lists_and_runs() {
    let place = Place::new(domain(6), "cyclonedds", "10 s");
    let (_, sums) = addition(2000);
    let input = place.folder.path().join("input");
    let output = place.folder.path().join("output");
    std::fs::write(&input, floats((0..2000u16).map(f32::from))).unwrap();
    let keeptime = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        command.args(["remote", "--interface", "127.0.0.1", "--server", "/robot/keeptime"]);
        command.args(["--timeout", "60s", "--domain", &place.domain.to_string()]).args(more);
        command.output().unwrap()
    };
    let files = [input.to_str().unwrap(), output.to_str().unwrap()];
    let run = keeptime(&[
        "run",
        "--service",
        "vecadd",
        "--arguments",
        "1000",
        "--output-bytes",
        "4000",
        "--count",
        "3",
        "--input",
        files[0],
        "--output",
        files[1],
    ]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.starts_with("3 requests"), "{said}");
    assert_eq!(std::fs::read(&output).unwrap(), sums);
    let refused = keeptime(&["run", "--service", "matmul"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("remote clients may use vecadd, busy"), "{said}");
}
