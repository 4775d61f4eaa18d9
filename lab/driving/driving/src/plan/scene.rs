//! Scene against which a candidate is driven: the reference line, and the predictions of all
//! others.

use super::candidate::{Beside, Driven, Path};
use super::keep::{self, Other, Own};
use super::{Planner, Point, Situation};
use crate::lidar;
use glam::DVec2;
use world::{Kind, Pose, Rectangle, geometry::wrapped};

/// State of the ego relative to the reference line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// m.
    pub left: f64,
    /// The first derivative of `left` by the distance along the line.
    pub slope: f64,
    /// The second one, 1/m.
    pub bend: f64,
    /// m/s.
    pub speed: f64,
}

/// The reference line from the ego on, at even distances.
pub(super) struct Reference {
    knots: Vec<Knot>,
}

/// A place on the line.
struct Knot {
    pose: Pose,
    /// Turn to the left on the way to the next one, rad.
    turn: f64,
    /// 1/m.
    bend: f64,
    /// The unit vector along its heading.
    forward: DVec2,
}

const SPACING: f64 = 0.5;

impl Reference {
    pub(super) fn of(planner: &Planner, situation: &Situation) -> Reference {
        let from = situation.reference.offset(situation.ego.pose.position).along;
        let fastest = situation.ego.speed.max(situation.limit);
        let stop = fastest.powi(2) / (2.0 * planner.last_brake);
        let length = planner.lookahead + fastest * planner.step + stop + 10.0;
        let knot = |index: usize| {
            let along = from + index as f64 * SPACING;
            let pose = situation.reference.pose(along);
            // A chain of straight pieces turns at its points: the heading is that of what is
            // around.
            let (before, after) =
                (situation.reference.pose(along - 1.0), situation.reference.pose(along + 1.0));
            let heading = (after.position - before.position).to_angle();
            let pose = Pose { heading, ..pose };
            let bend = situation.reference.curvature(along);
            Knot { pose, turn: 0.0, bend, forward: pose.forward() }
        };
        let mut knots: Vec<Knot> = (0..(length / SPACING) as usize + 2).map(knot).collect();
        for index in 1..knots.len() {
            let to = knots[index].pose.heading;
            let from = &mut knots[index - 1];
            from.turn = wrapped(to - from.pose.heading);
        }
        Reference { knots }
    }

    pub(super) fn start(&self, situation: &Situation) -> Start {
        let Knot { pose: line, bend: curvature, .. } = self.knots[0];
        let ego = situation.ego;
        let left = line.local(ego.pose.position).y;
        let stretch = (1.0 - curvature * left).max(0.2);
        let turn = wrapped(ego.pose.heading - line.heading).clamp(-0.8, 0.8);
        // A slow driver turns the wheels within a short way: they do not bend the path.
        const SLOW: f64 = 3.0;
        let bend = (ego.curvature - curvature).clamp(-0.1, 0.1) * (ego.speed / SLOW).min(1.0);
        Start { left, slope: stretch * turn.tan(), bend, speed: ego.speed }
    }

    /// Place of a pose along the line from the ego on and beside it, m, and its angle to the left
    /// of the line, rad; `from` is the index near which to look, and becomes that of the place
    /// found.
    fn place(&self, pose: &Pose, from: &mut usize) -> keep::Place {
        // Each step goes to where the line would be reached if it went straight on from here.
        const STEPS: usize = 8;
        let last = self.knots.len() - 1;
        let mut local = DVec2::ZERO;
        for _ in 0..STEPS {
            let Knot { pose: line, forward, .. } = &self.knots[*from];
            let offset = pose.position - line.position;
            local = DVec2::new(offset.dot(*forward), offset.dot(forward.perp()));
            let next =
                (*from as f64 + (local.x / SPACING).round()).clamp(0.0, last as f64) as usize;
            if next == *from {
                break;
            }
            *from = next;
        }
        let line = &self.knots[*from].pose;
        (*from as f64 * SPACING + local.x, local.y, wrapped(pose.heading - line.heading))
    }

    /// Between which two places a point of the line is, and the share of the way from the first.
    fn between(&self, along: f64) -> (&Knot, &Knot, f64) {
        let place = along / SPACING;
        let index = (place as usize).min(self.knots.len() - 2);
        (&self.knots[index], &self.knots[index + 1], place - index as f64)
    }

    /// Curvature of the line at a distance along it, 1/m.
    pub(super) fn bend(&self, along: f64) -> f64 {
        let (from, to, part) = self.between(along);
        from.bend + part * (to.bend - from.bend)
    }

    /// Point that a candidate has reached.
    pub(super) fn point(&self, beside: &Beside, driven: &Driven) -> Point {
        let (from, to, part) = self.between(driven.along);
        let line = Pose {
            position: from.pose.position.lerp(to.pose.position, part),
            heading: from.pose.heading + part * from.turn,
        };
        let bend = from.bend + part * (to.bend - from.bend);
        let Beside { left, slope, change } = *beside;
        let stretch = (1.0 - bend * left).max(0.2);
        // Angles take long, and most points are where the path goes along the line.
        let (heading, length, cos) = match slope {
            0.0 => (slope, stretch, 1.0),
            _ => {
                let heading = slope.atan2(stretch);
                (heading, stretch.hypot(slope), heading.cos())
            }
        };
        let position = line.position + left * line.left();
        Point {
            after: driven.time,
            pose: Pose { position, heading: line.heading + heading },
            speed: driven.speed * length,
            acceleration: driven.acceleration,
            // To the first order in the slope.
            curvature: (bend + change * cos.powi(3) / stretch) / stretch,
        }
    }
}

/// A hypothesis: what is the same at all steps.
struct Mover {
    probability: f64,
    forbids: bool,
    /// A follower in the ego's lane keeps its distance.
    follows: bool,
    /// It comes towards the ego.
    comes: bool,
    /// A road user without a car around: a pedestrian or a cyclist.
    bare: bool,
    /// A body ahead that moves or is on foot: the one behind has to keep its distance itself.
    counts: bool,
    /// The half of its diagonal, m.
    radius: f64,
}

impl Mover {
    /// Returns true if a hit at a point is no reason against a candidate.
    fn may_touch(&self, point: &Point, own: &Own) -> bool {
        // An ego that stands and is run into has nothing to avoid; nor can it do more than stand
        // when another comes towards it.
        let standing = point.speed < 0.05 && (own.along < 0.5 || self.comes);
        !self.forbids || standing
    }

    /// Cost of a distance to it that is not safe, and true if that is over once the ego has passed
    /// it. `way` is [`keep::stopping`] of the ego's speed.
    fn distance(&self, own: &Own, way: f64, other: &Other, changes: bool) -> (f64, bool) {
        let is_ahead = other.along > own.along;
        let costs = match (other.meets, is_ahead) {
            (false, true) => keep::ahead(own, way, other),
            (false, false) if changes && !self.follows => keep::behind(own, other),
            (true, true) if self.comes => keep::facing(own, other),
            _ => 0.0,
        };
        (self.probability * costs, other.meets)
    }
}

/// A mover at a step.
#[derive(Clone, Copy)]
struct Moment {
    body: Rectangle,
    /// The unit vector along its heading.
    forward: DVec2,
    /// The same along the reference line and beside it.
    other: Other,
    /// [`keep::side_of_other`].
    side: f64,
}

/// Hypotheses of all others at the planner's steps.
pub(super) struct Scene {
    movers: Vec<Mover>,
    /// Moments of all of them at the first step, then at the next one, and so on.
    moments: Vec<Moment>,
    /// The halves of the ego's length and width, m.
    half: (f64, f64),
    /// Length with what is to be free around it, m, and half of its diagonal.
    length: f64,
    width: f64,
    radius: f64,
}

/// Cost of a second near others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Near {
    /// Cost in front and beside.
    pub cost: f64,
    /// The part of those that the ego passes, or goes through if they do what is improbable: with a
    /// second more it is past them.
    pub passing: f64,
}

/// Distance beyond which others do not matter, m.
const REACH: f64 = lidar::RANGE + 10.0;

/// Around the ego nothing may be nearer: ahead and behind, and beside, m.
const MARGIN: (f64, f64) = (0.5, 0.35);

impl Scene {
    pub(super) fn of(planner: &Planner, situation: &Situation, reference: &Reference) -> Scene {
        let stop = situation.ego.speed.max(situation.limit) / planner.last_brake;
        let steps = ((planner.horizon + stop) / planner.step) as usize + 2;
        let ego = situation.ego.pose;
        let mut movers = Vec::new();
        let mut ways = Vec::new();
        for prediction in situation.predictions {
            for hypothesis in &prediction.hypotheses {
                let now = prediction.footprint(hypothesis, situation.at - prediction.at);
                let local = ego.local(now.pose.position);
                if local.length() > REACH {
                    continue;
                }
                let speed = hypothesis.states[0].speed;
                let bare = matches!(prediction.kind, Kind::Pedestrian | Kind::Cyclist);
                // The ego does not drive where a pedestrian was or will be within half a second.
                let stretch = if bare { speed } else { 0.0 };
                let after = |step: usize| situation.at + step as f64 * planner.step - prediction.at;
                let mut way = Way { reference, index: 0, stretch, last: None };
                let moment = |step: usize| {
                    let body = prediction.footprint(hypothesis, after(step));
                    way.moment(body, prediction.state(hypothesis, after(step)).speed)
                };
                ways.push((0..steps).map(moment).collect::<Vec<Moment>>());
                let same_way = wrapped(now.pose.heading - ego.heading).abs() < 0.8;
                let behind = local.x < -(situation.length + prediction.length) / 2.0;
                movers.push(Mover {
                    probability: hypothesis.probability,
                    forbids: hypothesis.probability >= planner.probable,
                    follows: behind && same_way && local.y.abs() < 1.8,
                    comes: now.pose.forward().dot(ego.forward()) * speed < -1.0,
                    bare,
                    counts: local.x > 0.0 && (bare || speed > 1.5),
                    radius: (prediction.length + stretch).hypot(prediction.width) / 2.0,
                });
            }
        }
        let (length, width) = (situation.length + 2.0 * MARGIN.0, situation.width + 2.0 * MARGIN.1);
        Scene {
            movers,
            moments: (0..steps).flat_map(|step| ways.iter().map(move |way| way[step])).collect(),
            half: (situation.length / 2.0, situation.width / 2.0),
            length,
            width,
            radius: length.hypot(width) / 2.0,
        }
    }

    /// All others at a step; after the last one, at the last.
    fn at(&self, step: usize) -> impl Iterator<Item = (&Mover, &Moment)> {
        let count = self.movers.len();
        let step = step.min((self.moments.len() / count.max(1)).saturating_sub(1));
        self.movers.iter().zip(&self.moments[step * count..])
    }

    /// Others who may be ahead of a candidate at a step and move the same way or stand, with
    /// probabilities.
    pub(super) fn leads(&self, step: usize) -> impl Iterator<Item = (f64, Other)> {
        let leads = |(mover, moment): &(&Mover, &Moment)| !mover.follows && !moment.other.meets;
        self.at(step).filter(leads).map(|(mover, moment)| (mover.probability, moment.other))
    }

    /// The halves of the ego's length and width, m.
    pub(super) fn half(&self) -> (f64, f64) {
        self.half
    }

    /// Place of a candidate along the line, on it.
    pub(super) fn own(&self, driven: &Driven) -> Own {
        Own { along: driven.along, left: 0.0, speed: driven.speed, aside: 0.0, half: self.half }
    }

    /// Point that a candidate has reached, and its place along the line and beside it.
    pub(super) fn drive(
        &self,
        reference: &Reference,
        path: &Path,
        driven: &Driven,
    ) -> (Point, Own) {
        let beside = path.beside(driven.along);
        let own = Own { left: beside.left, aside: driven.speed * beside.slope, ..self.own(driven) };
        (reference.point(&beside, driven), own)
    }

    /// Returns true if the ego, moving through a point at a step, hits another ahead that moves or
    /// is on foot.
    pub(super) fn is_struck(&self, step: usize, point: &Point) -> bool {
        let ego = Rectangle { pose: point.pose, length: self.length, width: self.width };
        self.at(step).filter(|(mover, _)| mover.forbids && mover.counts).any(|(mover, moment)| {
            let other = &moment.body;
            let near = self.radius + mover.radius;
            let moves_on = point.speed >= 0.05 || !mover.comes;
            moves_on
                && other.pose.position.distance_squared(point.pose.position) <= near * near
                && ego.overlaps(other)
        })
    }

    /// Returns true if the one with this number is hit at a step, as [`Scene::check`] has it.
    pub(super) fn is_hit(
        &self,
        who: usize,
        step: usize,
        point: &Point,
        own: &Own,
        changes: bool,
    ) -> bool {
        let Some((mover, moment)) = self.at(step).nth(who) else { return false };
        let near = self.radius + mover.radius;
        let distance = (moment.body.pose.position - point.pose.position).length_squared();
        let passes = mover.follows && !changes || mover.may_touch(point, own);
        let ego = Rectangle { pose: point.pose, length: self.length, width: self.width };
        !passes && distance <= near * near && ego.overlaps(&moment.body)
    }

    /// Cost of those who are near at a point at a step. If something is hit, the error is its
    /// number; one that follows is not hit, unless the ego changes lanes.
    pub(super) fn check(
        &self,
        step: usize,
        point: &Point,
        own: &Own,
        changes: bool,
    ) -> Result<Near, usize> {
        const NEAR: f64 = 3.0;
        const AHEAD: f64 = 16.0;
        // Distance beside, m, within which another is in front.
        const IN_FRONT: f64 = 0.5;
        // An ego that keeps just the safe distance does not stay within it: this factor makes it
        // longer.
        const MORE: f64 = 1.25;
        // So much room beside, m, and what it costs to take it all.
        const BESIDE: (f64, f64) = (1.0, 3.0);
        const BARE: (f64, f64) = (2.0, 60.0);
        let ego = Rectangle { pose: point.pose, length: self.length, width: self.width };
        let (way, side) = (keep::stopping(own.speed), keep::side_of_own(own));
        let mut axis = None;
        let (mut cost, mut passing) = (0.0, 0.0);
        for (who, (mover, moment)) in self.at(step).enumerate() {
            let Moment { body, forward: its_forward, other, side: its_side } = moment;
            if mover.follows && !changes {
                continue;
            }
            if (other.left - own.left).abs() < side + its_side {
                let (distance, is_passed) = mover.distance(own, way, other, changes);
                cost += distance;
                passing += if is_passed { distance } else { 0.0 };
            }
            let keep = if other.meets { NEAR + MORE * (way - other.braking()) } else { BARE.0 };
            let near = self.radius + mover.radius;
            let offset = body.pose.position - point.pose.position;
            let distance = offset.length_squared();
            if distance > (near + keep).powi(2) {
                continue;
            }
            let forward = *axis.get_or_insert_with(|| point.pose.forward());
            if distance <= near * near && ego.overlaps_along(forward, body, *its_forward) {
                if !mover.may_touch(point, own) {
                    return Err(who);
                }
                let touches = 100.0 * mover.probability;
                cost += touches;
                passing += touches;
                continue;
            }
            let local = DVec2::new(offset.dot(forward), offset.dot(forward.perp()).abs());
            let ahead = local.x - self.radius - mover.radius;
            let (in_front, next) = (other.meets && ahead > -near, local.x.abs() < near);
            let (room, weight) = if mover.bare { BARE } else { BESIDE };
            let longer = (body.length - body.width).max(0.0);
            let beside = |turn: f64| local.y - (self.width + (body.width + turn * longer)) / 2.0;
            // The sine of the angle between them takes long: this is a little more than it.
            let most = forward.perp_dot(*its_forward).abs() + 1e-9;
            if !in_front && !next || beside(most) >= room {
                continue;
            }
            let turn = (body.pose.heading - point.pose.heading).sin().abs();
            let beside = beside(turn);
            if in_front && beside < IN_FRONT {
                let gap = ahead.max(0.0);
                cost += AHEAD * mover.probability * (1.0 - (gap / keep).min(1.0)).powi(2);
            } else if next && beside < room {
                let close = (1.0 - beside.max(0.0) / room).powi(2);
                let costs = weight * mover.probability * close * (point.speed / 10.0).min(1.0);
                cost += costs;
                passing += costs;
            }
        }
        Ok(Near { cost, passing })
    }
}

/// Way of another road user, step by step.
struct Way<'a> {
    reference: &'a Reference,
    /// Index of the place of the reference that was nearest at the last step.
    index: usize,
    /// Length by which it is taken to be longer, m.
    stretch: f64,
    /// Its last pose and speed, m/s, with their moment, which is used again if both stay the same.
    last: Option<(Pose, f64, Moment)>,
}

impl Way<'_> {
    fn moment(&mut self, body: Rectangle, speed: f64) -> Moment {
        let same = |(pose, last, _): &&(Pose, f64, Moment)| *pose == body.pose && *last == speed;
        if let Some((.., moment)) = self.last.as_ref().filter(same) {
            return *moment;
        }
        let from = self.index;
        let other = Other::new(&body, speed, self.reference.place(&body.pose, &mut self.index));
        let moment = Moment {
            body: Rectangle { length: body.length + self.stretch, ..body },
            forward: body.pose.forward(),
            side: keep::side_of_other(&other),
            other,
        };
        self.last = (from == self.index).then_some((body.pose, speed, moment));
        moment
    }
}

/// The brake that RSS assumes of the ego at least, m/s².
pub(super) const LEAST: f64 = 4.0;
