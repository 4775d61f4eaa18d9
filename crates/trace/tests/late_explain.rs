//! Calls taken apart: one small program for each thing that a call can spend its time with.

mod late_tape;

use late_tape::{Tape, find, parts, story};
use record::{Action, Class, Kind};
use trace::late::{Cause, Explained, Family, Holder, HolderState, Options, Reason};
use trace::metadata::Tier;

const M: u64 = 0x1000;
const N: u64 = 0x2000;
const R: u64 = 0x3000;
const C: u64 = 0x4000;
const LAUNCH: &str = "cuLaunchKernel";
const COPY: &str = "cuMemcpyHtoDAsync_v2";

fn holders(cause: &Cause) -> &[Holder] {
    match cause {
        Cause::Lock { holders, .. } => holders,
        other => panic!("no lock: {other:?}"),
    }
}

fn holder_tids(call: &Explained) -> Vec<(u32, u64)> {
    let locks = call.parts.iter().filter(|part| matches!(part.cause, Cause::Lock { .. }));
    locks.map(|part| (holders(&part.cause)[0].task.tid, part.duration_ns)).collect()
}

#[test]
fn wait_is_split_by_the_holders_that_come_one_after_the_other() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    tape.name(b, 1, "copier", 0, 0);
    tape.enter(b, 500, COPY, 7, 1 << 22);
    tape.takes(b, 600, M);
    tape.releases(b, 2000, M);
    tape.exit(b, 2100);
    tape.waits(c, 1100, Class::Mutex, M, 102);
    tape.takes(c, 2010, M);
    tape.releases(c, 3000, M);
    tape.enter(a, 900, LAUNCH, 7, 1);
    tape.waits(a, 1000, Class::Mutex, M, 102);
    tape.takes(a, 3050, M);
    tape.releases(a, 3100, M);
    tape.exit(a, 3200);
    tape.usual(a, 100_000, 60, LAUNCH, 1);
    let both = tape.explained();
    let call = find(&both, 101, 900);
    let expected = [
        ("executing", 60),
        ("unexplained", 40),
        ("lock", 1000),
        ("hand-over", 10),
        ("lock", 990),
        ("hand-over", 50),
        ("unexplained", 150),
    ];
    assert_eq!(story(call), expected);
    let first = &holders(&call.parts[2].cause)[0];
    assert_eq!((first.task.tid, first.task.name.as_str()), (102, "copier"));
    assert_eq!(both.0.kinds[first.call.unwrap() as usize].function, "cuMemcpyHtoDAsync");
    assert_eq!((first.assumed, &first.state), (false, &HolderState::NotKnown));
    let Cause::HandOver { to, certain, .. } = &call.parts[3].cause else { panic!() };
    assert_eq!((to.as_ref().map(|to| to.tid), *certain), (Some(103), true));
    let Cause::HandOver { to: None, .. } = &call.parts[5].cause else { panic!() };
    assert_eq!(call.parts[6].cause, Cause::Unexplained { reason: Reason::NoScheduler });
    assert_eq!(both.0.locks[0].name, "M1");
}

#[test]
fn holder_that_was_preempted_is_named_with_who_ran_instead() {
    let mut tape = Tape::new(Tier::Scheduler);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.metadata.tasks.push(trace::metadata::Task { thread: 900, pid: 900, name: "hog".into() });
    tape.switch(p, 10, (0, 120), (102, 130), 0);
    tape.takes(b, 100, M);
    tape.switch(q, 150, (0, 120), (101, 49), 0);
    tape.enter(a, 200, LAUNCH, 7, 1);
    tape.waits(a, 300, Class::Mutex, M, 102);
    tape.switch(q, 320, (101, 49), (0, 120), 1);
    tape.switch(p, 400, (102, 130), (900, 110), 0);
    tape.switch(p, 900, (900, 110), (102, 130), 0);
    tape.releases(b, 1000, M);
    tape.wakeup(p, 1010, 102, (101, 49));
    tape.switch(q, 1060, (0, 120), (101, 49), 0);
    tape.takes(a, 1070, M);
    tape.releases(a, 1080, M);
    tape.exit(a, 1100);
    let both = tape.explained();
    let call = find(&both, 101, 200);
    let expected = [
        ("executing", 100),
        ("lock", 100),
        ("lock", 500),
        ("lock", 100),
        ("hand-over", 10),
        ("woken late", 50),
        ("hand-over", 10),
        ("executing", 30),
    ];
    assert_eq!(story(call), expected);
    assert_eq!(holders(&call.parts[1].cause)[0].state, HolderState::Executing);
    let preempted = &holders(&call.parts[2].cause)[0];
    assert_eq!(preempted.task.priority, Some(130));
    let HolderState::Preempted { by: Some(by) } = &preempted.state else { panic!() };
    assert_eq!((by.tid, by.name.as_str(), by.priority), (900, "hog", Some(110)));
    let Cause::WokenLate { lock: Some(0), behind: Some(idle) } = &call.parts[5].cause else {
        panic!("{:?}", call.parts[5])
    };
    assert_eq!(idle.tid, 0);
    assert_eq!(call.sums.lock_holder_off_ns, 500);
}

#[test]
fn chain_of_holders_is_followed_to_who_waits_for_nobody() {
    let mut tape = Tape::new(Tier::Scheduler);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    let p = tape.processor(0);
    tape.takes(c, 50, N);
    tape.enter(b, 60, COPY, 7, 10);
    tape.takes(b, 70, M);
    tape.waits(b, 80, Class::Mutex, N, 103);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.waits(a, 200, Class::Mutex, M, 102);
    tape.switch(p, 300, (103, 120), (0, 120), 1);
    tape.wakeup(p, 500, 9, (103, 120));
    tape.switch(p, 510, (0, 120), (103, 120), 0);
    tape.releases(c, 600, N);
    tape.takes(b, 620, N);
    tape.releases(b, 700, N);
    tape.releases(b, 800, M);
    tape.exit(b, 900);
    tape.takes(a, 810, M);
    tape.releases(a, 820, M);
    tape.exit(a, 900);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    let chain = |at: usize| {
        let holders = holders(&call.parts[at].cause);
        holders.iter().map(|h| (h.task.tid, h.state.clone())).collect::<Vec<_>>()
    };
    let waits = HolderState::WaitsForLock;
    assert_eq!(chain(1), [(102, waits.clone()), (103, HolderState::Executing)]);
    assert_eq!(chain(2), [(102, waits.clone()), (103, HolderState::Blocked)]);
    let HolderState::WokenLate { behind: Some(_) } = &chain(3)[1].1 else { panic!() };
    assert_eq!(chain(4), [(102, waits), (103, HolderState::Executing)]);
    let n = both.0.locks.iter().position(|lock| lock.address == N).unwrap() as u32;
    assert_eq!(chain(5), [(102, HolderState::HandOver { lock: n })]);
    assert_eq!(chain(6), [(102, HolderState::Executing)]);
    let lengths: Vec<u64> = call.parts.iter().map(|part| part.duration_ns).collect();
    assert_eq!(lengths, [100, 100, 200, 10, 90, 20, 180, 10, 90]);
}

#[test]
fn threads_that_wait_for_each_other_are_not_followed_for_ever() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.takes(a, 50, N);
    tape.takes(b, 60, M);
    tape.waits(b, 80, Class::Mutex, N, 101);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.waits(a, 200, Class::Mutex, M, 102);
    tape.put(a, 900, Kind::Lock(Class::Mutex, Action::Failed), M, 0, 110);
    tape.exit(a, 1000);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    let holders = holders(&call.parts[1].cause);
    assert_eq!(holders.iter().map(|h| h.task.tid).collect::<Vec<_>>(), [102, 101]);
    assert_eq!(holders[1].state, HolderState::NotFollowed);
    assert_eq!(both.0.locks.iter().map(|lock| lock.gave_up).sum::<u64>(), 1);
}

#[test]
fn condition_is_split_at_its_last_signal() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.enter(a, 100, "cuStreamSynchronize", 7, 0);
    tape.takes(a, 200, M);
    tape.condition(a, 300, Action::Waiting, C, M, 0);
    tape.takes(b, 350, M);
    tape.condition(b, 400, Action::Signalled, C, 0, 1);
    tape.condition(b, 600, Action::Signalled, C, 0, 1);
    tape.releases(b, 800, M);
    tape.condition(a, 850, Action::Acquired, C, M, 0);
    tape.releases(a, 900, M);
    tape.exit(a, 1000);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    let expected =
        [("executing", 200), ("signal", 300), ("lock", 200), ("hand-over", 50), ("executing", 150)];
    assert_eq!(story(call), expected);
    let Cause::Signal { family: Family::Condition, .. } = call.parts[1].cause else { panic!() };
    let Cause::Lock { after_signal: true, .. } = call.parts[2].cause else { panic!() };
    let condition = both.0.locks.iter().find(|lock| lock.family == Family::Condition).unwrap();
    assert_eq!((condition.others.wait.max, condition.relock.max), (300, 250));
    assert_eq!(both.0.locks[0].others.hold.count, 3, "before the wait, the signaller's, after it");
}

#[test]
fn condition_that_timed_out_was_not_ended_by_its_signals() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.enter(a, 100, "cuStreamSynchronize", 7, 0);
    tape.takes(a, 200, M);
    tape.condition(a, 300, Action::Waiting, C, M, 0);
    tape.condition(b, 400, Action::Signalled, C, 0, 1);
    tape.condition(a, 850, Action::Acquired, C, M, 110);
    tape.releases(a, 900, M);
    tape.exit(a, 1000);
    let both = tape.explained();
    let expected = [("executing", 200), ("signal", 550), ("executing", 150)];
    assert_eq!(story(find(&both, 101, 100)), expected);
}

#[test]
fn blocked_woken_late_and_preempted_are_told_apart() {
    let mut tape = Tape::new(Tier::Scheduler);
    let a = tape.thread(1, 101);
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    tape.switch(q, 20, (0, 120), (800, 100), 0);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.switch(p, 200, (101, 120), (900, 110), 1);
    tape.wakeup(q, 500, 1, (101, 120));
    tape.switch(p, 600, (900, 110), (101, 120), 1);
    tape.switch(p, 700, (101, 120), (901, 110), 0);
    tape.switch(q, 1000, (800, 100), (101, 120), 1);
    tape.exit(a, 1100);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    let expected = [
        ("executing", 100),
        ("blocked", 300),
        ("woken late", 100),
        ("executing", 100),
        ("preempted", 300),
        ("executing", 100),
    ];
    assert_eq!(story(call), expected);
    let Cause::WokenLate { lock: None, behind: Some(behind) } = &call.parts[2].cause else {
        panic!()
    };
    assert_eq!(behind.tid, 900);
    let Cause::Preempted { by: Some(by) } = &call.parts[4].cause else { panic!() };
    assert_eq!(by.tid, 800, "it ran on, on the processor where 800 had been all the time");
}

#[test]
fn self_recorded_switches_tell_when_but_not_who() {
    let mut tape = Tape::new(Tier::Switches);
    let a = tape.thread(1, 101);
    let p = tape.processor(0);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.put(p, 200, Kind::OffCpu, 101, 1, 0);
    tape.put(p, 300, Kind::OnCpu, 101, 0, 0);
    tape.put(p, 400, Kind::OffCpu, 101, 0, 0);
    tape.put(p, 700, Kind::OnCpu, 101, 0, 0);
    tape.exit(a, 800);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    let expected = [
        ("executing", 100),
        ("preempted", 100),
        ("executing", 100),
        ("blocked", 300),
        ("executing", 100),
    ];
    assert_eq!(story(call), expected);
    assert_eq!(call.parts[1].cause, Cause::Preempted { by: None });
}

fn launches_without_waiting(tier: Tier, count: u64) -> (trace::late::Survey, Vec<Explained>) {
    let mut tape = Tape::new(tier);
    let a = tape.thread(1, 101);
    let p = tape.processor(0);
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    for call in 0..count {
        let begin = 1000 + call * 20;
        tape.call(a, begin, begin + 10, LAUNCH, 1);
    }
    tape.call(a, 900_000, 905_000, LAUNCH, 1);
    tape.explained()
}

#[test]
fn long_launch_is_a_full_queue_only_when_enough_is_outstanding() {
    let both = launches_without_waiting(Tier::Scheduler, 1000);
    let call = find(&both, 101, 900_000);
    assert_eq!(story(call), [("executing", 10), ("queue full", 4990)]);
    assert_eq!(call.parts[1].cause, Cause::QueueFull { outstanding: 1000 });
    let both = launches_without_waiting(Tier::Scheduler, 999);
    assert_eq!(story(find(&both, 101, 900_000)), [("executing", 5000)]);
    let both = launches_without_waiting(Tier::Preload, 1000);
    let call = find(&both, 101, 900_000);
    assert_eq!(story(call), [("executing", 10), ("unexplained", 4990)]);
    assert_eq!(call.parts[1].cause, Cause::Unexplained { reason: Reason::QueueMayBeFull });
}

#[test]
fn launch_that_yields_again_and_again_waits_for_a_full_queue() {
    let mut tape = Tape::new(Tier::Scheduler);
    let a = tape.thread(1, 101);
    let p = tape.processor(0);
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    for call in 0..1000 {
        let begin = 1000 + call * 20;
        tape.call(a, begin, begin + 10, LAUNCH, 1);
    }
    tape.enter(a, 900_000, LAUNCH, 7, 1);
    for turn in 0..16 {
        let begin = 900_100 + turn * 100;
        tape.switch(p, begin, (101, 120), (55, 120), 0);
        tape.switch(p, begin + 50, (55, 120), (101, 120), 0);
    }
    tape.exit(a, 902_000);
    let both = tape.explained();
    assert_eq!(story(find(&both, 101, 900_000)), [("executing", 10), ("queue full", 1990)]);
}

#[test]
fn contended_only_trace_knows_holders_from_the_lock_word_and_from_waiters() {
    let mut tape = Tape::new(Tier::Scheduler);
    tape.metadata.settings.contended_only = true;
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    tape.switch(q, 20, (0, 120), (777, 120), 0);
    // Thread 777, of which nothing is recorded, has the lock; then b, which waited; then a.
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.waits(a, 200, Class::Mutex, M, 777);
    tape.waits(b, 150, Class::Mutex, M, 777);
    tape.switch(p, 210, (101, 120), (0, 120), 1);
    tape.wakeup(q, 500, 777, (102, 120));
    tape.takes(b, 520, M);
    tape.releases(b, 700, M);
    tape.wakeup(q, 710, 102, (101, 120));
    tape.switch(p, 715, (0, 120), (101, 120), 0);
    tape.takes(a, 720, M);
    tape.releases(a, 800, M);
    tape.exit(a, 900);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    assert_eq!(holder_tids(call), [(777, 300), (102, 180)]);
    assert!(holders(&call.parts[1].cause)[0].assumed);
    assert!(!holders(&call.parts[3].cause)[0].assumed);
    for hand_over in [2, 4] {
        let Cause::HandOver { certain: false, .. } = call.parts[hand_over].cause else { panic!() };
    }
    assert_eq!(call.sums.executing_ns, 100 + 180);
}

#[test]
fn owner_of_the_lock_word_ends_when_it_wakes_the_waiter() {
    let mut tape = Tape::new(Tier::Scheduler);
    tape.metadata.settings.contended_only = true;
    let a = tape.thread(1, 101);
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    tape.switch(q, 20, (0, 120), (777, 120), 0);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.waits(a, 200, Class::Mutex, M, 777);
    tape.switch(p, 210, (101, 120), (300, 100), 1);
    tape.wakeup(q, 500, 777, (101, 120));
    tape.switch(p, 650, (300, 100), (101, 120), 1);
    tape.takes(a, 660, M);
    tape.exit(a, 700);
    let both = tape.explained();
    let expected = [
        ("executing", 100),
        ("lock", 300),
        ("woken late", 150),
        ("hand-over", 10),
        ("executing", 40),
    ];
    assert_eq!(story(find(&both, 101, 100)), expected);
}

#[test]
fn readers_are_a_set_and_the_oldest_stands_for_them() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c, d] = [101, 102, 103, 104].map(|tid| tape.thread(1, tid));
    let read = |tape: &mut Tape, thread, from, to| {
        tape.lock(thread, from, Class::Read, Action::Acquired, R);
        tape.lock(thread, to, Class::ReadWrite, Action::Released, R);
    };
    read(&mut tape, b, 50, 400);
    read(&mut tape, c, 60, 600);
    tape.enter(a, 100, COPY, 7, 10);
    tape.waits(a, 200, Class::Write, R, 0);
    // A reader that comes later waits for the writer that waits for the readers.
    tape.enter(d, 250, LAUNCH, 7, 1);
    tape.waits(d, 300, Class::Read, R, 0);
    tape.lock(a, 610, Class::Write, Action::Acquired, R);
    tape.lock(a, 700, Class::ReadWrite, Action::Released, R);
    tape.exit(a, 750);
    tape.lock(d, 720, Class::Read, Action::Acquired, R);
    tape.lock(d, 730, Class::ReadWrite, Action::Released, R);
    tape.exit(d, 800);
    let both = tape.explained();
    let writer = find(&both, 101, 100);
    assert_eq!(holder_tids(writer), [(102, 200), (103, 200)]);
    assert!(holders(&writer.parts[1].cause)[0].read);
    let Cause::Lock { readers: 2, .. } = writer.parts[1].cause else { panic!() };
    let reader = find(&both, 104, 250);
    assert_eq!(holder_tids(reader), [(102, 100), (103, 200), (101, 90)]);
    let lock = &both.0.locks[0];
    assert_eq!((lock.readers.hold.count, lock.others.hold.count), (3, 1));
    assert_eq!((lock.readers.hold.max, lock.others.hold.max), (540, 90));
}

#[test]
fn lost_records_of_a_holder_are_unexplained_only_where_they_are_lost() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    tape.takes(b, 50, M);
    tape.overwritten(b, 4);
    tape.name(b, 5000, "b", 0, 0);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.waits(a, 200, Class::Mutex, M, 0);
    tape.waits(c, 240, Class::Mutex, M, 0);
    tape.takes(c, 500, M);
    tape.releases(c, 800, M);
    tape.takes(a, 810, M);
    tape.releases(a, 900, M);
    tape.exit(a, 1000);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    let expected = [
        ("executing", 100),
        ("unexplained", 300),
        ("lock", 300),
        ("hand-over", 10),
        ("executing", 190),
    ];
    assert_eq!(story(call), expected);
    assert_eq!(call.parts[1].cause, Cause::Unexplained { reason: Reason::Lost });
    assert_eq!((both.0.losses.overwritten, both.0.losses.unknown_holds), (4, 1));
}

#[test]
fn lost_records_of_a_processor_hide_who_ran_only_while_they_are_missing() {
    let mut tape = Tape::new(Tier::Scheduler);
    let a = tape.thread(1, 101);
    let p = tape.processor(0);
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    tape.wakeup(p, 300, 1, (2, 120));
    tape.overwritten(p, 9);
    tape.switch(p, 500, (0, 120), (101, 120), 0);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.exit(a, 800);
    let both = tape.explained();
    let expected = [("executing", 200), ("unexplained", 200), ("executing", 300)];
    assert_eq!(story(find(&both, 101, 100)), expected);
}

#[test]
fn nested_call_is_explained_inside_and_outside() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.takes(b, 50, M);
    tape.releases(b, 600, M);
    tape.enter(a, 100, "cuModuleLoadData", 0, 0);
    tape.enter(a, 200, "cuMemAlloc_v2", 0, 64);
    tape.waits(a, 300, Class::Mutex, M, 102);
    tape.takes(a, 610, M);
    tape.releases(a, 620, M);
    tape.exit(a, 700);
    tape.exit(a, 900);
    let both = tape.explained();
    let (outer, inner) = (find(&both, 101, 100), find(&both, 101, 200));
    assert_eq!(holder_tids(outer), [(102, 300)]);
    assert_eq!(holder_tids(inner), [(102, 300)]);
    let depth = |call: &Explained| both.0.worst[call.worst as usize].depth;
    assert_eq!((depth(outer), depth(inner)), (0, 1));
    let kind = |name: &str| both.0.kinds.iter().find(|kind| kind.function == name).unwrap();
    assert_eq!(kind("cuModuleLoadData").locks_per_call.max, 1, "what is inside counts");
    assert_eq!(kind("cuModuleLoadData").lock_wait.max, 310);
}

#[test]
fn same_address_in_a_forked_process_is_another_lock() {
    let mut tape = Tape::new(Tier::Preload);
    let (parent, child) = (tape.thread(1, 101), tape.thread(2, 201));
    tape.takes(parent, 50, M);
    tape.releases(parent, 900, M);
    tape.enter(child, 100, LAUNCH, 7, 1);
    tape.waits(child, 200, Class::Mutex, M, 0);
    tape.takes(child, 300, M);
    tape.releases(child, 310, M);
    tape.exit(child, 400);
    let both = tape.explained();
    assert_eq!(both.0.locks.len(), 2);
    assert!(holder_tids(find(&both, 201, 100)).is_empty());
}

#[test]
fn lock_made_anew_at_an_address_has_no_holder_from_before() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.lock(b, 10, Class::Mutex, Action::Created, M);
    tape.takes(b, 20, M);
    tape.lock(b, 30, Class::Mutex, Action::Destroyed, M);
    tape.lock(b, 40, Class::Mutex, Action::Created, M);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.waits(a, 200, Class::Mutex, M, 0);
    tape.takes(a, 300, M);
    tape.releases(a, 310, M);
    tape.exit(a, 400);
    let both = tape.explained();
    assert!(holder_tids(find(&both, 101, 100)).is_empty());
    let generations: Vec<u32> = both.0.locks.iter().map(|lock| lock.generation).collect();
    assert_eq!(generations, [1, 0]);
}

#[test]
fn parts_beyond_the_limit_are_added_up_and_nothing_is_lost() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.enter(a, 100, "cuStreamSynchronize", 7, 0);
    for turn in 0..50 {
        let begin = 1000 + turn * 100;
        tape.takes(b, begin, M);
        tape.waits(a, begin + 10, Class::Mutex, M, 102);
        tape.releases(b, begin + 50, M);
        tape.takes(a, begin + 60, M);
        tape.releases(a, begin + 70, M);
    }
    tape.exit(a, 9000);
    let options = Options { parts: 20, ..Options::default() };
    let both = tape.explained_with(&options);
    let call = find(&both, 101, 100);
    let timed = call.parts.iter().filter(|part| part.from_ns.is_some()).count();
    assert!((20..=24).contains(&timed), "{timed}");
    let lock: u64 = holder_tids(call).iter().map(|(_, ns)| ns).sum();
    assert_eq!((lock, call.sums.lock_ns, call.sums.hand_over_ns), (2000, 2000, 500));
    let summed = call.parts.iter().find(|part| part.times > 1).unwrap();
    assert_eq!(summed.from_ns, None);
}

#[test]
fn window_begins_in_the_middle_of_a_trace_where_snapshots_are_rare() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.enter(b, 20, COPY, 7, 1 << 22);
    tape.takes(b, 30, M);
    for block in 0..40 {
        for step in 0..10 {
            let time = 1000 + block * 1000 + step * 50;
            tape.takes(b, time, N);
            tape.releases(b, time + 20, N);
        }
        tape.cut(b);
        tape.usual(a, 1000 + block * 1000, 10, LAUNCH, 1);
        tape.cut(a);
    }
    tape.enter(a, 60_000, LAUNCH, 7, 1);
    tape.waits(a, 60_100, Class::Mutex, M, 0);
    tape.cut(a);
    tape.releases(b, 70_000, M);
    tape.exit(b, 70_100);
    tape.takes(a, 70_010, M);
    tape.exit(a, 70_020);
    for snapshots in [1, 7, 1 << 16] {
        let options = Options { snapshots, ..Options::default() };
        let both = tape.explained_with(&options);
        let call = find(&both, 101, 60_000);
        assert_eq!(holder_tids(call), [(102, 9900)], "{snapshots} snapshots");
        let kind = holders(&call.parts[2].cause)[0].call.unwrap();
        assert_eq!(both.0.kinds[kind as usize].function, "cuMemcpyHtoDAsync");
    }
}

#[test]
fn ticks_that_are_no_nanoseconds_still_add_up() {
    let mut tape = Tape::new(Tier::Preload);
    tape.metadata.clock.end = (late_tape::END, 7_000_000 + late_tape::END * 3 / 7);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.enter(a, 100, LAUNCH, 7, 1);
    for turn in 0..30 {
        let begin = 1000 + turn * 101;
        tape.takes(b, begin, M);
        tape.waits(a, begin + 10, Class::Mutex, M, 102);
        tape.releases(b, begin + 51, M);
        tape.takes(a, begin + 60, M);
        tape.releases(a, begin + 70, M);
    }
    tape.exit(a, 9001);
    let (survey, explained) = tape.explained();
    assert_eq!(survey.worst[0].duration_ns, (8901.0f64 * 3.0 / 7.0).round() as u64);
    assert_eq!(explained[0].duration_ticks, 8901);
    assert!(parts(&explained[0]).len() > 60);
}
