//! Duration of an empty launch, beside the least that two threads can do.
//!
//! In turns, so that a disturbance of the machine meets all of them: a bare futex ping-pong
//! between two threads, an empty launch that the main thread waits for, and launches that the
//! observer of the one before submits. Prints p50, p99 and the maximum of each in nanoseconds.
//!
//! `cargo run --release -p keeptime-device --example block_latency [UNIT_CORE]`

use device::software::{Config, SoftwareDevice};
use device::{Device, Event, Launch, Level, Observer, OperationOutcome, StreamId};
use realtime::clock::monotonic_ns;
use realtime::work::Calibration;
use rustix::thread::futex::{self, Flags};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const TURNS: usize = 20;
const PER_TURN: usize = 2_000;

fn main() {
    let cores = std::env::args().skip(1).filter_map(|core| core.parse().ok()).collect();
    let calibration = Some(Calibration { iterations_per_us: 300.0, spread: 0.0 });
    let config = Config { cores, calibration, ..Config::default() };
    let device = SoftwareDevice::on_cores(config).expect("the device starts");
    let context = device.create_context().expect("a new device has room");
    let stream = device.create_stream(context, Level(0)).expect("level 0 exists");

    let mut bare = Vec::new();
    let mut starts = Vec::new();
    let mut trips = Vec::new();
    let mut chained = Vec::new();
    for _ in 0..TURNS {
        ping_pong(&mut bare);
        round_trips(&*device, stream, &mut starts, &mut trips);
        chain(&device, stream, &mut chained);
    }
    println!("{:34} {:>8} {:>8} {:>8}", "ns", "p50", "p99", "max");
    print("futex ping-pong, round trip", bare);
    print("launch to start", starts);
    print("launch to completed and awake", trips);
    print("launch to launch in observer", chained);
}

fn print(name: &str, mut samples: Vec<u64>) {
    samples.sort_unstable();
    let at = |percent: usize| samples[(samples.len() - 1) * percent / 100];
    println!("{name:34} {:8} {:8} {:8}", at(50), at(99), at(100));
}

/// Two threads hand a token to each other; each sleeps until it has it.
fn ping_pong(samples: &mut Vec<u64>) {
    let token = AtomicU32::new(0);
    let wait_for = |mine: u32| {
        loop {
            let now = token.load(Ordering::Acquire);
            if now == mine {
                return;
            }
            let _ = futex::wait(&token, Flags::PRIVATE, now, None);
        }
    };
    let hand_over = |to: u32| {
        token.store(to, Ordering::Release);
        let _ = futex::wake(&token, Flags::PRIVATE, 1);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..PER_TURN {
                wait_for(1);
                hand_over(0);
            }
        });
        for _ in 0..PER_TURN {
            let start = monotonic_ns();
            hand_over(1);
            wait_for(0);
            samples.push(monotonic_ns() - start);
        }
    });
}

fn empty(device: &dyn Device) -> Launch {
    Launch::new(device.kernel("empty").expect("every device has it"), [0; 4])
}

fn round_trips(device: &dyn Device, stream: StreamId, starts: &mut Vec<u64>, trips: &mut Vec<u64>) {
    let event = Event::new();
    for _ in 0..PER_TURN {
        let start = monotonic_ns();
        device.launch(stream, empty(device), &event).expect("nothing else runs");
        let outcome = event.wait();
        trips.push(monotonic_ns() - start);
        starts.push(outcome.started_ns - start);
    }
}

/// Launches again from `completed`, and notes the time between launches.
struct Chain {
    device: Arc<SoftwareDevice>,
    stream: StreamId,
    launch: Launch,
    left: AtomicU32,
    last_ns: AtomicU64,
    samples: Mutex<Vec<u64>>,
    event: Mutex<Option<Event>>,
    end: Event,
}

impl Observer for Chain {
    fn completed(&self, _: u64, _: &OperationOutcome) {
        let now_ns = monotonic_ns();
        let before_ns = self.last_ns.swap(now_ns, Ordering::Relaxed);
        self.samples.lock().expect("no panic").push(now_ns - before_ns);
        let last = self.left.fetch_sub(1, Ordering::Relaxed) == 1;
        let event = self.event.lock().expect("no panic");
        let event = if last { &self.end } else { event.as_ref().expect("there until the end") };
        self.device.launch(self.stream, self.launch.clone(), event).expect("nothing else runs");
    }
}

fn chain(device: &Arc<SoftwareDevice>, stream: StreamId, samples: &mut Vec<u64>) {
    let chain = Arc::new(Chain {
        device: device.clone(),
        stream,
        launch: empty(&**device),
        left: AtomicU32::new(PER_TURN as u32),
        last_ns: AtomicU64::new(monotonic_ns()),
        samples: Mutex::new(Vec::with_capacity(PER_TURN)),
        event: Mutex::new(None),
        end: Event::new(),
    });
    let event = Event::observed(chain.clone(), 0);
    *chain.event.lock().expect("no panic") = Some(event.clone());
    device.launch(stream, empty(&**device), &event).expect("nothing else runs");
    while chain.left.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    chain.event.lock().expect("no panic").take();
    samples.append(&mut chain.samples.lock().expect("no panic"));
}
