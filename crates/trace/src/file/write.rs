//! Writes a trace: blocks of records as they come, then the index, the metadata and the footer.
//!
//! The file grows as `PATH.partial-PID`, readable by its owner only since a trace tells much about
//! a program, and gets its name when it is whole. A writer that is dropped removes it.

use super::StreamKind;
use super::layout::{
    END_MAGIC, ENTRY_BYTES, Footer, HEADER_BYTES, Header, IndexEntry, MAGIC, MOST_BLOCKS,
    MOST_METADATA_BYTES, RECORD_BYTES,
};
use crate::Error;
use crate::metadata::{LostRange, Metadata};
use record::{FLOW_VERSION, Raw, VERSION};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
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
}

/// What is known of a block beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// What kind of stream it belongs to.
    pub stream: StreamKind,
    /// Process number; 0 for processors.
    pub process: u32,
    /// Thread id, number of the processor, or number of the GPU; 0 for a graph.
    pub id: u32,
    /// How many blocks the stream had before this one, in the file or not.
    pub sequence: u32,
    /// Records of this block that their writer did not finish.
    pub torn: u32,
    /// Records that the stream had before this block, in the file or not.
    pub before: u64,
    /// What was lost after this block.
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

    /// As [`TraceWriter::create`], for a trace of dataflow graphs.
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
            options.write(true).create_new(true).mode(0o600).open(&partial.0)
        };
        // One that is there is the remains of a process with our id, which is dead.
        let file = create().or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(&partial.0).and_then(|()| create())
            }
            _ => Err(error),
        });
        let file = BufWriter::with_capacity(1 << 18, file.map_err(Error::file(&path, "written"))?);
        let mut writer =
            TraceWriter { file, path, version, partial, records: 0, index: Vec::new() };
        writer.put(Header { magic: MAGIC, version, reserved: [0; 13] }.as_bytes())?;
        Ok(writer)
    }

    /// Adds a block. The blocks of a stream come in the order of their sequence; one that does
    /// not come after the one before begins another stream with the same id.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written, [`Error::TooLarge`] for too many blocks.
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
            self.put(Raw { lap: 0, ..*record }.as_bytes())?;
        }
        self.records += u64::from(count);
        Ok(())
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
        let index_offset = HEADER_BYTES + self.records * RECORD_BYTES;
        let index_count = self.index.len() as u64;
        let index = std::mem::take(&mut self.index);
        self.put(index.as_bytes())?;
        let text = serde_json::to_vec(metadata).map_err(io::Error::from);
        let text = text.map_err(Error::file(&self.path, "written"))?;
        let (found, limit) = (text.len() as u64, MOST_METADATA_BYTES);
        if found > limit {
            let part = "bytes of metadata";
            return Err(Error::TooLarge { file: self.path.clone(), part, found, limit });
        }
        self.put(&text)?;
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
        self.put(footer.as_bytes())?;
        self.file.flush().map_err(Error::file(&self.path, "written"))?;
        std::fs::rename(&self.partial.0, &self.path).map_err(Error::file(&self.path, "written"))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::file(&self.path, "written"))
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
