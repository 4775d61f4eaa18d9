//! Choice of the callback that an executor runs next, and releases of a chain's jobs.
//!
//! The order is that of PiCAS, which PAAM takes over (section II-C): the ready callback of the
//! chain with the highest priority, and inside a chain the later callback first, so that a job
//! that has begun is brought to its end before the next one starts. Callbacks are not preempted.
//!
//! Real-time chains serve every release, however late. A best-effort chain leaves a release out
//! if the job before it had not ended by then.
//!
//! No input, no output, no clock: [`super::executor`] tells the time.

use std::cmp::Reverse;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Jobs of one callback for which room is made beforehand; more are rare and only cost memory.
const MAX_ROOM: usize = 4096;

/// One activation of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number of its release in the chain, from 0.
    pub number: u64,
    /// Time at which it was due to be released.
    pub release_ns: u64,
    /// Parts of its response time so far.
    pub spent: Spent,
}

/// Parts of a job's response time, in nanoseconds; in the rest of it, the job's callbacks waited
/// for their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// In callbacks, outside requests.
    pub computing_ns: u64,
    /// From submissions until the server took them.
    pub sending_ns: u64,
    /// Until the accelerator began.
    pub queued_ns: u64,
    /// Until it had finished.
    pub working_ns: u64,
    /// Until the callback went on.
    pub answering_ns: u64,
}

impl Spent {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        let Spent { computing_ns, sending_ns, queued_ns, working_ns, answering_ns } = self;
        computing_ns + sending_ns + queued_ns + working_ns + answering_ns
    }

    /// A request that passed these points one after the other, and what was there before.
    pub fn request(&mut self, points: [u64; 5]) {
        let [sending, queued, working, answering] =
            std::array::from_fn(|step| points[step + 1].saturating_sub(points[step]));
        self.sending_ns += sending;
        self.queued_ns += queued;
        self.working_ns += working;
        self.answering_ns += answering;
    }
}

/// The jobs that wait, by callback.
pub struct Ready {
    /// Callbacks, the one that goes first at the front.
    order: Vec<usize>,
    queues: Vec<VecDeque<Job>>,
}

impl Ready {
    /// No waiting jobs. Each callback is given by the priority of its chain and its position in
    /// the chain; `jobs` is how many it may have to run.
    pub fn new(ranks: &[(u32, usize)], jobs: u64) -> Ready {
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        order.sort_by_key(|&callback| Reverse(ranks[callback]));
        let room = usize::try_from(jobs).unwrap_or(MAX_ROOM).min(MAX_ROOM);
        Ready { order, queues: ranks.iter().map(|_| VecDeque::with_capacity(room)).collect() }
    }

    /// A callback has a job to run.
    pub fn push(&mut self, callback: usize, job: Job) {
        self.queues[callback].push_back(job);
    }

    /// Takes the oldest job of the callback that goes first.
    pub fn pop(&mut self) -> Option<(usize, Job)> {
        let queues = &mut self.queues;
        self.order.iter().find_map(|&callback| Some((callback, queues[callback].pop_front()?)))
    }
}

/// The timer of a chain's first callback.
pub struct Timer {
    first_ns: u64,
    period_ns: u64,
    releases: u64,
    next: u64,
    best_effort: bool,
    busy: bool,
    /// Time at which the last job ended.
    free_ns: u64,
    skipped: u64,
}

impl Timer {
    /// A timer of `releases` releases, one each period, the first at `first_ns`.
    pub fn new(first_ns: u64, period_ns: u64, releases: u64, best_effort: bool) -> Timer {
        let (next, busy, free_ns, skipped) = (0, false, 0, 0);
        Timer { first_ns, period_ns, releases, next, best_effort, busy, free_ns, skipped }
    }

    /// Returns the time at which the next release is due; none after the last one.
    pub fn next_ns(&self) -> Option<u64> {
        (self.next < self.releases).then(|| self.first_ns + self.next * self.period_ns)
    }

    /// The next release that is due at `now_ns` and not left out.
    pub fn release(&mut self, now_ns: u64) -> Option<Job> {
        while let Some(release_ns) = self.next_ns().filter(|&due_ns| due_ns <= now_ns) {
            let number = self.next;
            self.next += 1;
            if self.best_effort && (self.busy || self.free_ns > release_ns) {
                self.skipped += 1;
                continue;
            }
            self.busy = true;
            return Some(Job { number, release_ns, spent: Spent::default() });
        }
        None
    }

    /// The last released job ended at `at_ns`, somewhere.
    pub fn over(&mut self, at_ns: u64) {
        (self.busy, self.free_ns) = (false, at_ns);
    }

    /// Releases that were left out.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64) -> Job {
        Job { number, release_ns: number * 10, spent: Spent::default() }
    }

    fn drain(ready: &mut Ready) -> Vec<(usize, u64)> {
        std::iter::from_fn(|| ready.pop()).map(|(callback, job)| (callback, job.number)).collect()
    }

    #[test]
    fn higher_chain_goes_first_whatever_the_positions() {
        let mut ready = Ready::new(&[(1, 5), (7, 0), (3, 2)], 1);
        (0..3).for_each(|callback| ready.push(callback, job(0)));
        assert_eq!(drain(&mut ready), [(1, 0), (2, 0), (0, 0)]);
    }

    #[test]
    fn later_callback_of_a_chain_goes_first() {
        let mut ready = Ready::new(&[(4, 0), (4, 1), (4, 2)], 4);
        ready.push(0, job(2));
        ready.push(2, job(0));
        ready.push(1, job(1));
        assert_eq!(drain(&mut ready), [(2, 0), (1, 1), (0, 2)]);
    }

    #[test]
    fn chain_is_drained_before_it_starts_its_next_job() {
        let mut ready = Ready::new(&[(4, 0), (4, 1)], 2);
        ready.push(0, job(0));
        ready.push(0, job(1));
        let mut run = Vec::new();
        while let Some((callback, job)) = ready.pop() {
            run.push((callback, job.number));
            if callback == 0 {
                ready.push(1, job);
            }
        }
        assert_eq!(run, [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn jobs_of_one_callback_keep_their_order() {
        let mut ready = Ready::new(&[(1, 0)], 0);
        (0..10_000).for_each(|number| ready.push(0, job(number)));
        assert!(drain(&mut ready).iter().map(|&(_, number)| number).eq(0..10_000));
    }

    #[test]
    fn timer_releases_at_its_nominal_times_until_its_last() {
        let mut timer = Timer::new(100, 10, 3, false);
        assert_eq!(timer.release(99), None);
        assert_eq!(
            timer.release(105),
            Some(Job { number: 0, release_ns: 100, spent: Spent::default() })
        );
        assert_eq!(timer.release(105), None);
        assert_eq!(timer.next_ns(), Some(110));
        assert_eq!(
            timer.release(500),
            Some(Job { number: 1, release_ns: 110, spent: Spent::default() })
        );
        assert_eq!(
            timer.release(500),
            Some(Job { number: 2, release_ns: 120, spent: Spent::default() })
        );
        assert_eq!((timer.release(500), timer.next_ns(), timer.skipped()), (None, None, 0));
    }

    #[test]
    fn best_effort_chain_skips_while_its_job_is_busy() {
        let mut timer = Timer::new(0, 10, 6, true);
        assert_eq!(timer.release(0).map(|job| job.number), Some(0));
        assert_eq!(timer.release(10), None);
        timer.over(15);
        assert_eq!(timer.release(20).map(|job| job.number), Some(2));
        assert_eq!(timer.skipped(), 1);
    }

    #[test]
    fn end_of_a_job_decides_by_its_time_and_not_by_when_it_was_told() {
        let mut timer = Timer::new(0, 10, 6, true);
        timer.release(0);
        timer.over(25);
        // The releases at 10 and 20 fell into the job, the one at 30 did not.
        assert_eq!(timer.release(35).map(|job| job.number), Some(3));
        assert_eq!(timer.skipped(), 2);
        timer.over(40);
        assert_eq!(timer.release(40).map(|job| job.number), Some(4));
    }

    #[test]
    fn best_effort_chain_does_not_pile_up_jobs_that_are_due_together() {
        let mut timer = Timer::new(0, 10, 6, true);
        assert_eq!(timer.release(25).map(|job| job.number), Some(0));
        assert_eq!(timer.release(25), None);
        assert_eq!(timer.skipped(), 2);
    }
}
