//! Work that lives on memory traffic, to be regulated: the hog, as IsolBench's `bandwidth`.
//!
//! A [`Hog`] is a thread on one core that walks through an array again and again, in order, and
//! touches one word of each cache line: it reads it ([`Access::Read`]), writes it
//! ([`Access::Write`]), or both ([`Access::ReadWrite`]); [`Access::Fresh`] writes to pages that are
//! new each time. How much of that is memory traffic, the
//! array's [`Size`] decides: twice the last-level cache is memory traffic only, half of the L1
//! data cache is none, which makes it the compute-bound counterpart. It counts what it touched,
//! so that its bandwidth can be told at any time.
//!
//! A line that is written is fetched first and written back later: of a write stream, the memory
//! moves twice the bytes that are counted.
//!
//! ```no_run
//! use bandwidth::workload::{Access, Hog, Size};
//! use std::time::{Duration, Instant};
//!
//! let hog = Hog::start(1, Access::Write, Size::TwiceLlc)?;
//! hog.resume();
//! let (before, since) = (hog.bytes(), Instant::now());
//! std::thread::sleep(Duration::from_secs(1));
//! let mb_per_s = (hog.bytes() - before) as f64 / since.elapsed().as_secs_f64() / 1e6;
//! # let _ = mb_per_s;
//! # Ok::<(), bandwidth::workload::Error>(())
//! ```

mod array;
mod cache;
mod hog;

pub use array::{Access, LINE_BYTES, PAGE_BYTES};
pub use cache::{Caches, Size};
pub use hog::Hog;

use std::path::PathBuf;

/// Reason for which a hog cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not say how large a cache is.
    #[error("{path}: {found}; give the size in bytes instead")]
    Cache {
        /// File in which the kernel would say so.
        path: PathBuf,
        /// Content that was found there.
        found: String,
    },
    /// The array is too small or too large.
    #[error("array size: found {bytes} bytes, expected at least {least} bytes and memory for them")]
    Room {
        /// Number of bytes that was asked for.
        bytes: usize,
        /// Smallest possible number of bytes: one cache line.
        least: usize,
    },
    /// The core cannot be used.
    #[error(transparent)]
    Core(#[from] realtime::Error),
    /// There is no thread to be had.
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}
