//! The accelerator server's request protocol, and the client that speaks it.
//!
//! Two planes (document: PAAM, section IV-B). The **control plane** is a Unix socket of
//! fixed-size packets, [`control`], on which a client connects, registers callbacks and learns
//! their buckets. The **data plane** is shared memory: [`request`]s of 64 bytes go through a ring
//! in the session's segment ([`session`]), their data stays where the client wrote it, and
//! completions come back through cells of the same segment.
//!
//! [`Client`] is what a program uses:
//!
//! ```no_run
//! use accel::{Client, Registration, Request};
//! let n = 1024usize;
//! let mut client = Client::connect("/run/keeptime/keeptime.sock")?;
//! let add = client.register(&Registration::service("vecadd").chain("perception", 42).memory(12 * n))?;
//! client.memory(add)?.write_f32(0, &vec![1.5; 2 * n])?;
//! client.run(add, &Request::new().arguments(&[n as u64]).input(0, 8 * n).output(8 * n, 4 * n))?;
//! let mut sums = vec![0.0; n];
//! client.memory(add)?.read_f32(2 * n, &mut sums)?;
//! # Ok::<(), accel::Error>(())
//! ```

pub mod client;
pub mod control;
mod error;
mod link;
mod registration;
pub mod request;
pub mod session;
pub mod snapshot;
mod ticket;

pub use client::{Client, Wait, default_socket};
pub use error::Error;
pub use link::CONNECT_PATIENCE;
pub use registration::{CallbackId, Registration};
pub use request::{Request, Status};
pub use shm::peer::ServerUser;
pub use shm::socket;
pub use ticket::{RequestOutcome, Ticket};
