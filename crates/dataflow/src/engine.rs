//! Common part of both executors: mailboxes, triggers, the order of runs, paths, guests, work
//! ahead.
//!
//! The engine has no clock and no threads: it is told the time, and its caller runs what it hands
//! out. The caller asks for work for a core ([`Engine::pick_host`], [`Engine::pick_guest`]), asks at
//! each checkpoint whether the run is still wanted ([`Engine::unwanted`]), and says how it ended
//! ([`Engine::finish`]). What gets published collects in [`Engine::posted`]; the caller brings it
//! to the mailboxes ([`Engine::deliver`]) when it has travelled.

mod ahead;
mod budget;
mod build;
mod deliver;
mod finish;
mod guest;
mod pieces;
mod state;
mod statistics;

use std::any::Any;
use std::collections::BTreeMap;

use crate::cx::{Host, Run, Work};
use crate::graph::{Arrival, Erased, Ran};
use crate::message::Envelope;
use crate::middleware::Mail;
use crate::trace::{Class, Core, Names, Point, Ring};
use crate::{Header, Path, Settings};

use ahead::AheadStore;
use pieces::Divided;
use state::{Again, GroupState, Job, ModuleState, Of, Ready, SourceState, TopicState};
pub use statistics::{GroupStatistics, ModuleStatistics, Statistics};

/// Urgency of a run: the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Host(Key),
    Guest,
    Ahead,
}

/// Earliest deadline first; then the one that was ready first.
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

/// Work that the caller is to execute.
pub(crate) enum Body {
    Module {
        module: Box<dyn Erased>,
        input: Box<dyn Any + Send>,
        path: Path,
        run: Run,
        /// Messages to deserialise before the run, for the input's own copies.
        mail: Option<Mail>,
    },
    /// Work ahead, or a piece of a run.
    Work(Work),
}

/// Result of a run that has ended.
pub(crate) enum Ended {
    Module { module: Box<dyn Erased>, input: Box<dyn Any + Send>, run: Run, ran: Ran },
    Work(Option<Box<dyn Any + Send>>),
}

/// Runs a module on what it has read, once that is deserialised.
pub(crate) fn run_module(
    host: &mut dyn Host,
    (mut module, mut input): (Box<dyn Erased>, Box<dyn Any + Send>),
    mut run: Run,
    path: Path,
    mail: Option<Mail>,
) -> Ended {
    let opened = mail.map(|mail| mail.open(host, module.as_ref())).transpose();
    let ran = match opened {
        Ok(own) => {
            input = own.unwrap_or(input);
            module.run(host, &mut run, &*input, path)
        }
        Err(stop) => Err(stop),
    };
    Ended::Module { module, input, run, ran }
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
    /// Messages that were published and have not been delivered, with the topic.
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
        let early = !state.triggered() && state.urgent.contains(&true);
        let slot = &mut state.slots[ready.slot];
        let module = slot.module.take().expect("a queued module is at home");
        slot.queued = None;
        if let Some(again) = slot.again.take() {
            return Some(self.start_again(now_ns, core, class, key, (ready, module, again), ring));
        }
        state.boxes.iter_mut().for_each(|mailbox| mailbox.taken.clear());
        let Some(input) = module.gather(&mut state.boxes) else {
            slot.module = Some(module);
            return None;
        };
        state.due = false;
        state.early |= early;
        state.statistics.early += u64::from(early);
        state.read_ns = state.read_ns.max(state.taken_urgently_ns());
        let parts = state.taken_actively().filter(|header| header.part.is_partial());
        state.parted_ns = parts.map(|header| header.captured_ns).max().max(state.parted_ns);
        let read = state.taken().map(|envelope| envelope.header.id).collect();
        let mail = Mail::of(state.boxes.iter().map(|mailbox| &mailbox.taken));
        let run = self.run_of(ready.module, now_ns);
        let (path, load, here_ns) =
            self.choose(now_ns, ready.module, module.as_ref(), &*input, &run);
        let switch_ns = self.switch_ns(now_ns, ready.module, (path, here_ns), &run);
        let job = Job {
            here_ns,
            started_ns: now_ns,
            switch_ns,
            read,
            order_ns: key.deadline_ns,
            ..Job::of_module(ready, class, core, path, load, &run)
        };
        let job = self.begin(now_ns, job, &run, ring);
        self.consider(now_ns, ready.module);
        let rank = if class == Class::Host { Rank::Host(key) } else { Rank::Guest };
        Some(Start { job, rank, body: Body::Module { module, input, path, run, mail } })
    }

    /// A run that was cancelled on the normal path, on the fast one.
    fn start_again(
        &mut self,
        now_ns: u64,
        core: Core,
        class: Class,
        key: Key,
        (ready, module, again): (Ready, Box<dyn Erased>, Again),
        ring: &mut Ring,
    ) -> Start {
        let Again { input, run, read, here_ns, since_ns, order_ns } = again;
        let path = Path::Fast;
        self.modules[ready.module].leaves.add(now_ns, now_ns.saturating_sub(since_ns) as i64);
        let load = module.estimate(&*input, path);
        let job = Job {
            here_ns,
            started_ns: now_ns,
            read,
            order_ns,
            ..Job::of_module(ready, class, core, path, load, &run)
        };
        let job = self.begin(now_ns, job, &run, ring);
        let rank = if class == Class::Host { Rank::Host(key) } else { Rank::Guest };
        Start { job, rank, body: Body::Module { module, input, path, run, mail: None } }
    }

    /// Notes that a run has begun; its number.
    fn begin(&mut self, now_ns: u64, job: Job, run: &Run, ring: &mut Ring) -> u64 {
        self.started += 1;
        let module = job.ready().map(|ready| crate::ModuleId(ready.module as u16));
        let point = Point::Start {
            module,
            core: job.core,
            class: job.class,
            path: job.path,
            here_ns: job.here_ns,
            downstream_ns: run.downstream_ns,
            deadline_ns: run.deadline_ns,
        };
        ring.write(now_ns, self.started, point);
        for &message in &job.read {
            ring.write(now_ns, self.started, Point::Read { message });
        }
        self.jobs.insert(self.started, job);
        self.started
    }

    /// Makes the description of a run on the input that was just gathered.
    fn run_of(&mut self, module: usize, now_ns: u64) -> Run {
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
        let provenance = state.provenance();
        let downstream_ns = self.downstream_ns(now_ns, module, deadline_ns);
        let codec = self.topics[usize::from(self.modules[module].publishes)].codec;
        Run {
            header: primary,
            objects,
            deadline_ns,
            limit_ns,
            downstream_ns,
            provenance,
            codec,
            unsent: None,
        }
    }

    /// Returns true if the result of `job` is not wanted any more.
    pub(crate) fn unwanted(&self, now_ns: u64, job: u64) -> bool {
        match self.jobs.get(&job).map(|state| state.of) {
            None => true,
            Some(Of::Module(_)) => self.superseded(job) || self.switches(now_ns, job),
            Some(Of::Ahead(number)) => self.ahead.unwanted(number),
            Some(Of::Piece { run, .. }) => self.unwanted(now_ns, run),
        }
    }

    /// Returns true if a newer frame makes the result of a module's run worthless.
    fn superseded(&self, job: u64) -> bool {
        use crate::Cancel;
        let job = &self.jobs[&job];
        let Some(ready) = job.ready() else { return false };
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
