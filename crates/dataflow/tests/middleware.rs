//! Messages that go as bytes: the same results, at a cost that is seen on both ends.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dataflow::trace::{Event, Point, Reactions, merge};
use dataflow::{
    Carry, Chunk, Costs, Cx, Error, Graph, Group, Message, Module, Output, Part, Path, Settings,
    Source, Stop, Topic, Virtual, Wall,
};
use serde::{Deserialize, Serialize};
use stage::{Count, MS, Stage};

/// Passes numbers on.
struct Pass;

impl Module for Pass {
    type In = Message<Vec<u32>>;
    type Out = Vec<u32>;

    fn run(
        &mut self,
        _: &mut Cx<Vec<u32>>,
        numbers: &Self::In,
        _: Path,
    ) -> Result<Self::Out, Stop> {
        Ok(numbers.to_vec())
    }
}

/// The code takes 5 ms, a byte 1000 ns to write and 500 ns to read.
fn by_bytes() -> Costs {
    Costs::Declared(Box::new(|chunk: &Chunk| match chunk.carry {
        None => 5 * MS,
        Some(Carry::Serialise { bytes }) => u64::from(bytes) * 1_000,
        Some(Carry::Deserialise { bytes }) => u64::from(bytes) * 500,
    }))
}

type Ends = (Graph, Source<Vec<u32>>, Output<Vec<u32>>);

/// Two modules, each on a core of its own, one after the other.
fn two(serialised: bool) -> Ends {
    let mut graph = Graph::new();
    let (near, far) = (graph.group(Group::new("near", 1)), graph.group(Group::new("far", 1)));
    let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
    if serialised {
        for topic in [&a, &b, &c] {
            graph.serialise(topic);
        }
    }
    let source = graph.source("sensor", &a, None);
    graph.module("first", near, Pass, a.fifo(100), &b);
    graph.module("second", far, Pass, b.fifo(100), &c);
    let output = graph.output(&c);
    (graph, source, output)
}

fn events(clock: &Virtual) -> Vec<Event> {
    clock.trace().events().copied().collect()
}

#[test]
fn bytes_are_charged_to_both_ends_and_are_a_part_of_the_reaction() {
    let settings = || Settings { hop_ns: 7_000, ..Settings::base() };
    // CDR: a length of 4 bytes, and 4 for each number.
    for (numbers, bytes) in [(9, 40), (99, 400)] {
        let (graph, source, output) = two(true);
        let mut clock = Virtual::new(graph, settings(), by_bytes()).unwrap();
        clock.inject(&source, 0, 0, (0..numbers).collect()).unwrap();
        clock.advance_to(100 * MS).unwrap();
        let out = clock.take(&output);
        assert_eq!(*out[0].value, (0..numbers).collect::<Vec<u32>>());
        let each = 5 * MS + bytes * 1_500;
        assert_eq!(out[0].header.published_ns, 2 * each + 7_000);
        let events = events(&clock);
        let reaction = Reactions::new(&events).first(source.id(), 0, |_| true).unwrap();
        assert_eq!((reaction.module_ns, reaction.bubble_ns), (2 * each, 7_000));
        assert_eq!(reaction.middleware_ns(), 2 * bytes * 1_500 + 7_000);
        assert_eq!(reaction.unexplained_ns(), 0);
        for (step, hop_ns) in reaction.steps.iter().zip([0, 7_000]) {
            assert_eq!((step.deserialise_ns, step.serialise_ns), (bytes * 500, bytes * 1_000));
            assert_eq!((step.hop_ns, step.waited_ns), (hop_ns, hop_ns));
        }
        // It is the cores' time: the modules' statistics have it.
        let served = clock.statistics().modules.iter().map(|module| module.service_ns).sum::<u64>();
        assert_eq!(served, 2 * each);
    }
    let (graph, source, output) = two(false);
    let mut clock = Virtual::new(graph, settings(), by_bytes()).unwrap();
    clock.inject(&source, 0, 0, vec![0; 99]).unwrap();
    clock.advance_to(100 * MS).unwrap();
    assert_eq!(clock.take(&output)[0].header.published_ns, 10 * MS + 7_000);
    let carried = |event: &Event| {
        matches!(event.point, Point::Serialised { .. } | Point::Deserialised { .. })
    };
    assert!(!events(&clock).iter().any(carried));
}

#[test]
fn costs_of_code_count_chunks_as_they_do_with_pointers() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, b) = (graph.topic("a"), graph.topic("b"));
    for topic in [&a, &b] {
        graph.serialise(topic);
    }
    let source = graph.source("sensor", &a, None);
    graph.module("stage", group, Stage::new(3), a.latest(), &b);
    let (told, tells) = std::sync::mpsc::channel();
    let costs = Costs::Declared(Box::new(move |chunk| {
        told.send((chunk.index, chunk.carry)).unwrap();
        MS
    }));
    let mut clock = Virtual::new(graph, Settings::base(), costs).unwrap();
    clock.inject(&source, 0, 0, 4).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let seen: Vec<_> = tells.try_iter().collect();
    let (read, write) = (Carry::Deserialise { bytes: 8 }, Carry::Serialise { bytes: 8 });
    assert_eq!(seen, [(0, Some(read)), (0, None), (1, None), (2, None), (3, Some(write))]);
}

/// Value with a part that its bytes do not have.
#[derive(Serialize, Deserialize)]
struct Lossy {
    kept: u64,
    #[serde(skip)]
    lost: u64,
}

/// Sums both parts.
struct Sum;

impl Module for Sum {
    type In = Message<Lossy>;
    type Out = u64;

    fn run(&mut self, _: &mut Cx<u64>, both: &Self::In, _: Path) -> Result<u64, Stop> {
        Ok(both.kept + both.lost)
    }
}

#[test]
fn modules_and_work_ahead_read_what_was_in_the_bytes() {
    let sum = |serialised: bool| {
        let mut graph = Graph::new();
        let group = graph.group(Group::new("all", 2));
        let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
        if serialised {
            graph.serialise(&a);
        }
        let source = graph.source("sensor", &a, None);
        graph.module("sum", group, Sum, a.latest(), &b);
        graph.ahead_on(&a, group, "lost", |both, _| Ok(both.lost));
        // Two milliseconds later, so that the work ahead is done.
        let take = stage::Do(|cx: &mut Cx<u64>, sum, _| {
            cx.go_on()?;
            let version = cx.header().map_or(0, |header| header.frame);
            Ok(1_000 * sum + cx.take::<u64>("lost", version).ok_or(Stop::Nothing)?)
        });
        graph.module("take", group, take, b.latest(), &c);
        let output = graph.output(&c);
        let costs = Costs::fixed(vec![2 * MS, MS]);
        let mut clock = Virtual::new(graph, Settings::default(), costs).unwrap();
        clock.inject(&source, 0, 0, Lossy { kept: 3, lost: 4 }).unwrap();
        clock.advance_to(100 * MS).unwrap();
        clock.take(&output).iter().map(|out| **out).collect::<Vec<u64>>()
    };
    assert_eq!((sum(false), sum(true)), (vec![7_004], vec![3_000]));
}

#[test]
fn each_reader_deserialises_a_message_once() {
    type Both = (Message<u64>, Option<Message<u64>>);
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 2));
    let (a, b, out) = (graph.topic("a"), graph.topic("b"), graph.topic("out"));
    for topic in [&a, &b] {
        graph.serialise(topic);
    }
    let (often, once) = (graph.source("often", &a, None), graph.source("once", &b, None));
    for name in ["one", "other"] {
        let wires = (a.latest(), b.latest().passive());
        graph.module(name, group, Count::<Both>::new(), wires, &out);
    }
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![MS, MS])).unwrap();
    clock.inject(&once, 0, 0, 1).unwrap();
    for frame in 0..5 {
        clock.inject(&often, frame * 10 * MS, frame * 10 * MS, frame).unwrap();
    }
    clock.advance_to(100 * MS).unwrap();
    let events = events(&clock);
    let from = |source: &Source<u64>| {
        let of = |event: &Event| match event.point {
            Point::Injected { message, source: from, .. } if from == source.id() => Some(message),
            _ => None,
        };
        let messages: Vec<u64> = events.iter().filter_map(of).collect();
        let read = |event: &&Event| matches!(event.point, Point::Deserialised { message, .. } if messages.contains(&message));
        events.iter().filter(read).count()
    };
    assert_eq!((from(&often), from(&once)), (10, 2));
}

/// Value that has no form as bytes if its flag is true.
#[derive(Clone, Copy)]
struct Stubborn(bool);

impl Serialize for Stubborn {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            true => Err(serde::ser::Error::custom("it does not want to")),
            false => serializer.serialize_u8(7),
        }
    }
}

impl<'de> Deserialize<'de> for Stubborn {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Stubborn, D::Error> {
        u8::deserialize(deserializer).map(|_| Stubborn(false))
    }
}

/// Publishes what may have no bytes: three parts.
struct Refuse([bool; 3]);

impl Module for Refuse {
    type In = Message<u64>;
    type Out = Stubborn;

    fn run(&mut self, cx: &mut Cx<Stubborn>, _: &Self::In, _: Path) -> Result<Stubborn, Stop> {
        cx.publish_partial(Stubborn(self.0[0]), Part { index: 1, of: 3 });
        cx.publish_partial(Stubborn(self.0[1]), Part { index: 2, of: 3 });
        Ok(Stubborn(self.0[2]))
    }
}

#[test]
fn what_has_no_bytes_fails_where_it_is_published_and_says_why() {
    // Of three parts, which have none; how many come before the first of them.
    let cases = [
        ([true, true, true], Some(0)),
        ([false, false, true], Some(2)),
        ([true, false, false], Some(0)),
        ([false, true, false], Some(1)),
        ([false, false, false], None),
    ];
    for (refused, before) in cases {
        let mut graph = Graph::new();
        let group = graph.group(Group::new("all", 1));
        let (a, b, bad): (Topic<u64>, _, _) =
            (graph.topic("a"), graph.topic("b"), graph.topic("bad"));
        graph.serialise(&b);
        graph.serialise(&bad);
        let (source, wrong) = (graph.source("sensor", &a, None), graph.source("wrong", &bad, None));
        graph.module("refuse", group, Refuse(refused), a.latest(), &b);
        let output = graph.output(&b);
        let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![MS])).unwrap();
        let said = clock.inject(&wrong, 0, 0, Stubborn(true)).unwrap_err();
        assert!(matches!(&said, Error::Serialise { from, .. } if from == "wrong"), "{said}");
        clock.inject(&source, 0, 0, 1).unwrap();
        clock.advance_to(10 * MS).unwrap();
        assert_eq!(clock.take(&output).len(), before.unwrap_or(3), "{refused:?}");
        let module = &clock.statistics().modules[0];
        assert_eq!(module.failed, u64::from(before.is_some()), "{refused:?}");
        let said = module.last_failure.as_deref().unwrap_or_default();
        let both = said.contains("serialising") && said.contains("does not want to");
        assert_eq!(both, before.is_some(), "{said}");
    }
}

#[test]
fn threads_pass_bytes_on_and_every_part_is_in_the_trace() {
    const FRAMES: usize = 50;
    let (graph, source, output) = two(true);
    let wall = Wall::start(graph, Settings::default()).unwrap();
    for frame in 0..FRAMES {
        wall.inject(&source, 0, vec![frame as u32; 1_000]).unwrap();
    }
    let mut out = Vec::new();
    while out.len() < FRAMES {
        out.extend(wall.wait(&output, u64::MAX));
    }
    for (frame, out) in out.iter().enumerate() {
        assert_eq!(*out.value, vec![frame as u32; 1_000]);
    }
    let events = merge(&wall.stop().rings);
    let (mut sent, mut read) = (0, 0);
    for event in &events {
        match event.point {
            Point::Serialised { bytes: 4_004, took_ns: 1.., .. } => sent += 1,
            Point::Deserialised { bytes: 4_004, took_ns: 1.., .. } => read += 1,
            Point::Serialised { .. } | Point::Deserialised { .. } => panic!("{event:?}"),
            _ => {}
        }
    }
    assert_eq!((sent, read), (2 * FRAMES, 2 * FRAMES));
    let reactions = Reactions::new(&events);
    for message in &out {
        let wanted = |number| number == message.header.id;
        let reaction = reactions.first(source.id(), 0, wanted).unwrap();
        assert!(reaction.unexplained_ns().abs() < 1_000, "{reaction:?}");
        assert!(reaction.middleware_ns() > 0 && reaction.middleware_ns() < reaction.total_ns());
    }
}

#[test]
fn copies_are_the_receivers_own() {
    let places = Arc::new(AtomicU64::new(0));
    let place = |number: &u64| std::ptr::from_ref(number).addr() as u64;
    let differ = |serialised: bool| {
        let mut graph = Graph::new();
        let group = graph.group(Group::new("all", 1));
        let (a, b, c) = (graph.topic::<u64>("a"), graph.topic("b"), graph.topic("c"));
        if serialised {
            graph.serialise(&a);
        }
        let source = graph.source("sensor", &a, None);
        for publishes in [&b, &c] {
            graph.module("at", group, At(places.clone(), place), a.latest(), publishes);
        }
        places.store(0, Ordering::Relaxed);
        let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![MS])).unwrap();
        clock.inject(&source, 0, 0, 1).unwrap();
        clock.advance_to(10 * MS).unwrap();
        places.load(Ordering::Relaxed) != 0
    };
    assert_eq!((differ(false), differ(true)), (false, true));
}

/// Notes where the value that it reads is: twice the same place is none.
struct At(Arc<AtomicU64>, fn(&u64) -> u64);

impl Module for At {
    type In = Message<u64>;
    type Out = u64;

    fn run(&mut self, _: &mut Cx<u64>, number: &Self::In, _: Path) -> Result<u64, Stop> {
        self.0.fetch_xor(self.1(number), Ordering::Relaxed);
        Ok(**number)
    }
}
