//! Limit on a short plan: it may not let go a brake that the usual plan before it says.
//!
//! A short plan does not look as far ahead as the usual one (30 m and 3 s instead of 80 m and 8 s).
//! So it can say that more must be done than the usual plan said; that less will do, it cannot
//! know: a vehicle that comes towards the ego may be beyond its lookahead. It has its own path, and
//! the lower of both speeds.

use crate::Trajectory;
use crate::plan::Point;
use std::sync::{Arc, Mutex, PoisonError};

/// Age up to which a usual plan decides the speed of a short one, s.
const OLD: f64 = 0.5;

/// The newest usual plan, which all instances of planning share.
#[derive(Clone, Default)]
pub(super) struct Usual(Arc<Mutex<Option<Trajectory>>>);

impl Usual {
    /// A usual plan was made.
    pub(super) fn keep(&self, plan: &Trajectory) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.as_ref().is_none_or(|before| before.at <= plan.at) {
            *newest = Some(plan.clone());
        }
    }

    /// A short plan, no faster than the newest usual one was to be at the same times, unless that
    /// is old.
    pub(super) fn bound(&self, short: Trajectory) -> Trajectory {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*newest {
            Some(usual) if short.at - usual.at <= OLD => no_faster(short, usual),
            _ => short,
        }
    }
}

/// The path of `short`, at the lower of both speeds.
fn no_faster(short: Trajectory, usual: &Trajectory) -> Trajectory {
    let said = |own: &Point| usual.state(short.at + own.after);
    if short.points.iter().all(|own| own.speed <= said(own).speed) {
        return short;
    }
    let mut driven = 0.0;
    let mut points: Vec<Point> = Vec::with_capacity(short.points.len());
    for own in &short.points {
        let said = said(own);
        let slower = if said.speed < own.speed { said } else { *own };
        if let Some(before) = points.last() {
            driven += (before.speed + slower.speed) / 2.0 * (own.after - before.after);
        }
        let Point { speed, acceleration, .. } = slower;
        points.push(Point { after: own.after, speed, acceleration, ..at_distance(&short, driven) });
    }
    Trajectory { points, ..short }
}

/// Point of a trajectory after this number of metres; at its end, if it is shorter.
fn at_distance(trajectory: &Trajectory, distance: f64) -> Point {
    let mut left = distance;
    for pair in trajectory.points.windows(2) {
        let length = pair[0].pose.position.distance(pair[1].pose.position);
        if left < length {
            let part = pair[0].after + left / length * (pair[1].after - pair[0].after);
            return trajectory.state(trajectory.at + part);
        }
        left -= length;
    }
    trajectory.points[trajectory.points.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ego;
    use crate::map::tests::two_lanes;
    use crate::stack::modules::Planning;
    use crate::stack::{Features, Localisation, Mission, Predicted};
    use dataflow::{Message, Path};
    use world::scenario::Turn;
    use world::{LaneId, Pose, Route};

    /// Straight on from x = 0 at `speed` m/s, with an acceleration, until it stands.
    fn plan(at: f64, speed: f64, acceleration: f64, left: f64) -> Trajectory {
        let point = |step: u32| {
            let after = 0.2 * f64::from(step);
            let stops = if acceleration < 0.0 { speed / -acceleration } else { f64::INFINITY };
            let time = after.min(stops);
            let along = speed * time + acceleration * time * time / 2.0;
            let (pose, speed) = (Pose::new(along, left, 0.0), speed + acceleration * time);
            let acceleration = if after < stops { acceleration } else { 0.0 };
            Point { after, pose, speed: speed.max(0.0), acceleration, curvature: 0.0 }
        };
        Trajectory { at, points: (0..=15).map(point).collect(), free: true }
    }

    #[test]
    fn a_short_plan_does_not_let_go_the_brake_of_the_usual_one_and_keeps_its_path() {
        let usual = Usual::default();
        usual.keep(&plan(1.0, 10.0, -4.0, 0.0));
        let bound = usual.bound(plan(1.1, 9.6, 1.0, 0.5));
        for point in &bound.points[1..10] {
            let wanted = 9.6 - 4.0 * point.after;
            assert!((point.speed - wanted).abs() < 0.01, "{point:?}");
            assert_eq!((point.acceleration, point.pose.position.y), (-4.0, 0.5), "{point:?}");
        }
        // 9.6 m/s at 4 m/s² is 11.52 m.
        let end = bound.points[bound.points.len() - 1].pose.position.x;
        assert!((end - 11.52).abs() < 0.2, "{end} m");
    }

    #[test]
    fn a_short_plan_that_brakes_harder_or_comes_later_is_its_own() {
        let usual = Usual::default();
        usual.keep(&plan(1.0, 10.0, -4.0, 0.0));
        let harder = plan(1.1, 9.6, -8.0, 0.0);
        assert_eq!(usual.bound(harder.clone()), harder);
        let later = plan(1.6, 9.0, 1.0, 0.0);
        assert_eq!(usual.bound(later.clone()), later);
        // Of two plans the newer one counts, whichever ends first.
        usual.keep(&plan(1.1, 9.6, 2.0, 0.0));
        usual.keep(&plan(1.0, 10.0, -4.0, 0.0));
        let short = plan(1.2, 9.7, 1.0, 0.0);
        assert_eq!(usual.bound(short.clone()), short);
    }

    #[test]
    fn planning_bounds_short_plans_by_the_usual_one_until_the_next() {
        let road = Arc::new(two_lanes());
        let route = Arc::new(Route::new(&road, LaneId(0), Turn::Straight).unwrap());
        let mission = Mission { road, route, desired: f64::INFINITY };
        let usual = Usual::default();
        let mut planning = Planning::new(mission, &Features::all(), false, &usual);
        let ego = Ego { pose: Pose::new(50.0, 0.0, 0.0), speed: 10.0, ..Ego::default() };
        let mut begins = |path: Path| {
            let predicted = Predicted { at: 1.1, predictions: Vec::new(), danger: false };
            let now = Localisation { at: 1.1, ego };
            let input = (Message::alone(predicted), Some(Message::alone(now)));
            dataflow::alone(&mut planning, &input, path, u64::MAX).result.unwrap().points[1]
        };
        assert!(begins(Path::Fast).acceleration > 0.0, "the road is free");
        usual.keep(&plan(1.0, 10.0, -4.0, 0.0));
        assert_eq!(begins(Path::Fast).acceleration, -4.0);
        assert!(begins(Path::Normal).acceleration > 0.0, "the usual plan is its own");
        assert!(begins(Path::Fast).acceleration > 0.0);
    }
}
