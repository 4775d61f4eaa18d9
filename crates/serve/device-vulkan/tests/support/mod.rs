//! Parts that the tests share: the devices that there are, and a launch with its result.
// Each test file uses a part of it.
#![allow(dead_code)]

use device::{Device, Event, Launch, Level, OperationOutcome};
use device_vulkan::{Config, Found, Groups, Module, Select, Source, VulkanDevice};
use shm::memory::PeerSlice;
use std::time::Duration;

/// After this long without an end the device is taken to hang.
const HANG: Duration = Duration::from_secs(60);

/// All devices that can be used; says why if there is none.
pub(crate) fn usable() -> Vec<Found> {
    let found = match device_vulkan::devices() {
        Ok(found) => found,
        Err(error) => {
            println!("SKIP: {error}");
            return Vec::new();
        }
    };
    if found.is_empty() {
        println!("SKIP: Vulkan finds no device");
    }
    let can_be_used = |one: &Found| match &one.missing {
        None => true,
        Some(missing) => {
            println!("SKIP: {} lacks {missing}", one.name);
            false
        }
    };
    found.into_iter().filter(can_be_used).collect()
}

/// The default on this device.
pub(crate) fn config(found: &Found) -> Config {
    Config { device: Select::Index(found.index), ..Config::default() }
}

/// A kernel of one's own with one work group, named as its entry point.
pub(crate) fn module(name: &str, source: Source) -> Module {
    Module {
        name: name.into(),
        description: "a test".into(),
        source,
        entry: name.into(),
        groups: Groups::Fixed([1, 1, 1]),
    }
}

/// Memory of zeros.
pub(crate) fn memory(bytes: usize) -> PeerSlice {
    PeerSlice::anonymous(bytes).unwrap().slice(0, bytes).unwrap()
}

/// Memory with these words.
pub(crate) fn words(values: &[u32]) -> PeerSlice {
    let memory = memory(values.len() * 4);
    memory.write_u32(0, values).unwrap();
    memory
}

/// Memory with these floats.
pub(crate) fn floats(values: &[f32]) -> PeerSlice {
    let memory = memory(values.len() * 4);
    memory.write_f32(0, values).unwrap();
    memory
}

pub(crate) fn read_floats(memory: &PeerSlice) -> Vec<f32> {
    let mut values = vec![0.0; memory.len() / 4];
    memory.read_f32(0, &mut values).unwrap();
    values
}

pub(crate) fn read_words(memory: &PeerSlice) -> Vec<u32> {
    let mut values = vec![0; memory.len() / 4];
    memory.read_u32(0, &mut values).unwrap();
    values
}

/// Launches a kernel in a stream of its own and waits for it.
pub(crate) fn launch(
    device: &VulkanDevice,
    kernel: &str,
    arguments: [u64; 4],
    input: &PeerSlice,
    output: &PeerSlice,
) -> OperationOutcome {
    let context = device.create_context().unwrap();
    let stream = device.create_stream(context, Level(0)).unwrap();
    let mut launch = Launch::new(device.kernel(kernel).expect("a kernel"), arguments);
    (launch.input, launch.output) = (input.clone(), output.clone());
    let event = Event::new();
    device.launch(stream, launch, &event).unwrap();
    let outcome = event.wait_timeout(HANG).expect("an end");
    device.destroy_context(context).unwrap();
    outcome
}
