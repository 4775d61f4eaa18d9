//! Who of a best-effort core's threads runs, when stopping the core is somebody's fault
//! (throttle-fair scheduling, document 001, section IV-C).
//!
//! Equation 2: V = (run time + rho * stopped time) / weight. The thread with the smallest V runs. The
//! document does not divide the stopped time; divided, rho = 1 means the same for every weight.
//! Stopped time counts for the thread that caused it, so that the more a thread makes its core
//! stand still, the less it runs there.

mod account;
mod attend;
mod kept;
mod policy;
mod roster;
mod user;

pub use account::ThreadStatistics;
pub use attend::attend;
pub use kept::restore_after_crash;
pub use roster::Roster;
pub use user::UserSpace;

use std::time::Duration;

/// What the thread of a core tells a throttle-fair scheduler. Called on that core, at its thread's
/// real-time priority: no call may wait for anybody.
pub trait Fairness: Send {
    /// The core was stopped so long because of this thread; None if nobody knows of which, 0 if it
    /// was idle.
    fn charge(&mut self, core: usize, thread: Option<i32>, stopped: Duration);
    /// A period begins.
    fn period(&mut self, core: usize);
    /// There are no more periods until the next one begins.
    fn rest(&mut self, core: usize);
}
