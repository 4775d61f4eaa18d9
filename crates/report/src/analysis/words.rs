//! Terms, statuses and refusals in words, with the names of the file.

use super::Bounds;
use crate::number::{listed, time};
use analysis::{PartBound, Refusal, Status, Term, TermKind, Variant};

impl Bounds {
    /// `interference of chain1 on gpu0`
    pub(super) fn term_words(&self, chain: usize, part: &PartBound, term: &Term) -> String {
        let by = &self.names.chains[term.chain];
        let executor = &self.names.executors[part.executor];
        let core = self.system.executors[part.executor].core;
        let shared = || self.shared_accelerators(chain, part, term.chain);
        match term.kind {
            TermKind::Cpu => "own processor time".to_owned(),
            TermKind::Accelerator => format!("own time on {}", shared()),
            TermKind::Epsilon => "own overhead of requests (epsilon)".to_owned(),
            TermKind::Blocking => format!("blocking by {by} on executor {executor}"),
            TermKind::BucketBlocking => format!("blocking by {by} in a bucket of {}", shared()),
            TermKind::AcceleratorInterference => format!("interference of {by} on {}", shared()),
            TermKind::ExecutorInterference => {
                format!("interference of {by} on executor {executor}")
            }
            TermKind::CoreInterference => format!("interference of {by} on core {core}"),
        }
    }

    /// The accelerators where a part meets another chain; nearly always one.
    fn shared_accelerators(&self, chain: usize, part: &PartBound, other: usize) -> String {
        let callbacks = &self.system.chains[chain].callbacks[part.callbacks.clone()];
        let used = |accelerator: &usize| {
            let mut segments = callbacks.iter().flat_map(|callback| &callback.segments);
            segments.any(|segment| segment.accelerator == *accelerator)
                && self.system.chains[other].uses(*accelerator)
        };
        let indices = (0..self.system.accelerators.len()).filter(used);
        let names: Vec<&str> =
            indices.map(|index| self.names.accelerators[index].as_str()).collect();
        if names.is_empty() { "an accelerator".to_owned() } else { listed(&names) }
    }

    /// `guaranteed`, or why not; short enough for a table.
    pub(super) fn status_words(&self, chain: usize) -> String {
        let (model, bound, _) = self.chain(chain);
        let status = match (bound.status, &bound.refusal) {
            (Status::Ok, _) if self.analysis.variant == Variant::Published => "accepted".to_owned(),
            (Status::Ok, _) => "guaranteed".to_owned(),
            (_, Some(refusal)) => self.refusal_words(chain, refusal),
            (Status::Dependent, None) => "no guarantee".to_owned(),
            (Status::Miss, None) => "late".to_owned(),
        };
        if model.best_effort { format!("{status} (best effort)") } else { status }
    }

    /// Reason why a chain has no guarantee, without its name.
    pub(super) fn refusal_words(&self, chain: usize, refusal: &Refusal) -> String {
        match refusal {
            Refusal::Late { missing_ns, .. } => format!("late by at least {}", time(*missing_ns)),
            Refusal::Overload { accelerator, chain: refused } => {
                let accelerator = &self.names.accelerators[*accelerator];
                if *refused == chain {
                    return format!("no bound: {accelerator} is overloaded");
                }
                let refused = &self.names.chains[*refused];
                format!("no bound: {accelerator} is overloaded for {refused}")
            }
            Refusal::Relies { chain } => {
                format!("no guarantee: relies on {}", self.names.chains[*chain])
            }
            Refusal::Concurrent { accelerator } => {
                let accelerator = &self.names.accelerators[*accelerator];
                format!("no bound: bucket 0 of {accelerator} is concurrent")
            }
        }
    }
}

/// `ok`, `dep` or `miss`, as in JSON.
pub(crate) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Dependent => "dep",
        Status::Miss => "miss",
    }
}

/// `tight`, `sound` or `published`.
pub(super) fn variant_name(variant: Variant) -> &'static str {
    match variant {
        Variant::Published => "published",
        Variant::Sound => "sound",
        Variant::Tight => "tight",
    }
}
