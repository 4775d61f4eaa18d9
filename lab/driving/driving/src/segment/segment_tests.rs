//! Clouds of bodies whose places are known.

use super::*;
use crate::Lidar;
use std::f64::consts::FRAC_PI_2;
use std::ops::ControlFlow;
use world::suite::normal;
use world::{Body, Command, Kind, World};

fn body(id: u32, kind: Kind, pose: Pose, length: f64, width: f64) -> Body {
    Body { id, kind, pose, speed: 0.0, acceleration: 0.0, length, width }
}

fn segment(from: Pose, bodies: &[Body]) -> Vec<Detection> {
    let cloud = Lidar::default().scan(from, bodies, 1);
    Segmenter::default().segment(&cloud, from, &mut || ControlFlow::Continue(())).unwrap()
}

#[test]
fn an_empty_road_has_nothing_on_it() {
    assert_eq!(segment(Pose::new(5.0, 3.0, 1.0), &[]), []);
}

#[test]
fn a_car_is_seen_as_far_away_as_is_safe_behind_it_on_a_fast_road() {
    // At 25 m/s behind one as fast the assumptions of ad-rss ask for 89 m.
    let from = Pose::new(0.0, 0.0, 0.0);
    let car = body(1, Kind::Car, Pose::new(95.0, 0.0, 0.0), 4.5, 1.8);
    let seen = (0..20).filter(|turn| {
        let cloud = Lidar::default().scan(from, &[car], *turn);
        let go = &mut || ControlFlow::Continue(());
        !Segmenter::default().segment(&cloud, from, go).unwrap().is_empty()
    });
    assert!(seen.count() >= 18);
}

#[test]
fn what_moves_is_seen_farther_away_than_what_stands() {
    // At 100 km/h behind one at 90 the assumptions of ad-rss ask for 115 m.
    let from = Pose::new(0.0, 0.0, 0.0);
    let seen = |speed: f64, kind, (length, width), ahead: f64| {
        let pose = Pose::new(ahead, 0.0, 0.0);
        let other = Body { speed, ..body(1, kind, pose, length, width) };
        segment(from, &[other]).len()
    };
    let car = |speed, ahead| seen(speed, Kind::Car, (4.5, 1.8), ahead);
    let lorry = |ahead| seen(0.0, Kind::Truck, (9.0, 2.5), ahead);
    assert_eq!([120.0, 130.0, 140.0].map(|ahead| car(25.0, ahead)), [1; 3]);
    assert_eq!((car(0.0, 130.0), lorry(130.0)), (0, 1));
    assert_eq!(lorry(160.0), 0, "the sensor's range");
}

#[test]
fn visible_bodies_are_the_clusters_and_hidden_ones_are_none() {
    let from = Pose::new(100.0, 50.0, 0.4);
    let at = |ahead: f64, left: f64, turn: f64| Pose {
        position: from.point(ahead, left),
        heading: from.heading + turn,
    };
    let lorry = body(1, Kind::Truck, at(15.0, 0.0, 0.0), 9.0, 2.5);
    let hidden = body(2, Kind::Car, at(30.0, 0.0, 0.0), 4.5, 1.8);
    let visible = [
        lorry,
        body(3, Kind::Car, at(12.0, 4.5, 0.0), 4.5, 1.8),
        body(4, Kind::Car, at(40.0, 25.0, 1.2), 4.5, 1.8),
        body(5, Kind::Pedestrian, at(20.0, -6.0, 0.0), 0.5, 0.5),
        body(6, Kind::Cyclist, at(-20.0, 6.0, 0.0), 1.8, 0.6),
        body(7, Kind::Obstacle, at(-9.0, -4.0, 2.0), 4.2, 1.7),
    ];
    let bodies: Vec<Body> = visible.iter().copied().chain([hidden]).collect();
    let found = segment(from, &bodies);
    let rectangles: Vec<Rectangle> = found.iter().map(|found| found.rectangle).collect();
    assert_eq!(found.len(), visible.len(), "{rectangles:?}");
    for body in visible {
        let around =
            Rectangle { length: body.length + 0.3, width: body.width + 0.3, ..body.footprint() };
        let of: Vec<_> = found
            .iter()
            .filter(|found| {
                found.hull.iter().all(|corner| {
                    let local = around.pose.local(*corner).abs();
                    local.x <= around.length / 2.0 && local.y <= around.width / 2.0
                })
            })
            .collect();
        assert_eq!(of.len(), 1, "{body:?}");
        // The highest row rises by 2°.
        let distance = from.position.distance(body.pose.position) - body.length / 2.0;
        let top = crate::lidar::height(body.kind).min(1.9 + 0.035 * distance);
        assert!((of[0].height - top).abs() < 0.2, "{top} m: {of:?}");
    }
}

#[test]
fn the_rectangle_of_two_seen_sides_has_the_direction_of_the_body() {
    let car = body(1, Kind::Car, Pose::new(12.0, 6.0, 1.2), 4.5, 1.8);
    let found = segment(Pose::default(), &[car]);
    let rectangle = found[0].rectangle;
    let turn = (rectangle.pose.heading - 1.2).rem_euclid(std::f64::consts::PI);
    let turn = turn.min(std::f64::consts::PI - turn);
    assert!(turn < 0.06, "{rectangle:?}");
    assert!((rectangle.length - 4.5).abs() < 0.25, "{rectangle:?}");
    assert!((rectangle.width - 1.8).abs() < 0.25, "{rectangle:?}");
}

#[test]
fn a_slope_is_ground() {
    // A plane that rises by 3 % ahead, with a post of 20 cm by 1 m on it.
    let plane = |x: f64, y: f64| DVec3::new(x, y, -1.9 + 0.03 * x).as_vec3();
    let steps = (-40..40).flat_map(|x| (-40..40).map(move |y| (f64::from(x), f64::from(y))));
    let mut points: Vec<_> = steps.map(|(x, y)| plane(x, y)).collect();
    for side in [4.9, 5.1] {
        points.extend((3..10).map(|up| plane(30.0, side) + glam::Vec3::Z * (up as f32 / 10.0)));
    }
    let cloud = Cloud { points, ..Cloud::default() };
    let found = Segmenter::default()
        .segment(&cloud, Pose::default(), &mut || ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].rectangle.pose.position.distance(DVec2::new(30.0, 5.0)) < 0.01);
}

#[test]
fn it_stops_when_it_is_told_to() {
    let car = |id: u32, y: f64| body(id, Kind::Car, Pose::new(12.0, y, 0.0), 4.5, 1.8);
    let cloud = Lidar::default().scan(Pose::default(), &[car(1, 6.0), car(2, -6.0)], 1);
    let mut left = 1;
    let stopped = Segmenter::default().segment(&cloud, Pose::default(), &mut || {
        left -= 1;
        if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(stopped, Err(Stopped));
}

#[test]
fn who_walks_beside_what_stands_is_told_apart_by_his_speed() {
    let from = Pose::default();
    let parked = body(1, Kind::Obstacle, Pose::new(14.0, -3.0, 0.0), 4.5, 1.8);
    let mut walker = body(2, Kind::Pedestrian, Pose::new(11.55, -2.6, FRAC_PI_2), 0.3, 0.2);
    walker.speed = 1.4;
    let cloud = Lidar::default().scan(from, &[parked, walker], 1);
    let segment = |cloud: &Cloud| {
        let go = &mut || ControlFlow::Continue(());
        Segmenter::default().segment(cloud, from, go).unwrap()
    };
    let found = segment(&cloud);
    let moving: Vec<&Detection> =
        found.iter().filter(|found| found.doppler.is_some_and(|it| it.moves())).collect();
    assert_eq!(moving.len(), 1, "{found:?}");
    assert!(moving[0].rectangle.length < 0.8, "{found:?}");
    let doppler = moving[0].doppler.unwrap();
    let expected = 1.4 * DVec2::Y.dot(doppler.along);
    assert!((doppler.speeds.x - expected).abs() < 0.06, "{doppler:?}");
    let plain = segment(&Cloud { points: cloud.points.clone(), ..Cloud::default() });
    assert!(plain.len() < found.len(), "he is a part of the car: {plain:?}");
    assert!(plain.iter().all(|found| found.doppler.is_none()));
}

#[test]
fn the_end_beside_which_something_nearer_stands_is_hidden() {
    let before = body(1, Kind::Car, Pose::new(10.0, -2.6, 0.0), 4.5, 1.8);
    let behind = body(2, Kind::Obstacle, Pose::new(22.0, -3.5, FRAC_PI_2), 4.5, 1.8);
    let found = segment(Pose::default(), &[before, behind]);
    let hidden: Vec<(bool, bool)> = found.iter().map(|found| found.hidden).collect();
    assert_eq!(hidden, [(false, false), (false, true)], "{found:?}");
}

/// As [`Segmenter::divide`], but each share and each cluster by another thread, the last one first.
fn by_many(cloud: &Cloud, from: Pose) -> Vec<Detection> {
    let segmenter = Segmenter::default();
    let near = on_threads(shares(cloud), |share| segmenter.near(cloud, share));
    let mut ground = Plane::level(&near);
    for _ in 0..FITS {
        let sums = on_threads(near.iter(), |share| ground.sums(share, segmenter.clearance));
        ground = ground.fitted(&sums);
    }
    let standing = on_threads(near.iter(), |share| segmenter.standing(share, &ground));
    let clusters = segmenter.group(&standing);
    let pieces = clusters.pieces();
    let ends = pieces.iter().map(|piece| piece.end);
    let begins = [0].into_iter().chain(ends);
    assert!(pieces.iter().map(|piece| piece.start).eq(begins.take(pieces.len())));
    assert_eq!(pieces.last().map_or(0, |piece| piece.end), clusters.count());
    let go = || ControlFlow::Continue(());
    let found = |piece| segmenter.detections(&clusters, piece, from, &mut { go }).unwrap();
    on_threads(pieces.into_iter(), found).into_iter().flatten().collect()
}

fn on_threads<S: Send, V: Send>(
    shares: impl Iterator<Item = S>,
    work: impl Fn(S) -> V + Sync,
) -> Vec<V> {
    let mut shares: Vec<(usize, S)> = shares.enumerate().collect();
    shares.reverse();
    let mut done: Vec<(usize, V)> = std::thread::scope(|scope| {
        let work = &work;
        let begun: Vec<_> = shares
            .into_iter()
            .map(|(place, share)| scope.spawn(move || (place, work(share))))
            .collect();
        begun.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    done.sort_by_key(|done| done.0);
    done.into_iter().map(|done| done.1).collect()
}

#[test]
fn shares_and_pieces_by_many_give_the_same_to_the_last_bit() {
    for (index, steps) in [(7200, 500), (7204, 900), (7219, 700)] {
        let mut world = World::new(&normal(index)).unwrap();
        (0..steps).for_each(|_| world.step(&Command::default()));
        let from = world.ego().pose();
        let cloud = Lidar::default().scan(from, world.bodies(), 1);
        assert!(shares(&cloud).count() > 3, "a cloud of several shares");
        let whole =
            Segmenter::default().segment(&cloud, from, &mut || ControlFlow::Continue(())).unwrap();
        assert!(whole.len() > 5, "{} objects", whole.len());
        // As text each number has all its digits.
        assert_eq!(format!("{whole:?}"), format!("{:?}", by_many(&cloud, from)), "{index}");
    }
}
