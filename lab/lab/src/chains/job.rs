//! A job of a chain: one activation, on its way from callback to callback and between processes.

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Activation of a chain.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Job {
    /// Number of its release in the chain, from 0; [`END`] follows the last one.
    pub number: u64,
    /// Time at which it was due to be released.
    pub release_ns: u64,
    /// Parts of its response time so far.
    pub spent: Spent,
}

/// Value in place of a number: no further job will come.
pub(crate) const END: u64 = u64::MAX;

/// Parts of a job's response time, in nanoseconds; in the rest of it, the job's callbacks waited
/// for their turn.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Spent {
    /// Time in callbacks, outside requests.
    pub computing_ns: u64,
    /// Time from submissions until the server took them.
    pub sending_ns: u64,
    /// Time until the accelerator began.
    pub queued_ns: u64,
    /// Time until it had finished.
    pub working_ns: u64,
    /// Time until the callback went on.
    pub answering_ns: u64,
}

impl Spent {
    /// Total time.
    pub(crate) fn total_ns(&self) -> u64 {
        let Spent { computing_ns, sending_ns, queued_ns, working_ns, answering_ns } = self;
        computing_ns + sending_ns + queued_ns + working_ns + answering_ns
    }

    /// A request that passed these points one after the other, and what was there before.
    pub(crate) fn request(&mut self, points: [u64; 5]) {
        let [sending, queued, working, answering] =
            std::array::from_fn(|step| points[step + 1].saturating_sub(points[step]));
        self.sending_ns += sending;
        self.queued_ns += queued;
        self.working_ns += working;
        self.answering_ns += answering;
    }
}

/// Admission of the releases of a best-effort chain: one at which the job before was busy is left
/// out.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    busy: bool,
    /// Time at which the last job ended.
    free_ns: u64,
}

impl Gate {
    /// Returns true if the job of a release begins, of which [`Gate::over`] tells the end.
    pub(crate) fn admits(&mut self, release_ns: u64) -> bool {
        let begins = !self.busy && self.free_ns <= release_ns;
        self.busy |= begins;
        begins
    }

    /// The job that began ended at `at_ns`, somewhere.
    pub(crate) fn over(&mut self, at_ns: u64) {
        (self.busy, self.free_ns) = (false, at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_left_out_while_the_job_before_is_busy() {
        let mut gate = Gate::default();
        assert!(gate.admits(0) && !gate.admits(10));
        gate.over(15);
        assert!(gate.admits(20));
    }

    #[test]
    fn end_of_a_job_decides_by_its_time_and_not_by_when_it_was_told() {
        let mut gate = Gate::default();
        assert!(gate.admits(0));
        gate.over(25);
        // The releases at 10 and 20 fell into the job, the one at 30 did not.
        assert_eq!([10, 20, 30].map(|release_ns| gate.admits(release_ns)), [false, false, true]);
        gate.over(40);
        assert!(gate.admits(40));
    }

    #[test]
    fn jobs_that_are_due_together_do_not_pile_up() {
        let mut gate = Gate::default();
        assert_eq!([0, 10, 20].map(|release_ns| gate.admits(release_ns)), [true, false, false]);
    }
}
