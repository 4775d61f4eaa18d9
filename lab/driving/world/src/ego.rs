//! The ego vehicle: a kinematic single-track model behind actuators with a lag.

use crate::body::{Body, Command, Kind};
use crate::geometry::{Pose, wrapped};
use crate::world::STEP;
use glam::DVec2;

/// The ego's length, m.
pub const LENGTH: f64 = 4.5;
/// The ego's width, m.
pub const WIDTH: f64 = 1.8;
/// The strongest acceleration forwards, m/s².
pub const ACCELERATION: f64 = 3.5;
/// The tightest curve that the steering allows, 1/m.
pub const CURVATURE: f64 = 0.2;
/// The strongest acceleration sideways, m/s²; a command that asks for more gets this.
pub const SIDEWAYS: f64 = 7.0;

/// State of the ego vehicle and of its actuators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ego {
    pose: Pose,
    speed: f64,
    /// Acceleration of the body, m/s²; 0 while it stands on its brakes.
    acceleration: f64,
    actuated: Command,
    /// The share of the way to the command that the actuators go in a step.
    follow: f64,
    braking: f64,
}

impl Ego {
    pub(crate) fn new(pose: Pose, speed: f64, lag: f64, braking: f64) -> Ego {
        let follow = if lag > 0.0 { 1.0 - libm::exp(-STEP / lag) } else { 1.0 };
        let actuated = Command::default();
        Ego { pose, speed, acceleration: 0.0, actuated, follow, braking }
    }

    /// Position of its centre, and its heading.
    pub fn pose(&self) -> Pose {
        self.pose
    }

    /// m/s, never negative.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// m/s².
    pub fn acceleration(&self) -> f64 {
        self.acceleration
    }

    /// The curvature of its path, 1/m; positive: to the left.
    pub fn curvature(&self) -> f64 {
        self.actuated.curvature
    }

    /// The strongest braking that it is capable of, m/s².
    pub fn braking(&self) -> f64 {
        self.braking
    }

    pub(crate) fn body(&self) -> Body {
        let (pose, speed, acceleration) = (self.pose, self.speed, self.acceleration);
        Body { id: 0, kind: Kind::Car, pose, speed, acceleration, length: LENGTH, width: WIDTH }
    }

    /// Moves by one step of an arc with constant acceleration. A value that is not finite counts as
    /// 0.
    pub(crate) fn step(&mut self, command: &Command) {
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        let acceleration = finite(command.acceleration).clamp(-self.braking, ACCELERATION);
        let tightest = CURVATURE.min(SIDEWAYS / self.speed.powi(2).max(1e-9));
        let curvature = finite(command.curvature).clamp(-tightest, tightest);
        self.actuated.acceleration += self.follow * (acceleration - self.actuated.acceleration);
        self.actuated.curvature += self.follow * (curvature - self.actuated.curvature);
        let (distance, speed) = moved(self.speed, self.actuated.acceleration);
        self.acceleration = if speed == 0.0 { 0.0 } else { self.actuated.acceleration };
        self.speed = speed;
        self.pose = arc(self.pose, distance, self.actuated.curvature);
    }
}

/// Distance covered in a step, m, and the speed after it, m/s; braking ends at a standstill.
pub(crate) fn moved(speed: f64, acceleration: f64) -> (f64, f64) {
    let after = speed + acceleration * STEP;
    if after > 0.0 {
        return ((speed + after) / 2.0 * STEP, after);
    }
    if acceleration < 0.0 { (speed * speed / (-2.0 * acceleration), 0.0) } else { (0.0, 0.0) }
}

/// The pose after `distance` m on a circle of this curvature, 1/m.
fn arc(pose: Pose, distance: f64, curvature: f64) -> Pose {
    let half = distance * curvature / 2.0;
    let chord = if half.abs() < 1e-6 { distance } else { distance * libm::sin(half) / half };
    let position = pose.position + chord * DVec2::from_angle(pose.heading + half);
    Pose { position, heading: wrapped(pose.heading + 2.0 * half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ego: &mut Ego, command: Command, steps: usize) {
        (0..steps).for_each(|_| ego.step(&command));
    }

    #[test]
    fn full_braking_without_a_lag_stops_after_the_distance_of_the_formula() {
        let mut ego = Ego::new(Pose::default(), 20.0, 0.0, 8.0);
        run(&mut ego, Command { acceleration: -30.0, curvature: 0.0 }, 400);
        assert_eq!(ego.speed(), 0.0);
        assert!((ego.pose().position.x - 20.0 * 20.0 / 16.0).abs() < 1e-9, "{ego:?}");
    }

    #[test]
    fn lag_costs_the_distance_of_as_much_time() {
        let mut ego = Ego::new(Pose::default(), 20.0, 0.1, 8.0);
        run(&mut ego, Command { acceleration: -8.0, curvature: 0.0 }, 400);
        let extra = ego.pose().position.x - 20.0 * 20.0 / 16.0;
        assert!((extra - 20.0 * 0.1).abs() < 0.2, "{extra}");
    }

    #[test]
    fn curvature_makes_a_circle() {
        let mut ego = Ego::new(Pose::default(), 5.0, 0.0, 8.0);
        run(&mut ego, Command { acceleration: 0.0, curvature: 0.05 }, 1000);
        let centre = DVec2::new(0.0, 20.0);
        assert!((ego.pose().position.distance(centre) - 20.0).abs() < 1e-9);
        assert!((ego.pose().heading - 2.5).abs() < 1e-9);
    }

    #[test]
    fn sideways_acceleration_is_limited() {
        let mut ego = Ego::new(Pose::default(), 20.0, 0.0, 8.0);
        run(&mut ego, Command { acceleration: 0.0, curvature: 0.2 }, 1);
        assert!((ego.curvature() * 400.0 - SIDEWAYS).abs() < 1e-9);
    }
}
