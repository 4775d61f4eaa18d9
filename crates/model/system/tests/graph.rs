//! The section `graph`: the reference system as its authors describe it, and what is wrong where.

use std::path::{Path, PathBuf};
use system::{NodeKind, System, Work};

fn reference() -> System {
    let examples: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    System::read(examples.join("autoware-reference-system.yaml")).unwrap()
}

#[test]
fn reference_system_has_its_nodes_by_kind() {
    let system = reference();
    let graph = system.graph.as_ref().unwrap();
    let count = |kind| graph.nodes.iter().filter(|node| node.kind == kind).count();
    assert_eq!(NodeKind::ALL.map(|(_, kind)| count(kind)), [6, 9, 5, 1, 1, 2]);
    assert_eq!(graph.nodes.len(), 24);
    assert_eq!(graph.message_bytes, 4096);
    let worked = graph
        .nodes
        .iter()
        .filter(|node| matches!(node.work, Work::Primes { limit: 65_536, cpu_ns: Some(_) }));
    assert_eq!(worked.count(), 16);
}

#[test]
fn reference_system_has_a_segment_in_every_callback_but_seven() {
    let system = reference();
    let graph = system.graph.as_ref().unwrap();
    let timers = graph.nodes.iter().filter_map(|node| Some((node, &node.timer.as_ref()?.segments)));
    let inputs =
        graph.nodes.iter().flat_map(|n| n.inputs.iter().map(move |input| (n, &input.segments)));
    let callbacks: Vec<_> = timers.chain(inputs).collect();
    assert_eq!(callbacks.len(), 36);
    for (node, segments) in &callbacks {
        let expected: &[&str] = match node.id.as_str() {
            "BehaviorPlanner" => &[],
            "PointsTransformerRear" => &["tpu0"],
            _ => &["gpu0"],
        };
        let used: Vec<&str> = segments.iter().map(|segment| segment.accel.as_str()).collect();
        assert_eq!(used, expected, "{}", node.id);
    }
    assert_eq!(callbacks.iter().filter(|(node, _)| node.id == "BehaviorPlanner").count(), 7);
    assert_eq!(system.accelerator("tpu0").unwrap().buckets, 1);
}

#[test]
fn hot_path_of_the_reference_system_is_that_of_the_lidars() {
    let system = reference();
    let graph = system.graph.as_ref().unwrap();
    let nodes: Vec<&str> =
        graph.on_path(&graph.paths[0]).iter().map(|node| node.id.as_str()).collect();
    assert_eq!(
        nodes,
        [
            "FrontLidarDriver",
            "RearLidarDriver",
            "PointsTransformerFront",
            "PointsTransformerRear",
            "RayGroundFilter",
            "ObjectCollisionEstimator",
            "PointCloudFusion",
            "EuclideanClusterDetector",
        ]
    );
    // Each later callback of the path is more urgent, whatever its executor.
    let settings = graph.publisher("EuclideanIntersection").unwrap();
    assert_eq!(
        (settings.id.as_str(), graph.subscriptions("NDTLocalizer")),
        ("EuclideanClusterDetector", 2)
    );
}

/// A graph with these nodes and paths, on one executor and one accelerator.
fn error(nodes: &str, paths: &str) -> String {
    let text = format!(
        "accelerators: [{{id: gpu0, buckets: 1}}]\n\
         executors: [{{id: e, core: 0, priority: 1}}]\n\
         graph:\n  nodes:\n{nodes}\n  paths: [{paths}]\n"
    );
    System::parse(&text, "bad.yaml").map(|_| ()).unwrap_err().to_string()
}

const SENSOR: &str = "  - {id: s, kind: sensor, executor: e, period: 10 ms, priority: 1}\n";

fn with_sensor(nodes: &str) -> String {
    error(&format!("{SENSOR}{nodes}"), "")
}

#[test]
fn keys_that_do_not_fit_their_kind_are_refused_by_place() {
    let node = |rest: &str| with_sensor(&format!("  - {{id: n, executor: e, {rest}}}"));
    let at = "bad.yaml:6:";
    for (rest, expected) in [
        (
            "kind: filter",
            r#"graph.nodes[1].kind: found "filter", expected sensor or transform or fusion or cyclic or intersection or command"#,
        ),
        (
            "kind: sensor, period: 5 ms, priority: 2, inputs: [{from: s, priority: 3}]",
            "graph.nodes[1].inputs: found a list of 1, expected no inputs of a sensor",
        ),
        ("kind: sensor, priority: 2", "graph.nodes[1].period: missing"),
        (
            "kind: transform",
            "graph.nodes[1]: found a mapping, expected inputs: one input of a transform",
        ),
        (
            "kind: transform, period: 5 ms, inputs: [{from: s, priority: 3}]",
            r#"graph.nodes[1].period: found "5 ms", expected no period of a transform, which has no timer"#,
        ),
        (
            "kind: fusion, inputs: [{from: s, priority: 3}]",
            "graph.nodes[1].inputs: found a list of 1, expected at least two inputs of a fusion",
        ),
        (
            "kind: intersection, inputs: [{from: s, priority: 3}]",
            "graph.nodes[1].inputs[0].output: missing",
        ),
        (
            "kind: command, inputs: [{from: s, output: t, priority: 3}]",
            r#"graph.nodes[1].inputs[0].output: found "t", expected output only with an intersection"#,
        ),
        (
            "kind: transform, cpu: 0 ms, primes: 5, inputs: [{from: s, priority: 3}]",
            r#"graph.nodes[1].cpu: found "0 ms", expected a time above 0"#,
        ),
        (
            "kind: transform, primes: 1, inputs: [{from: s, priority: 3}]",
            r#"graph.nodes[1].primes: found "1", expected a whole number from 2 to 100000000"#,
        ),
        (
            "kind: transform, inputs: [{from: s, priority: 3, depth: 0}]",
            r#"graph.nodes[1].inputs[0].depth: found "0", expected a whole number from 1 to 1000"#,
        ),
    ] {
        let error = node(rest);
        assert!(error.starts_with(at) && error.contains(expected), "{rest}:\n{error}\n{expected}");
    }
}

#[test]
fn references_and_priorities_of_a_graph_are_checked() {
    let input = |from: &str, priority: u32| {
        with_sensor(&format!(
            "  - {{id: n, kind: transform, executor: e, inputs: [{{from: {from}, priority: {priority}}}]}}"
        ))
    };
    assert!(input("nowhere", 2).contains(
        r#"graph.nodes[1].inputs[0].from: found "nowhere", expected a topic that a node publishes"#
    ));
    assert!(input("s", 1).contains(r#"graph.nodes[1].inputs[0].priority: found "1", expected a priority of its own; a callback of "s" has it"#));
    let elsewhere =
        with_sensor("  - {id: n, kind: command, executor: f, inputs: [{from: s, priority: 2}]}");
    assert!(
        elsewhere
            .contains(r#"graph.nodes[1].executor: found "f", expected one of the executors: "e""#),
        "{elsewhere}"
    );
    let twice = with_sensor(SENSOR);
    assert!(
        twice.contains(
            r#"graph.nodes[1].id: found "s", expected a name of its own; graph.nodes[0] has it"#
        ),
        "{twice}"
    );
    let topic = with_sensor(
        "  - {id: n, kind: intersection, executor: e, inputs: [{from: s, output: s, priority: 2}]}",
    );
    assert!(topic.contains(r#"graph.nodes[1].inputs[0].output: found "s", expected a topic of its own; "s" publishes it"#), "{topic}");
    let segment = with_sensor(
        "  - {id: n, kind: command, executor: e, segments: [{accel: npu, exec: 1 us}], inputs: [{from: s, priority: 2}]}",
    );
    assert!(segment.contains(r#"graph.nodes[1].inputs[0].segments[0].accel: found "npu", expected one of the accelerators: "gpu0""#), "{segment}");
}

#[test]
fn messages_that_come_back_are_refused_unless_a_timer_breaks_the_circle() {
    let circle = |kind: &str| {
        format!(
            "{SENSOR}  - {{id: a, kind: fusion, executor: e, inputs: [{{from: s, priority: 2}}, {{from: b, priority: 3}}]}}\n\
             \x20 - {{id: b, executor: e, {kind}, inputs: [{{from: a, priority: 4}}]}}"
        )
    };
    let refused = error(&circle("kind: transform"), "");
    assert!(refused.contains(r#"graph.nodes[1].inputs[0].from: found "s", expected messages that do not come back to this node"#), "{refused}");
    let text = format!(
        "executors: [{{id: e, core: 0, priority: 1}}]\ngraph:\n  nodes:\n{}\n",
        circle("kind: cyclic, period: 10 ms, priority: 9")
    );
    System::parse(&text, "good.yaml").unwrap();
}

#[test]
fn paths_are_checked_against_the_nodes_that_forward() {
    let nodes = format!(
        "{SENSOR}  - {{id: n, kind: cyclic, executor: e, period: 5 ms, priority: 2, inputs: [{{from: s, priority: 3}}]}}\n\
         \x20 - {{id: c, kind: command, executor: e, inputs: [{{from: n, priority: 4}}]}}"
    );
    let path = |path: &str| error(&nodes, path);
    assert!(
        path("{id: p, roots: [s], sink: x}")
            .contains(r#"graph.paths[0].sink: found "x", expected one of the nodes"#)
    );
    assert!(
        path("{id: p, roots: [c], sink: c}")
            .contains(r#"graph.paths[0].roots[0]: found "c", expected a node with a timer"#)
    );
    assert!(
        path("{id: p, roots: [], sink: c}")
            .contains("graph.paths[0].roots: found [], expected at least one root")
    );
    // The cyclic node publishes when its timer says so.
    assert!(path("{id: p, roots: [s], sink: c}").contains(
        r#"graph.paths[0].roots[0]: found "s", expected a root whose messages reach "c""#
    ));
    assert!(
        path("{id: p, roots: [n], sink: c, reported: {ros2: 0}}")
            .contains(r#"graph.paths[0].reported.ros2: found "0", expected a time above 0"#)
    );
}

#[test]
fn file_without_a_graph_is_refused_where_one_is_needed() {
    let system = System::parse("executors: []", "none.yaml").unwrap();
    assert!(system.require_graph().unwrap_err().to_string().contains("none.yaml"));
    let empty = System::parse("graph: {nodes: []}", "bad.yaml").unwrap_err().to_string();
    assert!(empty.contains("graph.nodes: found []"), "{empty}");
}

/// Nodes one after the other: each input leads to all nodes behind it.
fn line(nodes: usize) -> String {
    let of = |n: usize| {
        let from = if n == 1 { "s".to_owned() } else { format!("n{}", n - 1) };
        let input = format!("{{from: {from}, priority: {}}}", n + 1);
        format!("  - {{id: n{n}, kind: transform, executor: e, inputs: [{input}]}}\n")
    };
    let nodes: String = (1..=nodes).map(of).collect();
    format!(
        "accelerators: [{{id: gpu0, buckets: 1}}]\n\
         executors: [{{id: e, core: 0, priority: 1}}]\n\
         graph:\n  nodes:\n{SENSOR}{nodes}\n"
    )
}

#[test]
fn graph_that_takes_more_steps_to_follow_than_there_may_be_is_refused() {
    let system = System::parse(&line(1_000), "line.yaml").unwrap();
    assert_eq!(system.graph.unwrap().nodes.len(), 1_001);
    let error = System::parse(&line(9_000), "line.yaml").map(|_| ()).unwrap_err().to_string();
    let expected = "found more than 10000000 steps along the ways of its messages, expected fewer \
                    nodes, inputs or paths";
    assert!(error.starts_with("line.yaml:") && error.ends_with(expected), "{error}");
}
