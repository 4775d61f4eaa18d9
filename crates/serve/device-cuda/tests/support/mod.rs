//! GPUs to test on: those of this machine, or a fake driver that computes on processor cores
//! (examples/late-launch), in a process of its own.
#![allow(dead_code)]

use device::{Device, Event, Launch, Level, OperationOutcome, StreamId};
use device_cuda::{
    Bytes, Code, Config, CudaDevice, Function, HostProgram, Program, Service, devices, start,
};
use shm::memory::PeerSlice;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
pub(crate) use testing::PATIENCE;
use testing::until;

/// All GPUs; without a driver the test says so.
pub(crate) fn gpus() -> Vec<usize> {
    match devices() {
        Ok(found) => found.iter().map(|gpu| gpu.ordinal).collect(),
        Err(why) => {
            println!("SKIP: {why}");
            Vec::new()
        }
    }
}

/// With a process of its own for the GPU.
pub(crate) fn apart(config: Config) -> Config {
    let path = env!("CARGO_BIN_EXE_keeptime-gpu-host").into();
    Config { host: Some(HostProgram { path, arguments: Vec::new() }), ..config }
}

/// One test at a time: a process has one context of a GPU, which some tests break.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a target of a folder of examples, in the folder that `make` is given as BUILD.
fn make(example: &str, target: &str) -> PathBuf {
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join(example);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(example);
    let made = Command::new("make")
        .args(["-s", "-C", sources.to_str().unwrap(), &format!("BUILD={}", build.display())])
        .arg(build.join(target))
        .output()
        .expect("make starts");
    assert!(made.status.success(), "{example}: {}", String::from_utf8_lossy(&made.stderr));
    build
}

/// The folder of the fake driver.
pub(crate) fn fake_driver() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| make("late-launch", "libcuda.so.1"))
}

/// The library of examples/gpu-service.
pub(crate) fn perceptron() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| make("gpu-service", "libperceptron.so")).join("libperceptron.so")
}

/// Counts of the fake driver.
pub(crate) struct Counts(String);

impl Counts {
    pub(crate) fn of(&self, key: &str) -> u64 {
        let mut pairs = self.0.split_whitespace().filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(name, _)| *name == key);
        found.unwrap_or_else(|| panic!("no {key} in {}", self.0)).1.parse().unwrap()
    }
}

/// Runs a test of this program on the fake driver. The driver is loaded once in a process, so this
/// is another one.
pub(crate) fn on_the_fake_driver(test: &str, variables: &[(&str, &str)]) -> (String, Counts) {
    // Not by several of those processes at once.
    perceptron();
    let counts = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{test}-{}.counts", std::process::id()));
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("LD_LIBRARY_PATH", fake_driver())
        .env("FAKE_CUDA_COUNT", &counts)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let status = run.status;
    assert!(status.success(), "{status}\n{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("1 passed") && !said.contains("SKIP: "), "{said}");
    let line = std::fs::read_to_string(&counts).unwrap();
    std::fs::remove_file(&counts).unwrap();
    (said, Counts(line))
}

/// A function of faults.cu as a service, 256 items a block.
pub(crate) fn fault(name: &str, bytes: u64) -> Service {
    Service {
        name: name.into(),
        description: String::new(),
        program: Program::Kernel(Function {
            code: Code::Ptx(include_str!("../faults.ptx").into()),
            name: format!("kt_test_{name}"),
            threads: if bytes == 0 { 1 } else { 256 },
            items_per_block: if bytes == 0 { 0 } else { 256 },
            blocks_per_slice: 0,
            in_place: false,
        }),
        input: Bytes { fixed: 0, per_item: bytes },
        output: Bytes { fixed: 0, per_item: bytes },
    }
}

/// A GPU with the kernels of faults.cu and some more services.
pub(crate) fn device(config: Config) -> Arc<CudaDevice> {
    let mut services = vec![fault("illegal", 0), fault("endless", 0), fault("scale", 4)];
    services.extend(config.services.iter().cloned());
    start(&Config { services, ..config }).unwrap()
}

/// A stream of a context of its own.
pub(crate) fn stream(device: &CudaDevice, level: u8) -> StreamId {
    device.create_stream(device.create_context().unwrap(), Level(level)).unwrap()
}

/// Puts a launch without memory into a stream of its own.
pub(crate) fn begin(
    device: &CudaDevice,
    level: u8,
    kernel: &str,
    argument: u64,
    budget: Option<Duration>,
) -> Event {
    let budget_ns = budget.map(|budget| budget.as_nanos() as u64);
    let kernel = device.kernel(kernel).unwrap();
    let launch = Launch { budget_ns, ..Launch::new(kernel, [argument, 0, 0, 0]) };
    let event = Event::new();
    device.launch(stream(device, level), launch, &event).unwrap();
    event
}

/// The same on a device that does nothing else, once its GPU's process has it.
pub(crate) fn begin_alone(
    device: &CudaDevice,
    level: u8,
    kernel: &str,
    argument: u64,
    budget: Option<Duration>,
) -> Event {
    until("the units wait for orders", || units_at_work() == 0);
    let event = begin(device, level, kernel, argument, budget);
    until("a unit has its order", || units_at_work() > 0);
    event
}

/// Number of threads of a GPU's process that wait for no order, by the kernel's word.
fn units_at_work() -> usize {
    let tasks = |process: &str| {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter();
        tasks.flatten().flatten().map(|task| task.path())
    };
    let read = |task: &Path, file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
    let children = tasks("self").map(|task| read(&task, "children")).collect::<String>();
    let units = children.split_whitespace().flat_map(tasks);
    let units = units.filter(|task| read(task, "comm").starts_with("gpu-unit-"));
    // A mailbox is the only futex there that processes share: the operation is 0.
    let calls = units.map(|task| read(&task, "syscall"));
    calls.filter(|call| !call.is_empty() && call.split(' ').nth(2) != Some("0x0")).count()
}

pub(crate) fn end(event: &Event) -> OperationOutcome {
    event.wait_timeout(PATIENCE).expect("it ends")
}

/// Memory of a client for `scale`: as many numbers in as out.
pub(crate) struct Numbers {
    pub input: PeerSlice,
    pub output: PeerSlice,
}

impl Numbers {
    pub(crate) fn new(count: usize) -> Numbers {
        let whole = PeerSlice::anonymous(8 * count).unwrap();
        let part = |at| whole.slice(at, 4 * count).unwrap();
        Numbers { input: part(0), output: part(4 * count) }
    }

    pub(crate) fn launch(&self, device: &CudaDevice, factor: u64) -> Launch {
        let count = self.input.len() as u64 / 4;
        let launch = Launch::new(device.kernel("scale").unwrap(), [count, factor, 0, 0]);
        Launch { input: self.input.clone(), output: self.output.clone(), ..launch }
    }

    /// Writes numbers that begin with this one.
    pub(crate) fn fill(&self, first: usize) {
        let values: Vec<f32> = (0..self.input.len() / 4).map(|i| (first + i) as f32).collect();
        self.input.write_f32(0, &values).unwrap();
    }

    /// Returns true if the output is the factor times the input.
    pub(crate) fn are_scaled(&self, factor: u64) -> bool {
        let read = |from: &PeerSlice| {
            let mut values = vec![0.0; from.len() / 4];
            from.read_f32(0, &mut values).unwrap();
            values
        };
        let factor = factor as f32;
        read(&self.input).iter().zip(read(&self.output)).all(|(x, y)| y == factor * x)
    }

    /// Scales them in a stream.
    pub(crate) fn scale(
        &self,
        device: &CudaDevice,
        stream: StreamId,
        factor: u64,
    ) -> OperationOutcome {
        let event = Event::new();
        device.launch(stream, self.launch(device, factor), &event).unwrap();
        end(&event)
    }
}
