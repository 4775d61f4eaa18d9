//! Work ahead of time: found by key and version, cancelled when it is for nothing, and never in a
//! host's way (COLA, section 4.2).

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dataflow::trace::Class;
use dataflow::{Costs, Cx, Graph, Group, Path, Settings, Virtual};
use stage::{Do, MS, Stage, runs};

/// Makes costs: `ahead_ns` for each chunk of work ahead, `module_ns` for all others.
fn costs(ahead_ns: u64, module_ns: u64) -> Costs {
    Costs::Declared(Box::new(
        move |chunk| {
            if chunk.module.is_none() { ahead_ns } else { module_ns }
        },
    ))
}

/// A module that looks for the square of its number, and has the next one's computed ahead in
/// `chunks` chunks. Its output is what it found.
fn squares(
    chunks: u64,
    settings: Settings,
    costs: Costs,
) -> (Virtual, dataflow::Source<u64>, dataflow::Output<u64>, Arc<AtomicU64>) {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let passed = Arc::new(AtomicU64::new(0));
    let count = passed.clone();
    let run = move |cx: &mut Cx<u64>, number, _: Path| {
        let found = cx.take("square", number);
        let (next, count) = (number + 1, count.clone());
        cx.ahead("square", next, move |cx| {
            for _ in 1..chunks {
                cx.go_on()?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(next * next)
        });
        Ok(found.unwrap_or(0))
    };
    graph.module("stage", group, Do(run), a.latest(), &out);
    let output = graph.output(&out);
    (Virtual::new(graph, settings, costs).unwrap(), source, output, passed)
}

fn outputs(settings: Settings, costs: Costs, numbers: &[u64]) -> (Vec<u64>, u64, u64) {
    let (mut clock, source, output, _) = squares(4, settings, costs);
    for (frame, &number) in numbers.iter().enumerate() {
        clock.inject(&source, 10 * MS * frame as u64, 0, number).unwrap();
    }
    clock.advance_to(1_000 * MS).unwrap();
    let statistics = &clock.statistics().modules[0];
    let out = clock.take(&output).iter().map(|out| **out).collect();
    (out, statistics.hits, statistics.misses)
}

#[test]
fn result_is_found_by_its_version_only() {
    let found = outputs(Settings::default(), costs(MS, MS), &[5, 6, 7, 9, 10]);
    assert_eq!(found, (vec![0, 36, 49, 0, 100], 3, 2));
}

#[test]
fn work_that_is_not_done_is_a_miss_and_is_cancelled() {
    let (mut clock, source, output, passed) = squares(4, Settings::default(), costs(3 * MS, MS));
    // It runs from 1 ms, in chunks of 3: at 6 ms, two have begun, and the host takes the core.
    clock.inject(&source, 0, 0, 5).unwrap();
    clock.inject(&source, 6 * MS, 6 * MS, 6).unwrap();
    clock.advance_to(7 * MS).unwrap();
    assert_eq!(*clock.take(&output)[1], 0);
    assert_eq!(passed.load(Ordering::Relaxed), 1);
    clock.advance_to(100 * MS).unwrap();
    // The first piece passes no more checkpoints; the second all of them.
    assert_eq!(passed.load(Ordering::Relaxed), 1 + 3);
    let statistics = clock.statistics();
    assert_eq!((statistics.modules[0].hits, statistics.modules[0].misses), (0, 2));
    let ahead: Vec<_> = runs(&clock).into_iter().filter(|run| run.class == Class::Ahead).collect();
    assert_eq!(ahead[0].service_ns, 9 * MS, "two chunks, and the one that found it cancelled");
}

#[test]
fn base_does_nothing_ahead() {
    assert_eq!(outputs(Settings::base(), costs(MS, MS), &[5, 6, 7]), (vec![0; 3], 0, 3));
}

#[test]
fn host_takes_the_core_in_the_middle_of_a_chunk_of_work_ahead() {
    let (mut clock, source, _, _) = squares(1, Settings::default(), costs(50 * MS, MS));
    for frame in 0..4 {
        clock.inject(&source, frame * 10 * MS, 0, 100 * frame).unwrap();
    }
    clock.advance_to(1_000 * MS).unwrap();
    let hosts = runs(&clock).into_iter().filter(|run| run.class == Class::Host);
    let times: Vec<_> = hosts.map(|run| (run.start_ns / MS, run.end_ns / MS)).collect();
    assert_eq!(times, [(0, 1), (10, 11), (20, 21), (30, 31)]);
}

#[test]
fn arrival_of_a_message_has_work_done_ahead_and_its_frame_is_the_version() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (pose, scan, out) = (graph.topic::<u64>("pose"), graph.topic("scan"), graph.topic("out"));
    let poses = graph.source("pose", &pose, None);
    let scans = graph.source("scan", &scan, None);
    graph.ahead_on(&pose, group, "state", |message, _| Ok(**message * 2));
    // A scan's number is the frame of the pose that it belongs to.
    let run = |cx: &mut Cx<u64>, frame, _: Path| Ok(cx.take("state", frame).unwrap_or(0));
    graph.module("predict", group, Do(run), scan.latest(), &out);
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, Settings::default(), costs(MS, MS)).unwrap();
    for (at_ms, pose) in [(0, 100), (10, 101), (20, 102)] {
        clock.inject(&poses, at_ms * MS, at_ms * MS, pose).unwrap();
    }
    for (at_ms, frame) in [(5, 0), (15, 1), (16, 1), (20, 2)] {
        clock.inject(&scans, at_ms * MS, at_ms * MS, frame).unwrap();
    }
    clock.advance_to(100 * MS).unwrap();
    let found: Vec<u64> = clock.take(&output).iter().map(|out| **out).collect();
    // A result is taken once; the last is asked for in the moment in which its work could begin.
    assert_eq!(found, [200, 202, 0, 0]);
}

#[test]
fn dropped_work_is_cancelled() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let run = |cx: &mut Cx<u64>, number, _: Path| {
        match number {
            0 => cx.ahead("plan", 0, |cx| {
                (0..10).try_for_each(|_| cx.go_on())?;
                Ok(1_u64)
            }),
            1 => cx.drop_ahead("plan"),
            _ => return Ok(cx.take("plan", 0).unwrap_or(7)),
        }
        Ok(0)
    };
    graph.module("stage", group, Do(run), a.latest(), &out);
    graph.module("other", group, Stage::new(1), a.latest(), &out);
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, Settings::default(), costs(MS, 0)).unwrap();
    for (at_ms, number) in [(0, 0), (3, 1), (50, 2)] {
        clock.inject(&source, at_ms * MS, at_ms * MS, number).unwrap();
    }
    clock.advance_to(100 * MS).unwrap();
    assert!(clock.take(&output).iter().any(|out| **out == 7));
    let ahead = runs(&clock).into_iter().find(|run| run.class == Class::Ahead).unwrap();
    assert_eq!(ahead.end_ns, 4 * MS);
}
