//! Order of runs on the cores; triggers; messages that a mailbox keeps.

mod stage;

use dataflow::{Costs, Error, Graph, Group, Message, Settings, Trigger, Virtual};
use stage::{Count, MS, Stage, runs};

fn order(clock: &Virtual) -> Vec<Option<usize>> {
    runs(clock).into_iter().map(|run| run.module).collect()
}

#[test]
fn chain_takes_the_sum_of_its_costs_and_hops() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 2));
    let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
    let source = graph.source("sensor", &a, None);
    graph.module("first", group, Stage::new(3), a.latest(), &b);
    graph.module("second", group, Stage::new(1), b.latest(), &c);
    let output = graph.output(&c);
    let settings = Settings { hop_ns: 100, ..Settings::base() };
    let mut clock = Virtual::new(graph, settings, Costs::fixed(vec![MS, 5 * MS])).unwrap();
    clock.inject(&source, 10 * MS, 9 * MS, 7).unwrap();
    clock.advance_to(18 * MS + 99).unwrap();
    assert!(clock.take(&output).is_empty(), "the output is of 18 ms and 100 ns");
    clock.advance_to(18 * MS + 100).unwrap();
    let out = clock.take(&output);
    assert_eq!((*out[0].value, out[0].header.published_ns), (7, 18 * MS + 100));
    assert_eq!((out[0].header.frame, out[0].header.captured_ns), (0, 9 * MS));
    assert!(out[0].header.knows(source.id(), 9 * MS));
    assert!(!out[0].header.knows(source.id(), 9 * MS + 1));
    assert!(clock.take(&output).is_empty(), "an output is taken once");
}

#[test]
fn ready_run_with_the_earliest_deadline_has_the_core() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let sink = graph.topic("sink");
    let mut sources = Vec::new();
    for (index, deadline_ms) in [95, 90, 40, 70].into_iter().enumerate() {
        let topic = graph.topic(&format!("in {index}"));
        sources.push(graph.source("sensor", &topic, Some(deadline_ms * MS)));
        graph.module(&format!("stage {index}"), group, Stage::new(2), topic.latest(), &sink);
    }
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![5 * MS; 4])).unwrap();
    for (index, source) in sources.iter().enumerate() {
        clock.inject(source, MS * index as u64, 0, 0).unwrap();
    }
    clock.advance_to(1_000 * MS).unwrap();
    let runs = runs(&clock);
    let seen: Vec<_> = runs.iter().map(|run| (run.module.unwrap(), run.start_ns / MS)).collect();
    // The first is preempted at its checkpoint by the earliest, and ends last.
    assert_eq!(seen, [(0, 0), (2, 5), (3, 15), (1, 25)]);
    assert_eq!((runs[0].end_ns, runs[0].service_ns), (40 * MS, 10 * MS));
}

#[test]
fn runs_go_to_idle_cores_before_they_preempt() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 2));
    let (a, b, sink) = (graph.topic("a"), graph.topic("b"), graph.topic("sink"));
    let (slow, urgent) = (graph.source("a", &a, None), graph.source("b", &b, Some(MS)));
    graph.module("slow", group, Stage::new(2), a.latest(), &sink);
    graph.module("urgent", group, Stage::new(2), b.latest(), &sink);
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![MS; 2])).unwrap();
    clock.inject(&slow, 0, 0, 0).unwrap();
    clock.inject(&urgent, MS, MS, 0).unwrap();
    clock.advance_to(100 * MS).unwrap();
    let ends: Vec<u64> = runs(&clock).iter().map(|run| run.end_ns / MS).collect();
    assert_eq!(ends, [2, 3]);
}

#[test]
fn own_deadline_of_a_module_counts_from_its_trigger() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, sink) = (graph.topic("a"), graph.topic("sink"));
    let source = graph.source("sensor", &a, Some(50 * MS));
    for (index, own_ms) in [60, 20, 40].into_iter().enumerate() {
        let name = format!("stage {index}");
        graph.module(&name, group, Stage::new(1), a.latest(), &sink).deadline_ns(own_ms * MS);
    }
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![MS; 3])).unwrap();
    clock.inject(&source, 0, 0, 0).unwrap();
    clock.advance_to(100 * MS).unwrap();
    assert_eq!(order(&clock), [Some(1), Some(2), Some(0)]);
}

#[test]
fn fusion_waits_for_as_many_inputs_as_it_needs() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let out = graph.topic("out");
    let topics = [graph.topic::<u64>("a"), graph.topic("b"), graph.topic("c")];
    let sources = topics.each_ref().map(|topic| graph.source("sensor", topic, None));
    type Three = (Option<Message<u64>>, Option<Message<u64>>, Option<Message<u64>>);
    let [a, b, c] = topics.each_ref().map(|topic| topic.latest());
    graph.module("fuse", group, Count::<Three>::new(), (a, b, c), &out).trigger(Trigger::Fuse(2));
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![0])).unwrap();
    for (at_ms, source) in [(1, 0), (2, 0), (3, 2), (4, 1), (5, 1), (6, 0)] {
        clock.inject(&sources[source], at_ms * MS, at_ms * MS, 0).unwrap();
    }
    clock.advance_to(10 * MS).unwrap();
    let fused: Vec<_> = clock.take(&output).iter().map(|out| out.header.clone()).collect();
    let times: Vec<u64> = fused.iter().map(|header| header.published_ns / MS).collect();
    assert_eq!(times, [3, 6]);
    let used: Vec<u64> = fused[0].provenance.iter().map(|origin| origin.captured_ns / MS).collect();
    assert_eq!(used, [2, 3], "the newest frame of each source that was read");
}

#[test]
fn timer_reads_what_is_there_and_skips_what_is_incomplete() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    let timer = Trigger::Timer { period_ns: 10 * MS, offset_ns: 5 * MS };
    graph.module("stage", group, Stage::new(1), a.latest(), &out).trigger(timer);
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![MS])).unwrap();
    clock.inject(&source, 7 * MS, 7 * MS, 1).unwrap();
    clock.inject(&source, 16 * MS, 16 * MS, 2).unwrap();
    clock.inject(&source, 17 * MS, 17 * MS, 3).unwrap();
    clock.advance_to(40 * MS).unwrap();
    let out: Vec<_> =
        clock.take(&output).iter().map(|out| (**out, out.header.published_ns / MS)).collect();
    assert_eq!(out, [(1, 16), (3, 26), (3, 36)]);
    let statistics = &clock.statistics().modules[0];
    assert_eq!((statistics.skipped, statistics.mailboxes[0].dropped), (1, 1));
}

#[test]
fn latest_mailbox_keeps_the_newest_and_counts_what_it_dropped() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    graph.module("stage", group, Stage::new(1), a.latest(), &out);
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![10 * MS])).unwrap();
    for (at_ms, captured_ms) in [(0, 0), (2, 2), (4, 4), (5, 3)] {
        clock.inject(&source, at_ms * MS, captured_ms * MS, captured_ms).unwrap();
    }
    clock.advance_to(100 * MS).unwrap();
    let seen: Vec<u64> = clock.take(&output).iter().map(|out| **out).collect();
    assert_eq!(seen, [0, 4]);
    let counts = clock.statistics().modules[0].mailboxes[0];
    assert_eq!((counts.arrived, counts.dropped, counts.stale), (4, 1, 1));
}

#[test]
fn fifo_mailbox_gives_each_message_once_and_lets_the_oldest_go() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    graph.module("stage", group, Stage::new(1), a.fifo(2), &out);
    let output = graph.output(&out);
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![10 * MS])).unwrap();
    for at_ms in 0..5 {
        clock.inject(&source, at_ms * MS, at_ms * MS, at_ms).unwrap();
    }
    clock.advance_to(100 * MS).unwrap();
    let seen: Vec<u64> = clock.take(&output).iter().map(|out| **out).collect();
    assert_eq!(seen, [0, 3, 4]);
    assert_eq!(clock.statistics().modules[0].mailboxes[0].dropped, 2);
}

#[test]
fn graphs_that_make_no_sense_are_refused_by_name() {
    let refuse = |graph| Virtual::new(graph, Settings::base(), Costs::fixed(vec![])).err().unwrap();
    let mut graph = Graph::new();
    graph.group(Group::new("nothing", 0));
    assert!(matches!(refuse(graph), Error::NoCore { group } if group == "nothing"));

    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, b) = (graph.topic("a"), graph.topic("b"));
    graph.module("there", group, Stage::new(1), a.latest(), &b);
    graph.module("back", group, Stage::new(1), b.latest(), &a);
    assert!(matches!(refuse(graph), Error::Cycle { through, .. } if through == "there, back"));

    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let a = graph.topic("a");
    graph.module("deaf", group, Stage::new(1), a.latest().passive(), &a);
    assert!(matches!(refuse(graph), Error::Trigger { need: 1, active: 0, .. }));

    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let a = graph.topic("a");
    let timer = Trigger::Timer { period_ns: 0, offset_ns: 0 };
    graph.module("never", group, Stage::new(1), a.latest(), &a).trigger(timer);
    assert!(matches!(refuse(graph), Error::Period { module } if module == "never"));
}

#[test]
fn the_past_cannot_be_changed() {
    let mut graph = Graph::new();
    let group = graph.group(Group::new("all", 1));
    let (a, out) = (graph.topic("a"), graph.topic("out"));
    let source = graph.source("sensor", &a, None);
    graph.module("stage", group, Stage::new(1), a.latest(), &out);
    let mut clock = Virtual::new(graph, Settings::base(), Costs::fixed(vec![MS])).unwrap();
    clock.advance_to(5 * MS).unwrap();
    assert!(matches!(clock.inject(&source, 4 * MS, 0, 0), Err(Error::Past { .. })));
    assert!(matches!(clock.inject(&source, 6 * MS, 7 * MS, 0), Err(Error::Past { .. })));
    assert!(matches!(clock.advance_to(4 * MS), Err(Error::Past { .. })));
    clock.inject(&source, 5 * MS, 0, 0).unwrap();
}
