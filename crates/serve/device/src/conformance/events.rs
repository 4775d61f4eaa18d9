//! Events, observers and budgets.

use super::Check;
use super::scene::{Log, Scene, Stop, Told, done, ensure, until};
use crate::{Device, Error, Event, Launch, Level, Observer, OperationOutcome, StreamId};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const CASES: &[(&str, Check)] = &[
    ("an event is used again after it completed", reuse),
    ("an event that is armed is refused, and completes once", armed_twice),
    ("an observer can launch, with its own event", launch_from_observer),
    ("an overrun is told once, before the end", overrun),
];

fn reuse(scene: &Scene) -> Result<(), Stop> {
    let log = Arc::new(Log::default());
    let (stream, event) = (scene.stream(Level(0))?, log.event(1));
    ensure(event.query().is_none(), || "a new event is signalled".into())?;
    for round in 1..=200 {
        scene.empty(stream, &event)?;
        done(&event)?;
        log.until_completed(round)?;
    }
    ensure(log.completed().len() == 200, || format!("{} completions", log.completed().len()))
}

fn armed_twice(scene: &Scene) -> Result<(), Stop> {
    let log = Arc::new(Log::default());
    let hold = scene.hold()?;
    let (stream, event) = (scene.stream(Level(0))?, log.event(1));
    scene.empty(stream, &event)?;
    let again = scene.device.launch(stream, scene.order("empty", [0; 4])?, &event);
    ensure(again == Err(Error::EventBusy), || format!("armed twice: {again:?}"))?;
    let memory = scene.memory(8)?;
    let again = scene.device.copy(stream, memory.clone(), memory, &event);
    ensure(again == Err(Error::EventBusy), || format!("armed twice: {again:?}"))?;
    ensure(event.query().is_none(), || "signalled before its work ran".into())?;
    hold.release(scene)?;
    done(&event)?;
    // Work that comes after it in the stream completes after it: a second completion would show.
    let last = log.event(2);
    scene.empty(stream, &last)?;
    log.until_completed(2)?;
    ensure(log.completed() == [1, 2], || format!("completed {:?}", log.completed()))
}

/// Launches again from `completed`, until it has done so often enough.
struct Again {
    device: Arc<dyn Device>,
    stream: StreamId,
    launch: Launch,
    left: AtomicU32,
    event: Mutex<Option<Event>>,
    refused: Mutex<Option<Error>>,
}

impl Observer for Again {
    fn completed(&self, _: u64, _: &OperationOutcome) {
        if self.left.load(Ordering::Relaxed) > 1 {
            let event = self.event.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let event = event.expect("the event is there until the end");
            if let Err(error) = self.device.launch(self.stream, self.launch.clone(), &event) {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.left.store(0, Ordering::Release);
                return;
            }
        }
        self.left.fetch_sub(1, Ordering::Release);
    }
}

fn launch_from_observer(scene: &Scene) -> Result<(), Stop> {
    const COUNT: u32 = 1000;
    let again = Arc::new(Again {
        device: scene.device.clone(),
        stream: scene.stream(Level(0))?,
        launch: scene.order("empty", [0; 4])?,
        left: AtomicU32::new(COUNT),
        event: Mutex::new(None),
        refused: Mutex::new(None),
    });
    let before = scene.device.statistics().launches;
    let event = Event::observed(again.clone(), 0);
    *again.event.lock().unwrap_or_else(PoisonError::into_inner) = Some(event.clone());
    scene.empty(again.stream, &event)?;
    let ended = until("the chain ends", || again.left.load(Ordering::Acquire) == 0);
    // The event holds the observer and the observer the event.
    again.event.lock().unwrap_or_else(PoisonError::into_inner).take();
    ended?;
    let refused = again.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure(refused.is_none(), || format!("an observer was refused: {refused:?}"))?;
    let launches = scene.device.statistics().launches - before;
    ensure(launches == COUNT.into(), || format!("{launches} launches instead of {COUNT}"))
}

fn overrun(scene: &Scene) -> Result<(), Stop> {
    let log = Arc::new(Log::default());
    let stream = scene.stream(Level(0))?;
    let budgets = [Some(1), None, Some(u64::MAX), Some(0)];
    for (token, budget_ns) in (0..).zip(budgets) {
        let launch = scene.order("busy", [2_000_000, 0, 0, 0])?;
        scene.device.launch(stream, Launch { budget_ns, ..launch }, &log.event(token))?;
    }
    log.until_completed(budgets.len())?;
    let told: Vec<(u64, bool)> = log
        .entries()
        .iter()
        .map(|(token, told)| (*token, matches!(told, Told::Completed(o) if o.overrun)))
        .collect();
    // Each entry: which launch, and whether it is an end that says overrun.
    let expected = [(0, false), (0, true), (1, false), (2, false), (3, false), (3, true)];
    ensure(told == expected, || format!("{:?}", log.entries()))
}
