//! The graph back as text.

use super::{Graph, Input, KeyPath, Node, Work};
use crate::Segment;
use crate::format_time;
use crate::quantity::format_bytes;
use crate::write::{Map, flow_list, segment, text};

/// The section `graph`.
pub(crate) fn section(graph: &Graph) -> String {
    let nodes: String = graph.nodes.iter().map(node).collect();
    let paths: String = graph.paths.iter().map(path).collect();
    let message = format_bytes(graph.message_bytes);
    let paths = if paths.is_empty() { String::new() } else { format!("  paths:\n{paths}") };
    format!("graph:\n  message: {message}\n  nodes:\n{nodes}{paths}")
}

fn node(node: &Node) -> String {
    let Node { id, kind, executor, work, timer, inputs } = node;
    let mut map = Map::with("id", text(id));
    map.put("kind", kind.name());
    map.put("executor", text(executor));
    match work {
        Work::None => {}
        Work::Cpu(ns) => map.put("cpu", format_time(*ns)),
        Work::Primes { limit, cpu_ns } => {
            map.put("primes", limit);
            map.put_some("cpu", *cpu_ns, format_time);
        }
    }
    if let Some(timer) = timer {
        map.put("period", format_time(timer.period_ns));
        map.put("priority", timer.priority);
        segments(&mut map, &timer.segments);
    }
    if inputs.is_empty() {
        return map.item(4);
    }
    let inputs: String = inputs.iter().map(|of| input(of).item(8)).collect();
    format!("{}      inputs:\n{inputs}", map.dashed(4))
}

fn input(input: &Input) -> Map {
    let Input { from, output, priority, depth, segments: of_callback } = input;
    let mut map = Map::with("from", text(from));
    map.put_some("output", output.as_deref(), text);
    map.put("priority", priority);
    map.put_unless("depth", *depth, 1, |depth| depth);
    segments(&mut map, of_callback);
    map
}

fn segments(map: &mut Map, segments: &[Segment]) {
    let items: Vec<String> = segments.iter().map(|of| segment(of).flow()).collect();
    map.put_unless("segments", items.as_slice(), &[], flow_list);
}

fn path(path: &KeyPath) -> String {
    let KeyPath { id, roots, sink, reported_ns } = path;
    let mut map = Map::with("id", text(id));
    let roots: Vec<String> = roots.iter().map(|root| text(root)).collect();
    map.put("roots", flow_list(&roots));
    map.put("sink", text(sink));
    if !reported_ns.is_empty() {
        let mut reported = Map::default();
        for (method, time_ns) in reported_ns {
            reported.put(&text(method), format_time(*time_ns));
        }
        map.put("reported", reported.flow());
    }
    map.item(4)
}
