//! Calls taken apart: one small program for each thing that a call can spend its time with.

mod tape;

use late::{Cause, Explained, Family, HolderState, Reason};
use record::{Action, Class, Kind};
use tape::{Tape, find, holder_tids, holders, story};
use trace::metadata::Tier;

const M: u64 = 0x1000;
const N: u64 = 0x2000;
const R: u64 = 0x3000;
const C: u64 = 0x4000;
const LAUNCH: &str = "cuLaunchKernel";
const COPY: &str = "cuMemcpyHtoDAsync_v2";

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
fn condition_that_was_forgotten_may_have_timed_out_in_a_late_call() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.enter(a, 1000, LAUNCH, 7, 1);
    // Its wait began before this trace did, so that the table of locks kept nothing of it.
    tape.condition(a, 1400, Action::Acquired, C, M, 110);
    tape.lock(a, 1500, Class::Condition, Action::Destroyed, C);
    tape.exit(a, 2000);
    tape.usual(a, 100_000, 60, LAUNCH, 1);
    let both = tape.explained();
    assert_eq!(story(find(&both, 101, 1000)), [("executing", 60), ("unexplained", 940)]);
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
    let expected = [("gpu", 200), ("signal", 300), ("lock", 200), ("hand-over", 50), ("gpu", 150)];
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
    let expected = [("gpu", 200), ("signal", 550), ("gpu", 150)];
    assert_eq!(story(find(&both, 101, 100)), expected);
    let condition = both.0.locks.iter().find(|lock| lock.family == Family::Condition).unwrap();
    assert_eq!((condition.others.wait.max, condition.relock.max), (550, 0));
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

fn launches_without_waiting(tier: Tier, count: u64) -> (late::Survey, Vec<Explained>) {
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
fn once_control_is_run_by_one_thread_and_waited_for_by_the_other() {
    let mut tape = Tape::new(Tier::Scheduler);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    tape.switch(q, 20, (0, 120), (102, 120), 0);
    for (thread, begin) in [(a, 100), (b, 110)] {
        tape.enter(thread, begin, LAUNCH, 7, 1);
        tape.lock(thread, begin + 50, Class::Once, Action::Waiting, C);
    }
    tape.waits(a, 200, Class::Mutex, M, 777);
    tape.takes(a, 300, M);
    tape.releases(a, 400, M);
    tape.switch(q, 170, (102, 120), (0, 120), 1);
    tape.wakeup(p, 500, 101, (102, 120));
    tape.switch(q, 520, (0, 120), (102, 120), 0);
    for (thread, end) in [(a, 510), (b, 530)] {
        tape.lock(thread, end, Class::Once, Action::Acquired, C);
        tape.exit(thread, end + 10);
    }
    let both = tape.explained();
    let expected = [("executing", 100), ("lock", 100), ("executing", 220)];
    assert_eq!(story(find(&both, 101, 100)), expected);
    let expected = [("executing", 60), ("signal", 330), ("woken late", 20), ("executing", 20)];
    assert_eq!(story(find(&both, 102, 110)), expected);
    let once = both.0.locks.iter().find(|lock| lock.family == Family::Once).unwrap();
    assert_eq!((once.name.as_str(), once.others.wait.count, once.others.wait.max), ("O1", 2, 370));
    assert_eq!(both.0.losses.unknown_waits, 0);
}

#[test]
fn preemption_is_split_by_who_runs_on_the_processor() {
    let mut tape = Tape::new(Tier::Scheduler);
    let a = tape.thread(1, 101);
    let p = tape.processor(0);
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.switch(p, 200, (101, 120), (900, 110), 0);
    tape.switch(p, 500, (900, 110), (901, 110), 1);
    tape.switch(p, 600, (901, 110), (101, 120), 1);
    tape.exit(a, 700);
    let both = tape.explained();
    let call = find(&both, 101, 100);
    let by = |part: usize| match &call.parts[part].cause {
        Cause::Preempted { by: Some(by) } => (by.tid, call.parts[part].duration_ns),
        other => panic!("{other:?}"),
    };
    assert_eq!((call.parts.len(), by(1), by(2)), (4, (900, 300), (901, 100)));
}

#[test]
fn recursive_holder_is_in_the_way_until_its_last_release() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.takes(b, 110, M);
    tape.takes(b, 120, M);
    tape.waits(a, 200, Class::Mutex, M, 102);
    tape.releases(b, 300, M);
    tape.releases(b, 700, M);
    tape.takes(a, 710, M);
    tape.releases(a, 720, M);
    tape.exit(a, 800);
    let both = tape.explained();
    assert_eq!(holder_tids(find(&both, 101, 100)), [(102, 500)]);
}
