//! Bounds of small graphs, against what can be worked out by hand and against schedules that are
//! walked through here.

use std::collections::BTreeMap;

use super::unit::{Pace, units};
use super::*;

const HEAD: &str = "
accelerators: [{id: gpu0, buckets: 6, cores: [0]}]
executors:
- {id: front, core: 1, priority: 90}
- {id: rear, core: 2, priority: 80}
";

fn system(nodes: &str, paths: &str) -> System {
    let text = format!("{HEAD}graph:\n  nodes:\n{nodes}  paths: [{paths}]\n");
    System::parse(&text, "test.yaml").unwrap_or_else(|error| panic!("{error}"))
}

fn found(system: &System) -> GraphBounds {
    let cores: Vec<u32> = system.executors.iter().map(|executor| executor.core).collect();
    bounds(system, system.graph.as_ref().unwrap(), &cores, &Watch::default()).unwrap()
}

fn ms(bounds: &GraphBounds) -> BTreeMap<&str, Option<f64>> {
    let callbacks = bounds.callbacks.iter();
    callbacks.map(|c| (c.name.as_str(), c.bound_ns.map(|ns| ns as f64 / 1e6))).collect()
}

fn reason<'b>(bounds: &'b GraphBounds, name: &str) -> &'b str {
    let callback = bounds.callbacks.iter().find(|callback| callback.name == name).unwrap();
    callback.reason.as_deref().unwrap_or("none")
}

/// A fork: two lidars are fused, what comes of it is used on two executors.
const FORK: &str = "
  - {id: left, kind: sensor, executor: front, period: 100 ms, priority: 10, cpu: 1 ms}
  - {id: right, kind: sensor, executor: front, period: 100 ms, priority: 11, cpu: 2 ms}
  - {id: fuse, kind: fusion, executor: front, cpu: 4 ms, inputs: [{from: left, priority: 12}, {from: right, priority: 13}]}
  - {id: steer, kind: command, executor: front, cpu: 8 ms, inputs: [{from: fuse, priority: 15}]}
  - {id: log, kind: command, executor: rear, cpu: 16 ms, inputs: [{from: fuse, priority: 1}]}
";

#[test]
fn fork_is_a_line_and_a_branch_that_waits_for_the_fusion() {
    let system = system(FORK, "{id: hot, roots: [left, right], sink: steer}");
    let bounds = found(&system);
    // The fusion is one unit; its part of the line ends with the command.
    let expected = [
        ("fuse", 15.0),
        ("left (timer)", 15.0),
        ("log", 31.0),
        ("right (timer)", 15.0),
        ("steer", 15.0),
    ];
    let expected: BTreeMap<&str, Option<f64>> =
        expected.into_iter().map(|(name, ms)| (name, Some(ms))).collect();
    assert_eq!(ms(&bounds), expected);
    assert_eq!(bounds.paths[0].bound_ns, Some(15_000_000));
}

#[test]
fn hop_is_on_the_way_and_at_the_receiver() {
    let mut system = system(FORK, "{id: hot, roots: [left, right], sink: steer}");
    system.hop_ns = 100_000;
    // Sent: left, right, fuse; received: twice by the fusion, once by the command.
    assert_eq!(found(&system).paths[0].bound_ns, Some(15_600_000));
}

#[test]
fn each_message_lets_something_less_urgent_begin() {
    let other =
        "  - {id: slow, kind: sensor, executor: front, period: 1 s, priority: 2, cpu: 30 ms}\n";
    let system = system(
        &format!(
            "  - {{id: s, kind: sensor, executor: front, period: 200 ms, priority: 8, cpu: 1 ms}}\n  - {{id: t, kind: transform, executor: front, cpu: 2 ms, inputs: [{{from: s, priority: 9}}]}}\n  - {{id: u, kind: command, executor: front, cpu: 4 ms, inputs: [{{from: t, priority: 10}}]}}\n{other}"
        ),
        "{id: p, roots: [s], sink: u}",
    );
    // Before the first callback and before each of the two messages came.
    assert_eq!(found(&system).paths[0].bound_ns, Some(97_000_000));
}

#[test]
fn less_urgent_callback_that_waits_for_an_accelerator_holds_the_executor_as_long() {
    let system = system(
        "
  - {id: s, kind: sensor, executor: front, period: 200 ms, priority: 8, cpu: 1 ms}
  - {id: t, kind: command, executor: front, cpu: 2 ms, inputs: [{from: s, priority: 9}]}
  - {id: slow, kind: sensor, executor: front, period: 1 s, priority: 2, cpu: 3 ms, segments: [{accel: gpu0, exec: 20 ms}]}
",
        "{id: p, roots: [s], sink: t}",
    );
    assert_eq!(found(&system).paths[0].bound_ns, Some((3 + 2 * 23) * 1_000_000));
}

#[test]
fn request_of_the_same_bucket_from_another_executor_is_in_the_way() {
    let nodes = |buckets: u32| {
        let text = format!(
            "{}graph:
  nodes:
  - {{id: high, kind: sensor, executor: front, period: 100 ms, priority: 8, segments: [{{accel: gpu0, exec: 5 ms}}]}}
  - {{id: low, kind: sensor, executor: rear, period: 100 ms, priority: 2, segments: [{{accel: gpu0, exec: 20 ms}}]}}
",
            HEAD.replace("buckets: 6", &format!("buckets: {buckets}"))
        );
        ms(&found(&System::parse(&text, "test.yaml").unwrap()))["high (timer)"]
    };
    assert_eq!((nodes(1), nodes(2)), (Some(25.0), Some(5.0)));
}

#[test]
fn fusion_of_different_periods_has_no_bound_and_only_a_rate() {
    let nodes = "
  - {id: fast, kind: sensor, executor: front, period: 60 ms, priority: 3}
  - {id: slow, kind: sensor, executor: front, period: 100 ms, priority: 2}
  - {id: mix, kind: fusion, executor: front, cpu: 1 ms, inputs: [{from: fast, priority: 5}, {from: slow, priority: 4}]}
  - {id: after, kind: command, executor: rear, cpu: 1 ms, inputs: [{from: mix, priority: 6, depth: 2}]}
  - {id: other, kind: sensor, executor: rear, period: 500 ms, priority: 1, cpu: 10 ms}
";
    let system = system(nodes, "{id: p, roots: [fast], sink: after}");
    let units = units(&system, system.graph.as_ref().unwrap()).unwrap();
    let rates = units.iter().filter_map(|unit| match unit.pace {
        Pace::Rate { burst, .. } => Some((unit.name.as_str(), unit.period_ns / 1_000_000, burst)),
        Pace::Periodic => None,
    });
    // Of `mix`, at most two of a timer, one that waits, one that runs, and one that it kept.
    let expected = [("mix < fast", 60, 2), ("mix < slow", 100, 2), ("after", 100, 5)];
    assert_eq!(rates.collect::<Vec<_>>(), expected);
    let bounds = found(&system);
    assert_eq!(reason(&bounds, "after"), "mix fuses messages of different periods");
    assert_eq!(bounds.paths[0].reason.as_deref(), Some("mix fuses messages of different periods"));
    // Six executions of `after` at once are possible.
    assert_eq!(ms(&bounds)["other (timer)"], Some(16.0));
}

#[test]
fn what_follows_a_callback_without_a_bound_has_none() {
    let nodes = "
  - {id: s, kind: sensor, executor: front, period: 10 ms, priority: 3, cpu: 11 ms}
  - {id: t, kind: command, executor: rear, cpu: 1 ms, inputs: [{from: s, priority: 5}]}
  - {id: u, kind: sensor, executor: rear, period: 100 ms, priority: 4, cpu: 1 ms}
";
    let bounds = found(&system(nodes, "{id: p, roots: [s], sink: t}"));
    assert_eq!(reason(&bounds, "s (timer)"), "may take longer than its period of 10 ms");
    assert_eq!(reason(&bounds, "t"), "comes after s (timer), which has no bound");
    assert_eq!(reason(&bounds, "u (timer)"), "relies on t, which has no bound");
    assert!(!bounds.complete());
}

#[test]
fn path_to_a_cyclic_node_waits_for_its_next_release() {
    let nodes = "
  - {id: s, kind: sensor, executor: front, period: 100 ms, priority: 3, cpu: 1 ms}
  - {id: plan, kind: cyclic, executor: rear, period: 40 ms, priority: 5, cpu: 2 ms, inputs: [{from: s, priority: 4}]}
";
    let bounds = found(&system(nodes, "{id: p, roots: [s], sink: plan}"));
    // The timer's callback may come before the input's, once, and then a period later.
    assert_eq!(bounds.paths[0].bound_ns, Some((1 + 2 + 40 + 2) * 1_000_000));
}

#[test]
fn primes_need_a_time() {
    let nodes =
        "  - {id: s, kind: sensor, executor: front, period: 10 ms, priority: 3, primes: 100}\n";
    let unknown = system(nodes, "");
    let refused =
        bounds(&unknown, unknown.graph.as_ref().unwrap(), &[1, 2], &Watch::default()).unwrap_err();
    assert_eq!(refused, "the file does not say how long the primes of s take");
    let known = system(&nodes.replace("primes: 100", "primes: 100, cpu: 3 ms"), "");
    assert_eq!(ms(&found(&known))["s (timer)"], Some(3.0));
}
