//! The bytes of a trace file, version [`record::VERSION`]; with records of a dataflow graph, version
//! [`record::FLOW_VERSION`], and nothing else is different.
//!
//! ```text
//!   header    64    magic "KEEPTIME", version u32, zeros
//!   records   32 each, block after block: record::Raw with lap 0
//!   index     96 each: one IndexEntry for each block, in the order of the blocks
//!   metadata  JSON: metadata::Metadata
//!   footer    64    magic "KEEPTEND", version u32, 0 u32, where index and metadata are, zeros
//!
//!   index entry
//!   byte 0        4        8     12         16      20     24      32     40       48
//!        +--------+--------+-----+----------+-------+------+-------+------+--------+
//!        | stream | process| id  | sequence | count | torn | first | last | before |
//!        +--------+--------+-----+--+-------+---+---+------+-------+------+--------+
//!        | lost   | lost_first      | lost_last | offset       | zeros             |
//!        48       56                64          72             80                  96
//! ```
//!
//! All numbers are little endian. Nothing lies between the parts.

use record::Raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[cfg(not(target_endian = "little"))]
compile_error!("traces are little endian, and are read and written without conversion");

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"KEEPTIME";
/// The first bytes of its footer.
pub const END_MAGIC: [u8; 8] = *b"KEEPTEND";
/// Bytes of a record.
pub const RECORD_BYTES: u64 = size_of::<Raw>() as u64;
/// Bytes of the header.
pub const HEADER_BYTES: u64 = size_of::<Header>() as u64;
/// Bytes of an index entry.
pub const ENTRY_BYTES: u64 = size_of::<IndexEntry>() as u64;
/// Bytes of the footer.
pub const FOOTER_BYTES: u64 = size_of::<Footer>() as u64;
/// Most blocks of a trace: a quarter of a terabyte of full ones.
pub const MOST_BLOCKS: u64 = 1 << 22;
/// Most bytes of metadata.
pub const MOST_METADATA_BYTES: u64 = 256 << 20;

/// The beginning of a file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`record::VERSION`] or [`record::FLOW_VERSION`].
    pub version: u32,
    /// Zeros.
    pub reserved: [u32; 13],
}

/// Position and description of one block of records.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct IndexEntry {
    /// 0 thread, 1 processor, 2 GPU, 3 dataflow graph.
    pub stream: u32,
    /// Process number; 0 for processors.
    pub process: u32,
    /// Thread id, number of the processor, or number of the GPU.
    pub id: u32,
    /// Number of the stream's blocks before this one, in the file or not.
    pub sequence: u32,
    /// Records in the block.
    pub count: u32,
    /// Records that their writer did not finish.
    pub torn: u32,
    /// Ticks of the earliest record; 0 for no record.
    pub first: u64,
    /// Ticks of the latest record; 0 for no record.
    pub last: u64,
    /// Records that the stream had before this block.
    pub before: u64,
    /// Records that were lost after this block.
    pub lost: u64,
    /// Ticks of the first lost record; 0 for none.
    pub lost_first: u64,
    /// Ticks of the last lost record; 0 for none.
    pub lost_last: u64,
    /// Offset of the block's first record.
    pub offset: u64,
    /// Zeros.
    pub reserved: [u64; 2],
}

/// The end of a file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Footer {
    /// [`END_MAGIC`].
    pub magic: [u8; 8],
    /// [`record::VERSION`] or [`record::FLOW_VERSION`].
    pub version: u32,
    /// Zero.
    pub reserved: u32,
    /// Offset of the index; the records end there.
    pub index_offset: u64,
    /// Entries of the index.
    pub index_count: u64,
    /// Offset of the metadata; the index ends there.
    pub metadata_offset: u64,
    /// Bytes of the metadata; the footer comes after them.
    pub metadata_bytes: u64,
    /// Zeros.
    pub reserved_end: [u64; 2],
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Raw>() == 32);
    assert!(size_of::<Header>() == 64);
    assert!(size_of::<IndexEntry>() == 96);
    assert!(size_of::<Footer>() == 64);
    assert!(offset_of!(IndexEntry, count) == 16);
    assert!(offset_of!(IndexEntry, first) == 24);
    assert!(offset_of!(IndexEntry, before) == 40);
    assert!(offset_of!(IndexEntry, lost) == 48);
    assert!(offset_of!(IndexEntry, offset) == 72);
    assert!(offset_of!(Footer, index_offset) == 16);
};
