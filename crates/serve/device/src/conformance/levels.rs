//! Order in which work gets the device: by level at block boundaries, or by turns of contexts.

use super::Check;
use super::scene::{Scene, Stop, cancelled, done, ensure, until};
use crate::{Event, Level};

pub(super) const CASES: &[(&str, Check)] = &[
    ("a higher level overtakes running work", overtake),
    ("higher levels run first", highest_first),
    ("running work moves when its stream changes level", move_running),
    ("waiting work moves when its stream changes level", move_waiting),
    ("contexts take turns, whatever their levels", turns),
];

fn needs_levels(scene: &Scene) -> Result<(), Stop> {
    let properties = scene.device.properties();
    if properties.time_slices {
        return Err(Stop::Skipped("the device ignores levels".into()));
    }
    if properties.levels < 2 {
        return Err(Stop::Skipped("the device has one level".into()));
    }
    Ok(())
}

fn overtake(scene: &Scene) -> Result<(), Stop> {
    needs_levels(scene)?;
    let (low, low_event) = (scene.stream(Level(0))?, Event::new());
    scene.endless(low, &low_event)?;
    scene.until_running()?;
    let before = scene.device.statistics().preemptions;
    let (high, event) = (scene.stream(scene.top())?, Event::new());
    let overtake_once = || -> Result<(), Stop> {
        scene.empty(high, &event)?;
        let outcome = done(&event)?;
        ensure(low_event.query().is_none(), || format!("{outcome:?} waited for lower work"))
    };
    overtake_once()?;
    // A unit that just woke up runs the urgent work without leaving any: not each time counts.
    let mut failed = Ok(());
    until("a preemption is counted", || {
        failed = overtake_once();
        failed.is_err() || scene.device.statistics().preemptions > before
    })?;
    failed?;
    // The overtaken work goes on.
    scene.until_running()?;
    scene.device.cancel(low)?;
    cancelled(&low_event)
}

fn highest_first(scene: &Scene) -> Result<(), Stop> {
    needs_levels(scene)?;
    let hold = scene.hold()?;
    let levels = 0..scene.device.properties().levels;
    let mut events = Vec::new();
    for level in levels {
        let event = Event::new();
        scene.busy(scene.stream(Level(level))?, 250_000, &event)?;
        events.push(event);
    }
    hold.release(scene)?;
    let outcomes = events.iter().map(done).collect::<Result<Vec<_>, _>>()?;
    for (level, pair) in outcomes.windows(2).enumerate() {
        let first = pair[1].started_ns <= pair[0].started_ns;
        ensure(first, || format!("level {level} started before level {}", level + 1))?;
    }
    Ok(())
}

fn move_running(scene: &Scene) -> Result<(), Stop> {
    needs_levels(scene)?;
    let (running, running_event) = (scene.stream(Level(1))?, Event::new());
    scene.endless(running, &running_event)?;
    scene.until_running()?;
    // Lower work waits, until the running work is moved below it or beside it.
    let (other, event) = (scene.stream(Level(0))?, Event::new());
    scene.empty(other, &event)?;
    scene.until_running()?;
    ensure(event.query().is_none(), || "a lower level ran before a higher one".into())?;
    scene.device.set_stream_level(other, Level(1))?;
    scene.device.set_stream_level(running, Level(0))?;
    done(&event)?;
    ensure(running_event.query().is_none(), || "waited for work that was moved down".into())?;
    scene.device.cancel(running)?;
    cancelled(&running_event)
}

fn move_waiting(scene: &Scene) -> Result<(), Stop> {
    needs_levels(scene)?;
    let (running, running_event) = (scene.stream(Level(0))?, Event::new());
    scene.endless(running, &running_event)?;
    let (waiting, event) = (scene.stream(Level(0))?, Event::new());
    scene.empty(waiting, &event)?;
    scene.until_running()?;
    ensure(event.query().is_none(), || "later work of one level ran first".into())?;
    scene.device.set_stream_level(waiting, Level(1))?;
    done(&event)?;
    ensure(running_event.query().is_none(), || "waited for work of a lower level".into())?;
    scene.device.cancel(running)?;
    cancelled(&running_event)
}

fn turns(scene: &Scene) -> Result<(), Stop> {
    if !scene.device.properties().time_slices {
        return Err(Stop::Skipped("the device shares by levels".into()));
    }
    let other = scene.another()?;
    let streams = [scene.stream(scene.top())?, other.stream(Level(0))?];
    let events = [Event::new(), Event::new()];
    let before = scene.device.statistics().preemptions;
    scene.endless(streams[0], &events[0])?;
    other.endless(streams[1], &events[1])?;
    let changes = || scene.device.statistics().preemptions - before;
    until("contexts take turns", || changes() >= 10)?;
    for (stream, event) in streams.into_iter().zip(&events) {
        ensure(event.query().is_none(), || "endless work has ended".into())?;
        scene.device.cancel(stream)?;
        cancelled(event)?;
        ensure(event.wait().busy_ns > 0, || "a context never had a turn".into())?;
    }
    Ok(())
}
