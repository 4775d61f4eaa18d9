//! Threads: very many, very small, interrupted by signals in the middle of a record; and a memory
//! that is too small for what they do.

mod support;

use record::{Action, Class, Kind};
use std::path::Path;
use std::sync::OnceLock;
use support::{Ended, Mode, Subject, Trace, program, shared_folder};

const NAME: &str = "threads";

fn subject(arguments: &[&str]) -> Subject {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
    let path: &Path = PROGRAM.get_or_init(|| program(shared_folder(), "threads.c"));
    Subject::new(path).args(arguments)
}

/// A number that the program told of itself.
fn told(ended: &Ended, word: &str) -> usize {
    let line = ended.err.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no line with {word}: {}", ended.err)).parse().expect("a number")
}

fn count(trace: &Trace, kind: Kind) -> usize {
    trace.all().filter(|record| record.kind == kind).count()
}

fn total(trace: &Trace) -> u64 {
    trace.all().count() as u64
}

/// The records of a lock that is free each time, with those of making a spinlock and a semaphore.
const MADE: u64 = 2;

#[test]
fn every_record_of_very_many_threads_is_there() {
    let subject = subject(&["many", "2000", "3"]);
    let [full, contended, default] = Mode::all();
    // Room for the chunks of 60 threads.
    let (_, [full, _, _]) = subject.compare([full.bytes(60 << 16), contended, default]);
    full.assert_whole();
    assert_eq!(full.count(Class::Mutex, Action::Acquired), 6000);
    assert_eq!(full.count(Class::Mutex, Action::Released), 6000);
    // The threads, and the main one.
    assert_eq!(count(&full, Kind::Thread), 2001);
    assert!(full.records.values().all(|records| records[0].kind == Kind::Thread));
}

#[test]
fn what_full_memory_has_no_room_for_is_counted_exactly() {
    let chunks = 4 << 16;
    let mode = Mode::only(NAME).bytes(chunks);
    let (ended, trace) = subject(&["one", "20000"]).recorded(&mode);
    ended.success();
    assert_eq!(total(&trace), 4 * 2045);
    assert_eq!(total(&trace) + trace.lost, 1 + MADE + 2 * 20_000);
    assert_eq!((trace.torn, trace.overwritten), (0, 0));
    let main = trace.records.values().next().expect("the main thread");
    assert_eq!(main[0].kind, Kind::Thread, "the first ones are kept");

    // Most of these threads get no chunk of their own. Who waited recorded that, too.
    let (ended, trace) = subject(&["many", "80", "5"]).recorded(&mode);
    ended.success();
    let least = 1 + MADE + 80 * (1 + 2 * 5);
    assert!((least..least + 400).contains(&(total(&trace) + trace.lost)), "{}", trace.lost);
    // Later ones write to what ended ones have left.
    assert!(trace.records.len() > 4, "{} threads", trace.records.len());
}

#[test]
fn counts_of_full_memory_can_be_while_signal_handlers_record() {
    let subject = subject(&["signals", "3000"]);
    let mode = Mode::full().bytes(8 << 16);
    for mode in [mode.clone(), mode.keep_last()] {
        let (ended, trace) = subject.recorded(&mode);
        ended.success();
        let [locked, handled, caught] =
            ["locked", "handled", "caught"].map(|word| told(&ended, word) as u64);
        // A handler that catches the spinlock lets it go again.
        let known = 2 * locked + 2 * handled + caught;
        let counted = total(&trace) + trace.lost + trace.overwritten + u64::from(trace.torn);
        // Besides: who waits records that, too, and each thread who it is.
        let most = known + locked + 1000;
        assert!((known..most).contains(&counted), "{counted} of {known} to {most}");
        assert!(trace.lost + trace.overwritten > 0, "the memory is not full");
        assert_eq!(trace.cursors, trace.records.len(), "one thread is several");
    }
}

#[test]
fn what_gave_way_to_later_records_is_counted_exactly() {
    let mode = Mode::only(NAME).bytes(4 << 16).keep_last();
    let (ended, trace) = subject(&["one", "50000"]).recorded(&mode);
    ended.success();
    let expected = 1 + MADE + 2 * 50_000;
    assert_eq!(total(&trace) + trace.overwritten, expected);
    assert_eq!((trace.lost, trace.torn), (0, 0));
    assert!(total(&trace) > 3 * 2000);
    let main = trace.records.values().next().expect("the main thread");
    assert!(main.is_sorted_by_key(|record| record.time));
    let released = Kind::Lock(Class::Mutex, Action::Released);
    assert_eq!(main.last().expect("the last one").kind, released);
    subject(&["one", "50000"]).compare([mode]);
    // With many threads chunks of the dead stay open here, since nobody closes them.
    subject(&["many", "100", "500"]).compare([Mode::full().bytes(4 << 16).keep_last()]);
}

#[test]
fn destructors_of_threads_may_lock() {
    let subject = subject(&["destructors"]);
    let (_, [full, ..]) = subject.compare(Mode::all());
    full.assert_whole();
    assert_eq!(full.count(Class::Mutex, Action::Acquired), 50 * 5 * 10);
}

#[test]
fn threads_with_the_smallest_stack_wait_for_locks() {
    let subject = subject(&["small-stacks"]);
    let (_, [full, contended, _]) = subject.compare(Mode::all());
    full.assert_whole();
    assert_eq!(full.count(Class::Mutex, Action::Acquired), 2 * 12 * 200);
    assert_eq!(full.count(Class::Condition, Action::Acquired), 12 * 10);
    assert!(contended.count(Class::Mutex, Action::Waiting) > 0);
}

#[test]
fn signal_handlers_record_in_the_middle_of_a_record() {
    let subject = subject(&["signals", "3000"]);
    let mode = Mode::full().bytes(128 << 20);
    let (_, _) = subject.compare([Mode::contended(), Mode::default_filter()]);
    let (ended, trace) = subject.recorded(&mode);
    ended.success();
    trace.assert_whole();
    assert!(told(&ended, "interrupted") >= 1000, "{}", ended.err);
    let handled = told(&ended, "handled");
    assert_eq!(trace.count(Class::Mutex, Action::Acquired), told(&ended, "locked"));
    assert_eq!(trace.count(Class::Mutex, Action::Released), told(&ended, "locked"));
    assert_eq!(trace.count(Class::Semaphore, Action::Signalled), handled);
    let caught = told(&ended, "caught");
    assert_eq!(trace.count(Class::Spin, Action::Acquired), caught);
    assert_eq!(trace.count(Class::Spin, Action::Released), caught);
    assert_eq!(trace.count(Class::Spin, Action::Failed), handled - caught);
}

#[test]
fn signal_handlers_on_small_stacks_have_room_for_the_hooks() {
    // Bound at once, since the dynamic linker needs a lot of stack itself.
    let subject = subject(&["alternate-stacks"]).env("LD_BIND_NOW", "1");
    let bare = told(&subject.bare(), "stack");
    for mode in Mode::all() {
        let (ended, trace) = subject.recorded(&mode);
        ended.success();
        let more = told(&ended, "stack") - bare;
        assert!(more < 1024, "{}: {more} bytes more", mode.name);
        let expected = if mode.name == Mode::full().name { 20 } else { 0 };
        assert_eq!(trace.count(Class::Spin, Action::Acquired), expected);
    }
}
