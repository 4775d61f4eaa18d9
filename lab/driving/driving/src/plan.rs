//! Planning of the ego vehicle's way: a sampling planner in the frame of a reference line (after
//! Werling, Ziegler, Kammel and Thrun, 2010).
//!
//! A candidate is a path (a polynomial of fifth degree that reaches a distance beside the line at a
//! station) together with a speed profile. Each is driven step by step: within the vehicle's limits
//! or not, free of everything that was predicted or not, comfortable and brisk or not. The stations
//! reach as far as the lookahead and the steps as far as the horizon; beyond both, a candidate must
//! still be able to brake to a standstill. So a shorter lookahead and a shorter horizon cost
//! efficiency, but not safety (COLA, section 4.1).
//!
//! Data that all candidates share is computed once ([`View`]). Most of them are excluded by their
//! least cost, before any other is looked at; it is the same one that is chosen.

mod candidate;
mod cost;
mod keep;
mod leads;
mod scene;
mod view;

pub use view::View;

use crate::{Checkpoint, Ego, Prediction, Stopped, passed};
use candidate::{Course, Path, Profile};
use cost::Search;
use scene::{Reference, Scene};
use serde::{Deserialize, Serialize};
use world::{Line, Pose, geometry::wrapped};

/// Range and resolution of planning, and the limits of the vehicle.
#[derive(Clone, Debug, PartialEq)]
pub struct Planner {
    /// Stations reach so far ahead, m.
    pub lookahead: f64,
    /// Candidates are driven for so long, s.
    pub horizon: f64,
    /// Time up to which a candidate's state at its end counts, s: a shorter one is not the better
    /// for it.
    pub outlook: f64,
    /// Cost of passing a body at its end, as a time, s.
    pub passing: f64,
    /// Time from one check to the next, s.
    pub step: f64,
    /// Distance from one station to the next, m.
    pub spacing: f64,
    /// Hypotheses that are less probable than this do not forbid a candidate.
    pub probable: f64,
    /// The strongest brake, m/s².
    pub brake: f64,
    /// The brake that must bring it to a standstill after the horizon, m/s².
    pub last_brake: f64,
    /// The strongest acceleration, m/s².
    pub throttle: f64,
    /// The tightest curve, 1/m.
    pub curvature: f64,
    /// The strongest acceleration sideways, m/s².
    pub sideways: f64,
    /// Number of candidates between two calls of the checkpoint.
    pub batch: usize,
}

impl Default for Planner {
    fn default() -> Planner {
        Planner {
            lookahead: 80.0,
            horizon: 8.0,
            outlook: 8.0,
            passing: f64::INFINITY,
            step: 0.2,
            spacing: 10.0,
            probable: 0.1,
            brake: 8.0,
            last_brake: 6.0,
            throttle: 2.5,
            curvature: 0.2,
            sideways: 3.0,
            batch: 32,
        }
    }
}

/// State of the ego, and its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Time of the situation, s: the trajectory begins then.
    pub at: f64,
    /// The ego.
    pub ego: Ego,
    /// m.
    pub length: f64,
    /// m.
    pub width: f64,
    /// The line along which it shall drive.
    pub reference: &'a Line,
    /// Highest speed, m/s.
    pub limit: f64,
    /// Middles of lanes that it may use, m left of the reference; the first is the one that it
    /// shall use.
    pub lanes: &'a [f64],
    /// Predictions of the others.
    pub predictions: &'a [Prediction],
    /// Another is nearer than is safe, along and across (RSS).
    pub danger: bool,
    /// The ego began to brake as hard as it can a moment ago: as long as there is danger it goes
    /// on.
    pub holds: bool,
    /// Time for which it has stood, s: a pedestrian at the kerb that it lets cross may not want to.
    pub stood: f64,
}

/// The best candidate of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Cost of the candidate: less is better, also between lanes.
    pub cost: f64,
    /// The candidate.
    pub trajectory: Trajectory,
}

/// A state of a trajectory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Time from the trajectory's beginning, s.
    pub after: f64,
    /// Pose of the vehicle's centre.
    pub pose: Pose,
    /// m/s.
    pub speed: f64,
    /// m/s².
    pub acceleration: f64,
    /// Curvature of the path, 1/m.
    pub curvature: f64,
}

/// States that the ego shall have over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// Its beginning, s.
    pub at: f64,
    /// Points in the order of time; never empty.
    pub points: Vec<Point>,
    /// The trajectory hits nothing that was predicted. If not, it is the hardest brake, because
    /// every candidate hits something.
    pub free: bool,
}

impl Trajectory {
    /// State at time `at` s: between its points in proportion, before its first and after its last
    /// as they are.
    pub fn state(&self, at: f64) -> Point {
        let after = at - self.at;
        let end = self.points.partition_point(|point| point.after <= after);
        let Some(to) = self.points.get(end) else { return self.points[self.points.len() - 1] };
        let Some(from) = end.checked_sub(1).map(|index| self.points[index]) else { return *to };
        let part = (after - from.after) / (to.after - from.after);
        let between = |from: f64, to: f64| from + part * (to - from);
        let turn = wrapped(to.pose.heading - from.pose.heading);
        let position = from.pose.position.lerp(to.pose.position, part);
        Point {
            after,
            pose: Pose { position, heading: from.pose.heading + part * turn },
            speed: between(from.speed, to.speed),
            acceleration: between(from.acceleration, to.acceleration),
            curvature: between(from.curvature, to.curvature),
        }
    }
}

impl Planner {
    /// The same within a shorter time: less far ahead. It does not see that it will have passed who
    /// is beside it at its end.
    pub fn fast(&self, lookahead: f64, horizon: f64) -> Planner {
        const PASSING: f64 = 1.0;
        Planner { lookahead, horizon, passing: PASSING, ..self.clone() }
    }

    /// The cheapest candidate that is free, or the hardest brake if none is.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    pub fn plan(
        &self,
        situation: &Situation,
        checkpoint: Checkpoint,
    ) -> Result<Trajectory, Stopped> {
        let view = self.view(situation);
        let choose = |lane: &f64| self.choose(&view, *lane, checkpoint);
        let found: Vec<Option<Choice>> =
            situation.lanes.iter().map(choose).collect::<Result<_, _>>()?;
        Ok(self.decide(&view, found.into_iter().flatten()))
    }

    /// The cheapest free candidate that ends in the lane whose middle is `lane` m left of the
    /// reference, of several the first; none if all of them hit something.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    pub fn choose(
        &self,
        view: &View,
        lane: f64,
        checkpoint: Checkpoint,
    ) -> Result<Option<Choice>, Stopped> {
        if view.brakes {
            return Ok(None);
        }
        let paths = self.paths(lane, &view.start);
        let mut search = Search::new(self, view, lane);
        let mut best: Option<Best> = None;
        let candidates = candidates(&paths, &view.courses);
        for (looked, (number, path, course)) in candidates.enumerate() {
            if looked % self.batch == 0 {
                passed(checkpoint)?;
            }
            let most = best.as_ref().map_or(f64::INFINITY, |best| best.cost);
            let Some(cost) = self.cost(view, path, course, most, &mut search) else { continue };
            let order = (number, course.number);
            let first = best.as_ref().is_some_and(|best| order < best.order);
            if cost < most || cost == most && first {
                best = Some(Best { cost, order, path, course });
            }
        }
        Ok(best.map(|Best { cost, path, course, .. }| {
            let points = self.points(&view.reference, path, &course.profile);
            Choice { cost, trajectory: Trajectory { at: view.at, points, free: true } }
        }))
    }

    /// Returns true for the hardest brake from the beginning.
    pub fn brakes_hardest(&self, trajectory: &Trajectory) -> bool {
        let first = trajectory.points.get(1).unwrap_or(&trajectory.points[0]);
        first.acceleration <= 1e-6 - self.brake
    }

    /// The cheapest of the choices, or the hardest brake if there is none.
    pub fn decide(&self, view: &View, choices: impl IntoIterator<Item = Choice>) -> Trajectory {
        let cheapest = choices.into_iter().min_by(|one, other| one.cost.total_cmp(&other.cost));
        if let Some(choice) = cheapest {
            return choice.trajectory;
        }
        let View { reference, start, scene, .. } = view;
        let brake = Profile::brake(start.speed, self.brake);
        let stations = [1.0, 1.5, 2.0].map(|share| share * shortest(start));
        let beside = |station: f64| ASIDE.map(|aside| Path::to(start, aside, station));
        let paths = [Path::hold(start)].into_iter().chain(stations.into_iter().flat_map(beside));
        let safest = paths
            .map(|path| (self.unhurt(reference, scene, &path, &brake), path))
            .reduce(|one, other| if other.0 > one.0 { other } else { one });
        let path = safest.map_or_else(|| Path::hold(start), |(_, path)| path);
        let points = self.points(reference, &path, &brake);
        Trajectory { at: view.at, points, free: false }
    }

    /// Number of steps in which a candidate hits nothing, none at all if the vehicle cannot drive
    /// it; and, below 0, how near it comes to others until then.
    fn unhurt(
        &self,
        reference: &Reference,
        scene: &Scene,
        path: &Path,
        profile: &Profile,
    ) -> (usize, f64) {
        let steps = self.steps();
        let mut driven = profile.begin();
        let mut near = 0.0;
        for step in 1..=steps {
            let Some(next) = profile.advance(driven, self.step) else { return (step, near) };
            driven = next;
            let (point, own) = scene.drive(reference, path, &driven);
            if !self.possible(&point) {
                return (0, near);
            }
            match scene.check(step, &point, &own, false) {
                Ok(other) => near -= other.cost,
                Err(_) => return (step, near),
            }
        }
        (steps + 1, near)
    }

    /// Every way to the side.
    fn paths(&self, lane: f64, start: &scene::Start) -> Vec<Path> {
        let shortest = shortest(start);
        let stations = (1..).map(|index| f64::from(index) * self.spacing);
        let stations: Vec<f64> = stations
            .take_while(|station| *station <= self.lookahead)
            .filter(|station| *station >= shortest)
            .collect();
        let stations = if stations.is_empty() { vec![shortest] } else { stations };
        let mut paths = Vec::new();
        for aside in ASIDE {
            paths.extend(stations.iter().map(|station| Path::to(start, lane + aside, *station)));
        }
        paths.push(Path::hold(start));
        paths
    }

    fn steps(&self) -> usize {
        (self.horizon / self.step).round() as usize
    }

    fn points(&self, reference: &Reference, path: &Path, profile: &Profile) -> Vec<Point> {
        const STEP: f64 = 0.1;
        let mut driven = profile.begin();
        let mut points = vec![reference.point(&path.beside(driven.along), &driven)];
        for _ in 0..(self.horizon / STEP).round() as usize {
            let Some(next) = profile.advance(driven, STEP) else { break };
            driven = next;
            points.push(reference.point(&path.beside(driven.along), &driven));
        }
        points
    }
}

/// Distances beside the middle of a lane at which a candidate may end, m.
const ASIDE: [f64; 5] = [0.0, 0.4, -0.4, 0.8, -0.8];

/// The nearest station, m.
fn shortest(start: &scene::Start) -> f64 {
    (0.8 * start.speed).max(6.0)
}

/// Each path, with its number, with each course; those first that may be cheap, so that most of the
/// others are soon dearer: along the last path, which goes on as it is, then by courses.
fn candidates<'a>(
    paths: &'a [Path],
    courses: &'a [Course],
) -> impl Iterator<Item = (usize, &'a Path, &'a Course)> {
    let last = paths.len() - 1;
    let on = courses.iter().map(move |course| (last, &paths[last], course));
    let others = courses.iter().flat_map(move |course| {
        paths[..last].iter().enumerate().map(move |(number, path)| (number, path, course))
    });
    on.chain(others)
}

/// The best of the candidates so far.
struct Best<'a> {
    cost: f64,
    /// The numbers of its path and its profile: of those that cost the same the first is chosen.
    order: (usize, usize),
    path: &'a Path,
    course: &'a Course,
}

#[cfg(test)]
mod tests;
