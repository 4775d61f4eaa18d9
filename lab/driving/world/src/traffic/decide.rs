//! Decisions of drivers and pedestrians after they have looked around.

use super::Traffic;
use super::actor::{Actor, Driver, Follower, Motion, vehicle};
use super::model::{Ahead, Change, HEADWAY, STANDSTILL, follow};
use super::occupancy::Occupant;
use crate::body::Body;
use crate::geometry::Pose;
use crate::line::Offset;
use crate::road::{LaneId, Road};

/// Braking before a slower lane, m/s².
const EASY_BRAKING: f64 = 1.5;
/// Braking for a stop line that came up late, m/s².
const LATE_BRAKING: f64 = 6.0;
/// Distance before a stop line at which drivers begin to check if they have to wait, m.
const STOP_LOOK: f64 = 60.0;
/// Distance over the line up to which they still wait, m.
const OVER: f64 = 1.0;
/// Distance before the line at which they like to stand, m.
const BEFORE: f64 = 0.5;
/// Time that they leave free behind them when they cross, s.
const MARGIN: f64 = 2.0;
/// Speed assumed at least for another that could come, m/s.
const COULD_COME: f64 = 4.0;
/// Distance that pedestrians leave free beside them, m.
const BESIDE: f64 = 1.5;
/// Looks around between two thoughts about a change of lanes.
const CHANGE_LOOKS: u64 = 10;
/// Duration of a change of lanes, s, and its shortest way, m.
const CHANGE: (f64, f64) = (3.5, 12.0);
/// The share of that way after which nothing of a vehicle is left in its old lane.
const LEFT: f64 = 0.75;
/// Largest increase in speed of a driver until he has left the old lane, m/s.
const FASTER: f64 = 3.0;

impl Traffic {
    pub(super) fn accelerate(&mut self, road: &Road) {
        for index in 0..self.actors.len() {
            let actor = &self.actors[index];
            let Some((it, driver)) = actor.driver() else { continue };
            let acceleration = self.acceleration(road, actor, it, driver);
            self.actors[index].body.acceleration = acceleration;
        }
    }

    fn acceleration(&self, road: &Road, actor: &Actor, it: &Follower, driver: &Driver) -> f64 {
        let speed = actor.body.speed;
        let desired = desired(road, it, driver);
        let me = occupant(actor, it);
        let ahead = self.occupancy.ahead(road, &me, it.lane, it.next);
        let free = follow(speed, desired, ahead, HEADWAY);
        match self.stop_line(road, actor, it) {
            Some(gap) => {
                let line = Ahead { gap: gap + STANDSTILL - BEFORE, speed: 0.0 };
                free.min(follow(speed, desired, Some(line), HEADWAY))
            }
            None => free,
        }
    }

    /// Distance from the driver's front to the stop line at which he has to wait, m; None if there
    /// is none.
    fn stop_line(&self, road: &Road, actor: &Actor, it: &Follower) -> Option<f64> {
        let next = it.next?;
        let way = road.lane(next);
        let gap = road.lane(it.lane).line.length() - it.along - actor.body.length / 2.0;
        let late = gap + OVER < actor.body.speed * actor.body.speed / (2.0 * LATE_BRAKING);
        if way.yields_to.is_empty() || gap > STOP_LOOK || late || gap < -OVER {
            return None;
        }
        let length = way.line.length() + actor.body.length;
        let needs = (2.0 * length / EASY_BRAKING).sqrt() + MARGIN;
        let comes = |lane: &LaneId| {
            let there = self.occupancy.on(*lane).iter().any(|other| other.id != actor.body.id);
            there || self.feeders[lane.0].iter().any(|feeder| self.comes(road, *feeder, needs))
        };
        way.yields_to.iter().any(comes).then_some(gap)
    }

    /// Returns true if another reaches the end of a lane within this number of seconds.
    fn comes(&self, road: &Road, lane: LaneId, within: f64) -> bool {
        let length = road.lane(lane).line.length();
        let arrives = |other: &Occupant| {
            (length - other.along - other.half) / other.speed.max(COULD_COME) < within
        };
        self.occupancy.on(lane).iter().any(arrives)
    }

    /// At most one driver changes lanes at a time, so that no two choose the same gap.
    pub(super) fn change_lanes(&mut self, road: &Road, look: u64) {
        let turn = |actor: &Actor| (look + u64::from(actor.body.id)).is_multiple_of(CHANGE_LOOKS);
        for index in 0..self.actors.len() {
            let actor = &self.actors[index];
            let Some((it, driver)) = actor.driver().filter(|_| turn(actor)) else { continue };
            if !driver.lane_changes || !it.centred(actor.distance) || actor.body.speed < 2.0 {
                continue;
            }
            let lane = road.lane(it.lane);
            let ends = !lane.next.is_empty() && lane.line.length() - it.along < STOP_LOOK;
            let begins = !self.feeders[it.lane.0].is_empty() && it.along < STOP_LOOK;
            if ends || begins {
                continue;
            }
            let sides = [lane.left, lane.right].into_iter().flatten();
            let mut pays = sides.filter_map(|side| Some((side, self.pays(road, actor, side)?)));
            if let Some((side, offset)) = pays.next() {
                self.actors[index].change(road, (side, offset));
                return;
            }
        }
    }

    /// Place of `actor` on the lane beside; None if a change does not pay.
    fn pays(&self, road: &Road, actor: &Actor, to: LaneId) -> Option<Offset> {
        let (it, driver) = actor.driver()?;
        let wanted = desired(road, it, driver);
        let offset = road.lane(to).line.offset(actor.body.pose.position);
        let me = Occupant { along: offset.along, ..occupant(actor, it) };
        let next = road.lane(to).next.first().copied();
        let ahead = self.occupancy.ahead(road, &me, to, next);
        if ahead.is_some_and(|ahead| ahead.gap < STANDSTILL) {
            return None;
        }
        let own_after = follow(me.speed, wanted, ahead, HEADWAY);
        let new_follower = match self.occupancy.previous(to, me.along, me.id) {
            Some(other) if gap(other, &me) < STANDSTILL => return None,
            Some(other) => {
                let before = self.occupancy.ahead(road, other, to, next);
                (alone(road, to, other, before), behind(road, to, other, &me))
            }
            None => (0.0, 0.0),
        };
        let here = occupant(actor, it);
        let ahead_here = self.occupancy.ahead(road, &here, it.lane, it.next);
        if ahead_here.is_some_and(|ahead| !gets_out(here.speed, ahead)) {
            return None;
        }
        let old_follower = match self.occupancy.previous(it.lane, here.along, here.id) {
            Some(other) => {
                let far = |ahead: Ahead| Ahead {
                    gap: ahead.gap + gap(other, &here) + 2.0 * here.half,
                    ..ahead
                };
                let after = alone(road, it.lane, other, ahead_here.map(far));
                (behind(road, it.lane, other, &here), after)
            }
            None => (0.0, 0.0),
        };
        let own = (actor.body.acceleration, own_after);
        Change { own, new_follower, old_follower }.pays().then_some(offset)
    }

    /// Starts those who want to cross the road, if nothing comes. A driver who has come to a halt
    /// before them lets them cross, after a moment.
    pub(super) fn cross(&mut self, outside: &[Body]) {
        for index in 0..self.actors.len() {
            let actor = &self.actors[index];
            let Motion::Crosses { walk, over } = actor.motion else { continue };
            if actor.distance > 0.0 || actor.body.speed > 0.0 {
                continue;
            }
            let others = self.actors.iter().filter(|other| !other.gone).map(|other| &other.body);
            let mut vehicles = others.chain(outside).filter(|other| vehicle(other.kind));
            let within = over / walk + MARGIN;
            let comes = vehicles.any(|other| {
                let within = if self.has_halted(other) { 0.0 } else { within };
                meets(&actor.body.pose, over, within, other)
            });
            drop(vehicles);
            if !comes {
                self.actors[index].body.speed = walk;
            }
        }
    }
}

/// Returns true if a vehicle could be in the way of an actor that goes `over` m from `pose`,
/// `within` s.
fn meets(pose: &Pose, over: f64, within: f64, other: &Body) -> bool {
    let way = pose.point(over / 2.0, 0.0) - other.pose.position;
    let distance = way.length() - over / 2.0 - other.length / 2.0 - BESIDE;
    let comes = way.dot(other.pose.forward()) > 0.0;
    distance <= 0.0 || (comes && distance < within * other.speed.max(COULD_COME))
}

/// Speed that a driver wants on this lane and before the next one, m/s.
fn desired(road: &Road, it: &Follower, driver: &Driver) -> f64 {
    let lane = road.lane(it.lane);
    let here = driver.desired.min(lane.limit);
    let Some(next) = it.next else { return here };
    let limit = road.lane(next).limit;
    let remaining = (lane.line.length() - it.along).max(0.0);
    here.min((limit * limit + 2.0 * EASY_BRAKING * remaining).sqrt())
}

fn occupant(actor: &Actor, it: &Follower) -> Occupant {
    let (id, half) = (actor.body.id, actor.body.length / 2.0);
    Occupant { id, along: it.along, half, speed: actor.body.speed }
}

fn gap(behind: &Occupant, ahead: &Occupant) -> f64 {
    ahead.along - ahead.half - behind.along - behind.half
}

fn alone(road: &Road, lane: LaneId, it: &Occupant, ahead: Option<Ahead>) -> f64 {
    follow(it.speed.max(0.0), road.lane(lane).limit, ahead, HEADWAY)
}

fn behind(road: &Road, lane: LaneId, it: &Occupant, other: &Occupant) -> f64 {
    alone(road, lane, it, Some(Ahead { gap: gap(it, other), speed: other.speed }))
}

/// Distance of a change of lanes along the road, m.
fn change_over(speed: f64) -> f64 {
    (CHANGE.0 * speed).max(CHANGE.1)
}

/// Returns true if a driver who changes lanes is out of its lane before it reaches the one ahead
/// there.
fn gets_out(speed: f64, ahead: Ahead) -> bool {
    let out = LEFT * change_over(speed);
    ahead.gap + ahead.speed.max(0.0) * out / (speed + FASTER) >= out
}

impl Actor {
    fn change(&mut self, road: &Road, to: (LaneId, Offset)) {
        let over = change_over(self.body.speed);
        let distance = self.distance;
        if let Motion::Lane(it) = &mut self.motion {
            it.change(road, to, distance, over);
        }
    }
}
