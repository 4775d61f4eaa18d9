//! Graph of topics, sources, modules, groups of cores and outputs. The same graph is given to
//! either executor.

mod erased;
mod wiring;

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use erased::{Arrival, Erased, Ran};
pub use wiring::ModuleRef;
pub(crate) use wiring::Spec;

use crate::input::{Feed, Wire};
use crate::mailbox::Keep;
use crate::middleware::Codec;
use crate::{Input, Message, Module, NO_DEADLINE, SourceId, Stop, WorkCx};

/// Condition that starts a run of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A message on any of its active wires.
    Message,
    /// The clock, at `offset_ns` and every `period_ns` after; whatever the mailboxes hold then is
    /// read. If something that must be there is not, the run is skipped. What may not wait for the
    /// clock comes by a wire that says so ([`crate::Wire::urgent`]).
    Timer {
        /// Time from one run to the next.
        period_ns: u64,
        /// The first run.
        offset_ns: u64,
    },
    /// Unread messages on at least this many of its active wires.
    Fuse(usize),
}

/// Condition that cancels a run at its next checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cancel {
    /// Never.
    #[default]
    Never,
    /// Once it has published a part, as soon as a newer frame waits for the module or has been
    /// published by it: only the rest is given up (COLA, section 4.1).
    Rest,
    /// The run is cancelled as soon as a newer frame waits, at any checkpoint.
    Always,
}

/// A processor group: cores that belong to some modules (COLA, section 4.3). The ready run
/// with the earliest deadline has a core; a run keeps its core between two checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name for traces and reports.
    pub name: String,
    /// Number of cores.
    pub cores: usize,
    /// The machine's cores that the workers are pinned to, on the wall clock: one each.
    /// Empty: not pinned.
    pub pin: Vec<usize>,
    /// The workers' real-time priority (`SCHED_FIFO`, 1 to 99), on the wall clock.
    pub priority: Option<u8>,
    /// True if its idle cores take guests of other groups.
    pub takes_guests: bool,
}

impl Group {
    /// A group of `cores` cores that are not pinned, have no priority and take guests.
    pub fn new(name: &str, cores: usize) -> Group {
        Group { name: name.into(), cores, pin: Vec::new(), priority: None, takes_guests: true }
    }
}

/// The number of a group in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub(crate) u16);

impl GroupId {
    /// The number, in the order in which the groups were added.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The number of a module in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub(crate) u16);

impl ModuleId {
    /// The number, in the order in which the modules were added.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Messages of one type that modules publish and read.
#[derive(Debug)]
pub struct Topic<T> {
    pub(crate) index: u16,
    carries: PhantomData<fn(T)>,
}

impl<T> Topic<T> {
    /// A wire to a module that reads the newest message only.
    pub fn latest(&self) -> Wire<T> {
        self.wire(Keep::Latest)
    }

    /// A wire to a module that reads every message, of which at most `depth` wait.
    ///
    /// # Panics
    /// If `depth` is 0.
    pub fn fifo(&self, depth: usize) -> Wire<T> {
        assert!(depth > 0, "a queue of no message");
        self.wire(Keep::Fifo(depth))
    }

    fn wire(&self, keep: Keep) -> Wire<T> {
        let feed = Feed { topic: self.index, keep, active: true, urgent: false };
        Wire { feed, carries: PhantomData }
    }
}

/// A door into the graph: a sensor, localisation.
#[derive(Debug)]
pub struct Source<T> {
    pub(crate) id: SourceId,
    carries: PhantomData<fn(T)>,
}

impl<T> Source<T> {
    /// Its number, as in [`crate::Header::source`] and [`crate::Origin::source`].
    pub fn id(&self) -> SourceId {
        self.id
    }
}

/// A door out of the graph: commands to the actuators.
#[derive(Debug)]
pub struct Output<T> {
    pub(crate) index: u16,
    carries: PhantomData<fn(T)>,
}

pub(crate) struct TopicSpec {
    pub(crate) name: String,
    pub(crate) output: Option<u16>,
    /// Codec that makes bytes of its messages; none if they go as pointers.
    pub(crate) codec: Option<Codec>,
}

pub(crate) struct SourceSpec {
    pub(crate) name: String,
    pub(crate) topic: u16,
    pub(crate) deadline_ns: u64,
}

/// Modules and how they are connected.
///
/// ```
/// use dataflow::{Cx, Graph, Group, Message, Module, Path, Stop};
///
/// struct Double;
///
/// impl Module for Double {
///     type In = Message<u32>;
///     type Out = u32;
///
///     fn run(&mut self, _: &mut Cx<u32>, number: &Self::In, _: Path) -> Result<u32, Stop> {
///         Ok(**number * 2)
///     }
/// }
///
/// let mut graph = Graph::new();
/// let group = graph.group(Group::new("all", 1));
/// let (numbers, doubled) = (graph.topic("numbers"), graph.topic("doubled"));
/// let source = graph.source("sensor", &numbers, None);
/// graph.module("double", group, Double, numbers.latest(), &doubled);
/// let output = graph.output(&doubled);
/// ```
#[derive(Default)]
pub struct Graph {
    pub(crate) topics: Vec<TopicSpec>,
    pub(crate) sources: Vec<SourceSpec>,
    pub(crate) groups: Vec<Group>,
    pub(crate) modules: Vec<Spec>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) outputs: u16,
}

impl Graph {
    /// A graph without modules.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a topic.
    pub fn topic<T: Send + Sync + 'static>(&mut self, name: &str) -> Topic<T> {
        self.topics.push(TopicSpec { name: name.into(), output: None, codec: None });
        Topic { index: number(self.topics.len() - 1), carries: PhantomData }
    }

    /// Sends the messages of `topic` as bytes, as between processes, in place of shared pointers:
    /// the run that publishes one serialises it (CDR, as ROS 2 does), and each module that reads it
    /// makes its own copy before its run begins. Both are charged to the cores of the runs, and in
    /// the trace. A source's frames are serialised by the thread that injects them, which is
    /// charged to no core.
    pub fn serialise<T>(&mut self, topic: &Topic<T>)
    where
        T: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.topics[usize::from(topic.index)].codec = Some(Codec::of(topic));
    }

    /// Adds a source of messages on `topic`. Each frame's command must be out `deadline_ns` after
    /// its capture, if that is given, and whatever objects are in it.
    pub fn source<T>(
        &mut self,
        name: &str,
        topic: &Topic<T>,
        deadline_ns: Option<u64>,
    ) -> Source<T> {
        let deadline_ns = deadline_ns.unwrap_or(NO_DEADLINE);
        self.sources.push(SourceSpec { name: name.into(), topic: topic.index, deadline_ns });
        Source { id: SourceId(number(self.sources.len() - 1)), carries: PhantomData }
    }

    /// Adds a processor group.
    pub fn group(&mut self, group: Group) -> GroupId {
        self.groups.push(group);
        GroupId(number(self.groups.len() - 1))
    }

    /// The groups, in the order in which they were added: to say on which cores of the machine a
    /// graph runs that another program has built.
    pub fn groups_mut(&mut self) -> &mut [Group] {
        &mut self.groups
    }

    /// Adds a module, which runs on the cores of `group`. What else there is to say of it, the answer
    /// takes.
    pub fn module<M: Module>(
        &mut self,
        name: &str,
        group: GroupId,
        module: M,
        wires: <M::In as Input>::Wires,
        publishes: &Topic<M::Out>,
    ) -> ModuleRef<'_, M> {
        let mut feeds = Vec::with_capacity(M::In::PORTS);
        M::In::feeds(wires, &mut feeds);
        self.modules.push(Spec::new(name, group, Box::new(module), feeds, publishes.index));
        ModuleRef::new(ModuleId(number(self.modules.len() - 1)), self)
    }

    /// Runs `work` ahead of time whenever a message arrives on `topic`, on a core of `group`
    /// that has nothing else to do (COLA, section 4.2: state updates on the arrival of a
    /// message that triggers nothing). A module finds the result by [`crate::Cx::take`] with `key`,
    /// and the message's frame as the version.
    pub fn ahead_on<T, V, F>(
        &mut self,
        topic: &Topic<T>,
        group: GroupId,
        key: &'static str,
        work: F,
    ) where
        T: Send + Sync + 'static,
        V: Send + 'static,
        F: Fn(&Message<T>, &mut WorkCx<'_>) -> Result<V, Stop> + Send + Sync + 'static,
    {
        self.arrivals.push(Arrival::new(topic.index, group, key, work));
    }

    /// Makes `topic` an output: its messages come back to the caller, with when they were published.
    pub fn output<T>(&mut self, topic: &Topic<T>) -> Output<T> {
        let spec = &mut self.topics[usize::from(topic.index)];
        let index = *spec.output.get_or_insert(self.outputs);
        self.outputs = self.outputs.max(index + 1);
        Output { index, carries: PhantomData }
    }
}

fn number(index: usize) -> u16 {
    u16::try_from(index).expect("a graph has fewer than 65,536 parts of a kind")
}
