//! Parts that the tests share: the library, if there is one, and one launch to its end.

#![allow(dead_code)]

use device::{Device, Error, Event, Launch, Level, OperationOutcome};
use device_onnx::{Config, LIBRARY_VARIABLE, Model, OnnxDevice};
use shm::memory::PeerSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A configuration with the library that the environment names; None, and a line that says so,
/// when there is none.
pub(crate) fn config() -> Option<Config> {
    let Some(path) = std::env::var_os(LIBRARY_VARIABLE).map(PathBuf::from) else {
        println!("SKIP: {LIBRARY_VARIABLE} does not name the library of ONNX Runtime");
        return None;
    };
    if !path.is_file() {
        println!("SKIP: {LIBRARY_VARIABLE} names {}, where no file is", path.display());
        return None;
    }
    Some(Config { library: Some(path), ..Config::default() })
}

/// A file of the repository.
pub(crate) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

/// A model of the tests.
pub(crate) fn model(name: &str) -> Model {
    Model::new(name, file(&format!("crates/serve/device-onnx/tests/models/{name}.onnx")))
}

/// The text of the error of a start that must fail with one about the start.
pub(crate) fn refusal(config: &Config) -> String {
    match device_onnx::start(config) {
        Err(Error::Start(text)) => text,
        Err(other) => panic!("another error: {other:?}"),
        Ok(_) => panic!("started with {config:?}"),
    }
}

/// Memory with these bytes, and not one more.
pub(crate) fn memory(bytes: &[u8]) -> PeerSlice {
    let memory = PeerSlice::anonymous(bytes.len()).unwrap().slice(0, bytes.len()).unwrap();
    memory.write(0, bytes).unwrap();
    memory
}

/// Bytes of memory.
pub(crate) fn bytes(memory: &PeerSlice) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

/// A launch of a kernel that the device has.
pub(crate) fn order(
    device: &OnnxDevice,
    kernel: &str,
    argument: u64,
    input: &PeerSlice,
    output: &PeerSlice,
) -> Launch {
    let launch = Launch::new(device.kernel(kernel).unwrap(), [argument, 0, 0, 0]);
    Launch { input: input.clone(), output: output.clone(), ..launch }
}

/// Launches in a stream of its own, and waits.
pub(crate) fn run(device: &Arc<OnnxDevice>, launch: Launch) -> OperationOutcome {
    let context = device.create_context().unwrap();
    let stream = device.create_stream(context, Level(0)).unwrap();
    let event = Event::new();
    device.launch(stream, launch, &event).unwrap();
    let outcome = event.wait();
    device.destroy_context(context).unwrap();
    outcome
}
