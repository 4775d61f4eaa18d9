//! The ring and the completion protocol under the loom model checker, with mutants that must
//! fail. Run with `RUSTFLAGS="--cfg loom" cargo test -p keeptime-shm --release --test loom`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use shm::fault::range::{Found, Range};
use shm::log::{Cursor, Entry, Gate, Keep, Log, Process, Writer};
use shm::mutant::Mutant;
use shm::{Completion, CompletionCell, Consumer, Producer, Rights, Ring};

/// Four messages through a ring of two, so that slots are used again.
fn ring_model() {
    loom::model(|| {
        let ring = Arc::new(Ring::new());
        let sender = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut producer = Producer::default();
                for i in 0..3u64 {
                    while !producer.push(&ring, &[i; 8]).unwrap() {
                        thread::yield_now();
                    }
                }
            })
        };
        let mut consumer = Consumer::default();
        for i in 0..3u64 {
            let message = loop {
                match consumer.pop(&ring).unwrap() {
                    Some(message) => break message,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(message, [i; 8]);
        }
        sender.join().unwrap();
        assert_eq!(consumer.pop(&ring).unwrap(), None);
    });
}

/// A client that sleeps while a server completes: it wakes, and sees the whole outcome.
fn wait_model() {
    loom::model(|| {
        let cell = Arc::new(CompletionCell::new());
        cell.arm();
        let rights = Rights::new(1);
        let opening = rights.open(0).unwrap();
        let server = {
            let cell = cell.clone();
            thread::spawn(move || {
                let outcome = Completion { status: 1, launch_id: 7, ..Completion::default() };
                cell.complete(rights.take(opening).unwrap(), &outcome);
            })
        };
        let outcome = cell.wait(None).unwrap();
        assert_eq!((outcome.status, outcome.launch_id), (1, 7));
        server.join().unwrap();
    });
}

/// The device's event and a cancellation race for the same request: one of them completes it.
fn completion_model() {
    loom::model(|| {
        let cell = Arc::new(CompletionCell::new());
        cell.arm();
        let rights = Arc::new(Rights::new(1));
        let opening = rights.open(0).unwrap();
        let completions = Arc::new(AtomicU32::new(0));
        let finish = move |status: u32| {
            let (cell, rights, count) = (cell.clone(), rights.clone(), completions.clone());
            move || {
                if let Some(right) = rights.take(opening) {
                    cell.complete(right, &Completion { status, ..Completion::default() });
                    count.fetch_add(1, Ordering::Relaxed);
                }
                (cell, count)
            }
        };
        let device = thread::spawn(finish(1));
        let (cell, count) = finish(2)();
        device.join().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 1, "completed not exactly once");
        assert!(cell.poll().is_some());
    });
}

fn entry(value: u64) -> Entry {
    // A slot that was never written is no such entry.
    Entry { words: [value; 3], number: value as u32 + 100, kind: 1 }
}

fn writer(thread: u32) -> Writer {
    Writer { process: 1, thread }
}

/// All entries of a chunk, each of which must be whole.
fn entries_of(log: &Log, number: u32) -> Vec<u64> {
    let found = log.entries_now(number);
    for found in &found {
        assert_eq!(*found, entry(found.words[0]), "an entry is torn");
    }
    found.iter().map(|found| found.words[0]).collect()
}

/// All entries of a log.
fn entries(log: &Log) -> Vec<u64> {
    let mut values: Vec<u64> = log.numbers().flat_map(|number| entries_of(log, number)).collect();
    values.sort_unstable();
    values
}

/// Entries of a chunk with one mark.
const FULL: u64 = shm::log::CAPACITY as u64 - 1;

/// A thread appends while its signal handler does: a second thread on the same cursor, which may
/// do all that a handler may and more.
fn handler_model() {
    loom::model(|| {
        let log = Arc::new(Log::new(3, Keep::First));
        let cursor = Arc::new(Cursor::default());
        for value in 1..=FULL {
            assert!(log.append(&cursor, writer(7), value, &entry(value)));
        }
        let handler = {
            let (log, cursor) = (log.clone(), cursor.clone());
            thread::spawn(move || log.append(&cursor, writer(7), 2, &entry(FULL + 1)))
        };
        let appended = log.append(&cursor, writer(7), 3, &entry(FULL + 2));
        assert!(handler.join().unwrap() && appended);
        // Both in one segment, whoever came first.
        let segments = log.numbers().filter(|number| !entries_of(&log, *number).is_empty());
        let found = (entries(&log), segments.count());
        let expected = (Vec::from_iter(1..=FULL + 2), 2);
        assert_eq!(found, expected, "an entry is missing, or has a chunk of its own");
    });
}

/// A reader copies a chunk while its writer begins it, or takes it for the second time.
fn reader_model() {
    for next in [1, 2 * FULL + 1] {
        loom::model(move || {
            let log = Arc::new(Log::new(2, Keep::Last));
            let cursor = Cursor::default();
            for value in 1..next {
                assert!(log.append(&cursor, writer(7), value, &entry(value)));
            }
            let reader = {
                let log = log.clone();
                thread::spawn(move || entries_of(&log, log.numbers().next().unwrap()))
            };
            assert!(log.append(&cursor, writer(7), next, &entry(next)));
            let seen = reader.join().unwrap();
            let old: Vec<u64> = (1..next.min(FULL + 1)).collect();
            assert!(seen == old || seen == [next] || seen.is_empty(), "{seen:?}");
        });
    }
}

fn gate() -> Gate {
    let word = || &*Box::leak(Box::new(AtomicU32::new(0)));
    Gate { inside: word(), shut: word() }
}

/// A thread adopts the chunk of a dead one, while somebody closes it as a dead one's, and takes it.
fn adoption_model() {
    loom::model(|| {
        let gate = gate();
        let process = Process { space: || 1, is_dead: |thread| thread == 7, gate };
        let log = Arc::new(Log::new(1, Keep::Last).of_process(process));
        assert!(log.append(&Cursor::default(), writer(7), 1, &entry(1)));
        let adopter = {
            let log = log.clone();
            thread::spawn(move || log.append(&Cursor::default(), writer(8), 2, &entry(2)))
        };
        log.close_dead(|writer| writer.thread == 7);
        let second = log.append(&Cursor::default(), writer(9), 3, &entry(3));
        let first = adopter.join().unwrap();
        let found = entries(&log);
        assert_eq!(first, found.contains(&2), "two threads have one chunk: {found:?}");
        assert_eq!(second, found.contains(&3), "two threads have one chunk: {found:?}");
    });
}

/// An appender looks for a chunk while somebody unmaps what is not used.
fn gate_model() {
    loom::model(|| {
        let gate = gate();
        let unmapped = Arc::new(AtomicU32::new(0));
        let appender = {
            let unmapped = unmapped.clone();
            thread::spawn(move || {
                if gate.enter() {
                    assert_eq!(unmapped.load(Ordering::Relaxed), 0, "memory is gone");
                    gate.leave();
                }
            })
        };
        assert!(gate.try_shut());
        if gate.is_empty() {
            unmapped.store(1, Ordering::Relaxed);
            unmapped.store(0, Ordering::Relaxed);
        }
        gate.open();
        appender.join().unwrap();
    });
}

/// Two threads want the only chunk: one has it, the other counts what it loses.
fn full_model() {
    loom::model(|| {
        let log = Arc::new(Log::new(1, Keep::Last));
        let other = {
            let log = log.clone();
            thread::spawn(move || log.append(&Cursor::default(), writer(8), 2, &entry(2)))
        };
        let appended = u64::from(log.append(&Cursor::default(), writer(7), 1, &entry(1)))
            + u64::from(other.join().unwrap());
        let lost = log.lost_without_chunk().count;
        assert_eq!((appended, lost), (1, 1), "two threads have one chunk");
        assert_eq!(entries(&log).len(), 1);
    });
}

/// A handler looks an address up while the range of another mapping changes. The address lies in
/// neither of its ranges, but between the bounds of the two.
fn range_model() {
    loom::model(|| {
        let [before, after] =
            [(10, 20), (30, 40)].map(|(begin, end)| Found { begin, end, bell: 1 });
        let range = Arc::new(Range::none());
        range.set(before);
        let owner = {
            let range = range.clone();
            thread::spawn(move || range.set(after))
        };
        assert_eq!(range.find(25), None, "a torn range");
        owner.join().unwrap();
        assert_eq!(range.find(35), Some(after));
        assert_eq!(range.find(15), None);
    });
}

#[test]
fn changing_range_is_found_whole_or_not_at_all() {
    range_model();
}

#[test]
fn signal_handlers_lose_no_entries() {
    handler_model();
}

#[test]
fn reader_sees_whole_entries_beside_a_writer() {
    reader_model();
}

#[test]
fn nobody_looks_for_a_chunk_in_memory_that_is_gone() {
    gate_model();
}

#[test]
fn adopted_chunk_has_one_writer() {
    adoption_model();
}

#[test]
fn open_chunk_is_not_given_away() {
    full_model();
}

#[test]
fn ring_delivers_every_message_once_and_whole() {
    ring_model();
}

#[test]
fn sleeping_client_is_always_woken() {
    wait_model();
}

#[test]
fn racing_completions_complete_once() {
    completion_model();
}

const MUTANTS: [(Mutant, fn(), &str); 11] = [
    (Mutant::TailPublishedRelaxed, ring_model, "Causality violation"),
    (Mutant::HeadPublishedRelaxed, ring_model, "Causality violation"),
    (Mutant::WaiterOverwritesState, wait_model, "deadlock"),
    (Mutant::NoWake, wait_model, "deadlock"),
    (Mutant::RightTakenTwice, completion_model, "completed not exactly once"),
    (Mutant::SlotTakenInTwoSteps, handler_model, "an entry is missing"),
    (Mutant::TagBeforeWords, reader_model, "an entry is torn"),
    (Mutant::OpenChunkGivenAgain, full_model, "two threads have one chunk"),
    (Mutant::RangeReadTorn, range_model, "a torn range"),
    (Mutant::CursorMovedBlindly, handler_model, "an entry is missing"),
    (Mutant::LookedBeforeEntering, gate_model, "memory is gone"),
];

mutant::every_mutant_is_found!(MUTANTS);
