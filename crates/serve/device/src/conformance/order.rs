//! Order inside a stream, and between streams of one level.

use super::Check;
use super::scene::{Log, Scene, Stop, Told, done, ensure};
use crate::{Event, Level};
use std::sync::Arc;

pub(super) const CASES: &[(&str, Check)] = &[
    ("operations of a stream see the results of those before", chain),
    ("operations of a stream complete in order", stream_order),
    ("operations of one level start in the order of submission", first_come),
];

/// x becomes 2x by vecadd and is copied back as the next input, ten times over.
fn chain(scene: &Scene) -> Result<(), Stop> {
    const N: usize = 10_000;
    const ROUNDS: i32 = 10;
    let stream = scene.stream(Level(0))?;
    let input = scene.floats(&[1.0; 2 * N])?;
    let output = scene.memory(N * 4)?;
    let mut events = Vec::new();
    for _ in 0..ROUNDS {
        let mut launch = scene.order("vecadd", [N as u64, 0, 0, 0])?;
        (launch.input, launch.output) = (input.clone(), output.clone());
        events.extend([Event::new(), Event::new(), Event::new()]);
        let [sum, first, second] = events.last_chunk().expect("three were added");
        scene.device.launch(stream, launch, sum)?;
        scene.device.copy(stream, output.clone(), input.slice(0, N * 4)?, first)?;
        scene.device.copy(stream, output.clone(), input.slice(N * 4, N * 4)?, second)?;
    }
    for event in &events {
        done(event)?;
    }
    let mut values = vec![0.0; N];
    output.read_f32(0, &mut values)?;
    let expected = 2f32.powi(ROUNDS);
    ensure(values.iter().all(|v| *v == expected), || format!("{} for {expected}", values[0]))
}

fn stream_order(scene: &Scene) -> Result<(), Stop> {
    const COUNT: u64 = 60;
    let log = Arc::new(Log::default());
    let stream = scene.stream(Level(0))?;
    let memory = scene.memory(200_000)?;
    for token in 0..COUNT {
        let event = log.event(token);
        match token % 3 {
            0 => scene.empty(stream, &event)?,
            1 => scene.busy(stream, 300_000, &event)?,
            _ => scene.device.copy(stream, memory.clone(), memory.clone(), &event)?,
        }
    }
    log.until_completed(COUNT as usize)?;
    let completed = log.completed();
    ensure(completed.iter().copied().eq(0..COUNT), || format!("completed {completed:?}"))?;
    let mut before = 0;
    for (token, told) in log.entries() {
        if let Told::Completed(outcome) = told {
            ensure(before <= outcome.started_ns, || format!("{token} started too early"))?;
            before = outcome.finished_ns;
        }
    }
    Ok(())
}

fn first_come(scene: &Scene) -> Result<(), Stop> {
    const COUNT: usize = 12;
    let hold = scene.hold()?;
    let streams = (0..COUNT).map(|_| scene.stream(Level(0))).collect::<Result<Vec<_>, _>>()?;
    let events: Vec<Event> = (0..COUNT).map(|_| Event::new()).collect();
    for (i, event) in events.iter().enumerate() {
        scene.busy(streams[i], 250_000, event)?;
    }
    hold.release(scene)?;
    let outcomes = events.iter().map(done).collect::<Result<Vec<_>, _>>()?;
    let one_unit = scene.device.properties().units == 1;
    for (i, pair) in outcomes.windows(2).enumerate() {
        let started = pair[0].started_ns <= pair[1].started_ns;
        ensure(started, || format!("{} started before {i}", i + 1))?;
        let apart = pair[0].finished_ns <= pair[1].started_ns;
        ensure(!one_unit || apart, || format!("{} started while {i} had blocks left", i + 1))?;
    }
    Ok(())
}
