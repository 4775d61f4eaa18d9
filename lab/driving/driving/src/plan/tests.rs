use super::*;
use crate::predict::{Hypothesis, Intent, State, Surroundings};
use crate::{Predictor, Track};
use glam::{DMat2, DVec2};
use std::f64::consts::FRAC_PI_2;
use std::ops::ControlFlow;
use std::slice::from_ref;
use world::{Kind, Rectangle};

mod keep_tests;
mod search;

const LENGTH: f64 = 4.5;
const WIDTH: f64 = 1.8;

fn straight() -> Line {
    Line::new([DVec2::ZERO, DVec2::new(500.0, 0.0)]).unwrap()
}

fn go() -> impl FnMut() -> ControlFlow<()> {
    || ControlFlow::Continue(())
}

/// Somebody who goes on straight with one speed, or brakes.
fn moving(id: u32, kind: Kind, pose: Pose, speed: f64, acceleration: f64) -> Prediction {
    let state = |step: u32| {
        let after = f64::from(step) * 0.1;
        let until = if acceleration < 0.0 { (-speed / acceleration).min(after) } else { after };
        let driven = speed * until + acceleration * until * until / 2.0;
        let position = pose.position + driven * pose.forward();
        State { pose: Pose { position, ..pose }, speed: speed + acceleration * until }
    };
    let states = (0..=80).map(state).collect();
    let hypotheses = vec![Hypothesis { intent: Intent::Keep, probability: 1.0, states }];
    let (length, width) = if kind == Kind::Pedestrian { (0.5, 0.5) } else { (LENGTH, WIDTH) };
    Prediction { id, kind, length, width, at: 0.0, step: 0.1, hypotheses }
}

fn plan(planner: &Planner, speed: f64, lanes: &[f64], predictions: &[Prediction]) -> Trajectory {
    let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed, ..Ego::default() };
    respond(planner, ego, false, lanes, predictions)
}

/// Speed after 2 s of an ego that stands 3.3 m before somebody who stands near its lane, and has
/// stood for so long.
fn sets_out(stood: f64) -> f64 {
    let stands = at_kerb((1, Kind::Pedestrian, 3.3, -2.2));
    let (line, pose) = (straight(), Pose::new(50.0, 0.0, 0.0));
    let ego = Ego { pose, speed: 0.0, ..Ego::default() };
    let situation = Situation {
        at: 0.0,
        ego,
        length: LENGTH,
        width: WIDTH,
        reference: &line,
        limit: 13.9,
        lanes: &[0.0],
        predictions: from_ref(&stands),
        danger: false,
        holds: false,
        stood,
    };
    Planner::default().plan(&situation, &mut go()).unwrap().state(2.0).speed
}

fn respond(
    planner: &Planner,
    ego: Ego,
    danger: bool,
    lanes: &[f64],
    predictions: &[Prediction],
) -> Trajectory {
    let line = straight();
    let situation = Situation {
        at: 0.0,
        ego,
        length: LENGTH,
        width: WIDTH,
        reference: &line,
        limit: 13.9,
        lanes,
        predictions,
        danger,
        holds: false,
        stood: 0.0,
    };
    planner.plan(&situation, &mut go()).unwrap()
}

/// The first time at which the trajectory hits what a probable hypothesis says, s.
fn hit(trajectory: &Trajectory, predictions: &[Prediction]) -> Option<f64> {
    let meets = |point: &&Point| {
        let ego = Rectangle { pose: point.pose, length: LENGTH, width: WIDTH };
        predictions.iter().any(|other| {
            let probable = other.hypotheses.iter().filter(|one| one.probability >= 0.1);
            let mut at = probable.map(|one| other.footprint(one, point.after));
            at.any(|footprint| ego.overlaps(&footprint))
        })
    };
    trajectory.points.iter().find(meets).map(|point| point.after)
}

/// Somebody who stands so far ahead of x = 50 and to the left, and looks across; on foot, he may cross.
fn at_kerb((id, kind, ahead, left): (u32, Kind, f64, f64)) -> Prediction {
    let at = Pose::new(50.0 + ahead, left, FRAC_PI_2);
    let mut stands = moving(id, kind, at, 0.0, 0.0);
    if kind == Kind::Pedestrian {
        let crosses = moving(id, kind, at, 1.4, 0.0).hypotheses.into_iter();
        (stands.length, stands.width) = (0.5, 0.7);
        stands.hypotheses[0].probability = 0.94;
        stands.hypotheses.extend(crosses.map(|one| Hypothesis { probability: 0.06, ..one }));
    } else {
        (stands.length, stands.width) = (1.8, 0.6);
    }
    stands
}

fn both() -> [Planner; 2] {
    [Planner::default(), Planner::default().fast(30.0, 3.0)]
}

fn last(trajectory: &Trajectory) -> Point {
    trajectory.points[trajectory.points.len() - 1]
}

#[test]
fn on_a_free_road_it_drives_at_the_limit_in_its_lane() {
    let found = plan(&Planner::default(), 10.0, &[0.0], &[]);
    assert!(found.free);
    assert!((last(&found).speed - 13.9).abs() < 0.1, "{:?}", last(&found));
    assert!(found.points.iter().all(|point| point.pose.position.y.abs() < 0.05));
    assert!(found.points.iter().all(|point| point.acceleration <= 2.5));
}

#[test]
fn it_stops_before_what_blocks_its_only_lane() {
    let wall = moving(1, Kind::Obstacle, Pose::new(100.0, 0.0, 0.0), 0.0, 0.0);
    let found = plan(&Planner::default(), 12.0, &[0.0], from_ref(&wall));
    assert!(found.free);
    assert_eq!(hit(&found, from_ref(&wall)), None);
    assert!(last(&found).speed < 3.0, "{:?}", last(&found));
}

#[test]
fn it_goes_round_what_stands_at_the_edge_of_its_lane() {
    let parked = moving(1, Kind::Obstacle, Pose::new(90.0, -2.0, 0.0), 0.0, 0.0);
    let found = plan(&Planner::default(), 12.0, &[0.0], from_ref(&parked));
    assert!(found.free);
    assert_eq!(hit(&found, from_ref(&parked)), None);
    let beside = found.points.iter().find(|point| point.pose.position.x > 88.0).unwrap();
    assert!(beside.pose.position.y > 0.15 && beside.speed > 5.0, "{beside:?}");
}

#[test]
fn it_changes_lanes_round_what_stands_if_there_is_another_one() {
    let wall = moving(1, Kind::Obstacle, Pose::new(110.0, 0.0, 0.0), 0.0, 0.0);
    let found = plan(&Planner::default(), 12.0, &[0.0, 3.5], from_ref(&wall));
    assert!(found.free);
    assert_eq!(hit(&found, from_ref(&wall)), None);
    assert!(last(&found).pose.position.x > 120.0, "{:?}", last(&found));
}

#[test]
fn it_follows_a_slower_car() {
    let slow = moving(1, Kind::Car, Pose::new(80.0, 0.0, 0.0), 7.0, 0.0);
    let found = plan(&Planner::default(), 12.0, &[0.0], from_ref(&slow));
    assert!(found.free);
    assert_eq!(hit(&found, from_ref(&slow)), None);
    // It may fall back, to be as far behind as is safe.
    assert!((4.0..8.5).contains(&last(&found).speed), "{:?}", last(&found));
}

#[test]
fn it_brakes_for_somebody_who_crosses() {
    let walker = moving(1, Kind::Pedestrian, Pose::new(80.0, -4.0, FRAC_PI_2), 1.4, 0.0);
    let found = plan(&Planner::default(), 13.0, &[0.0], from_ref(&walker));
    assert!(found.free);
    assert_eq!(hit(&found, from_ref(&walker)), None);
    assert!(found.state(1.5).speed < 11.0, "{:?}", found.state(1.5));
    let alone = plan(&Planner::default(), 13.0, &[0.0], &[]);
    assert!(alone.state(1.5).speed >= 13.0);
}

#[test]
fn a_short_horizon_brakes_for_what_it_could_not_brake_for_later() {
    // A wall 46 m ahead is farther than 30 m and 2 s, but not than the way to a standstill.
    let wall = moving(1, Kind::Obstacle, Pose::new(96.0, 0.0, 0.0), 0.0, 0.0);
    let short = Planner::default().fast(30.0, 2.0);
    let mut ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 13.9, ..Ego::default() };
    let line = straight();
    for frame in 0..80 {
        let situation = Situation {
            at: f64::from(frame) * 0.1,
            ego,
            length: LENGTH,
            width: WIDTH,
            reference: &line,
            limit: 13.9,
            lanes: &[0.0],
            predictions: from_ref(&wall),
            danger: false,
            holds: false,
            stood: 0.0,
        };
        let next = short.plan(&situation, &mut go()).unwrap().points[1];
        let (speed, acceleration) = (next.speed, next.acceleration);
        ego = Ego { pose: next.pose, speed, acceleration, curvature: next.curvature };
        let footprint = Rectangle { pose: ego.pose, length: LENGTH, width: WIDTH };
        assert!(!footprint.overlaps(&wall.footprint(&wall.hypotheses[0], 0.0)), "frame {frame}");
    }
    assert!(ego.speed < 0.5, "{ego:?}");
}

#[test]
fn if_every_candidate_hits_something_it_brakes_as_hard_as_it_can() {
    let wall = moving(1, Kind::Truck, Pose::new(58.0, 0.0, FRAC_PI_2), 0.0, 0.0);
    let found = plan(&Planner::default(), 13.0, &[0.0], &[wall]);
    assert!(!found.free);
    assert_eq!(found.points[1].acceleration, -8.0);
    assert_eq!(last(&found).speed, 0.0);
}

#[test]
fn in_danger_it_brakes_and_neither_swerves_nor_hurries_past() {
    // Somebody at the edge of its lane: to stop at 4 m/s² it is too late, there is room beside.
    let stands = moving(1, Kind::Pedestrian, Pose::new(66.0, -1.4, FRAC_PI_2), 0.0, 0.0);
    let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 12.0, ..Ego::default() };
    let safe = respond(&Planner::default(), ego, false, &[0.0], from_ref(&stands));
    assert!(safe.free && last(&safe).pose.position.x > 70.0, "{:?}", last(&safe));
    let danger = respond(&Planner::default(), ego, true, &[0.0], from_ref(&stands));
    assert_eq!((danger.free, danger.points[1].acceleration), (false, -8.0));
    assert!(last(&danger).pose.position.x < 66.0, "{:?}", last(&danger));
    let far = moving(1, Kind::Pedestrian, Pose::new(90.0, -1.4, FRAC_PI_2), 0.0, 0.0);
    let eased = respond(&Planner::default(), ego, true, &[0.0], from_ref(&far));
    assert!(eased.free && eased.points[1].acceleration > -4.1, "{:?}", eased.points[1]);
}

#[test]
fn an_emergency_brake_is_held_until_half_of_it_does() {
    let slow = |x: f64| moving(1, Kind::Car, Pose::new(x, 0.0, 0.0), 4.0, 0.0);
    let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 13.0, ..Ego::default() };
    let brakes = Ego { acceleration: -7.0, ..ego };
    // From 13 to 4 m/s: 20 m more than the other at 2 m/s², 10 m at 4 m/s².
    let lanes = [0.0];
    let begins = respond(&Planner::default(), ego, true, &lanes, &[slow(70.0)]);
    assert!(begins.points[1].acceleration > -7.9, "{:?}", begins.points[1]);
    let holds = respond(&Planner::default(), brakes, true, &lanes, &[slow(70.0)]);
    assert_eq!(holds.points[1].acceleration, -8.0);
    let ends = respond(&Planner::default(), brakes, true, &lanes, &[slow(82.0)]);
    assert!(ends.free && ends.points[1].acceleration > -7.9, "{:?}", ends.points[1]);
}

#[test]
fn a_brake_that_has_just_begun_is_not_let_go_while_there_is_danger() {
    let line = straight();
    let held = |danger, holds| {
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 10.0, ..Ego::default() };
        let situation = Situation {
            at: 0.0,
            ego,
            length: LENGTH,
            width: WIDTH,
            reference: &line,
            limit: 13.9,
            lanes: &[0.0],
            predictions: &[],
            danger,
            holds,
            stood: 0.0,
        };
        let planner = Planner::default();
        let found = planner.plan(&situation, &mut go()).unwrap();
        planner.brakes_hardest(&found)
    };
    assert!(held(true, true));
    assert!(!held(false, true) && !held(true, false));
}

#[test]
fn it_is_not_the_one_to_brake_for_who_is_behind() {
    let passes = moving(1, Kind::Truck, Pose::new(30.0, 3.5, -0.1), 14.0, 0.0);
    let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 10.0, ..Ego::default() };
    let alone = respond(&Planner::default(), ego, false, &[0.0], from_ref(&passes));
    let danger = respond(&Planner::default(), ego, true, &[0.0], from_ref(&passes));
    assert_eq!(alone, danger);
}

#[test]
fn who_comes_towards_it_far_away_is_no_reason_for_an_emergency_brake() {
    let comes = |x: f64| moving(1, Kind::Car, Pose::new(x, 0.0, std::f64::consts::PI), 9.0, 0.0);
    let far = plan(&Planner::default(), 9.0, &[0.0], &[comes(100.0)]);
    assert!(far.free && far.points[1].acceleration > -4.1, "{:?}", far.points[1]);
    let near = plan(&Planner::default(), 9.0, &[0.0], &[comes(78.0)]);
    assert_eq!(near.points[1].acceleration, -8.0);
}

/// Numbers between two others that come in the same order each time.
fn random(mut seed: u64) -> impl FnMut(f64, f64) -> f64 {
    move |low, high| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        low + (seed >> 40) as f64 / (1_u64 << 24) as f64 * (high - low)
    }
}

/// Predictions of six who drive or walk ahead of the ego, on a road of two lanes.
fn traffic(random: &mut impl FnMut(f64, f64) -> f64) -> Vec<Prediction> {
    let track = |id: u32| {
        let walks = random(0.0, 1.0) < 0.3;
        let (kind, size) =
            if walks { (Kind::Pedestrian, (0.5, 0.5)) } else { (Kind::Car, (4.5, 1.8)) };
        let lane = if random(0.0, 1.0) < 0.5 { 0.0 } else { 3.5 };
        let left = if walks { random(-6.0, 8.0) } else { lane + random(-0.4, 0.4) };
        let heading = if walks { random(-3.0, 3.0) } else { 0.0 };
        let pose = Pose::new(random(60.0, 130.0), left, heading);
        let speed = if walks { random(0.0, 2.0) } else { random(0.0, 14.0) };
        Track {
            id,
            kind,
            pose,
            velocity: speed * pose.forward(),
            acceleration: random(-4.0, 1.0) * pose.forward(),
            doubt: DMat2::ZERO,
            length: size.0,
            width: size.1,
            seen: 9,
            at: 0.0,
        }
    };
    let scene: Vec<Track> = (1..7).map(track).collect();
    let order: Vec<usize> = (0..scene.len()).collect();
    let road = std::sync::Arc::new(crate::map::tests::two_lanes());
    let around = Surroundings::around(&road, Pose::new(50.0, 0.0, 0.0), 3, &mut go()).unwrap();
    Predictor::default().predict(0.0, &scene, &order, &around, &mut go()).unwrap()
}

#[test]
fn what_is_free_hits_nothing_that_was_predicted_in_random_traffic() {
    let mut random = random(3);
    let mut free = 0;
    for _ in 0..40 {
        let predictions = traffic(&mut random);
        let speed = random(2.0, 13.0);
        let found = plan(&Planner::default(), speed, &[0.0, 3.5], &predictions);
        if found.free {
            free += 1;
            assert_eq!(hit(&found, &predictions), None, "{predictions:#?}");
        }
    }
    assert!(free > 25, "{free} of 40");
}

#[test]
fn it_stops_between_two_batches() {
    let line = straight();
    let situation = Situation {
        at: 0.0,
        ego: Ego { speed: 10.0, ..Ego::default() },
        length: LENGTH,
        width: WIDTH,
        reference: &line,
        limit: 13.9,
        lanes: &[0.0],
        predictions: &[],
        danger: false,
        holds: false,
        stood: 0.0,
    };
    let count = |planner: Planner, most: u32| {
        let mut asked = 0;
        let planned = planner.plan(&situation, &mut || {
            asked += 1;
            if asked > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (planned.is_ok(), asked)
    };
    assert_eq!(count(Planner::default(), 3), (false, 4));
    let (whole, all) = count(Planner::default(), u32::MAX);
    let (fast, few) = count(Planner::default().fast(30.0, 2.0), u32::MAX);
    assert!(whole && fast && all > 5 * few, "{all} and {few} batches");
}

#[test]
fn it_sets_out_past_those_who_stand_at_the_kerb() {
    let people = [
        (1, Kind::Pedestrian, 6.7, -2.37),
        (2, Kind::Cyclist, 12.8, -2.85),
        (3, Kind::Pedestrian, 26.8, -2.53),
    ];
    let people = people.map(at_kerb);
    for planner in both() {
        let found = plan(&planner, 0.0, &[0.0], &people);
        assert!(found.state(2.0).speed > 1.0, "{:?}", found.state(2.0));
    }
}

#[test]
fn who_has_let_somebody_cross_for_long_enough_drives_on() {
    assert_eq!(sets_out(0.0), 0.0);
    assert!(sets_out(10.0) > 2.0);
}
