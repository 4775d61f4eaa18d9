//! Where the ego vehicle shall go: a sampling planner in the frame of a reference line (after
//! Werling, Ziegler, Kammel and Thrun, 2010).
//!
//! A candidate is a path (a polynomial of fifth degree that reaches a distance beside the line at
//! a station) together with a speed profile. Each is driven step by step: within the vehicle's
//! limits or not, free of everything that was predicted or not, comfortable and brisk or not. The
//! stations reach as far as the lookahead and the steps as far as the horizon; beyond both, a
//! candidate must still be able to brake to a standstill. So a shorter lookahead and a shorter
//! horizon cost efficiency, but not safety (document 002, section 4.1).

mod candidate;
mod keep;
mod scene;

use crate::{Checkpoint, Ego, Prediction, Stopped, passed};
use candidate::{Path, Profile};
use scene::{Reference, Scene};
use world::{Line, Pose, geometry::wrapped};

/// How far and how finely is planned, and what the vehicle can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Planner {
    /// Stations reach so far ahead, m.
    pub lookahead: f64,
    /// Candidates are driven for so long, s.
    pub horizon: f64,
    /// What a candidate is at its end counts until here, s: a shorter one is not the better for it.
    pub outlook: f64,
    /// From one check to the next, s.
    pub step: f64,
    /// From one station to the next, m.
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
    /// The checkpoint is called each time that so many candidates have been looked at.
    pub batch: usize,
}

impl Default for Planner {
    fn default() -> Planner {
        Planner {
            lookahead: 80.0,
            horizon: 8.0,
            outlook: 8.0,
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

/// Where the ego is and what is around it.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// When, s: the trajectory begins then.
    pub at: f64,
    /// The ego.
    pub ego: Ego,
    /// m.
    pub length: f64,
    /// m.
    pub width: f64,
    /// The line along which it shall drive.
    pub reference: &'a Line,
    /// How fast it may drive, m/s.
    pub limit: f64,
    /// Middles of lanes that it may use, m left of the reference; the first is the one that it
    /// shall use.
    pub lanes: &'a [f64],
    /// What others may do.
    pub predictions: &'a [Prediction],
    /// Somebody is nearer than is safe, along and across (RSS).
    pub danger: bool,
    /// It began to brake as hard as it can a moment ago: as long as there is danger it goes on.
    pub holds: bool,
}

/// The best candidate of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What it costs: less is better, also between lanes.
    pub cost: f64,
    /// The candidate.
    pub trajectory: Trajectory,
}

/// A state of a trajectory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// From the trajectory's beginning, s.
    pub after: f64,
    /// Of the vehicle's centre.
    pub pose: Pose,
    /// m/s.
    pub speed: f64,
    /// m/s².
    pub acceleration: f64,
    /// Of the path, 1/m.
    pub curvature: f64,
}

/// Where the ego shall be when.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// Its beginning, s.
    pub at: f64,
    /// In the order of time; never empty.
    pub points: Vec<Point>,
    /// It hits nothing that was predicted. If not, it is the hardest brake, because every
    /// candidate hits something.
    pub free: bool,
}

impl Trajectory {
    /// What it is at time `at` s: between its points in proportion, before its first and after its
    /// last as they are.
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
    /// The same within a shorter time: less far ahead.
    pub fn fast(&self, lookahead: f64, horizon: f64) -> Planner {
        Planner { lookahead, horizon, ..self.clone() }
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
        let found: Vec<Option<Choice>> = situation
            .lanes
            .iter()
            .map(|lane| self.choose(situation, *lane, checkpoint))
            .collect::<Result<_, _>>()?;
        Ok(self.decide(situation, found.into_iter().flatten()))
    }

    /// The cheapest free candidate that ends in the lane whose middle is `lane` m left of the
    /// reference; none if all of them hit something.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    pub fn choose(
        &self,
        situation: &Situation,
        lane: f64,
        checkpoint: Checkpoint,
    ) -> Result<Option<Choice>, Stopped> {
        let reference = Reference::of(self, situation);
        let start = reference.start(situation);
        let scene = Scene::of(self, situation, &reference);
        if self.must_brake(situation, &reference, &scene, &start) {
            return Ok(None);
        }
        let profiles = self.profiles(situation);
        let paths = self.paths(lane, &start);
        let mut best: Option<(f64, &Path, &Profile)> = None;
        let mut looked = 0;
        for path in &paths {
            for profile in &profiles {
                if looked % self.batch == 0 {
                    passed(checkpoint)?;
                }
                looked += 1;
                let most = best.map_or(f64::INFINITY, |(cost, ..)| cost);
                let cost = self.cost(situation, &reference, &scene, path, profile, most);
                if let Some(cost) = cost.filter(|cost| *cost < most) {
                    best = Some((cost, path, profile));
                }
            }
        }
        Ok(best.map(|(cost, path, profile)| {
            let points = self.points(&reference, path, profile);
            Choice { cost, trajectory: Trajectory { at: situation.at, points, free: true } }
        }))
    }

    /// Is this the hardest brake, from its beginning?
    pub fn brakes_hardest(&self, trajectory: &Trajectory) -> bool {
        let first = trajectory.points.get(1).unwrap_or(&trajectory.points[0]);
        first.acceleration <= 1e-6 - self.brake
    }

    /// The cheapest of the choices, or the hardest brake if there is none.
    pub fn decide(
        &self,
        situation: &Situation,
        choices: impl IntoIterator<Item = Choice>,
    ) -> Trajectory {
        let cheapest = choices.into_iter().min_by(|one, other| one.cost.total_cmp(&other.cost));
        if let Some(choice) = cheapest {
            return choice.trajectory;
        }
        let reference = Reference::of(self, situation);
        let start = reference.start(situation);
        let scene = Scene::of(self, situation, &reference);
        let brake = Profile::brake(start.speed, self.brake);
        let stations = [1.0, 1.5, 2.0].map(|share| share * shortest(&start));
        let beside = |station: f64| ASIDE.map(|aside| Path::to(&start, aside, station));
        let paths = [Path::hold(&start)].into_iter().chain(stations.into_iter().flat_map(beside));
        let safest = paths
            .map(|path| (self.unhurt(&reference, &scene, &path, &brake), path))
            .reduce(|one, other| if other.0 > one.0 { other } else { one });
        let path = safest.map_or_else(|| Path::hold(&start), |(_, path)| path);
        let points = self.points(&reference, &path, &brake);
        Trajectory { at: situation.at, points, free: false }
    }

    /// For how many steps a candidate hits nothing, none at all if the vehicle cannot drive it; and,
    /// below 0, how near it comes to others until then.
    fn unhurt(
        &self,
        reference: &Reference,
        scene: &Scene,
        path: &Path,
        profile: &Profile,
    ) -> (usize, f64) {
        let steps = (self.horizon / self.step).round() as usize;
        let mut driven = profile.begin();
        let mut near = 0.0;
        for step in 1..=steps {
            let Some(next) = profile.advance(driven, self.step) else { return (step, near) };
            driven = next;
            let point = reference.point(path, &driven);
            if !self.possible(&point) {
                return (0, near);
            }
            match scene.check(step, &point, &reference.own(scene, path, &driven), false) {
                Some(cost) => near -= cost,
                None => return (step, near),
            }
        }
        (steps + 1, near)
    }

    /// RSS's proper response is due: distances are dangerous, and the brake that RSS assumes of the
    /// ego, along its path, does not do any more. Nothing else is tried then, neither to the side nor
    /// to be through before: what it gains depends on what the other does next. An emergency brake
    /// that has begun is let go only when half of that brake does.
    fn must_brake(
        &self,
        situation: &Situation,
        reference: &Reference,
        scene: &Scene,
        start: &scene::Start,
    ) -> bool {
        if situation.danger && situation.holds {
            return true;
        }
        let brakes = situation.ego.acceleration < -scene::LEAST;
        if !situation.danger && !brakes {
            return false;
        }
        let brake = if brakes { scene::LEAST / 2.0 } else { scene::LEAST };
        let (path, profile) = (Path::hold(start), Profile::brake(start.speed, brake));
        let mut driven = profile.begin();
        let mut step = 0;
        while driven.speed > 0.0 {
            step += 1;
            let Some(next) = profile.advance(driven, self.step) else { return false };
            driven = next;
            if scene.is_struck(step, &reference.point(&path, &driven)) {
                return true;
            }
        }
        false
    }

    /// Every way to change the speed.
    fn profiles(&self, situation: &Situation) -> Vec<Profile> {
        let Ego { speed, acceleration, .. } = situation.ego;
        // Who stands may brake without slowing down.
        let least = if speed < 0.1 { 0.0 } else { -self.brake };
        let acceleration = acceleration.clamp(least, self.throttle);
        let mut profiles = Vec::new();
        for time in [1.5, 3.0, 5.0, 8.0].into_iter().filter(|time| *time <= self.horizon) {
            for share in 0..=6 {
                let end = situation.limit * f64::from(share) / 6.0;
                profiles.push(Profile::smooth(speed, acceleration, end, time));
            }
        }
        for acceleration in [0.75, 1.5, self.throttle] {
            let end = situation.limit.max(speed);
            profiles.push(Profile::Steady { from: speed, acceleration, end });
        }
        for brake in [1.0, 2.0, 3.0, scene::LEAST] {
            profiles.push(Profile::brake(speed, brake));
        }
        for slower in [1.5, 3.0, 6.0].into_iter().filter(|slower| *slower < speed) {
            for brake in [2.0, scene::LEAST] {
                let end = speed - slower;
                profiles.push(Profile::Steady { from: speed, acceleration: -brake, end });
            }
        }
        profiles
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

    /// What a candidate costs; none if it is not possible, hits something, or costs more than
    /// `most`.
    fn cost(
        &self,
        situation: &Situation,
        reference: &Reference,
        scene: &Scene,
        path: &Path,
        profile: &Profile,
        most: f64,
    ) -> Option<f64> {
        const SLOW: f64 = 0.5;
        const HARSH: f64 = 0.4;
        const BESIDE: f64 = 1.0;
        const SIDEWAYS: f64 = 0.6;
        // Who changes lanes in a hurry will not be where he should be.
        const HURRY: f64 = 2.0;
        const CHANGE: f64 = 4.0;
        const OTHER: f64 = 1.5;
        let steps = (self.horizon / self.step).round() as usize;
        let mut driven = profile.begin();
        let lane = situation.lanes[0];
        let changes = (path.end() - lane).abs() > 1.5;
        let mut cost = if changes { CHANGE } else { 0.0 };
        let sideways = if changes { HURRY } else { SIDEWAYS };
        let (mut step, mut goes_on) = (0, 0.0);
        while step < steps && driven.along <= self.lookahead {
            step += 1;
            driven = profile.advance(driven, self.step)?;
            let point = reference.point(path, &driven);
            self.possible(&point).then_some(())?;
            let own = reference.own(scene, path, &driven);
            let near = scene.check(step, &point, &own, changes)?;
            let slow = (situation.limit - point.speed).abs();
            let over = (point.speed - situation.limit).max(0.0);
            let beside = |lane: &f64| (own.left - lane).abs();
            let nearest = situation.lanes.iter().map(beside).fold(f64::INFINITY, f64::min);
            let other = if beside(&lane) > nearest { OTHER } else { 0.0 };
            goes_on = near + SLOW * slow + 4.0 * over + BESIDE * nearest.powi(2) + other;
            let forced = HARSH * point.acceleration.powi(2)
                + sideways * (point.curvature * point.speed.powi(2)).powi(2);
            cost += self.step * (goes_on + forced);
            if cost >= most {
                return None;
            }
        }
        // Beyond the horizon and the lookahead it goes on as it is then.
        let cost = cost + (self.outlook - step as f64 * self.step).max(0.0) * goes_on;
        self.stops(reference, scene, path, driven, step, changes).then_some(cost)
    }

    /// Within the vehicle's limits. Who has to brake harder than RSS assumes brakes as hard as he can:
    /// what is saved now is missing if it comes a little worse.
    fn possible(&self, point: &Point) -> bool {
        let sideways = point.curvature * point.speed.powi(2);
        let braking = -point.acceleration;
        let brakes = braking <= scene::LEAST + 1e-6 || (braking - self.brake).abs() < 1e-6;
        brakes
            && point.acceleration <= self.throttle + 1e-6
            && point.curvature.abs() <= self.curvature
            && sideways.abs() <= self.sideways
    }

    /// From here on it can brake to a standstill and hit nothing.
    fn stops(
        &self,
        reference: &Reference,
        scene: &Scene,
        path: &Path,
        mut driven: candidate::Driven,
        mut step: usize,
        changes: bool,
    ) -> bool {
        let brake = Profile::brake(driven.speed, self.last_brake);
        while driven.speed > 0.0 {
            step += 1;
            let Some(next) = brake.advance(driven, self.step) else { return false };
            driven = next;
            let point = reference.point(path, &driven);
            let own = reference.own(scene, path, &driven);
            if scene.check(step, &point, &own, changes).is_none() {
                return false;
            }
        }
        true
    }

    fn points(&self, reference: &Reference, path: &Path, profile: &Profile) -> Vec<Point> {
        const STEP: f64 = 0.1;
        let mut driven = profile.begin();
        let mut points = vec![reference.point(path, &driven)];
        for _ in 0..(self.horizon / STEP).round() as usize {
            let Some(next) = profile.advance(driven, STEP) else { break };
            driven = next;
            points.push(reference.point(path, &driven));
        }
        points
    }
}

/// How far beside the middle of a lane a candidate may end, m.
const ASIDE: [f64; 5] = [0.0, 0.4, -0.4, 0.8, -0.8];

/// The nearest station, m.
fn shortest(start: &scene::Start) -> f64 {
    (0.8 * start.speed).max(6.0)
}

#[cfg(test)]
mod tests;
