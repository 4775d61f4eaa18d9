use super::*;
use crate::map::tests::two_lanes;
use crate::{Lidar, Segmenter};
use std::ops::ControlFlow;
use world::Body;

fn body(id: u32, kind: Kind, pose: Pose, speed: f64, length: f64, width: f64) -> Body {
    Body { id, kind, pose, speed, acceleration: 0.0, length, width }
}

/// Runs sensor, segmentation and tracking over bodies as functions of time, at 10 Hz.
fn follow(
    tracker: &mut Tracker,
    frames: u32,
    from: impl Fn(f64) -> Pose,
    bodies: impl Fn(f64) -> Vec<Body>,
) -> Vec<Vec<Track>> {
    let map = two_lanes();
    let frame = |frame: u32| {
        let at = f64::from(frame) * 0.1;
        let cloud = Lidar::default().scan(from(at), &bodies(at), u64::from(frame));
        let detections = Segmenter::default()
            .segment(&cloud, from(at), &mut || ControlFlow::Continue(()))
            .unwrap();
        tracker.update(at, from(at), &detections, &map)
    };
    (0..frames).map(frame).collect()
}

/// Distances of the last frame's tracks from bodies: position, m, and velocity, m/s.
fn errors(tracks: &[Track], bodies: &[Body]) -> Vec<(f64, f64)> {
    let told: Vec<_> = tracks.iter().map(|t| (t.id, t.kind, t.pose, t.length, t.seen)).collect();
    assert_eq!(tracks.len(), bodies.len(), "{told:#?}");
    let error = |body: &Body| {
        let distance = |track: &&Track| track.pose.position.distance(body.pose.position);
        let near = |one: &&Track, other: &&Track| distance(one).total_cmp(&distance(other));
        let track = tracks.iter().min_by(near).unwrap();
        let velocity = body.speed * body.pose.forward();
        (distance(&track), track.velocity.distance(velocity))
    };
    bodies.iter().map(error).collect()
}

#[test]
fn tracks_converge_to_where_bodies_are_and_how_fast_they_go() {
    let ego = |at: f64| Pose::new(20.0 + 10.0 * at, 0.0, 0.0);
    let bodies = |at: f64| {
        vec![
            body(1, Kind::Car, Pose::new(45.0 + 12.0 * at, 0.0, 0.0), 12.0, 4.5, 1.8),
            body(2, Kind::Car, Pose::new(25.0 + 8.0 * at, 3.5, 0.0), 8.0, 4.2, 1.8),
            body(3, Kind::Truck, Pose::new(75.0 + 10.0 * at, 3.5, 0.0), 10.0, 9.0, 2.5),
            body(4, Kind::Cyclist, Pose::new(12.0 + 7.0 * at, -3.5, 0.0), 7.0, 1.8, 0.6),
            body(5, Kind::Pedestrian, Pose::new(55.0, -10.0 + 1.4 * at, FRAC_PI_2), 1.4, 0.5, 0.5),
            body(6, Kind::Obstacle, Pose::new(60.0, -5.5, 0.0), 0.0, 4.5, 1.8),
        ]
    };
    let frames = follow(&mut Tracker::default(), 21, ego, bodies);
    let last = frames.last().unwrap();
    for (index, (position, velocity)) in errors(last, &bodies(2.0)).into_iter().enumerate() {
        // Of the lorry only the rear is seen, and lorries are taken to be 10 m long.
        let most = if index == 2 { 0.6 } else { 0.35 };
        assert!(position < most, "body {}: {position} m", index + 1);
        assert!(velocity < 0.5, "body {}: {velocity} m/s", index + 1);
    }
}

#[test]
fn a_braking_car_is_seen_to_brake_within_half_a_second() {
    let ego = |at: f64| Pose::new(10.0 * at, 0.0, 0.0);
    let braking = |at: f64| (at - 1.5).max(0.0);
    let car = |at: f64| {
        let x = 25.0 + 10.0 * at - 3.0 * braking(at).powi(2);
        let speed = 10.0 - 6.0 * braking(at);
        vec![body(1, Kind::Car, Pose::new(x, 0.0, 0.0), speed, 4.5, 1.8)]
    };
    let frames = follow(&mut Tracker::default(), 21, ego, car);
    let (before, after) = (&frames[15][0], &frames[20][0]);
    assert!(before.acceleration.x > -1.0, "{before:?}");
    assert!((after.acceleration.x + 6.0).abs() < 1.5, "{after:?}");
    assert!((after.velocity.x - 7.0).abs() < 0.5, "{after:?}");
}

#[test]
fn an_object_keeps_its_number_while_it_is_hidden_for_a_moment() {
    let ego = |_| Pose::default();
    let car = |at: f64| {
        let seen = !(1.0..1.25).contains(&at);
        let car = body(1, Kind::Car, Pose::new(20.0 + 9.0 * at, 0.0, 0.0), 9.0, 4.5, 1.8);
        if seen { vec![car] } else { Vec::new() }
    };
    let frames = follow(&mut Tracker::default(), 20, ego, car);
    let ids: Vec<u32> = frames.iter().flatten().map(|track| track.id).collect();
    assert_eq!(ids, vec![1; ids.len()]);
    assert_eq!(frames.last().unwrap().len(), 1);
}

#[test]
fn an_object_that_is_gone_is_forgotten() {
    let car = |at: f64| {
        let car = body(1, Kind::Car, Pose::new(20.0, 0.0, 0.0), 0.0, 4.5, 1.8);
        if at < 0.55 { vec![car] } else { Vec::new() }
    };
    let frames = follow(&mut Tracker::default(), 12, |_| Pose::default(), car);
    assert_eq!((frames[8].len(), frames[11].len()), (1, 0));
}

#[test]
fn an_object_is_told_of_in_the_frame_that_confirms_it() {
    let walker = |_| vec![body(1, Kind::Pedestrian, Pose::new(15.0, 2.0, 0.0), 0.0, 0.5, 0.5)];
    for confirm_frames in 1..4 {
        let mut tracker = Tracker { confirm_frames, ..Tracker::default() };
        let frames = follow(&mut tracker, 5, |_| Pose::default(), walker);
        let first = frames.iter().position(|tracks| !tracks.is_empty());
        assert_eq!(first, Some(confirm_frames as usize - 1));
    }
}

#[test]
fn kinds_are_told_by_size() {
    let still = |_: f64| {
        vec![
            body(1, Kind::Car, Pose::new(20.0, 0.0, 0.0), 0.0, 4.5, 1.8),
            body(2, Kind::Truck, Pose::new(20.0, 6.0, 0.3), 0.0, 9.0, 2.5),
            body(3, Kind::Pedestrian, Pose::new(12.0, -6.0, 0.0), 0.0, 0.5, 0.5),
        ]
    };
    let frames = follow(&mut Tracker::default(), 3, |_| Pose::default(), still);
    let mut kinds: Vec<Kind> = frames[2].iter().map(|track| track.kind).collect();
    kinds.sort();
    assert_eq!(kinds, [Kind::Car, Kind::Truck, Kind::Pedestrian]);
}

#[test]
fn a_car_has_its_speed_in_its_first_frame_and_brakes_in_the_next() {
    let ego = |at: f64| Pose::new(10.0 * at, 0.0, 0.0);
    let car = |at: f64| {
        let x = 30.0 + 10.0 * at - 3.0 * at.powi(2);
        vec![body(1, Kind::Car, Pose::new(x, 0.0, 0.0), 10.0 - 6.0 * at, 4.5, 1.8)]
    };
    let frames = follow(&mut Tracker::default(), 2, ego, car);
    let (first, second) = (&frames[0][0], &frames[1][0]);
    assert!((first.velocity.x - 10.0).abs() < 0.1, "{first:?}");
    assert!((second.acceleration.x + 6.0).abs() < 1.5, "{second:?}");
}

#[test]
fn who_is_seen_for_the_first_time_is_uncertain_across_the_line_of_sight_only() {
    let sight = DVec2::new(20.0, -3.0).normalize();
    let walker =
        |_| vec![body(1, Kind::Pedestrian, Pose::new(20.0, -3.0, FRAC_PI_2), 1.4, 0.3, 0.5)];
    let frames = follow(&mut Tracker::default(), 1, |_| Pose::default(), walker);
    let track = &frames[0][0];
    let along = 1.4 * DVec2::Y.dot(sight);
    assert!((track.velocity.dot(sight) - along).abs() < 0.08, "{track:?}");
    assert!(track.uncertainty() > 3.0, "{track:?}");
    assert!(sight.dot(track.doubt * sight) < 0.01, "{track:?}");
    assert!(!track.may_stand(), "{track:?}");
}

#[test]
fn the_far_end_of_a_lorry_does_not_swing_it_round() {
    // A rear that is seen through a gap only.
    let gap = |at: f64| {
        vec![
            body(1, Kind::Truck, Pose::new(60.0 + 10.0 * at, 3.5, 0.0), 10.0, 9.0, 2.5),
            body(2, Kind::Car, Pose::new(25.0 + 10.0 * at, 1.9, 0.0), 10.0, 4.5, 1.8),
        ]
    };
    let ego = |at: f64| Pose::new(10.0 * at, 0.0, 0.0);
    for tracks in follow(&mut Tracker::default(), 25, ego, gap) {
        for track in tracks.iter().filter(|track| track.pose.position.x > 50.0) {
            assert!(track.pose.heading.abs() < 0.2 && track.velocity.y.abs() < 1.5, "{track:?}");
        }
    }
}

#[test]
fn what_is_faster_than_anybody_walks_is_a_vehicle_however_narrow() {
    let bodies = |at: f64| {
        let pose = Pose::new(80.0 - 17.0 * at, 3.5, PI);
        vec![body(1, Kind::Cyclist, pose, 17.0, 2.0, 0.6)]
    };
    let frames = follow(&mut Tracker::default(), 12, |_| Pose::default(), bodies);
    for (frame, tracks) in frames.iter().enumerate() {
        assert!(tracks.len() <= 1, "frame {frame}: {tracks:#?}");
        assert!(tracks.iter().all(|track| track.kind == Kind::Car), "frame {frame}: {tracks:#?}");
    }
}

#[test]
fn an_oncoming_car_that_turns_aside_leaves_no_second_one_behind() {
    // It pulls out to overtake, and turns by 0.3 within half a second.
    let pose = |at: f64| {
        let turn = (at - 0.5).clamp(0.0, 0.5) * 0.6;
        let aside = 16.0 * (at - 0.5).clamp(0.0, 0.5).powi(2) * 0.3
            + 16.0 * 0.3 * (at - 1.0).clamp(0.0, 0.4);
        Pose::new(66.0 - 16.0 * at, 3.5 - aside, PI + turn)
    };
    let bodies = |at: f64| vec![body(1, Kind::Car, pose(at), 16.0, 4.5, 1.8)];
    let frames = follow(&mut Tracker::default(), 14, |_| Pose::default(), bodies);
    for (frame, tracks) in frames.iter().enumerate() {
        assert_eq!(tracks.len(), 1, "frame {frame}: {tracks:#?}");
    }
}
