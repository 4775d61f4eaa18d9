//! Requests that come again, and services that are libraries. On GPUs, and on the fake driver,
//! which counts what became of them.

mod support;

use device::{Device, Event, FailureCode, Launch, Level, OperationOutcome, Status, StreamId};
use device_cuda::{Bytes, Config, CudaDevice, Program, Service, start};
use shm::memory::PeerSlice;
use std::path::Path;
use support::{
    Numbers, apart, begin, device, end, gpus, on_the_fake_driver, perceptron, stream, turn,
};

/// One unit, which sees all requests.
fn one_unit(ordinal: usize) -> Config {
    Config { ordinal, levels: 1, lowest: 1, ..Config::default() }
}

#[test]
fn request_that_comes_again_is_one_graph_on_the_fake_driver() {
    let (_, counts) = on_the_fake_driver("request_that_comes_again_gives_right_results", &[]);
    // From the second time on; a copy, a kernel, a copy.
    assert_eq!((counts.of("captured"), counts.of("graph_launches")), (2 * 3, 4 + 1));
    assert_eq!(counts.of("stale"), 0);
}

#[test]
fn request_that_comes_again_gives_right_results() {
    let _turn = turn();
    for ordinal in gpus() {
        let device = device(one_unit(ordinal));
        let context = device.create_context().unwrap();
        let stream = device.create_stream(context, Level(0)).unwrap();
        let first = Numbers::new(5000);
        for time in 0..5 {
            scales(&device, stream, &first, 1000 * time, 3);
        }
        // Another argument, other memory, and a part of the same one are other requests.
        scales(&device, stream, &first, 7, 4);
        scales(&device, stream, &Numbers::new(5000), 8, 3);
        let moved = Numbers { input: first.output.clone(), output: first.input.clone() };
        scales(&device, stream, &moved, 9, 3);
        // Memory that takes more of the GPU's own: what was captured stays right.
        scales(&device, stream, &Numbers::new(1 << 20), 9, 3);
        scales(&device, stream, &first, 10, 4);
        // The same address, but not the same memory.
        let address = first.input.as_ptr().addr();
        drop((first, moved));
        device.destroy_context(context).unwrap();
        let stream = support::stream(&device, 0);
        scales(&device, stream, &numbers_at(address), 11, 3);
    }
}

fn scales(device: &CudaDevice, stream: StreamId, numbers: &Numbers, first: usize, factor: u64) {
    numbers.fill(first);
    assert_eq!(numbers.scale(device, stream, factor).status, Status::Done);
    assert!(numbers.are_scaled(factor), "from {first} on");
}

/// As many numbers as were at this address, in memory that takes their place when they are gone.
fn numbers_at(address: usize) -> Numbers {
    // Kept, so that what is free above that address is not taken again and again.
    let mut others = Vec::new();
    testing::until_ok("the device lets go of memory", || {
        let numbers = Numbers::new(5000);
        if numbers.input.as_ptr().addr() == address {
            return Ok(numbers);
        }
        others.push(numbers);
        Err(others.len())
    })
}

const INPUTS: usize = 256;
const OUTPUTS: usize = 10;
const MOST: usize = 64;

fn example(path: &str) -> String {
    format!("{}/../../../examples/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn digits(weights: &str) -> Service {
    let configuration = example(weights);
    Service {
        name: "digits".into(),
        description: String::new(),
        program: Program::Library { path: perceptron(), configuration },
        input: Bytes { fixed: 0, per_item: 4 * INPUTS as u64 },
        output: Bytes { fixed: 0, per_item: 4 * OUTPUTS as u64 },
    }
}

/// Memory of a client for some images.
struct Images {
    input: PeerSlice,
    output: PeerSlice,
    count: usize,
}

impl Images {
    fn new(count: usize) -> Images {
        let memory = |numbers: usize| PeerSlice::anonymous(4 * numbers * count).unwrap();
        Images { input: memory(INPUTS), output: memory(OUTPUTS), count }
    }

    fn read(&self, device: &CudaDevice, stream: StreamId) -> OperationOutcome {
        let kernel = device.kernel("digits").unwrap();
        let launch = Launch::new(kernel, [self.count as u64, 0, 0, 0]);
        let event = Event::new();
        let (input, output) = (self.input.clone(), self.output.clone());
        device.launch(stream, Launch { input, output, ..launch }, &event).unwrap();
        end(&event)
    }
}

/// Number of the first test images that are read right, ten at a time in the same memory.
fn right(device: &CudaDevice, stream: StreamId, images: &Images, times: usize) -> usize {
    let pixels = std::fs::read(example("digits/images.bin")).unwrap();
    let labels = std::fs::read(example("digits/labels.bin")).unwrap();
    let some = pixels.chunks_exact(INPUTS * images.count).zip(labels.chunks_exact(images.count));
    let mut right = 0;
    for (pixels, labels) in some.take(times) {
        let values: Vec<f32> = pixels.iter().map(|byte| f32::from(*byte) / 255.0).collect();
        images.input.write_f32(0, &values).unwrap();
        assert_eq!(images.read(device, stream).status, Status::Done);
        let mut scores = vec![0.0; OUTPUTS * images.count];
        images.output.read_f32(0, &mut scores).unwrap();
        for (scores, label) in scores.chunks_exact(OUTPUTS).zip(labels) {
            let best = (0..OUTPUTS).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
            right += usize::from(best == usize::from(*label));
        }
    }
    right
}

#[test]
fn library_is_captured_and_replayed_on_the_fake_driver() {
    let (_, counts) = on_the_fake_driver("library_serves_and_refuses", &[]);
    // Five requests before the refusals and two in other memory after them: two copies and two
    // kernels each time; and a copy before a refusal.
    assert_eq!((counts.of("captured"), counts.of("graph_launches")), (2 * 4 + 1, 4 + 1));
    assert_eq!(counts.of("stale"), 0);
}

#[test]
fn library_serves_and_refuses() {
    let _turn = turn();
    for ordinal in gpus() {
        let services = vec![digits("gpu-service/weights.bin")];
        let device = device(Config { services, ..one_unit(ordinal) });
        let stream = stream(&device, 0);
        let images = Images::new(10);
        assert!(right(&device, stream, &images, 5) >= 48);
        // A refusal is that request's own affair, also when it comes again.
        let too_many = Images::new(MOST + 1);
        for _ in 0..3 {
            let ended = too_many.read(&device, stream);
            assert_eq!(ended.status, Status::Failed(FailureCode::Kernel as u32));
        }
        assert!(right(&device, stream, &Images::new(10), 2) >= 19);
        assert_eq!(device.statistics().resets, 0);
    }
}

#[test]
fn library_is_opened_anew_with_the_gpu_on_the_fake_driver() {
    on_the_fake_driver("library_is_opened_anew_with_the_gpu", &[]);
}

#[test]
fn library_is_opened_anew_with_the_gpu() {
    let _turn = turn();
    for ordinal in gpus() {
        let services = vec![digits("gpu-service/weights.bin")];
        let device = device(apart(Config { services, ..one_unit(ordinal) }));
        let (stream, images) = (stream(&device, 0), Images::new(10));
        for resets in 0..3 {
            assert!(right(&device, stream, &images, 5) >= 48);
            assert_eq!(device.statistics().resets, resets);
            end(&begin(&device, 0, "illegal", 0, None));
        }
    }
}

#[test]
fn library_that_does_not_open_is_named_with_its_own_words_on_the_fake_driver() {
    on_the_fake_driver("library_that_does_not_open_is_named_with_its_own_words", &[]);
}

#[test]
fn library_that_does_not_open_is_named_with_its_own_words() {
    let _turn = turn();
    for ordinal in gpus() {
        let refusal = |service: Service| {
            let config = Config { ordinal, services: vec![service], ..Config::default() };
            start(&config).err().unwrap().to_string()
        };
        let text = refusal(digits("gpu-service/no-such-weights.bin"));
        let all = ["service digits", "no-such-weights.bin: it cannot be opened"];
        assert!(all.iter().all(|part| text.contains(part)), "{text}");
        let text = refusal(digits("digits/labels.bin"));
        assert!(text.contains("labels.bin: not the weights of a perceptron"), "{text}");
        let missing = Path::new("/no/such/library.so");
        let configuration = String::new();
        let program = Program::Library { path: missing.into(), configuration };
        let text = refusal(Service { program, ..digits("gpu-service/weights.bin") });
        assert!(text.contains("/no/such/library.so"), "{text}");
    }
}
