//! What a candidate is driven against: the reference line, and everybody's predictions.

use super::candidate::{Driven, Path};
use super::keep::{self, Other, Own};
use super::{Planner, Point, Situation};
use glam::DVec2;
use world::{Kind, Pose, Rectangle, geometry::wrapped};

/// How the ego drives with respect to the reference line.
#[derive(Clone, Copy, Debug)]
pub struct Start {
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
pub struct Reference {
    places: Vec<(Pose, f64)>,
}

const SPACING: f64 = 0.5;

impl Reference {
    pub fn of(planner: &Planner, situation: &Situation) -> Reference {
        let from = situation.reference.offset(situation.ego.pose.position).along;
        let fastest = situation.ego.speed.max(situation.limit);
        let stop = fastest.powi(2) / (2.0 * planner.last_brake);
        let length = planner.lookahead + fastest * planner.step + stop + 10.0;
        let place = |index: usize| {
            let along = from + index as f64 * SPACING;
            let pose = situation.reference.pose(along);
            // A chain of straight pieces turns at its points: the heading is that of what is
            // around.
            let (before, after) =
                (situation.reference.pose(along - 1.0), situation.reference.pose(along + 1.0));
            let heading = (after.position - before.position).to_angle();
            (Pose { heading, ..pose }, situation.reference.curvature(along))
        };
        Reference { places: (0..(length / SPACING) as usize + 2).map(place).collect() }
    }

    pub fn start(&self, situation: &Situation) -> Start {
        let (line, curvature) = self.places[0];
        let ego = situation.ego;
        let left = line.local(ego.pose.position).y;
        let stretch = (1.0 - curvature * left).max(0.2);
        let turn = wrapped(ego.pose.heading - line.heading).clamp(-0.8, 0.8);
        // Who is slow turns his wheels on little way: they do not bend his path.
        const SLOW: f64 = 3.0;
        let bend = (ego.curvature - curvature).clamp(-0.1, 0.1) * (ego.speed / SLOW).min(1.0);
        Start { left, slope: stretch * turn.tan(), bend, speed: ego.speed }
    }

    /// Where a pose is along the line from the ego on and beside it, m, and how far it is turned to
    /// its left, rad; `from` is the index near which to look, and becomes that of the place found.
    fn place(&self, pose: &Pose, from: &mut usize) -> keep::Place {
        // Each step goes to where the line would be reached if it went straight on from here.
        const STEPS: usize = 8;
        let last = self.places.len() - 1;
        let mut local = DVec2::ZERO;
        for _ in 0..STEPS {
            local = self.places[*from].0.local(pose.position);
            let next =
                (*from as f64 + (local.x / SPACING).round()).clamp(0.0, last as f64) as usize;
            if next == *from {
                break;
            }
            *from = next;
        }
        let line = self.places[*from].0;
        (*from as f64 * SPACING + local.x, local.y, wrapped(pose.heading - line.heading))
    }

    /// A candidate's place along the line and beside it.
    pub fn own(&self, scene: &Scene, path: &Path, driven: &Driven) -> Own {
        let (slope, _) = path.slopes(driven.along);
        Own {
            along: driven.along,
            left: path.left(driven.along),
            speed: driven.speed,
            aside: driven.speed * slope,
            half: scene.half,
        }
    }

    /// Where a candidate is.
    pub fn point(&self, path: &Path, driven: &Driven) -> Point {
        let place = driven.along / SPACING;
        let index = (place as usize).min(self.places.len() - 2);
        let part = place - index as f64;
        let ((from, bend), (to, next_bend)) = (self.places[index], self.places[index + 1]);
        let turn = wrapped(to.heading - from.heading);
        let line = Pose {
            position: from.position.lerp(to.position, part),
            heading: from.heading + part * turn,
        };
        let bend = bend + part * (next_bend - bend);
        let left = path.left(driven.along);
        let (slope, change) = path.slopes(driven.along);
        let stretch = (1.0 - bend * left).max(0.2);
        let heading = slope.atan2(stretch);
        let position = line.position + left * line.left();
        Point {
            after: driven.time,
            pose: Pose { position, heading: line.heading + heading },
            speed: driven.speed * stretch.hypot(slope),
            acceleration: driven.acceleration,
            // To the first order in the slope.
            curvature: (bend + change * heading.cos().powi(3) / stretch) / stretch,
        }
    }
}

/// A hypothesis, step by step.
struct Mover {
    probability: f64,
    forbids: bool,
    /// Whoever follows in the ego's lane keeps its distance.
    follows: bool,
    /// It comes towards the ego.
    comes: bool,
    /// Somebody without a car around.
    bare: bool,
    /// Somebody ahead who moves or is on foot: who is behind has to keep its distance itself.
    counts: bool,
    /// The half of its diagonal, m.
    radius: f64,
    footprints: Vec<Rectangle>,
}

/// Everybody's hypotheses at the planner's steps.
pub struct Scene {
    movers: Vec<Mover>,
    /// Where each of them is, step after step: most are too far away to be looked at closely.
    places: Vec<DVec2>,
    /// The same along the reference line and beside it.
    others: Vec<Other>,
    /// The halves of the ego's length and width, m.
    half: (f64, f64),
    /// With what is to be free around it, m.
    length: f64,
    width: f64,
}

/// Who is farther away does not matter, m.
const REACH: f64 = 140.0;

/// Around the ego nothing may be nearer: ahead and behind, and beside, m.
const MARGIN: (f64, f64) = (0.5, 0.35);

impl Scene {
    pub fn of(planner: &Planner, situation: &Situation, reference: &Reference) -> Scene {
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
                let after = |step: usize| situation.at + step as f64 * planner.step - prediction.at;
                let bare = matches!(prediction.kind, Kind::Pedestrian | Kind::Cyclist);
                // Nobody drives where somebody on foot was or will be within half a second.
                let stretch = if bare { hypothesis.states[0].speed } else { 0.0 };
                let footprint = |step| {
                    let at = prediction.footprint(hypothesis, after(step));
                    Rectangle { length: at.length + stretch, ..at }
                };
                let same_way = wrapped(now.pose.heading - ego.heading).abs() < 0.8;
                let mut index = 0;
                let other = |step: usize| {
                    let state = prediction.state(hypothesis, after(step));
                    let body = prediction.footprint(hypothesis, after(step));
                    let place = reference.place(&body.pose, &mut index);
                    Other::new(&body, state.speed, place)
                };
                ways.push((0..steps).map(other).collect::<Vec<Other>>());
                let behind = local.x < -(situation.length + prediction.length) / 2.0;
                movers.push(Mover {
                    probability: hypothesis.probability,
                    forbids: hypothesis.probability >= planner.probable,
                    follows: behind && same_way && local.y.abs() < 1.8,
                    comes: now.pose.forward().dot(ego.forward()) * hypothesis.states[0].speed
                        < -1.0,
                    bare,
                    counts: local.x > 0.0 && (bare || hypothesis.states[0].speed > 1.5),
                    radius: (prediction.length + stretch).hypot(prediction.width) / 2.0,
                    footprints: (0..steps).map(footprint).collect(),
                });
            }
        }
        let places = (0..steps)
            .flat_map(|step| movers.iter().map(move |it| it.footprints[step].pose.position))
            .collect();
        Scene {
            places,
            others: (0..steps).flat_map(|step| ways.iter().map(move |way| way[step])).collect(),
            half: (situation.length / 2.0, situation.width / 2.0),
            movers,
            length: situation.length + 2.0 * MARGIN.0,
            width: situation.width + 2.0 * MARGIN.1,
        }
    }

    /// Does the ego, moving through a point at a step, hit somebody ahead who moves or is on foot?
    pub fn is_struck(&self, step: usize, point: &Point) -> bool {
        let ego = Rectangle { pose: point.pose, length: self.length, width: self.width };
        let radius = self.length.hypot(self.width) / 2.0;
        let counts = |mover: &&Mover| mover.forbids && mover.counts;
        self.movers.iter().filter(counts).any(|mover| {
            let other = &mover.footprints[step.min(mover.footprints.len() - 1)];
            let near = radius + mover.radius;
            let moves_on = point.speed >= 0.05 || !mover.comes;
            moves_on
                && other.pose.position.distance_squared(point.pose.position) <= near * near
                && ego.overlaps(other)
        })
    }

    /// What a second at a point costs at a step: nearness, in front and beside. None if something is
    /// hit; who follows is not hit, unless the ego changes lanes.
    pub fn check(&self, step: usize, point: &Point, own: &Own, changes: bool) -> Option<f64> {
        const NEAR: f64 = 3.0;
        const AHEAD: f64 = 16.0;
        // Who keeps the safe distance itself does not stay within it.
        const MORE: f64 = 1.25;
        // So much room beside, m, and what it costs to take it all.
        const BESIDE: (f64, f64) = (1.0, 3.0);
        const BARE: (f64, f64) = (2.0, 60.0);
        let ego = Rectangle { pose: point.pose, length: self.length, width: self.width };
        let radius = self.length.hypot(self.width) / 2.0;
        let way = keep::stopping(own.speed);
        let (forward, left) = (point.pose.forward(), point.pose.left());
        let mut cost = 0.0;
        let count = self.movers.len();
        let step = step.min((self.places.len() / count.max(1)).saturating_sub(1));
        let all = step * count..(step + 1) * count;
        let places = self.places[all.clone()].iter().zip(&self.others[all]);
        for (mover, (place, other)) in self.movers.iter().zip(places) {
            if mover.follows && !changes {
                continue;
            }
            let keep = if other.meets { NEAR + MORE * (way - other.braking()) } else { BARE.0 };
            if !other.meets && other.along > own.along {
                cost += mover.probability * keep::ahead(own, way, other);
            } else if !other.meets && changes && !mover.follows {
                cost += mover.probability * keep::behind(own, other);
            }
            let near = radius + mover.radius;
            let offset = *place - point.pose.position;
            let distance = offset.length_squared();
            if distance > (near + keep).powi(2) {
                continue;
            }
            let (meets, other) = (other.meets, &mover.footprints[step]);
            if distance <= near * near && ego.overlaps(other) {
                // Who stands and is run into by somebody has nothing to avoid; nor can the ego do more
                // than stand when somebody comes towards it.
                let standing = point.speed < 0.05 && (own.along < 0.5 || mover.comes);
                if mover.forbids && !standing {
                    return None;
                }
                cost += 100.0 * mover.probability;
                continue;
            }
            let local = DVec2::new(offset.dot(forward), offset.dot(left).abs());
            let turn = (other.pose.heading - point.pose.heading).sin().abs();
            let across = other.width + turn * (other.length - other.width).max(0.0);
            let beside = local.y - (self.width + across) / 2.0;
            let ahead = local.x - radius - mover.radius;
            if meets && beside < 0.5 && ahead > -near {
                let gap = ahead.max(0.0);
                cost += AHEAD * mover.probability * (1.0 - (gap / keep).min(1.0)).powi(2);
                continue;
            }
            let (room, weight) = if mover.bare { BARE } else { BESIDE };
            if beside < room && local.x.abs() < near {
                let close = (1.0 - beside.max(0.0) / room).powi(2);
                cost += weight * mover.probability * close * (point.speed / 10.0).min(1.0);
            }
        }
        Some(cost)
    }
}

/// The brake that RSS assumes of the ego at least, m/s².
pub const LEAST: f64 = 4.0;
