//! Analysis of late calls: the causes of the time of a program's slowest launches and other calls.
//!
//! Two passes over a trace, both with bounded memory.
//!
//! 1. [`survey`] reads every record once: how long calls of each kind take and which were the
//!    worst, which locks they take in which pattern, how long each lock is waited for and held,
//!    what was given to the device, and which sequences repeat.
//! 2. [`explain`] reads the time around the worst calls again and says, for each of them, what it
//!    spent its time with, in parts whose sum is exactly its duration.
//!
//! [`verdicts`] then names what is wrong and what would help, with the numbers that say so. The
//! report is made from these structures and from nothing else.
//!
//! ```no_run
//! use late::{Group, Options, explain, survey, verdicts};
//! let trace = trace::Trace::open("t.kt".as_ref())?;
//! let options = Options::default();
//! let survey = survey(&trace, &options, &mut |_, _| true)?;
//! let explained = explain(&trace, &survey, &options)?;
//! for verdict in verdicts(&survey, &explained, &options, |kind| kind.group == Group::Launch) {
//!     println!("{:?}: up to {} ns, try {:?}", verdict.evidence, verdict.severity_ns, verdict.remedies);
//! }
//! # Ok::<(), trace::Error>(())
//! ```

#![forbid(unsafe_code)]

mod condition;
mod explain;
mod function;
mod gap;
mod gpu;
pub mod graph;
mod hash;
mod histogram;
mod identity;
mod merge;
pub mod open;
mod pattern;
mod processors;
pub mod result;
mod snapshot;
mod survey;
mod verdict;

pub use condition::{Condition, Judgement, TooFew};
pub use explain::explain;
pub use explain::part::{
    Cause, Explained, GpuState, Holder, HolderState, Part, Reason, Sums, Task,
};
pub use function::{Direction, Group, Host};
pub use histogram::Distribution;
pub use identity::Family;
pub use result::Survey;
pub use survey::survey;
pub use verdict::{Evidence, Lost, Occasion, Remedy, Verdict, reason, verdicts};

/// Options of the analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of calls of each group that are explained: so many of the latest, and so many of the
    /// longest.
    pub worst: usize,
    /// Number of outstanding launches in a stream at which its queue may be full.
    pub queue_depth: u32,
    /// Most parts of a call that are listed in the order of time; what comes after them is added
    /// up by cause.
    pub parts: usize,
    /// Patterns of each kind of call that are listed.
    pub patterns: usize,
    /// Sequences that are listed.
    pub sequences: usize,
    /// A hold of at least so long is long.
    pub long_hold_ns: u64,
    /// Most snapshots that the first pass keeps for the second.
    pub snapshots: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            worst: 10,
            queue_depth: 1000,
            parts: 1000,
            patterns: 3,
            sequences: 10,
            long_hold_ns: 100_000,
            snapshots: 1 << 16,
        }
    }
}
