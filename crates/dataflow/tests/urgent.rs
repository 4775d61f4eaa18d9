//! Urgent work: messages whose deadline does not allow waiting for a timer, runs that change to the
//! fast path in time, and ticks that the budget counts.

mod stage;

use dataflow::trace::{Point, Reactions};
use dataflow::{
    Costs, Cx, Graph, Group, Message, Output, Part, Path, Settings, Source, Stop, Trigger, Virtual,
};
use stage::{Count, Do, MS, Stage, runs};

/// Sources of one topic: without a deadline, with one, and with one that is over at once.
struct Doors {
    calm: Source<u64>,
    sensor: Source<u64>,
    lost: Source<u64>,
}

fn doors(graph: &mut Graph, topic: &dataflow::Topic<u64>, deadline_ns: u64) -> Doors {
    Doors {
        calm: graph.source("calm", topic, None),
        sensor: graph.source("sensor", topic, Some(deadline_ns)),
        lost: graph.source("lost", topic, Some(1)),
    }
}

/// Planning, of 5 ms, every 100 ms; commands must be out 60 ms after the capture. It has run once, at
/// 100 ms.
fn planned(settings: Settings) -> (Virtual, Doors, Output<u64>) {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let doors = doors(&mut graph, &a, 60 * MS);
    let timer = Trigger::Timer { period_ns: 100 * MS, offset_ns: 0 };
    graph.module("plan", group, Stage::new(1), a.latest().urgent(), &out).trigger(timer);
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, settings, Costs::fixed(vec![5 * MS])).unwrap();
    clock.inject(&doors.calm, 20 * MS, 20 * MS, 1).unwrap();
    clock.advance_to(110 * MS).unwrap();
    assert_eq!(times(&mut clock, &output), [105]);
    (clock, doors, output)
}

/// Returns the publication times, in ms, of the outputs since the last call.
fn times(clock: &mut Virtual, output: &Output<u64>) -> Vec<u64> {
    clock.take(output).iter().map(|out| out.header.published_ns / MS).collect()
}

#[test]
fn message_that_cannot_wait_for_the_tick_starts_its_module_and_the_tick_does_nothing() {
    // Captured at 120 ms, there at 130, wanted by 180: the next tick is at 200.
    let run = |settings| {
        let (mut clock, doors, output) = planned(settings);
        clock.inject(&doors.sensor, 130 * MS, 120 * MS, 1).unwrap();
        clock.advance_to(390 * MS).unwrap();
        (times(&mut clock, &output), clock.statistics().modules[0].early)
    };
    // The tick at 300 ms has served nobody before.
    assert_eq!(run(Settings::default()), (vec![135, 305], 1));
    assert_eq!(run(Settings::base()), (vec![205, 305], 0));
}

#[test]
fn message_waits_for_the_tick_as_long_as_its_deadline_allows() {
    // The tick at 200 ms and planning's 5 ms.
    for (captured_ms, published_ms) in [(145, 205), (144, 155)] {
        let (mut clock, doors, output) = planned(Settings::default());
        clock.inject(&doors.sensor, 150 * MS, captured_ms * MS, 1).unwrap();
        clock.advance_to(290 * MS).unwrap();
        assert_eq!(times(&mut clock, &output), [published_ms], "captured at {captured_ms} ms");
    }
    let (mut clock, doors, output) = planned(Settings::default());
    clock.inject(&doors.calm, 150 * MS, 20 * MS, 1).unwrap();
    clock.advance_to(290 * MS).unwrap();
    assert_eq!(times(&mut clock, &output), [205], "nothing bounds it");
}

#[test]
fn each_frame_starts_a_module_early_once_and_its_rest_waits_for_the_tick() {
    let mut graph = Graph::new();
    let (near, far) = (graph.group(Group::new("near", 1)), graph.group(Group::new("far", 1)));
    let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
    let source = graph.source("sensor", &a, Some(30 * MS));
    let predict = |cx: &mut Cx<u64>, number, _: Path| {
        cx.publish_partial(number, Part::first(2));
        cx.go_on()?;
        Ok(number)
    };
    graph.module("predict", near, Do(predict), a.latest(), &b);
    let timer = Trigger::Timer { period_ns: 100 * MS, offset_ns: 90 * MS };
    graph.module("plan", far, Stage::new(1), b.latest().urgent(), &out).trigger(timer);
    let output = graph.output(&out);
    // Parts at 2, 4 and 6 ms after each frame.
    let costs = Costs::fixed(vec![2 * MS, MS]);
    let mut clock = Virtual::new(graph, Settings::default(), costs).unwrap();
    for frame in 0..20 {
        clock.inject(&source, frame * 100 * MS, frame * 100 * MS, 1).unwrap();
    }
    clock.advance_to(2_000 * MS).unwrap();
    let times = times(&mut clock, &output);
    let expected: Vec<u64> = (0..20).flat_map(|at| [at * 100 + 3, at * 100 + 91]).collect();
    assert_eq!(times, expected);
    assert_eq!(clock.statistics().modules[1].early, 20);
}

#[test]
fn passive_message_that_cannot_wait_for_the_next_trigger_is_read_at_once() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (here, path, out) = (graph.topic("here"), graph.topic("path"), graph.topic("out"));
    let poses = graph.source("localisation", &here, None);
    let paths = graph.source("planning", &path, Some(100 * MS));
    type Two = (Message<u64>, Option<Message<u64>>);
    let wires = (here.latest(), path.latest().passive().urgent());
    graph.module("control", group, Count::<Two>::new(), wires, &out);
    let output = graph.output(&out);
    let costs = Costs::fixed(vec![MS]);
    let mut clock = Virtual::new(graph, Settings::default(), costs).unwrap();
    for step in 0..30 {
        clock.inject(&poses, step * 10 * MS, step * 10 * MS, 0).unwrap();
    }
    // Control at 250 ms would be out at 251.
    clock.inject(&paths, 143 * MS, 51 * MS, 0).unwrap();
    clock.inject(&paths, 243 * MS, 150 * MS, 0).unwrap();
    clock.advance_to(300 * MS).unwrap();
    let out = clock.take(&output);
    let first = |captured_ms: u64| {
        let knows = |out: &&Message<u64>| out.header.knows(paths.id(), captured_ms * MS);
        out.iter().find(knows).unwrap().header.published_ns / MS
    };
    assert_eq!((first(51), first(150)), (151, 244));
    assert_eq!(clock.statistics().modules[0].early, 1);
}

#[test]
fn budget_ends_at_the_tick_and_a_path_that_reaches_no_earlier_one_is_not_taken() {
    // Predicting takes 20 ms, its first part 4; planning 5 ms, from a tick of 50 ms on; the deadline
    // is 10 ms after a tick.
    let path = |came_ms: u64| {
        let mut graph = Graph::new();
        let (near, far) = (graph.group(Group::new("near", 1)), graph.group(Group::new("far", 1)));
        let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
        let doors = doors(&mut graph, &a, 60 * MS);
        graph.module("predict", near, Stage::new(5), a.latest(), &b).fast_path();
        let timer = Trigger::Timer { period_ns: 50 * MS, offset_ns: 0 };
        graph.module("plan", far, Stage::new(1), b.latest(), &out).trigger(timer);
        graph.output(&out);
        let costs = Costs::fixed(vec![4 * MS, 5 * MS]);
        let mut clock = Virtual::new(graph, Settings::default(), costs).unwrap();
        clock.inject(&doors.calm, 0, 0, 1).unwrap();
        clock.inject(&doors.lost, 100 * MS, 100 * MS, 1).unwrap();
        clock.inject(&doors.sensor, (200 + came_ms) * MS, 200 * MS, 1).unwrap();
        clock.advance_to(400 * MS).unwrap();
        let begun = runs(&clock).into_iter().find(|run| run.start_ns == (200 + came_ms) * MS);
        begun.unwrap().path
    };
    assert_eq!(path(30), Path::Normal, "it is done at the tick");
    assert_eq!(path(31), Path::Fast, "only a part is");
    assert_eq!(path(46), Path::Fast, "only a part is");
    assert_eq!(path(47), Path::Normal, "nothing is done at the tick");
}

/// A module that takes as many chunks of 2 ms as its input says, on the fast path one; it was seen on
/// both, with few.
fn varied(settings: Settings) -> (Virtual, Doors, Output<u64>) {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let doors = doors(&mut graph, &a, 40 * MS);
    let run = |cx: &mut Cx<u64>, number: u64, path: Path| {
        let chunks = if path == Path::Fast { 1 } else { number };
        (1..chunks).try_for_each(|_| cx.go_on())?;
        Ok::<u64, Stop>(number)
    };
    graph.module("vary", group, Do(run), a.fifo(4), &out).fast_path();
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, settings, Costs::fixed(vec![2 * MS])).unwrap();
    clock.inject(&doors.calm, 0, 0, 2).unwrap();
    clock.inject(&doors.lost, 50 * MS, 50 * MS, 2).unwrap();
    clock.advance_to(90 * MS).unwrap();
    clock.take(&output);
    (clock, doors, output)
}

#[test]
fn run_that_takes_longer_than_it_was_thought_to_is_begun_anew_on_the_fast_path_in_time() {
    let (mut clock, doors, output) = varied(Settings::default());
    clock.inject(&doors.sensor, 100 * MS, 100 * MS, 50).unwrap();
    clock.inject(&doors.sensor, 200 * MS, 200 * MS, 50).unwrap();
    clock.advance_to(500 * MS).unwrap();
    // Two fifths of the time are kept for the fast path; leaving the normal one takes a chunk. Then it
    // is known that the normal path takes too long.
    assert_eq!(times(&mut clock, &output), [128, 202]);
    let statistics = clock.statistics().modules[0].clone();
    assert_eq!((statistics.switched, statistics.cancelled, statistics.fast), (1, 1, 3));
    let events: Vec<_> = clock.trace().events().copied().collect();
    let reactions = Reactions::new(&events);
    let reaction = reactions.first(doors.sensor.id(), 100 * MS, |_| true).unwrap();
    // The time of the cancelled run does not count as the module's.
    assert_eq!((reaction.module_ns, reaction.bubble_ns), (2 * MS, 26 * MS));
    assert_eq!(reaction.unexplained_ns(), 0);

    let (mut clock, doors, output) = varied(Settings::base());
    clock.inject(&doors.sensor, 100 * MS, 100 * MS, 50).unwrap();
    clock.advance_to(500 * MS).unwrap();
    assert_eq!(times(&mut clock, &output), [200]);
}

#[test]
fn run_that_has_published_a_part_is_not_begun_anew() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, Some(10 * MS));
    let run = |cx: &mut Cx<u64>, number: u64, _: Path| {
        cx.publish_partial(number, Part::first(2));
        (1..20).try_for_each(|_| cx.go_on())?;
        Ok::<u64, Stop>(number)
    };
    graph.module("long", group, Do(run), a.latest(), &out).fast_path();
    let output = graph.output(&out);
    let costs = Costs::fixed(vec![2 * MS]);
    let mut clock = Virtual::new(graph, Settings::default(), costs).unwrap();
    clock.inject(&source, 0, 0, 1).unwrap();
    clock.advance_to(100 * MS).unwrap();
    assert_eq!(times(&mut clock, &output), [2, 42]);
    let statistics = &clock.statistics().modules[0];
    assert_eq!((statistics.switched, statistics.normal), (0, 1));
}

#[test]
fn rest_of_a_frame_lets_what_somebody_waits_for_go_first() {
    let mut graph = Graph::new();
    let (near, far) = (graph.group(Group::new("near", 1)), graph.group(Group::new("far", 1)));
    let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
    let out = graph.topic("out");
    let source = graph.source("sensor", &a, Some(30 * MS));
    let other = graph.source("other", &c, Some(300 * MS));
    let predict = |cx: &mut Cx<u64>, number, _: Path| {
        cx.publish_partial(number, Part::first(2));
        cx.go_on()?;
        Ok(number)
    };
    graph.module("predict", near, Do(predict), a.latest(), &b);
    graph.module("plan", far, Stage::new(1), b.fifo(2), &out);
    graph.module("other", far, Stage::new(1), c.latest(), &out);
    let costs = Costs::fixed(vec![MS, 10 * MS, MS]);
    let mut clock = Virtual::new(graph, Settings::base(), costs).unwrap();
    clock.inject(&source, 0, 0, 1).unwrap();
    clock.inject(&other, 5 * MS, 5 * MS, 1).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let order = clock.trace().events().filter_map(|event| match event.point {
        Point::Start { module, .. } => module.map(|module| (module.index(), event.at_ns / MS)),
        _ => None,
    });
    assert_eq!(order.collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 11), (1, 12)]);
}
