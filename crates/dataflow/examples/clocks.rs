//! The same small pipeline on the wall clock and on the virtual one: how well their reaction
//! times agree, and what a point of the trace costs.
//!
//! `cargo run --release -p keeptime-dataflow --example clocks [SECONDS]`. It wants three idle cores, and the
//! right to use SCHED_FIFO; it says so if it gets less.

use std::hint::black_box;

use dataflow::trace::{Event, Point, Reactions, Ring, merge};
use dataflow::{
    Cancel, Costs, Cx, Graph, Group, Load, Message, Module, Part, Path, Settings, Source, SourceId,
    Stop, Virtual, Wall,
};
use realtime::clock::{monotonic_ns, sleep_until_ns};

const PERIOD_NS: u64 = 20_000_000;
/// From the capture of a frame to its arrival.
const TRANSFER_NS: u64 = 500_000;

/// Relaxes a chain of masses, object by object: the time is linear in the number of objects.
struct Relax {
    steps: u32,
}

impl Module for Relax {
    type In = Message<u64>;
    type Out = u64;

    fn estimate(&self, objects: &Self::In, _: Path) -> Load {
        Load::of(&[**objects as f64])
    }

    fn run(&mut self, cx: &mut Cx<u64>, objects: &Self::In, path: Path) -> Result<u64, Stop> {
        for object in 0..**objects {
            if path == Path::Fast && object == 2 {
                cx.publish_partial(object, Part::first(2));
            }
            let mut chain = [object as f64; 64];
            for _ in 0..self.steps {
                for mass in 1..chain.len() - 1 {
                    chain[mass] = 0.5 * (chain[mass - 1] + chain[mass + 1]);
                }
            }
            black_box(chain);
            cx.go_on()?;
        }
        Ok(**objects)
    }
}

fn pipeline() -> (Graph, Source<u64>) {
    let cores = realtime::thread::cores();
    let mut graph = Graph::new();
    let mut group = |name: &str, place: usize| {
        let pin = cores.get(place).copied().into_iter().collect();
        graph.group(Group { pin, priority: Some(50), ..Group::new(name, 1) })
    };
    let (see, think) = (group("see", 0), group("think", 1));
    let (scans, objects) = (graph.topic("scans"), graph.topic("objects"));
    let (paths, commands) = (graph.topic("paths"), graph.topic("commands"));
    let source = graph.source("lidar", &scans, Some(8_000_000));
    graph.module("segment", see, Relax { steps: 400 }, scans.latest(), &objects);
    graph
        .module("predict", think, Relax { steps: 1_600 }, objects.latest(), &paths)
        .fast_path()
        .cancel(Cancel::Rest);
    graph.module("plan", think, Relax { steps: 800 }, paths.latest(), &commands);
    graph.output(&commands);
    (graph, source)
}

/// Returns the number of objects in a frame: 2 to 33, in an order that looks random.
fn objects(frame: u64) -> u64 {
    2 + (frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let frames = seconds * 1_000_000_000 / PERIOD_NS;
    let settings = Settings { trace_events: 1 << 20, ..Settings::default() };

    let (graph, source) = pipeline();
    let wall = Wall::start(graph, settings.clone())?;
    let base_ns = monotonic_ns() - wall.now_ns();
    for frame in 1..=frames {
        sleep_until_ns(base_ns + frame * PERIOD_NS + TRANSFER_NS);
        wall.inject(&source, frame * PERIOD_NS, objects(frame))?;
    }
    sleep_until_ns(base_ns + (frames + 10) * PERIOD_NS);
    let stopped = wall.stop();
    for refused in &stopped.refused {
        println!("note: {refused}");
    }
    let wall = reactions(&merge(&stopped.rings), source.id(), frames);

    let (graph, source) = pipeline();
    let mut clock = Virtual::new(graph, settings, Costs::Measured { factor: 1.0 })?;
    for frame in 1..=frames {
        clock.inject(
            &source,
            frame * PERIOD_NS + TRANSFER_NS,
            frame * PERIOD_NS,
            objects(frame),
        )?;
    }
    let began_ns = monotonic_ns();
    clock.advance_to((frames + 10) * PERIOD_NS)?;
    let took_ns = monotonic_ns() - began_ns;
    let events: Vec<Event> = clock.trace().events().copied().collect();
    let simulated = reactions(&events, source.id(), frames);

    println!("{frames} frames; reaction to a hazard at each frame's capture, ms");
    println!("{:10} {:>8} {:>8} {:>8}", "", "p50", "p99", "max");
    for (name, times) in [("wall", &wall), ("virtual", &simulated)] {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(times, share) as f64 / 1e6);
        println!("{name:10} {p50:8.3} {p99:8.3} {max:8.3}");
    }
    let chunks = clock.recording().chunks.len() as f64;
    println!(
        "virtual: {:.2} s, {:.0} ns a chunk with its code",
        took_ns as f64 / 1e9,
        took_ns as f64 / chunks
    );
    println!(
        "a point of the trace: {:.1} ns, with the clock {:.1} ns",
        point_ns(false),
        point_ns(true)
    );
    Ok(())
}

fn reactions(events: &[Event], source: SourceId, frames: u64) -> Vec<u64> {
    let all = Reactions::new(events);
    let mut times: Vec<u64> = (1..=frames)
        .filter_map(|frame| all.first(source, frame * PERIOD_NS, |_| true))
        .map(|reaction| reaction.total_ns())
        .collect();
    times.sort_unstable();
    times
}

fn quantile(sorted: &[u64], share: f64) -> u64 {
    sorted[((share * sorted.len() as f64).ceil() as usize).max(1) - 1]
}

/// Returns the cost of a point of the trace in a full ring, in nanoseconds.
fn point_ns(clock: bool) -> f64 {
    const POINTS: u64 = 2_000_000;
    let mut ring = Ring::new(1 << 12);
    let began_ns = monotonic_ns();
    for point in 0..POINTS {
        let at_ns = if clock { monotonic_ns() } else { point };
        ring.write(black_box(at_ns), point, Point::Resumed);
    }
    black_box(&ring);
    (monotonic_ns() - began_ns) as f64 / POINTS as f64
}
