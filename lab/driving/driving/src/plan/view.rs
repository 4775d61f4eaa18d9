//! A situation as the planner looks at it: what all lanes and all candidates have in common, so
//! that it is computed once.

use super::candidate::{Course, Path, Profile};
use super::scene::{LEAST, Reference, Scene, Start};
use super::{Planner, Situation};
use crate::Ego;

/// Data of a situation that a planner has before it looks at candidates.
pub struct View {
    pub(super) at: f64,
    /// Highest speed of the ego, m/s.
    pub(super) limit: f64,
    /// Factor on the usual cost of being slow.
    pub(super) impatience: f64,
    /// Middles of lanes that it may use, m left of the reference.
    pub(super) lanes: Vec<f64>,
    pub(super) reference: Reference,
    pub(super) start: Start,
    pub(super) scene: Scene,
    /// The only choice is to brake as hard as possible.
    pub(super) brakes: bool,
    /// Every possible way to change the speed; those first that cost least without others.
    pub(super) courses: Vec<Course>,
}

impl Planner {
    /// View that all lanes share, for [`Planner::choose`] and [`Planner::decide`].
    pub fn view(&self, situation: &Situation) -> View {
        let reference = Reference::of(self, situation);
        let start = reference.start(situation);
        let scene = Scene::of(self, situation, &reference);
        let brakes = self.must_brake(situation, &reference, &scene, &start);
        let courses = if brakes { Vec::new() } else { self.courses(situation) };
        let (at, limit, lanes) = (situation.at, situation.limit, situation.lanes.to_vec());
        let impatience = impatience(situation.stood);
        View { at, limit, impatience, lanes, reference, start, scene, brakes, courses }
    }

    fn courses(&self, situation: &Situation) -> Vec<Course> {
        let profiles = self.profiles(situation).into_iter().enumerate();
        let course = |(number, profile)| Course::of(self, number, profile);
        let alone = |course: Course| (self.alone(situation.limit, &course), course);
        let mut courses: Vec<(f64, Course)> = profiles.filter_map(course).map(alone).collect();
        courses.sort_by(|one, other| one.0.total_cmp(&other.0));
        courses.into_iter().map(|(_, course)| course).collect()
    }

    /// RSS's proper response is due: distances are dangerous, and the brake that RSS assumes of the
    /// ego, along its path, does not do any more. Nothing else is tried then, neither to the side
    /// nor to be through before: what it gains depends on what the other does next. An emergency
    /// brake that has begun is let go only when half of that brake does.
    fn must_brake(
        &self,
        situation: &Situation,
        reference: &Reference,
        scene: &Scene,
        start: &Start,
    ) -> bool {
        if situation.danger && situation.holds {
            return true;
        }
        let brakes = situation.ego.acceleration < -LEAST;
        if !situation.danger && !brakes {
            return false;
        }
        let brake = if brakes { LEAST / 2.0 } else { LEAST };
        let (path, profile) = (Path::hold(start), Profile::brake(start.speed, brake));
        let mut driven = profile.begin();
        let mut step = 0;
        while driven.speed > 0.0 {
            step += 1;
            let Some(next) = profile.advance(driven, self.step) else { return false };
            driven = next;
            if scene.is_struck(step, &reference.point(&path.beside(driven.along), &driven)) {
                return true;
            }
        }
        false
    }

    /// Every way to change the speed.
    fn profiles(&self, situation: &Situation) -> Vec<Profile> {
        let Ego { speed, acceleration, .. } = situation.ego;
        // An ego that stands may brake without slowing down.
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
        for brake in [1.0, 2.0, 3.0, LEAST] {
            profiles.push(Profile::brake(speed, brake));
        }
        for slower in [1.5, 3.0, 6.0].into_iter().filter(|slower| *slower < speed) {
            for brake in [2.0, LEAST] {
                let end = speed - slower;
                profiles.push(Profile::Steady { from: speed, acceleration: -brake, end });
            }
        }
        profiles
    }
}

/// Factor on the cost of being slow for an ego that has stood for so long, s. Without it, a choice
/// that is a little cheaper in the next seconds, to let a pedestrian cross who need not want to,
/// could be the cheaper one for ever.
fn impatience(stood: f64) -> f64 {
    const PATIENCE: f64 = 3.0;
    const EACH_SECOND: f64 = 0.1;
    const MOST: f64 = 2.0;
    (1.0 + EACH_SECOND * (stood - PATIENCE).max(0.0)).min(MOST)
}
