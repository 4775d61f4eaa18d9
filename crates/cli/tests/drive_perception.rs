//! `keeptime drive --perception`: a drive whose objects are classified by a service of a server.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

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
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.arg("serve").arg(&config).arg("--socket").arg(&socket).stderr(Stdio::null());
    let mut server = Server(command.stdout(Stdio::null()).spawn().unwrap());
    while accel::Client::connect(&socket).is_err() {
        assert!(server.0.try_wait().unwrap().is_none(), "the server ended");
        std::thread::yield_now();
    }
    server
}

fn drive(folder: &Path) -> Output {
    let scenario = folder.join("ahead.yaml");
    std::fs::write(&scenario, AHEAD).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.arg("drive").arg(scenario).args(["--policies", "base", "--json", "--perception"]);
    command.arg(folder.join("keeptime.sock")).output().unwrap()
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
    if std::env::var_os("ORT_DYLIB_PATH").is_none_or(|path| path.is_empty()) {
        println!("SKIP: ORT_DYLIB_PATH names no ONNX Runtime");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/perception/model.onnx");
    let config = format!(
        "accelerators:\n  - {{id: npu0, buckets: 2, device: onnx, kernels: [{{name: perception, \
         model: {model}}}]}}\n"
    );
    let _server = serve(folder.path(), &config);
    let output = drive(folder.path());
    let result: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let marks = result["marks"].to_string();
    assert!(marks.contains("the network answered for 20 frames; for 0 it did not"), "{marks}");
}
