//! Trace files written and read back, and files that are damaged.

use record::{Action, Class, Kind, Raw, Record};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use trace::metadata::{Clock, LostRange, Process, ProgramEnd};
use trace::{BlockHead, Error, Metadata, StreamKind, Trace, TraceWriter};

/// A folder that is removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("t.kt")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn metadata() -> Metadata {
    Metadata {
        command: vec!["program".into(), "argument".into()],
        outcome: ProgramEnd::Exited(3),
        clock: Clock {
            source: "tsc".into(),
            even: true,
            start: (1_000, 5_000_000),
            end: (101_000, 5_050_000),
            spread: 40,
        },
        processes: vec![Process {
            number: 1,
            pid: 77,
            program: "/bin/ä".into(),
            ..Process::default()
        }],
        ..Metadata::default()
    }
}

fn lock(time: u64) -> Raw {
    let kind = Kind::Lock(Class::Mutex, Action::Acquired);
    Record { time, subject: time * 3, detail: !time, number: time as u32, kind }.to_raw()
}

fn locks(times: impl IntoIterator<Item = u64>) -> Vec<Raw> {
    times.into_iter().map(lock).collect()
}

fn thread(id: u32, sequence: u32, before: u64) -> BlockHead {
    BlockHead {
        stream: StreamKind::Thread,
        process: 1,
        id,
        sequence,
        torn: 0,
        before,
        lost: LostRange::default(),
    }
}

fn write(path: &Path, blocks: &[(BlockHead, Vec<Raw>)]) -> Trace {
    let mut writer = TraceWriter::create(path).unwrap();
    for (head, records) in blocks {
        writer.block(*head, records).unwrap();
    }
    writer.finish(&metadata()).unwrap();
    Trace::open(path).unwrap()
}

/// Reads all that can be read, as a report would; for files that may be damaged.
fn use_up(path: &Path) -> Result<u64, Error> {
    let trace = Trace::open(path)?;
    let mut records = Vec::new();
    let mut total = 0;
    for stream in trace.streams() {
        stream.unknown();
        for block in &stream.blocks {
            let skipped = trace.read(block, &mut records)?;
            total += (records.len() + skipped) as u64;
        }
    }
    assert_eq!(total, trace.records());
    Ok(total)
}

#[test]
fn everything_that_was_written_is_read_back() {
    let folder = Folder::new("round-trip");
    let lost = LostRange { count: 9, first: 50_100, last: 60_000 };
    let mut unknown = lock(30_000);
    unknown.kind = 0x7777;
    unknown.lap = 5;
    let long = locks(2_000..7_000);
    let gpu = BlockHead { stream: StreamKind::Gpu, process: 2, ..thread(0, 0, 0) };
    let processor = BlockHead { stream: StreamKind::Processor, process: 0, ..thread(3, 0, 0) };
    let trace = write(
        &folder.file(),
        &[
            (processor, locks([1_500, 1_400])),
            (gpu, locks([9_000])),
            (thread(5, 0, 0), long.clone()),
            (BlockHead { torn: 2, lost, ..thread(5, 1, 5_000) }, vec![lock(20_000), unknown]),
        ],
    );
    assert_eq!(trace.metadata(), &metadata());
    assert_eq!(trace.records(), 5_005);
    assert_eq!((trace.start(), trace.end()), (1_000, 101_000));
    assert_eq!(trace.clock().duration_ns(2_000), 1_000);
    let kinds: Vec<_> = trace.streams().iter().map(|s| (s.kind, s.process, s.id)).collect();
    let expected =
        [(StreamKind::Thread, 1, 5), (StreamKind::Processor, 0, 3), (StreamKind::Gpu, 2, 0)];
    assert_eq!(kinds, expected);

    let mut records = vec![Record::from_raw(&lock(1)).unwrap()];
    let blocks = &trace.streams()[0].blocks;
    assert_eq!(trace.read(&blocks[0], &mut records).unwrap(), 0);
    assert_eq!(records.iter().map(Record::to_raw).collect::<Vec<_>>(), long);
    assert_eq!((blocks[0].first, blocks[0].last), (2_000, 6_999));
    assert_eq!(trace.read(&blocks[1], &mut records).unwrap(), 1, "one kind is unknown");
    assert_eq!(records.iter().map(Record::to_raw).collect::<Vec<_>>(), [lock(20_000)]);
    assert_eq!((blocks[1].sequence, blocks[1].torn, blocks[1].lost), (1, 2, lost));
    let processor = &trace.streams()[1].blocks[0];
    assert_eq!((processor.first, processor.last), (1_400, 1_500), "earliest and latest");
}

#[test]
fn trace_without_records_is_read_back() {
    let folder = Folder::new("empty");
    let trace = write(&folder.file(), &[]);
    assert_eq!((trace.records(), trace.streams().len()), (0, 0));
}

#[test]
fn sequence_that_restarts_makes_two_streams() {
    let folder = Folder::new("restart");
    let trace = write(
        &folder.file(),
        &[
            (thread(5, 0, 0), locks([2_000])),
            (thread(6, 0, 0), locks([2_500])),
            (thread(5, 1, 1), locks([3_000])),
            (thread(5, 0, 0), locks([4_000])),
            (BlockHead { process: 2, ..thread(5, 1, 0) }, locks([4_500])),
            (thread(5, 1, 1), locks([5_000])),
        ],
    );
    let starts: Vec<Vec<u64>> =
        trace.streams().iter().map(|s| s.blocks.iter().map(|b| b.first).collect()).collect();
    assert_eq!(starts, [vec![2_000, 3_000], vec![2_500], vec![4_000, 5_000], vec![4_500]]);
    assert!(trace.streams().iter().all(|stream| stream.unknown().is_empty()));
}

#[test]
fn overwritten_records_are_counted_and_their_time_is_unknown() {
    let folder = Folder::new("keep-last");
    let trace = write(
        &folder.file(),
        &[
            (thread(5, 2, 4_092), locks(20_000..20_010)),
            (thread(5, 3, 4_102), locks(20_010..20_020)),
            // Two of the block before are torn: they were not overwritten.
            (BlockHead { torn: 2, ..thread(5, 6, 9_000) }, locks(40_000..40_005)),
            (thread(5, 7, 9_007), locks(41_000..41_001)),
        ],
    );
    let [stream] = trace.streams() else { panic!("{:?}", trace.streams()) };
    let missing: Vec<u64> = stream.blocks.iter().map(|block| block.missing_before).collect();
    assert_eq!(missing, [4_092, 0, 9_000 - 4_112, 0]);
    assert_eq!(stream.unknown(), [(1_000, 20_000), (20_019, 40_000)]);
}

#[test]
fn lost_records_make_their_time_unknown() {
    let folder = Folder::new("lost");
    let lost = |count, first, last| LostRange { count, first, last };
    let trace = write(
        &folder.file(),
        &[
            (BlockHead { lost: lost(4, 3_000, 4_000), ..thread(5, 0, 0) }, locks([2_000])),
            // The loss overlaps the one before, and has a block without records of its own.
            (BlockHead { lost: lost(1, 3_500, 6_000), ..thread(5, 1, 1) }, vec![]),
            (BlockHead { lost: lost(7, 9_000, 100_900), ..thread(5, 2, 1) }, locks([8_000])),
        ],
    );
    assert_eq!(trace.streams()[0].unknown(), [(3_000, 6_000), (9_000, 100_900)]);
}

/// A file in memory, for tests that write many.
struct Memory(fs::File);

impl Memory {
    fn new() -> Memory {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        Memory(rustix::fs::memfd_create("trace", flags).unwrap().into())
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    fn write(&self, bytes: &[u8]) {
        self.0.set_len(bytes.len() as u64).unwrap();
        self.0.write_all_at(bytes, 0).unwrap();
    }
}

#[test]
fn file_that_is_cut_off_anywhere_is_refused() {
    let folder = Folder::new("cut");
    let path = folder.file();
    let lost = LostRange { count: 1, first: 2_500, last: 2_600 };
    let head = BlockHead { lost, ..thread(5, 0, 0) };
    write(&path, &[(head, locks([2_000, 2_001])), (thread(6, 0, 0), locks([3_000]))]);
    let whole = fs::read(&path).unwrap();
    let memory = Memory::new();
    let path = memory.path();
    for length in 0..whole.len() {
        memory.write(&whole[..length]);
        let error = Trace::open(&path).expect_err("a part of a trace");
        assert!(error.to_string().starts_with(path.to_str().unwrap()), "{length}: {error}");
    }
    memory.write(&whole);
    assert_eq!(use_up(&path).unwrap(), 3);
}

#[test]
fn any_flipped_bit_is_survived() {
    let folder = Folder::new("flip");
    let path = folder.file();
    let lost = LostRange { count: 1, first: 2_500, last: 2_600 };
    let head = BlockHead { lost, ..thread(5, 0, 0) };
    write(&path, &[(head, locks([2_000, 2_001])), (thread(6, 0, 0), locks([3_000]))]);
    let mut bytes = fs::read(&path).unwrap();
    let memory = Memory::new();
    let mut refused = 0;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            memory.write(&bytes);
            refused += usize::from(use_up(&memory.path()).is_err());
            bytes[at] ^= 1 << bit;
        }
    }
    // Everything in header and footer is checked, and most of what is between.
    assert!(refused >= 2 * 64 * 8, "{refused} refused");
}

/// Changes the number of 8 bytes at `from_end` before the end of a small trace.
fn refusal(name: &str, from_end: usize, value: u64) -> String {
    let folder = Folder::new(name);
    let path = folder.file();
    write(&path, &[(thread(5, 0, 0), locks([2_000, 2_001]))]);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - from_end;
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let text = Trace::open(&path).expect_err("a damaged trace").to_string();
    text.replace(path.to_str().unwrap(), "t.kt")
}

#[test]
fn impossible_numbers_are_refused_with_the_numbers() {
    let text = refusal("offset", 48, u64::MAX - 10);
    assert!(text.starts_with("t.kt: index: 96 bytes at offset 18446744073709551605"), "{text}");
    let text = refusal("count", 40, u64::MAX / 96);
    assert_eq!(text, format!("t.kt: blocks: {}, at most 4194304 are read", u64::MAX / 96));
    let text = refusal("count-too-many", 40, 1_000);
    assert!(
        text.starts_with("t.kt: index: 96000 bytes at offset 128, expected inside 64"),
        "{text}"
    );
    let text = refusal("metadata", 24, 1 << 40);
    assert_eq!(text, "t.kt: bytes of metadata: 1099511627776, at most 268435456 are read");
    let text = refusal("version", 56, 77);
    assert!(text.contains("version 77, this program reads versions 1 to 4"), "{text}");
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let folder = Folder::new("other");
    let path = folder.file();
    fs::write(&path, "#!/bin/sh\necho\n").unwrap();
    let text = Trace::open(&path).unwrap_err().to_string();
    assert!(
        text.ends_with("not a trace: begins with \"#!/bin/s\", expected \"KEEPTIME\""),
        "{text}"
    );
    let text = Trace::open(&folder.0).unwrap_err().to_string();
    assert!(text.contains("not a regular file"), "{text}");
    let text = Trace::open(&folder.0.join("absent")).unwrap_err().to_string();
    assert!(text.contains("cannot be read: No such file"), "{text}");
}

#[test]
fn clock_that_stands_still_is_refused() {
    let folder = Folder::new("clock");
    let path = folder.file();
    let mut metadata = metadata();
    metadata.clock.end = metadata.clock.start;
    TraceWriter::create(&path).unwrap().finish(&metadata).unwrap();
    let text = Trace::open(&path).unwrap_err().to_string();
    assert!(
        text.contains("clock readings (ticks, ns) (1000, 5000000) and (1000, 5000000)"),
        "{text}"
    );
}

#[test]
fn unfinished_trace_leaves_nothing_behind_and_keeps_the_old_one() {
    let folder = Folder::new("unfinished");
    let path = folder.file();
    fs::write(&path, "old").unwrap();
    let mut writer = TraceWriter::create(&path).unwrap();
    writer.block(thread(5, 0, 0), &locks([2_000])).unwrap();
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn trace_is_readable_by_its_owner_only() {
    let folder = Folder::new("mode");
    write(&folder.file(), &[]);
    let mode = fs::metadata(folder.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn only_files_are_replaced() {
    let folder = Folder::new("device");
    for path in ["/dev/null", folder.0.to_str().unwrap(), ".."] {
        let error = TraceWriter::create(path.as_ref()).unwrap_err();
        assert!(matches!(error, Error::NotRegular { .. }), "{path}: {error}");
    }
    let absent = folder.0.join("absent/t.kt");
    let text = TraceWriter::create(&absent).unwrap_err().to_string();
    assert!(text.contains("cannot be written: No such file"), "{text}");
}

#[test]
fn link_to_a_file_stays_a_link() {
    let folder = Folder::new("link");
    let (real, link) = (folder.0.join("real.kt"), folder.0.join("link.kt"));
    fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    write(&link, &[(thread(5, 0, 0), locks([2_000]))]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(use_up(&real).unwrap(), 1);
}
