//! Everything at once, from several threads.

use super::Check;
use super::results::Random;
use super::scene::{Log, Scene, Stop, Told, ensure};
use crate::{Event, Launch, Level, Status, StreamId};
use std::sync::Arc;

pub(super) const CASES: &[(&str, Check)] =
    &[("many streams: every event completes once, in stream order", many_streams)];

const THREADS: u64 = 3;
const STREAMS: u64 = 12;
const ROUNDS: u64 = 400;

/// Tokens count up in each stream, so that each log must read 0, 1, 2, ...
struct Lane {
    stream: StreamId,
    log: Arc<Log>,
    submitted: u64,
}

fn many_streams(scene: &Scene) -> Result<(), Stop> {
    let results: Vec<Result<(), Stop>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|seed| scope.spawn(move || submit(scene, seed))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Stop::Failed("a submitter panicked".into())))
        };
        threads.into_iter().map(join).collect()
    });
    results.into_iter().collect()
}

fn submit(scene: &Scene, seed: u64) -> Result<(), Stop> {
    let mut random = Random(seed);
    let own = scene.another()?;
    let levels = u32::from(scene.device.properties().levels);
    let any_level = |random: &mut Random| Level((random.next() % levels) as u8);
    let mut lanes = Vec::new();
    for _ in 0..STREAMS {
        let stream = own.stream(any_level(&mut random))?;
        lanes.push(Lane { stream, log: Arc::default(), submitted: 0 });
    }
    let vecadd = Launch {
        input: own.floats(&[1.0; 10_000])?,
        output: own.memory(20_000)?,
        ..own.order("vecadd", [5_000, 0, 0, 0])?
    };
    let memory = own.memory(150_000)?;
    for _ in 0..ROUNDS {
        let lane = &mut lanes[(random.next() as u64 % STREAMS) as usize];
        let event = lane.log.event(lane.submitted);
        match random.next() % 16 {
            0 => own.device.set_stream_level(lane.stream, any_level(&mut random))?,
            1 => own.device.cancel(lane.stream)?,
            2..=5 => lane.launch(&own, vecadd.clone(), &event)?,
            6..=8 => lane.launch(&own, own.order("busy", [120_000, 0, 0, 0])?, &event)?,
            9..=11 => {
                own.device.copy(lane.stream, memory.clone(), memory.clone(), &event)?;
                lane.submitted += 1;
            }
            _ => lane.launch(&own, own.order("empty", [0; 4])?, &event)?,
        }
    }
    lanes.iter().try_for_each(Lane::check)
}

impl Lane {
    fn launch(&mut self, scene: &Scene, launch: Launch, event: &Event) -> Result<(), Stop> {
        scene.device.launch(self.stream, launch, event)?;
        self.submitted += 1;
        Ok(())
    }

    fn check(&self) -> Result<(), Stop> {
        self.log.until_completed(self.submitted as usize)?;
        let entries = self.log.entries();
        let in_order = entries.iter().map(|entry| entry.0).eq(0..self.submitted);
        ensure(in_order, || format!("{:?} of {}", self.log.completed(), self.submitted))?;
        let ended = |told: Told| match told {
            Told::Completed(outcome) => !matches!(outcome.status, Status::Failed(_)),
            Told::Overrun => false,
        };
        ensure(entries.iter().all(|entry| ended(entry.1)), || format!("{entries:?}"))
    }
}
