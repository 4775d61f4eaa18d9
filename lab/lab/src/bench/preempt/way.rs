//! Four ways of getting two kernels onto one accelerator.
//!
//! - `streams`: this process has the device, and two streams of one context, one at the lowest and
//!   one at the highest level;
//! - `processes`: each has a device of its own in a process of its own, as programs have that know
//!   nothing of each other; whatever level they ask for counts only among their own;
//! - `server`: two chains of an accelerator server, at the lowest and the highest priority;
//! - `sliced`: the same, and the server gives each kernel out in several slices. It is for devices
//!   that otherwise take a kernel whole.

use std::sync::Arc;

use accel::{CallbackId, Client, Registration, Request, Ticket};
use accel_server::Options;
use anyhow::{Context, anyhow, ensure};
use device::{ContextId, Device, Event, Launch, Level, Status, StreamId};
use realtime::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use shm::PeerSlice;
use trial::{Child, Parent};

use super::super::service::Service;
use crate::child;

/// Way to run an urgent kernel behind a less urgent one.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    Streams,
    Processes,
    Server,
    Sliced,
}

/// Kernel, at a size that takes 100 to 200 microseconds on a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(super) enum Kernel {
    Matmul,
    Reduce,
    Vecadd,
    Histogram,
}

/// The accelerator, and where its threads are.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Place {
    /// Device as in a system file.
    pub device: String,
    pub cores: Vec<usize>,
    /// Priority of the server and its device; 0 for the ordinary policy.
    pub priority: u8,
    pub spin: bool,
    /// Thread blocks per slice of the device's own kernels; 0: all.
    pub blocks_per_slice: u32,
}

/// Two kernels, one of them urgent.
pub(super) trait Way {
    /// Launches the less urgent one.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// Runs the urgent one, and returns how long that took, from before its submission until its
    /// end was known, in nanoseconds.
    fn urgent(&mut self) -> anyhow::Result<u64>;

    /// Waits for the less urgent one: when it started and when it finished.
    fn end(&mut self) -> anyhow::Result<(u64, u64)>;
}

impl Kind {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Streams => "streams",
            Kind::Processes => "processes",
            Kind::Server => "server",
            Kind::Sliced => "sliced",
        }
    }

    /// Returns the reason why a device has no such way, if it has none.
    pub(super) fn missing(self, place: &Place) -> Option<String> {
        (self == Kind::Sliced && !place.is_cuda()).then(|| {
            let device = &place.device;
            format!("{device} always runs kernels in slices: `server` includes slicing")
        })
    }

    /// Thread blocks of a slice if the kernel is to have so many slices; 0 for a way without.
    pub(super) fn blocks_per_slice(self, place: &Place, kernel: Kernel, slices: u32) -> u32 {
        let Work { kernel, arguments, .. } = kernel.work(place);
        let blocks = device_cuda::thread_blocks(kernel, arguments).unwrap_or(0);
        let each = blocks.div_ceil(u64::from(slices));
        if self == Kind::Sliced { u32::try_from(each).unwrap_or(u32::MAX) } else { 0 }
    }

    /// Starts whatever it needs.
    pub(super) fn open(self, place: &Place, kernel: Kernel) -> anyhow::Result<Box<dyn Way>> {
        let work = kernel.work(place);
        Ok(match self {
            Kind::Streams => {
                let device = place.start()?;
                let context = device.create_context()?;
                let lane = |level| Lane::new(&device, context, level, &work);
                Box::new(Streams { low: lane(0)?, high: lane(5)? })
            }
            Kind::Processes => {
                let order = Order { place: place.clone(), kernel };
                let mut peer = Child::order("the other process", &child::Order::Preempt(order))?;
                peer.hear::<()>()?;
                let device = place.start()?;
                let high = Lane::new(&device, device.create_context()?, 5, &work)?;
                Box::new(Processes { peer, high })
            }
            Kind::Server | Kind::Sliced => Box::new(Chains::start(place, &work)?),
        })
    }
}

/// A kernel with its size.
#[derive(Clone, Copy)]
pub(super) struct Work {
    kernel: &'static str,
    arguments: [u64; 4],
    input: usize,
    output: usize,
}

impl Kernel {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kernel::Matmul => "matmul",
            Kernel::Reduce => "reduce",
            Kernel::Vecadd => "vecadd",
            Kernel::Histogram => "histogram",
        }
    }

    fn work(self, place: &Place) -> Work {
        // A processor core, or a driver that uses them, computes less in the same time.
        let small = !place.is_cuda();
        let (side, count, sums, values) =
            if small { (128, 1 << 18, 1 << 18, 1 << 18) } else { (512, 1 << 20, 1 << 19, 1 << 17) };
        let (arguments, input, output) = match self {
            Kernel::Matmul => ([side, 0, 0, 0], 8 * side * side, 4 * side * side),
            Kernel::Reduce => ([count, 0, 0, 0], 4 * count, 8),
            Kernel::Vecadd => ([sums, 0, 0, 0], 8 * sums, 4 * sums),
            Kernel::Histogram => ([values, 256, 0, 0], 4 * values, 4 * 256),
        };
        Work { kernel: self.name(), arguments, input: input as usize, output: output as usize }
    }
}

impl Place {
    fn is_cuda(&self) -> bool {
        self.device.starts_with("cuda")
    }

    /// Configuration in the form of a system file.
    fn config(&self) -> String {
        let Place { device, cores, priority, spin, blocks_per_slice } = self;
        // The server's own threads on the first of the cores.
        let first = cores.first().copied().unwrap_or(0);
        let spin = if *spin && device != "cpu" { ", spin: true" } else { "" };
        let slice = match blocks_per_slice {
            0 => String::new(),
            blocks => format!(", blocks_per_slice: {blocks}"),
        };
        format!(
            "accelerators: [{{id: bench, buckets: 6, device: \"{device}\", cores: {cores:?}{spin}{slice}}}]\n\
             server: {{cores: [{first}], priority: {priority}}}\n"
        )
    }

    /// The device as the server has it.
    fn start(&self) -> anyhow::Result<Arc<dyn Device>> {
        let system = system::System::parse(&self.config(), "bench.yaml")?;
        Ok(accel_server::start_device(&system, "bench", &Options::default())?)
    }
}

/// Stream with a kernel.
struct Lane {
    device: Arc<dyn Device>,
    stream: StreamId,
    launch: Launch,
    event: Event,
}

impl Lane {
    fn new(
        device: &Arc<dyn Device>,
        context: ContextId,
        level: u8,
        work: &Work,
    ) -> anyhow::Result<Lane> {
        let no_kernel = || anyhow!("the device has no kernel {}", work.kernel);
        let kernel = device.kernel(work.kernel).ok_or_else(no_kernel)?;
        let stream = device.create_stream(context, Level(level))?;
        let (input, output) =
            (PeerSlice::anonymous(work.input)?, PeerSlice::anonymous(work.output)?);
        let launch = Launch { input, output, ..Launch::new(kernel, work.arguments) };
        Ok(Lane { device: device.clone(), stream, launch, event: Event::new() })
    }

    fn begin(&self) -> anyhow::Result<()> {
        Ok(self.device.launch(self.stream, self.launch.clone(), &self.event)?)
    }

    fn end(&self) -> anyhow::Result<(u64, u64)> {
        let outcome = self.event.wait();
        ensure!(outcome.status == Status::Done, "a kernel ended as {:?}", outcome.status);
        Ok((outcome.started_ns, outcome.finished_ns))
    }

    fn run(&self) -> anyhow::Result<u64> {
        let begin = monotonic_ns();
        self.begin()?;
        self.end()?;
        Ok(monotonic_ns() - begin)
    }
}

struct Streams {
    low: Lane,
    high: Lane,
}

impl Way for Streams {
    fn begin(&mut self) -> anyhow::Result<()> {
        self.low.begin()
    }

    fn urgent(&mut self) -> anyhow::Result<u64> {
        self.high.run()
    }

    fn end(&mut self) -> anyhow::Result<(u64, u64)> {
        self.low.end()
    }
}

struct Processes {
    peer: Child,
    high: Lane,
}

impl Way for Processes {
    fn begin(&mut self) -> anyhow::Result<()> {
        self.peer.tell(&())
    }

    fn urgent(&mut self) -> anyhow::Result<u64> {
        self.high.run()
    }

    fn end(&mut self) -> anyhow::Result<(u64, u64)> {
        self.peer.hear()
    }
}

/// Order to the process of the less urgent kernel. Each message has it launch the kernel, and it
/// says later when that started and finished. It does not say that it has launched: on one core
/// with the device's threads it would get to that only after the kernel.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    place: Place,
    kernel: Kernel,
}

impl Order {
    /// Launches on each order until the parent ends.
    pub(crate) fn run(&self, parent: &mut Parent) -> anyhow::Result<()> {
        let device = self.place.start()?;
        let work = self.kernel.work(&self.place);
        let lane = Lane::new(&device, device.create_context()?, 0, &work)?;
        lane.run()?;
        parent.tell(&())?;
        while let Some(()) = parent.hear_more()? {
            lane.begin()?;
            parent.tell(&lane.end()?)?;
        }
        Ok(())
    }
}

/// Two clients of a server.
struct Chains {
    low: Chain,
    high: Chain,
    running: Option<Ticket>,
    _service: Service,
}

struct Chain {
    client: Client,
    callback: CallbackId,
    request: Request,
}

impl Chains {
    fn start(place: &Place, work: &Work) -> anyhow::Result<Chains> {
        let service = Service::with(&place.config())?;
        let chain = |name: &str, priority: u32| {
            let mut client = Client::connect(&service.socket)?;
            let registration = Registration::service(work.kernel).chain(name, priority);
            let callback = client.register(&registration.memory(work.input + work.output))?;
            let request = Request::new()
                .arguments(&work.arguments)
                .input(0, work.input)
                .output(work.input, work.output);
            Ok::<_, anyhow::Error>(Chain { client, callback, request })
        };
        let (low, high) = (chain("low", 1)?, chain("high", 99)?);
        Ok(Chains { low, high, running: None, _service: service })
    }
}

impl Way for Chains {
    fn begin(&mut self) -> anyhow::Result<()> {
        let Chain { client, callback, request } = &mut self.low;
        self.running = Some(client.submit(*callback, request)?);
        Ok(())
    }

    fn urgent(&mut self) -> anyhow::Result<u64> {
        let Chain { client, callback, request } = &mut self.high;
        let begin = monotonic_ns();
        client.run(*callback, request)?;
        Ok(monotonic_ns() - begin)
    }

    fn end(&mut self) -> anyhow::Result<(u64, u64)> {
        let mut ticket = self.running.take().context("no kernel was begun")?;
        let outcome = self.low.client.wait(&mut ticket, None)?.ok()?;
        Ok((outcome.started_ns, outcome.finished_ns))
    }
}
