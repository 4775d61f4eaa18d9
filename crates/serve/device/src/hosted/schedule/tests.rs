//! The scheduler without threads: each test plays the threads itself.

use super::*;
use crate::{Event, KernelId, Launch, Status};

const NOW: u64 = 1_000;

/// A schedule with two units and one context.
fn schedule(sharing: Sharing) -> (Schedule, ContextId) {
    let mut schedule = Schedule::new(sharing, 4, vec![Level(0); 2], 1);
    let context = schedule.create_context().unwrap();
    (schedule, context)
}

fn submit(schedule: &mut Schedule, stream: StreamId, engine: ThreadKind, blocks: u32) -> Event {
    let (launch, event) = (Launch::new(KernelId(0), [0; 4]), Event::new());
    let order = Order { launch, event: event.clone(), workspace: Vec::new(), finishes: false };
    schedule.submit(stream, engine, blocks, &mut Some(order)).unwrap();
    event
}

/// Takes a block for a unit: its operation and its number.
fn take(schedule: &mut Schedule, unit: usize) -> Option<(u32, u32, Arc<Work>)> {
    match schedule.take(ThreadKind::Compute, unit, NOW) {
        Next::Blocks { slot, work, blocks, .. } => Some((slot, blocks.start, work)),
        _ => None,
    }
}

/// Ends a block as a unit does. True if that ended the operation.
fn end(schedule: &mut Schedule, (slot, _, work): (u32, u32, Arc<Work>)) -> bool {
    let ends = work.count_down(1);
    if ends {
        work.complete(|| NOW);
        drop(work);
        drop(schedule.retire(slot));
    }
    ends
}

#[test]
fn next_operation_gets_the_units_that_the_first_leaves() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let streams = [0; 2].map(|_| schedule.create_stream(context, Level(0)).unwrap());
    submit(&mut schedule, streams[0], ThreadKind::Compute, 3);
    submit(&mut schedule, streams[1], ThreadKind::Compute, 2);
    let taken: Vec<(u32, u32)> = (0..5)
        .map(|i| take(&mut schedule, i % 2).map(|(slot, block, _)| (slot, block)).unwrap())
        .collect();
    assert_eq!(taken, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]);
    assert!(take(&mut schedule, 0).is_none());
}

#[test]
fn unit_takes_as_many_blocks_as_there_are_up_to_a_burst() {
    let mut schedule = Schedule::new(Sharing::Levels, 4, vec![Level(0); 2], 3);
    let context = schedule.create_context().unwrap();
    let stream = schedule.create_stream(context, Level(0)).unwrap();
    let event = submit(&mut schedule, stream, ThreadKind::Compute, 7);
    let mut taken = Vec::new();
    while let Next::Blocks { work, blocks, .. } = schedule.take(ThreadKind::Compute, 0, NOW) {
        taken.push(blocks.clone());
        if work.count_down(blocks.end - blocks.start) {
            work.complete(|| NOW);
        }
    }
    assert_eq!(taken, [0..3, 3..6, 6..7]);
    assert_eq!(event.query().unwrap().status, Status::Done);
}

#[test]
fn cancellation_strikes_off_what_no_burst_has() {
    let mut schedule = Schedule::new(Sharing::Levels, 4, vec![Level(0); 2], 3);
    let context = schedule.create_context().unwrap();
    let stream = schedule.create_stream(context, Level(0)).unwrap();
    submit(&mut schedule, stream, ThreadKind::Compute, 7);
    let Next::Blocks { work, blocks, .. } = schedule.take(ThreadKind::Compute, 0, NOW) else {
        panic!("there is work")
    };
    schedule.cancel(stream).unwrap();
    assert!(matches!(schedule.take(ThreadKind::Compute, 1, NOW), Next::Sleep));
    assert!(work.count_down(blocks.end - blocks.start), "the unit that has the burst ends it");
}

#[test]
fn next_operation_of_a_stream_waits_for_retirement_and_then_goes_before_younger_ones() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let streams = [0; 2].map(|_| schedule.create_stream(context, Level(0)).unwrap());
    let first = submit(&mut schedule, streams[0], ThreadKind::Compute, 1);
    submit(&mut schedule, streams[0], ThreadKind::Compute, 1);
    submit(&mut schedule, streams[1], ThreadKind::Compute, 2);
    let running = take(&mut schedule, 0).unwrap();
    let young = take(&mut schedule, 1).unwrap();
    assert_eq!((running.0, young.0), (0, 2));
    assert!(end(&mut schedule, running));
    assert_eq!(first.query().unwrap().status, Status::Done);
    assert_eq!(take(&mut schedule, 0).unwrap().0, 1);
    assert!(!end(&mut schedule, young));
}

#[test]
fn higher_level_takes_the_next_block_and_a_preemption_is_counted() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let low = schedule.create_stream(context, Level(0)).unwrap();
    let high = schedule.create_stream(context, Level(3)).unwrap();
    submit(&mut schedule, low, ThreadKind::Compute, 9);
    assert_eq!(take(&mut schedule, 0).unwrap().0, 0);
    submit(&mut schedule, high, ThreadKind::Compute, 1);
    assert_eq!(take(&mut schedule, 0).unwrap().0, 1);
    assert_eq!(take(&mut schedule, 0).unwrap().0, 0);
    assert_eq!(schedule.counts.preemptions, 1);
}

#[test]
fn cancelled_work_that_no_unit_holds_is_told_by_the_copy_engine() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let stream = schedule.create_stream(context, Level(0)).unwrap();
    let events = [1, 5, 1].map(|blocks| submit(&mut schedule, stream, ThreadKind::Compute, blocks));
    assert!(matches!(schedule.take(ThreadKind::Copy, 0, NOW), Next::Sleep));
    schedule.cancel(stream).unwrap();
    assert!(take(&mut schedule, 0).is_none());
    for event in &events {
        assert_eq!(event.query(), None);
        let Next::Deliver { slot, work } = schedule.take(ThreadKind::Copy, 0, NOW) else {
            panic!("nothing to deliver");
        };
        work.complete(|| NOW);
        drop(work);
        drop(schedule.retire(slot));
        assert_eq!(event.query().unwrap().status, Status::Cancelled);
    }
    assert!(schedule.is_drained());
}

#[test]
fn cancelled_work_is_told_by_the_unit_that_runs_its_last_block() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let stream = schedule.create_stream(context, Level(0)).unwrap();
    let event = submit(&mut schedule, stream, ThreadKind::Compute, 100);
    let blocks = [0, 1].map(|unit| take(&mut schedule, unit).unwrap());
    schedule.destroy_stream(stream).unwrap();
    assert!(take(&mut schedule, 0).is_none());
    let ends = blocks.map(|block| end(&mut schedule, block));
    assert_eq!(ends, [false, true]);
    assert_eq!(event.query().unwrap().status, Status::Cancelled);
}

#[test]
fn one_sleeper_is_woken_and_wakes_the_next_only_for_more_work() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let stream = schedule.create_stream(context, Level(0)).unwrap();
    assert!(take(&mut schedule, 0).is_none() && take(&mut schedule, 1).is_none());
    submit(&mut schedule, stream, ThreadKind::Compute, 2);
    assert_eq!(schedule.wake(Some(ThreadKind::Compute)), Wakes([0, 0]));
    assert_eq!(schedule.wake(None), Wakes([0b01, 0]));
    let first = take(&mut schedule, 0).unwrap();
    assert_eq!(schedule.wake(None), Wakes([0b10, 0]));
    let second = take(&mut schedule, 1).unwrap();
    assert!(!end(&mut schedule, first) && end(&mut schedule, second));
    assert_eq!(schedule.wake(None), Wakes([0, 0]));
}

#[test]
fn failed_work_ends_with_its_running_blocks() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let stream = schedule.create_stream(context, Level(0)).unwrap();
    let event = submit(&mut schedule, stream, ThreadKind::Compute, 100);
    let block = take(&mut schedule, 0).unwrap();
    block.2.fail(crate::FailureCode::Memory);
    schedule.abandon(block.0);
    assert!(take(&mut schedule, 1).is_none());
    assert!(end(&mut schedule, block));
    assert_eq!(event.query().unwrap().status, Status::Failed(1));
}

#[test]
fn context_keeps_its_queue_until_its_last_work_is_told() {
    let (mut schedule, first) = schedule(Sharing::TimeSlice { slice_ns: 10 });
    let stream = schedule.create_stream(first, Level(0)).unwrap();
    submit(&mut schedule, stream, ThreadKind::Compute, 2);
    let block = take(&mut schedule, 0).unwrap();
    schedule.destroy_context(first).unwrap();
    let second = schedule.create_context().unwrap();
    assert_ne!(Table::<Context>::slot(first.0), Table::<Context>::slot(second.0));
    assert!(end(&mut schedule, block));
    let third = schedule.create_context().unwrap();
    assert_eq!(Table::<Context>::slot(first.0), Table::<Context>::slot(third.0));
}

#[test]
fn closed_schedule_refuses_work_and_stops_threads_when_all_is_told() {
    let (mut schedule, context) = schedule(Sharing::Levels);
    let stream = schedule.create_stream(context, Level(0)).unwrap();
    submit(&mut schedule, stream, ThreadKind::Compute, 9);
    let block = take(&mut schedule, 0).unwrap();
    schedule.close();
    assert_eq!(schedule.create_stream(context, Level(0)), Err(Error::Closed));
    assert!(matches!(schedule.take(ThreadKind::Compute, 1, NOW), Next::Sleep));
    assert!(end(&mut schedule, block));
    assert!(matches!(schedule.take(ThreadKind::Compute, 0, NOW), Next::Stop));
    assert_eq!(schedule.wake(None), Wakes([0b10, 0]));
}
