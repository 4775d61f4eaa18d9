//! The log with a signal handler at each of its steps, and with chunks of the dead.

use super::*;
use crate::atomic::AtomicU32;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    /// Steps that are left before the handler comes; negative: it does not come.
    static STEPS: Cell<i64> = const { Cell::new(-1) };
    static HANDLER: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    static DEAD: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
const GATE: Gate = Gate { inside: &WORDS[0], shut: &WORDS[1] };

/// One step of an append.
pub(super) fn interrupted() {
    let left = STEPS.get();
    STEPS.set(left - 1);
    if left == 0 {
        let handler = HANDLER.take();
        if let Some(mut handler) = handler {
            handler();
        }
    }
}

/// Memory of this number of chunks, and the log over it.
struct Memory(#[expect(dead_code, reason = "the log points to it")] Vec<u64>, Log);

fn memory(chunks: u32, keep: Keep) -> Memory {
    let bytes = (AREA_CHUNKS + chunks) as usize * CHUNK_BYTES;
    let words = vec![0u64; bytes / 8 + 512];
    let base = words.as_ptr().cast::<u8>();
    let base = base.wrapping_add(base.align_offset(4096));
    // SAFETY: the words have room for that many chunks from an aligned address on, are zero, and
    // live as long as the log.
    let log = unsafe { Log::over(base, bytes, keep) }.expect("there are chunks");
    Memory(words, log.of_process(Process { space: || 1, is_dead, gate: GATE }))
}

fn is_dead(thread: u32) -> bool {
    DEAD.with_borrow(|dead| dead.contains(&thread))
}

fn writer(thread: u32) -> Writer {
    Writer { process: 1, thread }
}

fn append(log: &Log, cursor: &Cursor, thread: u32, value: u64) -> bool {
    let entry = Entry { words: [value, value, value], number: 0, kind: 1 };
    log.append(cursor, writer(thread), value, &entry)
}

/// Segments that were kept, and counts of the lost and the overwritten entries.
#[derive(Debug, Default)]
struct Found {
    segments: Vec<Copy>,
    lost: u64,
    overwritten: u64,
}

impl Found {
    fn of(log: &Log) -> Found {
        let mut segments: Vec<Copy> = log.numbers().flat_map(|number| log.read(number)).collect();
        segments.sort_by_key(|segment| (segment.writer, segment.cursor, segment.sequence));
        let lost = segments.iter().map(|segment| segment.lost.count).sum::<u64>()
            + log.lost_without_chunk().count;
        let found = Found { segments, lost, overwritten: log.overwritten() };
        assert!(found.missing() <= found.overwritten, "{found:?}");
        found
    }

    fn values(&self) -> Vec<u64> {
        let entries = self.segments.iter().flat_map(|segment| &segment.entries);
        entries.map(|entry| entry.words[0]).collect()
    }

    fn torn(&self) -> u32 {
        self.segments.iter().map(|segment| segment.torn).sum()
    }

    /// Entries that gave way to later ones, of those cursors of which something is left.
    fn missing(&self) -> u64 {
        let mut cursors: BTreeMap<(Writer, u32), (Option<u32>, u64, u64)> = BTreeMap::new();
        for segment in &self.segments {
            let (sequence, had, missing) =
                cursors.entry((segment.writer, segment.cursor)).or_default();
            assert!(*sequence < Some(segment.sequence), "two segments have one number");
            assert!(segment.before >= *had, "a segment counts what others have");
            *missing += segment.before - *had;
            *sequence = Some(segment.sequence);
            *had = segment.before + segment.entries.len() as u64 + u64::from(segment.torn);
        }
        cursors.values().map(|(_, _, missing)| missing).sum()
    }
}

/// Entries of a chunk with one segment.
const FULL: u64 = CAPACITY as u64 - 1;

/// Appends up to a chunk's end and over it, while a handler that appends `more`, too few to turn the
/// log over, comes at one step; returns whether it came.
fn interrupt_at(step: i64, more: u64, chunks: u32, keep: Keep) -> bool {
    let memory = memory(chunks, keep);
    let log = memory.1;
    let cursor = std::rc::Rc::new(Cursor::default());
    let mut produced = 0;
    let mut value = || {
        produced += 1;
        produced
    };
    // A log that keeps the last has been turned over before.
    let turns = if keep == Keep::Last { u64::from(chunks) + 1 } else { 0 };
    for _ in 0..turns * FULL + FULL - 1 {
        append(&log, &cursor, 7, value());
    }
    let came = std::rc::Rc::new(Cell::new(false));
    let first = value();
    let handler = {
        let (cursor, came) = (cursor.clone(), came.clone());
        move || {
            came.set(true);
            for at in 0..more {
                append(&log, &cursor, 7, first + 1_000_000 + at);
            }
        }
    };
    HANDLER.set(Some(Box::new(handler)));
    STEPS.set(step);
    append(&log, &cursor, 7, first);
    // Into the chunk after the next, too, which may be one that was kept.
    for _ in 0..2 * FULL + 3 {
        append(&log, &cursor, 7, value());
    }
    STEPS.set(-1);
    HANDLER.take();
    let all = produced + if came.get() { more } else { 0 };
    let found = Found::of(&log);
    let said = format!("step {step}, {more} more, {chunks} chunks, {keep:?}");
    assert_eq!(found.torn(), 0, "{said}");
    let Found { lost, overwritten, .. } = found;
    let counted = found.values().len() as u64 + lost + overwritten;
    assert_eq!(counted, all, "{said}: {lost} lost, {overwritten} overwritten");
    assert_eq!(found.missing(), overwritten, "{said}");
    let cursors: Vec<u32> = found.segments.iter().map(|segment| segment.cursor).collect();
    assert!(cursors.iter().all(|cursor| *cursor == cursors[0]), "{said}: one thread is several");
    if keep == Keep::First {
        assert_eq!(found.overwritten, 0, "{said}");
        let mut values = found.values();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len() as u64, found.values().len() as u64, "{said}: twice");
    }
    came.get()
}

#[test]
fn handler_at_any_step_leaves_counts_that_can_be() {
    for (chunks, keep) in
        [(8, Keep::First), (1, Keep::First), (2, Keep::First), (6, Keep::Last), (9, Keep::Last)]
    {
        for more in [1, 2, FULL, FULL + 1, 2 * FULL + 3] {
            let steps = (0..100).take_while(|step| interrupt_at(*step, more, chunks, keep)).count();
            assert!(steps >= 4, "the handler came at {steps} steps");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes in Miri")]
fn full_log_counts_very_many_lost_entries_exactly() {
    let memory = memory(1, Keep::First);
    let (log, cursor) = (memory.1, Cursor::default());
    // More than a slot counts.
    for value in 0..(1 << 24) + 5_000 {
        append(&log, &cursor, 7, value);
    }
    let found = Found::of(&log);
    assert_eq!((found.segments.len(), found.values().len() as u64), (1, FULL));
    assert_eq!(found.lost, (1 << 24) + 5_000 - FULL);
}

#[test]
fn rest_of_an_ended_threads_chunk_serves_others() {
    let memory = memory(2, Keep::First);
    let log = memory.1;
    append(&log, &Cursor::default(), 1, 1);
    // Of 2000 threads, each of which has ended when the next one begins.
    for thread in 2..2002 {
        DEAD.with_borrow_mut(|dead| dead.push(thread - 1));
        assert!(append(&log, &Cursor::default(), thread, u64::from(thread)));
    }
    DEAD.take();
    let found = Found::of(&log);
    assert_eq!(found.segments.len(), 2001);
    assert_eq!((found.lost, found.torn(), found.overwritten), (0, 0, 0));
    for (segment, thread) in found.segments.iter().zip(1..) {
        assert_eq!((segment.writer, segment.entries.len()), (writer(thread), 1));
        assert_eq!(segment.entries[0].words[0], u64::from(thread));
    }
}

#[test]
fn living_threads_chunk_is_nobody_elses() {
    let memory = memory(3, Keep::First);
    let log = memory.1;
    let (first, second) = (Cursor::default(), Cursor::default());
    append(&log, &first, 1, 1);
    append(&log, &second, 2, 2);
    DEAD.set(vec![1]);
    // Takes what 1 left, then the last chunk when that is full, then loses.
    let third = Cursor::default();
    let room = FULL - 2 + FULL;
    for value in 0..room + 10 {
        assert_eq!(append(&log, &third, 3, 100 + value), value < room, "{value}");
    }
    assert!(append(&log, &second, 2, 3));
    DEAD.set(vec![1, 3]);
    // Their chunks are full.
    assert!(!append(&log, &Cursor::default(), 4, 4));
    DEAD.take();
    let found = Found::of(&log);
    assert_eq!((found.lost, found.torn(), found.overwritten), (11, 0, 0));
    let records_of = |thread| {
        let segments = found.segments.iter().filter(move |s| s.writer.thread == thread);
        segments.map(|segment| segment.entries.len() as u64).collect::<Vec<_>>()
    };
    assert_eq!(
        (records_of(1), records_of(2), records_of(3)),
        (vec![1], vec![2], vec![FULL - 2, FULL])
    );
    let lost = found.segments.iter().find(|segment| segment.lost.count > 0).expect("one has lost");
    assert_eq!((lost.writer.thread, lost.sequence, lost.lost.count), (3, 1, 10));
    assert_eq!((lost.lost.first, lost.lost.last), (100 + room, 100 + room + 9));
}

#[test]
fn what_gives_way_is_counted_though_nothing_is_left_of_its_thread() {
    let memory = memory(2, Keep::Last);
    let log = memory.1;
    // Of three threads, one has filled its chunk, and one was closed as dead.
    let first = Cursor::default();
    for value in 0..FULL + 1 {
        append(&log, &first, 1, value);
    }
    assert_eq!(log.close_dead(|writer| writer.thread == 1), 1);
    let last = Cursor::default();
    for value in 0..2 * FULL {
        append(&log, &last, 2, value);
    }
    let found = Found::of(&log);
    assert_eq!(found.segments.len(), 2);
    assert!(found.segments.iter().all(|segment| segment.writer == writer(2)));
    assert_eq!((found.overwritten, found.missing(), found.lost), (FULL + 1, 0, 0));
}

#[test]
fn threads_of_another_space_are_not_asked_for() {
    let memory = memory(3, Keep::First);
    let of_space = |space: fn() -> u32| memory.1.of_process(Process { space, is_dead, gate: GATE });
    DEAD.set(vec![1]);
    let append = |log: Log, process, thread| {
        let entry = Entry { words: [1; 3], number: 0, kind: 1 };
        log.append(&Cursor::default(), Writer { process, thread }, 1, &entry)
    };
    assert!(append(of_space(|| 5), 1, 1));
    for space in [(|| 6) as fn() -> u32, || 0] {
        assert!(append(of_space(space), 2, 2));
    }
    assert_eq!(memory.1.taken(), 3);
    // Of the same space, from another process.
    assert!(append(of_space(|| 5), 3, 3));
    DEAD.take();
    assert_eq!(Found::of(&memory.1).segments.len(), 4);
    assert_eq!(memory.1.taken(), 3);
}

/// Adopts a dead thread's chunk, while at one step another thread closes it as a dead thread's; a
/// further thread takes it then, or `later`. Returns true if that step came.
fn close_at(step: i64, later: bool) -> bool {
    let memory = memory(1, Keep::Last);
    let log = memory.1;
    append(&log, &Cursor::default(), 1, 1);
    DEAD.set(vec![1]);
    let second = std::rc::Rc::new(Cell::new(None));
    let handler = {
        let second = second.clone();
        move || {
            log.close_dead(|writer| writer.thread == 1);
            second.set(Some(!later && append(&log, &Cursor::default(), 9, 9)));
        }
    };
    HANDLER.set(Some(Box::new(handler)));
    STEPS.set(step);
    let first = append(&log, &Cursor::default(), 8, 8);
    STEPS.set(-1);
    HANDLER.take();
    if later && second.get().is_some() {
        second.set(Some(append(&log, &Cursor::default(), 9, 9)));
    }
    DEAD.take();
    let values = Found::of(&log).values();
    let said = format!("step {step}, later {later}: two threads have one chunk: {values:?}");
    assert_eq!(values.contains(&8), first, "{said}");
    assert_eq!(values.contains(&9), second.get() == Some(true), "{said}");
    second.get().is_some()
}

#[test]
fn chunk_that_is_closed_while_it_is_adopted_has_one_writer() {
    for later in [false, true] {
        let steps = (0..100).take_while(|step| close_at(*step, later)).count();
        assert!(steps > 5, "it was closed at {steps} steps");
    }
}

#[test]
fn chunk_that_an_adopter_died_over_can_be_closed() {
    let memory = memory(2, Keep::Last);
    let log = memory.1;
    append(&log, &Cursor::default(), 1, 1);
    let chunk = log.chunk(AREA_CHUNKS);
    let state = chunk.state.load(Ordering::Relaxed);
    chunk.state.store(state + HAND, Ordering::Relaxed);
    DEAD.set(vec![1]);
    assert!(append(&log, &Cursor::default(), 2, 2));
    assert_eq!(log.taken(), 2, "another chunk, not that one");
    assert_eq!(log.close_dead(|writer| writer.thread == 1), 1);
    DEAD.take();
    assert_eq!(Found::of(&log).values(), [1, 2]);
}
