//! Real-time progress for the C library's locks, for programs that cannot be changed.
//!
//! The preload library's hooks call this crate with the objects that the program passed; it knows
//! nothing of hooks or libraries. It needs no memory but static tables, takes no lock of the C
//! library's, leaves `errno` alone, and falls back to the C library's own way where it must. Its
//! system calls are its own, and few; in a process that [restricts](restrict) them they are those
//! of the C library's own locks.
//!
//! - [`mutex`]: a mutex stays the C library's, bit for bit. Waiters that have waited too long, and
//!   real-time waiters, stand in a table beside it ([`table`]); the thread that releases the mutex
//!   hands it to them.
//! - [`rwlock`]: a phase-fair read-write lock in the room of the C library's.
//! - [`futex`]: sleeping, and lending one's priority to the owner of a lock.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod atomic;
mod futex;
mod kernel;
pub mod mutant;
pub mod mutex;
pub mod rwlock;
mod table;

pub use futex::{Clock, Deadline};
#[cfg(loom)]
pub use futex::{interrupt_next_sleep, with_limits};
pub use kernel::urgency_of;
#[cfg(not(loom))]
pub use kernel::{number_memory_by, restrict};
pub use table::{Table, Waiter};
