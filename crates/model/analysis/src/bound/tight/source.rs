//! Work that recurs with a period, and the work of a chain on an accelerator in a window.

use super::Tight;
use crate::bound::jobs::{NONE, Period, times};
use crate::bound::view::{User, View};

/// Work of a chain that recurs with its period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) period: Period,
    /// `F + s - C - b`.
    pub(super) offset: u64,
    /// `C`.
    pub(super) demand: u64,
}

/// The source of a chain of which nothing is known yet.
pub(super) const IDLE: Source = Source { period: Period::ONE, offset: 0, demand: 0 };

impl Source {
    /// Work `demand` between `head` and `finish` after each release.
    pub(super) fn new(period: Period, demand: u64, head: u64, finish: u64) -> Source {
        // Longer work than the time between them would contradict `finish`.
        let room = finish.saturating_sub(head);
        let demand = if demand == NONE { NONE } else { demand.min(room) };
        Source { period, offset: room.saturating_sub(demand), demand }
    }

    /// Counts what is released at the very end of a window too.
    pub(super) fn with_ties(self) -> Source {
        Source { offset: self.offset.saturating_add(1), ..self }
    }

    /// The most work in a window of length `t`.
    pub(super) fn work(&self, t: u64) -> u64 {
        if self.demand == NONE {
            return NONE;
        }
        times(self.period.jobs(t.saturating_add(self.offset)), self.demand)
    }
}

/// Work of a chain on an accelerator.
#[derive(Debug, Clone, Copy)]
pub(super) struct UserWork {
    /// All of its requests as one.
    pub(super) whole: Source,
    /// The least offset of any of its requests.
    pub(super) least: u64,
}

impl Tight {
    /// Spells out what a chain may do on each accelerator.
    pub(super) fn place_users(&mut self, view: &View, chain: usize) {
        for accelerator in 0..view.users.len() {
            let Some(place) = view.user_of(accelerator, chain) else { continue };
            let user = &view.users[accelerator][place];
            let period = view.chains[chain].period;
            let (mut head, mut finish, mut least) = (NONE, 0, NONE);
            for at in user.segments.clone() {
                let k = view.user_segments[at];
                let segment = &view.segments[k];
                let ends = self.segment_finish[k].saturating_add(user.after);
                head = head.min(segment.head_min);
                finish = finish.max(ends);
                let source = Source::new(period, segment.exact_demand, segment.head_min, ends);
                let source = source.with_ties();
                least = least.min(source.offset);
                self.user_segments[at] = source;
                self.presence[k] = ends.saturating_sub(segment.head_min).saturating_add(1);
            }
            let whole = Source::new(period, user.exact_demand, head, finish).with_ties();
            self.users[view.users_before[accelerator] + place] = UserWork { whole, least };
        }
    }

    /// Returns the work of a user of an accelerator in a window without the requests of `executor`.
    pub(super) fn user_work(
        &self,
        view: &View,
        place: usize,
        user: &User,
        executor: usize,
        t: u64,
    ) -> u64 {
        if user.executor == Some(executor) {
            return 0;
        }
        let UserWork { whole: source, least } = self.users[place];
        let whole = source.work(t);
        // Segment by segment it is not less than if all had the least offset.
        if user.executor.is_some()
            && (!self.fine
                || times(source.period.jobs(t.saturating_add(least)), source.demand) >= whole)
        {
            return whole;
        }
        let elsewhere = |at: &usize| view.segments[view.user_segments[*at]].executor != executor;
        let segments = user.segments.clone().filter(elsewhere);
        let each = segments.map(|at| self.user_segments[at].work(t));
        whole.min(each.fold(0, u64::saturating_add))
    }
}
