//! Choice of the bounds that are guarantees.
//!
//! Every analysis assumes that the chains whose jobs it counts meet their deadlines. The chains
//! that are ok are the greatest set in which each has a bound within its deadline and relies on
//! members only: the first job to exceed its bound would contradict the bound of the member that
//! it belongs to.

use super::Status;
use super::jobs::{NONE, some};
use super::view::View;

/// The chains that each chain's bound relies on: one row of bits per chain.
#[derive(Debug, Default)]
pub(super) struct Relies {
    bits: Vec<u64>,
    words: usize,
    ok: Vec<u64>,
}

impl Relies {
    /// Finds out whose deadlines each chain's bound relies on: higher-priority chains on the
    /// accelerators it uses, and the chains of its `hp` and `hpp`. With `blocking`, the bound
    /// contains the handling time of lower-priority callbacks of its executors: also the chains
    /// above those on their accelerators, and such a chain itself where it spans executors, since
    /// its own other part might then compete with it.
    pub(super) fn load(&mut self, view: &View, blocking: bool) {
        let chains = view.chains.len();
        self.words = chains.div_ceil(64);
        self.bits.clear();
        self.bits.resize(chains * self.words, 0);
        for part in &view.parts {
            self.add_users_above(view, part.chain, part.segments.clone(), part.chain);
            let preempting =
                view.others[part.hp.clone()].iter().chain(&view.others[part.hpp.clone()]);
            for &other in preempting {
                self.add(part.chain, view.parts[other].chain);
            }
            if !blocking {
                continue;
            }
            for &other in &view.others[part.lp.clone()] {
                let lower = &view.parts[other];
                self.add_users_above(view, lower.chain, lower.segments.clone(), part.chain);
                if !lower.segments.is_empty() && view.chains[lower.chain].parts.len() > 1 {
                    self.add(part.chain, lower.chain);
                }
            }
        }
    }

    fn add_users_above(
        &mut self,
        view: &View,
        chain: usize,
        segments: std::ops::Range<usize>,
        relying: usize,
    ) {
        let mut last = None;
        for segment in &view.segments[segments] {
            if last == Some(segment.accelerator) {
                continue;
            }
            last = Some(segment.accelerator);
            for user in view.users_above(segment.accelerator, chain) {
                self.add(relying, user.chain);
            }
        }
    }

    fn add(&mut self, relying: usize, on: usize) {
        if relying != on {
            self.bits[relying * self.words + on / 64] |= 1 << (on % 64);
        }
    }

    /// The chains that this one relies on.
    pub(super) fn of(&self, chain: usize) -> Vec<usize> {
        let row = &self.bits[chain * self.words..][..self.words];
        let has = |on: &usize| row[on / 64] >> (on % 64) & 1 == 1;
        (0..self.words * 64).filter(has).collect()
    }

    /// Decides the status of every chain from its response time ([`NONE`] for none).
    pub(super) fn decide(
        &mut self,
        view: &View,
        response: impl Fn(usize) -> u64,
        statuses: &mut Vec<(Status, Option<u64>)>,
    ) {
        statuses.clear();
        self.ok.clear();
        self.ok.resize(self.words, 0);
        for (chain, described) in view.chains.iter().enumerate() {
            let response = response(chain);
            let meets = response <= described.deadline;
            self.ok[chain / 64] |= u64::from(meets) << (chain % 64);
            let status = if meets { Status::Ok } else { Status::Miss };
            statuses.push((status, some(response)));
        }
        loop {
            let mut changed = false;
            for (chain, (status, _)) in statuses.iter_mut().enumerate() {
                let row = &self.bits[chain * self.words..][..self.words];
                let holds = row.iter().zip(&self.ok).all(|(on, ok)| on & !ok == 0);
                if *status == Status::Ok && !holds {
                    *status = Status::Dependent;
                    self.ok[chain / 64] &= !(1 << (chain % 64));
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }
}

/// The response time of a chain from its nominal release: its jitter, its parts and the hops
/// between them; [`NONE`] where a part has none.
pub(super) fn chain_response(view: &View, responses: &[u64], chain: usize) -> u64 {
    let described = &view.chains[chain];
    let parts = described.parts.clone();
    let hops = (parts.len() as u64).saturating_sub(1).saturating_mul(view.hop);
    let own = described.jitter.saturating_add(hops);
    let whole = responses[parts].iter().fold(own, |sum, &part| sum.saturating_add(part));
    if described.concurrent.is_some() { NONE } else { whole }
}
