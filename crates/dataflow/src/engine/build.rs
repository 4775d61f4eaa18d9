//! Building of an engine from a graph, if the graph makes sense.

use crate::engine::state::{Reader, Slot};
use crate::engine::{
    AheadStore, Engine, GroupState, GroupStatistics, ModuleState, ModuleStatistics, SourceState,
    TopicState,
};
use crate::estimate::{Linear, Window};
use crate::graph::{Graph, Spec};
use crate::input::Feed;
use crate::mailbox::Mailbox;
use crate::trace::Names;
use crate::{Error, Settings, Trigger};

impl Engine {
    pub(crate) fn new(graph: Graph, settings: Settings) -> Result<Engine, Error> {
        check(&graph)?;
        let order = order(&graph)?;
        let names = names(&graph);
        let mut topics: Vec<TopicState> = graph
            .topics
            .iter()
            .map(|topic| TopicState {
                output: topic.output,
                codec: topic.codec,
                readers: vec![],
                arrivals: vec![],
            })
            .collect();
        for (module, spec) in graph.modules.iter().enumerate() {
            for (port, feed) in spec.feeds.iter().enumerate() {
                let urgent = feed.urgent && settings.fast_path;
                let reader = Reader { module, port, active: feed.active, urgent };
                topics[usize::from(feed.topic)].readers.push(reader);
            }
        }
        for (index, arrival) in graph.arrivals.iter().enumerate() {
            topics[usize::from(arrival.topic)].arrivals.push(index);
        }
        let sources = graph.sources.into_iter().map(|source| SourceState {
            topic: source.topic,
            deadline_ns: source.deadline_ns,
            frames: 0,
        });
        let groups = graph.groups.into_iter().map(|group| GroupState {
            group,
            ready: Default::default(),
            ahead: Default::default(),
            suspended_until_ns: 0,
            statistics: GroupStatistics::default(),
        });
        let specs = graph.modules.into_iter().zip(order);
        let modules = specs.map(|(spec, order)| module(spec, order, &settings)).collect();
        Ok(Engine {
            names,
            topics,
            sources: sources.collect(),
            groups: groups.collect(),
            modules,
            arrivals: graph.arrivals,
            ahead: AheadStore::default(),
            divided: Default::default(),
            outputs: (0..graph.outputs).map(|_| Vec::new()).collect(),
            posted: Vec::new(),
            jobs: Default::default(),
            messages: 0,
            started: 0,
            readied: 0,
            settings,
        })
    }
}

fn names(graph: &Graph) -> Names {
    let published = graph.modules.iter().map(|module| usize::from(module.publishes));
    Names {
        modules: graph.modules.iter().map(|module| module.name.clone()).collect(),
        groups: graph.groups.iter().map(|group| group.name.clone()).collect(),
        sources: graph.sources.iter().map(|source| source.name.clone()).collect(),
        topics: published.map(|topic| graph.topics[topic].name.clone()).collect(),
    }
}

fn module(spec: Spec, order: usize, settings: &Settings) -> ModuleState {
    let slot = |(group, module): (crate::GroupId, _)| Slot {
        module: Some(module),
        group: group.index(),
        queued: None,
        again: None,
    };
    let forget_ns = settings.forget_ns;
    let extra = spec.extra.filter(|_| settings.fast_path);
    ModuleState {
        trigger: spec.trigger,
        order,
        slots: [Some((spec.group, spec.module)), extra].into_iter().flatten().map(slot).collect(),
        boxes: spec.feeds.iter().map(|feed| Mailbox::new(feed.keep)).collect(),
        active: spec.feeds.iter().map(|feed| feed.active).collect(),
        urgent: spec.feeds.iter().map(|feed| feed.urgent && settings.fast_path).collect(),
        publishes: spec.publishes,
        deadline_ns: spec.deadline_ns,
        fast_path: spec.fast_path,
        cancel: spec.cancel,
        guest: spec.guest,
        guest_pieces: spec.guest_pieces,
        divisions: 0,
        due: false,
        early: false,
        read_ns: None,
        parted_ns: None,
        came_ns: None,
        came: Window::new(forget_ns),
        published_ns: 0,
        readied_ns: None,
        gaps: Window::new(forget_ns),
        window: [Window::new(forget_ns), Window::new(forget_ns)],
        first: Window::new(forget_ns),
        leaves: Window::new(forget_ns),
        linear: [Linear::new(), Linear::new()],
        pieces: Linear::new(),
        statistics: ModuleStatistics::default(),
    }
}

fn check(graph: &Graph) -> Result<(), Error> {
    if let Some(group) = graph.groups.iter().find(|group| group.cores == 0) {
        return Err(Error::NoCore { group: group.name.clone() });
    }
    for spec in &graph.modules {
        let module = || spec.name.clone();
        let groups = [Some(spec.group), spec.extra.as_ref().map(|extra| extra.0)];
        let topics = spec.feeds.iter().map(|feed| feed.topic).chain([spec.publishes]);
        if groups.iter().flatten().any(|group| group.index() >= graph.groups.len())
            || topics.into_iter().any(|topic| usize::from(topic) >= graph.topics.len())
        {
            return Err(Error::Foreign { module: module() });
        }
        let active = spec.feeds.iter().filter(|feed| feed.active).count();
        let need = match spec.trigger {
            Trigger::Message => 1,
            Trigger::Fuse(need) => need.max(1),
            Trigger::Timer { period_ns: 0, .. } => return Err(Error::Period { module: module() }),
            Trigger::Timer { .. } => 0,
        };
        if active < need {
            return Err(Error::Trigger { module: module(), need, active });
        }
    }
    Ok(())
}

/// The modules in an order in which feeders come before the fed, along wires that can start a run.
fn order(graph: &Graph) -> Result<Vec<usize>, Error> {
    let mut order = Vec::with_capacity(graph.modules.len());
    let mut seen = vec![Seen::No; graph.modules.len()];
    for module in 0..graph.modules.len() {
        visit(graph, module, &mut seen, &mut Vec::new(), &mut order)?;
    }
    order.reverse();
    Ok(order)
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    No,
    Above,
    Done,
}

fn visit(
    graph: &Graph,
    module: usize,
    seen: &mut [Seen],
    above: &mut Vec<usize>,
    order: &mut Vec<usize>,
) -> Result<(), Error> {
    match seen[module] {
        Seen::Done => return Ok(()),
        Seen::Above => {
            let from = above.iter().position(|&other| other == module).unwrap_or(0);
            let names = above[from..].iter().map(|&other| graph.modules[other].name.as_str());
            let through = names.collect::<Vec<_>>().join(", ");
            return Err(Error::Cycle { module: graph.modules[module].name.clone(), through });
        }
        Seen::No => {}
    }
    seen[module] = Seen::Above;
    above.push(module);
    let topic = graph.modules[module].publishes;
    for (next, spec) in graph.modules.iter().enumerate() {
        let starts = |feed: &Feed| (feed.active || feed.urgent) && feed.topic == topic;
        if spec.feeds.iter().any(starts) {
            visit(graph, next, seen, above, order)?;
        }
    }
    above.pop();
    seen[module] = Seen::Done;
    order.push(module);
    Ok(())
}
