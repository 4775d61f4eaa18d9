//! The tables of the first pass.

mod tape;

use late::result::{CallKind, Lock, Losses, OpenHolder};
use late::{Direction, Family, Group, Survey};
use record::{Action, Class, Kind};
use tape::{END, Tape, surveyed};
use trace::metadata::{Kernel, Module, Tier};

const M: u64 = 0x1000;
const N: u64 = 0x2000;
const R: u64 = 0x3000;
const LAUNCH: &str = "cuLaunchKernel";

fn kind<'s>(survey: &'s Survey, function: &str) -> &'s CallKind {
    survey.kinds.iter().find(|kind| kind.function == function).unwrap()
}

fn lock(survey: &Survey, address: u64) -> &Lock {
    survey.locks.iter().find(|lock| lock.address == address).unwrap()
}

#[test]
fn calls_are_gathered_by_function_size_and_direction() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.call(a, 10, 20, "cuLaunchKernel", 1);
    tape.call(a, 30, 50, "cuLaunchKernel_ptsz", 1);
    tape.call(a, 60, 70, "cuMemcpyHtoD_v2", 4096);
    tape.call(a, 80, 95, "cuMemcpyHtoD_v2", 65536);
    tape.call(a, 100, 140, "cuMemcpyDtoHAsync_v2", 100);
    tape.put(a, 150, Kind::Enter, 7, 0, 0);
    tape.put(a, 160, Kind::Exit, 0, 0, 700);
    let survey = surveyed(&tape);
    let launch = kind(&survey, "cuLaunchKernel");
    assert_eq!((launch.count, launch.failed, launch.group), (3, 1, Group::Launch));
    assert_eq!((launch.duration.min, launch.duration.max, launch.duration.total), (10, 20, 40));
    let copies = survey.kinds.iter().filter(|kind| kind.function == "cuMemcpyHtoD");
    let classes: Vec<_> = copies.clone().map(|kind| kind.bytes_class.unwrap()).collect();
    assert_eq!(classes, [(0, 4096), (4097, 65536)]);
    assert!(copies.clone().all(|kind| kind.direction == Direction::HostToDevice));
    assert_eq!(copies.map(|kind| kind.bytes).sum::<u64>(), 4096 + 65536);
    let launches = survey.launches;
    assert_eq!((launches.direct, launches.copies, launches.copied_bytes), (2, 3, 69732));
}

#[test]
fn graphs_count_what_is_in_them_and_captured_launches_do_not_count() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.enter(a, 10, LAUNCH, 7, 1);
    tape.put(a, 20, Kind::Exit, 0, 1, 0);
    tape.put(a, 30, Kind::Graph, 0xe0, 2 << 32 | 3, 60);
    for at in [40, 60] {
        tape.call(a, at, at + 10, "cuGraphLaunch", 0xe0);
    }
    tape.call(a, 80, 90, "cuGraphLaunch", 0xbad);
    let launches = surveyed(&tape).launches;
    assert_eq!((launches.direct, launches.captured, launches.graphs), (0, 1, 3));
    assert_eq!((launches.kernels_in_graphs, launches.copies_in_graphs), (120, 4));
    assert_eq!((launches.memsets_in_graphs, launches.unknown_graphs), (6, 1));
}

#[test]
fn waits_and_holds_are_kept_apart_and_for_readers_and_writers_too() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.lock(a, 100, Class::Read, Action::Acquired, R);
    tape.lock(a, 400, Class::ReadWrite, Action::Released, R);
    tape.enter(b, 150, "cuMemcpyHtoDAsync_v2", 7, 1 << 20);
    tape.waits(b, 200, Class::Write, R, 0);
    tape.lock(b, 450, Class::Write, Action::Acquired, R);
    tape.lock(b, 1450, Class::ReadWrite, Action::Released, R);
    tape.exit(b, 1500);
    let survey = surveyed(&tape);
    let lock = lock(&survey, R);
    assert_eq!((lock.name.as_str(), lock.family), ("R1", Family::ReadWrite));
    assert_eq!((lock.readers.wait.count, lock.readers.hold.max), (0, 300));
    assert_eq!((lock.others.wait.max, lock.others.hold.max), (250, 1000));
    let hold = lock.others.longest_hold.as_ref().unwrap();
    assert_eq!((hold.at_ns, hold.duration_ns, hold.thread), (450, 1000, 1));
    assert_eq!(survey.kinds[hold.kind.unwrap() as usize].function, "cuMemcpyHtoDAsync");
    assert_eq!(lock.readers.longest_hold.as_ref().unwrap().kind, None);
    assert_eq!(lock.longest_blocking.as_ref().unwrap().duration_ns, 300);
    assert_eq!(lock.attributes.as_ref().unwrap().kind, "prefers readers");
}

#[test]
fn threads_that_wait_for_one_another_are_a_circle() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    tape.takes(a, 100, M);
    tape.takes(b, 200, N);
    tape.waits(a, 300, Class::Mutex, N, 102);
    tape.enter(b, 350, LAUNCH, 7, 1);
    tape.waits(b, 400, Class::Mutex, M, 101);
    // Waits for one that is in the circle, and is in none.
    tape.waits(c, 500, Class::Mutex, M, 101);
    let survey = surveyed(&tape);
    assert_eq!(survey.circles, [vec![0, 1]]);
    let [first, second, third] = &survey.open_waits[..] else { panic!("{survey:?}") };
    assert_eq!((first.thread, first.at_ns, first.until_end_ns), (0, 300, END - 300));
    assert_eq!((first.circle, second.circle, third.circle), (Some(0), Some(0), None));
    let holder = OpenHolder { tid: 102, thread: Some(1), since_ns: Some(200), waits: Some(1) };
    assert_eq!(first.holders, [holder]);
    assert_eq!((second.kind, third.kind), (Some(0), None));
    assert_eq!(third.holders[0].waits, Some(0));
    assert_eq!(survey.locks[second.lock as usize].address, M);
}

#[test]
fn owner_that_the_waiter_found_has_the_lock_where_holds_are_not_recorded() {
    let mut tape = Tape::new(Tier::Preload);
    tape.metadata.settings.contended_only = true;
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    // Waits for itself.
    tape.waits(a, 300, Class::Mutex, M, 101);
    tape.waits(b, 400, Class::Mutex, N, 777);
    let survey = surveyed(&tape);
    assert_eq!(survey.circles, [vec![0]]);
    let unknown = OpenHolder { tid: 777, thread: None, since_ns: None, waits: None };
    assert_eq!(survey.open_waits[1].holders, [unknown]);
}

#[test]
fn writer_that_waits_for_a_reader_of_its_circle_is_found() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b, c] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    tape.lock(a, 100, Class::Read, Action::Acquired, R);
    tape.lock(b, 110, Class::Read, Action::Acquired, R);
    tape.takes(c, 120, M);
    tape.waits(c, 200, Class::Write, R, 0);
    tape.waits(b, 300, Class::Mutex, M, 103);
    let survey = surveyed(&tape);
    assert_eq!(survey.circles, [vec![0, 1]]);
    let writer = &survey.open_waits[1];
    assert_eq!((writer.thread, writer.read, writer.holders.len()), (2, false, 2));
}

#[test]
fn wait_whose_end_is_missing_has_not_to_be_open() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.waits(a, 300, Class::Mutex, M, 0);
    tape.lost(a, 3, 400, 500);
    tape.waits(b, 300, Class::Mutex, M, 0);
    tape.takes(b, 400, M);
    let survey = surveyed(&tape);
    assert_eq!((survey.open_waits.len(), survey.losses.unknown_waits), (0, 1));
}

#[test]
fn waits_that_ended_by_their_time_limit_are_waits() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.takes(a, 100, M);
    tape.waits(b, 200, Class::Mutex, M, 101);
    tape.put(b, 1200, Kind::Lock(Class::Mutex, Action::Failed), M, 0, 110);
    // An attempt that did not wait.
    tape.put(b, 1300, Kind::Lock(Class::Mutex, Action::Failed), M, 0, 16);
    tape.releases(a, 5000, M);
    let survey = surveyed(&tape);
    let lock = lock(&survey, M);
    assert_eq!((lock.gave_up, lock.timed_out, lock.busy), (1, 1, 1));
    assert_eq!((lock.in_vain.count, lock.in_vain.max, lock.others.wait.count), (1, 1000, 0));
    let longest = lock.longest_in_vain.as_ref().unwrap();
    assert_eq!((longest.thread, longest.at_ns, longest.owner_tid), (1, 200, 101));
}

#[test]
fn recursive_hold_lasts_from_the_first_acquisition_to_the_last_release() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    for time in [100, 200] {
        tape.put(a, time, Kind::Lock(Class::Mutex, Action::Acquired), M, 0, 1 | 32 | 128);
    }
    tape.releases(a, 300, M);
    tape.releases(a, 700, M);
    let survey = surveyed(&tape);
    let lock = lock(&survey, M);
    assert_eq!((lock.others.acquisitions, lock.others.hold.count), (2, 1));
    assert_eq!(lock.others.hold.max, 600);
    let attributes = lock.attributes.as_ref().unwrap();
    assert_eq!(attributes.kind, "recursive");
    assert!(attributes.inherit && attributes.shared && !attributes.robust);
}

#[test]
fn locks_are_numbered_by_first_use_in_a_launch_then_by_use() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    let use_lock = |tape: &mut Tape, time, lock| {
        tape.takes(a, time, lock);
        tape.releases(a, time + 1, lock);
    };
    for time in 0..9 {
        use_lock(&mut tape, 10 + time * 2, 0x10);
    }
    use_lock(&mut tape, 40, 0x20);
    tape.enter(a, 50, LAUNCH, 7, 1);
    use_lock(&mut tape, 52, 0x40);
    use_lock(&mut tape, 54, 0x30);
    tape.exit(a, 60);
    let survey = surveyed(&tape);
    let names: Vec<(&str, u64)> =
        survey.locks.iter().map(|lock| (lock.name.as_str(), lock.address)).collect();
    assert_eq!(names, [("M1", 0x40), ("M2", 0x30), ("M3", 0x10), ("M4", 0x20)]);
    let in_launches: Vec<bool> = survey.locks.iter().map(|lock| lock.in_launches).collect();
    assert_eq!(in_launches, [true, true, false, false]);
}

#[test]
fn pattern_of_a_kind_of_call_is_its_steps_with_their_nesting() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    for call in 0..10 {
        let begin = 1000 + call * 100;
        tape.enter(a, begin, LAUNCH, 7, 1);
        tape.lock(a, begin + 5, Class::Read, Action::Acquired, R);
        tape.takes(a, begin + 10, M);
        tape.releases(a, begin + 20, M);
        if call == 0 {
            tape.takes(a, begin + 22, N);
            tape.releases(a, begin + 24, N);
        }
        tape.lock(a, begin + 30, Class::ReadWrite, Action::Released, R);
        tape.exit(a, begin + 40);
    }
    let survey = surveyed(&tape);
    let launch = kind(&survey, "cuLaunchKernel");
    assert_eq!((launch.patterns.calls, launch.patterns.distinct), (10, 2));
    let most = &launch.patterns.most_frequent[0];
    assert_eq!(most.count, 9);
    let steps: Vec<_> = most
        .steps
        .iter()
        .map(|s| {
            (survey.locks[s.lock.unwrap() as usize].name.as_str(), s.read, s.acquired, s.depth)
        })
        .collect();
    let expected = [
        ("R1", true, true, 1),
        ("M1", false, true, 2),
        ("M1", false, false, 1),
        ("R1", true, false, 0),
    ];
    assert_eq!(steps, expected);
    assert_eq!(most.steps.iter().map(|s| s.median_ns).collect::<Vec<_>>(), [5, 10, 20, 30]);
    assert_eq!((launch.locks_per_call.p50, launch.locks_per_call.max), (2, 3));
    assert_eq!(lock(&survey, M).kinds, [(Some(0), 10)]);
}

#[test]
fn what_reaches_into_a_gap_is_unknown_and_nothing_else() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.call(a, 10, 20, LAUNCH, 1);
    tape.takes(a, 30, M);
    tape.enter(a, 40, LAUNCH, 7, 1);
    tape.waits(a, 50, Class::Mutex, N, 0);
    tape.overwritten(a, 7);
    tape.exit(a, 500);
    tape.releases(a, 510, M);
    tape.call(a, 520, 530, LAUNCH, 1);
    tape.call(b, 60, 400, LAUNCH, 1);
    let survey = surveyed(&tape);
    let losses = Losses {
        overwritten: 7,
        unknown_calls: 1,
        unknown_waits: 1,
        unknown_holds: 1,
        unmatched_exits: 1,
        unmatched_releases: 1,
        ..Losses::default()
    };
    assert_eq!(survey.losses, losses);
    let launch = kind(&survey, "cuLaunchKernel");
    assert_eq!((launch.count, launch.unknown, launch.duration.max), (3, 1, 340));
    assert_eq!(lock(&survey, M).others.hold.count, 0);
    assert_eq!((lock(&survey, M).unknown_holds, lock(&survey, N).unknown_waits), (1, 1));
    assert_eq!(survey.threads[0].unknown_ns, [(50, 500)]);
    assert!(survey.threads[1].unknown_ns.is_empty());
}

#[test]
fn block_with_a_torn_record_is_unknown_as_a_whole_but_nothing_around_it() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.call(a, 10, 20, LAUNCH, 1);
    tape.enter(a, 30, LAUNCH, 7, 1);
    tape.cut(a);
    tape.takes(a, 40, M);
    tape.releases(a, 45, M);
    tape.exit(a, 50);
    tape.call(a, 60, 70, LAUNCH, 1);
    tape.enter(a, 80, LAUNCH, 7, 1);
    tape.torn(a);
    tape.cut(a);
    tape.call(a, 100, 140, LAUNCH, 1);
    let survey = surveyed(&tape);
    let launch = kind(&survey, "cuLaunchKernel");
    assert_eq!((launch.count, launch.duration.max), (2, 40));
    assert_eq!((survey.losses.torn, survey.losses.unknown_calls), (1, 3));
    assert_eq!(lock(&survey, M).others.hold.count, 0);
}

#[test]
fn call_that_never_returned_is_named() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.call(a, 10, 20, LAUNCH, 1);
    tape.enter(a, 1000, "cuCtxSynchronize", 0, 0);
    let survey = surveyed(&tape);
    assert_eq!(survey.unfinished.len(), 1);
    let open = &survey.unfinished[0];
    assert_eq!(survey.kinds[open.kind as usize].function, "cuCtxSynchronize");
    assert_eq!((open.at_ns, open.until_end_ns), (1000, tape::END - 1000));
    assert_eq!(survey.losses, Losses::default());
}

#[test]
fn latest_and_longest_calls_are_chosen_in_each_group() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.usual(a, 1000, 20, LAUNCH, 1);
    tape.usual(a, 5000, 2000, "cuLaunchCooperativeKernel", 1);
    tape.call(a, 100_000, 101_000, LAUNCH, 1);
    tape.call(a, 200_000, 202_010, "cuLaunchCooperativeKernel", 1);
    tape.call(a, 300_000, 309_000, "cuStreamSynchronize", 0);
    let trace = tape.trace();
    let options = late::Options { worst: 1, ..Default::default() };
    let survey = late::survey(&trace, &options, &mut |_, _| true).unwrap();
    let worst: Vec<_> = survey
        .worst
        .iter()
        .map(|call| (call.at_ns, call.rank_by_lateness, call.rank_by_duration))
        .collect();
    let expected =
        [(100_000, Some(0), None), (200_000, None, Some(0)), (300_000, Some(0), Some(0))];
    assert_eq!(worst, expected);
    assert_eq!((survey.worst[0].usual_ns, survey.worst[0].lateness_ns), (20, 980));
}

#[test]
fn sequence_between_waits_is_found_with_what_a_graph_would_save() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.metadata.kernels.push(Kernel { process: 1, handle: 2, name: "gemm".into() });
    let mut time = 1000;
    for _ in 0..10 {
        for (symbol, detail) in [(LAUNCH, 1), (LAUNCH, 2), ("cuMemcpyHtoDAsync_v2", 512)] {
            tape.enter(a, time, symbol, 7, detail);
            tape.takes(a, time + 1, M);
            tape.releases(a, time + 2, M);
            tape.exit(a, time + 5_000);
            time += 6_000;
        }
        tape.call(a, time, time + 50, "cuStreamSynchronize", 0);
        time += 100;
    }
    let survey = surveyed(&tape);
    assert_eq!(survey.sequences.len(), 1);
    let sequence = &survey.sequences[0];
    assert_eq!((sequence.length, sequence.repeats, sequence.launching_ns), (3, 10, 15_000));
    assert_eq!((sequence.locks, sequence.estimated_saving_ns), (3.0, 11_000));
    assert_eq!(sequence.kernels, [None, Some("gemm".into()), None]);
}

#[test]
fn short_lived_locks_nobody_waited_for_take_no_room() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    for round in 0..1000 {
        let time = 1000 + round * 100;
        tape.lock(a, time, Class::Mutex, Action::Created, M + round % 3 * 64);
        tape.takes(a, time + 10, M + round % 3 * 64);
        if round == 500 {
            tape.waits(b, time + 15, Class::Mutex, M + round % 3 * 64, 101);
        }
        tape.releases(a, time + 20, M + round % 3 * 64);
        if round == 500 {
            tape.takes(b, time + 30, M + round % 3 * 64);
            tape.releases(b, time + 40, M + round % 3 * 64);
        }
        tape.lock(a, time + 90, Class::Mutex, Action::Destroyed, M + round % 3 * 64);
    }
    let survey = surveyed(&tape);
    assert_eq!((survey.forgotten.locks, survey.forgotten.acquisitions), (999, 999));
    assert_eq!(survey.locks.len(), 1);
    assert_eq!(survey.locks[0].others.contended, 1);
    assert_eq!((survey.locks[0].others.wait.max, survey.locks[0].others.hold.max), (15, 10));
}

#[test]
fn callers_are_named_by_module_and_offset() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.metadata.modules.push(Module {
        process: 1,
        start: 0x7000,
        end: 0x9000,
        file: "/lib/libcuda.so.1".into(),
    });
    for (time, caller) in [(10, 0x7123), (20, 0x7123), (30, 0x9000)] {
        tape.put(a, time, Kind::Lock(Class::Mutex, Action::Acquired), M, caller, 0);
        tape.releases(a, time + 5, M);
    }
    let survey = surveyed(&tape);
    let callers = &survey.locks[0].callers;
    let short: Vec<_> = callers.iter().map(|c| (c.module.as_deref(), c.offset, c.count)).collect();
    assert_eq!(short, [(Some("/lib/libcuda.so.1"), 0x123, 2), (None, 0x9000, 1)]);
}

#[test]
fn thread_id_that_is_used_again_is_another_thread() {
    let mut tape = Tape::new(Tier::Preload);
    let (first, second) = (tape.thread(1, 101), tape.thread(1, 101));
    tape.name(first, 10, "first", 1, 50);
    tape.call(first, 20, 30, LAUNCH, 1);
    tape.name(second, 100, "second", 0, 5);
    tape.call(second, 110, 150, LAUNCH, 1);
    let survey = surveyed(&tape);
    let threads: Vec<_> =
        survey.threads.iter().map(|t| (t.name.as_str(), t.priority, t.in_calls_ns)).collect();
    assert_eq!(threads, [("first", Some(49), 10), ("second", Some(125), 40)]);
}

#[test]
fn records_of_a_block_are_put_in_the_order_of_time_across_threads_and_blocks() {
    // Two threads pass one mutex back and forth over many blocks: any record out of order would
    // make a hold overlap another one, and so a wait too long.
    let mut tape = Tape::new(Tier::Preload);
    let threads = [101, 102, 103].map(|tid| tape.thread(1, tid));
    for turn in 0..600u64 {
        let (own, time) = (threads[turn as usize % 3], 1000 + turn * 100);
        tape.waits(own, time, Class::Mutex, M, 0);
        tape.takes(own, time + 40, M);
        tape.releases(own, time + 95, M);
        if turn % 7 == 0 {
            tape.cut(own);
        }
    }
    let survey = surveyed(&tape);
    let lock = lock(&survey, M);
    assert_eq!((lock.others.wait.min, lock.others.wait.max), (40, 40));
    assert_eq!((lock.others.hold.min, lock.others.hold.max), (55, 55));
    assert_eq!((lock.queue.max, lock.got_meanwhile.max, lock.overtaken.count), (1, 0, 0));
    assert_eq!(survey.records, 1800);
}

#[test]
fn survey_is_data_that_can_be_written() {
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.call(a, 10, 20, LAUNCH, 1);
    let (survey, explained) = tape.explained();
    let json = serde_json::to_value(&survey).unwrap();
    assert_eq!(json["kinds"][0]["function"], "cuLaunchKernel");
    assert_eq!(json["kinds"][0]["group"], "launch");
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(json[0]["parts"][0]["cause"]["cause"], "executing");
}

#[test]
fn record_with_an_earlier_time_after_a_later_one_is_moved_up() {
    // A signal handler took its time before, and its place after, what it interrupted.
    let mut tape = Tape::new(Tier::Preload);
    let a = tape.thread(1, 101);
    tape.enter(a, 100, LAUNCH, 7, 1);
    tape.takes(a, 200, M);
    tape.releases(a, 150, M);
    tape.exit(a, 300);
    tape.cut(a);
    tape.call(a, 290, 310, LAUNCH, 1);
    let survey = surveyed(&tape);
    assert_eq!(lock(&survey, M).others.hold.max, 0);
    let launch = kind(&survey, "cuLaunchKernel");
    assert_eq!((launch.duration.min, launch.duration.max), (10, 200));
}

#[test]
fn destroyed_lock_that_is_used_again_is_a_new_one_even_if_nobody_created_it() {
    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.takes(a, 100, M);
    tape.waits(b, 110, Class::Mutex, M, 101);
    tape.releases(a, 120, M);
    tape.takes(b, 130, M);
    tape.releases(b, 140, M);
    tape.lock(a, 150, Class::Mutex, Action::Destroyed, M);
    tape.takes(a, 200, M);
    tape.releases(a, 210, M);
    let survey = surveyed(&tape);
    let mut uses: Vec<_> = survey
        .locks
        .iter()
        .map(|lock| (lock.generation, lock.others.acquisitions, lock.destroyed_at_ns))
        .collect();
    uses.sort_unstable();
    assert_eq!(uses, [(0, 2, Some(150)), (1, 1, None)]);
}
