//! Waits for the GPU, taken apart by the work that ran there.

mod tape;

use late::{Cause, Explained, GpuState};
use tape::{Tape, find, story};
use trace::metadata::{Text, Tier};

const SYNC: &str = "cuCtxSynchronize";
const US: u64 = 1000;
/// Usual duration of kernel 1; the greatest value of its bucket, so that a quantile is exact.
const USUAL: u64 = 100_351;

/// A process whose threads 101 and 102 are never off their processors, and its GPU, on which
/// kernel 1 takes [`USUAL`].
fn tape() -> (Tape, [tape::Stream; 2]) {
    let mut tape = Tape::new(Tier::Scheduler);
    let a = tape.thread(1, 101);
    let gpu = tape.gpu(1);
    for number in [1, 2] {
        let text = format!("kernel-{number}");
        tape.metadata.texts.push(Text { process: 1, number, text });
    }
    let p = tape.processor(0);
    tape.switch(p, 10, (0, 120), (101, 120), 0);
    for time in 0..20 {
        let begin = 10_000 * US + time * 1000 * US;
        tape.kernel(gpu, begin, begin + USUAL, 1);
    }
    (tape, [a, gpu])
}

fn late_sync(mut tape: Tape, a: tape::Stream, from: u64, to: u64) -> (late::Survey, Explained) {
    tape.call(a, from, to, SYNC, 0);
    let both = tape.explained();
    let call = find(&both, 101, from).clone();
    (both.0, call)
}

#[test]
fn wait_is_split_by_own_work_and_the_time_in_which_the_gpu_was_not_given() {
    let (mut tape, [a, gpu]) = tape();
    let start = 50_000 * US;
    // Ends in the call; is much longer than usual; comes at last, after a gap; is not waited for.
    tape.kernel(gpu, start - 50 * US, start + 50 * US, 1);
    tape.kernel(gpu, start + 52 * US, start + 1052 * US, 1);
    tape.kernel(gpu, start + 2000 * US, start + 2100 * US, 1);
    tape.kernel(gpu, start + 2100 * US, start + 9000 * US, 2);
    let (survey, call) = late_sync(tape, a, start, start + 2103 * US);
    let expected = [
        ("gpu works", 50 * US),
        ("gpu between", 2 * US),
        ("gpu works", USUAL),
        ("gpu is slow", 1000 * US - USUAL),
        ("gpu not given", 948 * US),
        ("gpu works", 100 * US),
        ("gpu over", 3 * US),
    ];
    assert_eq!(story(&call), expected);
    let Cause::Gpu { state: GpuState::LongerThanUsual, work: Some(work) } = call.parts[3].cause
    else {
        panic!("{:?}", call.parts[3])
    };
    let work = &survey.gpu.as_ref().unwrap().works[work as usize];
    assert_eq!((work.name.as_deref(), work.usual_ns), (Some("kernel-1"), USUAL));
    assert_eq!((call.sums.gpu_ns, call.sums.gpu_beyond_ns), (2103 * US, 1948 * US - USUAL));
}

#[test]
fn end_of_work_that_was_told_late_is_lost_time() {
    let (mut tape, [a, gpu]) = tape();
    let start = 50_000 * US;
    tape.kernel(gpu, start, start + 100 * US, 1);
    let (_, call) = late_sync(tape, a, start, start + 350 * US);
    assert_eq!(story(&call), [("gpu works", 100 * US), ("gpu told late", 250 * US)]);
    assert_eq!(call.sums.gpu_beyond_ns, 250 * US);
}

#[test]
fn work_of_two_streams_that_overlaps_is_told_once() {
    let (mut tape, [a, gpu]) = tape();
    let start = 50_000 * US;
    tape.kernel(gpu, start, start + 100 * US, 1);
    tape.kernel(gpu, start + 50 * US, start + 150 * US, 1);
    let (_, call) = late_sync(tape, a, start, start + 150 * US);
    assert_eq!(story(&call), [("gpu works", 150 * US)]);
}

#[test]
fn kernel_that_began_long_before_the_call_is_found_in_an_earlier_block() {
    let (mut tape, [a, gpu]) = tape();
    let start = 60_000 * US;
    tape.kernel(gpu, start - 20_000 * US, start + 500 * US, 2);
    tape.cut(gpu);
    tape.kernel(gpu, start + 500 * US, start + 600 * US, 1);
    let (_, call) = late_sync(tape, a, start, start + 600 * US);
    assert_eq!(story(&call), [("gpu works", 500 * US), ("gpu works", 100 * US)]);
}

#[test]
fn wait_without_work_of_its_own_is_no_wait_for_the_gpu() {
    let (tape, [a, _]) = tape();
    let start = 50_000 * US;
    let (_, call) = late_sync(tape, a, start, start + 1000 * US);
    assert_eq!(story(&call), [("executing", 1000 * US)]);
}

#[test]
fn wait_for_a_gpu_that_was_not_recorded_says_so() {
    let (mut tape, [a, _]) = tape();
    tape.metadata.settings.gpu = false;
    let start = 50_000 * US;
    let (_, call) = late_sync(tape, a, start, start + 1000 * US);
    assert_eq!(story(&call), [("gpu", 1000 * US)]);
    assert_eq!(call.parts[0].cause, Cause::Gpu { state: GpuState::NotRecorded, work: None });
}

#[test]
fn lock_inside_of_a_wait_stays_what_it_is() {
    let (mut tape, [a, gpu]) = tape();
    let start = 50_000 * US;
    tape.kernel(gpu, start, start + 1000 * US, 2);
    tape.enter(a, start, SYNC, 0, 0);
    tape.waits(a, start + 100 * US, record::Class::Mutex, 0x1000, 102);
    tape.takes(a, start + 300 * US, 0x1000);
    tape.exit(a, start + 1000 * US);
    let both = tape.explained();
    let expected = [("gpu works", 100 * US), ("lock", 200 * US), ("gpu works", 700 * US)];
    assert_eq!(story(find(&both, 101, start)), expected);
}
