//! Accelerators that are no processor cores, through the server: each test says when the machine
//! lacks what it needs.

mod support;

use accel::{CallbackId, Client, Error, Registration, Request, RequestOutcome, Status, Ticket};
use bandwidth::holders::{Config, Holders};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use support::{Fixture, PATIENCE, one_gpu, serve};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/digits");

/// Runs a test of this program on a fake CUDA driver that computes on processor cores. The driver
/// is loaded once in a process, so this is another one.
fn on_the_fake_driver(test: &str) {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/late-launch");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("late-launch");
    static MAKING: Mutex<()> = Mutex::new(());
    let making = MAKING.lock();
    let make = Command::new("make")
        .args(["-s", "-C", examples, &format!("BUILD={}", build.display())])
        .arg(build.join("libcuda.so.1"))
        .status()
        .expect("make starts");
    drop(making);
    assert!(make.success(), "the fake driver cannot be built");
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", &build)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("1 passed") && !said.contains("SKIP: "), "{said}");
}

/// Not a test: what a server here starts to have a GPU.
#[test]
#[ignore = "has a GPU for the process at the other end of the standard input"]
fn gpu_host() {
    device_cuda::host::serve();
}

/// Adds vectors on the server's device, at addresses that are no multiple of anything.
fn add_vectors(fixture: &support::Fixture) {
    const COUNT: usize = 1001;
    let mut client = fixture.client();
    let of = Registration::service("vecadd").chain("sum", 5).memory(COUNT * 12 + 4);
    let add = client.register(&of).unwrap();
    let memory = client.memory(add).unwrap();
    let values: Vec<f32> = (0..2 * COUNT).map(|i| i as f32).collect();
    memory.write_f32(1, &values).unwrap();
    let request = Request::new()
        .arguments(&[COUNT as u64])
        .input(4, COUNT * 8)
        .output(4 + COUNT * 8, COUNT * 4);
    client.run(add, &request).unwrap();
    let mut sums = vec![0.0; COUNT];
    client.memory(add).unwrap().read_f32(1 + 2 * COUNT, &mut sums).unwrap();
    assert!(sums.iter().enumerate().all(|(i, sum)| *sum == (COUNT + 2 * i) as f32));
}

#[test]
fn vulkan_device_serves_requests() {
    let found = device_vulkan::devices();
    let usable = found.as_ref().map(|found| found.iter().find(|device| device.missing.is_none()));
    let Ok(Some(device)) = usable else { return println!("SKIP: no Vulkan device: {found:?}") };
    let keys = format!("buckets: 3, device: \"vulkan:{}\", spin: true", device.index);
    add_vectors(&serve(&one_gpu(&keys, "")));
}

#[test]
fn cuda_device_serves_requests() {
    match device_cuda::devices() {
        Ok(found) if !found.is_empty() => {
            add_vectors(&serve(&one_gpu("buckets: 3, device: \"cuda:0\"", "")));
        }
        other => println!("SKIP: no GPU: {other:?}"),
    }
}

#[test]
fn endless_request_ends_its_session_on_the_fake_driver() {
    on_the_fake_driver("endless_request_ends_its_session_and_no_other_suffers");
}

/// A client on one accelerator.
struct One {
    client: Client,
    callback: CallbackId,
}

impl One {
    fn new(fixture: &Fixture, of: Registration) -> One {
        let mut client = fixture.client();
        let callback = client.register(&of).unwrap();
        One { client, callback }
    }

    fn submit(&mut self) -> Ticket {
        self.client.submit(self.callback, &Request::new()).unwrap()
    }

    fn wait(&mut self, ticket: &mut Ticket) -> Result<RequestOutcome, Error> {
        self.client.wait(ticket, Some(PATIENCE))
    }

    fn run(&mut self) -> Status {
        let mut ticket = self.submit();
        self.wait(&mut ticket).unwrap().status
    }
}

#[test]
fn endless_request_ends_its_session_and_no_other_suffers() {
    endless_beside(|other| (0..20).for_each(|_| assert_eq!(other.run(), Status::Done)));
}

/// Bounds in time, for a machine without other work: `cargo xtask soak` runs them.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn others_wait_less_than_100_ms_beside_an_endless_request_on_the_fake_driver() {
        on_the_fake_driver("soak::others_wait_less_than_100_ms_beside_an_endless_request");
    }

    #[test]
    #[ignore = "soak"]
    fn others_wait_less_than_100_ms_beside_an_endless_request() {
        endless_beside(|other| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(450) {
                let start = Instant::now();
                assert_eq!(other.run(), Status::Done);
                assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// Runs the client of another accelerator while a request that never ends is on a GPU, and checks
/// the ends of both.
fn endless_beside(others: impl FnOnce(&mut One)) {
    match device_cuda::devices() {
        Ok(found) if !found.is_empty() => {}
        other => return println!("SKIP: no GPU: {other:?}"),
    }
    let ptx = concat!(env!("CARGO_MANIFEST_DIR"), "/../device-cuda/tests/faults.ptx");
    let endless = format!("{{name: endless, code: \"{ptx}\", function: kt_test_endless}}");
    let fixture = serve(&format!(
        "accelerators: [{{id: gpu0, buckets: 3, device: \"cuda:0\", kernels: [{endless}]}}, \
         {{id: cpu0, buckets: 3}}]\nserver: {{priority: 0}}"
    ));
    let on = |kernel: &str, chain: &str, accelerator: &str, priority: u32| {
        Registration::service(kernel).chain(chain, priority).accelerator(accelerator)
    };
    let declared = Duration::from_millis(1);
    let mut bad = One::new(&fixture, on("endless", "bad", "gpu0", 5).exec(declared));
    let mut good = One::new(&fixture, on("empty", "good", "gpu0", 9).exec(declared));
    let mut other = One::new(&fixture, on("empty", "other", "cpu0", 5));
    assert_eq!(good.run(), Status::Done);

    let start = Instant::now();
    // The second one waits behind the first one, and goes with it.
    let (mut first, mut second) = (bad.submit(), bad.submit());
    fixture.until("it runs", |counters| counters.running == 1);
    let mut beside = good.submit();
    others(&mut other);

    assert_eq!(bad.wait(&mut first).unwrap().status, Status::DeviceLost);
    assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
    let farewell = bad.wait(&mut second).unwrap_err().to_string();
    assert!(farewell.contains("gpu0: chain bad, request 1 of process"), "{farewell}");
    assert!(farewell.contains("never ended"), "{farewell}");

    // It ran at the same time: it is lost, or it was done before.
    let status = good.wait(&mut beside).unwrap().status;
    assert!([Status::Done, Status::DeviceLost].contains(&status), "{status:?}");
    let told = fixture.logged("gpu0: chain good, request 2 of process");
    assert_eq!(told, status == Status::DeviceLost);
    for _ in 0..20 {
        assert_eq!(good.run(), Status::Done);
    }
    add_vectors(&fixture);
    let statistics = fixture.server().devices()[0].1.statistics();
    assert_eq!(statistics.resets, 1);
    fixture.until("its session is gone", |counters| counters.sessions == 2);
}

#[test]
fn illegal_access_is_told_and_the_gpu_comes_back_on_the_fake_driver() {
    on_the_fake_driver("illegal_access_is_told_and_the_gpu_comes_back");
}

#[test]
fn illegal_access_is_told_and_the_gpu_comes_back() {
    match device_cuda::devices() {
        Ok(found) if !found.is_empty() => {}
        other => return println!("SKIP: no GPU: {other:?}"),
    }
    let ptx = concat!(env!("CARGO_MANIFEST_DIR"), "/../device-cuda/tests/faults.ptx");
    let illegal = format!("{{name: illegal, code: \"{ptx}\", function: kt_test_illegal}}");
    let fixture = serve(&format!(
        "accelerators: [{{id: gpu0, buckets: 3, device: \"cuda:0\", kernels: [{illegal}]}}, \
         {{id: cpu0, buckets: 3}}]\nserver: {{priority: 0}}"
    ));
    let on = |kernel: &str, chain: &str, accelerator: &str, priority: u32| {
        Registration::service(kernel).chain(chain, priority).accelerator(accelerator)
    };
    let mut bad = One::new(&fixture, on("illegal", "bad", "gpu0", 5));
    let mut other = One::new(&fixture, on("empty", "other", "cpu0", 5));
    for resets in 1..=3 {
        add_vectors(&fixture);
        assert_eq!(bad.run(), Status::DeviceLost);
        fixture.until_logged(&format!("gpu0: chain bad, request {resets} of process"));
        assert_eq!(other.run(), Status::Done);
        add_vectors(&fixture);
        assert_eq!(fixture.server().devices()[0].1.statistics().resets, resets);
    }
    // It is not its fault that it was met: its session goes on.
    fixture.until("those that ended are gone", |counters| counters.sessions == 2);
    assert_eq!(bad.run(), Status::DeviceLost);
}

#[test]
fn device_that_is_lost_gives_the_bandwidth_lock_back_on_the_fake_driver() {
    on_the_fake_driver("device_that_is_lost_gives_the_bandwidth_lock_back");
}

#[test]
fn device_that_is_lost_gives_the_bandwidth_lock_back() {
    match device_cuda::devices() {
        Ok(found) if !found.is_empty() => {}
        other => return println!("SKIP: no GPU: {other:?}"),
    }
    let name = format!("keeptime-lost-device-{}.sock", std::process::id());
    let socket = std::env::temp_dir().join(name);
    let config = Config { socket: socket.clone(), ..Config::default() };
    let holders = Holders::start(config).unwrap();
    let ptx = concat!(env!("CARGO_MANIFEST_DIR"), "/../device-cuda/tests/faults.ptx");
    let kernel =
        |name: &str| format!("{{name: {name}, code: \"{ptx}\", function: kt_test_{name}}}");
    let service = |name: &str| {
        format!("{{name: locked-{name}, accelerator: gpu0, kernel: {name}, bandwidth_lock: true}}")
    };
    let fixture = serve(&format!(
        "accelerators: [{{id: gpu0, buckets: 3, device: \"cuda:0\", kernels: [{}, {}]}}]
services: [{}, {}]
server: {{priority: 0, bandwidth_socket: \"{}\"}}",
        kernel("illegal"),
        kernel("endless"),
        service("illegal"),
        service("endless"),
        socket.display()
    ));
    let on = |service: &str| Registration::service(service).chain(service, 5);
    let mut illegal = One::new(&fixture, on("locked-illegal"));
    assert_eq!(illegal.run(), Status::DeviceLost);
    assert!(!holders.is_held());
    let mut endless = One::new(&fixture, on("locked-endless").exec(Duration::from_millis(1)));
    let mut ticket = endless.submit();
    fixture.until("it runs", |counters| counters.running == 1);
    assert!(holders.is_held());
    assert_eq!(endless.wait(&mut ticket).unwrap().status, Status::DeviceLost);
    assert!(!holders.is_held());
    assert_eq!(holders.status().holders[0].acquisitions, 2);
}

#[test]
fn model_of_the_system_file_classifies_digits() {
    if !std::env::var_os(device_onnx::LIBRARY_VARIABLE).is_some_and(|at| Path::new(&at).exists()) {
        return println!("SKIP: {} is not set", device_onnx::LIBRARY_VARIABLE);
    }
    const PIXELS: usize = 256;
    let images = std::fs::read(format!("{DIGITS}/images.bin")).unwrap();
    let labels = std::fs::read(format!("{DIGITS}/labels.bin")).unwrap();
    let model = format!("{{name: digits, model: {DIGITS}/model.onnx, batch: 8}}");
    let fixture = serve(&one_gpu(&format!("buckets: 2, device: onnx, kernels: [{model}]"), ""));
    let mut client = fixture.client();
    let bytes = PIXELS * 4 + 40;
    let see = Registration::service("digits").chain("signs", 3).memory(bytes);
    let see = client.register(&see).unwrap();
    let mut right = 0;
    let count = 100;
    for (image, label) in images.chunks_exact(PIXELS).zip(&labels).take(count) {
        let pixels: Vec<f32> = image.iter().map(|byte| f32::from(*byte) / 255.0).collect();
        client.memory(see).unwrap().write_f32(0, &pixels).unwrap();
        let request = Request::new().arguments(&[1]).input(0, PIXELS * 4).output(PIXELS * 4, 40);
        client.run(see, &request).unwrap();
        let mut scores = [0.0; 10];
        client.memory(see).unwrap().read_f32(PIXELS, &mut scores).unwrap();
        let best = (0..10).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
        right += usize::from(best == usize::from(*label));
    }
    assert!(right * 100 >= 95 * count, "{right} of {count} are right");
}
