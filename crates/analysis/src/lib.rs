//! Response-time bounds, simulation and random systems of callback chains. Pure: integers in,
//! integers out; no clock, no thread, no unsafe code, and no other crate of Keeptime.
#![forbid(unsafe_code)]

pub mod admission;
pub mod assign;
mod bandwidth_lock;
mod bound;
mod error;
pub mod generate;
mod model;
pub mod sensitivity;
pub mod simulate;

pub use bandwidth_lock::{LockBound, bandwidth_lock};
pub use bound::{
    Analysis, Analyzer, ChainBound, PartBound, Refusal, Status, Term, TermKind, Variant, Verdict,
    analyze,
};
pub use error::Error;
pub use model::{
    Accelerator, Callback, Chain, Executor, MAX_TIME_NS, MAX_WORK_NS, Segment, Span, System, Wait,
};
