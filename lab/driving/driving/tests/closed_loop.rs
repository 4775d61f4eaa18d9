//! The whole computation in a loop: sensor, segmentation, tracking, prediction, planning, control
//! and a vehicle that obeys after a lag, among bodies that move by simple functions of time.

use driving::plan::Situation;
use driving::predict::Surroundings;
use driving::{Ego, Follower, Lidar, Planner, Predictor, Segmenter, Track, Tracker};
use glam::{DMat2, DVec2};
use std::f64::consts::FRAC_PI_2;
use std::ops::ControlFlow;
use std::sync::Arc;
use world::{Body, Command, Kind, Lane, LaneId, Line, Pose, Rectangle, Road};

const LENGTH: f64 = 4.5;
const WIDTH: f64 = 1.8;
const LAG: f64 = 0.1;

fn body(id: u32, kind: Kind, pose: Pose, speed: f64, length: f64, width: f64) -> Body {
    Body { id, kind, pose, speed, acceleration: 0.0, length, width }
}

/// Two lanes to the east.
fn road() -> Road {
    let lane = |left| {
        let line = Line::new([DVec2::new(0.0, left), DVec2::new(600.0, left)]).unwrap();
        Lane::new(line, 3.5, 13.9)
    };
    let (mut right, mut left) = (lane(0.0), lane(3.5));
    (right.left, left.right) = (Some(LaneId(1)), Some(LaneId(0)));
    Road::new(vec![right, left]).unwrap()
}

struct Drive {
    ego: Ego,
    tracker: Tracker,
    command: Command,
    road: Arc<Road>,
    lanes: Vec<f64>,
}

impl Drive {
    fn new(speed: f64, lanes: &[f64]) -> Drive {
        Drive {
            ego: Ego { pose: Pose::new(10.0, 0.0, 0.0), speed, ..Ego::default() },
            tracker: Tracker::default(),
            command: Command::default(),
            road: Arc::new(road()),
            lanes: lanes.to_vec(),
        }
    }

    fn footprint(&self) -> Rectangle {
        Rectangle { pose: self.ego.pose, length: LENGTH, width: WIDTH }
    }

    /// A tenth of a second: what is seen at its beginning is obeyed in it.
    fn frame(&mut self, frame: u32, bodies: impl Fn(f64) -> Vec<Body>) {
        let at = f64::from(frame) * 0.1;
        let go = &mut || ControlFlow::Continue(());
        let from = self.ego.pose;
        let cloud = Lidar::default().scan(from, &bodies(at), u64::from(frame));
        let detections = Segmenter::default().segment(&cloud, from, go).unwrap();
        let mut scene = self.tracker.update(at, from, &detections, &self.road);
        let order: Vec<usize> = (0..scene.len()).collect();
        scene.push(Track {
            id: 0,
            kind: Kind::Car,
            pose: from,
            velocity: self.ego.speed * from.forward(),
            acceleration: DVec2::ZERO,
            doubt: DMat2::ZERO,
            length: LENGTH,
            width: WIDTH,
            seen: 1,
            at,
        });
        let around = Surroundings::around(&self.road, from, 3, go).unwrap();
        let predictions = Predictor::default().predict(at, &scene, &order, &around, go).unwrap();
        let situation = Situation {
            at,
            ego: self.ego,
            length: LENGTH,
            width: WIDTH,
            reference: &self.road.lane(LaneId(0)).line,
            limit: 13.9,
            lanes: &self.lanes,
            predictions: &predictions,
            danger: false,
            holds: false,
            stood: 0.0,
        };
        let trajectory = Planner::default().plan(&situation, go).unwrap();
        for tick in 0..10 {
            let now = at + f64::from(tick) * 0.01;
            self.command = Follower::default().command(&trajectory, &self.ego, now);
            self.obey(0.01);
            for body in bodies(now + 0.01) {
                let hit = self.footprint().overlaps(&body.footprint());
                assert!(!hit, "{now} s: {:?} hits {body:?}", self.ego);
            }
        }
    }

    fn obey(&mut self, step: f64) {
        let Ego { pose, speed, acceleration, curvature } = &mut self.ego;
        *acceleration += (self.command.acceleration - *acceleration) * step / LAG;
        *curvature += (self.command.curvature - *curvature) * step / LAG;
        *speed = (*speed + *acceleration * step).max(0.0);
        let turn = *curvature * *speed * step;
        pose.position += *speed * step * DVec2::from_angle(pose.heading + turn / 2.0);
        pose.heading += turn;
    }
}

#[test]
fn twenty_seconds_of_traffic_without_a_collision() {
    // A car that brakes to a standstill from 6 s on and leaves at 11 s, one that comes up in the
    // left lane, parked ones, and somebody who crosses far ahead.
    let bodies = |at: f64| {
        let braking = (at - 6.0).clamp(0.0, 2.5);
        let leaving = (at - 11.0).max(0.0);
        let lead =
            40.0 + 10.0 * at.min(6.0) + 10.0 * braking - 2.0 * braking.powi(2) + leaving.powi(2);
        let speed = 10.0 * f64::from(at < 6.0) + 2.0 * leaving;
        vec![
            body(1, Kind::Car, Pose::new(lead, 0.0, 0.0), speed, 4.5, 1.8),
            body(2, Kind::Car, Pose::new(9.0 * at, 3.5, 0.0), 9.0, 4.2, 1.8),
            body(3, Kind::Obstacle, Pose::new(60.0, -3.2, 0.0), 0.0, 4.5, 1.8),
            body(4, Kind::Obstacle, Pose::new(90.0, -3.2, 0.0), 0.0, 4.5, 1.8),
            body(5, Kind::Pedestrian, Pose::new(70.0, 7.5, 0.0), 0.0, 0.5, 0.5),
        ]
    };
    let mut drive = Drive::new(10.0, &[0.0]);
    for frame in 0..200 {
        drive.frame(frame, bodies);
        let beside = drive.ego.pose.position.y.abs();
        assert!(beside < 1.2, "frame {frame}: {beside} m beside the lane");
    }
    assert!(drive.ego.pose.position.x > 130.0, "{:?}", drive.ego);
}

#[test]
fn somebody_who_steps_out_from_behind_a_parked_car_is_not_hit() {
    // At 8 m/s, seen first when 1.9 m from the ego's side and 22 m ahead of its front.
    let bodies = |at: f64| {
        let walked = 1.4 * (at - 1.0).max(0.0);
        vec![
            body(1, Kind::Obstacle, Pose::new(38.0, -2.8, 0.0), 0.0, 4.5, 1.8),
            body(2, Kind::Pedestrian, Pose::new(42.0, -3.6 + walked, FRAC_PI_2), 1.4, 0.5, 0.5),
        ]
    };
    let mut drive = Drive::new(8.0, &[0.0]);
    for frame in 0..80 {
        drive.frame(frame, bodies);
    }
    assert!(drive.ego.pose.position.x > 40.0, "{:?}", drive.ego);
}

#[test]
fn what_stands_in_its_lane_is_passed_in_the_other_one() {
    let wall = |_| vec![body(1, Kind::Obstacle, Pose::new(100.0, 0.0, 0.0), 0.0, 4.5, 1.8)];
    let mut drive = Drive::new(10.0, &[0.0, 3.5]);
    for frame in 0..200 {
        drive.frame(frame, wall);
    }
    assert!(drive.ego.pose.position.x > 120.0, "{:?}", drive.ego);
    assert!(drive.ego.pose.position.y.abs() < 0.5, "back in its lane: {:?}", drive.ego);
}
