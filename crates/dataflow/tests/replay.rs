//! The same inputs give the same trace, to the nanosecond; a recording of measured costs too.

mod stage;

use std::hint::black_box;

use dataflow::trace::Event;
use dataflow::{
    Cancel, Costs, Cx, Error, Graph, Group, Message, Module, Part, Path, Recording, Settings, Stop,
    Virtual,
};
use stage::{MS, Random};

/// Work that takes a time that differs from run to run.
struct Collatz;

impl Module for Collatz {
    type In = Message<u64>;
    type Out = u64;

    fn run(&mut self, cx: &mut Cx<u64>, seed: &Self::In, path: Path) -> Result<u64, Stop> {
        let mut sum = 0;
        for chunk in 0..4 {
            let mut number = **seed + 1;
            while number != 1 {
                number = if number % 2 == 0 { number / 2 } else { number * 3 + 1 };
                sum += black_box(number);
            }
            if chunk == 0 && path == Path::Fast {
                cx.publish_partial(sum, Part::first(2));
            }
            cx.go_on()?;
        }
        cx.ahead("next", sum, |cx| {
            cx.go_on()?;
            Ok(1_u64)
        });
        Ok(sum + cx.take::<u64>("next", sum).unwrap_or(0))
    }
}

fn run(costs: Costs, seed: u64, frames: u64) -> Result<(Vec<Event>, Vec<u64>, Recording), Error> {
    let mut graph = Graph::new();
    let near = graph.group(Group::new("near", 1));
    let far = graph.group(Group::new("far", 2));
    let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
    if seed % 2 == 1 {
        for topic in [&a, &b, &c] {
            graph.serialise(topic);
        }
    }
    let source = graph.source("sensor", &a, Some(20_000));
    graph.module("first", near, Collatz, a.latest(), &b).fast_path().cancel(Cancel::Rest).guest();
    graph.module("second", far, Collatz, b.fifo(4), &c).fast_path().extra_worker(far, Collatz);
    let output = graph.output(&c);
    let mut clock = Virtual::new(graph, Settings::default(), costs)?;
    let mut random = Random(seed);
    let mut now_ns = 0;
    for _ in 0..frames {
        now_ns += random.below(40_000);
        clock.inject(&source, now_ns, now_ns, random.below(1 << 20))?;
        clock.advance_to(now_ns)?;
    }
    clock.advance_to(now_ns + 100 * MS)?;
    let out = clock.take(&output).iter().map(|out| **out).collect();
    Ok((clock.trace().events().copied().collect(), out, clock.recording().clone()))
}

#[test]
fn same_inputs_give_the_same_trace() {
    for seed in 0..20 {
        let costs = || Costs::Declared(Box::new(|chunk| 1_000 + chunk.frame * 37 % 5_000));
        let (first, second) = (run(costs(), seed, 200).unwrap(), run(costs(), seed, 200).unwrap());
        assert_eq!(first, second);
        assert!(first.1.len() > 20, "{}", first.1.len());
    }
}

#[test]
fn replay_of_measured_costs_gives_the_same_trace() {
    let measured = run(Costs::Measured { factor: 10.0 }, 3, 300).unwrap();
    let replayed = run(Costs::Replay(measured.2.clone()), 3, 300).unwrap();
    assert_eq!(measured, replayed);
    let total: u64 = measured.2.chunks.iter().map(|chunk| chunk.1).sum();
    assert!(total > 0, "something was measured");
}

#[test]
fn replay_of_another_run_is_told() {
    let mut recording = run(Costs::Measured { factor: 10.0 }, 3, 50).unwrap().2;
    recording.chunks.pop();
    let ended = run(Costs::Replay(recording.clone()), 3, 50);
    assert!(matches!(ended, Err(Error::Diverged { recorded: 0, .. })), "the recording has ended");
    let other = run(Costs::Replay(recording), 4, 60);
    assert!(matches!(other, Err(Error::Diverged { .. })));
}
