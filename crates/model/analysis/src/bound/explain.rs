//! Addends of a bound, and the reason why there is none.

use super::jobs::{NONE, some};
use super::view::View;
use super::{Analyzer, PartBound, Refusal, Status, Term, TermKind};

impl Analyzer {
    /// Returns the reason why a chain is not ok, from the bounds of its parts.
    pub(super) fn refusal(&self, chain: usize, parts: &[PartBound]) -> Refusal {
        let view = &self.view;
        let described = &view.chains[chain];
        if let Some(accelerator) = described.concurrent {
            return Refusal::Concurrent { accelerator };
        }
        let (status, response) = self.chains[chain];
        if status == Status::Dependent {
            let lost = |&on: &usize| self.chains[on].0 != Status::Ok;
            let relies = self.relies.of(chain);
            // The chain that fails by itself says more than one that fails with it.
            let first = relies.iter().copied().find(|&on| self.chains[on].0 == Status::Miss);
            let chain = first.or_else(|| relies.iter().copied().find(lost)).unwrap_or(chain);
            return Refusal::Relies { chain };
        }
        if let Some(part) = parts.iter().position(|part| part.response_ns.is_none()) {
            if let Some(refusal) = self.missing_term(chain, part) {
                return refusal;
            }
            let reached = parts[part].terms.iter().fold(0, |sum: u64, t| sum.saturating_add(t.ns));
            let missing_ns = reached.saturating_sub(described.deadline).max(1);
            let largest = largest(chain, &parts[part].terms);
            return Refusal::Late { part: Some(part), missing_ns, largest };
        }
        let missing_ns = response.unwrap_or(NONE).saturating_sub(described.deadline);
        let terms: Vec<Term> = parts.iter().flat_map(|part| part.terms.iter().copied()).collect();
        Refusal::Late { part: None, missing_ns, largest: largest(chain, &terms) }
    }

    /// A term of a part that does not exist at all: handling on an accelerator that the chains
    /// above fill.
    fn missing_term(&self, chain: usize, part: usize) -> Option<Refusal> {
        let view = &self.view;
        let index = view.chains[chain].parts.start + part;
        let part = &view.parts[index];
        let overload = |of: usize| {
            let segments = view.parts[of].segments.clone();
            let lost = segments.into_iter().find(|&k| self.overloaded(k))?;
            let segment = &view.segments[lost];
            Some(Refusal::Overload { accelerator: segment.accelerator, chain: segment.chain })
        };
        // Its own requests may still be bounded by Lemma 3; those of the others may not.
        let lower = view.others[part.lp.clone()].iter().copied().find_map(overload);
        let lower = lower.filter(|_| self.variant != super::Variant::Published);
        let above = view.others[part.hp.clone()].iter().chain(&view.others[part.hpp.clone()]);
        let above = above.copied().find_map(overload);
        lower.or(above).or_else(|| overload(index))
    }

    fn overloaded(&self, segment: usize) -> bool {
        let segment = &self.view.segments[segment];
        let above = self.view.users_above(segment.accelerator, segment.chain);
        let demand = |user: &super::view::User| (user.demand, self.view.chains[user.chain].period);
        super::jobs::overloads(above.iter().map(demand))
    }
}

/// The largest addend that another chain causes; where none does, the largest.
fn largest(chain: usize, terms: &[Term]) -> Option<Term> {
    let others = terms.iter().filter(|term| term.chain != chain).max_by_key(|term| term.ns);
    others.or_else(|| terms.iter().max_by_key(|term| term.ns)).copied()
}

/// Collects the addends of one part's response time.
#[derive(Debug)]
pub(super) struct Terms {
    terms: Vec<Term>,
}

impl Terms {
    /// Terms of a chain, with the part's own work.
    pub(super) fn of(view: &View, index: usize) -> Terms {
        let part = &view.parts[index];
        let mut terms = Terms { terms: Vec::new() };
        terms.add(TermKind::Cpu, part.chain, part.cpu);
        terms.add(TermKind::Epsilon, part.chain, part.segments.len() as u64 * view.epsilon);
        terms
    }

    pub(super) fn add(&mut self, kind: TermKind, chain: usize, ns: u64) {
        if ns == 0 {
            return;
        }
        match self.terms.iter_mut().find(|term| term.kind == kind && term.chain == chain) {
            Some(term) => term.ns = term.ns.saturating_add(ns),
            None => self.terms.push(Term { kind, chain, ns }),
        }
    }

    /// The largest first; terms that do not exist are left out.
    pub(super) fn finish(mut self) -> Vec<Term> {
        self.terms.retain(|term| some(term.ns).is_some());
        self.terms.sort_by_key(|term| std::cmp::Reverse(term.ns));
        self.terms
    }
}
