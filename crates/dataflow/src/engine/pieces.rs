//! Runs that are divided into pieces, which several cores do at the same time: those of the run's own
//! group, and, as guests, idle ones of others (COLA, section 4.3).
//!
//! The run waits until all its pieces have ended. Its own core does nothing else meanwhile than
//! pieces of it, and what is more urgent. A guest whose core hosts want goes on there, once that core
//! has nothing to do: hosts that are busy for long would keep the run waiting as long.

use std::any::Any;
use std::collections::VecDeque;

use crate::cx::Piece;
use crate::engine::state::{Job, Of, Ready};
use crate::engine::{Body, Engine, Key, Rank, Start};
use crate::trace::{Class, Core, Point, Ring};

/// A run that waits for its pieces.
pub(crate) struct Divided {
    ready: Ready,
    /// The group whose cores need no permission.
    home: u16,
    /// Core on which the run waits.
    core: Core,
    /// Urgency of its pieces.
    key: Key,
    since_ns: u64,
    waiting: VecDeque<(usize, Piece)>,
    given: Vec<Option<Box<dyn Any + Send>>>,
    /// Pieces that have begun and not ended.
    running: usize,
}

impl Engine {
    /// The run `job` is divided, and waits for its pieces.
    pub(crate) fn divide(
        &mut self,
        now_ns: u64,
        job: u64,
        rank: Rank,
        pieces: Vec<Piece>,
        ring: &mut Ring,
    ) {
        ring.write(now_ns, job, Point::Divided { pieces: pieces.len() as u32 });
        let state = &self.jobs[&job];
        let ready = state.ready().expect("only a module's run is divided");
        let module = &mut self.modules[ready.module];
        let state = self.jobs.get_mut(&job).expect("it has begun");
        state.divisions += u32::from(!pieces.is_empty());
        module.divisions = module.divisions.max(state.divisions);
        // A guest's pieces are hosts at home, as urgent as if nothing bounded them.
        let deadline_ns =
            if let Rank::Host(key) = rank { key.deadline_ns } else { crate::NO_DEADLINE };
        let divided = Divided {
            ready,
            home: module.slots[ready.slot].group as u16,
            core: state.core,
            key: Key { deadline_ns, ready_ns: now_ns, number: job },
            since_ns: now_ns,
            given: pieces.iter().map(|_| None).collect(),
            waiting: pieces.into_iter().enumerate().collect(),
            running: 0,
        };
        self.divided.insert(job, divided);
    }

    /// Returns the results of the pieces of `job`, if all have ended.
    pub(crate) fn joined(
        &mut self,
        now_ns: u64,
        job: u64,
    ) -> Option<Vec<Option<Box<dyn Any + Send>>>> {
        if self.unwanted(now_ns, job) {
            self.divided.get_mut(&job)?.waiting.clear();
        }
        let divided = self.divided.get(&job)?;
        if divided.running > 0 || !divided.waiting.is_empty() {
            return None;
        }
        let divided = self.divided.remove(&job)?;
        self.jobs.get_mut(&job)?.divided_ns += now_ns - divided.since_ns;
        Some(divided.given)
    }

    /// The next piece of `job`, for the core on which it waits.
    pub(crate) fn pick_own_piece(
        &mut self,
        now_ns: u64,
        core: Core,
        job: u64,
        ring: &mut Ring,
    ) -> Option<Start> {
        let divided = self.divided.get(&job)?;
        let (number, _) = divided.waiting.front()?;
        let of = Of::Piece { run: job, ready: divided.ready, number: *number };
        let class = self.jobs[&job].class;
        Some(self.start_piece(now_ns, core, class, of, ring))
    }

    /// The most urgent piece that a core of `group` may do as a host, if no run is more urgent.
    pub(super) fn piece_at_home(&self, group: u16, run: Option<Key>) -> Option<(Key, Of)> {
        let own = self.waiting_pieces().filter(|(divided, ..)| divided.home == group);
        let (_, key, of) = own.min_by_key(|(_, key, _)| *key)?;
        run.is_none_or(|run| key.deadline_ns <= run.deadline_ns).then_some((key, of))
    }

    /// Pieces of other groups' runs that may be guests.
    pub(super) fn guest_pieces(&self, group: u16) -> impl Iterator<Item = (Key, Of)> {
        let others = self.waiting_pieces().filter(move |(divided, ..)| {
            divided.home != group && self.modules[divided.ready.module].guest_pieces
        });
        others.map(|(_, key, of)| (key, of))
    }

    /// The next piece of each divided run.
    fn waiting_pieces(&self) -> impl Iterator<Item = (&Divided, Key, Of)> {
        self.divided.iter().filter_map(|(&run, divided)| {
            let (number, _) = divided.waiting.front()?;
            Some((divided, divided.key, Of::Piece { run, ready: divided.ready, number: *number }))
        })
    }

    pub(super) fn start_piece(
        &mut self,
        now_ns: u64,
        core: Core,
        class: Class,
        of: Of,
        ring: &mut Ring,
    ) -> Start {
        let Of::Piece { run, .. } = of else { unreachable!("a piece is started") };
        let divided = self.divided.get_mut(&run).expect("the run waits for it");
        let (_, piece) = divided.waiting.pop_front().expect("it waits");
        divided.running += 1;
        let rank = if class == Class::Host { Rank::Host(divided.key) } else { Rank::Guest };
        let Job { frame, path, captured_ns, .. } = self.jobs[&run];
        self.started += 1;
        let job = self.started;
        ring.write(now_ns, job, Point::Piece { of: run, core, class });
        let state = Job { frame, path, captured_ns, ..Job::of_work(of, class, core, piece.load) };
        self.jobs.insert(job, state);
        Start { job, rank, body: Body::Work(piece.work) }
    }

    /// The run that a guest with a piece works for, and the core on which that run waits.
    pub(crate) fn home_of(&self, job: u64) -> Option<(u64, Core)> {
        let Job { of: Of::Piece { run, .. }, class: Class::Guest, .. } = self.jobs.get(&job)?
        else {
            return None;
        };
        Some((*run, self.divided.get(run)?.core))
    }

    /// The piece `job`, a guest until now, goes on where its run waits; its rank there.
    pub(crate) fn come_home(&mut self, now_ns: u64, job: u64, ring: &mut Ring) -> Rank {
        let (run, core) = self.home_of(job).expect("a guest that does a piece");
        let state = self.jobs.get_mut(&job).expect("it has begun");
        self.groups[usize::from(state.core.group)].statistics.returned += 1;
        (state.core, state.class) = (core, Class::Host);
        ring.write(now_ns, job, Point::Returned { core });
        Rank::Host(self.divided[&run].key)
    }

    pub(super) fn piece_bound_ns(&mut self, now_ns: u64, of: Of) -> Option<u64> {
        let Of::Piece { run, ready, .. } = of else { return None };
        let (_, piece) = self.divided.get(&run)?.waiting.front()?;
        let predictor = &mut self.modules[ready.module].pieces;
        predictor.bound_ns(now_ns, &piece.load, self.settings.quantile)
    }

    pub(super) fn give_piece(
        &mut self,
        run: u64,
        number: usize,
        value: Option<Box<dyn Any + Send>>,
    ) {
        let divided = self.divided.get_mut(&run).expect("the run waits for it");
        divided.given[number] = value;
        divided.running -= 1;
    }

    /// Returns true if a run of the group has a core and may still want all cores of the group for
    /// its pieces: another run of its module was divided more often.
    pub(super) fn may_divide(&self, group: usize) -> bool {
        self.jobs.values().any(|job| {
            job.ready().is_some_and(|ready| {
                let module = &self.modules[ready.module];
                job.divisions < module.divisions && module.slots[ready.slot].group == group
            })
        })
    }

    /// Returns true if `job` is a piece of a run.
    pub(crate) fn is_piece(&self, job: u64) -> bool {
        self.jobs.get(&job).is_some_and(|job| matches!(job.of, Of::Piece { .. }))
    }

    /// Returns true if `module` cannot become ready before the divided run of `other` goes on: all
    /// that triggers it comes from there, and nothing of it is under way.
    pub(super) fn waits_for(&self, module: usize, other: usize) -> bool {
        let timed = matches!(self.modules[module].trigger, crate::Trigger::Timer { .. });
        !timed && self.comes_from(module, other)
    }

    /// Returns true if no message can reach `module` before the divided run of `other` goes on.
    pub(super) fn comes_from(&self, module: usize, other: usize) -> bool {
        let from_there = |topic: usize| {
            let sources = self.sources.iter().any(|source| usize::from(source.topic) == topic);
            let mut modules = self.modules.iter().enumerate();
            !sources
                && modules.all(|(at, feeder)| {
                    let slots = &feeder.slots;
                    let rests =
                        slots.iter().all(|slot| slot.module.is_some() && slot.queued.is_none());
                    usize::from(feeder.publishes) != topic
                        || at == other
                        || rests && self.waits_for(at, other)
                })
        };
        self.topics_of(module).all(from_there)
    }

    /// The topics that trigger a module.
    fn topics_of(&self, module: usize) -> impl Iterator<Item = usize> {
        let reads = move |topic: &usize| {
            let mut readers = self.topics[*topic].readers.iter();
            readers.any(|reader| reader.starts() && reader.module == module)
        };
        (0..self.topics.len()).filter(reads)
    }

    /// Returns true if pieces wait for a core of the group.
    pub(crate) fn pieces_wait(&self, group: u16) -> bool {
        self.waiting_pieces().any(|(divided, ..)| divided.home == group)
    }

    /// Returns true if a run that waits for its pieces on this core may go on.
    pub(crate) fn rejoins(&self, core: Core) -> bool {
        let done = |divided: &&Divided| divided.running == 0 && divided.waiting.is_empty();
        self.divided.values().filter(done).any(|divided| divided.core == core)
    }
}
