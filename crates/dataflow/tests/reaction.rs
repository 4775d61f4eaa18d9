//! The parts of a reaction sum to the whole, on graphs of any shape (COLA, equation 2).

mod stage;

use dataflow::trace::{Event, Reactions};
use dataflow::{Costs, Graph, Group, Message, Settings, Source, Topic, Trigger, Virtual};
use stage::{Count, MS, Random, Stage, runs};

fn events(clock: &Virtual) -> Vec<Event> {
    assert_eq!(clock.trace().lost(), 0);
    clock.trace().events().copied().collect()
}

#[test]
fn parts_of_a_reaction_are_what_they_are() {
    let mut graph = Graph::new();
    let (near, far) = (graph.group(Group::new("near", 1)), graph.group(Group::new("far", 1)));
    let (a, b) = (graph.topic("a"), graph.topic("b"));
    let (c, d, other) = (graph.topic("c"), graph.topic("d"), graph.topic("other"));
    let source = graph.source("sensor", &a, None);
    let urgent = graph.source("urgent", &other, Some(1));
    graph.module("see", near, Stage::new(2), a.latest(), &b);
    graph.module("urgent", near, Stage::new(1), other.latest(), &d);
    let timer = Trigger::Timer { period_ns: 20 * MS, offset_ns: 0 };
    graph.module("plan", far, Stage::new(1), b.latest(), &c).trigger(timer);
    graph.output(&c);
    let costs = Costs::fixed(vec![4 * MS, 3 * MS, 5 * MS]);
    let settings = Settings { hop_ns: 1_000, ..Settings::base() };
    let mut clock = Virtual::new(graph, settings, costs).unwrap();
    // The hazard is there at 5 ms, seen in the second frame, captured at 10, there at 12.
    for frame in 0..4 {
        clock.inject(&source, 2 * MS + frame * 10 * MS, frame * 10 * MS, frame).unwrap();
    }
    clock.inject(&urgent, 13 * MS, 13 * MS, 0).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let events = events(&clock);
    let reactions = Reactions::new(&events);
    // Seeing runs from 12 to 16, is preempted for 3, runs to 23; the timer reads it at 40, with the
    // frame after it in its place, which was seen from 23 to 31: frame 2, captured at 20.
    let reaction = reactions.first(source.id(), 5 * MS, |_| true).unwrap();
    assert_eq!((reaction.frame, reaction.total_ns()), (2, 40 * MS));
    assert_eq!((reaction.confirm_ns, reaction.sensor_ns), (10 * MS, 17 * MS));
    assert_eq!((reaction.module_ns, reaction.bubble_ns), (13 * MS, 10 * MS));
    assert_eq!(reaction.unexplained_ns(), 0);
    // Judged by the frame that shows a hazard at 15 ms, there is no confirmation in between.
    let later = reactions.first(source.id(), 15 * MS, |_| true).unwrap();
    assert_eq!((later.confirm_ns, later.sensor_ns, later.steps[0].waited_ns), (0, 7 * MS, MS));
    // Commands that do not react do not count.
    let mut asked = 0;
    let second = reactions.first(source.id(), 5 * MS, |_| {
        asked += 1;
        asked == 2
    });
    assert_eq!(second.unwrap().command_ns, 65 * MS);
    assert_eq!(reactions.first(source.id(), 31 * MS, |_| true), None);
}

#[test]
fn preemption_is_bubble() {
    let mut graph = Graph::new();
    let near = graph.group(Group::new("near", 1));
    let (a, b, c, d) = (graph.topic("a"), graph.topic("b"), graph.topic("c"), graph.topic("d"));
    let (source, urgent) = (graph.source("sensor", &a, None), graph.source("urgent", &c, Some(1)));
    graph.module("see", near, Stage::new(3), a.latest(), &b);
    graph.module("urgent", near, Stage::new(1), c.latest(), &d);
    graph.output(&b);
    let costs = Costs::fixed(vec![4 * MS, 3 * MS]);
    let mut clock = Virtual::new(graph, Settings::base(), costs).unwrap();
    clock.inject(&source, 0, 0, 0).unwrap();
    clock.inject(&urgent, MS, MS, 0).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let events = events(&clock);
    let reaction = Reactions::new(&events).first(source.id(), 0, |_| true).unwrap();
    assert_eq!((reaction.module_ns, reaction.bubble_ns), (12 * MS, 3 * MS));
    assert_eq!(reaction.steps[0].preempted_ns, 3 * MS);
}

/// A random graph in layers: each module reads one or two topics of earlier ones, by any trigger.
fn generate(random: &mut Random, bytes: bool) -> (Virtual, Vec<Source<u64>>) {
    let mut graph = Graph::new();
    let groups: Vec<_> = (0..random.between(1, 4))
        .map(|_| graph.group(Group::new("group", 1 + random.below(2) as usize)))
        .collect();
    let mut topics: Vec<Topic<u64>> = Vec::new();
    let mut sources = Vec::new();
    for _ in 0..random.between(1, 3) {
        let topic = graph.topic("sensor");
        sources.push(graph.source("sensor", &topic, Some(random.between(10, 200) * MS)));
        topics.push(topic);
    }
    let modules = random.between(3, 9);
    for _ in 0..modules {
        let group = groups[random.below(groups.len() as u64) as usize];
        let out = graph.topic("out");
        let from = random.below(topics.len() as u64) as usize;
        let with = random.below(topics.len() as u64) as usize;
        let timer = Trigger::Timer {
            period_ns: random.between(5, 40) * MS,
            offset_ns: random.below(20) * MS,
        };
        let chunks = random.between(1, 6) as u32;
        match random.below(4) {
            0 => drop(graph.module("stage", group, Stage::new(chunks), topics[from].fifo(3), &out)),
            1 => {
                let wire = topics[from].latest();
                let wire = if chunks % 2 == 0 { wire.urgent() } else { wire };
                graph.module("stage", group, Stage::new(chunks), wire, &out).trigger(timer);
            }
            2 => {
                let wire = topics[from].latest();
                let module = graph.module("stage", group, Stage::new(chunks), wire, &out);
                module.fast_path().guest().extra_worker(group, Stage::new(chunks));
            }
            _ => {
                type Two = (Message<u64>, Option<Message<u64>>);
                let wires = (topics[from].latest(), topics[with].latest().passive());
                graph.module("count", group, Count::<Two>::new(), wires, &out);
            }
        }
        topics.push(out);
    }
    if bytes {
        topics.iter().for_each(|topic| graph.serialise(topic));
    }
    graph.output(topics.last().unwrap());
    let seed = random.next();
    let cost = move |chunk: &dataflow::Chunk| {
        let module = chunk.module.map_or(0, |module| module.index() as u64);
        let mut random =
            Random(seed ^ (module << 40) ^ (chunk.frame << 16) ^ u64::from(chunk.index));
        random.between(1, 4_000_000)
    };
    let settings = Settings { hop_ns: random.below(2) * 20_000, ..Settings::default() };
    (Virtual::new(graph, settings, Costs::Declared(Box::new(cost))).unwrap(), sources)
}

#[test]
fn parts_sum_to_the_whole_on_generated_graphs() {
    let (mut found, mut waited, mut preempted) = (0, 0, 0);
    let (mut early, mut switched, mut carried) = (0, 0, 0);
    for seed in 0..100 {
        let mut random = Random(seed);
        // Of every second graph, all messages go as bytes.
        let (mut clock, sources) = generate(&mut random, seed % 2 == 1);
        for source in &sources {
            let period_ns = random.between(8, 60) * MS + random.below(1_000);
            for frame in 0..20 {
                let captured_ns = frame * period_ns;
                let came_ns = captured_ns + random.below(5 * MS);
                clock.inject(source, came_ns, captured_ns, frame).unwrap();
            }
        }
        clock.advance_to(3_000 * MS).unwrap();
        stage::assert_one_at_a_time(&clock);
        let events = events(&clock);
        let reactions = Reactions::new(&events);
        for source in &sources {
            for hazard_ms in 0..40 {
                let hazard_ns = hazard_ms * 10 * MS + 77;
                let Some(reaction) = reactions.first(source.id(), hazard_ns, |_| true) else {
                    continue;
                };
                assert!(reaction.unexplained_ns().abs() < 1_000, "seed {seed}: {reaction:?}");
                assert!(reaction.confirm_ns <= reaction.sensor_ns);
                assert!(reaction.middleware_ns() <= reaction.module_ns + reaction.bubble_ns);
                carried += u64::from(reaction.middleware_ns() > 100_000);
                found += 1;
                waited += u64::from(reaction.steps.iter().any(|step| step.waited_ns > 0));
                preempted += u64::from(reaction.steps.iter().any(|step| step.preempted_ns > 0));
            }
        }
        let runs = runs(&clock);
        assert!(runs.iter().all(|run| run.end_ns - run.start_ns >= run.service_ns));
        for module in clock.statistics().modules {
            (early, switched) = (early + module.early, switched + module.switched);
        }
    }
    assert!(found > 500 && waited > 300 && preempted > 20, "{found} {waited} {preempted}");
    assert!(early > 50 && switched > 10, "{early} {switched}");
    assert!(carried > found / 3, "{carried} of {found}");
}
