use super::*;
use crate::map::tests::{straight, two_lanes};
use glam::DMat2;
use std::f64::consts::FRAC_PI_2;
use std::ops::ControlFlow;

fn track(id: u32, kind: Kind, pose: Pose, speed: f64, acceleration: f64) -> Track {
    let (length, width) = if kind == Kind::Pedestrian { (0.5, 0.5) } else { (4.5, 1.8) };
    Track {
        id,
        kind,
        pose,
        velocity: speed * pose.forward(),
        acceleration: acceleration * pose.forward(),
        doubt: DMat2::ZERO,
        length,
        width,
        seen: 10,
        at: 0.0,
    }
}

fn around(road: Road) -> Surroundings {
    let go = &mut || ControlFlow::Continue(());
    Surroundings::around(&Arc::new(road), Pose::new(50.0, 0.0, 0.0), 3, go).unwrap()
}

fn predict(scene: &[Track], road: Road) -> Vec<Prediction> {
    let order: Vec<usize> = (0..scene.len()).collect();
    let go = &mut || ControlFlow::Continue(());
    Predictor::default().predict(0.0, scene, &order, &around(road), go).unwrap()
}

fn probability(prediction: &Prediction, intent: Intent) -> f64 {
    let of = prediction.hypotheses.iter().filter(|hypothesis| hypothesis.intent == intent);
    of.map(|hypothesis| hypothesis.probability).sum()
}

#[test]
fn a_braking_car_is_predicted_to_stop_where_it_will() {
    let car = track(1, Kind::Car, Pose::new(50.0, 0.0, 0.0), 12.0, -6.0);
    let found = &predict(&[car], two_lanes())[0];
    let likely = &found.hypotheses[0];
    assert_eq!(likely.intent, Intent::Brake);
    assert!(likely.probability > 0.5, "{}", likely.probability);
    // v²/2b = 12 m, reached after 2 s.
    let end = likely.states[30];
    assert!((end.pose.position.x - 62.0).abs() < 0.2, "{end:?}");
    assert_eq!(end.speed, 0.0);
    let half = likely.states[10];
    assert!((half.pose.position.x - 59.0).abs() < 0.2, "{half:?}");
}

#[test]
fn a_pedestrian_who_crosses_is_predicted_to_go_on() {
    let walker = track(1, Kind::Pedestrian, Pose::new(60.0, -4.0, FRAC_PI_2), 1.4, 0.0);
    let found = &predict(&[walker], two_lanes())[0];
    assert_eq!(found.hypotheses[0].intent, Intent::Keep);
    let after = found.hypotheses[0].states[30].pose.position;
    assert!(after.distance(DVec2::new(60.0, 0.2)) < 1e-6, "{after}");
    assert!((probability(found, Intent::Stop) - 0.2).abs() < 1e-6);
}

/// Track of somebody whose velocity is known from one frame with radial speeds, seen from the
/// middle of the lane `away` m before him.
fn glimpsed(walker: &Track, velocity: DVec2, away: f64) -> Track {
    let sight = (walker.pose.position - DVec2::new(60.0 - away, 0.0)).normalize();
    let (along, across) = (0.02 * 0.02, 4.0 * 4.0);
    let outer = |way: DVec2| DMat2::from_cols(way * way.x, way * way.y);
    let doubt = outer(sight) * along + outer(sight.perp()) * across;
    Track { velocity: velocity.dot(sight) * sight, doubt, seen: 1, ..walker.clone() }
}

#[test]
fn who_is_glimpsed_at_the_kerb_crosses_if_his_radial_speed_says_so() {
    let walker = track(1, Kind::Pedestrian, Pose::new(60.0, -3.0, FRAC_PI_2), 0.0, 0.0);
    let crosses = |velocity: DVec2| {
        let glimpsed = glimpsed(&walker, velocity, 20.0);
        probability(&predict(&[glimpsed], two_lanes())[0], Intent::Cross)
    };
    assert!(crosses(1.4 * DVec2::Y) > 0.8);
    assert!(crosses(DVec2::ZERO) < 0.05, "he stands");
    assert!(crosses(1.4 * DVec2::X) < 0.05, "he walks along the road");
    // With nothing measured he may do anything.
    let unknown = Track { doubt: DMat2::from_diagonal(DVec2::splat(16.0)), ..walker.clone() };
    let may = probability(&predict(&[unknown], two_lanes())[0], Intent::Cross);
    assert!((0.1..0.5).contains(&may), "{may}");
    let known = probability(&predict(&[walker], two_lanes())[0], Intent::Cross);
    assert!((0.01..0.1).contains(&known), "{known}");
}

#[test]
fn a_car_glimpsed_in_a_crossing_lane_drives_along_it() {
    let across = straight((60.0, -100.0), (60.0, 100.0));
    let road = Road::new(vec![straight((0.0, 0.0), (200.0, 0.0)), across]).unwrap();
    let car = track(1, Kind::Car, Pose::new(60.0, -8.0, 0.0), 0.0, 0.0);
    let found = &predict(&[glimpsed(&car, 9.0 * DVec2::Y, 20.0)], road)[0];
    let reaches =
        |one: &&Hypothesis| one.states[10].pose.position.distance(DVec2::new(60.0, 1.0)) < 1.5;
    let crossing: f64 = found.hypotheses.iter().filter(reaches).map(|one| one.probability).sum();
    assert!(crossing > 0.5, "{found:?}");
}

#[test]
fn who_swings_out_of_the_only_lane_of_his_direction_leaves_it() {
    let road = Road::new(vec![straight((0.0, 0.0), (400.0, 0.0))]).unwrap();
    let mut car = track(1, Kind::Car, Pose::new(50.0, 0.2, 0.0), 12.0, 0.0);
    assert!(probability(&predict(&[car.clone()], road.clone())[0], Intent::Leave) < 0.05);
    car.velocity.y = 1.0;
    car.acceleration.y = 1.5;
    let found = &predict(&[car], road)[0];
    assert!(probability(found, Intent::Leave) > 0.3, "{found:?}");
}

#[test]
fn a_car_that_moves_over_is_predicted_to_change_its_lane() {
    let mut car = track(1, Kind::Car, Pose::new(50.0, 0.9, 0.0), 12.0, 0.0);
    car.velocity.y = 1.2;
    let found = &predict(&[car.clone()], two_lanes())[0];
    assert_eq!(found.hypotheses[0].intent, Intent::Left);
    let end = found.hypotheses[0].states[40].pose;
    assert!((end.position.y - 3.5).abs() < 0.05 && end.heading.abs() < 0.02, "{end:?}");
    car.pose.position.y = 0.0;
    car.velocity.y = 0.0;
    let found = &predict(&[car], two_lanes())[0];
    assert_eq!(found.hypotheses[0].intent, Intent::Keep);
    assert!(probability(found, Intent::Left) < 0.05, "{found:?}");
}

#[test]
fn a_car_is_predicted_to_slow_down_behind_a_slower_one_and_not_to_hit_it() {
    let fast = track(1, Kind::Car, Pose::new(20.0, 0.0, 0.0), 13.0, 0.0);
    let slow = track(2, Kind::Car, Pose::new(50.0, 0.0, 0.0), 6.0, 0.0);
    let found = predict(&[fast, slow], two_lanes());
    let keep = found[0].hypotheses.iter().find(|one| one.intent == Intent::Keep).unwrap();
    for (step, state) in keep.states.iter().enumerate() {
        let lead = 50.0 + 6.0 * step as f64 * 0.1;
        assert!(lead - state.pose.position.x > 4.5, "step {step}: {state:?}");
    }
    assert!(keep.states[80].speed < 8.0, "{:?}", keep.states[80]);
}

#[test]
fn each_way_through_a_junction_is_a_hypothesis() {
    let mut from = straight((0.0, 0.0), (50.0, 0.0));
    from.next = vec![LaneId(1), LaneId(2)];
    let lanes =
        vec![from, straight((50.0, 0.0), (50.0, 90.0)), straight((50.0, 0.0), (150.0, 0.0))];
    let road = Road::new(lanes).unwrap();
    let car = track(1, Kind::Car, Pose::new(30.0, 0.0, 0.0), 10.0, 0.0);
    let found = &predict(&[car], road)[0];
    let keeps = found.hypotheses.iter().filter(|one| one.intent == Intent::Keep);
    let ends: Vec<DVec2> = keeps.map(|one| one.states[80].pose.position).collect();
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().any(|end| end.y > 50.0) && ends.iter().any(|end| end.x > 100.0));
    let total: f64 = found.hypotheses.iter().map(|one| one.probability).sum();
    assert!((total - 1.0).abs() < 1e-9, "{total}");
}

#[test]
fn it_stops_between_two_objects_and_keeps_the_order() {
    let car = |id, x| track(id, Kind::Car, Pose::new(x, 0.0, 0.0), 10.0, 0.0);
    let scene = [car(0, 0.0), car(1, 60.0), car(2, 30.0), car(3, 90.0)];
    let order = by_urgency(&scene, |track| track.pose.position.x);
    assert_eq!(order, [2, 1, 3]);
    let around = around(two_lanes());
    let mut asked = 0;
    let found = Predictor::default().predict(0.0, &scene, &order, &around, &mut || {
        asked += 1;
        ControlFlow::Continue(())
    });
    let ids: Vec<u32> = found.unwrap().iter().map(|found| found.id).collect();
    assert_eq!((ids, asked), (vec![2, 1, 3], 3));
    let stop = &mut || ControlFlow::Break(());
    let stopped = Predictor::default().predict(0.0, &scene, &order, &around, stop);
    assert_eq!(stopped, Err(Stopped));
}

#[test]
fn who_sets_out_from_near_the_middle_of_his_lane_is_not_taken_for_one_who_swings_in() {
    let sets_out = |left: f64| {
        let pose = Pose::new(50.0, left, 0.0);
        let velocity = DVec2::new(8.0, -0.8);
        let car = Track { velocity, ..track(1, Kind::Car, pose, 8.0, 0.0) };
        probability(&predict(&[car], two_lanes())[0], Intent::Right)
    };
    // In the left lane, whose middle is at 3.5 m.
    assert!(sets_out(3.6) > 0.1, "{}", sets_out(3.6));
    assert!(sets_out(4.3) < 0.05, "{}", sets_out(4.3));
}

#[test]
fn who_drives_where_others_come_towards_him_may_stay_there_or_go_back() {
    // To the west, in a lane to the east.
    let road = crate::map::tests::two_ways();
    let heading = std::f64::consts::PI + 0.3;
    let car = track(1, Kind::Car, Pose::new(80.0, 0.5, heading), 12.0, 0.0);
    let found = &predict(&[car], road)[0];
    let ends: Vec<f64> =
        found.hypotheses.iter().map(|one| one.states[30].pose.position.y).collect();
    let near = |left: f64| ends.iter().any(|end| (end - left).abs() < 0.3);
    assert!(near(0.5) && near(3.5), "{ends:?}");
    assert!(ends.iter().any(|end| *end < -4.0), "straight on: {ends:?}");
    let parked = track(1, Kind::Car, Pose::new(80.0, -3.0, 0.0), 0.4, 0.0);
    assert_eq!(predict(&[parked], crate::map::tests::two_ways())[0].hypotheses.len(), 1);
}

#[test]
fn who_is_as_fast_as_expected_as_far_as_is_known_is_seen_where_he_was_expected() {
    let predictor = Predictor::default();
    let around = Arc::new(around(two_lanes()));
    let car = |speed: f64| track(1, Kind::Car, Pose::new(50.0, 0.0, 0.0), speed, 0.0);
    let before = predictor.crowd(vec![car(10.0)], &around, None);
    let go = &mut || ControlFlow::Continue(());
    let expected = predictor.expect(&before, &around, 0.0, go).unwrap();
    // Difference in speed, and its uncertainty along the road and across, m/s.
    let there = |faster: f64, along: f64, across: f64| {
        let doubt = DMat2::from_diagonal(DVec2::new(along * along, across * across));
        let now = Track { doubt, ..car(10.0 + faster) };
        let crowd = predictor.crowd(vec![now], &around, Some(&expected));
        Arc::ptr_eq(&crowd.others[0], &expected.others[0])
    };
    assert!(there(0.29, 0.0, 0.0));
    assert!(!there(0.31, 0.0, 0.0) && !there(0.31, 0.0, 5.0));
    assert!(there(0.49, 0.5, 0.0) && there(-0.49, 0.5, 0.0));
    assert!(!there(0.51, 0.5, 5.0));
}

#[test]
fn the_nearest_few_are_taken_notice_of_in_the_order_of_their_distance() {
    let predictor = Predictor { neighbours: 3, ..Predictor::default() };
    let at = |x: f64| track(1, Kind::Car, Pose::new(x, 0.0, 0.0), 10.0, 0.0);
    let scene = [at(40.0), at(0.0), at(7.0), at(-3.0), at(3.0), at(-50.0)];
    // Two are as far away: the first of them comes first.
    assert_eq!(predictor.nearest(&scene, 1), [3, 4, 2]);
    assert_eq!(predictor.nearest(&scene[..2], 0), [1]);
    assert!(predictor.nearest(&scene[..1], 0).is_empty());
}
