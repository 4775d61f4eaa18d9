//! One run of one module outside a graph, for its tests and benchmarks.

use std::any::Any;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::cx::{Host, Piece, Run, Work};
use crate::message::Payload;
use crate::middleware::Sent;
use crate::{
    Checkpoint, Cx, Header, Message, Module, NO_DEADLINE, ObjectDeadline, Origin, Part, Path,
    SourceId, Stop, WorkCx,
};

/// Result of a run outside a graph.
#[derive(Debug)]
pub struct Alone<O> {
    /// Parts that were published before the end, in order.
    pub parts: Vec<(Part, Arc<O>)>,
    /// Result that `run` returned.
    pub result: Result<O, Stop>,
    /// The objects' deadlines as the run left them.
    pub objects: Arc<[ObjectDeadline]>,
    /// Number of checkpoints that the run reached.
    pub checkpoints: u64,
}

/// Runs a module once, on `path`, without a graph: its clock stands at 0, no deadline bounds it, and
/// its checkpoints say go until `cancel_after` of them have. Work ahead and pieces are done at once.
///
/// ```
/// # use dataflow::{Cx, Message, Module, Path, Stop};
/// # struct Double;
/// # impl Module for Double {
/// #     type In = Message<u32>;
/// #     type Out = u32;
/// #     fn run(&mut self, _: &mut Cx<u32>, number: &Self::In, _: Path) -> Result<u32, Stop> {
/// #         Ok(**number * 2)
/// #     }
/// # }
/// let ran = dataflow::alone(&mut Double, &Message::alone(21), Path::Normal, u64::MAX);
/// assert_eq!(ran.result, Ok(42));
/// ```
pub fn alone<M: Module>(
    module: &mut M,
    input: &M::In,
    path: Path,
    cancel_after: u64,
) -> Alone<M::Out> {
    let mut host = Bench { cancel_after, ..Bench::default() };
    let mut run = Run {
        header: None,
        objects: Arc::new([]),
        deadline_ns: NO_DEADLINE,
        limit_ns: NO_DEADLINE,
        downstream_ns: 0,
        provenance: Arc::new([]),
        codec: None,
        unsent: None,
    };
    let mut cx = Cx { host: &mut host, run: &mut run, publishes: PhantomData };
    let result = module.run(&mut cx, input, path);
    let parts = host
        .parts
        .into_iter()
        .map(|(part, value)| (part, value.downcast().expect("a module publishes one type")));
    Alone { parts: parts.collect(), result, objects: run.objects, checkpoints: host.checkpoints }
}

impl<T> Message<T> {
    /// A message for [`alone`]: frame 0 of source 0, captured at 0, without deadline.
    pub fn alone(value: T) -> Message<T> {
        let origin = Origin { source: SourceId(0), frame: 0, captured_ns: 0 };
        let header = Header {
            id: 0,
            frame: 0,
            captured_ns: 0,
            source: origin.source,
            published_ns: 0,
            objects: Arc::new([]),
            deadline_ns: NO_DEADLINE,
            limit_ns: NO_DEADLINE,
            part: Part::WHOLE,
            provenance: Arc::new([origin]),
        };
        Message { header: Arc::new(header), value: Arc::new(value) }
    }
}

#[derive(Default)]
struct Bench {
    cancel_after: u64,
    checkpoints: u64,
    parts: Vec<(Part, Payload)>,
    done: HashMap<&'static str, (u64, Box<dyn Any + Send>)>,
}

impl Host for Bench {
    fn now_ns(&self) -> u64 {
        0
    }

    fn checkpoint(&mut self) -> Checkpoint {
        self.checkpoints += 1;
        if self.checkpoints > self.cancel_after { Checkpoint::Cancel } else { Checkpoint::Go }
    }

    fn publish(&mut self, sent: Sent, part: Part, _: &Run) {
        self.parts.push((part, sent.value));
    }

    fn code_ends(&mut self) {}

    fn deserialised(&mut self, _: u64, _: u32, _: u64) {}

    fn ahead(&mut self, key: &'static str, version: u64, work: Work) {
        match work(&mut WorkCx { host: self }) {
            Some(value) => self.done.insert(key, (version, value)),
            None => self.done.remove(key),
        };
    }

    fn take(&mut self, key: &'static str, version: u64) -> Option<Box<dyn Any + Send>> {
        let (done, value) = self.done.remove(key)?;
        (done == version).then_some(value)
    }

    fn drop_ahead(&mut self, key: &'static str) {
        self.done.remove(key);
    }

    fn accelerated(&mut self, _: u64) {}

    fn divide(&mut self, pieces: Vec<Piece>) -> Vec<Option<Box<dyn Any + Send>>> {
        pieces.into_iter().map(|piece| (piece.work)(&mut WorkCx { host: self })).collect()
    }
}
