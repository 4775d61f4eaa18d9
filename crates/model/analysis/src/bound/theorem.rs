//! Lemmas 1 to 4 and Theorem 1 of PAAM (document: arXiv 2404.06452, section IV-F), as printed and
//! repaired. One function for each; the symbols are those of the paper.
//!
//! Assumptions, common to all: executors are single-threaded and on one core each, with unique
//! process priorities there; callbacks are not preempted by others of their executor, and the
//! ready one with the highest chain priority is taken; requests are synchronous; a chain's
//! releases are at least its period apart, and `J + R* <= D <= T`. Accelerators serve their
//! buckets preemptively and the requests of one bucket one at a time, by chain priority; the
//! bucket does not fall as priority rises.

use super::explain::Terms;
use super::jobs::{NONE, Period, least_fixed_point, overloads, times};
use super::view::{CallbackView, PartView, User, View};
use super::{Term, TermKind};

/// Results of one run of Theorem 1, by segment and by part; [`NONE`] where there is none.
#[derive(Debug, Default)]
pub(super) struct Theorem {
    /// Lemma 2 of each segment.
    pub segment_handling: Vec<u64>,
    /// Sum of Lemma 2 of each part.
    pub l2: Vec<u64>,
    /// `B` of each part.
    pub blocking: Vec<u64>,
    /// `H*` of each part.
    pub handling: Vec<u64>,
    /// `R` of each part.
    pub response: Vec<u64>,
    /// True, by accelerator and user, if the users above leave nothing.
    overloaded: Vec<bool>,
    interference: Vec<(Period, u64)>,
    requests: Vec<(Period, u64)>,
}

/// Lemma 1 (arrival bound). A segment of a chain with period `T` that meets its deadline issues
/// at most `ceil(t / T) + 1` requests that are pending in a window of length `t`: the deadline is
/// at most the period, so that one job of before the window is carried in.
fn arrivals(period: Period, t: u64) -> u64 {
    period.jobs(t) + 1
}

/// The longest `A*` of a lower-priority chain in the same bucket: what already runs is not
/// preempted within its bucket, and only one request of the bucket has been started.
fn bucket_blocking(view: &View, accelerator: usize, chain: usize, bucket: u32) -> u64 {
    let below = view.users_below(accelerator, chain).iter();
    below.filter(|user| user.bucket == bucket).map(|user| user.largest).max().unwrap_or(0)
}

/// Lemma 2 (handling time per segment): the least `H` with
/// `H = A* + max{A*: lps, same bucket} + sum over hps of mu(H) A*`.
///
/// `base` is the sum of the first two terms, `hps` the higher-priority chains on the accelerator
/// with the sum of their `A*` there; it exists exactly where their utilisation is below 1.
fn lemma_2(view: &View, base: u64, hps: &[User]) -> u64 {
    let period = |user: &User| view.chains[user.chain].period;
    let step = |h: u64| {
        let demand = |user: &User| times(arrivals(period(user), h), user.demand);
        hps.iter().map(demand).fold(base, u64::saturating_add)
    };
    // mu is at least 2 of any window that is not empty.
    let start = hps.iter().map(|user| 2 * user.demand).sum::<u64>() + base;
    least_fixed_point(start, MAX_HANDLING_NS, &view.budget, step)
}

/// Above this, Lemma 2 is given up: 570 years, and far above every deadline.
const MAX_HANDLING_NS: u64 = NONE / 2;

/// Lemma 3 (handling time per chain): `sum of (A* + max{A*: lps, same bucket}) + sum over the
/// union of hps of mu(R) A*`, in the window of the response time `R` itself.
fn lemma_3(base: u64, hps: &[(Period, u64)], r: u64) -> u64 {
    hps.iter()
        .map(|&(period, demand)| times(arrivals(period, r), demand))
        .fold(base, u64::saturating_add)
}

/// Lemma 4 (chain without accelerator segments, from PiCAS), one step: `B + E + sum over hp of
/// mu(R) E_h + sum over hpp of mu(R) E_h`, where the last two sums are over what each job of the
/// chains above takes. Theorem 1 is this with `H*` added to the chain's own time and to theirs.
///
/// `own` is `B + E`, with `H*` in Theorem 1; `above` the period and the demand of each chain of
/// `hp` and `hpp`.
fn lemma_4(own: u64, above: &[(Period, u64)], r: u64) -> u64 {
    above
        .iter()
        .map(|&(period, demand)| times(arrivals(period, r), demand))
        .fold(own, u64::saturating_add)
}

impl Theorem {
    /// Theorem 1 for every part of the system: the least `R` with
    /// `R = B + E + H*(R) + sum over hp of mu(R) (E_h + H*_h) + sum over hpp of mu(R) (E_h + spin_h)`,
    /// where `H*(R) = min(Lemma 2, Lemma 3 at R) + delta epsilon`, and `spin_h` is `H*_h` where
    /// the chain spins and `delta_h epsilon` where it suspends.
    ///
    /// `B` as printed is the longest processor time of a lower-priority callback on the executor,
    /// which is unsound: that callback holds the executor while it waits for an accelerator.
    /// `sound` adds its handling time.
    pub(super) fn run(&mut self, view: &View, sound: bool) {
        self.handle_segments(view);
        self.blocking.clear();
        for part in &view.parts {
            let blocking = self.blocking(view, part, sound);
            self.blocking.push(blocking);
        }
        self.handling.clear();
        self.handling.resize(view.parts.len(), NONE);
        self.response.clear();
        self.response.resize(view.parts.len(), NONE);
        for &part in &view.order {
            if view.budget.is_stopped() {
                return;
            }
            self.respond(view, part);
        }
    }

    fn handle_segments(&mut self, view: &View) {
        self.overloaded.clear();
        for users in &view.users {
            let overloaded = (0..users.len()).map(|above| {
                let demand = |user: &User| (user.demand, view.chains[user.chain].period);
                overloads(users[..above].iter().map(demand))
            });
            self.overloaded.extend(overloaded);
        }
        self.segment_handling.clear();
        self.l2.clear();
        for part in &view.parts {
            let mut sum = 0u64;
            for index in part.segments.clone() {
                let handling = self.handle_segment(view, index, part.segments.start);
                self.segment_handling.push(handling);
                sum = sum.saturating_add(handling);
            }
            self.l2.push(sum);
        }
    }

    fn handle_segment(&self, view: &View, index: usize, first: usize) -> u64 {
        let segment = &view.segments[index];
        let alike = |other: &usize| {
            let other = &view.segments[*other];
            other.accelerator == segment.accelerator && other.demand == segment.demand
        };
        if let Some(other) = (first..index).rev().find(alike) {
            return self.segment_handling[other];
        }
        let (accelerator, chain) = (segment.accelerator, segment.chain);
        if view.concurrent_lowest[accelerator] && segment.bucket == 0 {
            return NONE;
        }
        let hps = view.users_above(accelerator, chain);
        let place = view.users_before[accelerator] + hps.len();
        if self.overloaded[place] {
            return NONE;
        }
        let blocking = bucket_blocking(view, accelerator, chain, segment.bucket);
        lemma_2(view, segment.demand + blocking, hps)
    }

    /// `B`: at most one callback of a lower-priority chain had been started when the part was
    /// released, and none is started before the part's last callback is.
    fn blocking(&self, view: &View, part: &PartView, sound: bool) -> u64 {
        let lower = view.others[part.lp.clone()].iter();
        lower.map(|&lower| self.held(view, &view.parts[lower], sound)).max().unwrap_or(0)
    }

    /// Returns the longest time for which a callback of a part may hold its executor.
    fn held(&self, view: &View, part: &PartView, sound: bool) -> u64 {
        let held = |callback: &CallbackView| {
            if !sound {
                return callback.cpu;
            }
            let own = callback.cpu + callback.segments.len() as u64 * view.epsilon;
            let handling = &self.segment_handling[callback.segments.clone()];
            handling.iter().fold(own, |sum, &h| sum.saturating_add(h))
        };
        view.callbacks[part.callbacks.clone()].iter().map(held).max().unwrap_or(0)
    }

    fn respond(&mut self, view: &View, index: usize) {
        let part = &view.parts[index];
        let own_epsilon = part.segments.len() as u64 * view.epsilon;
        let l2 = self.l2[index];
        self.collect_interference(view, part);
        let base = self.collect_requests(view, part);
        let fixed = self.blocking[index].saturating_add(part.cpu + own_epsilon);
        let handling = |r: u64| l2.min(lemma_3(base, &self.requests, r));
        let step = |r: u64| lemma_4(fixed.saturating_add(handling(r)), &self.interference, r);
        // The paper's start, the first three terms, and one step more.
        let start = step(fixed.saturating_add(l2.min(base)));
        let cap = view.chains[part.chain].deadline;
        let response = match view.chains[part.chain].concurrent {
            Some(_) => NONE,
            None => least_fixed_point(start, cap, &view.budget, step),
        };
        self.response[index] = response;
        let within = if response == NONE { l2 } else { handling(response) };
        self.handling[index] = within.saturating_add(own_epsilon);
    }

    /// Collects the time that each job of `hp` and `hpp` takes from the part.
    fn collect_interference(&mut self, view: &View, part: &PartView) {
        self.interference.clear();
        let hp = view.others[part.hp.clone()].iter().map(|&h| (h, true));
        let hpp = view.others[part.hpp.clone()].iter().map(|&h| (h, false));
        for (index, same_executor) in hp.chain(hpp) {
            let other = &view.parts[index];
            let chain = &view.chains[other.chain];
            // Executors at equal (normal) priority are not ordered: without R, H* is Lemma 2.
            let equal = !same_executor && other.process_priority == part.process_priority;
            let epsilon = other.segments.len() as u64 * view.epsilon;
            let held = match (same_executor || chain.spin, equal) {
                (false, _) => epsilon,
                (true, false) => self.handling[index],
                (true, true) => self.l2[index].saturating_add(epsilon),
            };
            self.interference.push((chain.period, other.cpu.saturating_add(held)));
        }
    }

    /// The terms of Lemma 3: returns the fixed ones, and collects the higher-priority demand.
    fn collect_requests(&mut self, view: &View, part: &PartView) -> u64 {
        self.requests.clear();
        let segments = &view.segments[part.segments.clone()];
        let mut base = 0u64;
        for (place, segment) in segments.iter().enumerate() {
            let (accelerator, chain) = (segment.accelerator, segment.chain);
            let blocking = bucket_blocking(view, accelerator, chain, segment.bucket);
            base = base.saturating_add(segment.demand + blocking);
            if segments[..place].iter().any(|other| other.accelerator == accelerator) {
                continue;
            }
            let hps = view.users_above(accelerator, chain).iter();
            self.requests.extend(hps.map(|user| (view.chains[user.chain].period, user.demand)));
        }
        base
    }

    /// The addends of a part's response time; where it has none, of what is reached at the
    /// deadline.
    pub(super) fn terms(&mut self, view: &View, index: usize, sound: bool) -> Vec<Term> {
        let part = &view.parts[index];
        let r = match self.response[index] {
            NONE => view.chains[part.chain].deadline,
            response => response,
        };
        let base = self.collect_requests(view, part);
        let per_segment = self.l2[index] <= lemma_3(base, &self.requests, r);
        let mut terms = Terms::of(view, index);
        for k in part.segments.clone() {
            self.handling_terms(view, k, if per_segment { None } else { Some(r) }, &mut terms);
        }
        let held = |&lower: &usize| (self.held(view, &view.parts[lower], sound), lower);
        if let Some((ns, lower)) = view.others[part.lp.clone()].iter().map(held).max() {
            terms.add(TermKind::Blocking, view.parts[lower].chain, ns);
        }
        self.collect_interference(view, part);
        let hp = view.others[part.hp.clone()].iter().map(|h| (h, TermKind::ExecutorInterference));
        let hpp = view.others[part.hpp.clone()].iter().map(|h| (h, TermKind::CoreInterference));
        for ((&other, kind), &(period, demand)) in hp.chain(hpp).zip(&self.interference) {
            terms.add(kind, view.parts[other].chain, times(arrivals(period, r), demand));
        }
        terms.finish()
    }

    /// The addends of one segment's handling: by Lemma 2, or its share of Lemma 3 in the window.
    fn handling_terms(&self, view: &View, k: usize, window: Option<u64>, terms: &mut Terms) {
        let segment = &view.segments[k];
        let (accelerator, chain) = (segment.accelerator, segment.chain);
        terms.add(TermKind::Accelerator, chain, segment.demand);
        let below = view.users_below(accelerator, chain).iter();
        let same = below.filter(|user| user.bucket == segment.bucket);
        if let Some(user) = same.max_by_key(|user| user.largest) {
            terms.add(TermKind::BucketBlocking, user.chain, user.largest);
        }
        // Lemma 3 counts the chains above once for all segments of the part on the accelerator.
        let mut before = view.parts[segment.part].segments.start..k;
        let counted = before.any(|other| view.segments[other].accelerator == accelerator);
        if window.is_some() && counted {
            return;
        }
        let window = window.unwrap_or(self.segment_handling[k]);
        for user in view.users_above(accelerator, chain) {
            let jobs = arrivals(view.chains[user.chain].period, window);
            terms.add(TermKind::AcceleratorInterference, user.chain, times(jobs, user.demand));
        }
    }

    /// Lemma 3 of a part at its response time.
    pub(super) fn lemma_3_at(&mut self, view: &View, index: usize) -> u64 {
        let base = self.collect_requests(view, &view.parts[index]);
        match self.response[index] {
            NONE => NONE,
            response => lemma_3(base, &self.requests, response),
        }
    }
}
