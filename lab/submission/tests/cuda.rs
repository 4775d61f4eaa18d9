//! The network on every NVIDIA GPU of this machine, if any, and on a fake driver that computes on
//! processor cores (examples/late-launch).

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use submission::network::{Network, Shape};
use submission::{Accelerator, Error, Method, Select};

/// Set for the process that has the fake driver.
const FAKE: &str = "KEEPTIME_TEST_FAKE_CUDA";
/// Methods that the fake driver lacks: it cannot link with the device runtime, launch from the GPU,
/// or loop.
const NOT_ON_FAKE: [Method; 3] =
    [Method::DynamicParallelism, Method::DeviceGraph, Method::ConditionalGraph];

/// All GPUs; says why if there is none.
fn gpus() -> Vec<Box<dyn Accelerator>> {
    let mut found = Vec::new();
    loop {
        match submission::open(&Select::Cuda(found.len())) {
            Ok(accelerator) => found.push(accelerator),
            Err(Error::Unavailable(why)) => {
                if found.is_empty() {
                    println!("SKIP: {why}");
                }
                return found;
            }
            Err(error) => panic!("GPU {}: {error}", found.len()),
        }
    }
}

/// Those of a GPU's methods that work; says why the others do not.
fn working(gpu: &dyn Accelerator) -> Vec<Method> {
    let methods = gpu.methods();
    let works = |(method, works): &(Method, Result<(), String>)| match works {
        Ok(()) => Some(*method),
        Err(why) => {
            println!("SKIP: {} of {}: {why}", method.name(), gpu.about().id);
            assert!(why.len() > 20, "no reason: {why:?}");
            None
        }
    };
    let working: Vec<Method> = methods.iter().filter_map(works).collect();
    assert_eq!(methods.len(), 6);
    assert!(working.contains(&Method::Streams) && working.contains(&Method::Graph));
    working
}

#[test]
fn every_gpu_computes_what_the_processor_does() {
    for mut gpu in gpus() {
        println!("{:?}", gpu.about());
        for method in working(gpu.as_ref()) {
            support::computes_what_the_processor_does(gpu.as_mut(), method);
            computes_a_deep_network(gpu.as_mut(), method);
            println!("ok: {} of {}", method.name(), gpu.about().id);
        }
    }
}

/// More kernels than streams hold, or than the GPU can launch itself without being told.
fn computes_a_deep_network(gpu: &mut dyn Accelerator, method: Method) {
    let network = Network::new(Shape { k: 1, l: 1000 }).unwrap();
    let [reference] = network.reference(&[1000]).try_into().unwrap();
    let mut built = gpu.build(method, &network).unwrap();
    built.run.submit().unwrap();
    built.run.wait().unwrap();
    let difference = built.run.output().unwrap().difference(&reference);
    assert!(difference <= network.tolerance(), "{}: {difference}", method.name());
}

#[test]
fn steps_are_reported_in_order_and_other_methods_refused() {
    for mut gpu in gpus() {
        let network = Network::new(Shape { k: 2, l: 3 }).unwrap();
        for method in [Method::CommandBuffer, Method::Model] {
            let refused = gpu.build(method, &network);
            assert!(matches!(refused.err(), Some(Error::Unavailable(_))), "{}", method.name());
        }
        for method in working(gpu.as_ref()) {
            let mut built = gpu.build(method, &network).unwrap();
            let names: Vec<&str> = built.steps.iter().map(|step| step.name).collect();
            let expected: &[&str] = match method {
                Method::Graph | Method::ConditionalGraph => {
                    &["compile", "allocate", "record", "instantiate", "upload"]
                }
                Method::DeviceGraph => &[
                    "compile",
                    "allocate",
                    "record",
                    "instantiate",
                    "upload",
                    "record",
                    "instantiate",
                    "upload",
                ],
                Method::PersistentKernel => &["compile", "allocate", "start"],
                _ => &["compile", "allocate"],
            };
            assert_eq!(names, expected, "{}", method.name());
            assert!(built.run.output().is_err(), "an output before the first submission");
            built.run.submit().unwrap();
            // While it runs.
            drop(built);
        }
    }
}

#[test]
fn gpu_that_is_not_there_is_an_error() {
    let error = submission::open(&Select::Cuda(99)).err().unwrap().to_string();
    assert!(error.contains("GPU 99") || error.contains("libcuda.so.1"), "{error}");
}

#[test]
fn methods_that_launch_from_the_gpu_say_what_is_missing() {
    if std::env::var_os(FAKE).is_none() {
        return;
    }
    for gpu in gpus() {
        for (method, works) in gpu.methods() {
            let expected = NOT_ON_FAKE.contains(&method);
            assert_eq!(works.is_err(), expected, "{}: {works:?}", method.name());
            if let Err(why) = works {
                // Path of the device runtime, from the test that started this process.
                let runtime = std::env::var("KEEPTIME_CUDADEVRT").unwrap();
                let says = if Path::new(&runtime).is_file() { "NOT_SUPPORTED" } else { &runtime };
                assert!(why.contains(says), "{why}");
            }
        }
    }
}

/// Builds the fake driver, once for all tests.
fn fake_driver() -> PathBuf {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let build = || {
        let fake = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-cuda");
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/late-launch");
        let make = Command::new("make")
            .args(["-s", "-C", examples, &format!("BUILD={}", fake.display())])
            .arg(fake.join("libcuda.so.1"))
            .status()
            .expect("make starts");
        assert!(make.success(), "the fake driver cannot be built");
        fake
    };
    BUILT.get_or_init(build).clone()
}

/// Runs a test of this file with the fake driver, which is loaded once in a process.
fn on_the_fake_driver(test: &str, runtime: &Path) -> String {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("LD_LIBRARY_PATH", fake_driver())
        .env(FAKE, "1")
        .env("KEEPTIME_CUDADEVRT", runtime)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    said
}

#[test]
fn fake_driver_computes_what_the_processor_does() {
    let said = on_the_fake_driver("every_gpu_computes_what_the_processor_does", Path::new("/"));
    for method in ["streams", "graph", "persistent-kernel"] {
        assert!(said.contains(&format!("ok: {method} of cuda:0")), "{said}");
    }
    for method in NOT_ON_FAKE {
        assert!(said.contains(&format!("SKIP: {} of cuda:0", method.name())), "{said}");
    }
}

#[test]
fn fake_driver_reports_steps_and_refuses_what_it_cannot_do() {
    on_the_fake_driver("steps_are_reported_in_order_and_other_methods_refused", Path::new("/"));
    let test = "methods_that_launch_from_the_gpu_say_what_is_missing";
    on_the_fake_driver(test, Path::new("/nowhere/libcudadevrt.a"));
    // A file, which the driver would have to link with.
    on_the_fake_driver(test, &std::env::current_exe().unwrap());
}
