//! What causes are judged from: the survey, the explained calls, and which calls were asked for.

use super::{Evidence, Lost, Occasion, Remedy, Verdict};
use crate::Options;
use crate::explain::part::{Cause, Explained, Task};
use crate::result::{CallKind, Instance, Lock, Survey, WorstCall};
use std::cmp::Reverse;

/// A trace that is judged.
pub(super) struct Case<'c> {
    pub survey: &'c Survey,
    pub explained: &'c [Explained],
    pub options: &'c Options,
    /// True for each kind of call that was asked for.
    asked: Vec<bool>,
}

/// What explained calls lost by one cause; at least one of them lost something.
pub(super) struct Loss<'c> {
    pub lost: Lost,
    pub asked: bool,
    /// The call that lost most, and how much.
    pub worst: &'c Explained,
    pub most_ns: u64,
}

impl<'c> Case<'c> {
    pub(super) fn new(
        survey: &'c Survey,
        explained: &'c [Explained],
        options: &'c Options,
        asked: &dyn Fn(&CallKind) -> bool,
    ) -> Case<'c> {
        let asked = survey.kinds.iter().map(asked).collect();
        Case { survey, explained, options, asked }
    }

    pub(super) fn lock(&self, place: u32) -> &'c Lock {
        &self.survey.locks[place as usize]
    }

    /// The facts of an explained call.
    pub(super) fn call(&self, call: &Explained) -> &'c WorstCall {
        &self.survey.worst[call.worst as usize]
    }

    /// The kind of an explained call.
    pub(super) fn kind(&self, call: &Explained) -> &'c CallKind {
        &self.survey.kinds[self.call(call).kind as usize]
    }

    /// Returns true if calls of a kind were asked for.
    pub(super) fn asks(&self, kind: Option<u32>) -> bool {
        kind.is_some_and(|kind| self.asked[kind as usize])
    }

    /// The latest of the explained calls that were asked for.
    pub(super) fn latest(&self) -> Option<&'c Explained> {
        let asked = self.explained.iter().filter(|call| self.asks(Some(self.call(call).kind)));
        asked.min_by_key(|call| {
            let call = self.call(call);
            (!call.is_late(), Reverse(call.lateness_ns), call.at_ns)
        })
    }

    /// What explained calls lost by a cause: the asked ones, if any of them did.
    pub(super) fn loss(&self, ns: impl Fn(&Explained) -> u64) -> Option<Loss<'c>> {
        let of = |asked: bool| {
            let is_of = |call: &&Explained| self.asks(Some(self.call(call).kind)) == asked;
            let looked_at = || self.explained.iter().filter(is_of);
            let lost = looked_at().map(|call| (call, ns(call))).filter(|(_, ns)| *ns > 0);
            let lost: Vec<(&Explained, u64)> = lost.collect();
            let (worst, most_ns) =
                *lost.iter().max_by_key(|(call, ns)| (*ns, Reverse(call.worst)))?;
            let calls = lost.iter().map(|(call, ns)| (call.worst, *ns)).collect();
            let lost = Lost { looked_at: looked_at().count() as u64, calls };
            Some(Loss { lost, asked, worst, most_ns })
        };
        of(true).or_else(|| of(false))
    }

    /// A verdict on what explained calls lost.
    pub(super) fn verdict(
        &self,
        loss: Loss<'_>,
        lock: Option<u32>,
        evidence: Evidence,
        remedies: Vec<Remedy>,
    ) -> Verdict {
        let worst = Some(self.occasion(&loss));
        let Loss { lost, asked, most_ns: severity_ns, .. } = loss;
        Verdict { evidence, lock, asked, severity_ns, worst, lost, remedies }
    }

    /// A verdict on a lock, of which one wait or hold stands out in the tables. The explained calls
    /// tell what calls that were asked for lost by waiting for it.
    pub(super) fn of_lock(
        &self,
        lock: u32,
        instance: Option<&Instance>,
        evidence: Evidence,
        remedies: Vec<Remedy>,
    ) -> Verdict {
        let loss = self.loss(|call| waited_ns(call, lock));
        let of_asked = loss.as_ref().is_some_and(|loss| loss.asked);
        let longest = loss.as_ref().map_or(0, |loss| loss.most_ns);
        let instance = instance.filter(|instance| {
            let asked = self.asks(instance.kind);
            (asked || !of_asked) && (instance.duration_ns > longest || asked && !of_asked)
        });
        let asked = of_asked || instance.is_some_and(|instance| self.asks(instance.kind));
        let worst = match instance {
            Some(instance) => Some(occasion(instance)),
            None => loss.as_ref().map(|loss| self.occasion(loss)),
        };
        let severity_ns = worst.as_ref().map_or(0, |worst| worst.lost_ns);
        let lost = loss.filter(|loss| loss.asked == asked).map(|loss| loss.lost);
        let lost = lost.unwrap_or_default();
        Verdict { evidence, lock: Some(lock), asked, severity_ns, worst, lost, remedies }
    }

    fn occasion(&self, loss: &Loss<'_>) -> Occasion {
        let of = self.call(loss.worst);
        Occasion {
            at_ns: of.at_ns,
            duration_ns: of.duration_ns,
            lost_ns: loss.most_ns,
            thread: of.thread,
            kind: Some(of.kind),
            explained: Some(loss.worst.worst),
        }
    }

    /// A thread by its place.
    pub(super) fn task(&self, thread: u32) -> Task {
        let of = &self.survey.threads[thread as usize];
        Task { tid: of.tid, name: of.name.clone(), thread: Some(thread), priority: of.priority }
    }
}

fn occasion(instance: &Instance) -> Occasion {
    Occasion {
        at_ns: instance.at_ns,
        duration_ns: instance.duration_ns,
        lost_ns: instance.duration_ns,
        thread: instance.thread,
        kind: instance.kind,
        explained: None,
    }
}

/// Time that a call waited for a lock: while another thread had it, while it was free, and until
/// the thread ran again.
pub(super) fn waited_ns(call: &Explained, wanted: u32) -> u64 {
    part_ns(call, |cause| match cause {
        Cause::Lock { lock, .. } | Cause::HandOver { lock, .. } => *lock == wanted,
        Cause::WokenLate { lock, .. } => *lock == Some(wanted),
        _ => false,
    })
}

/// Time of the parts of a call that have such a cause.
pub(super) fn part_ns(call: &Explained, has: impl Fn(&Cause) -> bool) -> u64 {
    call.parts.iter().filter(|part| has(&part.cause)).map(|part| part.duration_ns).sum()
}
