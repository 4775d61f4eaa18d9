//! The tight bound: a refinement of Theorem 1 of PAAM that stays sound.
//!
//! All chains are bounded together. `F` of a segment or part is how long after its chain's
//! nominal release it has ended at the latest; it starts at the sum of the chain's own work and
//! grows with the response times, which grow with it, until nothing changes (holistic analysis:
//! the first job that exceeded its bound would contradict the step that computed it). A chain
//! whose bound passes its deadline gets none; what is computed for others under the assumption
//! that it meets its deadline (`F = D`) is marked as dependent.
//!
//! Improvements on Theorem 1, and why they are sound:
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
//!   since what the accelerator did before it delays no chain. ([`Tight::own_handling`])
//! - **Who waits does not interfere.** While a chain waits for a lower-priority callback to give up
//!   its executor, it has no request of its own on the way, and so delays none of that callback's.
//!   From the moment at which the wait begins, what is left of them is handled beside the other
//!   chains only. ([`Tight::held`])
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

mod own;
mod part;
mod source;
mod terms;

use super::jobs::NONE;
use super::status::chain_response;
use super::view::View;
use own::Own;
use part::SameExecutor;
use source::{IDLE, Source, UserWork};

/// The state of the iteration; vectors by part, by segment, by user in the view's order.
#[derive(Debug, Default)]
pub(super) struct Tight {
    fine: bool,
    /// True if the bound of the present chain has changed.
    changed: bool,
    /// Chains whose bounds contain something of a chain, as bits, by chain.
    dependents: Vec<u64>,
    /// The chains that must be bounded again, as bits.
    dirty: Vec<u64>,
    /// Handling time of each segment (Lemma 2 with the refinements).
    pub segment_handling: Vec<u64>,
    /// The longest blocking of each segment in its bucket.
    bucket_blocking: Vec<u64>,
    segment_finish: Vec<u64>,
    /// Longest time after its earliest request for which each segment may still occupy its device.
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
    /// True for each chain whose `F` came from its own bound.
    bounded: Vec<bool>,
    /// Chains that blocking may not be counted by, since they have no guarantee.
    pub uncounted: Vec<bool>,
    /// Segments of each bucket in a row, the longest first, by accelerator. For the fine pass.
    by_demand: Vec<Vec<usize>>,
    users: Vec<UserWork>,
    user_segments: Vec<Source>,
    own: Own,
    hp: Vec<SameExecutor>,
    hpp: Vec<Source>,
}

impl Tight {
    /// Bounds every chain. The fine pass is slower and never worse.
    pub(super) fn run(&mut self, view: &View, fine: bool) {
        self.uncounted.clear();
        self.uncounted.resize(view.chains.len(), false);
        self.begin(view, fine);
        self.iterate(view);
    }

    /// Bounds every chain again after chains were added to [`Tight::uncounted`].
    pub(super) fn run_again(&mut self, view: &View) {
        self.iterate(view);
    }

    /// Lets blocking no longer be counted by these chains; whether any of them was.
    pub(super) fn distrust(&mut self, chains: impl Iterator<Item = bool>) -> bool {
        let mut changed = false;
        for (uncounted, lost) in self.uncounted.iter_mut().zip(chains) {
            changed |= self.fine && lost && !*uncounted;
            *uncounted |= lost;
        }
        changed
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
            let own = part
                .segments
                .clone()
                .map(|k| view.segments[k].exact_demand + self.bucket_blocking[k] + view.epsilon);
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

    /// Bounds chains, the highest priority first, until none has changed that another relies on.
    fn iterate(&mut self, view: &View) {
        for chain in 0..view.chains.len() {
            self.dirty[chain / 64] |= 1 << (chain % 64);
        }
        while self.dirty.iter().any(|&word| word != 0) {
            view.budget.begin_pass(view.chains.len());
            for &chain in &view.by_priority {
                if self.dirty[chain / 64] >> (chain % 64) & 1 == 1 {
                    self.bound_chain(view, chain);
                }
                if !view.budget.end_chain() {
                    return;
                }
            }
        }
    }

    /// Bounds one chain, and marks those that must be bounded again if that has changed it.
    fn bound_chain(&mut self, view: &View, chain: usize) {
        let words = self.dirty.len();
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
            // The chains that delay the requests of a callback that may hold the executor.
            for lower in view.others[part.lp.clone()].iter().map(|&lower| &view.parts[lower]) {
                for segment in &view.segments[lower.segments.clone()] {
                    let above = view.users_above(segment.accelerator, lower.chain);
                    above.iter().for_each(|user| add(user.chain, part.chain));
                }
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
}

/// The longest lower-priority request of the bucket that another executor may have started when a
/// segment is requested.
fn largest_below(view: &View, index: usize) -> u64 {
    let segment = &view.segments[index];
    let below = view.users_below(segment.accelerator, segment.chain).iter();
    let segments = below
        .filter(|user| user.bucket == segment.bucket)
        .flat_map(|user| &view.user_segments[user.segments.clone()]);
    let elsewhere =
        segments.map(|&k| &view.segments[k]).filter(|other| other.executor != segment.executor);
    elsewhere.map(|other| other.exact_demand).max().unwrap_or(0)
}
