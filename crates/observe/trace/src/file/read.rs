//! Reads a trace: opens it, checks everything that it says about itself, then gives out one block
//! of records at a time, so that a trace may be larger than memory.
//!
//! A file is an allegation. The parts must lie one after the other without a gap, from the header
//! to the footer at the end; each block must begin where the one before ended. With that, no sum
//! or product of what the file says is larger than the file, and no two blocks share records.

use super::layout::{
    END_MAGIC, ENTRY_BYTES, FOOTER_BYTES, Footer, HEADER_BYTES, Header, IndexEntry, MAGIC,
    MOST_BLOCKS, MOST_METADATA_BYTES, RECORD_BYTES,
};
use crate::Error;
use crate::metadata::{LostRange, Metadata};
use record::clock::Calibration;
use record::{FLOW_VERSION, Raw, Record, VERSION};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Records that are read by one system call.
const READ_RECORDS: usize = 2048;

/// An open trace.
#[derive(Debug)]
pub struct Trace {
    source: Source,
    metadata: Metadata,
    clock: Calibration,
    streams: Vec<Stream>,
    records: u64,
}

/// The records of one thread, processor, GPU or dataflow graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Kind of the stream.
    pub kind: StreamKind,
    /// Process number; 0 for processors.
    pub process: u32,
    /// Thread id, number of the processor, or number of the GPU.
    pub id: u32,
    /// Its blocks, in the order of their sequence. Never none.
    pub blocks: Vec<Block>,
    /// Start of the recording, in ticks.
    start: u64,
}

/// Kind of a stream: its records are of a thread, a processor, a GPU or a dataflow graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum StreamKind {
    /// A thread of the program: what the preload library saw.
    Thread = 0,
    /// A processor of the machine: what the kernel saw.
    Processor = 1,
    /// A GPU: what CUPTI saw.
    Gpu = 2,
    /// A dataflow graph; its process is the number of its drive.
    Flow = 3,
}

impl StreamKind {
    /// The number that stands for it in a file.
    pub fn code(self) -> u32 {
        self as u32
    }

    fn from_code(code: u32) -> Option<StreamKind> {
        [StreamKind::Thread, StreamKind::Processor, StreamKind::Gpu, StreamKind::Flow]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// Some consecutive records of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the stream's blocks before this one, in the file or not.
    pub sequence: u32,
    /// Records in it.
    pub count: u32,
    /// Records that their writer did not finish, at unknown places between the others.
    pub torn: u32,
    /// Ticks of the earliest record; 0 when there is none.
    pub first: u64,
    /// Ticks of the latest record; 0 when there is none. Records of neighbouring blocks may
    /// overlap a little when signal handlers wrote some of them.
    pub last: u64,
    /// Records that were lost after this block.
    pub lost: LostRange,
    /// Records of the stream that came between the previous block in the file, or the stream's
    /// beginning, and this block, and were overwritten.
    pub missing_before: u64,
    offset: u64,
}

impl Trace {
    /// Opens a trace and checks its header, footer, index and metadata.
    ///
    /// # Errors
    /// Any error about a file; all carry the offsets and numbers that are wrong.
    pub fn open(path: &Path) -> Result<Trace, Error> {
        let source = Source::open(path)?;
        source.check_header()?;
        let footer = source.footer()?;
        let entries = source.index(&footer)?;
        let metadata = source.metadata(&footer)?;
        let clock = metadata.clock.calibration().ok_or_else(|| Error::Clock {
            file: path.to_owned(),
            start: metadata.clock.start,
            end: metadata.clock.end,
        })?;
        let records = entries.iter().map(|(_, entry)| u64::from(entry.count)).sum();
        let streams = streams(&entries, metadata.clock.start.0);
        Ok(Trace { source, metadata, clock, streams, records })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Returns the metadata at the end of the file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the calibration that converts ticks to nanoseconds.
    pub fn clock(&self) -> Calibration {
        self.clock
    }

    /// Threads, then processors, then GPUs, then graphs; of each kind in the order in which they begin in the
    /// file.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Records in the file.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the start of the recording, in ticks.
    pub fn start(&self) -> u64 {
        self.metadata.clock.start.0
    }

    /// Returns the end of the recording, in ticks.
    pub fn end(&self) -> u64 {
        self.metadata.clock.end.0
    }

    /// Reads a block of this trace into `into`, which is emptied first. Records of unknown kinds
    /// are skipped; returns how many.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read, [`Error::Value`] when a record lies outside
    /// the block's times.
    pub fn read(&self, block: &Block, into: &mut Vec<Record>) -> Result<usize, Error> {
        into.clear();
        let (mut skipped, mut offset, mut left) = (0, block.offset, block.count as usize);
        let mut raws = vec![Raw::new_zeroed(); left.min(READ_RECORDS)];
        into.reserve(left);
        while left > 0 {
            let part = &mut raws[..left.min(READ_RECORDS)];
            self.source.read_at(part.as_mut_bytes(), offset)?;
            for (raw, at) in part.iter().zip((offset..).step_by(RECORD_BYTES as usize)) {
                let within = (block.first..=block.last).contains(&raw.time);
                self.source.expect(within, at, "a record's time", raw.time, || {
                    format!("{} to {}, the times of its block", block.first, block.last)
                })?;
                match Record::from_raw(raw) {
                    Some(record) => into.push(record),
                    None => skipped += 1,
                }
            }
            left -= part.len();
            offset += part.as_bytes().len() as u64;
        }
        Ok(skipped)
    }
}

impl Stream {
    /// Ranges of time, in ticks, in which records of this stream are missing: overwritten between
    /// two blocks or before the first, or lost since there was no room. In order, not overlapping.
    pub fn unknown(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut reached = self.start;
        for block in &self.blocks {
            let empty = block.count == 0;
            if block.missing_before > 0 && !empty {
                ranges.push((reached.min(block.first), block.first));
            }
            if !empty {
                reached = reached.max(block.last);
            }
            if block.lost.count > 0 {
                ranges.push((block.lost.first, block.lost.last));
                reached = reached.max(block.lost.last);
            }
        }
        merged(ranges)
    }
}

/// The same ranges in order, with those that touch made one.
fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, end)) if from <= *end => *end = (*end).max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Gathers the blocks of each stream. A sequence that does not grow begins another stream: the
/// kernel gave the thread id again.
fn streams(entries: &[(StreamKind, IndexEntry)], start: u64) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    // The latest stream of each key, and how many records it has had.
    let mut latest: HashMap<(StreamKind, u32, u32), (usize, u64)> = HashMap::new();
    for (kind, entry) in entries {
        let key = (*kind, entry.process, entry.id);
        let goes_on = latest.get(&key).copied().filter(|(at, _)| {
            streams[*at].blocks.last().is_none_or(|block| block.sequence < entry.sequence)
        });
        let (at, had) = goes_on.unwrap_or_else(|| {
            let (process, id) = (entry.process, entry.id);
            streams.push(Stream { kind: *kind, process, id, blocks: Vec::new(), start });
            (streams.len() - 1, 0)
        });
        streams[at].blocks.push(Block {
            sequence: entry.sequence,
            count: entry.count,
            torn: entry.torn,
            first: entry.first,
            last: entry.last,
            lost: LostRange { count: entry.lost, first: entry.lost_first, last: entry.lost_last },
            missing_before: entry.before.saturating_sub(had),
            offset: entry.offset,
        });
        let here = u64::from(entry.count) + u64::from(entry.torn);
        // The larger one: a handler that took a block between two of its thread's counts anew.
        let had = entry.before.max(had).saturating_add(here);
        latest.insert(key, (at, had));
    }
    streams.sort_by_key(|stream| stream.kind);
    streams
}

/// The file and its size, for reads that are checked.
#[derive(Debug)]
struct Source {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Source, Error> {
        // Before it is opened: to open a pipe waits for its writer.
        let found = std::fs::metadata(path).map_err(Error::file(path, "read"))?;
        if !found.is_file() {
            return Err(Error::NotRegular { file: path.to_owned() });
        }
        let file = File::open(path).map_err(Error::file(path, "read"))?;
        let bytes = file.metadata().map_err(Error::file(path, "read"))?.len();
        Ok(Source { file, path: path.to_owned(), bytes })
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<(), Error> {
        self.file.read_exact_at(into, offset).map_err(Error::file(&self.path, "read"))
    }

    fn expect(
        &self,
        holds: bool,
        offset: u64,
        field: &'static str,
        found: u64,
        expected: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if holds {
            return Ok(());
        }
        Err(Error::Value { file: self.path.clone(), offset, field, found, expected: expected() })
    }

    fn zeros(&self, zeros: bool, offset: u64) -> Result<(), Error> {
        self.expect(zeros, offset, "a reserved field", 1, || "zeros".into())
    }

    fn version(&self, offset: u64, found: u32) -> Result<(), Error> {
        let (file, expected) = (self.path.clone(), FLOW_VERSION);
        if (VERSION..=FLOW_VERSION).contains(&found) {
            return Ok(());
        }
        Err(Error::Version { file, offset, found, expected })
    }

    fn check_header(&self) -> Result<(), Error> {
        let mut bytes = [0; HEADER_BYTES as usize];
        let there = bytes.len().min(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        self.read_at(&mut bytes[..there], 0)?;
        let header = Header::read_from_bytes(&bytes).expect("as many bytes as a header has");
        if header.magic != MAGIC {
            let found = bytes[..there.min(MAGIC.len())].to_vec();
            return Err(Error::NotATrace { file: self.path.clone(), found });
        }
        if self.bytes < HEADER_BYTES + FOOTER_BYTES {
            return Err(self.incomplete());
        }
        self.version(0, header.version)?;
        self.zeros(header.reserved == [0; 13], 0)
    }

    fn incomplete(&self) -> Error {
        Error::Incomplete { file: self.path.clone(), bytes: self.bytes, footer: FOOTER_BYTES }
    }

    /// The footer, after it was checked that the parts that it names fill the file.
    fn footer(&self) -> Result<Footer, Error> {
        // The header's check has seen that there is room for both.
        let offset = self.bytes - FOOTER_BYTES;
        let mut bytes = [0; FOOTER_BYTES as usize];
        self.read_at(&mut bytes, offset)?;
        let footer = Footer::read_from_bytes(&bytes).expect("as many bytes as a footer has");
        if footer.magic != END_MAGIC {
            return Err(self.incomplete());
        }
        self.version(offset, footer.version)?;
        self.zeros(footer.reserved == 0 && footer.reserved_end == [0; 2], offset)?;
        self.limit("blocks", footer.index_count, MOST_BLOCKS)?;
        self.limit("bytes of metadata", footer.metadata_bytes, MOST_METADATA_BYTES)?;
        let index_bytes = footer.index_count * ENTRY_BYTES;
        let (index, metadata) = (footer.index_offset, footer.metadata_offset);
        self.part("index", index, index_bytes, HEADER_BYTES, metadata)?;
        self.part("metadata", metadata, footer.metadata_bytes, HEADER_BYTES, offset)?;
        Ok(footer)
    }

    fn limit(&self, part: &'static str, found: u64, limit: u64) -> Result<(), Error> {
        if found <= limit {
            return Ok(());
        }
        Err(Error::TooLarge { file: self.path.clone(), part, found, limit })
    }

    /// Checks that a part begins at `from` or later and ends at `to`.
    fn part(
        &self,
        part: &'static str,
        offset: u64,
        bytes: u64,
        from: u64,
        to: u64,
    ) -> Result<(), Error> {
        if offset >= from && offset.checked_add(bytes) == Some(to) && to <= self.bytes {
            return Ok(());
        }
        Err(Error::Bounds { file: self.path.clone(), part, offset, bytes, from, to })
    }

    /// The index, after each entry was checked, and that the blocks fill the space before it.
    fn index(&self, footer: &Footer) -> Result<Vec<(StreamKind, IndexEntry)>, Error> {
        let count = footer.index_count as usize;
        let mut entries = vec![IndexEntry::new_zeroed(); count];
        self.read_at(entries.as_mut_bytes(), footer.index_offset)?;
        let mut end = HEADER_BYTES;
        let mut checked = Vec::with_capacity(count);
        for (entry, at) in entries.iter().zip((footer.index_offset..).step_by(ENTRY_BYTES as usize))
        {
            let kind = self.entry(entry, at)?;
            let bytes = u64::from(entry.count) * RECORD_BYTES;
            let next = end + bytes;
            if entry.offset != end || next > footer.index_offset {
                let (file, part, to) = (self.path.clone(), "block", footer.index_offset);
                return Err(Error::Bounds {
                    file,
                    part,
                    offset: entry.offset,
                    bytes,
                    from: end,
                    to,
                });
            }
            end = next;
            checked.push((kind, *entry));
        }
        let (from, to, offset) = (HEADER_BYTES, footer.index_offset, HEADER_BYTES);
        self.part("records", offset, end - HEADER_BYTES, from, to)?;
        Ok(checked)
    }

    fn entry(&self, entry: &IndexEntry, at: u64) -> Result<StreamKind, Error> {
        let kind = StreamKind::from_code(entry.stream);
        self.expect(kind.is_some(), at, "stream", entry.stream.into(), || "0 to 3".into())?;
        self.expect(entry.first <= entry.last, at, "first", entry.first, || {
            format!("at most last, {}", entry.last)
        })?;
        self.expect(entry.count > 0 || entry.last == 0, at, "last", entry.last, || {
            "0 in a block without records".into()
        })?;
        self.expect(
            entry.lost_first <= entry.lost_last,
            at,
            "lost_first",
            entry.lost_first,
            || format!("at most lost_last, {}", entry.lost_last),
        )?;
        self.expect(
            entry.lost > 0 || entry.lost_last == 0,
            at,
            "lost_last",
            entry.lost_last,
            || "0 where nothing was lost".into(),
        )?;
        self.zeros(entry.reserved == [0; 2], at)?;
        Ok(kind.expect("checked above"))
    }

    fn metadata(&self, footer: &Footer) -> Result<Metadata, Error> {
        let offset = footer.metadata_offset;
        let mut text = vec![0; footer.metadata_bytes as usize];
        self.read_at(&mut text, offset)?;
        serde_json::from_slice(&text).map_err(|reason| Error::Metadata {
            file: self.path.clone(),
            offset,
            reason,
        })
    }
}
