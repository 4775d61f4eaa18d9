//! `keeptime serve` as a user runs it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use accel::{Client, Registration, Request};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than any of these steps takes on a busy machine; not a bound that is tested.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

fn keeptime(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    keeptime(arguments).output().unwrap()
}

/// A folder with a system file.
fn folder(yaml: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.yaml");
    std::fs::write(&file, yaml).unwrap();
    (folder, file)
}

/// Starts a server and waits until it says that it listens.
fn serve(arguments: &[&str]) -> Child {
    let mut server = keeptime(&["serve"]).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(server.stderr.take().unwrap());
    while !said.contains("listening at") {
        assert_ne!(lines.read_line(&mut said).unwrap(), 0, "the server ended: {said}");
    }
    // The rest of what it says must not fill the pipe.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    server
}

#[test]
fn server_serves_until_it_is_told_to_end_and_writes_its_summary() {
    let (folder, file) = folder("accelerators: [{id: gpu0, buckets: 2}]\nserver: {priority: 0}");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (socket, summary) = (path("kt.sock"), path("summary.json"));
    let mut server = serve(&[
        file.to_str().unwrap(),
        "--socket",
        &socket,
        "--policy",
        "fifo",
        "--summary",
        &summary,
    ]);
    let mut client = Client::connect(&socket).unwrap();
    let busy = client.register(&Registration::service("busy").chain("c", 1)).unwrap();
    for _ in 0..3 {
        client.run(busy, &Request::new().arguments(&[1_000_000])).unwrap();
    }
    let id = i32::try_from(server.id()).unwrap();
    let pid = Pid::from_raw(id).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert!(!std::path::Path::new(&socket).exists(), "the socket is left behind");
    let summary: Value = testing::result::read(std::fs::read(&summary).unwrap());
    assert_eq!(summary["counters"]["done"], 3);
    assert!(summary["accelerators"]["gpu0"]["busy_ns"].as_u64().unwrap() > 0);
}

fn end(mut server: Child) -> std::process::ExitStatus {
    let pid = Pid::from_child(&server);
    kill_process(pid, Signal::TERM).unwrap();
    server.wait().unwrap()
}

/// Connects as soon as there is a server.
fn client_of(server: &mut Child, socket: &std::path::Path) -> Client {
    testing::until_ok("a server", || {
        let client = Client::connect(socket);
        assert!(client.is_ok() || server.try_wait().unwrap().is_none(), "it has ended");
        client
    })
}

#[test]
fn server_goes_on_without_anybody_who_takes_its_messages() {
    let (folder, file) = folder("accelerators: [{id: gpu0, buckets: 2}]\nserver: {priority: 0}");
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let nobody = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    // A reader that never reads holds nobody up: the messages fill its pipe.
    let (unread, writer) = std::io::pipe().unwrap();
    for (number, errors) in [full(), nobody(), writer.into()].into_iter().enumerate() {
        let socket = folder.path().join(format!("{number}.sock"));
        let mut command = keeptime(&["serve", file.to_str().unwrap(), "--socket"]);
        let mut server = command.arg(&socket).stderr(errors).spawn().unwrap();
        let mut client = client_of(&mut server, &socket);
        let empty = client.register(&Registration::service("empty").chain("c", 1)).unwrap();
        // Each of these is worth a line.
        for _ in 0..2_000 {
            let raw = accel::socket::Socket::connect(&socket, PATIENCE).unwrap();
            // Turned away at the door, it is closed already.
            let _ = raw.send(b"nonsense", &[]);
        }
        client.run(empty, &Request::new()).unwrap();
        assert_eq!(end(server).code(), Some(0), "{number}");
        assert!(!socket.exists());
    }
    drop(unread);
}

#[test]
fn socket_that_is_an_ordinary_file_is_refused_and_left_alone() {
    let (folder, file) = folder("accelerators: [{id: gpu0, buckets: 2}]\nserver: {priority: 0}");
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "of three years").unwrap();
    let output = output(&["serve", file.to_str().unwrap(), "--socket", notes.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("notes.txt: found a file that is not a socket"), "{said}");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "of three years");
}

#[test]
fn of_servers_that_start_at_once_one_serves_and_the_others_say_so() {
    let (folder, file) = folder("accelerators: [{id: gpu0, buckets: 2}]\nserver: {priority: 0}");
    let socket = folder.path().join("kt.sock");
    let start = || {
        let mut command = keeptime(&["serve", file.to_str().unwrap(), "--socket"]);
        command.arg(&socket).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut servers: Vec<Child> = (0..4).map(|_| start()).collect();
    // All but one end by themselves.
    let mut ended = Vec::new();
    testing::until("the end of all but one", || {
        ended.extend(servers.extract_if(.., |server| server.try_wait().unwrap().is_some()));
        ended.len() == 3
    });
    for loser in ended {
        let output = loser.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("already in use by process"), "{said}");
    }
    let mut server = servers.pop().unwrap();
    client_of(&mut server, &socket);
    assert_eq!(end(server).code(), Some(0));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the configuration alone: {left:?}");
}

#[test]
fn users_and_groups_of_the_configuration_can_open_the_socket() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIP: only root can become another user");
        return;
    }
    let rules = "accelerators: [{id: gpu0, buckets: 2}]\n\
                 server: {priority: 0, access: [{user: 61001, priority: [0, 9]}, \
                 {group: 62001, priority: [0, 9]}, {group: 62002, priority: [0, 9]}]}";
    let (folder, file) = folder(rules);
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let socket = folder.path().join("made/kt.sock");
    let server = serve(&[file.to_str().unwrap(), "--socket", socket.to_str().unwrap()]);
    let program = folder.path().join("keeptime");
    // By another process, so that no descriptor for writing is left open here.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_keeptime")).arg(&program).status();
    assert!(copied.unwrap().success());
    for (user, groups, status) in [
        ("61001", "65534", 0),
        ("61002", "62001", 0),
        ("61002", "65534,62002", 0),
        ("61002", "65534", 2),
    ] {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--regid=65534", "--reuid", user, "--groups", groups]);
        setpriv.arg(&program).args(["status", "--socket"]).arg(&socket).current_dir("/");
        let output = setpriv.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "user {user} of {groups}: {said}");
        assert_eq!(said.contains("users that may connect"), status == 2, "{said}");
    }
    end(server);
}

#[test]
fn bad_configurations_and_options_end_with_status_2_and_name_the_place() {
    let good = "accelerators: [{id: gpu0, buckets: 2}]";
    for (yaml, more, said) in [
        ("accelerators: [{id: gpu0, buckets: 2, colour: red}]", vec![], "colour"),
        ("server: {priority: 0}", vec![], "accelerators: none: expected at least one"),
        (good, vec!["--policy", "lottery"], "expected priority, fifo or timeslice"),
        (good, vec!["--accelerator-cores", "gpu9=0"], "expected one of the accelerators"),
        (good, vec!["--accelerator-cores", "gpu0"], "expected ACCELERATOR=CORE,CORE"),
        (good, vec!["--accelerator-cores", "gpu0=4095"], "4095"),
    ] {
        let (folder, file) = folder(yaml);
        let socket = folder.path().join("kt.sock");
        let mut arguments =
            vec!["serve", file.to_str().unwrap(), "--socket", socket.to_str().unwrap()];
        arguments.extend(more);
        let output = output(&arguments);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(said), "{complaint}");
    }
    let absent = output(&["serve", "/nowhere/server.yaml"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("/nowhere/server.yaml"));
}

#[test]
fn example_configuration_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kt.sock");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/server.yaml");
    let mut server = serve(&[example, "--socket", socket.to_str().unwrap()]);
    // Only root is among its rules on every machine.
    if rustix::process::geteuid().is_root() {
        let mut client = Client::connect(&socket).unwrap();
        let nap = client.register(&Registration::service("nap").chain("c", 1)).unwrap();
        assert!(client.run(nap, &Request::new()).unwrap().busy_ns > 0);
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

/// A server whose lines are read one by one, and which has said that it listens.
struct Lines {
    server: Child,
    lines: BufReader<std::process::ChildStderr>,
}

impl Lines {
    fn start(mut command: Command) -> Lines {
        let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(server.stderr.take().unwrap());
        let mut this = Lines { server, lines };
        this.until("listening at");
        this
    }

    /// The next line with these words.
    fn until(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the server ended");
            if line.contains(words) {
                return line;
            }
        }
    }

    fn hang_up(&mut self) {
        kill_process(Pid::from_child(&self.server), Signal::HUP).unwrap();
    }
}

#[test]
fn hang_up_takes_new_limits_and_names_what_takes_a_restart() {
    let yaml = |buckets: u32, sessions: u32| {
        format!(
            "accelerators: [{{id: gpu0, buckets: {buckets}}}]\n\
             server: {{priority: 0, limits: {{sessions: {sessions}}}}}\n"
        )
    };
    let (folder, file) = folder(&yaml(2, 1));
    let socket = folder.path().join("kt.sock");
    let mut command = keeptime(&["serve", file.to_str().unwrap(), "--socket"]);
    command.arg(&socket);
    let mut server = Lines::start(command);

    let open = |count: usize| (0..count).map(|_| Client::connect(&socket)).collect::<Vec<_>>();
    assert_eq!(open(3).iter().filter(|client| client.is_ok()).count(), 1);
    std::fs::write(&file, yaml(2, 3)).unwrap();
    server.hang_up();
    let said = server.until("reloaded");
    assert!(said.ends_with("reloaded: server.limits.sessions\n"), "{said}");
    testing::until("two more sessions", || {
        open(5).iter().filter(|client| client.is_ok()).count() == 3
    });

    std::fs::write(&file, yaml(4, 3)).unwrap();
    server.hang_up();
    let said = server.until("reloaded");
    assert!(said.contains("not reloaded: accelerators:"), "{said}");
    std::fs::write(&file, "accelerators: 7\n").unwrap();
    server.hang_up();
    let said = server.until("reloaded");
    assert!(said.contains("server.yaml:1:15: accelerators: found"), "{said}");
    assert!(Client::connect(&socket).is_ok());
    assert_eq!(end(server.server).code(), Some(0));
}

#[test]
fn log_level_chooses_the_messages_and_the_journal_gets_their_priorities() {
    let (folder, file) = folder("accelerators: [{id: gpu0, buckets: 2}]\nserver: {priority: 0}");
    let socket = folder.path().join("kt.sock");
    let mut said = BTreeMap::new();
    for level in ["debug", "info", "error"] {
        let log = folder.path().join(level);
        let to = std::fs::File::create(&log).unwrap();
        let found = to.metadata().unwrap();
        let mut command = keeptime(&["serve", file.to_str().unwrap(), "--log-level", level]);
        // Standard error as systemd connects it to its journal.
        command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
        command.arg("--socket").arg(&socket).stderr(to);
        let mut server = command.spawn().unwrap();
        let client = client_of(&mut server, &socket);
        drop(client);
        assert_eq!(end(server).code(), Some(0));
        said.insert(level, std::fs::read_to_string(log).unwrap());
    }
    assert!(said["debug"].contains("<7>keeptime serve: process "), "{said:?}");
    assert!(said["info"].contains("<6>keeptime serve: ") && !said["info"].contains("<7>"));
    assert!(!said["error"].contains("<6>"), "{said:?}");

    let unknown = output(&["serve", file.to_str().unwrap(), "--log-level", "loud"]);
    assert_eq!(unknown.status.code(), Some(2));
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(text.contains("expected error, warn, info or debug"), "{text}");
}

#[test]
fn socket_is_gone_after_each_signal_that_ends_the_server() {
    let (folder, file) = folder("accelerators: [{id: gpu0, buckets: 2}]\nserver: {priority: 0}");
    let socket = folder.path().join("kt.sock");
    for signal in [Signal::INT, Signal::TERM, Signal::QUIT] {
        let mut command = keeptime(&["serve", file.to_str().unwrap(), "--socket"]);
        command.arg(&socket);
        let mut server = Lines::start(command).server;
        assert!(socket.exists());
        kill_process(Pid::from_child(&server), signal).unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(0), "{signal:?}");
        assert!(!socket.exists(), "{signal:?}");
    }
    // Nobody can clean up after this one: the next server does.
    let mut server = serve(&[file.to_str().unwrap(), "--socket", socket.to_str().unwrap()]);
    server.kill().unwrap();
    server.wait().unwrap();
    let server = serve(&[file.to_str().unwrap(), "--socket", socket.to_str().unwrap()]);
    assert_eq!(end(server).code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn service_manager_is_told_when_the_server_listens_and_when_it_ends() {
    let (folder, file) = folder("accelerators: [{id: gpu0, buckets: 2}]\nserver: {priority: 0}");
    let manager = folder.path().join("notify");
    let inbox = std::os::unix::net::UnixDatagram::bind(&manager).unwrap();
    let socket = folder.path().join("kt.sock");
    let mut command = keeptime(&["serve", file.to_str().unwrap(), "--socket"]);
    command.arg(&socket).env("NOTIFY_SOCKET", &manager);
    let server = Lines::start(command);
    let heard = || {
        let mut buffer = [0; 256];
        let length = inbox.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(heard().trim_end(), "READY=1");
    assert!(Client::connect(&socket).is_ok());
    assert_eq!(end(server.server).code(), Some(0));
    assert_eq!(heard().trim_end(), "STOPPING=1");
}
