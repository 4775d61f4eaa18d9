//! Choice of the thread that runs on a best-effort core, where threads are the cause of stops
//! (throttle-fair scheduling, BWLOCK++, section IV-C).
//!
//! Equation 2: V = (run time + rho * stopped time) / weight. The thread with the smallest V runs.
//! The paper does not divide the stopped time; divided, rho = 1 means the same for every weight.
//! Stopped time counts for the thread that caused it, so that the more a thread makes its core
//! stand still, the less it runs there.
//!
//! A [`Rule`] puts that into effect: [`UserRule`] here, for any kernel, and the scheduler in BPF of
//! the crate `throttle-fair`. Whichever it is, the accounts are the same ([`Keeper`]).

mod account;
mod attend;
mod keeper;
mod kept;
mod policy;
mod roster;
mod user;

pub use account::ThreadStatistics;
pub(super) use attend::attend;
pub use keeper::{Accounts, Keeper};
pub(super) use kept::{StateFile, restore_after_crash};
pub(super) use roster::Roster;
pub(super) use user::UserRule;

use std::time::Duration;

/// Interface by which the thread of a core informs a throttle-fair scheduler. Called on that core,
/// at its thread's real-time priority: no call may wait for another thread.
pub trait Fairness: Send {
    /// Books the time for which the core was stopped because of this thread; None if the thread is
    /// not known, 0 if the core was idle.
    fn charge(&mut self, core: usize, thread: Option<i32>, stopped: Duration);
    /// A period begins.
    fn period(&mut self, core: usize);
    /// There are no more periods until the next one begins.
    fn rest(&mut self, core: usize);
}

/// Implementation of throttle-fair scheduling on the cores of a regulator.
pub trait Rule: Send {
    /// Returns the interface for the thread of a core: of the core with this place among the
    /// configured ones.
    fn core(&mut self, accounts: &Accounts, index: usize) -> Box<dyn Fairness>;
    /// The managed threads that are on the regulated cores now, those that it was told of before,
    /// too. Called every 20 ms while cores are regulated, by an ordinary thread: it may wait.
    fn attend(&mut self, threads: &[i32]);
}
