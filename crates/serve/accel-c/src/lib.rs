//! libkeeptime: the client as a C library. `include/keeptime.h` is its documentation.
//!
//! Each exported function takes three steps: it checks its pointers and structures
//! ([`layout`]), enters the client ([`client::Handle`]: one thread at a time, panics end here),
//! and calls the method of the same name of [`accel::Client`]. What goes wrong becomes a number
//! that is returned and a text that is kept ([`fault`]).
//!
//! - [`client`]: connect, close, reconnect, how to wait, counters.
//! - [`callback`]: register, deregister, reprioritise, bucket, memory.
//! - [`request`]: run, submit, poll, wait, cancel.
//!
//! The functions are exported under their names only outside of this crate's unit tests, whose
//! process they must not change.

pub mod callback;
pub mod client;
pub mod fault;
pub mod layout;
pub mod request;
