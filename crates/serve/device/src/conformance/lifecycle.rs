//! Cancellation, and the end of streams and contexts.

use super::Check;
use super::scene::{Log, Scene, Stop, Told, cancelled, done, ensure};
use crate::{Error, Event, Level, Status, StreamId};
use std::sync::Arc;

pub(super) const CASES: &[(&str, Check)] = &[
    ("cancelling ends running and queued work, in order", cancel),
    ("cancelling leaves other streams and later work alone", cancel_one_stream),
    ("cancelling work that never started says so", cancel_queued),
    ("destroying a stream cancels its work and forgets its id", destroy_stream),
    ("destroying a context destroys its streams", destroy_context),
    ("ids are not used again", fresh_ids),
];

/// One endless launch, then launches and copies behind it.
fn load(scene: &Scene, stream: StreamId, log: &Arc<Log>, count: u64) -> Result<(), Stop> {
    let memory = scene.memory(100_000)?;
    scene.endless(stream, &log.event(0))?;
    for token in 1..count {
        match token % 2 {
            0 => scene.empty(stream, &log.event(token))?,
            _ => {
                let event = log.event(token);
                scene.device.copy(stream, memory.clone(), memory.clone(), &event)?;
            }
        }
    }
    Ok(())
}

fn all_cancelled(log: &Log, count: u64) -> Result<(), Stop> {
    log.until_completed(count as usize)?;
    let entries = log.entries();
    let in_order = entries.iter().map(|entry| entry.0).eq(0..count);
    ensure(in_order, || format!("completed {:?}", log.completed()))?;
    let is_cancelled = |told| matches!(told, Told::Completed(o) if o.status == Status::Cancelled);
    ensure(entries.iter().all(|entry| is_cancelled(entry.1)), || format!("{entries:?}"))
}

fn cancel(scene: &Scene) -> Result<(), Stop> {
    let log = Arc::new(Log::default());
    let stream = scene.stream(Level(0))?;
    load(scene, stream, &log, 9)?;
    scene.until_running()?;
    scene.device.cancel(stream)?;
    all_cancelled(&log, 9)?;
    // Nothing left: cancelling again does nothing, and the stream still works.
    scene.device.cancel(stream)?;
    let event = log.event(9);
    scene.empty(stream, &event)?;
    done(&event)?;
    log.until_completed(10)?;
    ensure(log.completed().len() == 10, || format!("completed {:?}", log.completed()))
}

fn cancel_one_stream(scene: &Scene) -> Result<(), Stop> {
    let hold = scene.hold()?;
    let (stream, other) = (scene.stream(Level(0))?, scene.stream(Level(0))?);
    let events = [Event::new(), Event::new(), Event::new()];
    scene.empty(stream, &events[0])?;
    scene.empty(other, &events[1])?;
    scene.device.cancel(stream)?;
    scene.empty(stream, &events[2])?;
    cancelled(&events[0])?;
    hold.release(scene)?;
    done(&events[1])?;
    done(&events[2]).map(|_| ())
}

fn cancel_queued(scene: &Scene) -> Result<(), Stop> {
    let hold = scene.hold()?;
    let (stream, event) = (scene.stream(Level(0))?, Event::new());
    scene.busy(stream, 1_000_000, &event)?;
    scene.device.cancel(stream)?;
    cancelled(&event)?;
    let outcome = event.wait();
    let never = outcome.busy_ns == 0 && outcome.started_ns == outcome.finished_ns;
    ensure(never, || format!("{outcome:?}"))?;
    hold.release(scene)
}

fn destroy_stream(scene: &Scene) -> Result<(), Stop> {
    let log = Arc::new(Log::default());
    let stream = scene.stream(Level(0))?;
    load(scene, stream, &log, 7)?;
    scene.until_running()?;
    scene.device.destroy_stream(stream)?;
    is_gone(scene, stream)?;
    all_cancelled(&log, 7)?;
    is_gone(scene, stream)
}

fn is_gone(scene: &Scene, stream: StreamId) -> Result<(), Stop> {
    let results = [
        scene.device.launch(stream, scene.order("empty", [0; 4])?, &Event::new()),
        scene.device.cancel(stream),
        scene.device.set_stream_level(stream, Level(0)),
        scene.device.destroy_stream(stream),
    ];
    let gone = Err(Error::UnknownStream(stream));
    ensure(results.iter().all(|result| *result == gone), || format!("{results:?}"))
}

fn destroy_context(scene: &Scene) -> Result<(), Stop> {
    let other = scene.another()?;
    let logs = [Arc::new(Log::default()), Arc::new(Log::default())];
    let streams = [other.stream(Level(0))?, other.stream(other.top())?];
    for (stream, log) in streams.into_iter().zip(&logs) {
        load(&other, stream, log, 5)?;
    }
    scene.device.destroy_context(other.context)?;
    for (stream, log) in streams.into_iter().zip(&logs) {
        is_gone(&other, stream)?;
        all_cancelled(log, 5)?;
    }
    let unknown = Error::UnknownContext(other.context);
    let created = scene.device.create_stream(other.context, Level(0)).map(|_| ());
    ensure(created == Err(unknown.clone()), || format!("{created:?}"))?;
    let destroyed = scene.device.destroy_context(other.context);
    ensure(destroyed == Err(unknown), || format!("{destroyed:?}"))?;
    // The context beside it is still there.
    let event = Event::new();
    scene.empty(scene.stream(Level(0))?, &event)?;
    done(&event).map(|_| ())
}

fn fresh_ids(scene: &Scene) -> Result<(), Stop> {
    let (mut streams, mut contexts) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let other = scene.another()?;
        let stream = other.stream(Level(0))?;
        streams.push(stream);
        contexts.push(other.context);
        scene.device.destroy_stream(stream)?;
    }
    for ids in [streams.iter().map(|s| s.0).collect(), contexts.iter().map(|c| c.0).collect()] {
        let mut ids: Vec<u64> = ids;
        ids.sort_unstable();
        ids.dedup();
        ensure(ids.len() == 100, || format!("{} of 100 ids are different", ids.len()))?;
    }
    Ok(())
}
