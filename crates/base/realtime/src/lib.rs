//! The means that a thread needs to run on time: a priority, a core, a clock, a lock that hands its
//! holder the priority of the waiting threads, work of a known length, and a core that does not
//! sleep.
//!
//! The principal types are [`thread::Scheduling`] (who runs first on a core), [`mutex::PiMutex`]
//! (the priority-inheritance lock) and [`work::Calibration`] (how many iterations last how
//! long on this machine). [`awake`] keeps cores from idling, [`memory`] pages mapped; [`machine`] reads
//! what the kernel says of itself and of disturbance.
//!
//! ```
//! use realtime::{clock, thread, thread::Scheduling};
//!
//! // Without the privilege the thread stays an ordinary one and the error says how to get it.
//! if let Err(error) = thread::set_policy(Scheduling::Fifo(20)) {
//!     eprintln!("{error}");
//! }
//! let next = clock::monotonic_ns() + 1_000_000;
//! clock::sleep_until_ns(next);
//! assert!(clock::monotonic_ns() >= next);
//! ```
//!
//! Linux only. Nothing here allocates on a path that a real-time thread takes again and again:
//! clock reads, [`clock::sleep_until_ns`], [`mutex::PiMutex::lock`] and [`work::run`].

pub mod awake;
pub mod clock;
mod error;
pub mod machine;
pub mod memory;
pub mod memory_group;
pub mod mutex;
pub mod process;
pub mod thread;
pub mod work;

pub use error::Error;
