//! Work that is done ahead of time (COLA, section 4.2): one piece under each key, of one
//! version.

use std::any::Any;
use std::collections::BTreeMap;

use crate::cx::Work;
use crate::engine::{Engine, Job};
use crate::trace::{Point, Ring};

/// Work that was asked for and was neither taken nor dropped.
#[derive(Default)]
pub(crate) struct AheadStore {
    pieces: BTreeMap<&'static str, Piece>,
    asked: u64,
}

struct Piece {
    /// Unique, so that a piece that was replaced is told from the one that replaced it.
    number: u64,
    version: u64,
    state: State,
}

enum State {
    Waiting(Work),
    Running,
    Done(Box<dyn Any + Send>),
}

impl AheadStore {
    /// Returns true if the piece is not wanted any more.
    pub(super) fn unwanted(&self, number: u64) -> bool {
        self.pieces.values().all(|piece| piece.number != number)
    }

    /// The work of the piece that waits under `key`, which runs from now on.
    pub(super) fn begin(&mut self, key: &'static str, number: u64) -> Option<Work> {
        let piece = self.pieces.get_mut(key).filter(|piece| piece.number == number)?;
        match std::mem::replace(&mut piece.state, State::Running) {
            State::Waiting(work) => Some(work),
            other => {
                piece.state = other;
                None
            }
        }
    }

    pub(super) fn done(&mut self, number: u64, value: Option<Box<dyn Any + Send>>) {
        let place = self.pieces.iter().find(|(_, piece)| piece.number == number);
        let Some((&key, _)) = place else { return };
        match value {
            Some(value) => {
                self.pieces.get_mut(key).expect("it was just found").state = State::Done(value);
            }
            None => {
                self.pieces.remove(key);
            }
        }
    }
}

impl Engine {
    /// Work is to be done ahead on a core of `group`.
    pub(crate) fn ask_ahead(
        &mut self,
        now_ns: u64,
        group: usize,
        key: &'static str,
        version: u64,
        work: Work,
        ring: &mut Ring,
    ) {
        let there = self.ahead.pieces.get(key).is_some_and(|piece| piece.version == version);
        if !self.settings.proactive || there {
            return;
        }
        self.drop_ahead(now_ns, key, ring);
        self.ahead.asked += 1;
        let number = self.ahead.asked;
        self.ahead.pieces.insert(key, Piece { number, version, state: State::Waiting(work) });
        self.groups[group].ahead.push_back((key, number));
        self.groups[group].statistics.ahead_asked += 1;
        ring.write(now_ns, 0, Point::AheadAsked { version });
    }

    /// The same for a module's run, in its own group.
    pub(crate) fn ask_ahead_of(
        &mut self,
        now_ns: u64,
        job: u64,
        key: &'static str,
        version: u64,
        work: Work,
        ring: &mut Ring,
    ) {
        let Some(ready) = self.jobs.get(&job).and_then(Job::ready) else { return };
        let group = self.modules[ready.module].slots[ready.slot].group;
        self.ask_ahead(now_ns, group, key, version, work, ring);
    }

    /// The result under `key`, if it is of `version` and done. If it is of `version` and not done,
    /// it is cancelled: the caller computes it now.
    pub(crate) fn take_ahead(
        &mut self,
        now_ns: u64,
        job: u64,
        key: &'static str,
        version: u64,
        ring: &mut Ring,
    ) -> Option<Box<dyn Any + Send>> {
        let matches = self.ahead.pieces.get(key).is_some_and(|piece| piece.version == version);
        let value = match matches.then(|| self.ahead.pieces.remove(key)).flatten() {
            Some(Piece { state: State::Done(value), .. }) => Some(value),
            _ => None,
        };
        ring.write(now_ns, job, Point::AheadTaken { hit: value.is_some() });
        if let Some(ready) = self.jobs.get(&job).and_then(Job::ready) {
            let statistics = &mut self.modules[ready.module].statistics;
            *(if value.is_some() { &mut statistics.hits } else { &mut statistics.misses }) += 1;
        }
        value
    }

    /// Cancels what is under `key`, or drops its result.
    pub(crate) fn drop_ahead(&mut self, now_ns: u64, key: &'static str, ring: &mut Ring) {
        if let Some(piece) = self.ahead.pieces.remove(key) {
            ring.write(now_ns, 0, Point::AheadDropped { version: piece.version });
        }
    }
}
