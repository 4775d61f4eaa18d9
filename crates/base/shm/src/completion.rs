//! Completions: the server tells a client that a request is done.
//!
//! ```text
//!   byte 0       4         8           16        24        32         40       48        56
//!        +-------+---------+-----------+---------+---------+----------+--------+---------+
//!        | state | status  | launch id | arrived | started | finished | busy   | answered| 64 bytes
//!        +-------+---------+-----------+---------+---------+----------+--------+---------+
//! ```
//!
//! Each outstanding request owns one cell of the session's segment. The client sets the state
//! to `PENDING` before it sends the request. The server writes the outcome, swaps the state to
//! `DONE`, and wakes the client only if the swap returned `WAITING`. A client that wants to
//! sleep exchanges `PENDING` for `WAITING` and sleeps while the word is `WAITING`: if the
//! completion came first, the exchange fails and no thread sleeps; if it comes after, the swap sees
//! `WAITING` and wakes. A client that spins only reads.
//!
//! Several parties of the server may want to end the same request (the device that finished it,
//! a cancellation, the clean-up after a dead client). [`Rights`] is the server's private table
//! that lets exactly one of them: [`Right`] is the permission, and completing consumes it.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::futex;
use crate::mutant::Mutant;
use std::time::Duration;

const PENDING: u32 = 1;
const WAITING: u32 = 2;
const DONE: u32 = 3;

/// Result of a finished request, for the client. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Status with which it ended, as a number that the request protocol defines.
    pub status: u32,
    /// The launch id that the client gave the request.
    pub launch_id: u64,
    /// Time at which the server took the request from the ring.
    pub arrived_ns: u64,
    /// Time at which the device began to work on it; 0 if it never did.
    pub started_ns: u64,
    /// Time at which the device's event said that it was done; 0 if it never began.
    pub finished_ns: u64,
    /// Time for which the device worked on it, without the time it was preempted.
    pub busy_ns: u64,
    /// Time at which the server published the completion.
    pub answered_ns: u64,
}

/// The shared cell of one outstanding request.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct CompletionCell {
    state: AtomicU32,
    status: AtomicU32,
    launch_id: AtomicU64,
    arrived_ns: AtomicU64,
    started_ns: AtomicU64,
    finished_ns: AtomicU64,
    busy_ns: AtomicU64,
    answered_ns: AtomicU64,
    _reserved: AtomicU64,
}

#[cfg(not(loom))]
const _: () = {
    assert!(std::mem::size_of::<CompletionCell>() == 64);
    assert!(std::mem::offset_of!(CompletionCell, launch_id) == 8);
    assert!(std::mem::offset_of!(CompletionCell, answered_ns) == 48);
};

impl CompletionCell {
    /// A cell in model memory; real cells are laid over zeroed segments.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> CompletionCell {
        CompletionCell {
            state: AtomicU32::new(0),
            status: AtomicU32::new(0),
            launch_id: AtomicU64::new(0),
            arrived_ns: AtomicU64::new(0),
            started_ns: AtomicU64::new(0),
            finished_ns: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            answered_ns: AtomicU64::new(0),
            _reserved: AtomicU64::new(0),
        }
    }

    /// Client: makes the cell ready for the next request. Wait-free; before the request is sent.
    pub fn arm(&self) {
        // Relaxed: the ring's tail is released after this and acquired before the server writes.
        self.state.store(PENDING, Ordering::Relaxed);
    }

    /// Client: the outcome, if it is there. Wait-free.
    pub fn poll(&self) -> Option<Completion> {
        // Acquire: pairs with the swap in `complete`; the outcome was written before it.
        (self.state.load(Ordering::Acquire) == DONE).then(|| self.outcome())
    }

    /// Client: sleeps until the outcome is there, at most `timeout`. One thread per cell.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Completion> {
        loop {
            if let Some(outcome) = self.poll() {
                return Some(outcome);
            }
            if Mutant::WaiterOverwritesState.is_on() {
                self.state.store(WAITING, Ordering::Relaxed);
            }
            // Relaxed: nothing is read on the strength of it; the outcome is read after the
            // acquiring load in `poll`. It fails when the state is DONE or WAITING already.
            let announced =
                self.state.compare_exchange(PENDING, WAITING, Ordering::Relaxed, Ordering::Relaxed);
            if announced == Err(DONE) {
                continue;
            }
            if !futex::wait(&self.state, WAITING, timeout) {
                return self.poll();
            }
        }
    }

    /// Server: publishes the outcome and wakes the client if it sleeps. Never blocks, whatever
    /// the client does with the cell.
    pub fn complete(&self, right: Right, outcome: &Completion) {
        let Right { .. } = right;
        // Relaxed: released by the swap below.
        self.status.store(outcome.status, Ordering::Relaxed);
        self.launch_id.store(outcome.launch_id, Ordering::Relaxed);
        self.arrived_ns.store(outcome.arrived_ns, Ordering::Relaxed);
        self.started_ns.store(outcome.started_ns, Ordering::Relaxed);
        self.finished_ns.store(outcome.finished_ns, Ordering::Relaxed);
        self.busy_ns.store(outcome.busy_ns, Ordering::Relaxed);
        self.answered_ns.store(outcome.answered_ns, Ordering::Relaxed);
        // Release: pairs with the acquire in `poll`.
        let before = self.state.swap(DONE, Ordering::Release);
        if before == WAITING && !Mutant::NoWake.is_on() {
            futex::wake(&self.state);
        }
    }

    fn outcome(&self) -> Completion {
        // Relaxed: ordered by the acquire in `poll`.
        Completion {
            status: self.status.load(Ordering::Relaxed),
            launch_id: self.launch_id.load(Ordering::Relaxed),
            arrived_ns: self.arrived_ns.load(Ordering::Relaxed),
            started_ns: self.started_ns.load(Ordering::Relaxed),
            finished_ns: self.finished_ns.load(Ordering::Relaxed),
            busy_ns: self.busy_ns.load(Ordering::Relaxed),
            answered_ns: self.answered_ns.load(Ordering::Relaxed),
        }
    }
}

/// The permission to complete one request, held by at most one party.
#[derive(Debug)]
pub struct Right {
    slot: usize,
}

impl Right {
    /// The cell it is for.
    pub fn slot(&self) -> usize {
        self.slot
    }
}

/// The server's private table: which requests of a session may still be completed.
///
/// Each entry counts up: even means free, odd means that a request is open. Wait-free, any
/// number of threads.
pub struct Rights(Box<[AtomicU32]>);

/// One opening of one slot; a later opening of the same slot has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    slot: u32,
    number: u32,
}

impl Rights {
    /// A table of `slots` free slots.
    pub fn new(slots: usize) -> Rights {
        Rights((0..slots).map(|_| AtomicU32::new(0)).collect())
    }

    /// Opens a slot for a new request; None when it is out of range or still open.
    pub fn open(&self, slot: usize) -> Option<Opening> {
        let entry = self.0.get(slot)?;
        // Relaxed: the opener hands the opening over through a lock or a queue.
        let number = entry.load(Ordering::Relaxed);
        let free = number % 2 == 0;
        let next = number.wrapping_add(1);
        let opened = free
            && entry.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        opened.then_some(Opening { slot: slot as u32, number: next })
    }

    /// Takes the right to complete; None when another party was first.
    pub fn take(&self, opening: Opening) -> Option<Right> {
        let slot = opening.slot as usize;
        let entry = self.0.get(slot)?;
        let (number, next) = (opening.number, opening.number.wrapping_add(1));
        if Mutant::RightTakenTwice.is_on() {
            let mine = entry.load(Ordering::Relaxed) == number;
            entry.store(next, Ordering::Relaxed);
            return mine.then_some(Right { slot });
        }
        // Relaxed: the exchange alone decides; what the winner publishes, it releases itself.
        let won = entry.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
        won.is_ok().then_some(Right { slot })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn cell() -> Box<CompletionCell> {
        // SAFETY: a cell is atomics only, for which zero is a valid value.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    #[test]
    fn waiter_sleeps_until_the_outcome_is_there() {
        let (cell, rights) = (cell(), Rights::new(4));
        cell.arm();
        let opening = rights.open(2).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| cell.wait(None));
            let outcome = Completion { status: 7, launch_id: 9, ..Completion::default() };
            cell.complete(rights.take(opening).unwrap(), &outcome);
            assert_eq!(waiter.join().unwrap(), Some(outcome));
        });
    }

    #[test]
    fn wait_ends_without_outcome_when_the_time_is_over() {
        let cell = cell();
        cell.arm();
        assert_eq!(cell.wait(Some(Duration::from_millis(1))), None);
        assert_eq!(cell.poll(), None);
    }

    #[test]
    fn request_is_completed_by_one_party_only() {
        let rights = Rights::new(1);
        let opening = rights.open(0).unwrap();
        assert!(rights.open(0).is_none());
        assert_eq!(rights.take(opening).unwrap().slot(), 0);
        assert!(rights.take(opening).is_none());
        let later = rights.open(0).unwrap();
        assert!(rights.take(opening).is_none(), "an old opening completes a new request");
        assert!(rights.take(later).is_some());
        assert!(rights.open(1).is_none(), "a slot outside the table opens");
    }
}
