//! The distances that it keeps, judged by the crate `rss`.

use super::*;
use rss::{Along, Direction, Preset};

/// The least safe gap behind somebody, m.
fn safe(ego_speed: f64, other_speed: f64) -> f64 {
    let along = Along { direction: Direction::Ahead, gap: 0.0, ego_speed, other_speed };
    Preset::AD_RSS.model().distance_along(&along).unwrap()
}

/// One moment of a drive behind somebody.
#[derive(Debug)]
struct Moment {
    gap: f64,
    safe: f64,
    acceleration: f64,
}

/// Plans ten times a second and does what is planned, behind a car that is `gap` m ahead of it on
/// `line` and drives at `speed`.
fn follow(planner: &Planner, line: &Line, ego_speed: f64, gap: f64, speed: f64) -> Vec<Moment> {
    let pose = line.pose(50.0);
    let mut ego = Ego { pose, speed: ego_speed, ..Ego::default() };
    let mut drive = Vec::new();
    for frame in 0..100 {
        let at = f64::from(frame) * 0.1;
        let state = |step: u32| {
            let along = 50.0 + LENGTH + gap + speed * (at + 0.1 * f64::from(step));
            State { pose: line.pose(along), speed }
        };
        let states: Vec<State> = (0..=80).map(state).collect();
        let along = |pose: Pose| line.offset(pose.position).along;
        let gap = along(states[0].pose) - along(ego.pose) - LENGTH;
        let hypotheses = vec![Hypothesis { intent: Intent::Keep, probability: 1.0, states }];
        let (id, kind, length, width) = (1, Kind::Car, LENGTH, WIDTH);
        let car = Prediction { id, kind, length, width, at, step: 0.1, hypotheses };
        let situation = Situation {
            at,
            ego,
            length: LENGTH,
            width: WIDTH,
            reference: line,
            limit: 20.0,
            lanes: &[0.0],
            predictions: from_ref(&car),
            danger: false,
            holds: false,
            stood: 0.0,
        };
        let next = planner.plan(&situation, &mut go()).unwrap().points[1];
        let (ahead, speed, acceleration) = (speed, next.speed, next.acceleration);
        drive.push(Moment { gap, safe: safe(ego.speed, ahead), acceleration });
        ego = Ego { pose: next.pose, speed, acceleration, curvature: next.curvature };
    }
    drive
}

#[test]
fn behind_a_car_it_keeps_a_little_more_than_the_safe_distance() {
    for planner in both() {
        let drive = follow(&planner, &straight(), 12.0, 50.0, 12.0);
        assert!(drive.iter().all(|now| now.gap > now.safe), "{drive:?}");
        let last = &drive[99];
        assert!((0.5..12.0).contains(&(last.gap - last.safe)), "{last:?}");
    }
}

#[test]
fn too_near_it_brakes_by_what_rss_assumes_until_it_is_safe() {
    for planner in both() {
        let drive = follow(&planner, &straight(), 12.0, 18.0, 12.0);
        let unsafe_for = drive.iter().take_while(|now| now.gap <= now.safe).count();
        assert!((1..=16).contains(&unsafe_for), "{unsafe_for} tenths of a second");
        assert!(drive[unsafe_for..].iter().all(|now| now.gap > now.safe), "{drive:?}");
        let most = drive.iter().map(|now| -now.acceleration).fold(0.0, f64::max);
        assert!((2.0..4.1).contains(&most), "{most} m/s²");
    }
}

#[test]
fn in_a_curve_it_keeps_its_distance_along_the_curve() {
    let angle = |step: u32| f64::from(step) * 0.02;
    let bend = (0..300).map(|step| 60.0 * DVec2::new(angle(step).sin(), 1.0 - angle(step).cos()));
    let line = Line::new(bend).unwrap();
    let drive = follow(&Planner::default(), &line, 9.0, 26.0, 9.0);
    assert!(drive[0].gap > drive[0].safe);
    assert!(drive.iter().all(|now| now.gap > now.safe), "{drive:?}");
}

#[test]
fn behind_a_car_that_stands_it_stands_as_far_away_as_is_safe() {
    for planner in both() {
        let drive = follow(&planner, &straight(), 10.0, 50.0, 0.0);
        assert!(drive.iter().all(|now| now.gap > now.safe), "{drive:?}");
        assert!(drive[99].gap < 10.0, "{:?}", drive[99]);
    }
}

#[test]
fn it_does_not_change_lanes_too_near_to_somebody_ahead_or_behind() {
    let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 12.0, ..Ego::default() };
    let stands = moving(1, Kind::Truck, Pose::new(105.0, 0.0, 0.0), 0.0, 0.0);
    let changes = |x: f64| {
        let beside = moving(2, Kind::Car, Pose::new(x, 3.5, 0.0), 12.0, 0.0);
        let predictions = [stands.clone(), beside];
        let found = respond(&Planner::default(), ego, false, &[0.0, 3.5], &predictions);
        last(&found).pose.position.y > 1.75
    };
    // As fast as it is: nobody hits it, but 35 m are safe.
    assert!(changes(120.0) && changes(-40.0), "there is room");
    assert!(!changes(70.0), "too near behind somebody");
    assert!(!changes(10.0), "too near before somebody");
}

#[test]
fn a_short_plan_is_as_fast_as_a_usual_one() {
    let speeds = both().map(|planner| {
        let line = straight();
        let mut ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 8.0, ..Ego::default() };
        for frame in 0..50 {
            let situation = Situation {
                at: f64::from(frame) * 0.1,
                ego,
                length: LENGTH,
                width: WIDTH,
                reference: &line,
                limit: 20.0,
                lanes: &[0.0],
                predictions: &[],
                danger: false,
                holds: false,
                stood: 0.0,
            };
            let next = planner.plan(&situation, &mut go()).unwrap().points[1];
            let (speed, acceleration) = (next.speed, next.acceleration);
            ego = Ego { pose: next.pose, speed, acceleration, curvature: next.curvature };
        }
        ego.speed
    });
    assert!(speeds[0] > 14.0 && speeds[1] > 0.95 * speeds[0], "{speeds:?} m/s");
}

#[test]
fn who_stands_with_turned_wheels_drives_off() {
    let ego = Ego { pose: Pose::new(50.0, 0.1, 0.0), curvature: -0.2, ..Ego::default() };
    let parked = |id: u32| {
        let x = 53.0 + 7.0 * f64::from(id);
        moving(id, Kind::Obstacle, Pose::new(x, -2.6, 0.0), 0.0, 0.0)
    };
    let parked = [1, 2, 3].map(parked);
    let found = respond(&Planner::default(), ego, false, &[0.0], &parked);
    assert!(last(&found).speed > 5.0, "{:?}", last(&found));
}

#[test]
fn it_does_not_drift_towards_who_comes_beside_it() {
    // Back to the middle of its lane, half a metre to the left.
    let ego = Ego { pose: Pose::new(50.0, -0.5, 0.0), speed: 12.0, ..Ego::default() };
    let drifts = |others: &[Prediction]| {
        let trajectory = respond(&Planner::default(), ego, false, &[0.0], others);
        let states: Vec<Point> =
            (0..20).map(|step| trajectory.state(0.1 * f64::from(step))).collect();
        let aside = |pair: &[Point]| (pair[1].pose.position.y - pair[0].pose.position.y) / 0.1;
        states.windows(2).map(aside).fold(0.0, f64::max)
    };
    let at = |left| moving(1, Kind::Car, Pose::new(110.0, left, std::f64::consts::PI), 12.0, 0.0);
    let (alone, beside, far) = (drifts(&[]), drifts(&[at(2.6)]), drifts(&[at(6.0)]));
    assert!(alone > 0.2 && beside < 0.4 * alone, "{alone} {beside}");
    assert!((far - alone).abs() < 0.02, "{alone} {far}");
}
