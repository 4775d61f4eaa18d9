//! Writes a trace: blocks of records as they come, then the index, the metadata and the footer.
//!
//! The file grows as `PATH.partial-PID`, readable by its owner only since a trace tells much about
//! a program, and gets its name when it is whole. A writer that is dropped removes it.
//!
//! If the file cannot grow any more, as on a full disk, the writer leaves out all later blocks, and
//! as many earlier ones as needed to make room for the index, the metadata and the footer.

use super::StreamKind;
use super::layout::{
    END_MAGIC, ENTRY_BYTES, Footer, HEADER_BYTES, Header, IndexEntry, MAGIC, MOST_BLOCKS,
    MOST_METADATA_BYTES, RECORD_BYTES,
};
use crate::Error;
use crate::metadata::{LostRange, Metadata, TroubleCount};
use record::{FLOW_VERSION, Raw, VERSION};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// Writes one trace file.
#[derive(Debug)]
pub struct TraceWriter {
    file: BufWriter<File>,
    path: PathBuf,
    version: u32,
    partial: Partial,
    records: u64,
    index: Vec<IndexEntry>,
    /// The first write error; after it nothing more is written.
    full: Option<io::Error>,
}

/// Result of writing a trace as far as it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Path of the trace: elsewhere than wanted if its folder has gone, or may not be written to.
    pub file: PathBuf,
    /// Records that are not in it.
    pub left_out: u64,
    /// Reason why records are not in it, or why it is elsewhere.
    pub reason: Option<String>,
}

/// Description of a block without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// Kind of the stream that the block belongs to.
    pub stream: StreamKind,
    /// Process number; 0 for processors.
    pub process: u32,
    /// Thread id, number of the processor, or number of the GPU; 0 for a graph.
    pub id: u32,
    /// Number of the stream's blocks before this one, in the file or not.
    pub sequence: u32,
    /// Records of this block that their writer did not finish.
    pub torn: u32,
    /// Records that the stream had before this block, in the file or not.
    pub before: u64,
    /// Records that were lost after this block.
    pub lost: LostRange,
}

impl TraceWriter {
    /// Begins a trace that will replace whatever file is at `path`.
    ///
    /// # Errors
    /// [`Error::NotRegular`] when something other than a file is there, [`Error::File`] when the
    /// directory cannot be written to.
    pub fn create(path: &Path) -> Result<TraceWriter, Error> {
        TraceWriter::create_version(path, VERSION)
    }

    /// Creates a file as [`TraceWriter::create`] does, for a trace of dataflow graphs.
    ///
    /// # Errors
    /// As [`TraceWriter::create`].
    pub fn create_flow(path: &Path) -> Result<TraceWriter, Error> {
        TraceWriter::create_version(path, FLOW_VERSION)
    }

    fn create_version(path: &Path, version: u32) -> Result<TraceWriter, Error> {
        let path = destination(path)?;
        let partial = Partial(partial_name(&path));
        let create = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600).open(&partial.0)
        };
        // One that is there is the remains of a process with our id, which is dead.
        let file = create().or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(&partial.0).and_then(|()| create())
            }
            _ => Err(error),
        });
        let file = BufWriter::with_capacity(1 << 18, file.map_err(Error::file(&path, "written"))?);
        let (records, index, full) = (0, Vec::new(), None);
        let mut writer = TraceWriter { file, path, version, partial, records, index, full };
        writer.put(Header { magic: MAGIC, version, reserved: [0; 13] }.as_bytes());
        Ok(writer)
    }

    /// Adds a block. The blocks of a stream come in the order of their sequence; one that does
    /// not come after the one before begins another stream with the same id. Whether it could be
    /// written is told at the end.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for too many blocks.
    pub fn block(&mut self, head: BlockHead, records: &[Raw]) -> Result<(), Error> {
        let too_large = |part, found: usize, limit| Error::TooLarge {
            file: self.path.clone(),
            part,
            found: found as u64,
            limit,
        };
        if self.index.len() as u64 == MOST_BLOCKS {
            return Err(too_large("blocks", self.index.len() + 1, MOST_BLOCKS));
        }
        let count = u32::try_from(records.len())
            .map_err(|_| too_large("records of a block", records.len(), u32::MAX.into()))?;
        let times = || records.iter().map(|record| record.time);
        self.index.push(IndexEntry {
            stream: head.stream.code(),
            process: head.process,
            id: head.id,
            sequence: head.sequence,
            count,
            torn: head.torn,
            first: times().min().unwrap_or(0),
            last: times().max().unwrap_or(0),
            before: head.before,
            lost: head.lost.count,
            lost_first: head.lost.first,
            lost_last: head.lost.last,
            offset: HEADER_BYTES + self.records * RECORD_BYTES,
            reserved: [0; 2],
        });
        for record in records {
            self.put(Raw { lap: 0, ..*record }.as_bytes());
        }
        self.records += u64::from(count);
        Ok(())
    }

    /// Forgets what another process wrote to the file that had this writer, too.
    ///
    /// # Errors
    /// The operating system's reason.
    pub(crate) fn rewind(&self) -> io::Result<()> {
        let mut file = self.file.get_ref();
        file.set_len(0)?;
        file.rewind()
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Ends the trace and gives it its name.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written, [`Error::TooLarge`] for too much metadata.
    pub fn finish(mut self, metadata: &Metadata) -> Result<(), Error> {
        let flushed = self.flush();
        let (ending, index) = self.into_ending();
        flushed.map_err(Error::file(&ending.path, "written"))?;
        ending.write(&index, metadata)?.map_err(Error::file(&ending.path, "written"))?;
        std::fs::rename(&ending.partial.0, &ending.path)
            .map_err(Error::file(&ending.path, "written"))
    }

    /// Ends the trace with as much as there is room for, and gives it its name, or one in the
    /// folder for temporary files. What is missing is told in the trace, too.
    ///
    /// # Errors
    /// [`Error::File`] when nothing can be written, [`Error::TooLarge`] for too much metadata.
    pub fn finish_with_what_fits(mut self, metadata: &Metadata) -> Result<Kept, Error> {
        let mut reason = self.flush().err();
        let (ending, all) = self.into_ending();
        let mut kept = all.len();
        if reason.is_some() {
            let written = ending.file.metadata().map_or(0, |about| about.len());
            kept = all.partition_point(|entry| end_of(entry) <= written);
        }
        loop {
            let (index, metadata) = without(&all, kept, metadata, reason.as_ref());
            match ending.write(&index, &metadata)? {
                Ok(()) => break,
                Err(error) if kept == 0 => {
                    return Err(Error::file(&ending.path, "written")(error));
                }
                Err(error) => {
                    reason.get_or_insert(error);
                    kept -= kept.div_ceil(8);
                }
            }
        }
        let left_out = all[kept..].iter().map(|entry| u64::from(entry.count)).sum();
        let mut reason = reason.map(|reason| reason.to_string());
        let mut file = ending.path.clone();
        if let Err(error) = std::fs::rename(&ending.partial.0, &ending.path) {
            file = ending.save_elsewhere().map_err(Error::file(&ending.path, "written"))?;
            reason = Some(format!("{}: {error}", ending.path.display()));
        }
        Ok(Kept { file, left_out, reason })
    }

    /// The file without what is still in the buffer, and the index.
    fn into_ending(self) -> (Ending, Vec<IndexEntry>) {
        let TraceWriter { file, path, version, partial, index, .. } = self;
        let (file, _) = file.into_parts();
        (Ending { file, path, version, partial }, index)
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.full.is_none() {
            self.full = self.file.write_all(bytes).err();
        }
    }

    /// Writes what is in the buffer, unless something could not be written before.
    fn flush(&mut self) -> io::Result<()> {
        match self.full.take() {
            Some(reason) => Err(reason),
            None => self.file.flush(),
        }
    }
}

/// A file to which no more records come.
struct Ending {
    file: File,
    path: PathBuf,
    version: u32,
    partial: Partial,
}

impl Ending {
    /// Writes what belongs behind the blocks of `index`, which are all that stay.
    fn write(&self, index: &[IndexEntry], metadata: &Metadata) -> Result<io::Result<()>, Error> {
        let index_offset = index.last().map_or(HEADER_BYTES, end_of);
        let index_count = index.len() as u64;
        let text = serde_json::to_vec(metadata).map_err(io::Error::from);
        let text = text.map_err(Error::file(&self.path, "written"))?;
        let (found, limit) = (text.len() as u64, MOST_METADATA_BYTES);
        if found > limit {
            let part = "bytes of metadata";
            return Err(Error::TooLarge { file: self.path.clone(), part, found, limit });
        }
        let footer = Footer {
            magic: END_MAGIC,
            version: self.version,
            reserved: 0,
            index_offset,
            index_count,
            metadata_offset: index_offset + index_count * ENTRY_BYTES,
            metadata_bytes: found,
            reserved_end: [0; 2],
        };
        Ok(end_at(&self.file, index_offset, &[index.as_bytes(), &text, footer.as_bytes()]))
    }

    /// Copies the file, whose folder has gone or may not be written to, to where there is one.
    fn save_elsewhere(&self) -> io::Result<PathBuf> {
        let name = self.path.file_name().unwrap_or_default();
        let mut elsewhere = std::ffi::OsString::from(format!("keeptime-{}-", std::process::id()));
        elsewhere.push(name);
        let path = std::env::temp_dir().join(elsewhere);
        let mut options = OpenOptions::new();
        let mut copy = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let mut file = &self.file;
        file.rewind()?;
        if let Err(error) = io::copy(&mut file, &mut copy) {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        Ok(path)
    }
}

impl AsFd for TraceWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.get_ref().as_fd()
    }
}

/// Returns the offset at which a block's records end.
fn end_of(entry: &IndexEntry) -> u64 {
    entry.offset + u64::from(entry.count) * RECORD_BYTES
}

fn end_at(mut file: &File, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    file.set_len(offset)?;
    file.seek(io::SeekFrom::Start(offset))?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// The index and the metadata of a trace in which only the first blocks are `kept`: the others'
/// records count as lost.
fn without(
    all: &[IndexEntry],
    kept: usize,
    metadata: &Metadata,
    reason: Option<&io::Error>,
) -> (Vec<IndexEntry>, Metadata) {
    let (mut index, mut metadata) = (all[..kept].to_vec(), metadata.clone());
    let key = |entry: &IndexEntry| (entry.stream, entry.process, entry.id);
    let latest: HashMap<_, usize> =
        index.iter().enumerate().map(|(at, entry)| (key(entry), at)).collect();
    let mut left_out = 0;
    for entry in &all[kept..] {
        left_out += u64::from(entry.count);
        let count = u64::from(entry.count) + entry.lost;
        let first = [entry.first, entry.lost_first].into_iter().filter(|time| *time > 0).min();
        let Some(first) = first.filter(|_| count > 0) else { continue };
        let lost = LostRange { count, first, last: entry.last.max(entry.lost_last) };
        match latest.get(&key(entry)) {
            Some(at) => {
                let before = &mut index[*at];
                let range = LostRange {
                    count: before.lost,
                    first: before.lost_first,
                    last: before.lost_last,
                };
                let both = joined(range, lost);
                (before.lost, before.lost_first, before.lost_last) =
                    (both.count, both.first, both.last);
            }
            None if entry.stream == StreamKind::Thread.code() => {
                metadata.lost_without_chunk = joined(metadata.lost_without_chunk, lost);
            }
            None => {}
        }
    }
    if let Some(reason) = reason.filter(|_| left_out > 0) {
        let trouble = format!("records were left out of the trace, which could not grow: {reason}");
        metadata.troubles.push(TroubleCount { trouble, count: left_out });
    }
    (index, metadata)
}

fn joined(one: LostRange, other: LostRange) -> LostRange {
    if one.count == 0 {
        return other;
    }
    LostRange {
        count: one.count.saturating_add(other.count),
        first: one.first.min(other.first),
        last: one.last.max(other.last),
    }
}

/// The unfinished file. After the file has its name, there is nothing to be removed any more.
#[derive(Debug)]
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The file that is meant: where a link leads, and never a device, which a rename would replace.
fn destination(path: &Path) -> Result<PathBuf, Error> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => {
            std::fs::canonicalize(path).map_err(Error::file(path, "written"))
        }
        Ok(_) => Err(Error::NotRegular { file: path.to_owned() }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::file(path, "written")(error))
        }
        Err(_) if path.file_name().is_none() => Err(Error::NotRegular { file: path.to_owned() }),
        Err(_) => Ok(path.to_owned()),
    }
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    PathBuf::from(name)
}
