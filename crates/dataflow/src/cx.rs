//! Context of a module or of other work while it runs.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::middleware::{Codec, Sent};
use crate::{Header, Load, NO_DEADLINE, ObjectDeadline, Origin, Part, Stop};

/// Answer of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// Go on.
    Go,
    /// Go on; the core was lent to more urgent work in between, so the budget has shrunk.
    Yielded,
    /// The result is not wanted any more: leave with [`Stop::Cancelled`].
    Cancel,
}

/// Environment in which a module runs: one of the executors, or [`crate::alone`].
pub(crate) trait Host {
    fn now_ns(&self) -> u64;
    fn checkpoint(&mut self) -> Checkpoint;
    fn publish(&mut self, sent: Sent, part: Part, run: &Run);
    /// The chunk of the code is over, and that of the middleware begins.
    fn code_ends(&mut self);
    /// The chunk in which a message was deserialised, since `began_ns`, is over.
    fn deserialised(&mut self, message: u64, bytes: u32, began_ns: u64);
    fn ahead(&mut self, key: &'static str, version: u64, work: Work);
    fn take(&mut self, key: &'static str, version: u64) -> Option<Box<dyn Any + Send>>;
    fn drop_ahead(&mut self, key: &'static str);
    /// The chunk has waited for this much of an accelerator's time.
    fn accelerated(&mut self, ns: u64);
    /// Runs the pieces; returns the result of each, in their order; `None` if it was not begun.
    fn divide(&mut self, pieces: Vec<Piece>) -> Vec<Option<Box<dyn Any + Send>>>;
}

/// A piece of a run, and how much work it is.
pub(crate) struct Piece {
    pub(crate) load: Load,
    pub(crate) work: Work,
}

/// Work beside a run: ahead of time, or a piece of it. `None` if it was cancelled.
pub(crate) type Work = Box<dyn FnOnce(&mut WorkCx<'_>) -> Option<Box<dyn Any + Send>> + Send>;

/// Description of a run, as the runtime decided when it began.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The header of the input that the output belongs to; `None` if a timer runs a module that
    /// has no input yet.
    pub(crate) header: Option<Arc<Header>>,
    pub(crate) objects: Arc<[ObjectDeadline]>,
    pub(crate) deadline_ns: u64,
    /// The source's own deadline.
    pub(crate) limit_ns: u64,
    /// Time that the modules after this one are expected to take, in nanoseconds.
    pub(crate) downstream_ns: u64,
    /// The newest frame of each source that was read.
    pub(crate) provenance: Arc<[Origin]>,
    /// Codec that makes bytes of its output; none if the output goes as a pointer.
    pub(crate) codec: Option<Codec>,
    /// Reason for which a part could not be published.
    pub(crate) unsent: Option<Stop>,
}

/// Context of a module while it runs: its budget, deadlines, checkpoints, and work ahead of time.
/// `O` is the type that the module publishes.
pub struct Cx<'a, O> {
    pub(crate) host: &'a mut dyn Host,
    pub(crate) run: &'a mut Run,
    pub(crate) publishes: PhantomData<fn(O)>,
}

impl<O: Send + Sync + 'static> Cx<'_, O> {
    /// The executor's clock. On the virtual clock it stands still between two checkpoints.
    pub fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    /// The header of the input that the result belongs to: the first active one that was read, or
    /// the first of all. `None` if nothing was read.
    pub fn header(&self) -> Option<&Header> {
        self.run.header.as_deref()
    }

    /// Returns the time at which the command that this frame leads to must be out; [`NO_DEADLINE`]
    /// if nothing bounds it.
    pub fn deadline_ns(&self) -> u64 {
        self.run.deadline_ns
    }

    /// The deadline of one object; [`NO_DEADLINE`] if it has none.
    pub fn object_deadline_ns(&self, id: u32) -> u64 {
        let objects = self.run.objects.iter();
        objects
            .filter(|object| object.id == id)
            .map(|object| object.deadline_ns)
            .min()
            .unwrap_or(NO_DEADLINE)
    }

    /// All objects with a deadline.
    pub fn objects(&self) -> &[ObjectDeadline] {
        &self.run.objects
    }

    /// Returns the time for which this module may still run: until the deadline, less the time of
    /// the modules after it in the 99th percentile. 0 if that is over, [`NO_DEADLINE`] if nothing
    /// bounds it.
    pub fn remaining_ns(&self) -> u64 {
        match self.run.deadline_ns {
            NO_DEADLINE => NO_DEADLINE,
            end => end.saturating_sub(self.run.downstream_ns).saturating_sub(self.now_ns()),
        }
    }

    /// States the deadlines of the objects that the module found. They are in the header of
    /// what it publishes from now on, in place of those of its input; the message's deadline is the
    /// earliest of them and of the source's own.
    pub fn set_objects(&mut self, objects: Vec<ObjectDeadline>) {
        let earliest = objects.iter().map(|object| object.deadline_ns).min();
        self.run.deadline_ns = earliest.unwrap_or(NO_DEADLINE).min(self.run.limit_ns);
        self.run.objects = objects.into();
    }

    /// A point at which the run may be preempted or cancelled. Call it between objects, or batches
    /// of candidates: every millisecond or so.
    pub fn checkpoint(&mut self) -> Checkpoint {
        self.host.checkpoint()
    }

    /// A checkpoint whose cancellation is an error, for `?`.
    ///
    /// # Errors
    /// [`Stop::Cancelled`] if the result is not wanted any more.
    pub fn go_on(&mut self) -> Result<(), Stop> {
        match self.checkpoint() {
            Checkpoint::Go | Checkpoint::Yielded => Ok(()),
            Checkpoint::Cancel => Err(Stop::Cancelled),
        }
    }

    /// Publishes part of the result now, before the rest is computed (COLA, section 4.1:
    /// partial updates). What `run` returns later is the last part. If a part has no form as bytes,
    /// the run fails when it is over, and nothing more of it is published.
    pub fn publish_partial(&mut self, value: O, part: Part) {
        if self.run.unsent.is_some() {
            return;
        }
        match Sent::pack(self.host, self.run, Arc::new(value)) {
            Ok(sent) => self.host.publish(sent, part, self.run),
            Err(stop) => self.run.unsent = Some(stop),
        }
    }

    /// Runs `work` ahead of time (COLA, section 4.2), when a core of the module's group
    /// has nothing else to do: it never delays a module. A run that asks for the same `key` and
    /// `version` by [`Cx::take`] later gets its result. Work of another version under the same key
    /// is cancelled, and its result dropped.
    pub fn ahead<V, F>(&mut self, key: &'static str, version: u64, work: F)
    where
        V: Send + 'static,
        F: FnOnce(&mut WorkCx<'_>) -> Result<V, Stop> + Send + 'static,
    {
        self.host.ahead(key, version, erase(work));
    }

    /// The result of work that was done ahead: a hit. `None`, a miss, if no run asked for it, if it
    /// is of another version, or if it is not done; it is cancelled then, because the caller computes
    /// it now. Keys are the graph's: one module may take what another has had done.
    pub fn take<V: Send + 'static>(&mut self, key: &'static str, version: u64) -> Option<V> {
        let value = self.host.take(key, version)?;
        Some(*value.downcast().expect("a key stands for one type"))
    }

    /// Runs the pieces of the run on all cores that are free for them, and waits for them: the
    /// run's own, those of its group, and, if [`crate::ModuleRef::guest_pieces`] allows it, those of
    /// other groups that let them in (COLA, section 4.3). What each gave comes back in their
    /// order. With how much work each one is, by category, the runtime learns what pieces take.
    ///
    /// ```
    /// use dataflow::{Cx, Load, Message, Module, Path, Stop};
    ///
    /// /// Squares numbers, ten at a time.
    /// struct Squares;
    ///
    /// impl Module for Squares {
    ///     type In = Message<Vec<u64>>;
    ///     type Out = u64;
    ///
    ///     fn run(&mut self, cx: &mut Cx<u64>, numbers: &Self::In, _: Path) -> Result<u64, Stop> {
    ///         let pieces = numbers.chunks(10).map(|chunk| {
    ///             let chunk = chunk.to_vec();
    ///             let load = Load::of(&[chunk.len() as f64]);
    ///             (load, move |_: &mut dataflow::WorkCx| Ok(chunk.iter().map(|x| x * x).sum::<u64>()))
    ///         });
    ///         Ok(cx.divide(pieces.collect())?.into_iter().sum())
    ///     }
    /// }
    ///
    /// let input = Message::alone((1..=100).collect());
    /// let ran = dataflow::alone(&mut Squares, &input, Path::Normal, u64::MAX);
    /// assert_eq!(ran.result, Ok(338_350));
    /// ```
    ///
    /// # Errors
    /// The error of the first piece that stopped; [`Stop::Cancelled`] if the run's result is not
    /// wanted any more.
    pub fn divide<V, F>(&mut self, pieces: Vec<(Load, F)>) -> Result<Vec<V>, Stop>
    where
        V: Send + 'static,
        F: FnOnce(&mut WorkCx<'_>) -> Result<V, Stop> + Send + 'static,
    {
        let pieces = pieces.into_iter().map(|(load, work)| {
            // A piece that stops says why: its result is what it stopped with.
            let work: Work = Box::new(move |cx| Some(Box::new(work(cx))));
            Piece { load, work }
        });
        let given = self.host.divide(pieces.collect()).into_iter();
        let open = |value: Box<dyn Any + Send>| {
            *value.downcast::<Result<V, Stop>>().expect("pieces of a run give one type")
        };
        given.map(|value| value.map_or(Err(Stop::Cancelled), open)).collect()
    }

    /// States that the run has waited for `ns` nanoseconds of an accelerator's work. On the virtual
    /// clock the chunk takes so much longer than its processor time, and no factor of the
    /// processor's counts for it; on the wall clock the wait was real, and nothing is added.
    pub fn accelerated(&mut self, ns: u64) {
        self.host.accelerated(ns);
    }

    /// Cancels the work ahead under `key`, or drops its result: the situation it was for is over.
    pub fn drop_ahead(&mut self, key: &'static str) {
        self.host.drop_ahead(key);
    }
}

pub(crate) fn erase<V, F>(work: F) -> Work
where
    V: Send + 'static,
    F: FnOnce(&mut WorkCx<'_>) -> Result<V, Stop> + Send + 'static,
{
    Box::new(|cx| Some(Box::new(work(cx).ok()?)))
}

/// Context of work beside a run: work that is done ahead of time, and pieces of a run.
pub struct WorkCx<'a> {
    pub(crate) host: &'a mut dyn Host,
}

impl WorkCx<'_> {
    /// A point at which the work may be preempted or cancelled; see [`Cx::go_on`].
    ///
    /// # Errors
    /// [`Stop::Cancelled`] if the result is not wanted any more.
    pub fn go_on(&mut self) -> Result<(), Stop> {
        match self.host.checkpoint() {
            Checkpoint::Go | Checkpoint::Yielded => Ok(()),
            Checkpoint::Cancel => Err(Stop::Cancelled),
        }
    }
}
