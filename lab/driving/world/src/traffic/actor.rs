//! One actor: its motion from step to step.

use crate::body::{Body, Kind};
use crate::ego::moved;
use crate::geometry::Pose;
use crate::line::Offset;
use crate::road::{LaneId, Road};
use crate::route::turned;
use crate::scenario::{self, Does, KMH, Moves, Turn};
use crate::world::STEP;

/// The farthest that an actor may be from the middle of the lane that it follows, m.
const BESIDE: f64 = 6.0;

/// Actor beside the ego.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) body: Body,
    /// Since the beginning, m.
    pub(crate) distance: f64,
    pub(crate) motion: Motion,
    /// The speed (m/s) and the rate (m/s²) that an action asked for.
    order: Option<(f64, f64)>,
    /// The actor drove off the road's end.
    pub(crate) gone: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Motion {
    Straight,
    Crosses { walk: f64, over: f64 },
    Lane(Follower),
}

/// Follows a lane.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    pub(crate) lane: LaneId,
    /// Distance from its beginning, m.
    pub(crate) along: f64,
    pub(crate) turn: Turn,
    /// Next lane on its way.
    pub(crate) next: Option<LaneId>,
    pub(crate) drift: Drift,
    /// None: it keeps its speed whatever is in its way.
    pub(crate) driver: Option<Driver>,
}

/// Wishes of a driver who heeds others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    /// m/s.
    pub(crate) desired: f64,
    pub(crate) lane_changes: bool,
}

/// Drift from one place beside the lane's middle to another, by a polynomial of the fifth degree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drift {
    from: f64,
    to: f64,
    /// Start of the drift and its length, in distance covered, m.
    start: f64,
    over: f64,
}

impl Drift {
    pub(crate) fn resting(left: f64) -> Drift {
        Drift { from: left, to: left, start: 0.0, over: 1.0 }
    }

    /// m to the left of the lane's middle, and how much more for each m covered.
    fn at(&self, distance: f64) -> (f64, f64) {
        let u = ((distance - self.start) / self.over).clamp(0.0, 1.0);
        let (by, slope) =
            (u * u * u * (10.0 + u * (6.0 * u - 15.0)), 30.0 * u * u * (1.0 - u) * (1.0 - u));
        let way = self.to - self.from;
        (self.from + way * by, way * slope / self.over)
    }

    pub(crate) fn ended(&self, distance: f64) -> bool {
        distance >= self.start + self.over || self.from == self.to
    }
}

impl Actor {
    /// The actor at its start beside `base`; none if it needs a lane and there is none.
    pub(crate) fn new(id: u32, spec: &scenario::Actor, road: &Road, base: Pose) -> Option<Actor> {
        let heading = crate::geometry::wrapped(base.heading + spec.heading_deg.to_radians());
        let pose = Pose { position: base.point(0.0, spec.left_m), heading };
        let (length, width) = scenario::usual_size(spec.kind);
        let body = Body {
            id,
            kind: spec.kind,
            pose,
            speed: spec.speed_kmh / KMH,
            acceleration: 0.0,
            length: spec.length_m.unwrap_or(length),
            width: spec.width_m.unwrap_or(width),
        };
        let motion = match spec.moves {
            Moves::Straight => Motion::Straight,
            Moves::Crosses { walk_kmh, over_m } => {
                Motion::Crosses { walk: walk_kmh / KMH, over: over_m }
            }
            Moves::Lane { turn } => Motion::Lane(Follower::near(road, pose, turn, None)?),
            Moves::Drives { desired_kmh, turn, lane_changes } => {
                let driver = Driver { desired: desired_kmh / KMH, lane_changes };
                Motion::Lane(Follower::near(road, pose, turn, Some(driver))?)
            }
        };
        Some(Actor::with(body, motion, road))
    }

    pub(crate) fn with(body: Body, motion: Motion, road: &Road) -> Actor {
        let mut actor = Actor { body, distance: 0.0, motion, order: None, gone: false };
        if let Motion::Lane(follower) = &mut actor.motion {
            follower.next = following(road, follower.lane, follower.turn);
            actor.body.pose = follower.pose(road, 0.0);
        }
        actor
    }

    /// Does what an action asks for, from now on.
    pub(crate) fn act(&mut self, does: &Does) {
        match *does {
            Does::Speed { to_kmh, rate_mps2 } => {
                self.order = Some((to_kmh / KMH, rate_mps2.unwrap_or(f64::INFINITY)));
            }
            Does::Drift { left_m, over_m } => {
                if let Motion::Lane(follower) = &mut self.motion {
                    follower.turn_aside(self.distance, left_m, over_m);
                }
            }
        }
    }

    /// Does it decide for itself how fast it goes?
    pub(crate) fn driver(&self) -> Option<(&Follower, &Driver)> {
        match &self.motion {
            Motion::Lane(follower) if self.order.is_none() && !self.gone => {
                follower.driver.as_ref().map(|driver| (follower, driver))
            }
            _ => None,
        }
    }

    /// Moves by one step along its way.
    pub(crate) fn step(&mut self, road: &Road) {
        self.obey();
        let (distance, speed) = moved(self.body.speed, self.body.acceleration);
        self.body.speed = speed;
        if distance == 0.0 {
            return;
        }
        self.distance += distance;
        match &mut self.motion {
            Motion::Straight => {
                self.body.pose.position = self.body.pose.point(distance, 0.0);
            }
            Motion::Crosses { over, .. } => {
                self.body.pose.position = self.body.pose.point(distance, 0.0);
                if self.distance >= *over {
                    self.body.speed = 0.0;
                }
            }
            Motion::Lane(follower) => {
                self.gone = !follower.advance(road, self.distance, distance);
                self.body.pose = follower.pose(road, self.distance);
            }
        }
    }

    /// Sets the acceleration that brings it to the speed of its order.
    fn obey(&mut self) {
        let Some((to, rate)) = self.order else { return };
        let missing = to - self.body.speed;
        if missing.abs() <= rate * STEP {
            self.body.speed = to;
            self.body.acceleration = 0.0;
        } else {
            self.body.acceleration = rate.copysign(missing);
        }
    }
}

impl Follower {
    pub(crate) fn new(lane: LaneId, along: f64, left: f64, driver: Option<Driver>) -> Follower {
        let (turn, drift) = (Turn::Straight, Drift::resting(left));
        Follower { lane, along, turn, next: None, drift, driver }
    }

    /// Follower on the nearest lane that leads where `pose` looks.
    fn near(road: &Road, pose: Pose, turn: Turn, driver: Option<Driver>) -> Option<Follower> {
        let fits = |(id, lane): (LaneId, &crate::Lane)| {
            let offset = lane.line.offset(pose.position);
            let on = (0.0..=lane.line.length()).contains(&offset.along);
            let along = lane.line.pose(offset.along).forward().dot(pose.forward()) > 0.7;
            (on && along && offset.left.abs() <= BESIDE).then_some((id, offset))
        };
        let near = road.lanes().filter_map(fits);
        let (lane, offset) =
            near.min_by(|one, other| one.1.left.abs().total_cmp(&other.1.left.abs()))?;
        Some(Follower { turn, ..Follower::new(lane, offset.along, offset.left, driver) })
    }

    pub(crate) fn turn_aside(&mut self, distance: f64, to: f64, over: f64) {
        let (from, _) = self.drift.at(distance);
        self.drift = Drift { from, to, start: distance, over };
    }

    /// Into a lane beside, where it is at `offset`, `distance` m from its beginning, within `over` m;
    /// it goes on from there.
    pub(crate) fn change(
        &mut self,
        road: &Road,
        (lane, offset): (LaneId, Offset),
        distance: f64,
        over: f64,
    ) {
        self.drift = Drift { from: offset.left, to: 0.0, start: distance, over };
        (self.lane, self.along) = (lane, offset.along);
        self.next = following(road, lane, self.turn);
    }

    /// Beside the road for good, on the right of its rightmost lane?
    pub(crate) fn off_road(&self, road: &Road, distance: f64, width: f64) -> bool {
        let lane = road.lane(self.lane);
        let edge = -self.drift.to - width / 2.0;
        lane.right.is_none() && self.drift.ended(distance) && edge > lane.width / 2.0
    }

    /// Returns true if all of it is in the middle of its lane.
    pub(crate) fn centred(&self, distance: f64) -> bool {
        self.drift.to == 0.0 && self.drift.ended(distance)
    }

    /// `step` m further; false where the road ends.
    fn advance(&mut self, road: &Road, distance: f64, step: f64) -> bool {
        let mut lane = road.lane(self.lane);
        let (left, slope) = self.drift.at(distance);
        let bends = lane.line.points().len() > 2;
        let stretch = if bends { 1.0 - lane.line.curvature(self.along) * left } else { 1.0 };
        self.along += step / (stretch.max(0.1) * (1.0 + slope * slope).sqrt());
        while self.along > lane.line.length() {
            let Some(next) = self.next else { return false };
            self.along -= lane.line.length();
            self.lane = next;
            self.next = following(road, next, self.turn);
            lane = road.lane(next);
        }
        true
    }

    fn pose(&self, road: &Road, distance: f64) -> Pose {
        let base = road.lane(self.lane).line.pose(self.along);
        if self.drift.from == 0.0 && self.drift.to == 0.0 {
            return base;
        }
        let (left, slope) = self.drift.at(distance);
        let heading = crate::geometry::wrapped(base.heading + libm::atan(slope));
        Pose { position: base.point(0.0, left), heading }
    }
}

pub(crate) fn following(road: &Road, lane: LaneId, turn: Turn) -> Option<LaneId> {
    turned(road, lane, turn).or_else(|| road.lane(lane).next.first().copied())
}

/// Returns true for a vehicle, which others have to let pass.
pub(crate) fn vehicle(kind: Kind) -> bool {
    matches!(kind, Kind::Car | Kind::Truck | Kind::Cyclist)
}
