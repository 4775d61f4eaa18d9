//! The requests of the part under analysis: their own time, blocking and interference.

use super::Tight;
use crate::bound::jobs::{NONE, times};
use crate::bound::view::{PartView, View};
use std::ops::Range;

/// The requests of a part that a recurrence is about: all, or those up to one of them.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) demand: u64,
    pub(super) requests: u64,
    pub(super) used: Vec<Used>,
    /// Interference by handling times, for each accelerator in `used` and each of its users above.
    pub(super) by_handling: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Used {
    pub(super) accelerator: usize,
    pub(super) requests: u64,
    /// Least time from the part's release to the first request.
    pub(super) head: u64,
    /// Longest blocking of one request.
    pub(super) blocking: u64,
    /// The segments of the bucket, in [`Tight::by_demand`].
    pub(super) bucket: Range<usize>,
    /// Place of its users in `by_handling`.
    pub(super) at: usize,
}

impl Own {
    pub(super) fn clear(&mut self) {
        (self.demand, self.requests) = (0, 0);
        self.used.clear();
        self.by_handling.clear();
    }
}

impl Tight {
    pub(super) fn add_own(&mut self, view: &View, part: &PartView, k: usize) {
        let segment = &view.segments[k];
        let accelerator = segment.accelerator;
        self.own.demand += segment.exact_demand;
        self.own.requests += 1;
        let above = view.users_above(accelerator, part.chain);
        let known = self.own.used.iter().position(|used| used.accelerator == accelerator);
        let place = known.unwrap_or_else(|| {
            let at = self.own.by_handling.len();
            self.own.by_handling.resize(at + above.len(), 0);
            let head = segment.head_min - part.head_min;
            let bucket = self.bucket_segments(view, accelerator, segment.bucket);
            self.own.used.push(Used { accelerator, requests: 0, head, blocking: 0, bucket, at });
            self.own.used.len() - 1
        });
        let blocking = self.bucket_blocking[k];
        let used = &mut self.own.used[place];
        used.requests += 1;
        used.blocking = used.blocking.max(blocking);
        let at = used.at;
        let handling = self.segment_handling[k];
        let before = view.users_before[accelerator];
        for (i, user) in above.iter().enumerate() {
            let work = match handling {
                // Even a user of the own executor only: the window says that it is 0.
                NONE => NONE,
                handling => self.user_work(view, before + i, user, part.executor, handling),
            };
            let sum = &mut self.own.by_handling[at + i];
            *sum = sum.saturating_add(work);
        }
    }

    fn bucket_segments(&self, view: &View, accelerator: usize, bucket: u32) -> Range<usize> {
        let segments = &self.by_demand[accelerator];
        let begin = segments.partition_point(|&k| view.segments[k].bucket > bucket);
        let length = segments[begin..].partition_point(|&k| view.segments[k].bucket == bucket);
        begin..begin + length
    }

    /// Handling time of the own requests so far, without `epsilon`, in a response of `x`.
    pub(super) fn own_handling(&self, view: &View, part: &PartView, x: u64) -> u64 {
        let mut sum = self.own.demand;
        for used in &self.own.used {
            sum = sum.saturating_add(self.blocked(view, part, used, x));
            let window = x.saturating_sub(used.head);
            let place = view.users_before[used.accelerator];
            let above = view.users_above(used.accelerator, part.chain);
            for (i, user) in above.iter().enumerate() {
                let by_handling = self.own.by_handling[used.at + i];
                if by_handling == 0 {
                    continue;
                }
                let by_window = self.user_work(view, place + i, user, part.executor, window);
                sum = sum.saturating_add(by_handling.min(by_window));
            }
        }
        sum
    }

    /// Returns the time for which lower-priority requests of the bucket block the own requests on
    /// an accelerator: the longest, each as often as its chain can have it there, at most one for
    /// each own one.
    pub(super) fn blocked(&self, view: &View, part: &PartView, used: &Used, x: u64) -> u64 {
        let most = times(used.requests, used.blocking);
        if !self.fine || most == 0 {
            return most;
        }
        let priority = view.chains[part.chain].priority;
        let (mut sum, mut left) = (0u64, used.requests);
        for &k in &self.by_demand[used.accelerator][used.bucket.clone()] {
            let segment = &view.segments[k];
            let below = &view.chains[segment.chain];
            if segment.executor == part.executor || below.priority >= priority {
                continue;
            }
            let count = match self.bounded[segment.chain] && !self.uncounted[segment.chain] {
                true => below.period.jobs(x.saturating_add(self.presence[k])),
                false => NONE,
            };
            let blocking = left.min(count);
            sum = sum.saturating_add(times(blocking, segment.exact_demand));
            left -= blocking;
            if left == 0 {
                break;
            }
        }
        sum
    }
}
