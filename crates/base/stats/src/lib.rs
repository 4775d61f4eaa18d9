//! Numbers that describe many measurements.
//!
//! - [`Layout`]: the buckets of every histogram here, log-linear.
//! - [`Shared`]: a histogram that any thread adds to without waiting, and any other reads.
//! - [`nearest_rank`], [`Summary`]: order statistics of samples that are all kept.
//!
//! A crate with the same layout exists (`hdrhistogram`), but a histogram of it takes 20 KiB or more
//! whatever its values are, and none of its histograms is written by one thread and read by another
//! without a lock or a copy.
#![forbid(unsafe_code)]

mod layout;
mod samples;
mod shared;

pub use layout::Layout;
pub use samples::{Summary, ascending, nearest_rank};
pub use shared::{Shared, Spread};
