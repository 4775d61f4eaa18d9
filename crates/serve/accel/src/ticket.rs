//! An outstanding request, and how it ended.

use crate::{Error, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Result of a request. Times are CLOCK_MONOTONIC nanoseconds, 0 if a step did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOutcome {
    /// The request's launch id.
    pub launch_id: u64,
    /// Status with which it ended.
    pub status: Status,
    /// True if the request ran longer than its declared execution time.
    pub overran: bool,
    /// True if the request was moved to the lowest bucket because of that.
    pub demoted: bool,
    /// Time at which the client sent it.
    pub submitted_ns: u64,
    /// Time at which the server took it from the ring.
    pub arrived_ns: u64,
    /// Time at which the device began.
    pub started_ns: u64,
    /// Time at which the device's event said that it was done.
    pub finished_ns: u64,
    /// Time for which the device worked on it.
    pub busy_ns: u64,
    /// Time at which the server published the completion.
    pub answered_ns: u64,
}

impl RequestOutcome {
    /// The outcome itself if the request was done.
    ///
    /// # Errors
    /// [`Error::Failed`] otherwise.
    pub fn ok(self) -> Result<RequestOutcome, Error> {
        match self.status {
            Status::Done => Ok(self),
            status => Err(Error::Failed { launch_id: self.launch_id, status }),
        }
    }
}

/// An outstanding request. Dropping it forgets the request; the request itself goes on.
#[derive(Debug)]
pub struct Ticket {
    pub(crate) slot: u16,
    pub(crate) launch_id: u64,
    pub(crate) submitted_ns: u64,
    /// Shared with the link that the request was sent on, and tells links apart.
    pub(crate) abandoned: Arc<AtomicU64>,
    pub(crate) outcome: Option<RequestOutcome>,
}

impl Ticket {
    /// The request's launch id.
    pub fn launch_id(&self) -> u64 {
        self.launch_id
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.outcome.is_none() {
            // Relaxed: only the client that owns the slot reads this, and then polls the cell.
            self.abandoned.fetch_or(1 << self.slot, Ordering::Relaxed);
        }
    }
}
