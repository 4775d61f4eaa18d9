//! The response time of one part.

use super::{Source, Tight};
use crate::bound::jobs::{NONE, least_fixed_point};
use crate::bound::view::{CallbackView, PartView, View};

/// A higher-priority chain's part on the same executor.
#[derive(Debug, Clone, Copy)]
pub(super) struct SameExecutor {
    /// The source with the whole handling time of its requests.
    pub(super) handled: Source,
    /// The source with its requests' own time and blocking only.
    pub(super) alone: Source,
}

impl Tight {
    pub(super) fn bound_part(&mut self, view: &View, index: usize) {
        let part = &view.parts[index];
        for k in part.segments.clone() {
            self.handle_segment(view, k, part.segments.start);
        }
        self.blocking[index] = self.blocking(view, part);
        self.collect_interference(view, part);
        let response = self.respond(view, index);
        self.changed |= response != self.response[index];
        self.response[index] = response;
        let epsilon = part.segments.len() as u64 * view.epsilon;
        let handling = match response {
            NONE => part
                .segments
                .clone()
                .map(|k| self.segment_handling[k])
                .fold(epsilon, u64::saturating_add),
            response => self.own_handling(view, part, response) + epsilon,
        };
        self.changed |= handling != self.handling[index];
        self.handling[index] = handling;
    }

    /// Lemma 2 with the refinements: handling time of one segment.
    fn handle_segment(&mut self, view: &View, index: usize, first: usize) {
        let segment = &view.segments[index];
        let alike = |other: &usize| {
            let other = &view.segments[*other];
            other.accelerator == segment.accelerator && other.exact_demand == segment.exact_demand
        };
        let handling = if let Some(other) = (first..index).rev().find(alike) {
            self.segment_handling[other]
        } else if view.concurrent_lowest[segment.accelerator] && segment.bucket == 0 {
            NONE
        } else {
            self.handling_without(view, index, None, self.segment_handling[index])
        };
        self.changed |= handling != self.segment_handling[index];
        self.segment_handling[index] = handling;
    }

    /// Handling time of a segment beside all chains but one, searched from `from`.
    fn handling_without(
        &self,
        view: &View,
        index: usize,
        without: Option<usize>,
        from: u64,
    ) -> u64 {
        let segment = &view.segments[index];
        let base = segment.exact_demand + self.bucket_blocking[index];
        let above = view.users_above(segment.accelerator, segment.chain);
        let place = view.users_before[segment.accelerator];
        let step = |h: u64| {
            let others = above.iter().enumerate().filter(|(_, user)| Some(user.chain) != without);
            let work = |(i, user)| self.user_work(view, place + i, user, segment.executor, h);
            others.map(work).fold(base, u64::saturating_add)
        };
        least_fixed_point(from.max(base), view.horizon, &view.budget, step)
    }

    /// `B`: the executor is held by at most one lower-priority callback, for its processor time
    /// and the handling of its requests.
    fn blocking(&self, view: &View, part: &PartView) -> u64 {
        let lower = view.others[part.lp.clone()].iter();
        lower.map(|&lower| self.held(view, part, &view.parts[lower])).max().unwrap_or(0)
    }

    /// Returns the time for which `part` waits while a callback of `lower` holds the executor.
    pub(super) fn held(&self, view: &View, part: &PartView, lower: &PartView) -> u64 {
        let handling = |index: usize| {
            let segment = &view.segments[index];
            let above = view.users_above(segment.accelerator, segment.chain);
            match self.segment_handling[index] {
                // Nothing to leave out, or an accelerator that has no bound for other reasons.
                handling if !above.iter().any(|user| user.chain == part.chain) => handling,
                NONE if view.concurrent_lowest[segment.accelerator] && segment.bucket == 0 => NONE,
                _ => self.handling_without(view, index, Some(part.chain), 0),
            }
        };
        let held = |callback: &CallbackView| {
            let own = callback.cpu + callback.segments.len() as u64 * view.epsilon;
            callback.segments.clone().map(handling).fold(own, u64::saturating_add)
        };
        view.callbacks[lower.callbacks.clone()].iter().map(held).max().unwrap_or(0)
    }

    pub(super) fn collect_interference(&mut self, view: &View, part: &PartView) {
        self.hp.clear();
        for &index in &view.others[part.hp.clone()] {
            let other = &view.parts[index];
            let source = |held: u64| {
                let period = view.chains[other.chain].period;
                let demand = other.cpu.saturating_add(held);
                Source::new(period, demand, other.head_min, self.part_finish[index]).with_ties()
            };
            self.hp.push(SameExecutor {
                handled: source(self.handling[index]),
                alone: source(self.handling_alone[index]),
            });
        }
        self.hpp.clear();
        for &index in &view.others[part.hpp.clone()] {
            let other = &view.parts[index];
            let chain = &view.chains[other.chain];
            let held = match chain.spin {
                true => self.handling[index],
                false => other.segments.len() as u64 * view.epsilon,
            };
            let demand = other.cpu.saturating_add(held);
            let finish = self.part_finish[index];
            let source = Source::new(chain.period, demand, other.head_min, finish);
            self.hpp.push(source.with_ties());
        }
    }

    /// The response time of a part, and, in the fine pass, the responses up to its segments.
    pub(super) fn respond(&mut self, view: &View, index: usize) -> u64 {
        let part = &view.parts[index];
        let cap = match view.chains[part.chain].concurrent {
            Some(_) => 0,
            None => view.chains[part.chain].deadline,
        };
        self.own.clear();
        let (mut cpu, mut start) = (0, 0);
        for callback in part.callbacks.clone() {
            let last = callback + 1 == part.callbacks.end;
            let CallbackView { cpu: callback_cpu, segments } = &view.callbacks[callback];
            if !self.hp.is_empty() && (last || self.fine) {
                let from = if last { self.start[index] } else { start };
                start = self.start_of(view, part, index, cpu, from.max(start), cap);
                if last {
                    self.start[index] = start;
                }
            }
            cpu += callback_cpu;
            for k in segments.clone() {
                self.add_own(view, part, k);
                if self.fine {
                    let from = self.segment_response[k];
                    let response = self.end_of(view, part, index, cpu, start, from, cap);
                    self.changed |= response != self.segment_response[k];
                    self.segment_response[k] = response;
                }
            }
        }
        self.end_of(view, part, index, cpu, start, self.response[index], cap)
    }

    /// Latest start of a callback after `cpu` and the requests so far: whatever arrives up to it
    /// and including it may come first.
    fn start_of(
        &self,
        view: &View,
        part: &PartView,
        index: usize,
        cpu: u64,
        from: u64,
        cap: u64,
    ) -> u64 {
        let step = |x: u64| self.total(view, part, index, cpu, x, x);
        least_fixed_point(from, cap, &view.budget, step)
    }

    /// Latest end of the callback that started by `start`, or of its last request so far.
    #[expect(clippy::too_many_arguments, reason = "the recurrence has as many terms")]
    fn end_of(
        &self,
        view: &View,
        part: &PartView,
        index: usize,
        cpu: u64,
        start: u64,
        from: u64,
        cap: u64,
    ) -> u64 {
        if start == NONE {
            return NONE;
        }
        let step = |x: u64| self.total(view, part, index, cpu, x, start);
        least_fixed_point(from, cap, &view.budget, step)
    }

    /// Everything that a part may spend `x` on: `hp` is the window of the higher chains of its
    /// executor.
    fn total(&self, view: &View, part: &PartView, index: usize, cpu: u64, x: u64, hp: u64) -> u64 {
        let own = self.blocking[index]
            .saturating_add(cpu)
            .saturating_add(self.own.requests * view.epsilon);
        let preempted = self.hpp.iter().map(|h| h.work(x));
        let own = preempted.fold(own, u64::saturating_add);
        let handled = self.own_handling(view, part, x);
        if self.hp.is_empty() {
            return own.saturating_add(handled);
        }
        let by_job = self.hp.iter().map(|h| h.handled.work(hp)).fold(handled, u64::saturating_add);
        let alone = self.waits(view, part, x);
        let by_window = self.hp.iter().map(|h| h.alone.work(hp)).fold(alone, u64::saturating_add);
        own.saturating_add(by_job.min(by_window))
    }

    /// Returns the time of the own requests with their blocking, and of all that the chains above
    /// do on any accelerator that the executor may wait for.
    pub(super) fn waits(&self, view: &View, part: &PartView, x: u64) -> u64 {
        let mut sum = self.own.demand;
        for used in &self.own.used {
            sum = sum.saturating_add(self.blocked(view, part, used, x));
        }
        for accelerator in 0..view.users.len() {
            if !self.waited_for(view, part, accelerator) {
                continue;
            }
            let place = view.users_before[accelerator];
            for (i, user) in view.users_above(accelerator, part.chain).iter().enumerate() {
                let work = self.user_work(view, place + i, user, part.executor, x);
                sum = sum.saturating_add(work);
            }
        }
        sum
    }

    /// Returns true if the executor may wait for an accelerator, for the own chain or one above it.
    pub(super) fn waited_for(&self, view: &View, part: &PartView, accelerator: usize) -> bool {
        let uses = |index: &usize| {
            let segments = &view.segments[view.parts[*index].segments.clone()];
            segments.iter().any(|segment| segment.accelerator == accelerator)
        };
        let own = self.own.used.iter().any(|used| used.accelerator == accelerator);
        own || view.others[part.hp.clone()].iter().any(uses)
    }
}
