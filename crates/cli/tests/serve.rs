//! `keeptime serve` and `keeptime bench` as a user runs them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use accel::{Client, Registration, Request};
use serde_json::Value;

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
    let pid = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert!(!std::path::Path::new(&socket).exists(), "the socket is left behind");
    let summary: Value = serde_json::from_slice(&std::fs::read(&summary).unwrap()).unwrap();
    assert_eq!(summary["counters"]["done"], 3);
    assert!(summary["accelerators"]["gpu0"]["busy_ns"].as_u64().unwrap() > 0);
}

#[test]
fn bad_configurations_and_options_end_with_status_2_and_name_the_place() {
    let good = "accelerators: [{id: gpu0, buckets: 2}]";
    for (yaml, more, said) in [
        ("accelerators: [{id: gpu0, buckets: 2, colour: red}]", vec![], "colour"),
        ("server: {priority: 0}", vec![], "accelerators: none: expected at least one"),
        (good, vec!["--policy", "lottery"], "expected priority, fifo or timeslice"),
        (good, vec!["--accelerator-cores", "gpu9=0"], "no accelerator of that id"),
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

#[test]
fn requests_are_measured_beside_their_floor() {
    let output = output(&["bench", "requests", "--samples", "500", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    for mode in ["suspend", "spin"] {
        for what in ["request", "device", "server", "floor"] {
            let quantiles = &result["modes"][mode][what];
            let value = |key: &str| quantiles[key].as_f64().unwrap();
            let all = [value("p50_ns"), value("p99_ns"), value("p999_ns"), value("max_ns")];
            assert!(all[0] > 0.0 && all.is_sorted(), "{mode} {what}: {all:?}");
        }
    }
}

#[test]
fn time_on_the_device_is_not_the_servers() {
    let output = output(&["bench", "requests", "--samples", "250", "--busy-us", "2000", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let p50 = |what: &str| result["modes"]["suspend"][what]["p50_ns"].as_f64().unwrap();
    // A machine may be faster than when it was calibrated.
    assert!(p50("device") >= 1e6, "{result}");
    assert!(p50("server") < p50("device") && p50("request") >= p50("device"), "{result}");
}

#[test]
fn killed_clients_cost_the_others_no_request() {
    let output = output(&["bench", "kills", "--count", "40", "--json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Delays depend on the machine; that nothing fails and nothing is kept does not.
    for survivor in ["critical", "checking"] {
        assert_eq!(result[survivor]["failures"], 0, "{result}");
        assert!(result[survivor]["requests"].as_u64().unwrap() > 0);
    }
    let server = &result["server"];
    for what in ["mapped_bytes", "descriptors"] {
        assert_eq!(server["before"][what], server["after"][what], "{result}");
    }
}
