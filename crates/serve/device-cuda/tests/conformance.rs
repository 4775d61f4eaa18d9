//! The conformance suite on the GPUs of this machine, if any, and on a fake driver that computes on
//! processor cores (examples/late-launch); and services that a user defines, which need a GPU.

mod support;

use device::conformance;
use device::{Device, Event, Launch, Level, Status};
use device_cuda::{Bytes, Code, Config, CudaDevice, Function, Program, Service, start};
use shm::memory::PeerSlice;
use std::sync::Arc;
use support::{apart, gpus, on_the_fake_driver};

#[test]
fn conforms_on_the_fake_driver() {
    let (said, counts) = on_the_fake_driver("every_gpu_conforms", &[]);
    assert!(said.contains("ok    matmul multiplies"), "{said}");
    assert_eq!(counts.of("stale"), 0);
}

#[test]
fn every_gpu_conforms() {
    for ordinal in gpus() {
        let here = |spins, blocks_per_slice| Config {
            ordinal,
            spins,
            blocks_per_slice,
            ..Config::default()
        };
        // The last ones have a process of their own for the GPU.
        let all = [here(false, 0), here(true, 0), here(false, 5)];
        for config in all.into_iter().chain([apart(here(true, 5)), apart(here(false, 0))]) {
            let device = start(&config).unwrap();
            let report = conformance::run(device);
            println!("{report}");
            assert!(report.passed(), "\n{report}");
            assert_eq!(report.without_kernel().count(), 0, "\n{report}");
        }
    }
}

/// y = a x, by the user's own code; 100 elements a block, 3 blocks a slice.
fn scale(code: &str) -> Service {
    Service {
        name: "scale".into(),
        description: "y = a x; arguments: n, a; input: f32 x[n]; output: f32 y[n]".into(),
        program: Program::Kernel(Function {
            code: Code::Cuda(code.into()),
            name: "scale".into(),
            threads: 100,
            items_per_block: 100,
            blocks_per_slice: 3,
            in_place: false,
        }),
        input: Bytes { fixed: 0, per_item: 4 },
        output: Bytes { fixed: 0, per_item: 4 },
    }
}

const SCALE: &str = r#"
extern "C" __global__ void scale(const float *x, float *y, unsigned long long *,
                                 unsigned long long n, unsigned long long a, unsigned long long,
                                 unsigned long long, unsigned first) {
    unsigned long long i = (unsigned long long)(first + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = (float)a * x[i];
}"#;

fn run(device: &Arc<CudaDevice>, launch: Launch) -> Status {
    let stream = device.create_stream(device.create_context().unwrap(), Level(1)).unwrap();
    let event = Event::new();
    device.launch(stream, launch, &event).unwrap();
    event.wait().status
}

#[test]
fn service_in_slices_computes_all_and_nothing_else() {
    for ordinal in gpus() {
        let services = vec![scale(SCALE)];
        let device = start(&Config { ordinal, services, ..Config::default() }).unwrap();
        const COUNT: usize = 12_345;
        let values: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
        let input = PeerSlice::anonymous(COUNT * 4).unwrap();
        input.write_f32(0, &values).unwrap();
        let output = PeerSlice::anonymous(COUNT * 4 + 4).unwrap();
        output.write_f32(COUNT, &[7.0]).unwrap();
        let mut launch = Launch::new(device.kernel("scale").unwrap(), [COUNT as u64, 3, 0, 0]);
        (launch.input, launch.output) = (input, output.clone());
        let before = device.statistics().blocks;
        assert_eq!(run(&device, launch), Status::Done);
        assert_eq!(device.statistics().blocks - before, 42);
        let mut got = vec![0.0; COUNT + 1];
        output.read_f32(0, &mut got).unwrap();
        assert_eq!(got.pop(), Some(7.0));
        assert!(got.iter().zip(values).all(|(got, value)| *got == 3.0 * value));
    }
}

#[test]
fn service_that_does_not_compile_is_named_with_the_compilers_words() {
    for ordinal in gpus() {
        let services = vec![scale("extern \"C\" __global__ void scale( { }")];
        let error = start(&Config { ordinal, services, ..Config::default() }).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("service scale") && text.contains("error"), "{text}");
    }
}

#[test]
fn gpu_that_is_not_there_is_an_error() {
    let error = start(&Config { ordinal: 99, ..Config::default() }).err().unwrap().to_string();
    assert!(error.contains("GPU 99") || error.contains("libcuda.so.1"), "{error}");
}
