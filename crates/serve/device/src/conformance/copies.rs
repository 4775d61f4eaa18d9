//! The copy engine: right bytes, beside the compute units, in stream order, by level.

use super::Check;
use super::results::Random;
use super::scene::{Scene, Stop, done, ensure};
use crate::{Event, Level};
use realtime::clock::monotonic_ns;

pub(super) const CASES: &[(&str, Check)] = &[
    ("copies carry every byte and nothing else", bytes),
    ("copies run beside a busy device", beside),
    ("a copy waits for the work before it in its stream", after_work),
    ("a higher level overtakes a running copy", overtake),
];

fn needs_engine(scene: &Scene) -> Result<(), Stop> {
    match scene.device.properties().copy_engines {
        0 => Err(Stop::Skipped("the device has no copy engine".into())),
        _ => Ok(()),
    }
}

fn bytes(scene: &Scene) -> Result<(), Stop> {
    let stream = scene.stream(Level(0))?;
    for length in [0, 1, 65_535, 65_536, 65_537, 1_000_003] {
        let mut random = Random(length as u64);
        let sent: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let (from, to) = (scene.memory(length)?, scene.memory(length + 16)?);
        from.write(0, &sent)?;
        to.write(length, &[0xaa; 16])?;
        let event = Event::new();
        scene.device.copy(stream, from, to.clone(), &event)?;
        done(&event)?;
        let mut got = vec![0; length + 16];
        to.read(0, &mut got)?;
        ensure(got[..length] == sent, || format!("{length} bytes arrived changed"))?;
        let beyond = got[length..].iter().any(|byte| *byte != 0xaa);
        ensure(!beyond, || format!("a copy of {length} bytes wrote beyond its end"))?;
    }
    Ok(())
}

fn beside(scene: &Scene) -> Result<(), Stop> {
    needs_engine(scene)?;
    let hold = scene.hold()?;
    scene.until_running()?;
    let (stream, event) = (scene.stream(Level(0))?, Event::new());
    let (from, to) = (scene.memory(200_000)?, scene.memory(200_000)?);
    scene.device.copy(stream, from, to, &event)?;
    done(&event)?;
    // The hold says itself that it was not over: its release finds it cancelled, not done.
    hold.release(scene)
}

fn after_work(scene: &Scene) -> Result<(), Stop> {
    needs_engine(scene)?;
    let hold = scene.hold()?;
    let (stream, other) = (scene.stream(Level(0))?, scene.stream(Level(0))?);
    let memory = scene.memory(100)?;
    let events = [Event::new(), Event::new(), Event::new()];
    scene.empty(stream, &events[0])?;
    scene.device.copy(stream, memory.clone(), memory.clone(), &events[1])?;
    scene.device.copy(other, memory.clone(), memory, &events[2])?;
    done(&events[2])?;
    ensure(events[1].query().is_none(), || "a copy did not wait for its stream".into())?;
    hold.release(scene)?;
    let (work, copy) = (done(&events[0])?, done(&events[1])?);
    ensure(work.finished_ns <= copy.started_ns, || format!("{work:?} before {copy:?}"))
}

/// Four large copies wait in a stream of the lowest level when a small one of the highest comes.
/// It has to start before the last of them, unless it came too late for that.
fn overtake(scene: &Scene) -> Result<(), Stop> {
    needs_engine(scene)?;
    if scene.device.properties().time_slices || scene.device.properties().levels < 2 {
        return Err(Stop::Skipped("the device has no levels".into()));
    }
    const LARGE: usize = 16 << 20;
    let (low, high) = (scene.stream(Level(0))?, scene.stream(scene.top())?);
    let (from, to) = (scene.memory(LARGE)?, scene.memory(LARGE)?);
    let small = scene.memory(16)?;
    for _ in 0..20 {
        let events: Vec<Event> = (0..4).map(|_| Event::new()).collect();
        for event in &events {
            scene.device.copy(low, from.clone(), to.clone(), event)?;
        }
        let event = Event::new();
        scene.device.copy(high, small.clone(), small.clone(), &event)?;
        let submitted_ns = monotonic_ns();
        let urgent = done(&event)?;
        let large = events.iter().map(done).collect::<Result<Vec<_>, _>>()?;
        if submitted_ns < large[3].started_ns {
            let first = urgent.started_ns < large[3].started_ns;
            return ensure(first, || "an urgent copy waited for all others".into());
        }
    }
    Err(Stop::Skipped("the copies were over before another could be submitted".into()))
}
