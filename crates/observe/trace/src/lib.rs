//! Traces: recorded, written, read back.
//!
//! - [`mod@file`]: the trace file, written by [`TraceWriter`] and read by [`Trace`].
//! - [`kernel`]: what happens around the program, as the kernel tells it.
//! - [`metadata`]: what a trace says about itself.
//! - [`session`]: runs a program, recorded, and writes its trace.
//!
//! ```no_run
//! use trace::{StreamKind, Trace};
//! let trace = Trace::open("t.kt".as_ref())?;
//! let mut records = Vec::new();
//! for stream in trace.streams().iter().filter(|stream| stream.kind == StreamKind::Thread) {
//!     for block in &stream.blocks {
//!         trace.read(block, &mut records)?;
//!         println!("thread {}: {} records", stream.id, records.len());
//!     }
//! }
//! # Ok::<(), trace::Error>(())
//! ```

pub mod error;
pub mod file;
pub mod kernel;
pub mod metadata;
pub mod session;

pub use error::Error;
pub use file::{Block, BlockHead, Stream, StreamKind, Trace, TraceWriter};
pub use metadata::Metadata;
