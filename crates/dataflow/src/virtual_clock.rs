//! The virtual clock: a discrete-event executor that runs the modules' code for real, on the
//! caller's thread, and charges what each chunk took on simulated cores.
//!
//! A chunk is the code between two checkpoints. When a simulated core is there for a chunk, its code
//! is run to its end at once; its cost keeps the core for so long; what it published, and what the
//! next checkpoint sees, is of the time at which the cost is over. So a run sees messages that
//! come, and is cancelled and preempted, as on a real machine, and as exactly as its checkpoints are
//! dense. The caller injects frames, advances the clock, and gets outputs with their times:
//! a simulator of the world steps in between.

mod core;
mod coroutine;
mod costs;
mod dispatch;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use costs::{Chunk, Costs, Observed, Recording};

use crate::engine::{Ended, Engine, Rank, Statistics};
use crate::message::Envelope;
use crate::middleware::Sent;
use crate::trace::{Core, Names, Point, Ring};
use crate::{Error, Graph, Message, Output, Settings, Source, SourceId, Trigger};

use self::core::{CoreState, Lane, Stage, Then};
use coroutine::Stacks;
use costs::Meter;

/// Runs a graph on a virtual clock, which starts at 0 and stands still unless it is advanced.
///
/// ```
/// use dataflow::{Costs, Cx, Graph, Group, Message, Module, Path, Settings, Stop, Virtual};
/// # struct Double;
/// # impl Module for Double {
/// #     type In = Message<u32>;
/// #     type Out = u32;
/// #     fn run(&mut self, _: &mut Cx<u32>, number: &Self::In, _: Path) -> Result<u32, Stop> {
/// #         Ok(**number * 2)
/// #     }
/// # }
///
/// let mut graph = Graph::new();
/// let group = graph.group(Group::new("all", 1));
/// let (numbers, doubled) = (graph.topic("numbers"), graph.topic("doubled"));
/// let source = graph.source("sensor", &numbers, None);
/// graph.module("double", group, Double, numbers.latest(), &doubled);
/// let output = graph.output(&doubled);
///
/// let mut clock = Virtual::new(graph, Settings::default(), Costs::fixed(vec![5_000_000]))?;
/// clock.inject(&source, 10_000_000, 0, 21)?;
/// clock.advance_to(20_000_000)?;
/// let answers = clock.take(&output);
/// assert_eq!(*answers[0], 42);
/// assert_eq!(answers[0].header.published_ns, 15_000_000);
/// assert_eq!(answers[0].header.provenance[0].captured_ns, 0);
/// # Ok::<(), dataflow::Error>(())
/// ```
pub struct Virtual {
    engine: Engine,
    cores: Vec<CoreState>,
    now_ns: u64,
    events: BTreeMap<(u64, u8, u64), Event>,
    numbered: u64,
    meter: Meter,
    ring: Ring,
    stacks: Stacks,
}

enum Event {
    Inject { source: SourceId, captured_ns: u64, sent: Sent },
    Timer { module: usize },
    Deliver { topic: u16, envelope: Envelope },
    Chunk { core: usize, lane: Lane },
}

impl Event {
    /// Returns the rank of the event among those of the same time: the smallest comes first.
    fn rank(&self) -> u8 {
        match self {
            Event::Chunk { lane: Lane::Stack, .. } => 0,
            Event::Deliver { .. } => 1,
            Event::Inject { .. } => 2,
            Event::Timer { .. } => 3,
            Event::Chunk { lane: Lane::Twin, .. } => 4,
        }
    }
}

impl Virtual {
    /// A graph at time 0.
    ///
    /// # Errors
    /// If the graph makes no sense; see [`Error`].
    pub fn new(graph: Graph, settings: Settings, costs: Costs) -> Result<Virtual, Error> {
        let ring = Ring::new(settings.trace_events);
        let engine = Engine::new(graph, settings)?;
        let ids = engine.groups.iter().enumerate().flat_map(|(group, state)| {
            (0..state.group.cores)
                .map(move |index| Core { group: group as u16, index: index as u16 })
        });
        let cores = ids
            .map(|id| CoreState { id, stack: Vec::new(), twin: None, guest_ns: (0, 0) })
            .collect();
        let mut clock = Virtual {
            engine,
            cores,
            now_ns: 0,
            events: BTreeMap::new(),
            numbered: 0,
            meter: Meter::new(costs),
            ring,
            stacks: Stacks::default(),
        };
        for module in 0..clock.engine.modules.len() {
            if let Trigger::Timer { offset_ns, .. } = clock.engine.modules[module].trigger {
                clock.schedule(offset_ns, Event::Timer { module });
            }
        }
        Ok(clock)
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A frame of `source`, captured at `captured_ns`, comes in at `at_ns`. Frames of a source are
    /// numbered in the order in which they come in.
    ///
    /// # Errors
    /// [`Error::Past`] if `at_ns` is over, or before the capture; [`Error::Serialise`] if the
    /// topic's messages go as bytes, and this one cannot.
    pub fn inject<T: Send + Sync + 'static>(
        &mut self,
        source: &Source<T>,
        at_ns: u64,
        captured_ns: u64,
        value: T,
    ) -> Result<(), Error> {
        let earliest_ns = self.now_ns.max(captured_ns);
        if at_ns < earliest_ns {
            return Err(Error::Past { what: "arrival of a frame", at_ns, now_ns: earliest_ns });
        }
        let sent = Sent::frame(Arc::new(value), self.engine.codec_of(source.id))
            .map_err(|said| self.engine.no_bytes(source.id, said))?;
        self.schedule(at_ns, Event::Inject { source: source.id, captured_ns, sent });
        Ok(())
    }

    /// Advances the clock to `to_ns`; everything until then, and then, has happened after it.
    ///
    /// # Errors
    /// [`Error::Past`] if `to_ns` is over, [`Error::Diverged`] if a replay is not of this run.
    ///
    /// # Panics
    /// If a module does.
    pub fn advance_to(&mut self, to_ns: u64) -> Result<(), Error> {
        if to_ns < self.now_ns {
            return Err(Error::Past {
                what: "end of an advance of the clock",
                at_ns: to_ns,
                now_ns: self.now_ns,
            });
        }
        while let Some(next_ns) = self.next_ns().filter(|&next_ns| next_ns <= to_ns) {
            self.now_ns = next_ns;
            while self.next_ns() == Some(next_ns) {
                let (key, event) = self.events.pop_first().expect("there is a next event");
                self.happen(key.2, event);
            }
            self.dispatch()?;
        }
        self.now_ns = to_ns;
        Ok(())
    }

    /// Returns the time of the next event; `None` if nothing happens unless a frame comes in.
    pub fn next_ns(&self) -> Option<u64> {
        self.events.first_key_value().map(|(key, _)| key.0)
    }

    /// Returns the messages that came out since the last call, in the order of publication, each
    /// with its time ([`crate::Header::published_ns`]) and the frames that it was computed from.
    pub fn take<T: Send + Sync + 'static>(&mut self, output: &Output<T>) -> Vec<Message<T>> {
        self.engine.take_output(output.index).into_iter().map(Envelope::open).collect()
    }

    /// Returns the trace.
    pub fn trace(&self) -> &Ring {
        &self.ring
    }

    /// Returns the names for the numbers in the trace.
    pub fn names(&self) -> &Names {
        &self.engine.names
    }

    /// Counts of what happened.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// The costs that were charged, for [`Costs::Replay`].
    pub fn recording(&self) -> &Recording {
        &self.meter.recording
    }

    /// Number of the chunks so far that cost what another run took ([`Costs::Observed`]), and of
    /// those that the other run did not have.
    pub fn observed(&self) -> (u64, u64) {
        self.meter.observed()
    }

    fn schedule(&mut self, at_ns: u64, event: Event) -> u64 {
        self.numbered += 1;
        self.events.insert((at_ns, event.rank(), self.numbered), event);
        self.numbered
    }

    fn happen(&mut self, number: u64, event: Event) {
        match event {
            Event::Inject { source, captured_ns, sent } => {
                let now_ns = self.now_ns;
                let (topic, envelope) =
                    self.engine.inject(now_ns, source, captured_ns, sent, &mut self.ring);
                self.engine.deliver(now_ns, topic, &envelope, &mut self.ring);
            }
            Event::Timer { module } => {
                self.engine.fire(self.now_ns, module);
                if let Trigger::Timer { period_ns, .. } = self.engine.modules[module].trigger {
                    self.schedule(self.now_ns + period_ns, Event::Timer { module });
                }
            }
            Event::Deliver { topic, envelope } => {
                self.engine.deliver(self.now_ns, topic, &envelope, &mut self.ring);
            }
            Event::Chunk { core, lane } => self.end_chunk(number, core, lane),
        }
    }

    /// The chunk of a run is over, and what it published is out.
    fn end_chunk(&mut self, number: u64, core: usize, lane: Lane) {
        let now_ns = self.now_ns;
        let Some(running) = self.cores[core].lane(lane) else { return };
        let then = match std::mem::replace(&mut running.stage, Stage::Boundary) {
            Stage::Busy { event, then, .. } if event == number => then,
            other => {
                // The chunk was preempted after its end had been scheduled.
                running.stage = other;
                return;
            }
        };
        let (job, rank, guest_ns) = (running.job, running.rank, (running.chunk_ns, now_ns));
        if matches!(then, Then::Divide(_)) {
            running.stage = Stage::Divided;
        }
        if rank == Rank::Guest && lane == Lane::Stack {
            self.cores[core].guest_ns = guest_ns;
        }
        self.ring.write(now_ns, job, Point::Paused);
        match then {
            Then::Checkpoint => {}
            Then::Divide(pieces) => {
                self.engine.divide(now_ns, job, rank, pieces, &mut self.ring);
            }
            Then::Deserialised { message, bytes, took_ns } => {
                self.ring.write(now_ns, job, Point::Deserialised { message, bytes, took_ns });
            }
            Then::Publish { mut sent, part, run } => {
                sent.sent_ns = now_ns;
                self.engine.publish(now_ns, job, sent, part, &run, &mut self.ring);
            }
            Then::Ended(mut ended) => {
                if let Ended::Module { ran: Ok(sent), .. } = &mut ended {
                    sent.sent_ns = now_ns;
                }
                let running = self.cores[core].remove(lane).expect("its chunk has just ended");
                running.execution.recycle(&mut self.stacks);
                self.engine.finish(now_ns, job, ended, running.service_ns, &mut self.ring);
                let below = self.cores[core].lane(lane);
                if let Some(below) = below.filter(|below| !matches!(below.stage, Stage::Divided)) {
                    below.lent = true;
                }
            }
        }
        self.post();
    }

    /// Sends what was published on its way.
    fn post(&mut self) {
        for (topic, envelope) in std::mem::take(&mut self.engine.posted) {
            if self.engine.settings.hop_ns == 0 {
                self.engine.deliver(self.now_ns, topic, &envelope, &mut self.ring);
            } else {
                let at_ns = self.now_ns + self.engine.settings.hop_ns;
                self.schedule(at_ns, Event::Deliver { topic, envelope });
            }
        }
    }
}
