//! Throttle-fair scheduling (document 001, BWLOCK++, section IV-C) on kernels with sched_ext.
//!
//! [`ThrottleFair`] loads the scheduler of `sched/throttle_fair.bpf.c`, gives it the threads that it
//! is to manage, and charges them for the time for which a core was stopped because of them. It is
//! there with the feature `sched-ext`, which takes clang. [`experiment`] is what shows the effect:
//! the program `throttle-fair-experiment`.
//!
//! ```no_run
//! # #[cfg(feature = "sched-ext")] {
//! use std::time::Duration;
//!
//! let mut scheduler = throttle_fair::ThrottleFair::load(3.0)?;
//! scheduler.manage(4711)?;
//! scheduler.charge(4711, Duration::from_micros(667));
//! for task in scheduler.tasks() {
//!     println!("{}: {} ns", task.tid, task.virtual_ns);
//! }
//! # }
//! # Ok::<(), throttle_fair::Error>(())
//! ```

mod error;
pub mod experiment;
#[cfg(feature = "sched-ext")]
mod policy;
#[cfg(feature = "sched-ext")]
mod scheduler;
#[cfg(feature = "sched-ext")]
mod slots;

pub use error::Error;
#[cfg(feature = "sched-ext")]
pub use scheduler::{TaskStatistics, ThrottleFair};
