//! Traffic without the ego: how the actors move, what they see, how they decide.
//!
//! Vehicles keep to paths that a kinematic vehicle can drive: the middle of a lane, or a smooth
//! drift beside it that depends on the distance covered, so that a vehicle that stands stays where
//! it is. Drivers look around every 100 ms.

pub(crate) mod actor;
mod decide;
pub(crate) mod model;
pub(crate) mod occupancy;

use crate::body::Body;
use crate::road::{LaneId, Road};
use crate::scenario::Does;
use actor::{Actor, Motion};
use occupancy::{Occupancy, Occupant};
use std::collections::HashMap;

/// Steps from one look around to the next.
const LOOK_STEPS: u64 = 10;

/// Speed below which an actor stands, m/s.
const HALTS: f64 = 0.1;

/// Number of looks around after which an actor that has come to a halt is thought to wait: 2 s.
const PATIENCE: u64 = 20;

/// All actors, and what they saw last.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    actors: Vec<Actor>,
    occupancy: Occupancy,
    /// The lanes that lead into each lane.
    feeders: Vec<Vec<LaneId>>,
    /// Actors that have not moved yet, by their place among the actors, with their places on lanes.
    standing: Vec<(usize, LaneId, Occupant)>,
    /// Number of looks around for which actors seen to move before have stood, by their bodies.
    halted: HashMap<u32, u64>,
}

impl Traffic {
    pub(crate) fn new(road: &Road, actors: Vec<Actor>) -> Traffic {
        let mut feeders = vec![Vec::new(); road.lanes().len()];
        for (id, lane) in road.lanes() {
            lane.next.iter().for_each(|next| feeders[next.0].push(id));
        }
        let (occupancy, standing) = (Occupancy::new(road), Vec::new());
        let halted = HashMap::new();
        let mut traffic = Traffic { actors, occupancy, feeders, standing, halted };
        traffic.find_standing(road);
        traffic
    }

    fn find_standing(&mut self, road: &Road) {
        for (index, actor) in self.actors.iter().enumerate() {
            if stands(actor) {
                self.occupancy.find(road, &actor.body);
                for (lane, _) in road.lanes() {
                    let here = self.occupancy.on(lane).iter().map(|it| (index, lane, *it));
                    self.standing.extend(here);
                }
                self.occupancy.clear();
            }
        }
    }

    /// Distance that the actor of this place has come, m.
    pub(crate) fn distance(&self, actor: usize) -> f64 {
        self.actors[actor].distance
    }

    /// Number of all actors that there are and were.
    pub(crate) fn count(&self) -> usize {
        self.actors.len()
    }

    pub(crate) fn act(&mut self, actor: usize, does: &Does) {
        self.actors[actor].act(does);
    }

    /// The bodies of those who are still there.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = Body> {
        self.actors.iter().filter(|actor| !actor.gone).map(|actor| actor.body)
    }

    pub(crate) fn step(&mut self, road: &Road) {
        self.actors.iter_mut().filter(|actor| !actor.gone).for_each(|actor| actor.step(road));
    }

    /// Lets drivers and pedestrians look around, if it is time to; `outside` are the ego and
    /// actors that another simulator moves.
    pub(crate) fn decide(&mut self, step: u64, road: &Road, outside: &[Body]) {
        if !step.is_multiple_of(LOOK_STEPS) {
            return;
        }
        self.look_around(road, outside);
        self.accelerate(road);
        self.change_lanes(road, step / LOOK_STEPS);
        self.watch_who_halts(outside);
        self.cross(outside);
    }

    fn watch_who_halts(&mut self, outside: &[Body]) {
        let actors = self.actors.iter().filter(|actor| !actor.gone).map(|actor| &actor.body);
        for body in actors.chain(outside) {
            if body.speed.abs() > HALTS {
                self.halted.insert(body.id, 0);
            } else if let Some(looks) = self.halted.get_mut(&body.id) {
                *looks += 1;
            }
        }
    }

    /// Returns true if it has come to a halt some time ago; a parked one has not.
    fn has_halted(&self, body: &Body) -> bool {
        self.halted.get(&body.id).is_some_and(|looks| *looks >= PATIENCE)
    }

    /// Puts all actors on their lanes.
    fn look_around(&mut self, road: &Road, outside: &[Body]) {
        self.occupancy.clear();
        for (index, lane, occupant) in &self.standing {
            if stands(&self.actors[*index]) {
                self.occupancy.put(*lane, *occupant);
            }
        }
        for actor in self.actors.iter().filter(|actor| !actor.gone && !stands(actor)) {
            match &actor.motion {
                Motion::Lane(it) if it.centred(actor.distance) => {
                    let (id, half) = (actor.body.id, actor.body.length / 2.0);
                    let (along, speed) = (it.along, actor.body.speed);
                    self.occupancy.put(it.lane, Occupant { id, along, half, speed });
                }
                Motion::Lane(it) if it.off_road(road, actor.distance, actor.body.width) => {}
                _ => self.occupancy.find(road, &actor.body),
            }
        }
        outside.iter().for_each(|body| self.occupancy.find(road, body));
        self.occupancy.sort();
    }
}

/// Returns true if it has not moved since the beginning, and does not want to.
fn stands(actor: &Actor) -> bool {
    actor.distance == 0.0 && actor.body.speed == 0.0 && actor.driver().is_none()
}
