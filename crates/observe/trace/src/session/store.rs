//! Copies what was recorded into the blocks of a trace.
//!
//! Each segment of the log becomes a block of its thread. First all are found and put in order,
//! then one after the other is copied, so that the records are never in memory twice. A chunk that
//! a process which outlived the program used again in between is left out; the records before the
//! next one are counted as missing, like others that were overwritten.

use crate::Error;
use crate::file::{BlockHead, StreamKind, TraceWriter};
use crate::kernel::ProcessorStream;
use crate::metadata::LostRange;
use record::{Kind, Raw};
use shm::log::{Copy, Log, Lost, Writer};
use std::collections::BTreeMap;

/// Records of a processor or a GPU that make a block.
const BLOCK_RECORDS: usize = 4096;

/// Numbers of records in the trace and of records that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Records in the trace.
    pub records: u64,
    /// Records for which there was no room.
    pub lost: u64,
    /// Records that later ones replaced.
    pub overwritten: u64,
}

/// Writes the records of the program's threads, and those of its GPU work.
///
/// # Errors
/// As [`TraceWriter::block`].
pub(super) fn threads(log: &Log, writer: &mut TraceWriter) -> Result<Counts, Error> {
    let (lost, overwritten) = (log.lost_without_chunk().count, log.overwritten());
    let mut counts = Counts { lost, overwritten, ..Counts::default() };
    let mut gpus: BTreeMap<u32, GpuStream> = BTreeMap::new();
    let mut thread = ThreadStream::default();
    for place in places(log) {
        let Some(copy) = place.read(log) else { continue };
        if !thread.goes_on_with(&copy) {
            let (writer, cursor) = (copy.writer, copy.cursor);
            thread = ThreadStream { writer, cursor, ..ThreadStream::default() };
        }
        let missing = thread.missing(&copy);
        let (gpu, own): (Vec<Raw>, Vec<Raw>) =
            copy.entries.iter().map(|entry| Raw::from(*entry)).partition(is_gpu);
        if !gpu.is_empty() {
            let stream = gpus.entry(copy.writer.process).or_default();
            stream.add(missing, &gpu, lost_range(copy.lost));
        }
        let head = thread.head(&copy, gpu.len() as u64);
        if !own.is_empty() || head.lost.count > 0 {
            writer.block(head, &own)?;
        }
        counts.records += copy.entries.len() as u64;
        counts.lost += copy.lost.count;
    }
    for (process, stream) in gpus {
        stream.write(process, writer)?;
    }
    Ok(counts)
}

/// Writes what the kernel saw on each processor.
///
/// # Errors
/// As [`TraceWriter::block`].
pub(super) fn processors(
    streams: &[ProcessorStream],
    writer: &mut TraceWriter,
) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    for stream in streams {
        let mut blocks =
            Blocks::new(writer, BlockHead::first(StreamKind::Processor, 0, stream.processor));
        counts.lost += blocks.write_in_order(&stream.records, stream.lost.clone())?;
        counts.records += stream.records.len() as u64;
    }
    Ok(counts)
}

/// Returns the losses of threads that never had a chunk.
pub(super) fn lost_without_chunk(log: &Log) -> LostRange {
    lost_range(log.lost_without_chunk())
}

/// Position of a segment: the order of the fields is that of the blocks. A thread id that is given
/// again has a cursor with a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SegmentPlace {
    writer: Writer,
    cursor: u32,
    sequence: u32,
    chunk: u32,
    before: u64,
}

impl SegmentPlace {
    fn of(chunk: u32, copy: &Copy) -> SegmentPlace {
        let Copy { writer, cursor, sequence, before, .. } = *copy;
        SegmentPlace { writer, cursor, sequence, chunk, before }
    }

    /// The segment, if it is still there.
    fn read(&self, log: &Log) -> Option<Copy> {
        log.read(self.chunk).into_iter().find(|copy| SegmentPlace::of(self.chunk, copy) == *self)
    }
}

/// The segments, thread by thread, each thread's in the order in which they were begun.
fn places(log: &Log) -> Vec<SegmentPlace> {
    let of_chunk =
        |chunk| log.read(chunk).into_iter().map(move |copy| SegmentPlace::of(chunk, &copy));
    let mut places: Vec<SegmentPlace> = log.numbers().flat_map(of_chunk).collect();
    places.sort_unstable();
    places
}

fn is_gpu(record: &Raw) -> bool {
    let kind = Kind::from_code(record.kind);
    matches!(kind, Some(Kind::GpuKernel | Kind::GpuCopy | Kind::GpuMemset))
}

/// Returns the losses that the program counted. A counter may be behind when its thread was killed.
fn lost_range(lost: Lost) -> LostRange {
    match lost {
        Lost { count: 0, .. } => LostRange::default(),
        Lost { count, first, last } => {
            let first = if first == 0 { last } else { first };
            LostRange { count, first, last: last.max(first) }
        }
    }
}

/// Progress of a thread's stream.
#[derive(Default)]
struct ThreadStream {
    writer: Writer,
    cursor: u32,
    /// Sequence of the first segment that is there. The blocks count from it, so that a thread whose
    /// id another had before begins another stream in the file.
    first: Option<u32>,
    /// Entries up to the end of the latest segment.
    had: u64,
    /// Records up to there that went to a GPU's stream.
    gpu: u64,
}

impl ThreadStream {
    fn goes_on_with(&self, copy: &Copy) -> bool {
        (self.writer, self.cursor) == (copy.writer, copy.cursor) && self.first.is_some()
    }

    /// Entries between the latest segment and this one.
    fn missing(&self, copy: &Copy) -> u64 {
        copy.before.saturating_sub(self.had)
    }

    /// The head of the block for this segment, the next one, with `gpu` records of a GPU in it.
    fn head(&mut self, copy: &Copy, gpu: u64) -> BlockHead {
        let before = copy.before.saturating_sub(self.gpu);
        let first = *self.first.get_or_insert(copy.sequence);
        let used = copy.entries.len() as u64 + u64::from(copy.torn);
        self.had = self.had.max(copy.before).saturating_add(used);
        self.gpu += gpu;
        BlockHead {
            sequence: copy.sequence.saturating_sub(first),
            torn: copy.torn,
            before,
            lost: lost_range(copy.lost),
            ..BlockHead::first(StreamKind::Thread, copy.writer.process, copy.writer.thread)
        }
    }
}

/// Work on the GPUs of a process, which its threads have recorded when it was done: work on different
/// streams overlaps, and is recorded in no order of beginning.
#[derive(Default)]
struct GpuStream {
    records: Vec<Raw>,
    lost: Vec<LostRange>,
    /// Records that are not there any more.
    missing: u64,
}

impl GpuStream {
    fn add(&mut self, missing: u64, records: &[Raw], lost: LostRange) {
        self.missing += missing;
        self.records.extend_from_slice(records);
        self.lost.push(lost);
    }

    fn write(mut self, process: u32, writer: &mut TraceWriter) -> Result<(), Error> {
        self.records.sort_by_key(|record| record.time);
        let mut blocks = Blocks::new(writer, BlockHead::first(StreamKind::Gpu, process, 0));
        blocks.head.before = self.missing;
        blocks.write_in_order(&self.records, self.lost).map(|_| ())
    }
}

/// Cuts a stream into blocks.
struct Blocks<'a> {
    writer: &'a mut TraceWriter,
    head: BlockHead,
}

impl Blocks<'_> {
    fn new(writer: &mut TraceWriter, head: BlockHead) -> Blocks<'_> {
        Blocks { writer, head }
    }

    /// Writes records that are in the order of time, cut where others were lost; the number of those.
    fn write_in_order(&mut self, records: &[Raw], lost: Vec<LostRange>) -> Result<u64, Error> {
        let mut lost: Vec<LostRange> = lost.into_iter().filter(|range| range.count > 0).collect();
        lost.sort_unstable_by_key(|range| range.first);
        let count = lost.iter().map(|range| range.count).sum();
        let mut rest = records;
        for range in lost {
            let before = rest.partition_point(|record| record.time <= range.first);
            self.write(&rest[..before], range)?;
            rest = &rest[before..];
        }
        self.write(rest, LostRange::default())?;
        Ok(count)
    }

    /// Writes the next records of the stream, after which `lost` were lost.
    fn write(&mut self, records: &[Raw], lost: LostRange) -> Result<(), Error> {
        let mut parts = records.chunks(BLOCK_RECORDS).peekable();
        if parts.peek().is_none() && lost.count > 0 {
            return self.block(&[], lost);
        }
        while let Some(part) = parts.next() {
            let lost = if parts.peek().is_none() { lost } else { LostRange::default() };
            self.block(part, lost)?;
        }
        Ok(())
    }

    fn block(&mut self, records: &[Raw], lost: LostRange) -> Result<(), Error> {
        self.head.lost = lost;
        self.writer.block(self.head, records)?;
        self.head.sequence += 1;
        self.head.before += records.len() as u64;
        Ok(())
    }
}

impl BlockHead {
    fn first(stream: StreamKind, process: u32, id: u32) -> BlockHead {
        BlockHead {
            stream,
            process,
            id,
            sequence: 0,
            torn: 0,
            before: 0,
            lost: LostRange::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::metadata::{Clock, Metadata};
    use record::{Recording, Settings};
    use shm::log::{CAPACITY, CHUNK_BYTES, Cursor, Entry, Gate, Process};
    use std::path::PathBuf;

    /// A file that is removed.
    struct Output(PathBuf);

    impl Drop for Output {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn stored(name: &str, store: impl FnOnce(&mut TraceWriter) -> Counts) -> (Trace, Counts) {
        let file = format!("keeptime-store-{name}-{}.kt", std::process::id());
        let output = Output(std::env::temp_dir().join(file));
        let mut writer = TraceWriter::create(&output.0).unwrap();
        let counts = store(&mut writer);
        let clock = Clock { start: (1, 1), end: (1_000_000, 1_000_000), ..Clock::default() };
        writer.finish(&Metadata { clock, ..Metadata::default() }).unwrap();
        (Trace::open(&output.0).unwrap(), counts)
    }

    fn recording(chunks: usize, keep_last: bool) -> Recording {
        let settings = Settings { keep_last, ..Settings::default() };
        Recording::create((chunks * CHUNK_BYTES) as u64, &settings).unwrap()
    }

    fn append(log: &Log, cursor: &Cursor, writer: Writer, time: u64, kind: Kind) {
        let entry = Entry { words: [time, 0, 0], number: 0, kind: kind.code() };
        log.append(cursor, writer, time, &entry);
    }

    fn times(trace: &Trace, stream: usize) -> Vec<u64> {
        let mut records = Vec::new();
        let mut times = Vec::new();
        for block in &trace.streams()[stream].blocks {
            trace.read(block, &mut records).unwrap();
            times.extend(records.iter().map(|record| record.time));
        }
        times
    }

    /// Records of a chunk, one slot of which is a mark.
    const FULL: u64 = CAPACITY as u64 - 1;

    #[test]
    fn threads_are_stored_in_order_and_what_was_lost_is_told() {
        let recording = recording(3, false);
        let log = recording.log();
        let (a, b) = (Cursor::default(), Cursor::default());
        let writer = |thread| Writer { process: 1, thread };
        // Thread 9 fills two chunks, with thread 8 between; then there are no more.
        for time in 1..=FULL {
            append(&log, &a, writer(9), time, Kind::Enter);
        }
        append(&log, &b, writer(8), FULL + 1, Kind::Enter);
        for time in FULL + 2..=2 * FULL + 5 {
            append(&log, &a, writer(9), time, Kind::Enter);
        }
        append(&log, &Cursor::default(), writer(7), 2 * FULL + 9, Kind::Enter);
        let (trace, counts) = stored("order", |writer| threads(&log, writer).unwrap());
        assert_eq!(counts, Counts { records: 2 * FULL + 1, lost: 5, overwritten: 0 });
        let ids: Vec<u32> = trace.streams().iter().map(|stream| stream.id).collect();
        assert_eq!(ids, [8, 9]);
        let expected: Vec<u64> = (1..=FULL).chain(FULL + 2..=2 * FULL + 1).collect();
        assert_eq!(times(&trace, 1), expected);
        assert_eq!(trace.streams()[1].unknown(), [(2 * FULL + 2, 2 * FULL + 5)]);
        let without = lost_without_chunk(&log);
        assert_eq!(without, LostRange { count: 1, first: 2 * FULL + 9, last: 2 * FULL + 9 });
    }

    #[test]
    fn log_that_kept_the_last_tells_how_many_gave_way() {
        let recording = recording(2, true);
        let log = recording.log();
        let cursor = Cursor::default();
        let writer = Writer { process: 1, thread: 9 };
        for time in 1..=5 * FULL {
            append(&log, &cursor, writer, time, Kind::Enter);
        }
        let (trace, counts) = stored("last", |writer| threads(&log, writer).unwrap());
        assert_eq!(counts, Counts { records: 2 * FULL, lost: 0, overwritten: 3 * FULL });
        assert_eq!(times(&trace, 0), Vec::from_iter(3 * FULL + 1..=5 * FULL));
        assert_eq!(trace.streams()[0].blocks[0].missing_before, 3 * FULL);
    }

    #[test]
    fn thread_id_that_is_given_again_makes_another_stream() {
        let recording = recording(4, false);
        let log = recording.log();
        let writer = Writer { process: 1, thread: 9 };
        for time in [10, 20] {
            append(&log, &Cursor::default(), writer, time, Kind::Enter);
        }
        let (trace, counts) = stored("again", |writer| threads(&log, writer).unwrap());
        assert_eq!((trace.streams().len(), counts.overwritten), (2, 0));
    }

    #[test]
    fn thread_id_that_is_given_again_makes_another_stream_where_its_beginning_gave_way() {
        let recording = recording(3, true);
        let log = recording.log();
        let writer = Writer { process: 1, thread: 9 };
        let (first, second) = (Cursor::default(), Cursor::default());
        append(&log, &first, writer, 1, Kind::Enter);
        for time in 2..=2 + 4 * FULL {
            append(&log, &second, writer, time, Kind::Enter);
        }
        let (trace, counts) = stored("life", |writer| threads(&log, writer).unwrap());
        // The first one's chunk is open; the second one's have been given again.
        assert_eq!(counts, Counts { records: FULL + 2, lost: 0, overwritten: 3 * FULL });
        let streams = trace.streams();
        assert_eq!(streams.len(), 2);
        assert_eq!(streams[0].blocks[0].missing_before, 0);
        assert_eq!(streams[1].blocks[0].missing_before, 3 * FULL);
    }

    #[test]
    fn rest_of_an_ended_threads_chunk_is_a_stream_of_its_own() {
        let recording = recording(1, false);
        static WORDS: [std::sync::atomic::AtomicU32; 2] =
            [const { std::sync::atomic::AtomicU32::new(0) }; 2];
        let gate = Gate { inside: &WORDS[0], shut: &WORDS[1] };
        let process = Process { space: || 1, is_dead: |thread| thread < 9, gate };
        let log = recording.log().of_process(process);
        for thread in 1..=9 {
            let cursor = Cursor::default();
            for time in 0..3 {
                let time = u64::from(thread) * 10 + time;
                append(&log, &cursor, Writer { process: 1, thread }, time, Kind::Enter);
            }
        }
        let (trace, counts) = stored("rest", |writer| threads(&log, writer).unwrap());
        assert_eq!(counts, Counts { records: 27, lost: 0, overwritten: 0 });
        let ids: Vec<u32> = trace.streams().iter().map(|stream| stream.id).collect();
        assert_eq!(ids, Vec::from_iter(1..=9));
        assert_eq!(times(&trace, 4), [50, 51, 52]);
    }

    #[test]
    fn work_on_the_gpu_gets_a_stream_and_leaves_no_gap() {
        let recording = recording(4, false);
        let log = recording.log();
        let cursor = Cursor::default();
        let writer = Writer { process: 3, thread: 9 };
        for time in 1..=FULL + 4 {
            let kind = if time % 2 == 0 { Kind::GpuKernel } else { Kind::Enter };
            append(&log, &cursor, writer, time, kind);
        }
        let (trace, counts) = stored("gpu", |writer| threads(&log, writer).unwrap());
        assert_eq!(counts, Counts { records: FULL + 4, lost: 0, overwritten: 0 });
        let kinds: Vec<_> = trace.streams().iter().map(|s| (s.kind, s.process, s.id)).collect();
        assert_eq!(kinds, [(StreamKind::Thread, 3, 9), (StreamKind::Gpu, 3, 0)]);
        assert!(trace.streams().iter().all(|stream| stream.unknown().is_empty()));
        assert_eq!(times(&trace, 1), Vec::from_iter((2..=FULL + 4).step_by(2)));
    }

    #[test]
    fn work_on_streams_that_overlap_lies_in_the_order_of_its_beginnings() {
        let recording = recording(4, false);
        let log = recording.log();
        let cursor = Cursor::default();
        let writer = Writer { process: 3, thread: 9 };
        // A short kernel ends, and is recorded, before a long one that began earlier.
        for time in [500, 100, 300, 200] {
            append(&log, &cursor, writer, time, Kind::GpuKernel);
        }
        let (trace, counts) = stored("overlap", |writer| threads(&log, writer).unwrap());
        assert_eq!(counts, Counts { records: 4, lost: 0, overwritten: 0 });
        assert_eq!(times(&trace, 0), [100, 200, 300, 500]);
    }

    #[test]
    fn losses_of_a_processor_lie_where_they_happened() {
        let raw = |time| Raw { time, kind: Kind::Switch.code(), ..Raw::from(Entry::default()) };
        let lost = |count, first, last| LostRange { count, first, last };
        let many = BLOCK_RECORDS as u64 + 50;
        let busy = ProcessorStream {
            processor: 4,
            records: (1..=many).chain(many + 100..many + 110).map(raw).collect(),
            lost: vec![lost(3, many + 1, many + 90), lost(1, many + 200, many + 300)],
        };
        let deaf = ProcessorStream { processor: 5, records: vec![], lost: vec![lost(2, 7, 9)] };
        let idle = ProcessorStream { processor: 6, ..ProcessorStream::default() };
        let (trace, counts) =
            stored("processors", |writer| processors(&[busy, deaf, idle], writer).unwrap());
        assert_eq!(counts, Counts { records: many + 10, lost: 6, overwritten: 0 });
        let [busy, deaf] = trace.streams() else { panic!("{:?}", trace.streams()) };
        let sizes: Vec<u32> = busy.blocks.iter().map(|block| block.count).collect();
        assert_eq!(sizes, [BLOCK_RECORDS as u32, 50, 10]);
        assert_eq!(busy.unknown(), [(many + 1, many + 90), (many + 200, many + 300)]);
        assert_eq!((deaf.id, deaf.unknown()), (5, vec![(7, 9)]));
    }
}
