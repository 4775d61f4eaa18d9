//! Runs that are divided into pieces: who does them, when the run goes on, what it is worth to let
//! other groups' cores help, and that this delays nobody there.

mod stage;

use dataflow::trace::{Class, Denial, Point, Reactions, RunEnd, merge};
use dataflow::{
    Cancel, Costs, Cx, Graph, Group, Load, Mechanism, Message, Module, Path, Recording, Settings,
    Source, Stealing, Stop, Virtual, Wall, WorkCx,
};
use stage::{MS, Random, Stage};

/// Sums the squares of the numbers below its own, a piece each.
struct Squares {
    /// Load that it declares for each piece.
    load: fn(u64) -> f64,
    /// Chunks of each piece.
    chunks: u32,
}

impl Module for Squares {
    type In = Message<u64>;
    type Out = u64;

    fn run(&mut self, cx: &mut Cx<u64>, number: &Self::In, _: Path) -> Result<u64, Stop> {
        let chunks = self.chunks;
        let piece = |number: u64| {
            let work = move |cx: &mut WorkCx| {
                (1..chunks).try_for_each(|_| cx.go_on())?;
                if number == 1_000 { Err(Stop::Failed("a thousand".into())) } else { Ok(number) }
            };
            (Load::of(&[(self.load)(number)]), work)
        };
        let given = cx.divide((0..**number).map(piece).collect())?;
        Ok(given.iter().map(|number| number * number).sum())
    }
}

fn squares(number: u64) -> u64 {
    (0..number).map(|number| number * number).sum()
}

fn stealing(mechanism: Mechanism) -> Settings {
    let stealing = Some(Stealing { mechanism, suspend_ns: 300 * MS });
    Settings { stealing, ..Settings::base() }
}

/// A group that divides, and one beside it whose host runs 1 ms every 100 ms.
struct Pair {
    graph: Graph,
    numbers: Source<u64>,
    hosts: Source<u64>,
    output: dataflow::Output<u64>,
}

fn pair(cores: usize, chunks: u32, load: fn(u64) -> f64, cancel: Cancel) -> Pair {
    let mut graph = Graph::new();
    let home = graph.group(Group::new("home", cores));
    let other = graph.group(Group::new("other", 1));
    let (a, b) = (graph.topic("a"), graph.topic("b"));
    let (out, sink) = (graph.topic("out"), graph.topic("sink"));
    let numbers = graph.source("numbers", &a, None);
    let hosts = graph.source("hosts", &b, Some(10 * MS));
    let module = Squares { load, chunks };
    graph.module("squares", home, module, a.latest(), &out).cancel(cancel).guest_pieces();
    graph.module("host", other, Stage::new(1), b.latest(), &sink);
    let output = graph.output(&out);
    Pair { graph, numbers, hosts, output }
}

/// The run itself takes 1 ms before and after, each chunk of a piece `piece_ms`, the host 1 ms.
fn costs(piece_ms: u64) -> Costs {
    Costs::Declared(Box::new(move |chunk| match (chunk.module.unwrap().index(), chunk.piece) {
        (0, true) => piece_ms * MS,
        _ => MS,
    }))
}

/// Frames every 100 ms, each of four pieces; the host comes 50 ms after them.
fn driven(cores: usize, settings: Settings, costs: Costs, frames: u64) -> (Virtual, Vec<u64>) {
    let Pair { graph, numbers, hosts, output } = pair(cores, 1, |_| 1.0, Cancel::Never);
    let mut clock = Virtual::new(graph, settings, costs).unwrap();
    for frame in 0..frames {
        let at_ns = frame * 100 * MS;
        clock.inject(&numbers, at_ns, at_ns, 4).unwrap();
        clock.inject(&hosts, at_ns + 50 * MS, at_ns + 50 * MS, 0).unwrap();
    }
    clock.advance_to(frames * 100 * MS).unwrap();
    stage::assert_one_at_a_time(&clock);
    let out = clock.take(&output);
    assert!(out.iter().all(|out| **out == squares(4)));
    let latency = |header: &dataflow::Header| (header.published_ns - header.captured_ns) / 1_000;
    (clock, out.iter().map(|out| latency(&out.header)).collect())
}

#[test]
fn cores_of_the_group_share_the_pieces() {
    for (cores, latency_us) in [(1, 42_000), (2, 22_000), (3, 22_000), (4, 12_000)] {
        let (clock, latencies) = driven(cores, Settings::base(), costs(10), 3);
        assert_eq!(latencies, [latency_us; 3], "{cores} cores");
        let module = &clock.statistics().modules[0];
        assert_eq!((module.normal, module.pieces, module.pieces_as_guest), (3, 12, 0));
        assert_eq!(module.service_ns, 3 * 42 * MS);
    }
}

#[test]
fn guests_help_once_the_predictor_knows_what_a_piece_takes() {
    let (clock, latencies) = driven(2, stealing(Mechanism::Twin), costs(10), 20);
    // 32 pieces are eight frames. Then three cores do four pieces: still two rounds; with one more
    // core at home it would be one.
    assert_eq!(latencies, [22_000; 20]);
    let (_, latencies) = driven(3, stealing(Mechanism::Twin), costs(10), 20);
    assert_eq!(latencies[..8], [22_000; 8]);
    // A guest pays for its way.
    assert_eq!(latencies[8..], [12_005; 12]);
    let other = &clock.statistics().groups[1];
    assert_eq!((other.admitted, other.overruns, other.violations), (12, 0, 0));
    let module = &clock.statistics().modules[0];
    assert_eq!((module.pieces, module.pieces_as_guest), (80, 12));
    let denied = denials(&clock);
    assert_eq!(denied.iter().filter(|why| **why == Some(Denial::Unknown)).count(), 8);
}

fn denials(clock: &Virtual) -> Vec<Option<Denial>> {
    let asked = clock.trace().events().filter_map(|event| match event.point {
        Point::Steal { denied, .. } => Some(denied),
        _ => None,
    });
    asked.collect()
}

#[test]
fn piece_that_does_not_fit_before_the_next_host_stays_at_home() {
    // From 1 ms to the host at 50 ms there are 49.
    for (piece_ms, fits) in [(48, true), (49, false)] {
        let (clock, _) = driven(3, stealing(Mechanism::Twin), costs(piece_ms), 20);
        let other = &clock.statistics().groups[1];
        assert_eq!(other.admitted > 0, fits, "{piece_ms} ms: {other:?}");
        assert_eq!(denials(&clock).contains(&Some(Denial::Slack)), !fits);
        assert_eq!((other.overruns, other.violations), (0, 0));
    }
}

#[test]
fn what_waits_for_the_guest_is_no_reason_to_keep_it_out() {
    let mut graph = Graph::new();
    let home = graph.group(Group::new("home", 1));
    let other = graph.group(Group::new("other", 1));
    let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
    let numbers = graph.source("numbers", &a, None);
    let module = Squares { load: |_| 1.0, chunks: 1 };
    graph.module("squares", home, module, a.latest(), &b).guest_pieces();
    graph.module("after", other, Stage::new(1), b.latest(), &out);
    let mut clock = Virtual::new(graph, stealing(Mechanism::Twin), costs(40)).unwrap();
    // Two pieces and four, so that the second module runs after 160 ms and after 240, in turn; a
    // frame of four comes when the 160 are nearly over.
    for frame in 0..40 {
        clock.inject(&numbers, frame * 200 * MS, frame * 200 * MS, 2 + frame % 2 * 2).unwrap();
    }
    clock.advance_to(8_000 * MS).unwrap();
    let denied = denials(&clock);
    assert!(!denied.contains(&Some(Denial::Slack)), "{denied:?}");
    let (module, other) = (&clock.statistics().modules[0], &clock.statistics().groups[1]);
    // After 32 pieces, which are 11 frames, half of them.
    assert_eq!((module.pieces, module.pieces_as_guest), (120, 44));
    assert_eq!((other.overruns, other.violations), (0, 0));
}

#[test]
fn piece_that_was_predicted_wrongly_is_counted_and_suspends_guests() {
    for mechanism in [Mechanism::Cooperative, Mechanism::Twin] {
        let cost = |chunk: &dataflow::Chunk| match (chunk.module.unwrap().index(), chunk.piece) {
            (0, true) if chunk.frame == 12 => 60 * MS,
            (0, true) => 10 * MS,
            _ => MS,
        };
        let (clock, _) = driven(3, stealing(mechanism), Costs::Declared(Box::new(cost)), 20);
        let other = &clock.statistics().groups[1];
        // It is on the host's core from 1.2 s to 1.261; the host comes at 1.25.
        let late = if mechanism == Mechanism::Twin { 0 } else { 11 * MS + 5_000 };
        assert_eq!((other.overruns, other.delayed_ns), (1, late), "{mechanism:?}");
        assert_eq!(other.violations, u64::from(late > 0));
        assert!(denials(&clock).contains(&Some(Denial::Suspended)));
        let host = stage::runs(&clock).into_iter().filter(|run| run.module == Some(1));
        let starts: Vec<u64> = host.map(|run| run.start_ns % (100 * MS)).collect();
        assert!(starts.iter().all(|start| *start <= 50 * MS + late), "{starts:?}");
    }
}

#[test]
fn piece_whose_core_hosts_want_goes_on_where_its_run_waits() {
    let cost = |chunk: &dataflow::Chunk| match (chunk.module.unwrap().index(), chunk.piece) {
        (0, true) => 10 * MS,
        (1, _) if chunk.frame == 20 => 500 * MS,
        _ => MS,
    };
    // Of 1 ms before, two pieces of 10 and 1 ms after; the last host comes before the pieces end.
    for (host_ms, end_ns) in [(5, 18 * MS + 10_000), (10, 13 * MS + 10_000)] {
        let Pair { graph, numbers, hosts, output } = pair(1, 1, |_| 1.0, Cancel::Never);
        let costs = Costs::Declared(Box::new(cost));
        let mut clock = Virtual::new(graph, stealing(Mechanism::Twin), costs).unwrap();
        for frame in 0..=20 {
            let at_ns = frame * 100 * MS;
            let host_ns = at_ns + if frame < 20 { 50 } else { host_ms } * MS;
            clock.inject(&numbers, at_ns, at_ns, 2).unwrap();
            clock.inject(&hosts, host_ns, host_ns, 0).unwrap();
        }
        clock.advance_to(3_000 * MS).unwrap();
        stage::assert_one_at_a_time(&clock);
        let out = clock.take(&output);
        assert_eq!(*out[20].value, squares(2));
        assert_eq!(out[20].header.published_ns - 2_000 * MS, end_ns);
        let (module, other) = (&clock.statistics().modules[0], &clock.statistics().groups[1]);
        assert_eq!((other.returned, other.overruns, other.violations), (1, 1, 0));
        // One of each frame since 32 were seen, but for the last one, which was a host's in the end.
        assert_eq!((module.pieces, module.pieces_as_guest), (42, other.admitted - 1));
        let runs = stage::runs(&clock);
        let host = runs.iter().rfind(|run| run.module == Some(1)).unwrap();
        assert_eq!(host.start_ns, 2_000 * MS + host_ms * MS, "it does not wait");
        let back = clock.trace().events().find_map(|event| match event.point {
            Point::Returned { core } => Some((event.at_ns, core.group)),
            _ => None,
        });
        // Its own core has done its piece at 11 ms.
        assert_eq!(back, Some((2_011 * MS, 0)));
    }
}

#[test]
fn pieces_wait_for_more_urgent_runs_and_not_for_others() {
    let mut graph = Graph::new();
    let home = graph.group(Group::new("home", 1));
    let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
    let (out, sink) = (graph.topic("out"), graph.topic("sink"));
    let numbers = graph.source("numbers", &a, Some(100 * MS));
    let urgent = graph.source("urgent", &b, Some(10 * MS));
    let patient = graph.source("patient", &c, None);
    graph.module("squares", home, Squares { load: |_| 1.0, chunks: 2 }, a.latest(), &out);
    graph.module("urgent", home, Stage::new(1), b.latest(), &sink);
    graph.module("patient", home, Stage::new(1), c.latest(), &sink);
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, Settings::base(), costs(5)).unwrap();
    clock.inject(&numbers, 0, 0, 3).unwrap();
    clock.inject(&urgent, 12 * MS, 12 * MS, 0).unwrap();
    clock.inject(&patient, 12 * MS, 12 * MS, 0).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let out = clock.take(&output);
    assert_eq!((*out[0].value, out[0].header.published_ns), (squares(3), 33 * MS));
    let starts: Vec<u64> = stage::runs(&clock).iter().map(|run| run.start_ns / MS).collect();
    assert_eq!(starts, [0, 16, 33], "at the next checkpoint, and at the end");
}

#[test]
fn run_that_nobody_wants_any_more_stops_all_its_pieces() {
    let Pair { graph, numbers, output, .. } = pair(2, 10, |_| 1.0, Cancel::Always);
    let mut clock = Virtual::new(graph, Settings::base(), costs(1)).unwrap();
    clock.inject(&numbers, 0, 0, 8).unwrap();
    clock.inject(&numbers, 5 * MS, 5 * MS, 2).unwrap();
    clock.advance_to(1_000 * MS).unwrap();
    let out: Vec<u64> = clock.take(&output).iter().map(|out| **out).collect();
    assert_eq!(out, [squares(2)]);
    let module = &clock.statistics().modules[0];
    assert_eq!((module.normal, module.cancelled, module.pieces), (1, 1, 2 + 2));
    let ends = clock.trace().events().filter_map(|event| match event.point {
        Point::End { outcome: RunEnd::Cancelled, .. } => Some(event.at_ns),
        _ => None,
    });
    // A chunk ends at 6 ms, the next one sees it and leaves, as does the run itself.
    assert!(ends.max() <= Some(9 * MS));
}

#[test]
fn piece_that_fails_fails_the_run() {
    let Pair { graph, numbers, output, .. } = pair(2, 1, |_| 1.0, Cancel::Never);
    let mut clock = Virtual::new(graph, Settings::base(), costs(0)).unwrap();
    clock.inject(&numbers, 0, 0, 1_001).unwrap();
    clock.advance_to(3_000 * MS).unwrap();
    assert!(clock.take(&output).is_empty());
    let failure = clock.statistics().modules[0].last_failure.clone();
    assert_eq!(failure.as_deref(), Some("a thousand"));
}

#[test]
fn reaction_with_pieces_adds_up_and_they_are_module_time() {
    let (clock, _) = driven(2, Settings::base(), costs(10), 2);
    let events: Vec<_> = clock.trace().events().copied().collect();
    let actuated = events.iter().find_map(|event| match event.point {
        Point::Actuated { message } => Some(message),
        _ => None,
    });
    let reactions = Reactions::new(&events);
    let numbers = events.iter().find_map(|event| match event.point {
        Point::Injected { source, .. } => Some(source),
        _ => None,
    });
    let first = reactions.first(numbers.unwrap(), 0, |message| Some(message) == actuated);
    let reaction = first.unwrap();
    assert_eq!(reaction.unexplained_ns(), 0);
    assert_eq!((reaction.module_ns, reaction.bubble_ns), (22 * MS, 0));
}

#[test]
fn random_divided_runs_never_move_a_host_and_replay_exactly() {
    let (mut guests, mut overruns) = (0, 0);
    for seed in 0..40 {
        let hosts = |clock: &Virtual| -> Vec<(u64, u64)> {
            let own = stage::runs(clock).into_iter().filter(|run| run.module == Some(1));
            own.map(|run| (run.start_ns, run.end_ns)).collect()
        };
        let (alone, _) = random(seed, Settings::base(), None);
        let (shared, out) = random(seed, stealing(Mechanism::Twin), None);
        assert_eq!(hosts(&alone), hosts(&shared), "seed {seed}");
        let recording = shared.recording().clone();
        let (again, repeated) = random(seed, stealing(Mechanism::Twin), Some(recording));
        assert!(again.trace() == shared.trace() && out == repeated, "seed {seed}");
        let other = &shared.statistics().groups[1];
        assert_eq!((other.violations, other.delayed_ns), (0, 0));
        guests += shared.statistics().modules[0].pieces_as_guest;
        overruns += other.overruns;
    }
    assert!(guests > 200 && overruns > 0, "{guests} {overruns}");
}

fn random(seed: u64, settings: Settings, replay: Option<Recording>) -> (Virtual, Vec<u64>) {
    let mut random = Random(seed);
    let cores = 1 + random.below(3) as usize;
    let Pair { graph, numbers, hosts, output } =
        pair(cores, 3, |number| (number % 3) as f64, Cancel::Rest);
    let cost = move |chunk: &dataflow::Chunk| {
        let of = chunk.frame << 16 ^ u64::from(chunk.index);
        500_000 + Random(seed ^ of).next() % 1_000_000
    };
    let costs = replay.map_or(Costs::Declared(Box::new(cost)), Costs::Replay);
    let mut clock = Virtual::new(graph, settings, costs).unwrap();
    let mut at_ns = 0;
    let mut expected = Vec::new();
    for _ in 0..60 {
        let number = random.between(1, 12);
        expected.push(squares(number));
        clock.inject(&numbers, at_ns, at_ns, number).unwrap();
        let host_ns = at_ns + random.between(5, 25) * MS;
        clock.inject(&hosts, host_ns, host_ns, 0).unwrap();
        at_ns += random.between(60, 90) * MS;
    }
    clock.advance_to(at_ns + 1_000 * MS).unwrap();
    stage::assert_one_at_a_time(&clock);
    let out: Vec<u64> = clock.take(&output).iter().map(|out| **out).collect();
    assert_eq!(out, expected);
    (clock, out)
}

#[test]
fn threads_share_the_pieces_too() {
    for settings in [Settings::base(), Settings::default()] {
        let Pair { graph, numbers, output, .. } = pair(2, 3, |number| number as f64, Cancel::Never);
        let wall = Wall::start(graph, settings).unwrap();
        for number in (1..40).chain([400]) {
            wall.inject(&numbers, 0, number).unwrap();
            assert_eq!(*wall.wait(&output, u64::MAX)[0], squares(number));
        }
        let stopped = wall.stop();
        let pieces = (1..40).sum::<u64>() + 400;
        assert_eq!(stopped.statistics.modules[0].pieces, pieces);
        let events = merge(&stopped.rings);
        let ends = events.iter().filter(|event| matches!(event.point, Point::End { .. }));
        assert_eq!(ends.count() as u64, pieces + 40);
        let classes = |of: Class| {
            let is = |point: &Point| matches!(point, Point::Piece { class, .. } if *class == of);
            events.iter().filter(|event| is(&event.point)).count() as u64
        };
        assert_eq!(classes(Class::Guest), stopped.statistics.modules[0].pieces_as_guest);
    }
}

/// Each piece of two waits for the other one: two threads do them, or nobody comes back.
struct Meet(std::sync::Arc<std::sync::Barrier>);

impl Module for Meet {
    type In = Message<u64>;
    type Out = u64;

    fn run(&mut self, cx: &mut Cx<u64>, number: &Self::In, _: Path) -> Result<u64, Stop> {
        let piece = |_| {
            let barrier = self.0.clone();
            (Load::of(&[1.0]), move |_: &mut WorkCx| Ok(u64::from(barrier.wait().is_leader())))
        };
        let leaders: u64 = cx.divide((0..2).map(piece).collect())?.into_iter().sum();
        Ok(**number + leaders)
    }
}

#[test]
fn two_threads_do_two_pieces_at_the_same_time() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("home", 2));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
    graph.module("meet", group, Meet(barrier), a.latest(), &out);
    let output = graph.output(&out);
    let wall = Wall::start(graph, Settings::base()).unwrap();
    for number in 0..50 {
        wall.inject(&source, 0, number).unwrap();
        assert_eq!(*wall.wait(&output, u64::MAX)[0], number + 1);
    }
}
