//! The session's segment: one ring for requests, one cell for each completion. Version 1.
//!
//! ```text
//!   byte 0        64                4288              8384      12288
//!        +--------+-----------------+-----------------+---------+
//!        | header | ring (64 slots) | 64 completions  | unused  |
//!        +--------+-----------------+-----------------+---------+
//! ```
//!
//! The server creates and seals the segment; the client maps it and checks the header.

use crate::Error;
use crate::request::VERSION;
use shm::ring::CAPACITY;
use shm::{CompletionCell, Mapping, Ring};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Requests that may be outstanding in one session.
pub const SLOTS: usize = CAPACITY as usize;

/// Size of the segment in bytes.
pub const SEGMENT_BYTES: usize = 12288;

const MAGIC: u64 = u64::from_le_bytes(*b"keeptime");

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    slots: AtomicU32,
}

#[repr(C)]
struct Layout {
    header: Header,
    ring: Ring,
    completions: [CompletionCell; SLOTS],
}

const _: () = {
    assert!(std::mem::offset_of!(Layout, ring) == 64);
    assert!(std::mem::offset_of!(Layout, completions) == 4288);
    assert!(std::mem::size_of::<Layout>() == 8384);
    assert!(std::mem::size_of::<Layout>() <= SEGMENT_BYTES);
};

/// A mapped session segment.
#[derive(Clone)]
pub struct SessionMemory(Arc<Mapping>);

impl SessionMemory {
    /// Server: takes a fresh zeroed mapping and writes the header.
    ///
    /// # Panics
    /// If the mapping is smaller than [`SEGMENT_BYTES`].
    pub fn initialise(mapping: Arc<Mapping>) -> SessionMemory {
        assert!(mapping.size() >= SEGMENT_BYTES);
        let memory = SessionMemory(mapping);
        let header = &memory.layout().header;
        // Relaxed: the peer gets the segment afterwards, through a socket.
        header.version.store(VERSION, Ordering::Relaxed);
        header.slots.store(CAPACITY, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Relaxed);
        memory
    }

    /// Client: takes the server's mapping if it has the layout this code knows.
    ///
    /// # Errors
    /// [`Error::Protocol`] when size, magic, version or slots differ.
    pub fn attach(mapping: Arc<Mapping>) -> Result<SessionMemory, Error> {
        if mapping.size() < SEGMENT_BYTES {
            return Err(Error::Protocol("the server's session segment is too small".into()));
        }
        let memory = SessionMemory(mapping);
        let header = &memory.layout().header;
        let magic = header.magic.load(Ordering::Relaxed);
        let version = header.version.load(Ordering::Relaxed);
        let slots = header.slots.load(Ordering::Relaxed);
        if (magic, version, slots) != (MAGIC, VERSION, CAPACITY) {
            return Err(Error::Protocol(format!(
                "session segment of version {version} with {slots} slots, \
                 expected version {VERSION} with {CAPACITY}"
            )));
        }
        Ok(memory)
    }

    /// The request ring.
    pub fn ring(&self) -> &Ring {
        &self.layout().ring
    }

    /// A completion cell.
    pub fn completion(&self, slot: usize) -> Option<&CompletionCell> {
        self.layout().completions.get(slot)
    }

    fn layout(&self) -> &Layout {
        // SAFETY: `Layout` consists of atomics only, all valid for any bits, page alignment is
        // enough for it, and both constructors have checked the mapping's size.
        unsafe { self.0.structure::<Layout>() }
    }
}
