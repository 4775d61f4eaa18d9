//! Parts of the cases: a context on the device, work that holds the device, a log.

use crate::{
    ContextId, Device, Error, Event, Launch, Level, Observer, OperationOutcome, Preemption, Status,
    StreamId,
};
use shm::memory::PeerSlice;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time without an end after which the device is taken to hang.
const HANG: Duration = Duration::from_secs(60);
/// Work that no case waits for: it is cancelled before.
const LONG_NS: u64 = 300_000_000_000;

/// Beginning of the text by which a case says that the device lacks a kernel.
pub(super) const NO_KERNEL: &str = "there is no kernel";

/// Reason why a case ended early.
pub(super) enum Stop {
    Failed(String),
    Skipped(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(format!("refused: {error}"))
    }
}

impl From<shm::Error> for Stop {
    fn from(error: shm::Error) -> Stop {
        Stop::Failed(format!("memory: {error}"))
    }
}

/// Ends the case as failed unless `holds`.
pub(super) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(Stop::Failed(otherwise())) }
}

/// Waits for something that the device does by itself.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Stop> {
    let start = Instant::now();
    while !holds() {
        ensure(start.elapsed() < HANG, || format!("never: {what}"))?;
        std::thread::yield_now();
    }
    Ok(())
}

/// The outcome of an operation that must end by itself.
pub(super) fn outcome(event: &Event) -> Result<OperationOutcome, Stop> {
    event.wait_timeout(HANG).ok_or_else(|| Stop::Failed("an event did not complete".into()))
}

/// The outcome of an operation that must be done.
pub(super) fn done(event: &Event) -> Result<OperationOutcome, Stop> {
    let outcome = outcome(event)?;
    ensure(outcome.status == Status::Done, || format!("{outcome:?} instead of done"))?;
    Ok(outcome)
}

/// Waits for an operation that must be cancelled.
pub(super) fn cancelled(event: &Event) -> Result<(), Stop> {
    let outcome = outcome(event)?;
    ensure(outcome.status == Status::Cancelled, || format!("{outcome:?} instead of cancelled"))
}

/// A context of the device for one case.
pub(super) struct Scene {
    pub device: Arc<dyn Device>,
    pub context: ContextId,
}

impl Scene {
    pub(super) fn new(device: Arc<dyn Device>) -> Result<Scene, Stop> {
        let context = device.create_context()?;
        Ok(Scene { device, context })
    }

    /// A second context on the same device.
    pub(super) fn another(&self) -> Result<Scene, Stop> {
        Scene::new(self.device.clone())
    }

    pub(super) fn top(&self) -> Level {
        Level(self.device.properties().levels - 1)
    }

    pub(super) fn stream(&self, level: Level) -> Result<StreamId, Stop> {
        Ok(self.device.create_stream(self.context, level)?)
    }

    /// A launch of a kernel. Every device must have `empty` and `busy`.
    pub(super) fn order(&self, kernel: &str, arguments: [u64; 4]) -> Result<Launch, Stop> {
        let missing = format!("{NO_KERNEL} {kernel}");
        match self.device.kernel(kernel) {
            Some(id) => Ok(Launch::new(id, arguments)),
            None if ["empty", "busy"].contains(&kernel) => Err(Stop::Failed(missing)),
            None => Err(Stop::Skipped(missing)),
        }
    }

    pub(super) fn empty(&self, stream: StreamId, event: &Event) -> Result<(), Stop> {
        Ok(self.device.launch(stream, self.order("empty", [0; 4])?, event)?)
    }

    pub(super) fn busy(&self, stream: StreamId, ns: u64, event: &Event) -> Result<(), Stop> {
        Ok(self.device.launch(stream, self.order("busy", [ns, 0, 0, 0])?, event)?)
    }

    /// Launches work that runs until it is cancelled.
    pub(super) fn endless(&self, stream: StreamId, event: &Event) -> Result<(), Stop> {
        if self.device.properties().preemption == Preemption::None {
            return Err(Stop::Skipped("running work cannot be preempted or cancelled".into()));
        }
        self.busy(stream, LONG_NS, event)
    }

    /// Waits until blocks run.
    pub(super) fn until_running(&self) -> Result<(), Stop> {
        let before = self.device.statistics().blocks;
        until("blocks run", || self.device.statistics().blocks > before)
    }

    /// Keeps this context off the device: what is submitted from now on waits for
    /// [`Hold::release`], because it is less important or came later.
    pub(super) fn hold(&self) -> Result<Hold, Stop> {
        let (stream, event) = (self.stream(self.top())?, Event::new());
        self.endless(stream, &event)?;
        Ok(Hold { stream, event })
    }

    /// Memory with these floats.
    pub(super) fn floats(&self, values: &[f32]) -> Result<PeerSlice, Stop> {
        let memory = self.memory(values.len() * 4)?;
        memory.write_f32(0, values)?;
        Ok(memory)
    }

    /// Memory of zeros.
    pub(super) fn memory(&self, bytes: usize) -> Result<PeerSlice, Stop> {
        match bytes {
            0 => Ok(PeerSlice::empty()),
            // A mapping may be longer, by a part of a page.
            _ => Ok(PeerSlice::anonymous(bytes)?.slice(0, bytes)?),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A case may have destroyed it.
        let _ = self.device.destroy_context(self.context);
    }
}

/// Endless work on the highest level.
pub(super) struct Hold {
    stream: StreamId,
    event: Event,
}

impl Hold {
    /// Lets the device go on with what was submitted meanwhile.
    pub(super) fn release(self, scene: &Scene) -> Result<(), Stop> {
        scene.device.cancel(self.stream)?;
        cancelled(&self.event)
    }
}

/// Call that an observer got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Overrun,
    Completed(OperationOutcome),
}

/// Writes down everything it is told, in order, with the token.
#[derive(Default)]
pub(super) struct Log(Mutex<Vec<(u64, Told)>>);

impl Log {
    /// An event that reports here.
    pub(super) fn event(self: &Arc<Log>, token: u64) -> Event {
        Event::observed(self.clone(), token)
    }

    pub(super) fn entries(&self) -> Vec<(u64, Told)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tokens of completed operations, in order.
    pub(super) fn completed(&self) -> Vec<u64> {
        let completed = |(token, told): (u64, Told)| (told != Told::Overrun).then_some(token);
        self.entries().into_iter().filter_map(completed).collect()
    }

    /// Waits until this number of operations completed.
    pub(super) fn until_completed(&self, count: usize) -> Result<(), Stop> {
        until("all operations complete", || self.completed().len() >= count)
    }

    fn push(&self, token: u64, told: Told) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((token, told));
    }
}

impl Observer for Log {
    fn completed(&self, token: u64, outcome: &OperationOutcome) {
        self.push(token, Told::Completed(*outcome));
    }

    fn overrun(&self, token: u64) {
        self.push(token, Told::Overrun);
    }
}
