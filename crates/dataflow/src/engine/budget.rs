//! The time budget (COLA, section 4.1): which path a run takes, when one that has begun must
//! change it, and which message may not wait for a timer.
//!
//! A module's budget ends at the frame's deadline, less what the modules after it take in the 99th
//! percentile, and less what they wait: a module that a timer starts begins at a tick, so what comes a
//! moment after the last tick that meets the deadline misses it. What comes by an urgent wire
//! ([`crate::Wire::urgent`]) waits for no tick.

use std::any::Any;

use crate::cx::Run;
use crate::engine::Engine;
use crate::engine::state::{Again, Job, Reader, Ready};
use crate::graph::Erased;
use crate::{Judge, Load, NO_DEADLINE, Path, Trigger};

impl Engine {
    /// The rule of COLA, section 4.1: the normal path if the time budget holds it.
    /// `now + q(normal here) + sum of q(normal downstream) and waits <= deadline of the frame`.
    /// And if the command would not be out earlier by the fast one.
    pub(super) fn choose(
        &mut self,
        now_ns: u64,
        module: usize,
        code: &dyn Erased,
        input: &dyn Any,
        run: &Run,
    ) -> (Path, Load, u64) {
        let quantile = self.settings.quantile;
        let state = &mut self.modules[module];
        let load = code.estimate(input, Path::Normal);
        let predicted = state.linear[0].bound_ns(now_ns, &load, quantile);
        let seen = state.window[0].quantile(now_ns, quantile).map(|ns| ns as u64);
        let measured = match self.settings.judge {
            Judge::Quantile => seen.or(predicted),
            Judge::Predicted => predicted.or(seen),
        };
        let known = measured.or(load.declared_ns);
        let allowed = self.settings.fast_path && state.fast_path;
        // A normal path of unknown length is tried, if there is time for the fast path after it.
        let unknown = allowed && known.is_none() && run.deadline_ns != NO_DEADLINE;
        let reserve_ns = if unknown { self.reserve_ns(now_ns, module) } else { None };
        let needs_ns = known.or(reserve_ns).unwrap_or(0);
        let here_ns = known.unwrap_or(0);
        let end_ns = now_ns.saturating_add(needs_ns).saturating_add(run.downstream_ns);
        let short = allowed && end_ns > run.deadline_ns;
        if short && measured.is_none_or(|ns| self.gains(now_ns, module, ns)) {
            return (Path::Fast, code.estimate(input, Path::Fast), here_ns);
        }
        (Path::Normal, load, here_ns)
    }

    /// Returns true if `module`, which begins now, would lead to an earlier command on the fast
    /// path, in its median time, than if it took `here_ns`; or if the fast path's time is not
    /// known.
    fn gains(&mut self, now_ns: u64, module: usize, here_ns: u64) -> bool {
        let Some(fast) = self.modules[module].first.quantile_or_last(now_ns, 0.5) else {
            return true;
        };
        let mut out_ns = |here_ns: u64| self.out_ns(now_ns, module, now_ns + here_ns);
        out_ns(fast as u64) < out_ns(here_ns)
    }

    /// Returns the time at which the command that depends on a message of `module`, published at
    /// `published_ns`, is out, if every module takes its quantile and urgent wires wait for no
    /// timer.
    fn out_ns(&mut self, now_ns: u64, module: usize, published_ns: u64) -> u64 {
        let (quantile, hop_ns) = (self.settings.quantile, self.settings.hop_ns);
        let mut published = vec![None; self.modules.len()];
        published[module] = Some(published_ns);
        for place in 0..self.modules.len() {
            let index = self.modules[place].order;
            let Some(at_ns) = published[index] else { continue };
            let topic = usize::from(self.modules[index].publishes);
            for reader in self.topics[topic].readers.iter().filter(|reader| reader.starts()) {
                let state = &mut self.modules[reader.module];
                let begins_ns = match state.trigger {
                    Trigger::Timer { period_ns, offset_ns } if !reader.urgent => {
                        // A message that comes with a tick is read by it.
                        next_tick_ns((at_ns + hop_ns).saturating_sub(1), period_ns, offset_ns)
                    }
                    _ => at_ns + hop_ns,
                };
                let own = state.window[0].quantile_or_last(now_ns, quantile).unwrap_or(0);
                let end_ns = begins_ns + own as u64;
                published[reader.module] = published[reader.module].max(Some(end_ns));
            }
        }
        published.into_iter().flatten().max().unwrap_or(published_ns)
    }

    /// Returns the time for which the modules after `module` run on the normal path and wait for
    /// their timers, along the longest way to an output, if the command is out at `deadline_ns`.
    pub(super) fn downstream_ns(&mut self, now_ns: u64, module: usize, deadline_ns: u64) -> u64 {
        let (quantile, hop_ns) = (self.settings.quantile, self.settings.hop_ns);
        let mut after = vec![0; self.modules.len()];
        for place in (0..self.modules.len()).rev() {
            let index = self.modules[place].order;
            let topic = usize::from(self.modules[index].publishes);
            let readers = self.topics[topic].readers.iter().filter(|reader| reader.starts());
            let longest = readers.map(|reader| {
                let state = &mut self.modules[reader.module];
                let own = state.window[0].quantile_or_last(now_ns, quantile);
                let needs_ns = own.unwrap_or(0) as u64 + after[reader.module];
                let begins_ns = deadline_ns.checked_sub(needs_ns);
                let waits_ns = match (state.trigger, begins_ns) {
                    (Trigger::Timer { period_ns, offset_ns }, Some(begins_ns))
                        if !reader.urgent && deadline_ns != NO_DEADLINE =>
                    {
                        begins_ns.checked_sub(offset_ns).map_or(begins_ns, |past| past % period_ns)
                    }
                    _ => 0,
                };
                hop_ns + needs_ns + waits_ns
            });
            after[index] = longest.max().unwrap_or(0);
        }
        after[module]
    }

    /// Returns true if a message that waits for `module` on an urgent wire would miss its deadline
    /// if it waited for the module's own trigger, and then took the fast path after the normal one;
    /// or if the module's time is not known yet.
    pub(super) fn cannot_wait(&mut self, now_ns: u64, module: usize) -> bool {
        let deadline_ns = self.modules[module].urgent_deadline_ns();
        let Some(deadline_ns) = deadline_ns.filter(|end_ns| *end_ns != NO_DEADLINE) else {
            return false;
        };
        let downstream_ns = self.downstream_ns(now_ns, module, deadline_ns);
        let reserve_ns = self.reserve_ns(now_ns, module).unwrap_or(0);
        let quantile = self.settings.quantile;
        let state = &mut self.modules[module];
        let Some(own) = state.window[0].quantile_or_last(now_ns, quantile) else {
            return true;
        };
        let own_ns = own as u64 + reserve_ns;
        let begins_ns = match state.trigger {
            Trigger::Timer { period_ns, offset_ns } => next_tick_ns(now_ns, period_ns, offset_ns),
            Trigger::Message | Trigger::Fuse(_) => {
                let gap = state.came.quantile_or_last(now_ns, quantile);
                match (state.came_ns, gap) {
                    (Some(came_ns), Some(gap @ 1..)) => next_tick_ns(now_ns, gap as u64, came_ns),
                    _ => NO_DEADLINE,
                }
            }
        };
        begins_ns.saturating_add(own_ns).saturating_add(downstream_ns) > deadline_ns
    }

    /// Returns the time at which a run of `module` on `path`, which begins now, is to be begun anew
    /// on the fast path if it has published nothing by then: so that the fast path still meets the
    /// deadline; but not before a quarter of the time is over, nor after three fifths: if the
    /// normal path takes longer than ever, the fast one does, too. If the fast path's time is not
    /// known, the run may take half of the time.
    pub(super) fn switch_ns(
        &mut self,
        now_ns: u64,
        module: usize,
        (path, here_ns): (Path, u64),
        run: &Run,
    ) -> u64 {
        let allowed = self.settings.fast_path && self.modules[module].fast_path;
        if !allowed || path == Path::Fast || run.deadline_ns == NO_DEADLINE {
            return NO_DEADLINE;
        }
        let end_ns = run.deadline_ns.saturating_sub(run.downstream_ns);
        let Some(budget_ns) = end_ns.checked_sub(now_ns + here_ns).map(|left| left + here_ns)
        else {
            // Nothing would be gained.
            return NO_DEADLINE;
        };
        let reserve_ns = self.reserve_ns(now_ns, module).unwrap_or(budget_ns / 2);
        now_ns + budget_ns - reserve_ns.clamp(budget_ns / 5 * 2, budget_ns / 4 * 3)
    }

    /// Returns the time that is left for the fast path after a run on the normal one: twice the sum
    /// of its own time and the time to leave the normal path, for both were seen few times. `None`
    /// if no run on the fast path was seen.
    fn reserve_ns(&mut self, now_ns: u64, module: usize) -> Option<u64> {
        let quantile = self.settings.quantile;
        let state = &mut self.modules[module];
        let fast = state.first.quantile_or_last(now_ns, quantile)?;
        let leaves = state.leaves.quantile_or_last(now_ns, quantile).unwrap_or(fast);
        Some(2 * (fast + leaves) as u64)
    }

    /// Returns true if `job` is on the normal path and should be on the fast one.
    pub(super) fn switches(&self, now_ns: u64, job: u64) -> bool {
        let job_is = |state: &Job| state.parts == 0 && state.switch_ns <= now_ns;
        self.jobs.get(&job).is_some_and(job_is) && !self.superseded(job)
    }

    /// Makes an instance ready for what it was cancelled at.
    pub(super) fn begin_again(
        &mut self,
        now_ns: u64,
        ready: Ready,
        job: &Job,
        input: Box<dyn Any + Send>,
        run: Run,
    ) {
        let state = &mut self.modules[ready.module];
        state.statistics.switched += 1;
        state.slots[ready.slot].again = Some(Again {
            input,
            run,
            read: job.read.clone(),
            here_ns: job.here_ns,
            since_ns: job.switch_ns,
            order_ns: job.order_ns,
        });
        self.enqueue(now_ns, ready);
    }
}

impl Reader {
    /// Returns true if a message can start a run.
    pub(super) fn starts(&self) -> bool {
        self.active || self.urgent
    }
}

/// The first tick of a timer after `now_ns`.
pub(super) fn next_tick_ns(now_ns: u64, period_ns: u64, offset_ns: u64) -> u64 {
    let past = now_ns.checked_sub(offset_ns).map_or(0, |past| past / period_ns + 1);
    offset_ns + past * period_ns
}
