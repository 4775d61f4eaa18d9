//! The tight bound: a refinement of Theorem 1 of PAAM that stays sound.
//!
//! All chains are bounded together. `F` of a segment or part is how long after its chain's
//! nominal release it has ended at the latest; it starts at the sum of the chain's own work and
//! grows with the response times, which grow with it, until nothing changes (holistic analysis:
//! the first job that exceeded its bound would contradict the step that computed it). A chain
//! whose bound passes its deadline gets none; what is computed for others under the assumption
//! that it meets its deadline (`F = D`) is marked as dependent.
//!
//! What is better than Theorem 1, and why it may be:
//!
//! - **Release jitter instead of a whole job.** In a window of length `t` a chain does at most
//!   `ceil((t + F + s - C - b) / T) C` of a work `C` that begins at the earliest `b` after its
//!   release and has ended at the latest `F` after it: the first job's work ends at the window's
//!   start plus `C` at the earliest, and a window that begins `x` later trades `x` of that job for
//!   at most `x` of the last one. `s = kappa` lets the device switch back after the end. Theorem 1
//!   charges `ceil(t / T) + 1` jobs, which is this with `F = T`, `C = b = 0`. ([`Source::work`])
//! - **Best-case times** of what precedes a request are `b`, and of what follows it shorten `F`.
//! - **One executor, one request.** Requests are synchronous, so that no other request of the
//!   executor is pending while a callback waits: neither as interference nor as blocking.
//! - **Hybrid.** The interference of one chain with all requests of a job is at most the sum over
//!   the requests' handling times, and at most what it does in the whole response time: the
//!   smaller of the two for each chain, not of the sums. The window begins with the first request,
//!   since what the accelerator did before it delays nobody. ([`Tight::own_handling`])
//! - **Blocking is counted.** Each request waits for at most one lower-priority request of its
//!   bucket, and each of those is there as often as its chain releases it. ([`Tight::blocked`])
//! - **One wait at a time.** An executor waits for one request at a time, its own chain's or one
//!   of a higher chain, so that a chain on the accelerator delays all of them together by at most
//!   its work in the window. The smaller of this and Theorem 1's sum counts. ([`Tight::total`])
//! - **The last callback is not preempted by its executor.** Higher chains of the executor count
//!   up to its start, and likewise for the callback of each request.
//! - **No `kappa` where nothing preempts**: one bucket in use.
//! - **Each request has its own `F`** (the fine pass): the bound of the response up to it, not the
//!   whole chain's.
//!
//! A release at the very instant at which work ends is counted (every window is one nanosecond
//! longer), so that the bound holds under any order of what happens at one instant.

use super::explain::Terms;
use super::jobs::{NONE, Period, least_fixed_point, times};
use super::status::chain_response;
use super::view::{CallbackView, PartView, User, View};
use super::{Term, TermKind};
use std::ops::Range;

/// Work of a chain that recurs with its period.
#[derive(Debug, Clone, Copy)]
struct Source {
    period: Period,
    /// `F + s - C - b`.
    offset: u64,
    /// `C`.
    demand: u64,
}

impl Source {
    /// Work `demand` between `head` and `finish` after each release.
    fn new(period: Period, demand: u64, head: u64, finish: u64) -> Source {
        // Longer work than the time between them would contradict `finish`.
        let room = finish.saturating_sub(head);
        let demand = if demand == NONE { NONE } else { demand.min(room) };
        Source { period, offset: room.saturating_sub(demand), demand }
    }

    /// Counts what is released at the very end of a window too.
    fn with_ties(self) -> Source {
        Source { offset: self.offset.saturating_add(1), ..self }
    }

    /// The most work in a window of length `t`.
    fn work(&self, t: u64) -> u64 {
        if self.demand == NONE {
            return NONE;
        }
        times(self.period.jobs(t.saturating_add(self.offset)), self.demand)
    }
}

/// What a chain does on an accelerator.
#[derive(Debug, Clone, Copy)]
struct UserWork {
    /// All of its requests as one.
    whole: Source,
    /// The least offset of any of its requests.
    least: u64,
}

/// A higher-priority chain's part on the same executor.
#[derive(Debug, Clone, Copy)]
struct SameExecutor {
    /// With the whole handling time of its requests.
    handled: Source,
    /// With its requests' own time and blocking only.
    alone: Source,
}

/// The requests of a part that a recurrence is about: all, or those up to one of them.
#[derive(Debug, Default)]
struct Own {
    demand: u64,
    requests: u64,
    used: Vec<Used>,
    /// For each accelerator in `used` and each of its users above: interference by handling
    /// times.
    by_handling: Vec<u64>,
}

#[derive(Debug)]
struct Used {
    accelerator: usize,
    requests: u64,
    /// Least time from the part's release to the first request.
    head: u64,
    /// Longest blocking of one request.
    blocking: u64,
    /// The segments of the bucket, in [`Tight::by_demand`].
    bucket: Range<usize>,
    /// Where its users stand in `by_handling`.
    at: usize,
}

/// The state of the iteration; vectors by part, by segment, by user in the view's order.
#[derive(Debug, Default)]
pub(super) struct Tight {
    fine: bool,
    /// Whether the chain that is being bounded has changed.
    changed: bool,
    /// By chain: the chains whose bounds contain something of it, as bits.
    dependents: Vec<u64>,
    /// The chains that must be bounded again, as bits.
    dirty: Vec<u64>,
    /// Handling time of each segment (Lemma 2 with the refinements).
    pub segment_handling: Vec<u64>,
    /// The longest blocking of each segment in its bucket.
    bucket_blocking: Vec<u64>,
    segment_finish: Vec<u64>,
    /// How long after its earliest request each segment may still occupy its device.
    presence: Vec<u64>,
    /// Response of the part up to each segment, from the fine pass.
    segment_response: Vec<u64>,
    pub blocking: Vec<u64>,
    /// Latest start of the last callback, after the part's release.
    start: Vec<u64>,
    pub response: Vec<u64>,
    part_finish: Vec<u64>,
    /// `H*` and the same without interference.
    pub handling: Vec<u64>,
    handling_alone: Vec<u64>,
    /// Each chain's `F` came from its own bound.
    bounded: Vec<bool>,
    /// Chains that blocking may not be counted by, since they have no guarantee.
    pub uncounted: Vec<bool>,
    /// By accelerator, the segments of each bucket in a row, the longest first. For the fine pass.
    by_demand: Vec<Vec<usize>>,
    users: Vec<UserWork>,
    user_segments: Vec<Source>,
    own: Own,
    hp: Vec<SameExecutor>,
    hpp: Vec<Source>,
}

impl Tight {
    /// Bounds every chain. The fine pass is slower and never worse.
    pub fn run(&mut self, view: &View, fine: bool) {
        self.uncounted.clear();
        self.uncounted.resize(view.chains.len(), false);
        self.begin(view, fine);
        self.iterate(view);
    }

    /// Bounds every chain again after chains were added to [`Tight::uncounted`].
    pub fn run_again(&mut self, view: &View) {
        self.iterate(view);
    }

    fn begin(&mut self, view: &View, fine: bool) {
        self.fine = fine;
        let (parts, segments) = (view.parts.len(), view.segments.len());
        for values in [
            &mut self.segment_handling,
            &mut self.segment_finish,
            &mut self.segment_response,
            &mut self.presence,
        ] {
            values.clear();
            values.resize(segments, 0);
        }
        for values in
            [&mut self.start, &mut self.response, &mut self.part_finish, &mut self.handling]
        {
            values.clear();
            values.resize(parts, 0);
        }
        self.blocking.clear();
        self.blocking.resize(parts, 0);
        self.bounded.clear();
        self.bounded.resize(view.chains.len(), true);
        self.bucket_blocking.clear();
        for index in 0..segments {
            let blocking = largest_below(view, index);
            self.bucket_blocking.push(blocking);
        }
        self.user_segments.clear();
        self.user_segments.resize(view.user_segments.len(), IDLE);
        let users = view.users.iter().map(Vec::len).sum();
        self.users.clear();
        self.users.resize(users, UserWork { whole: IDLE, least: 0 });
        self.handling_alone.clear();
        for part in &view.parts {
            let own = part.segments.clone().map(|k| {
                view.segments[k].exact_demand + self.bucket_blocking[k] + view.epsilon
            });
            self.handling_alone.push(own.sum());
        }
        for chain in 0..view.chains.len() {
            for part in view.chains[chain].parts.clone() {
                let requests = view.parts[part].segments.clone();
                let own = requests.map(|k| view.segments[k].exact_demand + view.epsilon);
                self.response[part] = view.parts[part].cpu + own.sum::<u64>();
            }
            self.finish_chain(view, chain);
        }
        self.sort_by_demand(view);
        self.relate(view);
    }

    fn sort_by_demand(&mut self, view: &View) {
        self.by_demand.resize_with(view.users.len(), Vec::new);
        for (users, by_demand) in view.users.iter().zip(&mut self.by_demand) {
            by_demand.clear();
            if !self.fine {
                continue;
            }
            let used = users.iter().flat_map(|user| &view.user_segments[user.segments.clone()]);
            by_demand.extend(used);
            by_demand.sort_unstable_by_key(|&k| {
                let segment = &view.segments[k];
                std::cmp::Reverse((segment.bucket, segment.exact_demand, k))
            });
        }
    }

    fn bucket_segments(&self, view: &View, accelerator: usize, bucket: u32) -> Range<usize> {
        let segments = &self.by_demand[accelerator];
        let begin = segments.partition_point(|&k| view.segments[k].bucket > bucket);
        let length = segments[begin..].partition_point(|&k| view.segments[k].bucket == bucket);
        begin..begin + length
    }

    /// Bounds chains, the highest priority first, until none has changed that another relies on.
    fn iterate(&mut self, view: &View) {
        let words = self.dirty.len();
        for chain in 0..view.chains.len() {
            self.dirty[chain / 64] |= 1 << (chain % 64);
        }
        while self.dirty.iter().any(|&word| word != 0) {
            for &chain in &view.by_priority {
                if self.dirty[chain / 64] >> (chain % 64) & 1 == 0 {
                    continue;
                }
                self.dirty[chain / 64] &= !(1 << (chain % 64));
                self.changed = false;
                for part in view.chains[chain].parts.clone() {
                    self.bound_part(view, part);
                }
                if self.changed {
                    self.finish_chain(view, chain);
                    let dependents = &self.dependents[chain * words..][..words];
                    self.dirty.iter_mut().zip(dependents).for_each(|(dirty, more)| *dirty |= more);
                }
            }
        }
    }

    /// Finds out whose bounds contain something of each chain.
    fn relate(&mut self, view: &View) {
        let words = view.chains.len().div_ceil(64);
        self.dirty.clear();
        self.dirty.resize(words, 0);
        self.dependents.clear();
        self.dependents.resize(view.chains.len() * words, 0);
        let mut add = |on: usize, chain: usize| {
            self.dependents[on * words + chain / 64] |= 1 << (chain % 64);
        };
        for users in &view.users {
            for (place, user) in users.iter().enumerate() {
                users[..place].iter().for_each(|above| add(above.chain, user.chain));
                let below = users[place + 1..].iter();
                let same = below.take_while(|below| below.bucket == user.bucket);
                same.for_each(|below| add(below.chain, user.chain));
            }
        }
        for part in &view.parts {
            for &other in &view.others[part.hp.start..part.hpp.end] {
                add(view.parts[other].chain, part.chain);
            }
        }
    }

    /// Derives `F` of a chain's parts and segments from its response times.
    fn finish_chain(&mut self, view: &View, chain: usize) {
        let whole = chain_response(view, &self.response, chain);
        let deadline = view.chains[chain].deadline;
        let bounded = whole <= deadline;
        self.bounded[chain] = bounded;
        let mut clock = view.chains[chain].jitter;
        for index in view.chains[chain].parts.clone() {
            let part = &view.parts[index];
            let begin = clock;
            clock = if bounded { begin + self.response[index] } else { deadline };
            self.part_finish[index] = clock;
            for k in part.segments.clone() {
                let by_part = clock.saturating_sub(view.segments[k].tail_min);
                let own = if self.fine && bounded { self.segment_response[k] } else { NONE };
                self.segment_finish[k] = by_part.min(begin.saturating_add(own));
            }
            clock = clock.saturating_add(view.hop);
        }
        self.place_users(view, chain);
    }

    /// Spells out what a chain may do on each accelerator.
    fn place_users(&mut self, view: &View, chain: usize) {
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

    /// What a user of an accelerator does in a window without the requests of `executor`.
    fn user_work(&self, view: &View, place: usize, user: &User, executor: usize, t: u64) -> u64 {
        if user.executor == Some(executor) {
            return 0;
        }
        let UserWork { whole: source, least } = self.users[place];
        let whole = source.work(t);
        // Segment by segment it is not less than if all had the least offset.
        if user.executor.is_some()
            && (!self.fine || times(source.period.jobs(t.saturating_add(least)), source.demand) >= whole)
        {
            return whole;
        }
        let elsewhere = |at: &usize| view.segments[view.user_segments[*at]].executor != executor;
        let segments = user.segments.clone().filter(elsewhere);
        let each = segments.map(|at| self.user_segments[at].work(t));
        whole.min(each.fold(0, u64::saturating_add))
    }

    /// Lemma 2 with the refinements: handling time of one segment.
    fn handle_segment(&mut self, view: &View, index: usize, first: usize) {
        let segment = &view.segments[index];
        let alike = |other: &usize| {
            let other = &view.segments[*other];
            other.accelerator == segment.accelerator
                && other.exact_demand == segment.exact_demand
        };
        let handling = if let Some(other) = (first..index).rev().find(alike) {
            self.segment_handling[other]
        } else if view.concurrent_lowest[segment.accelerator] && segment.bucket == 0 {
            NONE
        } else {
            let base = segment.exact_demand + self.bucket_blocking[index];
            let above = view.users_above(segment.accelerator, segment.chain);
            let place = view.users_before[segment.accelerator];
            let step = |h: u64| {
                let work = |(i, user)| self.user_work(view, place + i, user, segment.executor, h);
                above.iter().enumerate().map(work).fold(base, u64::saturating_add)
            };
            let start = self.segment_handling[index].max(base);
            least_fixed_point(start, view.horizon, step)
        };
        self.changed |= handling != self.segment_handling[index];
        self.segment_handling[index] = handling;
    }

    /// `B`: the executor is held by at most one lower-priority callback, for its processor time
    /// and the handling of its requests.
    fn blocking(&self, view: &View, part: &PartView) -> u64 {
        let lower = view.others[part.lp.clone()].iter();
        lower.map(|&lower| self.held(view, &view.parts[lower])).max().unwrap_or(0)
    }

    fn held(&self, view: &View, part: &PartView) -> u64 {
        let held = |callback: &CallbackView| {
            let own = callback.cpu + callback.segments.len() as u64 * view.epsilon;
            let handling = &self.segment_handling[callback.segments.clone()];
            handling.iter().fold(own, |sum, &h| sum.saturating_add(h))
        };
        view.callbacks[part.callbacks.clone()].iter().map(held).max().unwrap_or(0)
    }

    fn bound_part(&mut self, view: &View, index: usize) {
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

    fn collect_interference(&mut self, view: &View, part: &PartView) {
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
    fn respond(&mut self, view: &View, index: usize) -> u64 {
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
        least_fixed_point(from, cap, step)
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
        least_fixed_point(from, cap, step)
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

    /// What the own requests take, and all that the chains above do on any accelerator that the
    /// executor may wait for.
    fn waits(&self, view: &View, part: &PartView, x: u64) -> u64 {
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

    /// Whether the executor may wait for an accelerator, for the own chain or one above it.
    fn waited_for(&self, view: &View, part: &PartView, accelerator: usize) -> bool {
        let uses = |index: &usize| {
            let segments = &view.segments[view.parts[*index].segments.clone()];
            segments.iter().any(|segment| segment.accelerator == accelerator)
        };
        let own = self.own.used.iter().any(|used| used.accelerator == accelerator);
        own || view.others[part.hp.clone()].iter().any(uses)
    }

    /// Handling time of the own requests so far, without `epsilon`, in a response of `x`.
    fn own_handling(&self, view: &View, part: &PartView, x: u64) -> u64 {
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

    /// How long lower-priority requests of the bucket hold up the own requests on an accelerator:
    /// the longest, each as often as its chain can have it there, at most one for each own one.
    fn blocked(&self, view: &View, part: &PartView, used: &Used, x: u64) -> u64 {
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

    /// Lets blocking no longer be counted by these chains; whether any of them was.
    pub fn distrust(&mut self, chains: impl Iterator<Item = bool>) -> bool {
        let mut changed = false;
        for (uncounted, lost) in self.uncounted.iter_mut().zip(chains) {
            changed |= self.fine && lost && !*uncounted;
            *uncounted |= lost;
        }
        changed
    }

    /// The addends of a part's response time; where it has none, of what is reached at the
    /// deadline.
    pub fn terms(&mut self, view: &View, index: usize) -> Vec<Term> {
        let part = &view.parts[index];
        let deadline = view.chains[part.chain].deadline;
        let response = self.response[index];
        let x = if response == NONE { deadline } else { response };
        // Leaves the requests, the sources and the start of the part behind.
        self.collect_interference(view, part);
        self.respond(view, index);
        let hp = if self.start[index] == NONE { deadline } else { self.start[index] };
        let mut terms = Terms::of(view, index);
        let held = |&lower: &usize| (self.held(view, &view.parts[lower]), lower);
        if let Some((ns, lower)) = view.others[part.lp.clone()].iter().map(held).max() {
            terms.add(TermKind::Blocking, view.parts[lower].chain, ns);
        }
        for (&other, source) in view.others[part.hpp.clone()].iter().zip(&self.hpp) {
            let work = source.work(x);
            terms.add(TermKind::CoreInterference, view.parts[other].chain, work);
        }
        let sum = |sources: &dyn Fn(&SameExecutor) -> Source| {
            self.hp.iter().map(|h| sources(h).work(hp)).fold(0, u64::saturating_add)
        };
        let by_job = sum(&|h| h.handled).saturating_add(self.own_handling(view, part, x));
        let by_window = sum(&|h| h.alone).saturating_add(self.waits(view, part, x));
        let whole = self.hp.is_empty() || by_job <= by_window;
        for (&other, source) in view.others[part.hp.clone()].iter().zip(&self.hp) {
            let source = if whole { source.handled } else { source.alone };
            terms.add(TermKind::ExecutorInterference, view.parts[other].chain, source.work(hp));
        }
        self.accelerator_terms(view, part, x, whole, &mut terms);
        terms.finish()
    }

    fn accelerator_terms(
        &self,
        view: &View,
        part: &PartView,
        x: u64,
        whole: bool,
        terms: &mut Terms,
    ) {
        terms.add(TermKind::Accelerator, part.chain, self.own.demand);
        for used in &self.own.used {
            let blocked = self.blocked(view, part, used, x);
            let priority = view.chains[part.chain].priority;
            let bucket = self.by_demand[used.accelerator][used.bucket.clone()].iter();
            let mut below = bucket.map(|&k| &view.segments[k]).filter(|segment| {
                segment.executor != part.executor && view.chains[segment.chain].priority < priority
            });
            if let Some(longest) = below.next() {
                terms.add(TermKind::BucketBlocking, longest.chain, blocked);
            }
        }
        for (accelerator, above) in (0..view.users.len()).map(|a| (a, view.users_above(a, part.chain))) {
            let place = view.users_before[accelerator];
            let used = self.own.used.iter().find(|used| used.accelerator == accelerator);
            for (i, user) in above.iter().enumerate() {
                let in_window = |t| self.user_work(view, place + i, user, part.executor, t);
                let work = match used {
                    Some(used) if whole => {
                        let by_handling = self.own.by_handling[used.at + i];
                        by_handling.min(in_window(x.saturating_sub(used.head)))
                    }
                    None if whole => 0,
                    _ if self.waited_for(view, part, accelerator) => in_window(x),
                    _ => 0,
                };
                terms.add(TermKind::AcceleratorInterference, user.chain, work);
            }
        }
    }

    fn add_own(&mut self, view: &View, part: &PartView, k: usize) {
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

}

/// Before anything is known of a chain.
const IDLE: Source = Source { period: Period::ONE, offset: 0, demand: 0 };

impl Own {
    fn clear(&mut self) {
        (self.demand, self.requests) = (0, 0);
        self.used.clear();
        self.by_handling.clear();
    }
}

/// The longest lower-priority request of the bucket that another executor may have started when a
/// segment is requested.
fn largest_below(view: &View, index: usize) -> u64 {
    let segment = &view.segments[index];
    let below = view.users_below(segment.accelerator, segment.chain).iter();
    let segments = below
        .filter(|user| user.bucket == segment.bucket)
        .flat_map(|user| &view.user_segments[user.segments.clone()]);
    let elsewhere = segments
        .map(|&k| &view.segments[k])
        .filter(|other| other.executor != segment.executor);
    elsewhere.map(|other| other.exact_demand).max().unwrap_or(0)
}
