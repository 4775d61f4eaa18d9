//! Addends of a refined bound.

use super::part::SameExecutor;
use super::{Source, Tight};
use crate::bound::explain::Terms;
use crate::bound::jobs::NONE;
use crate::bound::view::{PartView, View};
use crate::bound::{Term, TermKind};

impl Tight {
    /// The addends of a part's response time; where it has none, of what is reached at the
    /// deadline.
    pub(crate) fn terms(&mut self, view: &View, index: usize) -> Vec<Term> {
        let part = &view.parts[index];
        let deadline = view.chains[part.chain].deadline;
        let response = self.response[index];
        let x = if response == NONE { deadline } else { response };
        // Leaves the requests, the sources and the start of the part behind.
        self.collect_interference(view, part);
        self.respond(view, index);
        let hp = if self.start[index] == NONE { deadline } else { self.start[index] };
        let mut terms = Terms::of(view, index);
        let held = |&lower: &usize| (self.held(view, part, &view.parts[lower]), lower);
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
        for (accelerator, above) in
            (0..view.users.len()).map(|a| (a, view.users_above(a, part.chain)))
        {
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
}
