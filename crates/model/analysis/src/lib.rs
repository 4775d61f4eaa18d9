//! Response-time bounds, simulation and random systems of callback chains. Pure: integers in,
//! integers out; no clock, no thread, no unsafe code, and no other crate of Keeptime.
//!
//! - [`System`] is what is analysed: accelerators, executors, chains; indices instead of names,
//!   nanoseconds instead of units.
//! - [`analyze`] bounds every chain and says what each bound is made of, or why there is none;
//!   an [`Analyzer`] gives the verdict only, by the million. [`Variant`] says which theorem.
//! - [`Analyzer::decide`] is for admission: the cheapest analysis that accepts, or all reasons.
//! - [`assign::assign`] searches priorities, buckets and devices; [`sensitivity::sensitivity`]
//!   says how far times may grow.
//! - A [`Watch`] ends an analysis or a search that is no longer wanted.
//! - [`simulate`] runs one schedule event by event, and searches for bad ones.
//! - [`generate`] draws random systems, for studies and for trying to prove the bounds wrong.
//! - [`bandwidth_lock`] is the response-time equation of BWLOCK++.
//!
//! ```
//! use analysis::{Accelerator, Callback, Chain, Executor, Segment, Span, System, Variant, Wait};
//!
//! let segment = Segment { accelerator: 0, exec: Span::up_to(10_000_000), cpu_before_ns: 0 };
//! let see = Callback { executor: 0, cpu: Span::up_to(2_000_000), segments: vec![segment] };
//! let brake = Chain {
//!     priority: 1,
//!     period_ns: 100_000_000,
//!     deadline_ns: 100_000_000,
//!     jitter_ns: 0,
//!     wait: Wait::Suspend,
//!     best_effort: false,
//!     buckets: vec![1],
//!     callbacks: vec![see],
//! };
//! let system = System {
//!     accelerators: vec![Accelerator { buckets: 2, concurrent_lowest: false }],
//!     executors: vec![Executor { core: 2, priority: 90 }],
//!     chains: vec![brake],
//!     ..System::default()
//! };
//! let analysis = analysis::analyze(&system, Variant::Tight)?;
//! assert_eq!(analysis.chains[0].response_ns, Some(12_000_000));
//! # Ok::<(), analysis::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod assign;
mod bandwidth_lock;
mod bound;
mod error;
pub mod generate;
mod model;
pub mod sensitivity;
pub mod simulate;
mod watch;

pub use bandwidth_lock::{LockBound, bandwidth_lock};
pub use bound::{
    Analysis, Analyzer, ChainBound, PartBound, Refusal, Status, Term, TermKind, Variant, Verdict,
    analyze, analyze_watched,
};
pub use error::Error;
pub use model::{
    Accelerator, Callback, Chain, Executor, MAX_TIME_NS, MAX_WORK_NS, Segment, Span, System, Wait,
};
pub use watch::{Step, Watch};
