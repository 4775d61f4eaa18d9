//! Calls taken apart where not everything is known: records that are lost, traces of contended
//! locks only, addresses that mean several locks, and limits of memory.

mod tape;

use late::{Cause, HolderState, Options, Reason};
use record::{Action, Class};
use tape::{Tape, find, holder_tids, holders, story};
use trace::metadata::Tier;

const M: u64 = 0x1000;
const N: u64 = 0x2000;
const LAUNCH: &str = "cuLaunchKernel";
const COPY: &str = "cuMemcpyHtoDAsync_v2";

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
    // The call of b never returns, so no window begins where it does.
    tape.releases(b, 70_000, M);
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
fn who_waits_since_long_before_the_window_still_waits() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    tape.lock(b, 10, Class::Read, Action::Acquired, M);
    tape.waits(c, 20, Class::Write, M, 0);
    tape.cut(b);
    tape.cut(c);
    tape.enter(a, 60_000, LAUNCH, 7, 1);
    tape.waits(a, 60_100, Class::Read, M, 0);
    tape.lock(b, 70_000, Class::ReadWrite, Action::Released, M);
    tape.lock(c, 70_010, Class::Write, Action::Acquired, M);
    tape.lock(c, 70_500, Class::ReadWrite, Action::Released, M);
    tape.lock(a, 70_510, Class::Read, Action::Acquired, M);
    tape.exit(a, 70_600);
    let both = tape.explained();
    assert_eq!(holder_tids(find(&both, 101, 60_000)), [(102, 9900), (103, 490)]);
}

#[test]
fn scheduler_is_not_taken_back_to_before_the_checkpoint() {
    let mut tape = Tape::new(Tier::Scheduler);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.switch(p, 10, (0, 120), (102, 120), 0);
    tape.takes(b, 50, M);
    tape.switch(p, 100, (102, 120), (900, 110), 0);
    tape.switch(q, 150, (0, 120), (102, 120), 0);
    // The block of q begins where a checkpoint is; that of p began long before.
    tape.cut(q);
    tape.wakeup(q, 200, 1, (5, 120));
    tape.enter(a, 250, LAUNCH, 7, 1);
    tape.waits(a, 300, Class::Mutex, M, 102);
    tape.releases(b, 1000, M);
    tape.takes(a, 1010, M);
    tape.exit(a, 1100);
    tape.switch(p, 5000, (900, 110), (0, 120), 1);
    let both = tape.explained();
    let call = find(&both, 101, 250);
    assert_eq!(holder_tids(call), [(102, 700)]);
    assert_eq!(holders(&call.parts[1].cause)[0].state, HolderState::Executing);
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
fn ticks_that_are_no_nanoseconds_still_add_up() {
    let mut tape = Tape::new(Tier::Preload);
    tape.metadata.clock.end = (tape::END, 7_000_000 + tape::END * 3 / 7);
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
    assert!(explained[0].parts.len() > 60);
}
