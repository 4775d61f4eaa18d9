//! Hypotheses for an object whose velocity is not certain yet.

use super::{Extrapolation, Hypothesis, Intent, Predictor, Surroundings, kerb};
use crate::Track;
use crate::map::lanes_at;
use glam::DVec2;
use std::f64::consts::{FRAC_PI_2, PI};
use world::{Kind, LaneId, Pose, Road};

/// More than this is not certain, of vehicles and of people, m/s.
const CERTAIN: (f64, f64) = (1.0, 0.45);
/// Nor is more than this share of the speed.
const SHARE: f64 = 0.3;

/// Returns true if the motion of the object is not known.
pub(crate) fn is(track: &Track) -> bool {
    let bare = matches!(track.kind, Kind::Pedestrian | Kind::Cyclist);
    let certain = if bare { CERTAIN.1 } else { CERTAIN.0 };
    track.uncertainty() > certain.max(SHARE * track.velocity.length())
}

/// Something that an object may be about.
struct Prior {
    /// Before anything is known of its velocity.
    probability: f64,
    direction: DVec2,
    /// The usual speed in that direction, and its spread, m/s.
    speed: (f64, f64),
}

/// Probability that something that comes into view stands.
const STANDS: f64 = 0.6;
/// Probability that it drives along a lane, if it is in one.
const DRIVES: f64 = 0.25;
const DRIVING: (f64, f64) = (8.0, 4.0);
/// Probability that it walks or cycles onto the road, or along it, each way.
const CROSSES: f64 = 0.15;
const ALONG: f64 = 0.1;
const WALKING: (f64, f64) = (1.5, 0.6);
const CYCLING: (f64, f64) = (4.5, 1.5);
/// Distance beside the road beyond which an object does not cross it, m; if seen to move, m.
const BESIDE: (f64, f64) = (2.0, 12.0);

impl Predictor {
    pub(super) fn doubtful(
        &self,
        track: &Track,
        near: &[(&Track, &Extrapolation)],
        around: &Surroundings,
    ) -> Vec<Hypothesis> {
        let stands = Prior { probability: STANDS, direction: DVec2::ZERO, speed: (0.0, 1.0) };
        let (stay, _) = stands.agrees(track);
        let mut found = vec![Hypothesis { probability: stay, ..self.stay(track) }];
        // Whatever else it is about.
        found.extend(
            self.off_road(track).into_iter().map(|on| Hypothesis { probability: NEGLIGIBLE, ..on }),
        );
        let lanes = lanes_of_any_direction(track, &around.road);
        for (lane, pose) in &lanes {
            let (probability, direction) = (DRIVES / lanes.len() as f64, pose.forward());
            let prior = Prior { probability, direction, speed: DRIVING };
            let (probability, speed) = prior.agrees(track);
            let ways = around.ways(*lane);
            for way in ways.iter().filter(|_| probability > NEGLIGIBLE) {
                let pose = Pose { heading: pose.heading, ..track.pose };
                let drives = Track { pose, velocity: speed * direction, ..track.clone() };
                let states = self.follow(&drives, way, around.road.lane(*lane).limit, near);
                let probability = probability / ways.len() as f64;
                found.push(Hypothesis { intent: Intent::Keep, probability, states });
            }
        }
        if matches!(track.kind, Kind::Pedestrian | Kind::Cyclist) {
            found.extend(self.on_foot(track, around));
        }
        found
    }

    fn on_foot(&self, track: &Track, around: &Surroundings) -> Vec<Hypothesis> {
        let beside = if track.may_stand() { BESIDE.0 } else { BESIDE.1 };
        let Some((toward, along)) = kerb(track, &around.road, beside) else { return Vec::new() };
        let ways = [
            (Intent::Cross, toward, CROSSES),
            (Intent::Keep, along, ALONG),
            (Intent::Keep, -along, ALONG),
            (Intent::Keep, -toward, ALONG),
        ];
        let mut found = Vec::new();
        for (intent, direction, share) in ways {
            for (part, speed) in [(0.7, WALKING), (0.3, CYCLING)] {
                let prior = Prior { probability: part * share, direction, speed };
                let (probability, speed) = prior.agrees(track);
                if probability > NEGLIGIBLE {
                    let heading = track.pose.heading;
                    let velocity = speed * direction;
                    let states = self.straight(track.pose.position, velocity, heading, 1e9);
                    found.push(Hypothesis { intent, probability, states });
                }
            }
        }
        found
    }
}

/// The lanes in which an object is, wherever it seems to look, each with the pose of its middle.
fn lanes_of_any_direction(track: &Track, road: &Road) -> Vec<(LaneId, Pose)> {
    const MARGIN: f64 = 0.3;
    let mut found: Vec<(LaneId, Pose)> = Vec::new();
    for turn in [0.0, FRAC_PI_2, PI, -FRAC_PI_2] {
        let pose = Pose { heading: track.pose.heading + turn, ..track.pose };
        for (lane, offset) in lanes_at(road, pose, MARGIN) {
            if found.iter().all(|(other, _)| *other != lane) {
                found.push((lane, road.lane(lane).line.pose(offset.along)));
            }
        }
    }
    found
}

/// Probability below which a hypothesis is dropped.
const NEGLIGIBLE: f64 = 1e-4;

impl Prior {
    /// The probability (not yet of all of them together) that this is what the object does, and the
    /// most probable speed: the prior one, corrected by what the tracker knows.
    fn agrees(&self, track: &Track) -> (f64, f64) {
        let Prior { probability, direction, speed: (usual, spread) } = *self;
        let information = track.doubt.inverse();
        let precision = spread.powi(-2) + direction.dot(information * direction);
        let known = direction.dot(information * track.velocity);
        let speed = ((usual / spread.powi(2) + known) / precision).max(0.0);
        let error = track.velocity - speed * direction;
        let unlikely = error.dot(information * error) + ((speed - usual) / spread).powi(2);
        (probability * (-unlikely / 2.0).exp(), speed)
    }
}
