//! Verdicts: a small program for each, and its opposite where nothing is wrong.

mod tape;

use late::{Evidence, Options, Remedy, Verdict, verdicts};
use record::{Action, Class, Kind};
use tape::{Tape, check_verdicts};
use trace::metadata::Tier;

const M: u64 = 0x1000;
const R: u64 = 0x3000;
const LAUNCH: &str = "cuLaunchKernel";
const COPY: &str = "cuMemcpyHtoDAsync_v2";

fn judge(tape: &Tape) -> Vec<Verdict> {
    let (survey, explained) = tape.explained();
    let verdicts = verdicts(&survey, &explained, &Options::default(), |_| true);
    check_verdicts(&survey, &verdicts, |_| true);
    verdicts
}

fn only(verdicts: &[Verdict]) -> &Verdict {
    assert_eq!(verdicts.len(), 1, "{verdicts:#?}");
    &verdicts[0]
}

/// Threads that pass a mutex round in order, each holding it for `hold`.
fn round(threads: u64, hold: u64, turns: u64, attributes: u32) -> Tape {
    let mut tape = Tape::new(Tier::Preload);
    let streams: Vec<_> = (0..threads).map(|at| tape.thread(1, 101 + at as u32)).collect();
    for turn in 0..turns {
        let stream = streams[(turn % threads) as usize];
        let got = 10_000 + turn * (hold + 10);
        // It has waited since shortly after it had it last.
        let since = got - (threads - 1) * (hold + 10) + 1;
        tape.enter(stream, since, LAUNCH, 7, 1);
        tape.waits(stream, since, Class::Mutex, M, 0);
        tape.put(stream, got, Kind::Lock(Class::Mutex, Action::Acquired), M, 0, attributes);
        tape.releases(stream, got + hold, M);
        tape.exit(stream, got + hold);
    }
    tape
}

#[test]
fn mutex_that_is_passed_round_is_a_convoy() {
    let tape = round(6, 100, 60, 0);
    let verdicts = judge(&tape);
    let verdict = only(&verdicts);
    let Evidence::LockConvoy { waits, queue_p50, queue_max, wait_p50_ns, hold_max_ns, .. } =
        verdict.evidence
    else {
        panic!("{verdict:?}")
    };
    assert_eq!((waits, queue_p50, queue_max, hold_max_ns), (60, 5, 5, 100));
    assert!((540..570).contains(&wait_p50_ns), "{wait_p50_ns}");
    assert_eq!(verdict.lock, Some(0));
    assert_eq!(verdict.remedies, [Remedy::FewerThreads, Remedy::CudaGraph]);
    assert!(judge(&round(2, 100, 60, 0)).is_empty(), "two threads are no convoy");
    let mut slow = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| slow.thread(1, tid));
    for begin in (10_000..100_000).step_by(1500) {
        slow.takes(b, begin, M);
        slow.waits(a, begin + 1, Class::Mutex, M, 102);
        slow.releases(b, begin + 10, M);
        slow.takes(a, begin + 1000, M);
        slow.releases(a, begin + 1010, M);
    }
    assert!(judge(&slow).is_empty(), "one that is woken late is no convoy");
    let inheriting = judge(&round(6, 100, 60, 32));
    assert!(only(&inheriting).remedies.contains(&Remedy::FairMutex));
}

#[test]
fn readers_that_see_writers_pass_are_starved() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    tape.lock(b, 50, Class::Write, Action::Acquired, R);
    tape.waits(a, 100, Class::Read, R, 102);
    tape.waits(c, 110, Class::Write, R, 102);
    tape.lock(b, 200, Class::ReadWrite, Action::Released, R);
    tape.lock(c, 210, Class::Write, Action::Acquired, R);
    tape.waits(b, 220, Class::Write, R, 103);
    tape.lock(c, 300, Class::ReadWrite, Action::Released, R);
    tape.lock(b, 310, Class::Write, Action::Acquired, R);
    tape.lock(b, 400, Class::ReadWrite, Action::Released, R);
    tape.lock(a, 410, Class::Read, Action::Acquired, R);
    tape.lock(a, 420, Class::ReadWrite, Action::Released, R);
    let verdicts = judge(&tape);
    let verdict = only(&verdicts);
    let mut once = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| once.thread(1, tid));
    once.lock(b, 50, Class::Write, Action::Acquired, R);
    once.waits(a, 100, Class::Read, R, 102);
    once.waits(c, 110, Class::Write, R, 102);
    once.lock(b, 200, Class::ReadWrite, Action::Released, R);
    once.lock(c, 210, Class::Write, Action::Acquired, R);
    once.lock(c, 300, Class::ReadWrite, Action::Released, R);
    once.lock(a, 310, Class::Read, Action::Acquired, R);
    assert!(judge(&once).is_empty(), "one writer in between is a turn");
    let expected =
        Evidence::ReaderStarvation { times: 1, most_writers: 2, waits: 1, wait_max_ns: 310 };
    assert_eq!(verdict.evidence, expected);
    let worst = verdict.worst.as_ref().unwrap();
    assert_eq!((worst.at_ns, worst.duration_ns, worst.thread), (100, 310, 0));
    assert_eq!(verdict.remedies, [Remedy::PhaseFairRwLock]);
}

#[test]
fn longest_starved_wait_is_not_a_longer_one_behind_a_single_writer() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    let write = |tape: &mut Tape, stream, from, to| {
        tape.lock(stream, from, Class::Write, Action::Acquired, R);
        tape.lock(stream, to, Class::ReadWrite, Action::Released, R);
    };
    let read = |tape: &mut Tape, since, got| {
        tape.waits(a, since, Class::Read, R, 102);
        tape.lock(a, got, Class::Read, Action::Acquired, R);
        tape.lock(a, got + 1, Class::ReadWrite, Action::Released, R);
    };
    write(&mut tape, b, 50, 200);
    write(&mut tape, c, 210, 300);
    write(&mut tape, b, 310, 400);
    write(&mut tape, b, 1_000, 9_000);
    read(&mut tape, 100, 410);
    read(&mut tape, 1_100, 9_010);
    let verdicts = judge(&tape);
    let expected =
        Evidence::ReaderStarvation { times: 1, most_writers: 2, waits: 2, wait_max_ns: 310 };
    assert_eq!((&only(&verdicts).evidence, verdicts[0].severity_ns), (&expected, 310));
}

#[test]
fn writer_that_sees_readers_come_and_pass_is_starved() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    let read = |tape: &mut Tape, stream, from, to| {
        tape.lock(stream, from, Class::Read, Action::Acquired, R);
        tape.lock(stream, to, Class::ReadWrite, Action::Released, R);
    };
    read(&mut tape, b, 50, 300);
    tape.waits(a, 100, Class::Write, R, 0);
    read(&mut tape, c, 200, 500);
    read(&mut tape, b, 400, 700);
    read(&mut tape, c, 600, 800);
    tape.lock(a, 810, Class::Write, Action::Acquired, R);
    tape.lock(a, 820, Class::ReadWrite, Action::Released, R);
    let verdicts = judge(&tape);
    let expected =
        Evidence::WriterStarvation { times: 1, most_readers: 3, waits: 1, wait_max_ns: 710 };
    assert_eq!(only(&verdicts).evidence, expected);
}

#[test]
fn readers_that_waited_as_well_do_not_starve_a_writer() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c, d] = [101, 102, 103, 104].map(|tid| tape.thread(1, tid));
    tape.lock(d, 50, Class::Write, Action::Acquired, R);
    tape.waits(b, 60, Class::Read, R, 104);
    tape.waits(c, 70, Class::Read, R, 104);
    tape.waits(a, 100, Class::Write, R, 104);
    tape.lock(d, 200, Class::ReadWrite, Action::Released, R);
    for reader in [b, c] {
        tape.lock(reader, 210, Class::Read, Action::Acquired, R);
        tape.lock(reader, 300, Class::ReadWrite, Action::Released, R);
    }
    tape.lock(a, 310, Class::Write, Action::Acquired, R);
    tape.lock(a, 320, Class::ReadWrite, Action::Released, R);
    assert!(judge(&tape).is_empty());
}

#[test]
fn mutex_that_its_owner_takes_again_before_those_who_wait_is_unfair() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.takes(b, 50, M);
    tape.waits(a, 100, Class::Mutex, M, 102);
    for turn in 0..5 {
        tape.releases(b, 200 + turn * 100, M);
        tape.takes(b, 210 + turn * 100, M);
    }
    tape.releases(b, 800, M);
    tape.takes(a, 820, M);
    tape.releases(a, 830, M);
    let verdicts = judge(&tape);
    let verdict = only(&verdicts);
    let Evidence::UnfairHandOver { overtaken, most_overtaken, reacquired, barged, .. } =
        verdict.evidence
    else {
        panic!("{verdict:?}")
    };
    assert_eq!((overtaken, most_overtaken, reacquired, barged), (1, 5, 5, 5));
    assert_eq!(verdict.severity_ns, 720);
    assert_eq!(verdict.remedies, [Remedy::FairMutex, Remedy::InheritanceMutex]);
}

/// A launch of a thread with one priority waits for another one, in place of which a third runs.
fn held_up(waiter: u16, holder: u16, third: u16, class: Class) -> Tape {
    let mut tape = Tape::new(Tier::Scheduler);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.switch(p, 10, (0, 120), (102, holder), 0);
    tape.switch(q, 20, (0, 120), (101, waiter), 0);
    tape.lock(b, 100, class, Action::Acquired, M);
    tape.enter(a, 200, LAUNCH, 7, 1);
    tape.waits(a, 300, class, M, 102);
    tape.switch(q, 320, (101, waiter), (0, 120), 1);
    tape.switch(p, 400, (102, holder), (900, third), 0);
    tape.switch(p, 900, (900, third), (102, holder), 1);
    let released = if class == Class::Mutex { class } else { Class::ReadWrite };
    tape.lock(b, 1000, released, Action::Released, M);
    tape.wakeup(p, 1005, 102, (101, waiter));
    tape.switch(q, 1010, (0, 120), (101, waiter), 0);
    tape.lock(a, 1015, class, Action::Acquired, M);
    tape.lock(a, 1016, released, Action::Released, M);
    tape.exit(a, 1020);
    tape
}

#[test]
fn urgent_thread_behind_a_preempted_one_suffers_priority_inversion() {
    let verdicts = judge(&held_up(49, 139, 120, Class::Mutex));
    let verdict = only(&verdicts);
    let Evidence::PriorityInversion { waiter, holder, by } = &verdict.evidence else {
        panic!("{verdict:?}")
    };
    assert_eq!((&verdict.lost.calls[..], verdict.lost.looked_at), (&[(0, 500)][..], 1));
    assert_eq!((waiter.tid, waiter.priority), (101, Some(49)));
    assert_eq!((holder.tid, holder.priority), (102, Some(139)));
    assert_eq!(by.as_ref().map(|by| (by.tid, by.priority)), Some((900, Some(120))));
    assert_eq!(verdict.remedies, [Remedy::InheritanceMutex, Remedy::HigherPriority]);
    assert_eq!(verdict.worst.as_ref().unwrap().explained, Some(0));
    let verdicts = judge(&held_up(49, 139, 120, Class::Write));
    assert_eq!(only(&verdicts).remedies, [Remedy::PhaseFairRwLock, Remedy::HigherPriority]);
}

#[test]
fn preempted_holder_is_no_inversion_among_equals_or_behind_a_more_urgent_thread() {
    for (waiter, holder, third) in
        [(120, 120, 120), (60, 120, 50), (130, 120, 110), (120, 110, 130)]
    {
        let verdicts = judge(&held_up(waiter, holder, third, Class::Mutex));
        let Evidence::PreemptedHolder { .. } = only(&verdicts).evidence else {
            panic!("{verdicts:?}")
        };
        assert_eq!(verdicts[0].lost.total_ns(), 500);
    }
}

#[test]
fn more_runnable_threads_than_processors_are_oversubscription() {
    let tape = |threads: u32| {
        let mut tape = Tape::new(Tier::Scheduler);
        tape.metadata.machine.processors = 1;
        let a = tape.thread(1, 101);
        let p = tape.processor(0);
        tape.switch(p, 10, (0, 120), (101, 120), 0);
        tape.enter(a, 50, LAUNCH, 7, 1);
        for other in 1..threads {
            tape.wakeup(p, 100, 1, (500 + other, 120));
        }
        if threads > 1 {
            tape.switch(p, 200, (101, 120), (501, 120), 0);
            tape.switch(p, 900, (501, 120), (101, 120), 1);
        }
        tape.exit(a, 1000);
        tape.switch(p, 1010, (101, 120), (0, 120), 1);
        tape
    };
    let verdicts = judge(&tape(3));
    let verdict = only(&verdicts);
    let expected = Evidence::Oversubscription {
        percent: 91,
        over_ns: 910,
        observed_ns: 1000,
        most: 3,
        processors: 1,
        waited_ns: 700,
    };
    assert_eq!((&verdict.evidence, verdict.severity_ns), (&expected, 700));
    assert!(judge(&tape(1)).is_empty());
}

#[test]
fn copy_that_holds_a_lock_for_long_is_a_long_critical_section() {
    let tape = |hold: u64| {
        let mut tape = Tape::new(Tier::Preload);
        let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
        tape.enter(b, 50, COPY, 7, 4 << 20);
        tape.takes(b, 100, M);
        tape.enter(a, 200, LAUNCH, 7, 1);
        tape.waits(a, 300, Class::Mutex, M, 102);
        tape.releases(b, 100 + hold, M);
        tape.exit(b, 200 + hold);
        tape.takes(a, 110 + hold, M);
        tape.releases(a, 120 + hold, M);
        tape.exit(a, 130 + hold);
        tape
    };
    let verdicts = judge(&tape(350_000));
    let verdict = only(&verdicts);
    let Evidence::LongCriticalSection { hold_ns: 350_000, waiting: 1, kind: Some(_), .. } =
        verdict.evidence
    else {
        panic!("{verdict:?}")
    };
    assert_eq!(verdict.remedies, [Remedy::PinnedMemory, Remedy::SmallerCopies]);
    assert!(judge(&tape(90_000)).is_empty());
    let mut unfair = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| unfair.thread(1, tid));
    unfair.takes(b, 100, M);
    unfair.waits(a, 300, Class::Mutex, M, 102);
    for turn in 1..5 {
        unfair.releases(b, turn * 200_000, M);
        unfair.takes(b, turn * 200_000 + 100, M);
    }
    unfair.releases(b, 1_000_000, M);
    unfair.takes(a, 1_000_100, M);
    let verdicts = judge(&unfair);
    let Evidence::UnfairHandOver { .. } = only(&verdicts).evidence else {
        panic!("{verdicts:?}: no hold is the most of the wait")
    };
}

#[test]
fn full_queue_is_a_verdict_and_says_whether_the_calls_executed() {
    for tier in [Tier::Scheduler, Tier::Preload] {
        let mut tape = Tape::new(tier);
        let a = tape.thread(1, 101);
        let p = tape.processor(0);
        tape.switch(p, 10, (0, 120), (101, 120), 0);
        for call in 0..1000 {
            tape.call(a, 1000 + call * 20, 1010 + call * 20, LAUNCH, call);
        }
        tape.call(a, 900_000, 905_000, LAUNCH, 1);
        let verdicts = judge(&tape);
        let verdict = only(&verdicts);
        let Evidence::DeviceQueueFull { executing, .. } = verdict.evidence else {
            panic!("{verdict:?}")
        };
        assert_eq!(executing, tier == Tier::Scheduler);
        assert_eq!((verdict.lost.calls.len(), verdict.lost.total_ns()), (1, 4990));
    }
}

#[test]
fn launch_that_blocks_outside_of_locks_is_named() {
    let mut tape = Tape::new(Tier::Scheduler);
    let a = tape.thread(1, 101);
    let p = tape.processor(0);
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.switch(p, 200, (101, 120), (0, 120), 2);
    tape.switch(p, 200_200, (0, 120), (101, 120), 0);
    tape.exit(a, 200_300);
    let verdicts = judge(&tape);
    assert_eq!(only(&verdicts).evidence, Evidence::BlockedElsewhere {});
    assert_eq!(verdicts[0].lost.total_ns(), 200_000);
}

#[test]
fn repeated_launches_ask_for_a_graph() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    for round in 0..10 {
        for call in 0..60 {
            let begin = 1000 + round * 1_000_000 + call * 10_000;
            tape.call(a, begin, begin + 5_000, LAUNCH, call);
        }
        let wait = 800_000 + round * 1_000_000;
        tape.call(a, wait, wait + 1_000, "cuStreamSynchronize", 0);
    }
    let verdicts = judge(&tape);
    let verdict = only(&verdicts);
    let Evidence::RepeatedLaunches { length: 60, repeats: 10, launching_ns: 300_000, .. } =
        verdict.evidence
    else {
        panic!("{verdict:?}")
    };
    assert_eq!((verdict.severity_ns, &verdict.remedies[..]), (296_000, &[Remedy::CudaGraph][..]));
}
