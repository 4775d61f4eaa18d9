//! `keeptime status`, `keeptime calibrate` and admission control of `keeptime serve`, as a user
//! runs them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use accel::{Client, Registration, Request};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn keeptime(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    keeptime(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = output(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    testing::result::of(&output)
}

/// Runs a command that must fail and returns its error message.
fn complaint(arguments: &[&str]) -> String {
    let output = output(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    said
}

/// A folder with a system file.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(yaml: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("robot.yaml"), yaml).unwrap();
        Place { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self) -> String {
        self.path("robot.yaml")
    }

    fn socket(&self) -> String {
        self.path("kt.sock")
    }

    /// A server of the file; it ends with this value.
    fn serve(&self, more: &[&str]) -> Running {
        let (file, socket) = (self.file(), self.socket());
        let mut command = keeptime(&["serve", &file, "--socket", &socket]);
        let mut child = command.args(more).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|l| sender.send(l)));
        let mut running = Running { child, said, lines: Vec::new() };
        running.until("listening at");
        running
    }
}

struct Running {
    child: Child,
    said: Receiver<String>,
    lines: Vec<String>,
}

impl Running {
    /// Waits until the server has said something.
    fn until(&mut self, text: &str) {
        while !self.lines.iter().any(|line| line.contains(text)) {
            let line = self.said.recv_timeout(Duration::from_secs(60));
            self.lines.push(line.unwrap_or_else(|_| panic!("not said: {text}: {:?}", self.lines)));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const GPU: &str = "accelerators: [{id: gpu0, buckets: 4}]\nserver: {priority: 0}\n";

fn declared(chain: &str, priority: u32, exec_ms: u64) -> Registration {
    Registration::service("busy")
        .chain(chain, priority)
        .period(Duration::from_millis(100))
        .exec(Duration::from_millis(exec_ms))
        .executor(priority, 50)
}

#[test]
fn status_shows_what_was_admitted_and_what_was_measured() {
    let place = Place::new(GPU);
    let socket = place.socket();
    let mut server = place.serve(&[]);
    server.until("admission control by the tight analysis");
    let mut client = Client::connect(&socket).unwrap();
    let brake = client.register(&declared("brake", 9, 40)).unwrap();
    let mut other = Client::connect(&socket).unwrap();
    let refused = other.register(&declared("map", 1, 70)).unwrap_err().to_string();
    assert!(refused.contains("chain \"map\" cannot be promised its deadline"), "{refused}");
    let plain = Registration::service("busy").chain("plain", 2);
    other.register(&plain).unwrap();
    for _ in 0..3 {
        client.run(brake, &Request::new().arguments(&[1_000_000])).unwrap();
    }

    let status = json(&["status", "--socket", &socket, "--json"]);
    assert_eq!(status["server"]["admission"], "enforce");
    assert_eq!(status["server"]["analysis"], "tight");
    assert_eq!(status["server"]["refused"], 1);
    assert_eq!(status["counters"]["done"], 3);
    assert_eq!(status["sessions"].as_array().unwrap().len(), 3, "the one that asks too");
    let chains = status["chains"].as_array().unwrap();
    assert_eq!(chains.len(), 2);
    assert_eq!(chains[0]["name"], "brake");
    assert_eq!(chains[0]["standing"], "guaranteed");
    assert_eq!(chains[0]["bound_ns"], 40_000_000);
    assert_eq!(chains[0]["buckets"]["gpu0"], 3);
    assert_eq!(chains[0]["requests"], 3);
    assert!(chains[0]["longest_request_ns"].as_u64().unwrap() > 500_000);
    assert_eq!(
        (&chains[1]["standing"], &chains[1]["bound_ns"]),
        (&"undeclared".into(), &Value::Null)
    );
    let sigma = &status["accelerators"][0]["sigma"];
    assert!(sigma["count"].as_u64().unwrap() >= 1, "{sigma}");
    assert_eq!(sigma["exceeds"], true, "the file says that it is 0");

    let page = output(&["status", "--socket", &socket]);
    assert!(page.status.success());
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    for expected in [
        "policy priority, admission enforce by the tight analysis\n",
        "requests: 3 done",
        "guaranteed",
        "undeclared",
        "! the maximum is larger than what the analysis counts with",
        "core 9 at priority 50",
        "declares core 9 at priority 50, runs on",
    ] {
        assert!(page.contains(expected), "{expected}:\n{page}");
    }
    let line = page.lines().find(|line| line.starts_with("brake")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        cells[..10],
        ["brake", "9", "3", "100", "ms", "100", "ms", "40", "ms", "guaranteed"]
    );

    drop(client);
    drop(other);
    testing::until_ok("the end of all chains", || {
        let status = json(&["status", "--socket", &socket, "--json"]);
        if status["chains"].as_array().unwrap().is_empty() { Ok(()) } else { Err(status) }
    });
}

#[test]
fn status_without_a_server_ends_with_status_2() {
    let said = complaint(&["status", "--socket", "/nowhere/kt.sock"]);
    assert!(said.contains("no accelerator server at /nowhere/kt.sock"), "{said}");
}

#[test]
fn admission_mode_of_the_command_line_wins() {
    let place = Place::new(GPU);
    let socket = place.socket();
    let mut server = place.serve(&["--admission", "report"]);
    server.until("the tight analysis reports, every client is admitted");
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&socket).unwrap()).collect();
    clients[0].register(&declared("brake", 9, 40)).unwrap();
    clients[1].register(&declared("map", 1, 70)).unwrap();
    server.until("chain \"map\" has no guarantee: bound");
    let page = output(&["status", "--socket", &socket]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("no guarantee") && page.contains("deadline 100 ms"), "{page}");
    drop(server);

    let mut off = place.serve(&["--policy", "fifo"]);
    off.until("no admission control: there is no analysis of policy fifo, so nothing is promised");
    drop(off);
    let mut off = place.serve(&["--admission", "off"]);
    off.until("no admission control");
    let said = complaint(&["serve", &place.file(), "--admission", "maybe"]);
    assert!(said.contains("expected enforce, report or off"), "{said}");
}

const SERVICES: &str = "
accelerators: [{id: gpu0, buckets: 2}, {id: gpu1, buckets: 1}]
server: {priority: 0}
services:
- {name: nap, accelerator: gpu0, kernel: busy, arguments: [2000000]}
- {name: add, accelerator: gpu1, kernel: vecadd, arguments: [5000]}
- {name: any, accelerator: gpu1, kernel: vecadd}
";

#[test]
fn measured_times_stand_in_for_what_nobody_declares() {
    let place = Place::new(SERVICES);
    let (file, out, socket) = (place.file(), place.path("times.json"), place.socket());
    let calibrate = ["calibrate", &file, "--samples", "30", "--margin", "1.5"];
    let more = ["--arguments", "any=100", "--out", &out, "--json"];
    let printed = json(&[&calibrate[..], &more[..]].concat());
    let written: Value = testing::result::read(std::fs::read(&out).unwrap());
    assert_eq!(printed, written);
    assert_eq!(written["margin"], 1.5);
    let services = written["services"].as_array().unwrap();
    let names: Vec<&Value> = services.iter().map(|service| &service["name"]).collect();
    assert_eq!(names, ["nap", "add", "any"]);
    for service in services {
        assert_eq!(service["count"], 30);
        let keys = ["min_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns"];
        let times = keys.map(|key| service["exec"][key].as_u64().unwrap());
        assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    }
    assert!(services[0]["exec"]["min_ns"].as_u64().unwrap() > 500_000);
    assert_eq!(services[1]["input_bytes"], 40_000);
    assert_eq!(services[2]["arguments"][0], 100);
    let overheads = written["overheads"].as_array().unwrap();
    assert_eq!(overheads.len(), 2);
    assert!(overheads.iter().all(|o| o["overhead"]["max_ns"].as_u64().unwrap() > 0));

    let nap = Registration::service("nap")
        .chain("brake", 9)
        .period(Duration::from_secs(100))
        .executor(0, 50);
    let server = place.serve(&[]);
    let refused = Client::connect(&socket).unwrap().register(&nap).unwrap_err().to_string();
    assert!(refused.contains("execution time is not known"), "{refused}");
    drop(server);
    let mut server = place.serve(&["--calibration", &out]);
    server.until("execution times of 3 services");
    let mut client = Client::connect(&socket).unwrap();
    client.register(&nap).unwrap();
    let status = json(&["status", "--socket", &socket, "--json"]);
    let max_ns = services[0]["exec"]["max_ns"].as_u64().unwrap();
    let expected = (max_ns as f64 * 1.5).ceil() as u64;
    assert_eq!(status["chains"][0]["bound_ns"], expected);
}

#[test]
fn interrupted_calibration_keeps_the_services_that_were_measured() {
    // A single request of the second service takes ten minutes.
    let slow = "kernel: busy, arguments: [600000000000]";
    let place = Place::new(&SERVICES.replace("kernel: vecadd, arguments: [5000]", slow));
    let (file, out) = (place.file(), place.path("times.json"));
    let arguments = ["calibrate", &file, "--quick", "--arguments", "any=100", "--out", &out];
    let mut command = keeptime(&arguments);
    command.env("TMPDIR", place.folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let second = lines.find(|line| line.contains("keeptime calibrate: add, 100 requests"));
    second.expect("the second service is announced");
    let entries =
        std::fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let socket = entries.map(|entry| entry.join("calibrate.sock")).find(|file| file.exists());
    let mut other = Client::connect(socket.expect("the socket of the command")).unwrap();
    testing::until("the request runs", || other.status().unwrap().running == 1);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    testing::until("the end of the command", || child.try_wait().unwrap().is_some());
    let said: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?} {said:?}");
    assert!(said.contains(&format!("wrote {out}")), "{said:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("PARTIAL: interrupted; not measured: add, any\n"), "{text}");
    let written: Value = testing::result::read(std::fs::read(&out).unwrap());
    assert_eq!(written["unmeasured"], serde_json::json!(["add", "any"]));
    assert_eq!(written["services"].as_array().unwrap().len(), 1);
    place.serve(&["--calibration", &out]).until("execution times of 1 services");
}

#[test]
fn calibration_of_the_system_file_is_found_beside_it() {
    let yaml = SERVICES.replace("{priority: 0}", "{priority: 0, calibration: times.json}");
    let place = Place::new(&yaml);
    let (file, out) = (place.file(), place.path("times.json"));
    let said = complaint(&["serve", &file, "--socket", &place.socket()]);
    assert!(said.contains("times.json: No such file"), "{said}");
    // Calibrating does not need what it makes.
    let table = output(&["calibrate", &file, "--samples", "10", "--service", "nap", "--out", &out]);
    assert!(table.status.success(), "{}", String::from_utf8_lossy(&table.stderr));
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("nap") && !table.contains("vecadd"), "{table}");
    assert!(table.contains("max is the largest of the samples"), "{table}");
    place.serve(&[]).until("execution times of 1 services");
}

#[test]
fn bad_calibrations_and_options_end_with_status_2_and_say_what_is_expected() {
    let place = Place::new(SERVICES);
    let (file, bad) = (place.file(), place.path("bad.json"));
    for (text, said) in [
        ("", "not JSON"),
        ("{}", "another format; expected a file that keeptime calibrate has written"),
        (
            r#"{"schema": "keeptime.calibration", "version": 7}"#,
            "found version 7, expected version 1",
        ),
        (r#"{"schema": "keeptime.calibration", "version": 1}"#, "missing field"),
    ] {
        std::fs::write(&bad, text).unwrap();
        let socket = place.socket();
        let found = complaint(&["serve", &file, "--socket", &socket, "--calibration", &bad]);
        assert!(found.contains(said) && found.contains("bad.json"), "{found}");
    }
    let foreign = foreign(&place);
    let found = complaint(&["serve", &file, "--calibration", foreign.to_str().unwrap()]);
    assert!(found.contains("measured on \"Another processor\", this machine is"), "{found}");
    for (more, said) in [
        (vec!["--service", "nope"], "--service nope: expected one of the services nap, add, any"),
        (vec!["--samples", "1"], "10..=10000000"),
        (vec!["--margin", "0.9"], "expected 1 to 100"),
        (vec!["--arguments", "nap=1,2,3,4"], "expected at most 3 beside the 1 that the file fixes"),
        (vec!["--arguments", "nap"], "expected SERVICE=N,N"),
        (vec!["--samples", "10", "--out", "/nowhere/x.json"], "/nowhere/x.json"),
    ] {
        let found = complaint(&[&["calibrate", &file][..], &more[..]].concat());
        assert!(found.contains(said), "{found}");
    }
    let empty = Place::new(GPU);
    let found = complaint(&["calibrate", &empty.file()]);
    assert!(found.contains("services: found none, expected at least one"), "{found}");
}

/// A calibration of another machine.
fn foreign(place: &Place) -> PathBuf {
    let out = place.path("foreign.json");
    json(&[
        "calibrate",
        &place.file(),
        "--service",
        "nap",
        "--samples",
        "10",
        "--out",
        &out,
        "--json",
    ]);
    let path = Path::new(&out);
    let mut value: Value = testing::result::read(std::fs::read(path).unwrap());
    value["machine"] = "Another processor".into();
    std::fs::write(path, value.to_string()).unwrap();
    path.into()
}
