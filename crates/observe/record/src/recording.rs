//! A recording: the memory that a recorded program's processes write to, held by the recorder.

use crate::{Error, Settings, Side};
use shm::log::{AREA_CHUNKS, CHUNK_BYTES, Keep, Log};
use shm::{Mapping, Segment};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The memory of one recording.
#[derive(Debug)]
pub struct Recording {
    segment: Segment,
    mapping: Arc<Mapping>,
    keep: Keep,
}

impl Recording {
    /// Takes memory for about `bytes` bytes of records, all of it now, so that no process that
    /// writes to it later finds it missing.
    ///
    /// # Errors
    /// [`Error::TooSmall`] below one chunk, [`Error::Memory`] when there is not that much,
    /// [`Error::TooManyLibraries`] and [`Error::LongSocket`] when what is to be told does not fit.
    pub fn create(bytes: u64, settings: &Settings) -> Result<Recording, Error> {
        let least = CHUNK_BYTES as u64;
        if bytes < least {
            return Err(Error::TooSmall { bytes, least });
        }
        if let Some(bandwidth) = &settings.bandwidth {
            let limit = crate::bandwidth::SOCKET_BYTES;
            if bandwidth.socket.as_os_str().len() > limit {
                return Err(Error::LongSocket { path: bandwidth.socket.clone(), limit });
            }
        }
        let chunks = bytes.div_ceil(least) + u64::from(AREA_CHUNKS);
        let size = usize::try_from(chunks * least).map_err(|_| Error::TooSmall { bytes, least })?;
        let memory = |source| Error::Memory { bytes: size as u64, source };
        let segment = Segment::create("keeptime-record", size).map_err(memory)?;
        segment.reserve().map_err(memory)?;
        let mapping = segment.map().map_err(memory)?;
        let keep = if settings.keep_last { Keep::Last } else { Keep::First };
        let recording = Recording { segment, mapping, keep };
        if !recording.side().begin(settings, size) {
            return Err(Error::TooManyLibraries { limit: crate::side::LIBRARIES_BYTES });
        }
        Ok(recording)
    }

    /// Its memory file, to be passed to the processes that record.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.segment.as_fd()
    }

    /// Size of the memory file in bytes.
    pub fn size(&self) -> usize {
        self.segment.size()
    }

    /// Settings and names.
    pub fn side(&self) -> Side {
        // SAFETY: the mapping has all chunks of the area, and lives as long as `self`; the
        // returned value is used while `self` is borrowed by its callers in this process.
        unsafe { Side::over(self.mapping.base().as_ptr()) }
    }

    /// The records.
    pub fn log(&self) -> Log {
        // SAFETY: as for `side`.
        let log =
            unsafe { Log::over(self.mapping.base().as_ptr(), self.mapping.size(), self.keep) };
        log.expect("`create` made room for at least one chunk")
    }
}
