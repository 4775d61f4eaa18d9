//! The trace file: [`mod@write`] makes one from blocks of records, [`read`] opens and checks one.
//!
//! A file is a list of blocks. A block belongs to a stream: a thread, a processor of the machine,
//! or a GPU. [`layout`] has the bytes.

pub mod layout;
pub mod read;
pub mod write;

pub use read::{Block, Stream, StreamKind, Trace};
pub use write::{BlockHead, Kept, TraceWriter};
