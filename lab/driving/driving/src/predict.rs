//! Predictions of objects: for each one several hypotheses with probabilities.
//!
//! A vehicle in a lane keeps it, on each way that leads on, or changes to a neighbour; along its
//! way it follows the object ahead (the intelligent driver model; Treiber, Hennecke and Helbing,
//! 2000) or, if it is seen to brake, brakes on. Of those who may be ahead only the nearest few are
//! looked at, so that the time for an object does not grow with the number of others (COLA,
//! equation 3). A pedestrian goes on, stops, or steps onto the road.
//!
//! An object that has just come into view has no certain velocity. It may stand, drive along a
//! lane, walk or cycle across or along the road (`doubtful`): each as probable as it is before
//! anything is known, times how well it agrees with what of the velocity was measured.

mod along;
pub(crate) mod doubtful;

use crate::map::{lanes_at, near, ways};
use crate::{Checkpoint, Stopped, Track, lidar, passed};
use along::{Along, driver};
use glam::DVec2;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use world::road::{Lane, LaneId, Road};
use world::{Kind, Line, Offset, Pose, Rectangle, geometry::wrapped};

/// Range and resolution of predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictor {
    /// Length of a prediction, s.
    pub horizon: f64,
    /// Time from one state to the next, s.
    pub step: f64,
    /// Number of others that an object takes into account.
    pub neighbours: usize,
}

impl Default for Predictor {
    fn default() -> Predictor {
        Predictor { horizon: 8.0, step: 0.1, neighbours: 8 }
    }
}

/// Intent that an object may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Intent {
    /// Stand.
    Stay,
    /// Keep the lane, or the direction.
    Keep,
    /// Change to the lane on the left.
    Left,
    /// Change to the lane on the right.
    Right,
    /// Leave the lane to where none is that one may change to.
    Leave,
    /// Keep the lane, and go on braking.
    Brake,
    /// A pedestrian stops.
    Stop,
    /// A pedestrian steps onto the road.
    Cross,
}

/// State of an object at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its centre and heading.
    pub pose: Pose,
    /// Along its heading, m/s.
    pub speed: f64,
}

/// A possible behaviour of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// Intent of the object.
    pub intent: Intent,
    /// Probability; those of an object add up to 1.
    pub probability: f64,
    /// States from the time of the prediction on, a [`Prediction::step`] apart.
    pub states: Vec<State>,
}

/// Hypotheses for one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The object's number.
    pub id: u32,
    /// Kind of the object.
    pub kind: Kind,
    /// m.
    pub length: f64,
    /// m.
    pub width: f64,
    /// The time of the first states, s.
    pub at: f64,
    /// Time from one state to the next, s.
    pub step: f64,
    /// The most probable first.
    pub hypotheses: Vec<Hypothesis>,
}

impl Prediction {
    /// The ground that the object covers `after` s from the time of the prediction, if it does
    /// `hypothesis`; after the last state it goes on straight and as fast.
    pub fn footprint(&self, hypothesis: &Hypothesis, after: f64) -> Rectangle {
        let last = hypothesis.states.len() - 1;
        let State { mut pose, speed } = self.state(hypothesis, after);
        let beyond = after - last as f64 * self.step;
        if beyond > 0.0 {
            pose.position += beyond * speed * pose.forward();
        }
        Rectangle { pose, length: self.length, width: self.width }
    }

    /// The state nearest to `after` s from the time of the prediction; after the last one, the
    /// last.
    pub fn state(&self, hypothesis: &Hypothesis, after: f64) -> State {
        let last = hypothesis.states.len() - 1;
        hypothesis.states[((after / self.step).round().max(0.0) as usize).min(last)]
    }
}

/// The road around the ego: the ways that lead on from each lane near it. It depends on the ego's
/// place alone, so that it can be found before a frame comes (COLA, section 4.2).
#[derive(Clone, Debug)]
pub struct Surroundings {
    road: Arc<Road>,
    ways: HashMap<LaneId, Vec<Line>>,
}

impl Surroundings {
    /// Distance from the ego within which lanes are looked at, m.
    const RANGE: f64 = lidar::RANGE + 20.0;
    /// Length of the ways that lead on from the end of such a lane, m.
    const ON: f64 = 200.0;

    /// The road around `pose`; so many ways are followed through junctions. `checkpoint` is called
    /// before each lane.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    pub fn around(
        road: &Arc<Road>,
        pose: Pose,
        most: usize,
        checkpoint: Checkpoint,
    ) -> Result<Surroundings, Stopped> {
        let mut found = HashMap::new();
        for (id, lane) in road.lanes() {
            passed(checkpoint)?;
            if near(lane, pose.position, Surroundings::RANGE) {
                let length = lane.line.length() + Surroundings::ON;
                found.insert(id, ways(road, id, 0.0, length, most));
            }
        }
        Ok(Surroundings { road: road.clone(), ways: found })
    }

    fn ways(&self, lane: LaneId) -> &[Line] {
        self.ways.get(&lane).map_or(&[], Vec::as_slice)
    }
}

/// Place of an object at each step, as far as others look at it.
#[derive(Debug)]
struct Extrapolation {
    places: Vec<DVec2>,
    /// Courses of these along ways, by the way's address in the surroundings.
    courses: Mutex<HashMap<usize, Arc<Course>>>,
}

/// Places of an object along a way.
#[derive(Debug)]
struct Course {
    /// Offsets at each step.
    offsets: Vec<Offset>,
    /// Nowhere nearer to the way than this, m.
    beside: f64,
}

/// Object that an object on its way may follow.
struct Lead {
    velocity: DVec2,
    /// Distance from its middle to the object's when they touch, m.
    apart: f64,
    /// Distance beside the way beyond which it is not in the way, m.
    beside: f64,
    course: Arc<Course>,
}

impl Extrapolation {
    /// Course along a way, with the place at each step. Many follow the same ones along the same
    /// ways.
    fn along(&self, way: &Line) -> Arc<Course> {
        let key = std::ptr::from_ref(way).addr();
        let courses = || self.courses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(course) = courses().get(&key) {
            return course.clone();
        }
        let offsets: Vec<_> = self.places.iter().map(|place| way.offset(*place)).collect();
        let beside = offsets.iter().fold(f64::INFINITY, |least, one| least.min(one.left.abs()));
        let course = Arc::new(Course { offsets, beside });
        courses().insert(key, course.clone());
        course
    }
}

/// All objects at one time, and what those that are near to others look at.
#[derive(Clone, Debug)]
pub struct Crowd {
    tracks: Vec<Track>,
    others: Vec<Arc<Extrapolation>>,
    around: Arc<Surroundings>,
}

/// Distance, m, and difference of speed, m/s, from the expected values up to which others take an
/// object to be there; or a speed within one standard deviation of the known one.
const EXPECTED: (f64, f64) = (0.3, 0.3);

impl Crowd {
    /// All objects.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }
}

impl Predictor {
    /// Predictions of the objects at the places `order` of `scene`, in that order, from time `at` s
    /// on. `scene` has all objects, the ego (id 0) too, which the others take into account.
    /// `checkpoint` is called before each object.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    ///
    /// # Panics
    ///
    /// `order` names a place that `scene` does not have.
    pub fn predict(
        &self,
        at: f64,
        scene: &[Track],
        order: &[usize],
        around: &Surroundings,
        checkpoint: Checkpoint,
    ) -> Result<Vec<Prediction>, Stopped> {
        let crowd = self.crowd(scene.to_vec(), &Arc::new(around.clone()), None);
        self.predict_some(at, &crowd, order, checkpoint)
    }

    /// All objects, for [`Predictor::predict_some`]. Of one about where `expected` has it (see
    /// [`Predictor::expect`]), others look at what was computed for it.
    pub fn crowd(
        &self,
        tracks: Vec<Track>,
        around: &Arc<Surroundings>,
        expected: Option<&Crowd>,
    ) -> Crowd {
        let expected = expected.filter(|expected| Arc::ptr_eq(&expected.around, around));
        let others = tracks.iter().map(|track| {
            let there = expected.and_then(|expected| {
                let place = expected.tracks.iter().position(|other| other.id == track.id)?;
                let other = &expected.tracks[place];
                let off = other.pose.position.distance(track.pose.position);
                let faster = other.velocity - track.velocity;
                let toward = faster.normalize_or_zero();
                let known = toward.dot(track.doubt * toward).sqrt();
                let is = off <= EXPECTED.0 && faster.length() <= EXPECTED.1.max(known);
                is.then(|| expected.others[place].clone())
            });
            there.unwrap_or_else(|| Arc::new(self.extrapolate(track)))
        });
        Crowd { others: others.collect(), tracks, around: around.clone() }
    }

    /// The crowd as it will be after `passed_s` s if all objects go on, with all that
    /// [`Predictor::predict_some`] needs of the others: work that can be done before the next frame
    /// comes (COLA, section 4.2). `checkpoint` is called before each object.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    pub fn expect(
        &self,
        crowd: &Crowd,
        around: &Arc<Surroundings>,
        passed_s: f64,
        checkpoint: Checkpoint,
    ) -> Result<Crowd, Stopped> {
        let mut tracks = crowd.tracks.clone();
        tracks.iter_mut().for_each(|track| track.pose.position += passed_s * track.velocity);
        let expected = self.crowd(tracks, around, None);
        let order: Vec<usize> = (0..expected.tracks.len()).collect();
        self.predict_some(0.0, &expected, &order, checkpoint)?;
        Ok(expected)
    }

    /// As [`Predictor::predict`], of the objects at the places `order` of a crowd.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    ///
    /// # Panics
    ///
    /// `order` names a place that the crowd does not have.
    pub fn predict_some(
        &self,
        at: f64,
        crowd: &Crowd,
        order: &[usize],
        checkpoint: Checkpoint,
    ) -> Result<Vec<Prediction>, Stopped> {
        let Crowd { tracks: scene, others, around } = crowd;
        let mut predictions = Vec::with_capacity(order.len());
        for index in order {
            passed(checkpoint)?;
            let track = &scene[*index];
            let near = self.nearest(scene, *index);
            let near: Vec<(&Track, &Extrapolation)> =
                near.into_iter().map(|other| (&scene[other], &*others[other])).collect();
            predictions.push(Prediction {
                id: track.id,
                kind: track.kind,
                length: track.length,
                width: track.width,
                at,
                step: self.step,
                hypotheses: self.hypotheses(track, &near, around),
            });
        }
        Ok(predictions)
    }

    fn steps(&self) -> usize {
        (self.horizon / self.step).round() as usize
    }

    /// The first state, with room for the others.
    fn from(&self, track: &Track, speed: f64) -> Vec<State> {
        let mut states = Vec::with_capacity(self.steps() + 1);
        states.push(State { pose: track.pose, speed });
        states
    }

    /// Straight on, as fast as now.
    fn extrapolate(&self, track: &Track) -> Extrapolation {
        let step = |step: usize| track.pose.position + step as f64 * self.step * track.velocity;
        let places = (0..=self.steps()).map(step).collect();
        Extrapolation { places, courses: Mutex::default() }
    }

    /// The places of those nearest to one object.
    fn nearest(&self, scene: &[Track], of: usize) -> Vec<usize> {
        let far =
            |other: usize| scene[other].pose.position.distance_squared(scene[of].pose.position);
        let others = (0..scene.len()).filter(|other| *other != of);
        let mut others: Vec<(f64, usize)> = others.map(|other| (far(other), other)).collect();
        others.sort_by(|one, other| one.0.total_cmp(&other.0));
        others.into_iter().take(self.neighbours).map(|(_, other)| other).collect()
    }

    fn hypotheses(
        &self,
        track: &Track,
        near: &[(&Track, &Extrapolation)],
        around: &Surroundings,
    ) -> Vec<Hypothesis> {
        let mut found = match track.kind {
            _ if doubtful::is(track) => self.doubtful(track, near, around),
            Kind::Pedestrian => self.walks(track, &around.road),
            _ if track.velocity.length() < STANDING || track.may_stand() => {
                vec![self.stay(track)]
            }
            _ => self.drives(track, near, around),
        };
        let total: f64 = found.iter().map(|hypothesis| hypothesis.probability).sum();
        for hypothesis in &mut found {
            hypothesis.probability /= total;
        }
        found.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        found
    }

    fn stay(&self, track: &Track) -> Hypothesis {
        let state = State { pose: track.pose, speed: 0.0 };
        let states = vec![state; self.steps() + 1];
        Hypothesis { intent: Intent::Stay, probability: 1.0, states }
    }

    fn drives(
        &self,
        track: &Track,
        near: &[(&Track, &Extrapolation)],
        around: &Surroundings,
    ) -> Vec<Hypothesis> {
        let road = &around.road;
        let Some((lane, _)) = lanes_at(road, track.pose, 0.5).into_iter().next() else {
            return self.beside_lanes(track, near, around);
        };
        let goals = [
            (Intent::Keep, 0.86, Some(lane)),
            (Intent::Left, 0.07, road.lane(lane).left),
            (Intent::Right, 0.07, road.lane(lane).right),
        ];
        let leaves = self.leaves(track, road.lane(lane), near, around.ways(lane));
        let mut found: Vec<Hypothesis> = leaves.into_iter().collect();
        let keeps = likelihood(track, &road.lane(lane).line);
        let side = soon(track, &road.lane(lane).line);
        for (intent, prior, goal) in goals {
            let Some(goal) = goal else { continue };
            let ways = around.ways(goal);
            // A vehicle that does not keep its lane is on its way to the next one, however far that
            // is.
            let toward = match intent {
                Intent::Left => side > 0.0,
                Intent::Right => side < 0.0,
                _ => false,
            };
            let fits = likelihood(track, &road.lane(goal).line);
            let fits = if toward { fits.max(1.0 - keeps) } else { fits };
            let share = prior * fits / ways.len() as f64;
            let limit = road.lane(goal).limit;
            for way in ways {
                let states = self.follow(track, way, limit, near);
                let brake = braking(track);
                if intent == Intent::Keep && brake > 0.0 {
                    found.push(Hypothesis {
                        intent: Intent::Brake,
                        probability: share * brake,
                        states: self.brake(track, way),
                    });
                }
                let rest = if intent == Intent::Keep { 1.0 - brake } else { 1.0 };
                found.push(Hypothesis { intent, probability: share * rest, states });
            }
        }
        // A lane leads nowhere if the road after it has not been looked at.
        if around.ways(lane).is_empty() { self.off_road(track) } else { found }
    }

    /// Out of its lane, if it is on the way out and no lane of its direction is there.
    fn leaves(
        &self,
        track: &Track,
        lane: &Lane,
        near: &[(&Track, &Extrapolation)],
        ways: &[Line],
    ) -> Option<Hypothesis> {
        const PRIOR: f64 = 0.02;
        const FARTHEST: f64 = 4.0;
        let left = soon(track, &lane.line);
        let outward = !swings_in(track, &lane.line);
        let beside = if left > 0.0 { lane.left } else { lane.right };
        let way = ways.first().filter(|_| beside.is_none() && outward)?;
        let along = Along::on(track, way).to(left.clamp(-FARTHEST, FARTHEST));
        let probability = PRIOR * (1.0 - likelihood(track, &lane.line));
        let states = self.follow_from(track, along, way, lane.limit, near);
        Some(Hypothesis { intent: Intent::Leave, probability, states })
    }

    /// Prediction along the way, behind the object ahead.
    fn follow(
        &self,
        track: &Track,
        way: &Line,
        limit: f64,
        near: &[(&Track, &Extrapolation)],
    ) -> Vec<State> {
        self.follow_from(track, Along::on(track, way), way, limit, near)
    }

    fn follow_from(
        &self,
        track: &Track,
        mut along: Along,
        way: &Line,
        limit: f64,
        near: &[(&Track, &Extrapolation)],
    ) -> Vec<State> {
        let wish = limit.max(along.speed);
        let (length, width) = (along.length, along.width);
        let courses = near.iter().map(|(other, it)| {
            let (apart, beside) = (length + other.length, (width + other.width) / 2.0 + 0.3);
            Lead { velocity: other.velocity, apart: apart / 2.0, beside, course: it.along(way) }
        });
        // An object that is never on the way is ahead of no other.
        let leads: Vec<Lead> = courses.filter(|lead| lead.course.beside < lead.beside).collect();
        let mut states = self.from(track, along.speed);
        for step in 1..=self.steps() {
            let mut nearest: Option<(f64, &Lead)> = None;
            for lead in &leads {
                let Offset { along: at, left } = lead.course.offsets[step];
                if at > along.at && left.abs() < lead.beside {
                    let gap = (at - along.at - lead.apart).max(0.1);
                    if nearest.is_none_or(|(least, _)| gap < least) {
                        nearest = Some((gap, lead));
                    }
                }
            }
            let lead = nearest.map(|(gap, lead)| {
                let direction = way.forward(lead.course.offsets[step].along);
                (gap, lead.velocity.dot(direction))
            });
            // It keeps its present acceleration for a moment.
            let now = (-(step as f64) * self.step / 1.0).exp();
            let model = driver(along.speed, wish, lead);
            let acceleration = now * along.acceleration + (1.0 - now) * model;
            states.push(along.advance(acceleration, self.step, step as f64 * self.step, way));
        }
        states
    }

    /// Along the way, as it brakes now, until it stands.
    fn brake(&self, track: &Track, way: &Line) -> Vec<State> {
        let mut along = Along::on(track, way);
        let acceleration = along.acceleration;
        let mut states = self.from(track, along.speed);
        for step in 1..=self.steps() {
            states.push(along.advance(acceleration, self.step, step as f64 * self.step, way));
        }
        states
    }

    /// Out of every lane of its direction: straight on, along the nearest one as far beside it as
    /// now, or back into it, if it comes from where others come towards it or is on its way.
    fn beside_lanes(
        &self,
        track: &Track,
        near: &[(&Track, &Extrapolation)],
        around: &Surroundings,
    ) -> Vec<Hypothesis> {
        const FARTHEST: f64 = 4.0;
        const TURNED: f64 = 0.8;
        const RETURNS: f64 = 0.2;
        const MOVES: f64 = 1.5;
        // Straight on counts as 1.
        const LIKELY: f64 = 0.7;
        let mut found = self.off_road(track);
        let lanes = lanes_at(&around.road, track.pose, FARTHEST).into_iter();
        let along = lanes.filter(|(lane, offset)| {
            let direction = around.road.lane(*lane).line.pose(offset.along).heading;
            wrapped(track.pose.heading - direction).abs() < TURNED
        });
        let moves = track.velocity.length() > MOVES;
        for (lane, offset) in along.take(usize::from(moves)) {
            let Lane { line, limit, .. } = around.road.lane(lane);
            let Some(way) = around.ways(lane).first() else { continue };
            let toward = -offset.left.signum() * track.velocity.dot(line.pose(offset.along).left());
            let returns = offset.left > 0.0 || toward > RETURNS;
            for end in [Some(offset.left), returns.then_some(0.0)].into_iter().flatten() {
                let course = Along::on(track, way).to(end);
                let states = self.follow_from(track, course, way, *limit, near);
                found.push(Hypothesis { intent: Intent::Keep, probability: LIKELY, states });
            }
        }
        found
    }

    /// Straight on, and aside as it begins to.
    fn off_road(&self, track: &Track) -> Vec<Hypothesis> {
        const BEGINS: f64 = 0.4;
        let aside = track.acceleration.dot(track.pose.left()).clamp(-4.0, 4.0);
        let velocity = track.velocity + BEGINS * aside * track.pose.left();
        let states = self.straight(track.pose.position, velocity, track.pose.heading, 1e9);
        vec![Hypothesis { intent: Intent::Keep, probability: 1.0, states }]
    }

    /// States with this velocity until it stops after `until` s.
    fn straight(&self, from: DVec2, velocity: DVec2, standing: f64, until: f64) -> Vec<State> {
        let speed = velocity.length();
        let heading = if speed < STANDING { standing } else { velocity.to_angle() };
        let state = |step: usize| {
            let after = step as f64 * self.step;
            let position = from + after.min(until) * velocity;
            State {
                pose: Pose { position, heading },
                speed: if after < until { speed } else { 0.0 },
            }
        };
        (0..=self.steps()).map(state).collect()
    }

    fn walks(&self, track: &Track, road: &Road) -> Vec<Hypothesis> {
        const PACE: f64 = 1.4;
        const BESIDE: f64 = 2.0;
        let (from, heading) = (track.pose.position, track.pose.heading);
        let straight = |velocity, until| self.straight(from, velocity, heading, until);
        let speed = track.velocity.length();
        let keeps = if speed < STANDING { Intent::Stay } else { Intent::Keep };
        let keep = straight(track.velocity, 1e9);
        let mut found = vec![Hypothesis { intent: keeps, probability: 0.8, states: keep }];
        if speed >= STANDING {
            let states = straight(track.velocity, 0.7);
            found.push(Hypothesis { intent: Intent::Stop, probability: 0.2, states });
        }
        if let Some((toward, _)) = kerb(track, road, BESIDE).filter(|_| speed < 0.5) {
            let states = straight(PACE * toward, 1e9);
            found.push(Hypothesis { intent: Intent::Cross, probability: 0.05, states });
        }
        found
    }
}

/// Slower is standing, m/s.
const STANDING: f64 = 0.3;

/// Probability that an object that brakes as `track` does goes on braking.
fn braking(track: &Track) -> f64 {
    let acceleration = track.acceleration.dot(track.pose.forward());
    ((-acceleration - 0.8) / 2.0).clamp(0.0, 0.9)
}

/// Fit of the object's place a second and a half from now to the lane, if it moves across the lane
/// as it does now.
fn likelihood(track: &Track, lane: &Line) -> f64 {
    const SPREAD: f64 = 0.5;
    // An object that comes from beside swings in, and does not go on to the other side.
    const SWINGS: f64 = 0.25;
    let offset = lane.offset(track.pose.position);
    let across = lane.pose(offset.along).left();
    let doubt = across.dot(track.doubt * across);
    let soon = soon(track, lane);
    let beside = if swings_in(track, lane) { SWINGS * soon } else { soon };
    // The less a velocity is known, the less an acceleration.
    let jumps = ACCELERATION * (SHAKES * doubt).min(3.0);
    let variance = SPREAD * SPREAD + SOON * SOON * doubt + jumps * jumps;
    (-0.5 * beside.powi(2) / variance).exp().max(1e-6)
}

/// Does it come from beside the lane's middle, and on to the other side? Where it is may be known
/// to within `MIDDLE` m.
fn swings_in(track: &Track, lane: &Line) -> bool {
    const MIDDLE: f64 = 0.25;
    let left = lane.offset(track.pose.position).left;
    left * soon(track, lane) < 0.0 && left.abs() > MIDDLE
}

/// s.
const SOON: f64 = 1.5;
/// Weight of an acceleration aside, m for each m/s²: a driver who begins to move over does so for
/// longer than one who corrects his course.
const ACCELERATION: f64 = 0.5;
/// Uncertainty of the acceleration, m/s², for each m²/s² of a velocity's variance.
const SHAKES: f64 = 8.0;

/// Distance left of the line at which it will be then, m.
fn soon(track: &Track, line: &Line) -> f64 {
    let offset = line.offset(track.pose.position);
    let direction = line.pose(offset.along);
    let bend = line.curvature(offset.along) * track.velocity.dot(direction.forward()).powi(2);
    let acceleration = track.acceleration.dot(direction.left()) - bend;
    offset.left
        + SOON * track.velocity.dot(direction.left())
        + ACCELERATION * acceleration.clamp(-3.0, 3.0)
}

/// The direction onto the road for an object that is at most `beside` m beside it, and that along
/// it.
fn kerb(track: &Track, road: &Road, beside: f64) -> Option<(DVec2, DVec2)> {
    let lanes = road.lanes().filter_map(|(_, lane)| {
        let offset = lane.line.offset(track.pose.position);
        let between = (0.0..=lane.line.length()).contains(&offset.along);
        let edge = offset.left.abs() - lane.width / 2.0;
        let pose = lane.line.pose(offset.along);
        let toward = -offset.left.signum() * pose.left();
        (between && edge <= beside).then_some((edge, (toward, pose.forward())))
    });
    let nearest = lanes.min_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map(|(_, directions)| directions)
}

/// The objects' places in the order in which they matter: `urgency` (a deadline in s, a distance
/// in m) from the least.
pub fn by_urgency(scene: &[Track], urgency: impl Fn(&Track) -> f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scene.len()).filter(|index| scene[*index].id != 0).collect();
    let urgencies: Vec<f64> = scene.iter().map(urgency).collect();
    order.sort_by(|one, other| urgencies[*one].total_cmp(&urgencies[*other]));
    order
}

#[cfg(test)]
mod predict_tests;
