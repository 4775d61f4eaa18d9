//! The fast path: when it is taken, what reaches downstream early, what is cancelled.

mod stage;

use dataflow::trace::{Point, RunEnd};
use dataflow::{
    Cancel, Costs, Cx, Graph, Group, Judge, Message, Module, NO_DEADLINE, ObjectDeadline, Path,
    Settings, Source, Stop, Virtual,
};
use stage::{MS, Stage, runs};
use std::collections::{HashMap, HashSet};

/// Three stages of 4, 10 and 6 ms in chunks of 2 ms; the second may take the fast path.
fn pipeline(deadline_ns: u64, settings: Settings) -> (Virtual, Source<u64>, dataflow::Output<u64>) {
    let (clock, [source, _], output) = pipelines(deadline_ns, settings);
    (clock, source, output)
}

/// The same, with a second source whose frames have no deadline.
fn pipelines(
    deadline_ns: u64,
    settings: Settings,
) -> (Virtual, [Source<u64>; 2], dataflow::Output<u64>) {
    let mut graph = Graph::new();
    let see = graph.group(Group::new("see", 1));
    let think = graph.group(Group::new("think", 2));
    let (a, b) = (graph.topic("a"), graph.topic("b"));
    let (c, d) = (graph.topic("c"), graph.topic("d"));
    let sources = [("sensor", deadline_ns), ("calm", NO_DEADLINE)];
    let sources = sources.map(|(name, deadline_ns)| graph.source(name, &a, Some(deadline_ns)));
    graph.module("perceive", see, Stage::new(2), a.latest(), &b);
    let predict = Stage::declared(5, 10 * MS);
    graph.module("predict", think, predict, b.latest(), &c).fast_path().cancel(Cancel::Rest);
    let extra = graph.group(Group::new("extra", 1));
    graph
        .module("plan", think, Stage::new(3), c.latest(), &d)
        .fast_path()
        .extra_worker(extra, Stage::new(3));
    let output = graph.output(&d);
    let clock = Virtual::new(graph, settings, Costs::fixed(vec![2 * MS; 3])).unwrap();
    (clock, sources, output)
}

/// Returns the path by the rule of section 4.1, from the values in the trace.
fn rule(at_ns: u64, here_ns: u64, downstream_ns: u64, deadline_ns: u64) -> Path {
    if at_ns + here_ns + downstream_ns <= deadline_ns { Path::Normal } else { Path::Fast }
}

#[test]
fn fast_path_is_taken_exactly_when_the_budget_is_too_short() {
    // Once both have run, predicting starts 4 ms after the capture and needs 10 + 6.
    for (deadline_ns, path) in [(20 * MS, Path::Normal), (20 * MS - 1, Path::Fast)] {
        let (mut clock, source, _) = pipeline(NO_DEADLINE, Settings::default());
        clock.inject(&source, 0, 0, 1).unwrap();
        clock.advance_to(100 * MS).unwrap();
        assert!(runs(&clock).iter().all(|run| run.path == Path::Normal));
        let (mut clock, [source, calm], _) = pipelines(deadline_ns, Settings::default());
        // The first frame teaches what predicting and planning take.
        clock.inject(&calm, 0, 0, 1).unwrap();
        clock.inject(&source, 100 * MS, 100 * MS, 1).unwrap();
        clock.advance_to(200 * MS).unwrap();
        let predictions: Vec<_> =
            runs(&clock).into_iter().filter(|run| run.module == Some(1)).collect();
        assert_eq!(predictions[0].path, Path::Normal);
        assert_eq!(predictions[1].path, path, "deadline {deadline_ns}");
    }
}

#[test]
fn every_choice_follows_the_rule_and_perception_has_none() {
    for deadline_ms in 10..30 {
        let (mut clock, source, _) = pipeline(deadline_ms * MS, Settings::default());
        let mut random = stage::Random(deadline_ms);
        for frame in 0..200 {
            let at_ns = frame * 13 * MS + random.below(9 * MS);
            clock.inject(&source, at_ns, frame * 13 * MS, 1).unwrap();
        }
        clock.advance_to(4_000 * MS).unwrap();
        let mut choices = 0;
        let mut run_of = HashMap::new();
        let (mut cancelled, mut parted) = ([0; 3], HashSet::new());
        let mut again = 0;
        for event in clock.trace().events() {
            match event.point {
                Point::Published { .. } => _ = parted.insert(event.job),
                // Without a part, it is not a newer frame that has cancelled it.
                Point::End { outcome: RunEnd::Cancelled, .. } if !parted.contains(&event.job) => {
                    cancelled[run_of[&event.job]] += 1;
                }
                _ => {}
            }
            if let Point::Start { module, path, here_ns, downstream_ns, deadline_ns, .. } =
                event.point
            {
                let module = module.unwrap().index();
                run_of.insert(event.job, module);
                let expected = match module {
                    0 => Path::Normal,
                    // A run that was begun on the normal path, and is begun anew.
                    _ if path == Path::Fast && cancelled[module] > 0 => {
                        (cancelled[module], again) = (cancelled[module] - 1, again + 1);
                        continue;
                    }
                    _ => rule(event.at_ns, here_ns, downstream_ns, deadline_ns),
                };
                assert_eq!(path, expected);
                choices += 1;
            }
        }
        let switched: u64 = clock.statistics().modules.iter().map(|it| it.switched).sum();
        assert!(choices >= 300 && again == switched, "{choices} {again} {switched}");
    }
}

#[test]
fn fast_path_that_is_taken_for_long_is_not_left_without_reason() {
    for judge in [Judge::Quantile, Judge::Predicted] {
        let mut graph = Graph::new();
        let all = graph.group(Group::new("all", 1));
        let (a, b) = (graph.topic("a"), graph.topic("b"));
        let calm = graph.source("calm", &a, None);
        let danger = graph.source("danger", &a, Some(9 * MS));
        graph.module("stage", all, Stage::new(4), a.latest(), &b).fast_path();
        let settings = Settings { judge, forget_ns: 1_000 * MS, ..Settings::default() };
        let mut clock = Virtual::new(graph, settings, Costs::fixed(vec![3 * MS])).unwrap();
        // 12 ms on the normal path; 5 s of danger, longer than quantiles last.
        for frame in 0..150 {
            let source = if frame < 50 { &calm } else { &danger };
            clock.inject(source, frame * 50 * MS, frame * 50 * MS, 1).unwrap();
        }
        clock.inject(&calm, 8_000 * MS, 8_000 * MS, 1).unwrap();
        clock.advance_to(9_000 * MS).unwrap();
        let paths: Vec<Path> = runs(&clock).iter().map(|run| run.path).collect();
        assert!(paths[..50].iter().all(|&path| path == Path::Normal));
        assert!(paths[50..150].iter().all(|&path| path == Path::Fast), "{judge:?}");
        assert_eq!(paths[150], Path::Normal);
    }
}

#[test]
fn base_never_takes_the_fast_path() {
    let (mut clock, source, _) = pipeline(1, Settings::base());
    clock.inject(&source, 0, 0, 1).unwrap();
    clock.advance_to(100 * MS).unwrap();
    assert!(runs(&clock).iter().all(|run| run.path == Path::Normal));
}

#[test]
fn first_part_reaches_downstream_before_the_rest_is_computed() {
    let (mut clock, source, output) = pipeline(5 * MS, Settings::default());
    clock.inject(&source, 0, 0, 1).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let runs = runs(&clock);
    let predict = runs.iter().find(|run| run.module == Some(1)).unwrap();
    assert_eq!(predict.published, [(6 * MS, 1, 2), (16 * MS, 2, 2)]);
    let plans: Vec<_> = runs.iter().filter(|run| run.module == Some(2)).collect();
    assert_eq!((plans[0].start_ns, plans[1].start_ns), (6 * MS, 16 * MS));
    assert!(plans[0].end_ns < predict.end_ns, "the command is out before the rest");
    let out = clock.take(&output);
    // Planning publishes parts of its own: two of each of prediction's two.
    assert_eq!(
        out.iter().map(|out| out.header.published_ns / MS).collect::<Vec<_>>(),
        [8, 14, 18, 24]
    );
}

#[test]
fn rest_is_cancelled_by_a_newer_frame_and_the_first_part_is_not() {
    let (mut clock, source, _) = pipeline(5 * MS, Settings::default());
    clock.inject(&source, 0, 0, 1).unwrap();
    clock.inject(&source, 5 * MS, 5 * MS, 2).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let predictions: Vec<_> =
        runs(&clock).into_iter().filter(|run| run.module == Some(1)).collect();
    assert_eq!(predictions[0].published, [(6 * MS, 1, 2)]);
    // The newer frame is there at 9 ms; the checkpoint at 10 says so, and leaving takes a chunk.
    assert_eq!(predictions[1].start_ns, 12 * MS);
    assert_eq!(predictions[1].published.len(), 2);
    let statistics = clock.statistics();
    assert_eq!((statistics.modules[1].cancelled, statistics.modules[1].fast), (1, 1));
}

#[test]
fn run_without_a_part_is_cancelled_by_a_newer_frame_only_if_it_always_is() {
    for (cancel, cancelled) in [(Cancel::Never, 0), (Cancel::Rest, 0), (Cancel::Always, 1)] {
        let mut graph = Graph::new();
        let all = graph.group(Group::new("all", 1));
        let (a, b) = (graph.topic("a"), graph.topic("b"));
        let source = graph.source("sensor", &a, None);
        graph.module("stage", all, Stage::new(4), a.latest(), &b).cancel(cancel);
        let costs = Costs::fixed(vec![2 * MS]);
        let mut clock = Virtual::new(graph, Settings::default(), costs).unwrap();
        clock.inject(&source, 0, 0, 1).unwrap();
        clock.inject(&source, 3 * MS, 3 * MS, 2).unwrap();
        clock.advance_to(100 * MS).unwrap();
        let statistics = &clock.statistics().modules[0];
        assert_eq!((statistics.cancelled, statistics.normal), (cancelled, 2 - cancelled));
    }
}

#[test]
fn extra_worker_runs_a_part_while_the_first_instance_is_busy() {
    let starts = |settings| {
        // Both of prediction's parts come while planning runs: 5 chunks of 1 ms against 3 of 6.
        let mut graph = Graph::new();
        let all = graph.group(Group::new("all", 2));
        let extra = graph.group(Group { takes_guests: false, ..Group::new("extra", 1) });
        let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
        let source = graph.source("sensor", &a, Some(1));
        graph.module("predict", all, Stage::new(5), a.latest(), &b).fast_path();
        let plan = graph.module("plan", all, Stage::new(3), b.latest(), &c);
        plan.extra_worker(extra, Stage::new(3));
        let mut clock = Virtual::new(graph, settings, Costs::fixed(vec![MS, 6 * MS])).unwrap();
        clock.inject(&source, MS, 0, 1).unwrap();
        clock.advance_to(100 * MS).unwrap();
        let plans = runs(&clock).into_iter().filter(|run| run.module == Some(1));
        plans.map(|run| run.start_ns / MS).collect::<Vec<_>>()
    };
    assert_eq!(starts(Settings::default()), [2, 7]);
    assert_eq!(starts(Settings::base()), [6], "base has one part and no extra worker");
}

/// Finds one object whose deadline is the number that it reads, in nanoseconds.
struct Find;

impl Module for Find {
    type In = Message<u64>;
    type Out = u64;

    fn run(&mut self, cx: &mut Cx<u64>, number: &Self::In, _: Path) -> Result<u64, Stop> {
        assert_eq!(cx.object_deadline_ns(7), NO_DEADLINE);
        cx.set_objects(vec![
            ObjectDeadline { id: 7, deadline_ns: **number },
            ObjectDeadline { id: 8, deadline_ns: NO_DEADLINE },
        ]);
        Ok(**number)
    }
}

/// Publishes what it knows: its object's deadline, and what remains.
struct Ask;

impl Module for Ask {
    type In = Message<u64>;
    type Out = (u64, u64, u64);

    fn run(&mut self, cx: &mut Cx<Self::Out>, _: &Self::In, _: Path) -> Result<Self::Out, Stop> {
        cx.go_on()?;
        Ok((cx.object_deadline_ns(7), cx.deadline_ns(), cx.remaining_ns()))
    }
}

#[test]
fn deadlines_of_objects_travel_with_the_messages() {
    let mut graph = Graph::new();
    let all = graph.group(Group::new("all", 1));
    let (a, b) = (graph.topic("a"), graph.topic("b"));
    let (c, d) = (graph.topic("c"), graph.topic("d"));
    let source = graph.source("sensor", &a, Some(80 * MS));
    graph.module("find", all, Find, a.latest(), &b);
    graph.module("ask", all, Ask, b.latest(), &c);
    graph.module("after", all, Stage::new(1), b.latest(), &d);
    let output = graph.output(&c);
    let costs = Costs::fixed(vec![2 * MS, 3 * MS, MS]);
    let mut clock = Virtual::new(graph, Settings::default(), costs).unwrap();
    clock.inject(&source, 0, 0, 50 * MS).unwrap();
    clock.advance_to(30 * MS).unwrap();
    clock.inject(&source, 30 * MS, 30 * MS, 200 * MS).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let out: Vec<_> = clock.take(&output).iter().map(|out| **out).collect();
    // The second chunk of asking begins 3 ms after the run, which begins after finding.
    assert_eq!(out[0], (50 * MS, 50 * MS, 45 * MS));
    assert_eq!(out[1], (200 * MS, 110 * MS, 75 * MS), "the source's own deadline is earlier");
}
