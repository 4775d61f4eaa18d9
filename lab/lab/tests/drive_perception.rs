//! `keeptime-lab drive --perception`: a drive whose objects are classified by a service of a server; and
//! `keeptime-lab bench perception` of that service.

mod program;

use program::laboratory;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use testing::until;

/// Somebody stands ahead.
const AHEAD: &str = "
name: a car ahead
duration_s: 2
road:
  straight: { length_m: 400, lanes: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: car, along_m: 80, speed_kmh: 40, moves: !lane {} }
";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with these accelerators.
fn serve(folder: &Path, accelerators: &str) -> Server {
    let (config, socket) = (folder.join("server.yaml"), folder.join("keeptime.sock"));
    std::fs::write(&config, accelerators).unwrap();
    let mut command = Command::new(testing::keeptime());
    command.arg("serve").arg(&config).arg("--socket").arg(&socket).stderr(Stdio::null());
    let mut server = Server(command.stdout(Stdio::null()).spawn().unwrap());
    testing::until_ok("a server", || {
        assert!(server.0.try_wait().unwrap().is_none(), "the server ended");
        accel::Client::connect(&socket).map(drop)
    });
    server
}

/// A drive with an accelerator that is so many times slower than the server's.
fn command(folder: &Path, text: &str, accelerator: &str) -> Command {
    let scenario = folder.join("ahead.yaml");
    std::fs::write(&scenario, text).unwrap();
    let mut command = laboratory();
    command.arg("drive").arg(scenario).args(["--policy", "base", "--json", "--perception"]);
    command.arg(folder.join("keeptime.sock"));
    // So fast a computer that each frame is through before the next one replaces it, however slow
    // the one that the test runs on.
    command.args(["--factor", "0.02", "--accelerator-factor", accelerator]);
    command
}

fn drive(folder: &Path) -> Output {
    command(folder, AHEAD, "0.02").output().unwrap()
}

/// A server of the network; none without ONNX Runtime.
fn network(folder: &Path) -> Option<Server> {
    if std::env::var_os("ORT_DYLIB_PATH").is_none_or(|path| path.is_empty()) {
        println!("SKIP: ORT_DYLIB_PATH names no ONNX Runtime");
        return None;
    }
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/perception/model.onnx");
    let config = format!(
        "accelerators:\n  - {{id: npu0, buckets: 2, device: onnx, kernels: [{{name: perception, \
         model: {model}}}]}}\n"
    );
    Some(serve(folder, &config))
}

/// Returns the marks of the drive, which tell of the network.
fn marks(output: &Output) -> String {
    let result: Value = testing::result::of(output);
    result["marks"].to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_does_not_serve_the_network_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let output = drive(folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--perception: no accelerator server at"), "{}", said(&output));

    let server = serve(folder.path(), "accelerators: [{id: gpu0, buckets: 2}]\n");
    let output = drive(folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("perception"), "{}", said(&output));
    drop(server);

    // A service of that name which gives one number.
    let other = "accelerators: [{id: gpu0, buckets: 2}]\nservices:\n  \
                 - {name: perception, accelerator: gpu0, kernel: vecadd}\n";
    let _server = serve(folder.path(), other);
    let output = drive(folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("found 1 scores, expected 184320"), "{}", said(&output));
}

#[test]
fn the_network_answers_every_frame_and_what_it_took_is_in_the_drive() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = network(folder.path()) else { return };
    let marks = marks(&drive(folder.path()));
    assert!(marks.contains("the network answered for 20 frames; for 0 it did not"), "{marks}");
}

/// A bound in time, for a machine without other work: `cargo xtask soak` runs it.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn frame_takes_longer_by_what_the_network_takes_on_a_slower_accelerator() {
        let folder = tempfile::tempdir().unwrap();
        let Some(_server) = network(folder.path()) else { return };
        // On an accelerator that is a hundred times slower: a frame takes longer by nearly all that
        // the network takes on the server's, which is milliseconds.
        let median_ms = |accelerator| {
            let output = command(folder.path(), AHEAD, accelerator).output().unwrap();
            let result: Value = testing::result::of(&output);
            result["drives"][0]["latency_ns"]["p50"].as_f64().unwrap() / 1e6
        };
        let (fast, slow) = (median_ms("0.02"), median_ms("2"));
        assert!(slow > fast + 2.0, "{fast} and {slow} ms");
    }
}

#[test]
fn drive_goes_on_by_the_rule_when_the_server_dies_under_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = network(folder.path()) else { return };
    let text = AHEAD.replace("duration_s: 2", "duration_s: 25");
    let mut command = command(folder.path(), &text, "0.02");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("driving") {
        line.clear();
        assert!(words.read_line(&mut line).unwrap() > 0, "the drive has not begun");
    }
    let mut client = accel::Client::connect(folder.path().join("keeptime.sock")).unwrap();
    until("some of its 250 frames", || client.snapshot().unwrap().counters.done >= 10);
    drop(server);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let marks = marks(&output);
    let counts: Vec<u32> = marks.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 2 && counts.iter().all(|count| *count > 0), "{marks}");
    assert_eq!(counts[0] + counts[1], 250, "{marks}");
}

#[test]
fn bench_asks_the_network_alone_and_beside_others_of_each_priority() {
    let folder = tempfile::tempdir().unwrap();
    let bench = || {
        let mut command = laboratory();
        command.args(["bench", "perception", "--others", "0,2", "--others-priority", "10,50"]);
        command.args(["--frames", "8", "--period", "20ms", "--json"]);
        command.arg(folder.path().join("keeptime.sock")).output().unwrap()
    };
    let output = bench();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("SOCKET: no accelerator server at"), "{}", said(&output));

    let Some(_server) = network(folder.path()) else { return };
    let output = bench();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result: Value = testing::result::of(&output);
    let settings = result["settings"].as_array().unwrap();
    let of = |setting: &Value| (setting["others"].clone(), setting["others_priority"].clone());
    let expected = [(0.into(), Value::Null), (2.into(), 10.into()), (2.into(), 50.into())];
    assert_eq!(settings.iter().map(of).collect::<Vec<_>>(), expected);
    for setting in settings {
        assert_eq!((&setting["answered"], &setting["unanswered"]), (&8.into(), &0.into()));
        let ns = |what: &str| setting[what]["p50_ns"].as_f64().unwrap();
        assert!(ns("busy") > 0.0 && ns("busy") <= ns("latency"), "{setting}");
        let others = setting["others_per_s"].as_f64().unwrap();
        assert_eq!(others > 0.0, setting["others"] != 0, "{setting}");
    }
}
