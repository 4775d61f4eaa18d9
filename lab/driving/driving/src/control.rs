//! Control from a trajectory to a command: its own curvature and acceleration, and what brings the
//! vehicle back to it.

use crate::Trajectory;
use serde::{Deserialize, Serialize};
use world::{Command, Pose, geometry::wrapped};

/// The ego vehicle, as localisation has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ego {
    /// Its centre and heading.
    pub pose: Pose,
    /// m/s.
    pub speed: f64,
    /// m/s².
    pub acceleration: f64,
    /// Curvature of its path, 1/m.
    pub curvature: f64,
}

/// Follows trajectories.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Follower {
    /// Delay from a command to the vehicle's obeying it, s: the command is for the trajectory's
    /// state so much later.
    pub lag: f64,
    /// Time of driving over which a distance beside the path decays, s.
    pub settle: f64,
    /// Shortest distance for that, m.
    pub shortest: f64,
    /// m/s² for each m behind.
    pub position_gain: f64,
    /// m/s² for each m/s too slow.
    pub speed_gain: f64,
    /// The strongest brake, m/s².
    pub brake: f64,
    /// The strongest acceleration, m/s².
    pub throttle: f64,
    /// The tightest curve, 1/m.
    pub curvature: f64,
}

impl Default for Follower {
    fn default() -> Follower {
        Follower {
            lag: 0.1,
            settle: 0.7,
            shortest: 3.0,
            position_gain: 0.4,
            speed_gain: 1.2,
            brake: 8.0,
            throttle: 3.0,
            curvature: 0.2,
        }
    }
}

impl Follower {
    /// Command to a vehicle that is at `ego` at time `at` s and is to follow `trajectory`.
    ///
    /// The distance beside the path, as a function of the distance driven, is that of a critically
    /// damped oscillator.
    pub fn command(&self, trajectory: &Trajectory, ego: &Ego, at: f64) -> Command {
        let now = trajectory.state(at);
        let soon = trajectory.state(at + self.lag);
        let error = now.pose.local(ego.pose.position);
        let turn = wrapped(ego.pose.heading - now.pose.heading);
        let length = (self.settle * ego.speed).max(self.shortest);
        let curvature = soon.curvature - error.y / length.powi(2) - 2.0 * turn.sin() / length;
        let behind = (-error.x).clamp(-2.0, 2.0);
        let slow = now.speed - ego.speed;
        let wanted = soon.acceleration + self.position_gain * behind + self.speed_gain * slow;
        // If the trajectory stands, the vehicle is to stand, wherever that is.
        let later = trajectory.state(at + 1.0);
        let standing = now.speed < 0.3 && soon.speed.max(later.speed) < 0.05;
        let acceleration = if standing { -2.0 } else { wanted };
        Command {
            acceleration: acceleration.clamp(-self.brake, self.throttle),
            curvature: curvature.clamp(-self.curvature, self.curvature),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Point;
    use glam::DVec2;
    use world::Line;

    const LAG: f64 = 0.1;

    /// The vehicle: obeys after a lag of the first order.
    fn drive(ego: &mut Ego, command: Command, step: f64) {
        ego.acceleration += (command.acceleration - ego.acceleration) * step / LAG;
        ego.curvature += (command.curvature - ego.curvature) * step / LAG;
        ego.speed = (ego.speed + ego.acceleration * step).max(0.0);
        let turn = ego.curvature * ego.speed * step;
        let middle = DVec2::from_angle(ego.pose.heading + turn / 2.0);
        ego.pose.position += ego.speed * step * middle;
        ego.pose.heading += turn;
    }

    /// 30 m straight on, then round a circle of 40 m, with a speed as a function of time.
    fn trajectory(line: &Line, speed: impl Fn(f64) -> f64) -> Trajectory {
        let (mut along, step) = (0.0, 0.05);
        let point = |index: u32| {
            let after = f64::from(index) * step;
            along += speed(after) * step;
            let acceleration = (speed(after + 0.01) - speed(after - 0.01)) / 0.02;
            let (pose, curvature) = (line.pose(along), line.curvature(along));
            Point { after, pose, speed: speed(after), acceleration, curvature }
        };
        Trajectory { at: 0.0, points: (0..400).map(point).collect(), free: true }
    }

    fn line() -> Line {
        let bend = (1..=600).map(|step| {
            let angle = f64::from(step) * 0.01;
            DVec2::new(30.0 + 40.0 * angle.sin(), 40.0 - 40.0 * angle.cos())
        });
        let straight = (0..30).map(|x| DVec2::new(f64::from(x), 0.0));
        Line::new(straight.chain(bend)).unwrap()
    }

    #[test]
    fn a_curve_is_followed_within_a_quarter_of_a_metre() {
        let line = line();
        let trajectory = trajectory(&line, |after| 8.0 + 2.0 * (after * 0.7).sin());
        // It starts beside the path.
        let mut ego = Ego { pose: Pose::new(0.0, 0.8, 0.0), speed: 8.0, ..Ego::default() };
        let (mut farthest, mut last) = (0.0_f64, 0.0);
        for step in 0..1800 {
            let at = f64::from(step) * 0.01;
            let command = Follower::default().command(&trajectory, &ego, at);
            drive(&mut ego, command, 0.01);
            last = line.offset(ego.pose.position).left.abs();
            if at > 2.5 {
                farthest = farthest.max(last);
            }
        }
        assert!(farthest < 0.25, "{farthest} m");
        assert!(last < 0.1, "{last} m");
        let wanted = trajectory.state(18.0);
        let behind = wanted.pose.position.distance(ego.pose.position);
        assert!(behind < 0.6, "{behind} m from where it should be");
    }

    #[test]
    fn it_stops_where_the_trajectory_does() {
        let line = line();
        let trajectory = trajectory(&line, |after| (8.0 - 4.0 * after).max(0.0));
        let mut ego = Ego { speed: 8.0, ..Ego::default() };
        for step in 0..600 {
            let command = Follower::default().command(&trajectory, &ego, f64::from(step) * 0.01);
            drive(&mut ego, command, 0.01);
        }
        assert_eq!(ego.speed, 0.0);
        // v²/2b = 8 m.
        assert!((ego.pose.position.x - 8.0).abs() < 0.6, "{}", ego.pose.position.x);
    }

    #[test]
    fn commands_stay_within_what_the_vehicle_can_do() {
        let trajectory = trajectory(&line(), |_| 30.0);
        let ego = Ego { pose: Pose::new(0.0, 20.0, 2.0), ..Ego::default() };
        let command = Follower::default().command(&trajectory, &ego, 1.0);
        assert_eq!((command.acceleration, command.curvature), (3.0, -0.2));
    }
}
