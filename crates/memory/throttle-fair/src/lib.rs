//! Throttle-fair scheduling (BWLOCK++, section IV-C) on kernels with sched_ext.
//!
//! [`load`] loads the scheduler of `scheduler/throttle_fair.bpf.c` as a rule for a regulator of the
//! crate `bandwidth`, which tells it who is managed, when a period begins and who has made a core
//! stop. It takes the feature `sched-ext`, and clang to build that; without it [`load`] says so.
//!
//! ```no_run
//! use bandwidth::regulator::{Budget, Config, Managed, Regulator};
//!
//! let rho = 3.0;
//! let mut config = Config::new(vec![1], Budget::Share(0.1));
//! config.rho = Some(rho);
//! config.managed = vec![Managed::Process(4711)];
//! let loaded = throttle_fair::load(rho)?;
//! let regulator = Regulator::start_with(config, loaded.rule)?;
//! if let Some(trouble) = (loaded.watch)() {
//!     eprintln!("{trouble}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `ThrottleFair` is the scheduler itself, for who regulates in another way.

mod choice;
mod error;
mod kernel;
#[cfg(feature = "sched-ext")]
mod policy;
#[cfg(feature = "sched-ext")]
mod rule;
#[cfg(feature = "sched-ext")]
mod scheduler;
#[cfg(feature = "sched-ext")]
mod slots;

pub use choice::{By, Chosen, Regulated, StartError};
pub use error::Error;
pub use kernel::available;
#[cfg(feature = "sched-ext")]
pub use rule::load;
#[cfg(feature = "sched-ext")]
pub use scheduler::{TaskStatistics, ThrottleFair};

use bandwidth::regulator::Rule;

/// Function that returns the trouble with the scheduler since it was loaded, if there was any: the
/// kernel has ended it, or did not let it manage a thread. To be asked now and then.
pub type Watch = Box<dyn Fn() -> Option<String> + Send>;

/// The scheduler, loaded.
pub struct Loaded {
    /// Rule for [`Regulator::start_with`](bandwidth::regulator::Regulator::start_with); when the
    /// regulator ends, so does the scheduler, and threads have the policies that they had.
    pub rule: Box<dyn Rule>,
    /// Check that all is well with it.
    pub watch: Watch,
}

/// Loads the scheduler, which this build does not have.
///
/// # Errors
/// [`Error::NotBuilt`].
#[cfg(not(feature = "sched-ext"))]
pub fn load(_rho: f64) -> Result<Loaded, Error> {
    Err(Error::NotBuilt)
}
