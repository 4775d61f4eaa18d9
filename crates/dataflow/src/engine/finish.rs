//! The end of a run: its result, what was learned of its execution time, what waits behind it.

use crate::engine::{Ended, Engine, Job, Of};
use crate::trace::{Point, Ring, RunEnd};
use crate::{Part, Stop};

impl Engine {
    /// A run has ended, after `service_ns` on a core.
    pub(crate) fn finish(
        &mut self,
        now_ns: u64,
        job: u64,
        ended: Ended,
        service_ns: u64,
        ring: &mut Ring,
    ) {
        let (module, input, run, ran) = match ended {
            Ended::Module { module, input, run, ran } => (module, input, run, ran),
            Ended::Work(value) => return self.finish_work(now_ns, job, value, service_ns, ring),
        };
        let outcome = match &ran {
            Ok(_) => RunEnd::Done,
            Err(Stop::Cancelled) => RunEnd::Cancelled,
            Err(Stop::Nothing) => RunEnd::Nothing,
            Err(Stop::Failed(_)) => RunEnd::Failed,
        };
        if let Ok(sent) = ran {
            let Job { parts, of_parts: of, .. } = self.jobs[&job];
            let part = if parts > 0 { Part { index: of, of } } else { Part::WHOLE };
            self.publish(now_ns, job, sent, part, &run, ring);
        } else if let Err(Stop::Failed(text)) = ran {
            let ready = self.jobs[&job].ready().expect("a module's run");
            self.modules[ready.module].statistics.last_failure = Some(text);
        }
        ring.write(now_ns, job, Point::End { outcome, service_ns });
        let again = outcome == RunEnd::Cancelled && self.switches(now_ns, job);
        let state = self.jobs.remove(&job).expect("a run ends once");
        let ready = state.ready().expect("a module's run");
        let module_state = &mut self.modules[ready.module];
        let path = state.path as usize;
        // A run that was cut short says nothing of how long one takes.
        if matches!(outcome, RunEnd::Done | RunEnd::Nothing) {
            let taken_ns = service_ns + state.divided_ns;
            module_state.window[path].add(now_ns, taken_ns as i64);
            module_state.linear[path].add(now_ns, &state.load, taken_ns);
        } else if again {
            // It takes longer by an unknown time: it is judged by twice what it has had, until
            // that is forgotten.
            let had_ns = service_ns + state.divided_ns;
            module_state.window[path].add(now_ns, 2 * had_ns as i64);
        }
        module_state.statistics.count(outcome, state.path, state.class, service_ns);
        self.groups[usize::from(state.core.group)].statistics.served(state.class, service_ns);
        module_state.slots[ready.slot].module = Some(module);
        if again {
            self.begin_again(now_ns, ready, &state, input, run);
        }
        self.consider(now_ns, ready.module);
    }

    /// Work ahead, or a piece of a run, has ended: with a value, or cancelled.
    fn finish_work(
        &mut self,
        now_ns: u64,
        job: u64,
        value: Option<Box<dyn std::any::Any + Send>>,
        service_ns: u64,
        ring: &mut Ring,
    ) {
        let outcome = if value.is_some() { RunEnd::Done } else { RunEnd::Cancelled };
        ring.write(now_ns, job, Point::End { outcome, service_ns });
        let state = self.jobs.remove(&job).expect("work ends once");
        self.groups[usize::from(state.core.group)].statistics.served(state.class, service_ns);
        match state.of {
            Of::Ahead(number) => self.ahead.done(number, value),
            Of::Piece { run, ready, number } => {
                let wanted = !self.unwanted(now_ns, run);
                let module = &mut self.modules[ready.module];
                if wanted {
                    module.pieces.add(now_ns, &state.load, service_ns);
                }
                module.statistics.count_piece(state.class, service_ns);
                self.give_piece(run, number, value);
            }
            Of::Module(_) => unreachable!("a module's run ends with the module"),
        }
    }
}
