//! Memory that two processes share, and the few protocols that run over it.
//!
//! Everything that crosses a process boundary through memory is in this crate, so that the
//! rules for it stand in one place:
//!
//! - [`segment`]: sealed memory segments, created here or accepted from a peer after a check.
//! - [`fault`]: what happens when a peer's memory is lost while it is used.
//! - [`memory`]: [`PeerSlice`], bytes that a peer may write at any time.
//! - [`ring`]: the fixed-size message ring from one client to the server.
//! - [`completion`]: how the server tells a waiting client that a request is done.
//! - [`doorbell`]: how a client wakes the server.
//! - `socket`: packets with descriptors, by which memory is passed on.
//! - `door`: where a service listens for them; `peer`: who is at the other end.
//! - `environment`: what a program with more rights than its caller believes of it.
//! - [`log`]: what many threads append to a segment that outlives them.
//! - [`futex`]: waiting on a word of shared memory, underneath.
//!
//! **Whatever a peer can write is an allegation.** It is read once, copied, checked, and only
//! the copy is used. No reference is formed to it except to atomics.
//!
//! All atomics go through one facade, so that the ring and the completion protocol run
//! unchanged under the loom model checker (`--cfg loom`, see `tests/loom.rs`).
//!
//! ```
//! # #[cfg(not(loom))] {
//! use shm::{PeerSlice, Segment};
//! let segment = Segment::create("example", 8192)?;
//! let bytes = PeerSlice::whole(segment.map()?);
//! bytes.write(4000, b"hello")?;
//! let mut copy = [0; 5];
//! bytes.slice(4000, 5)?.read(0, &mut copy)?;
//! assert_eq!(&copy, b"hello");
//! # }
//! # Ok::<(), shm::Error>(())
//! ```

mod atomic;
pub mod completion;
#[cfg(not(loom))]
pub mod door;
pub mod doorbell;
#[cfg(not(loom))]
pub mod environment;
mod error;
pub mod fault;
pub mod futex;
pub mod log;
pub mod memory;
pub mod mutant;
#[cfg(not(loom))]
pub mod peer;
pub mod ring;
pub mod segment;
#[cfg(not(loom))]
pub mod socket;

pub use completion::{Completion, CompletionCell, Rights};
pub use doorbell::Doorbell;
pub use error::Error;
pub use memory::PeerSlice;
pub use ring::{Consumer, Message, Producer, Ring};
pub use segment::{Mapping, Segment};
