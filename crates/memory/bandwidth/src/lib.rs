//! The memory-bandwidth lock: while accelerator work holds it, best-effort cores are held to a
//! budget of memory traffic (BWLOCK++).
//!
//! ```text
//!   a program                                       the regulator
//!   Hold::attach ---- hello ----> control socket -> Holders: who may, who lives, who holds
//!   Hold::acquire --- own page (count) ------------> Holders::is_held
//!             '------ bell, if it sleeps ----------> Holders::wait_until_held
//! ```
//!
//! - [`Hold`]: a program's place among the holders; [`HeldLock`] is the lock as a guard.
//! - [`Ceiling`]: the priority of a thread while it holds the lock.
//! - [`Holders`]: the regulator's side: a socket, one page for each holder, and the deaths of
//!   their processes.
//! - [`regulator`]: the regulation of the best-effort cores while a holder has it.
//! - [`page`]: what the two share, and why no wake-up is lost; modelled in `tests/loom.rs`.
//! - [`activity`]: which streams of a program have work, for programs that hold the lock without
//!   knowing it.
//! - [`handshake`]: the two packets of the control socket.
//! - [`workload`]: the memory hog, to be regulated.
//!
//! The lock belongs to processes, not to threads, and lasts however long its holder sleeps: it
//! ends when it is given back as often as it was taken, or with the process, whatever ends that.
//!
//! ```no_run
//! use bandwidth::{Hold, default_socket};
//!
//! let hold = Hold::attach(&default_socket())?;
//! {
//!     let _held = hold.hold();
//!     // Accelerator work: the other cores are held to their budgets.
//! }
//! # Ok::<(), bandwidth::Error>(())
//! ```

pub mod activity;
mod atomic;
#[cfg(not(loom))]
mod ceiling;
#[cfg(not(loom))]
mod error;
mod futex;
pub mod handshake;
#[cfg(not(loom))]
mod hold;
#[cfg(not(loom))]
pub mod holders;
#[cfg(not(loom))]
mod memory;
pub mod mutant;
pub mod page;
#[cfg(not(loom))]
pub mod regulator;
#[cfg(not(loom))]
pub mod workload;

#[cfg(not(loom))]
pub use ceiling::Ceiling;
#[cfg(not(loom))]
pub use error::Error;
#[cfg(not(loom))]
pub use hold::{HeldLock, Hold, PATIENCE_MS, VARIABLE, default_socket};
#[cfg(not(loom))]
pub use holders::Holders;
