//! What both executors do alike: mailboxes, triggers, the order of runs, paths, guests, work ahead.
//!
//! The engine has no clock and no threads: it is told the time, and its caller runs what it hands
//! out. The caller asks for work for a core ([`Engine::pick_host`], [`Engine::pick_guest`]), asks at
//! each checkpoint whether the run is still wanted ([`Engine::unwanted`]), and says how it ended
//! ([`Engine::finish`]). What gets published collects in [`Engine::posted`]; the caller brings it
//! to the mailboxes ([`Engine::deliver`]) when it has travelled.

mod ahead;
mod build;
mod deliver;
mod finish;
mod guest;
mod pieces;
mod state;
mod statistics;

use std::any::Any;
use std::collections::BTreeMap;

use crate::cx::{Run, Work};
use crate::graph::{Arrival, Erased, Ran};
use crate::message::Envelope;
use crate::trace::{Class, Core, Names, Point, Ring};
use crate::{Header, Judge, Load, Path, Settings};

use ahead::AheadStore;
use pieces::Divided;
use state::{GroupState, Job, ModuleState, Of, Ready, Slot, SourceState, TopicState};
pub use statistics::{GroupStatistics, ModuleStatistics, Statistics};

/// How urgent a run is: the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Host(Key),
    Guest,
    Ahead,
}

/// Earliest deadline first; then whoever was ready first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) deadline_ns: u64,
    pub(crate) ready_ns: u64,
    pub(crate) number: u64,
}

/// A run that the caller is to execute.
pub(crate) struct Start {
    pub(crate) job: u64,
    pub(crate) rank: Rank,
    pub(crate) body: Body,
}

/// What there is to execute.
pub(crate) enum Body {
    Module {
        module: Box<dyn Erased>,
        input: Box<dyn Any + Send>,
        path: Path,
        run: Run,
    },
    /// Work ahead, or a piece of a run.
    Work(Work),
}

/// How a run ended.
pub(crate) enum Ended {
    Module { module: Box<dyn Erased>, run: Run, ran: Ran },
    Work(Option<Box<dyn Any + Send>>),
}

pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) names: Names,
    topics: Vec<TopicState>,
    sources: Vec<SourceState>,
    pub(crate) groups: Vec<GroupState>,
    pub(crate) modules: Vec<ModuleState>,
    arrivals: Vec<Arrival>,
    ahead: AheadStore,
    /// Runs that wait for their pieces.
    divided: BTreeMap<u64, Divided>,
    outputs: Vec<Vec<Envelope>>,
    /// What was published and has not been delivered, with the topic.
    pub(crate) posted: Vec<(u16, Envelope)>,
    jobs: BTreeMap<u64, Job>,
    messages: u64,
    started: u64,
    readied: u64,
}

impl Engine {
    /// The most urgent run of `core`'s own group, or piece of one, if it is more urgent than `than`.
    pub(crate) fn pick_host(
        &mut self,
        now_ns: u64,
        core: Core,
        than: Option<Rank>,
        ring: &mut Ring,
    ) -> Option<Start> {
        loop {
            let run = self.groups[usize::from(core.group)].ready.first_key_value();
            let run = run.map(|(&key, &ready)| (key, ready));
            let urgent = |key: Key| match than {
                None => true,
                Some(Rank::Host(running)) => key.deadline_ns < running.deadline_ns,
                Some(Rank::Guest | Rank::Ahead) => true,
            };
            let piece = self.piece_at_home(core.group, run.map(|(key, _)| key));
            if let Some((key, of)) = piece {
                return urgent(key).then(|| self.start_piece(now_ns, core, Class::Host, of, ring));
            }
            let (key, ready) = run.filter(|(key, _)| urgent(*key))?;
            self.groups[usize::from(core.group)].ready.remove(&key);
            if let Some(start) = self.start(now_ns, core, Class::Host, key, ready, ring) {
                return Some(start);
            }
        }
    }

    /// Reads the input of a ready module and chooses its path; `None` if the input has gone.
    fn start(
        &mut self,
        now_ns: u64,
        core: Core,
        class: Class,
        key: Key,
        ready: Ready,
        ring: &mut Ring,
    ) -> Option<Start> {
        let state = &mut self.modules[ready.module];
        let slot = &mut state.slots[ready.slot];
        let module = slot.module.take().expect("a queued module is at home");
        state.boxes.iter_mut().for_each(|mailbox| mailbox.taken.clear());
        let Some(input) = module.gather(&mut state.boxes) else {
            *slot = Slot { module: Some(module), queued: None, ..*slot };
            return None;
        };
        (slot.queued, state.due) = (None, false);
        let run = self.run_of(ready.module, now_ns);
        let (path, load, here_ns) =
            self.choose(now_ns, ready.module, module.as_ref(), &*input, &run);
        self.started += 1;
        let job = self.started;
        let (index, state) = (ready.module, &self.modules[ready.module]);
        let (downstream_ns, deadline_ns) = (run.downstream_ns, run.deadline_ns);
        let module_id = Some(crate::ModuleId(index as u16));
        let point = Point::Start {
            module: module_id,
            core,
            class,
            path,
            here_ns,
            downstream_ns,
            deadline_ns,
        };
        ring.write(now_ns, job, point);
        for envelope in state.taken() {
            ring.write(now_ns, job, Point::Read { message: envelope.header.id });
        }
        self.jobs.insert(job, Job::of_module(ready, class, core, path, load, &run));
        self.consider(now_ns, ready.module);
        let rank = if class == Class::Host { Rank::Host(key) } else { Rank::Guest };
        Some(Start { job, rank, body: Body::Module { module, input, path, run } })
    }

    /// What a run of what was just gathered is about.
    fn run_of(&mut self, module: usize, now_ns: u64) -> Run {
        let downstream_ns = self.downstream_ns(module, now_ns);
        let state = &self.modules[module];
        let primary = state.taken().next().map(|envelope| envelope.header.clone());
        let mut objects =
            primary.as_ref().map_or_else(|| [].into(), |header| header.objects.clone());
        let (mut deadline_ns, mut limit_ns) = (crate::NO_DEADLINE, crate::NO_DEADLINE);
        for header in state.taken_actively() {
            deadline_ns = deadline_ns.min(header.deadline_ns);
            limit_ns = limit_ns.min(header.limit_ns);
            if objects.is_empty() {
                objects = header.objects.clone();
            }
        }
        Run {
            header: primary,
            objects,
            deadline_ns,
            limit_ns,
            downstream_ns,
            provenance: state.provenance(),
        }
    }

    /// The rule of document 002, section 4.1: the normal path if the time budget holds it.
    /// `now + q(normal here) + sum of q(normal downstream) <= deadline of the frame`.
    fn choose(
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
        let known = match self.settings.judge {
            Judge::Quantile => seen.or(predicted),
            Judge::Predicted => predicted.or(seen),
        };
        let here_ns = known.or(load.declared_ns).unwrap_or(0);
        let end_ns = now_ns.saturating_add(here_ns).saturating_add(run.downstream_ns);
        if self.settings.fast_path && state.fast_path && end_ns > run.deadline_ns {
            return (Path::Fast, code.estimate(input, Path::Fast), here_ns);
        }
        (Path::Normal, load, here_ns)
    }

    /// What the modules after `module` take on the normal path, along the longest way to an output.
    fn downstream_ns(&mut self, module: usize, now_ns: u64) -> u64 {
        let (quantile, hop_ns) = (self.settings.quantile, self.settings.hop_ns);
        let mut after = vec![0; self.modules.len()];
        for place in (0..self.modules.len()).rev() {
            let index = self.modules[place].order;
            let topic = usize::from(self.modules[index].publishes);
            let readers = self.topics[topic].readers.iter().filter(|reader| reader.active);
            let longest = readers.map(|reader| {
                let window = &mut self.modules[reader.module].window[0];
                let own = window.quantile_or_last(now_ns, quantile);
                hop_ns + own.unwrap_or(0) as u64 + after[reader.module]
            });
            after[index] = longest.max().unwrap_or(0);
        }
        after[module]
    }

    /// Whether the result of `job` is not wanted any more.
    pub(crate) fn unwanted(&self, job: u64) -> bool {
        use crate::Cancel;
        let Some(job) = self.jobs.get(&job) else { return true };
        let ready = match job.of {
            Of::Module(ready) => ready,
            Of::Ahead(number) => return self.ahead.unwanted(number),
            Of::Piece { run, .. } => return self.unwanted(run),
        };
        let state = &self.modules[ready.module];
        match state.cancel {
            Cancel::Never => false,
            Cancel::Rest if job.parts == 0 => false,
            Cancel::Rest | Cancel::Always => {
                state.published_ns > job.captured_ns
                    || state.waiting().any(|header: &Header| header.captured_ns > job.captured_ns)
            }
        }
    }
}
