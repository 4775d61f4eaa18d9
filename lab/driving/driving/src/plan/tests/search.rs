//! Search that leaves out candidates, against a search that leaves out nothing.

use super::*;
use crate::plan::keep::{self, Other, Own};

/// A road to the east, or one that bends to the left.
fn line(bends: bool) -> Line {
    let angle = |step: u32| f64::from(step) * 0.02;
    let bend = |step: u32| 120.0 * DVec2::new(angle(step).sin(), 1.0 - angle(step).cos());
    if bends { Line::new((0..100).map(bend)).unwrap() } else { straight() }
}

/// The first of the cheapest candidates, each of which was looked at as if there were no other.
fn plainly(planner: &Planner, view: &View, lane: f64) -> Option<Choice> {
    let paths = planner.paths(lane, &view.start);
    let mut found = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        for course in &view.courses {
            let mut search = Search::new(planner, view, lane);
            let cost = planner.cost(view, path, course, f64::INFINITY, &mut search);
            found.extend(cost.map(|cost| (cost, (number, course.number), path, course)));
        }
    }
    let order = |one: &(f64, (usize, usize), _, _), other: &(f64, (usize, usize), _, _)| {
        one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
    };
    let (cost, _, path, course) = found.into_iter().min_by(order)?;
    let points = planner.points(&view.reference, path, &course.profile);
    Some(Choice { cost, trajectory: Trajectory { at: view.at, points, free: true } })
}

#[test]
fn what_is_left_out_would_not_have_been_chosen() {
    let mut random = random(5);
    let (mut chosen, mut alone) = (0, 0);
    for round in 0..24 {
        let line = line(round % 3 == 0);
        let traffic = traffic(&mut random);
        // Alone many candidates cost the same.
        let predictions = if round % 8 == 1 { &[] } else { &traffic[..] };
        let mut ego = Ego { speed: random(0.0, 14.0), ..Ego::default() };
        ego.pose = line.pose(50.0);
        if round % 8 != 1 {
            ego.pose.position += random(-0.5, 0.5) * ego.pose.left();
            (ego.acceleration, ego.curvature) = (random(-3.0, 2.0), random(-0.02, 0.02));
        }
        let situation = Situation {
            at: 0.0,
            ego,
            length: LENGTH,
            width: WIDTH,
            reference: &line,
            limit: 13.9,
            lanes: &[0.0, 3.5],
            predictions,
            danger: false,
            holds: false,
            stood: 0.0,
        };
        for planner in both() {
            let view = planner.view(&situation);
            for lane in [0.0, 3.5] {
                let plain = plainly(&planner, &view, lane);
                assert_eq!(planner.choose(&view, lane, &mut go()).unwrap(), plain, "{round}");
                chosen += usize::from(plain.is_some());
                alone += usize::from(plain.is_some() && predictions.is_empty());
            }
        }
    }
    assert!(chosen > 60 && alone == 12, "{chosen}, {alone}");
}

#[test]
fn who_is_left_out_is_not_in_the_way() {
    let mut random = random(7);
    let (mut out, mut little) = (0, 0);
    for _ in 0..20_000 {
        let own = Own {
            along: 0.0,
            left: random(-2.0, 2.0),
            speed: random(0.0, 20.0),
            aside: random(-3.0, 3.0),
            half: (LENGTH / 2.0, WIDTH / 2.0),
        };
        let pose = Pose::new(0.0, 0.0, random(-0.7, 0.7));
        let body = Rectangle { pose, length: random(0.5, 12.0), width: random(0.5, 2.6) };
        let place = (random(-40.0, 40.0), random(-14.0, 14.0), pose.heading);
        let other = Other::new(&body, random(0.0, 14.0), place);
        let apart = (other.left - own.left).abs();
        let way = keep::stopping(own.speed);
        let (ahead, behind) = (keep::ahead(&own, way, &other), keep::behind(&own, &other));
        if apart >= keep::side_of_own(&own) + keep::side_of_other(&other) {
            out += 1;
            assert_eq!((ahead, behind), (0.0, 0.0), "{own:?} {other:?}");
        }
        let least = keep::least_share(apart, keep::room(own.half, &other));
        let least = keep::lacking(&own, way, &other) * least;
        little += usize::from(least > 0.0);
        assert!(least <= ahead * (1.0 + 1e-12), "{least} {ahead} {own:?} {other:?}");
    }
    assert!(out > 2_000 && little > 1_000, "{out}, {little}");
}
