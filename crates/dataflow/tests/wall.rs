//! The same graphs on threads. Nothing here depends on how fast the machine is: modules wait for the
//! test where an order is to be seen.

mod stage;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use dataflow::trace::{Class, Point, merge};
use dataflow::{
    Cancel, Chunk, Costs, Cx, Graph, Group, Load, Message, Module, Observed, Output, Part, Path,
    Settings, Source, Stealing, Stop, Trigger, Virtual, Wall, WorkCx,
};
use realtime::clock::{monotonic_ns, thread_cpu_ns};
use stage::{Do, Stage};

/// Two ends: the module says that it is in its first chunk, and waits until it may go on.
fn gate() -> (impl Fn() + Send + 'static, Receiver<()>, Sender<()>) {
    let ((here, arrived), (go, gone)) = (channel(), channel());
    let wait = move || {
        here.send(()).unwrap();
        gone.recv().unwrap();
    };
    (wait, arrived, go)
}

#[test]
fn chain_gives_each_frame_and_says_what_it_was_computed_from() {
    let mut graph = Graph::new();
    let (near, far) = (graph.group(Group::new("near", 1)), graph.group(Group::new("far", 2)));
    let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
    let source = graph.source("sensor", &a, None);
    graph.module("first", near, Stage::new(3), a.fifo(100), &b);
    graph.module("second", far, Stage::new(2), b.fifo(100), &c);
    let output = graph.output(&c);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    for number in 0..100 {
        wall.inject(&source, number, number).unwrap();
    }
    let mut out = Vec::new();
    while out.len() < 100 {
        out.extend(wall.wait(&output, u64::MAX));
    }
    for (number, out) in out.iter().enumerate() {
        assert_eq!((**out, out.header.frame), (number as u64, number as u64));
        assert_eq!(out.header.provenance[0].captured_ns, number as u64);
    }
    let stopped = wall.stop();
    assert!(stopped.statistics.modules.iter().all(|module| module.normal == 100));
    let events = merge(&stopped.rings);
    let ends = events.iter().filter(|event| matches!(event.point, Point::End { .. }));
    assert_eq!(ends.count(), 200);
}

#[test]
fn more_urgent_run_has_the_core_at_the_next_checkpoint() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
    let slow_source = graph.source("slow", &a, None);
    let urgent_source = graph.source("urgent", &b, Some(1_000_000));
    let (wait, arrived, go) = gate();
    let slow = move |cx: &mut Cx<u64>, number, _: Path| {
        wait();
        let found = cx.checkpoint();
        assert_eq!(found, dataflow::Checkpoint::Yielded);
        Ok(number)
    };
    graph.module("slow", group, Do(slow), a.latest(), &out);
    graph.module("urgent", group, Stage::new(1), b.latest(), &out);
    let output = graph.output(&out);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    wall.inject(&slow_source, 0, 1).unwrap();
    arrived.recv().unwrap();
    wall.inject(&urgent_source, 0, 2).unwrap();
    go.send(()).unwrap();
    let mut out = Vec::new();
    while out.len() < 2 {
        out.extend(wall.wait(&output, u64::MAX).into_iter().map(|out| *out.value));
    }
    assert_eq!(out, [2, 1]);
}

#[test]
fn rest_is_cancelled_by_a_newer_frame() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let (wait, arrived, go) = gate();
    let run = move |cx: &mut Cx<u64>, number, _: Path| {
        cx.publish_partial(number, Part::first(2));
        wait();
        cx.go_on()?;
        Ok(number + 10)
    };
    graph.module("stage", group, Do(run), a.latest(), &out).cancel(Cancel::Rest);
    let output = graph.output(&out);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    wall.inject(&source, 0, 1).unwrap();
    arrived.recv().unwrap();
    wall.inject(&source, 1, 2).unwrap();
    go.send(()).unwrap();
    arrived.recv().unwrap();
    go.send(()).unwrap();
    let mut out = Vec::new();
    while out.len() < 3 {
        out.extend(wall.wait(&output, u64::MAX).into_iter().map(|out| *out.value));
    }
    assert_eq!(out, [1, 2, 12]);
    assert_eq!(wall.stop().statistics.modules[0].cancelled, 1);
}

#[test]
fn guest_runs_on_another_groups_idle_core_once_its_time_is_known() {
    let mut graph = Graph::new();
    let (home, other) = (graph.group(Group::new("home", 1)), graph.group(Group::new("other", 1)));
    let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
    let (blocker, guest) = (graph.source("blocker", &a, None), graph.source("guest", &b, None));
    let (wait, arrived, go) = gate();
    let block = move |_: &mut Cx<u64>, number, _: Path| {
        wait();
        Ok(number)
    };
    graph.module("block", home, Do(block), a.latest(), &out);
    let pass = |_: &mut Cx<u64>, number, _: Path| Ok(number);
    graph.module("guest", home, Do(pass), b.fifo(1_000), &out).guest();
    let _ = other;
    let output = graph.output(&out);
    let settings = Settings {
        stealing: Some(Stealing {
            mechanism: dataflow::Mechanism::Twin,
            suspend_ns: 1_000_000_000,
        }),
        ..Settings::default()
    };
    let wall = Wall::start(graph, settings).unwrap();
    for number in 0..100 {
        wall.inject(&guest, 0, number).unwrap();
        assert_eq!(*wall.wait(&output, u64::MAX)[0], number);
    }
    wall.inject(&blocker, 0, 0).unwrap();
    arrived.recv().unwrap();
    // The home core is taken until the gate opens: only a guest can answer now.
    wall.inject(&guest, 0, 500).unwrap();
    assert_eq!(*wall.wait(&output, u64::MAX)[0], 500);
    go.send(()).unwrap();
    let stopped = wall.stop();
    let as_guest = stopped.statistics.modules[1].as_guest;
    assert!(as_guest >= 1, "{as_guest}");
    let events = merge(&stopped.rings);
    let guests = events.iter().filter(
        |event| matches!(event.point, Point::Start { class: Class::Guest, core, .. } if core.group == 1),
    );
    assert_eq!(guests.count() as u64, as_guest);
}

/// Has two pieces; those of the last frame are long.
struct Two(Arc<Long>);

/// State that the last frame's two pieces and the host beside them share.
#[derive(Default)]
struct Long {
    pieces: AtomicUsize,
    host: AtomicBool,
    answered: AtomicBool,
}

/// Computes until `holds`, or for so long.
fn busy(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > limit {
            return false;
        }
    }
    true
}

/// Limit of a thread that is busy until something happens. It ends a hang.
const BUSY: Duration = Duration::from_secs(20);
/// Time between two runs of the host: long enough for guests.
const GAP: Duration = Duration::from_millis(1200);
const LAST: u64 = 1_000;

impl Module for Two {
    type In = Message<u64>;
    type Out = u64;

    fn run(&mut self, cx: &mut Cx<u64>, number: &Self::In, _: Path) -> Result<u64, Stop> {
        let last = **number == LAST;
        let piece = |_| {
            let long = self.0.clone();
            let work = move |_: &mut WorkCx| {
                if last {
                    let place = long.pieces.fetch_add(1, SeqCst);
                    // The first one leaves the second one to the guest, whose core the host takes.
                    // Nothing is lost if no guest comes.
                    busy(GAP / 2, || long.pieces.load(SeqCst) == 2);
                    busy(BUSY, || place == 0 || long.host.load(SeqCst));
                }
                Ok(())
            };
            (Load::of(&[1.0]), work)
        };
        cx.divide((0..2).map(piece).collect())?;
        Ok(**number)
    }
}

#[test]
fn a_piece_does_not_wait_for_a_host_that_has_the_core_of_its_twin() {
    let cores = realtime::thread::cores();
    let [first, .., last] = cores[..] else { return };
    let mut graph = Graph::new();
    let pinned = |name, core| Group { pin: vec![core], priority: Some(10), ..Group::new(name, 1) };
    let home = graph.group(pinned("home", first));
    let other = graph.group(pinned("hosted", last));
    let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
    let sink = graph.topic("sink");
    let (frames, hosts) = (graph.source("frames", &a, None), graph.source("hosts", &b, None));
    let long = Arc::new(Long::default());
    graph.module("two", home, Two(long.clone()), a.latest(), &out).guest_pieces();
    let of_host = long.clone();
    let host = move |_: &mut Cx<u64>, number, _: Path| {
        if number < LAST {
            return Ok(0);
        }
        of_host.host.store(true, SeqCst);
        Ok(u64::from(busy(BUSY, || of_host.answered.load(SeqCst))))
    };
    graph.module("host", other, Do(host), b.latest(), &sink);
    let (output, ended) = (graph.output(&out), graph.output(&sink));
    let twin = Stealing { mechanism: dataflow::Mechanism::Twin, suspend_ns: 0 };
    let settings = Settings { stealing: Some(twin), ..Settings::base() };
    let wall = Wall::start(graph, settings).unwrap();
    // The gap is what the wall learns of the host, and so no event.
    for _ in 0..2 {
        wall.inject(&hosts, 0, 0).unwrap();
        wall.wait(&ended, u64::MAX);
        std::thread::sleep(GAP);
    }
    wall.inject(&hosts, 0, 0).unwrap();
    wall.wait(&ended, u64::MAX);
    for number in 0..40 {
        wall.inject(&frames, 0, number).unwrap();
        assert_eq!(*wall.wait(&output, u64::MAX)[0], number);
    }
    wall.inject(&frames, 0, LAST).unwrap();
    testing::until("both pieces run", || long.pieces.load(SeqCst) == 2);
    wall.inject(&hosts, 0, LAST).unwrap();
    assert_eq!(*wall.wait(&output, u64::MAX)[0], LAST);
    long.answered.store(true, SeqCst);
    assert_eq!(*wall.wait(&ended, u64::MAX)[0], 1, "the answer came while the host was busy");
    // And the twin is on its own core again.
    testing::until("the twin is back", || allowed("hosted-0~") == Some(last.to_string()));
    let stopped = wall.stop();
    if stopped.refused.is_empty() {
        assert_eq!(stopped.statistics.groups[1].returned, 1);
    }
}

/// The cores on which a thread of this process may run.
fn allowed(name: &str) -> Option<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let mut of = status.filter(|status| status.starts_with(&format!("Name:\t{name}\n")));
    let status = of.next()?;
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(cores.trim().to_owned())
}

#[test]
fn work_ahead_is_there_when_it_is_asked_for_later() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let (done, is_done) = channel();
    let run = move |cx: &mut Cx<u64>, number, _: Path| {
        let found = cx.take::<u64>("square", number);
        let done = done.clone();
        cx.ahead("square", number + 1, move |_| {
            done.send(()).unwrap();
            Ok((number + 1) * (number + 1))
        });
        Ok(found.unwrap_or(0))
    };
    graph.module("stage", group, Do(run), a.latest(), &out);
    let output = graph.output(&out);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    let mut hits = 0;
    // Work that is done ahead has been computed, but perhaps not put away yet: that is a miss.
    for number in 0..200 {
        wall.inject(&source, 0, number).unwrap();
        let found = *wall.wait(&output, u64::MAX)[0].value;
        assert!(found == 0 || found == number * number);
        hits += u64::from(found > 0);
        is_done.recv().unwrap();
    }
    assert!(hits > 0);
    let statistics = wall.stop().statistics;
    assert_eq!((statistics.modules[0].hits, statistics.modules[0].misses), (hits, 200 - hits));
}

#[test]
fn timers_fire_and_pins_and_priorities_are_tried() {
    let core = realtime::thread::cores()[0];
    let mut graph = Graph::new();
    let group = Group { pin: vec![core], priority: Some(5), ..Group::new("pinned", 1) };
    let group = graph.group(group);
    let out = graph.topic("out");
    let timer = Trigger::Timer { period_ns: 1_000_000, offset_ns: 0 };
    graph.module("tick", group, stage::Count::<()>::new(), (), &out).trigger(timer);
    let output = graph.output(&out);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    let mut last = 0;
    while last < 5 {
        last = *wall.wait(&output, u64::MAX).last().unwrap().value;
    }
    for refused in wall.stop().refused {
        assert!(refused.contains("SCHED_FIFO"), "{refused}");
    }
}

#[test]
fn core_that_is_not_there_is_an_error() {
    let mut graph = Graph::new();
    graph.group(Group { pin: vec![1_000_000], ..Group::new("nowhere", 1) });
    let error = Wall::start(graph, Settings::default()).err().unwrap();
    assert!(
        matches!(&error, dataflow::Error::Worker { group, .. } if group == "nowhere"),
        "{error}"
    );
}

#[test]
fn slower_core_is_kept_for_each_chunk_so_many_times() {
    const FACTOR: f64 = 4.0;
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    // Computes for a while in three chunks, and says what that took.
    let run = |cx: &mut Cx<u64>, _, _: Path| {
        let mut used_ns = 0;
        for _ in 0..3 {
            let began_ns = thread_cpu_ns();
            realtime::work::run(200_000);
            used_ns += thread_cpu_ns() - began_ns;
            cx.go_on()?;
        }
        Ok(used_ns)
    };
    graph.module("stage", group, Do(run), a.latest(), &out);
    let output = graph.output(&out);
    let wall = Wall::prepare(graph, Settings::base(), FACTOR).unwrap();
    wall.begin(monotonic_ns());
    wall.inject(&source, 0, 0).unwrap();
    let used_ns = *wall.wait(&output, u64::MAX)[0].value;
    let events = merge(&wall.stop().rings);
    let service_ns = events.iter().find_map(|event| match event.point {
        Point::End { service_ns, .. } => Some(service_ns),
        _ => None,
    });
    let least_ns = (used_ns as f64 * FACTOR) as u64;
    assert!(service_ns >= Some(least_ns), "{used_ns} ns used, {service_ns:?} ns kept");
}

/// A chain of two modules: one computes in four chunks, of which two are pieces of it on both cores,
/// the other passes on.
fn chain() -> (Graph, Source<u64>, Output<u64>) {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 2));
    let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let run = |cx: &mut Cx<u64>, number, _: Path| {
        realtime::work::run(100_000);
        cx.go_on()?;
        let piece = |number: u64| {
            let work = move |_: &mut WorkCx<'_>| {
                realtime::work::run(50_000 * number);
                Ok(number)
            };
            (Load::of(&[1.0]), work)
        };
        let given = cx.divide(vec![piece(1), piece(2)])?;
        Ok(number + given.iter().sum::<u64>())
    };
    graph.module("computes", group, Do(run), a.fifo(10), &b);
    graph.module("passes", group, Stage::new(2), b.fifo(10), &out);
    let output = graph.output(&out);
    (graph, source, output)
}

#[test]
fn what_chunks_took_is_what_the_virtual_clock_charges_for_the_same_ones() {
    const FACTOR: f64 = 3.0;
    let (graph, source, output) = chain();
    let settings = || Settings { keep_chunks: true, ..Settings::base() };
    let wall = Wall::prepare(graph, settings(), FACTOR).unwrap();
    wall.begin(monotonic_ns());
    for number in 0..5 {
        wall.inject(&source, number, number).unwrap();
        assert_eq!(*wall.wait(&output, u64::MAX)[0].value, number + 3);
    }
    let stopped = wall.stop();
    let of = |frame: u64| stopped.chunks.iter().filter(move |chunk| chunk.frame == frame);
    for frame in 0..5 {
        let shape = |piece| {
            let chunks = of(frame).filter(|chunk| chunk.piece == piece);
            chunks.map(|chunk| (chunk.module.unwrap().index(), chunk.index)).collect::<Vec<_>>()
        };
        assert_eq!(shape(false), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]);
        assert_eq!(shape(true), [(0, 0), (0, 0)]);
    }

    let services = |chunks: &[Chunk], frames: u64| {
        let (graph, source, output) = chain();
        let costs = Costs::Observed(Observed::new(chunks, FACTOR));
        let mut clock = Virtual::new(graph, settings(), costs).unwrap();
        for number in 0..frames {
            let at_ns = number * 10_000_000_000;
            clock.inject(&source, at_ns, at_ns, number).unwrap();
        }
        clock.advance_to(frames * 10_000_000_000).unwrap();
        assert_eq!(clock.take(&output).len() as u64, frames);
        let runs = stage::runs(&clock);
        let passes = runs.iter().filter(|run| run.module == Some(1));
        let ns: Vec<u64> = passes.map(|run| run.service_ns).collect();
        (ns, clock.observed())
    };
    // Times of passing on in that run, each frame its own, in whatever order the chunks are given.
    let mut chunks = stopped.chunks.clone();
    chunks.sort_by_key(|chunk| std::cmp::Reverse(chunk.frame));
    let (ns, observed) = services(&chunks, 5);
    let took = |frame| {
        let chunks = of(frame).filter(|chunk| chunk.module.unwrap().index() == 1);
        chunks.map(|chunk| (chunk.cpu_ns as f64 * FACTOR).round() as u64).sum::<u64>()
    };
    assert_eq!(ns, (0..5).map(took).collect::<Vec<u64>>());
    assert_eq!(observed, (35, 0));
    // A frame that was not there is measured.
    let (ns, observed) = services(&stopped.chunks, 6);
    assert_eq!((ns.len(), observed), (6, (35, 7)));
    assert!(ns[5] > 0);
}

#[test]
fn chunks_are_not_kept_unless_somebody_asks() {
    let (graph, source, output) = chain();
    let wall = Wall::start(graph, Settings::base()).unwrap();
    wall.inject(&source, 0, 1).unwrap();
    wall.wait(&output, u64::MAX);
    assert!(wall.stop().chunks.is_empty());
}

#[test]
fn clock_stands_until_it_begins_and_no_core_is_faster_than_it_is() {
    let graph = || {
        let mut graph = Graph::new();
        graph.group(Group::new("all", 1));
        graph
    };
    let wall = Wall::prepare(graph(), Settings::base(), 1.0).unwrap();
    assert_eq!(wall.now_ns(), 0);
    wall.begin(monotonic_ns() + 60_000_000_000);
    assert_eq!(wall.now_ns(), 0);
    wall.begin(monotonic_ns() - 1_000_000);
    assert!(wall.now_ns() >= 1_000_000);
    wall.stop();
    for factor in [0.5, f64::NAN, f64::INFINITY] {
        let error = Wall::prepare(graph(), Settings::base(), factor).err().unwrap();
        assert!(matches!(error, dataflow::Error::Factor { .. }), "{error}");
    }
}

#[test]
#[should_panic(expected = "a module that panics")]
fn panic_of_a_module_comes_out_where_the_executor_is_stopped() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let (wait, arrived, go) = gate();
    let run = move |_: &mut Cx<u64>, _, _: Path| -> Result<u64, Stop> {
        wait();
        panic!("a module that panics")
    };
    graph.module("stage", group, Do(run), a.latest(), &out);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    wall.inject(&source, 0, 1).unwrap();
    arrived.recv().unwrap();
    go.send(()).unwrap();
    wall.stop();
}

#[test]
fn message_that_cannot_wait_for_a_tick_does_not() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let calm = graph.source("calm", &a, None);
    let urgent = graph.source("urgent", &a, Some(HOUR_NS));
    let timer = Trigger::Timer { period_ns: HOUR_NS, offset_ns: HOUR_NS };
    graph.module("stage", group, Stage::new(2), a.latest().urgent(), &out).trigger(timer);
    let output = graph.output(&out);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    wall.inject(&calm, 0, 1).unwrap();
    wall.inject(&urgent, 1, 2).unwrap();
    let out = wall.wait(&output, u64::MAX);
    assert_eq!((out.len(), *out[0].value), (1, 2));
    assert_eq!(wall.stop().statistics.modules[0].early, 1);
}

#[test]
fn run_that_does_not_end_on_the_normal_path_is_begun_anew_on_the_fast_one() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, Some(20_000_000));
    let run = |cx: &mut Cx<u64>, number, path: Path| {
        if path == Path::Fast {
            return Ok(number);
        }
        loop {
            cx.go_on()?;
        }
    };
    graph.module("stage", group, Do(run), a.fifo(1), &out).fast_path();
    let output = graph.output(&out);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    let at_ns = wall.now_ns();
    wall.inject(&source, at_ns, 1).unwrap();
    let out = wall.wait(&output, u64::MAX);
    assert_eq!((*out[0].value, out[0].header.captured_ns), (1, at_ns));
    let statistics = wall.stop().statistics.modules[0].clone();
    // On a machine that was busy for so long, its time was over before it began.
    assert!(statistics.switched <= 1 && statistics.cancelled == statistics.switched);
    assert_eq!(statistics.fast, 1);
}
