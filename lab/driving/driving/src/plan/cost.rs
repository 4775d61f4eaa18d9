//! Cost of a candidate. First comes its least cost, alone but for those ahead in its way: that
//! takes little to compute, and excludes most candidates that are dearer than the best one so far.
//! The cost of the others is computed step by step, until one is too dear or hits something. The
//! best candidate does not depend on those that were left out.

use super::candidate::{Beside, Course, Driven, Path};
use super::leads::{Lacking, Leads};
use super::{Planner, Point, View, scene};

const SLOW: f64 = 0.5;
const FAST: f64 = 4.0;
const HARSH: f64 = 0.4;
const BESIDE: f64 = 1.0;
const SIDEWAYS: f64 = 0.6;
// A driver who changes lanes in a hurry will not be where he should be.
const HURRY: f64 = 2.0;
const CHANGE: f64 = 4.0;
const OTHER: f64 = 1.5;

/// Rounding allowed between the least cost of a candidate and its cost, which are computed in
/// different ways: as a share and beside that, far more than it ever is.
const ROUNDING: f64 = 1e-9;

/// Values on which the cost of a candidate depends, beside its way.
struct Terms<'a> {
    limit: f64,
    impatience: f64,
    lanes: &'a [f64],
    /// Does it change lanes?
    changes: bool,
}

impl Terms<'_> {
    fn of<'a>(view: &'a View, end: f64) -> Terms<'a> {
        let changes = (end - view.lanes[0]).abs() > 1.5;
        let (limit, impatience) = (view.limit, view.impatience);
        Terms { limit, impatience, lanes: &view.lanes, changes }
    }

    fn begin(&self) -> f64 {
        if self.changes { CHANGE } else { 0.0 }
    }

    /// Cost of a second of driving on as it does, with the cost of being near others.
    fn goes_on(&self, near: f64, speed: f64, left: f64) -> f64 {
        let slow = (self.limit - speed).abs();
        let over = (speed - self.limit).max(0.0);
        let beside = |lane: &f64| (left - lane).abs();
        let nearest = self.lanes.iter().map(beside).fold(f64::INFINITY, f64::min);
        let other = if beside(&self.lanes[0]) > nearest { OTHER } else { 0.0 };
        near + SLOW * self.impatience * slow + FAST * over + BESIDE * nearest.powi(2) + other
    }

    /// Cost of a second of these forces.
    fn forced(&self, acceleration: f64, curvature: f64, speed: f64) -> f64 {
        let sideways = if self.changes { HURRY } else { SIDEWAYS };
        HARSH * acceleration.powi(2) + sideways * (curvature * speed.powi(2)).powi(2)
    }
}

impl Planner {
    /// Cost of a candidate; none if it is not possible, hits something, or costs more than `most`.
    pub(super) fn cost(
        &self,
        view: &View,
        path: &Path,
        course: &Course,
        most: f64,
        search: &mut Search,
    ) -> Option<f64> {
        let terms = Terms::of(view, path.end());
        let Search { hit, rests, leads, lacking } = search;
        if let Some((step, who)) = *hit
            && let Some(driven) = course.driven.get(step - 1)
        {
            let (point, own) = view.scene.drive(&view.reference, path, driven);
            if view.scene.is_hit(who, step, &point, &own, terms.changes) {
                return None;
            }
        }
        rests.clear();
        if most < f64::INFINITY {
            let lacks = || leads.lacking(&view.scene, course);
            let lacking = lacking[course.number].get_or_insert_with(lacks);
            self.rests(view, &terms, path, (course, lacking), most, rests).then_some(())?;
        }
        let (mut cost, mut goes_on, mut passing) = (terms.begin(), 0.0, 0.0);
        for (index, driven) in course.driven.iter().enumerate() {
            let (point, own) = view.scene.drive(&view.reference, path, driven);
            self.possible(&point).then_some(())?;
            let step = index + 1;
            let checked = view.scene.check(step, &point, &own, terms.changes);
            let near = checked.map_err(|who| *hit = Some((step, who))).ok()?;
            (goes_on, passing) = (terms.goes_on(near.cost, point.speed, own.left), near.passing);
            let forced = terms.forced(point.acceleration, point.curvature, point.speed);
            cost += self.step * (goes_on + forced);
            if cost + rests.get(index).map_or(0.0, |rest| at_least(*rest)) > most {
                return None;
            }
        }
        let beyond = self.beyond(course);
        cost += beyond * goes_on - (beyond - self.passing).max(0.0) * passing;
        (cost <= most && self.stops(view, path, course, terms.changes)).then_some(cost)
    }

    /// Beyond the horizon and the lookahead a candidate goes on as it is then: for so long, s.
    fn beyond(&self, course: &Course) -> f64 {
        (self.outlook - course.driven.len() as f64 * self.step).max(0.0)
    }

    /// Fills `rests` with the least cost of a candidate after each of its steps; false if it is not
    /// possible, or costs more than `most` in all. It begins at the end, where candidates differ
    /// most.
    fn rests(
        &self,
        view: &View,
        terms: &Terms,
        path: &Path,
        (course, lacking): (&Course, &Lacking),
        most: f64,
        rests: &mut Vec<f64>,
    ) -> bool {
        rests.resize(course.driven.len(), 0.0);
        let most = most - terms.begin();
        let (mut rest, mut weight) = (0.0, self.step + self.beyond(course));
        for (step, (driven, after)) in course.driven.iter().zip(rests).enumerate().rev() {
            let beside = path.beside(driven.along);
            let (speed, curvature) = bent(&beside, view.reference.bend(driven.along), driven);
            let sideways = curvature * speed.powi(2);
            if curvature.abs() > self.curvature + ROUNDING
                || sideways.abs() > self.sideways + ROUNDING
            {
                return false;
            }
            let forced = terms.forced(driven.acceleration, curvature, speed);
            *after = rest;
            let near = lacking.least(step, beside.left);
            rest += weight * terms.goes_on(near, speed, beside.left) + self.step * forced;
            weight = self.step;
            if at_least(rest) > most {
                return false;
            }
        }
        true
    }

    /// Approximate cost of a course without other road users, straight along the reference.
    pub(super) fn alone(&self, limit: f64, course: &Course) -> f64 {
        let terms = Terms { limit, impatience: 1.0, lanes: &[0.0], changes: false };
        let (mut cost, mut goes_on) = (0.0, 0.0);
        for driven in &course.driven {
            goes_on = terms.goes_on(0.0, driven.speed, 0.0);
            cost += self.step * (goes_on + terms.forced(driven.acceleration, 0.0, driven.speed));
        }
        cost + self.beyond(course) * goes_on
    }

    /// Within the vehicle's limits.
    pub(super) fn possible(&self, point: &Point) -> bool {
        let sideways = point.curvature * point.speed.powi(2);
        self.accelerates(point.acceleration)
            && point.curvature.abs() <= self.curvature
            && sideways.abs() <= self.sideways
    }

    /// Within the vehicle's limits. A driver who has to brake harder than RSS assumes brakes as
    /// hard as he can: what is saved now is missing if it comes a little worse.
    pub(super) fn accelerates(&self, acceleration: f64) -> bool {
        let braking = -acceleration;
        let brakes = braking <= scene::LEAST + 1e-6 || (braking - self.brake).abs() < 1e-6;
        brakes && acceleration <= self.throttle + 1e-6
    }

    /// Returns true if from its last step on it can brake to a standstill and hit nothing.
    fn stops(&self, view: &View, path: &Path, course: &Course, changes: bool) -> bool {
        let steps = course.driven.len() + 1..;
        steps.zip(&course.stop).all(|(step, driven)| {
            let (point, own) = view.scene.drive(&view.reference, path, driven);
            view.scene.check(step, &point, &own, changes).is_ok()
        })
    }
}

/// Results of one candidate that the next ones use.
pub(super) struct Search {
    /// Step and body of the last collision of a candidate: the next candidate is likely to have the
    /// same one.
    hit: Option<(usize, usize)>,
    /// Least costs of the last one after each step, to be overwritten.
    rests: Vec<f64>,
    leads: Leads,
    /// Result of each course that was looked at, by its number.
    lacking: Vec<Option<Lacking>>,
}

impl Search {
    /// Search for candidates that end in the lane whose middle is `lane` m left of the reference.
    pub(super) fn new(planner: &Planner, view: &View, lane: f64) -> Search {
        // So far beside its way paths go, m; what of one is farther off just costs less at least.
        const ASIDE: f64 = 1.0;
        let left = view.start.left;
        let between = (left.min(lane) - ASIDE, left.max(lane) + ASIDE);
        let leads = Leads::of(&view.scene, planner.steps(), between);
        let numbers = view.courses.iter().map(|course| course.number + 1).max();
        let lacking = (0..numbers.unwrap_or(0)).map(|_| None).collect();
        Search { hit: None, rests: Vec::new(), leads, lacking }
    }
}

/// A cost less what may be rounding.
fn at_least(cost: f64) -> f64 {
    cost * (1.0 - ROUNDING) - ROUNDING
}

/// Speed of a body, m/s, and curvature, 1/m, beside a line that bends: without an angle, and so
/// not to the last digit as [`Reference::point`](scene::Reference::point) has it.
fn bent(beside: &Beside, bend: f64, driven: &Driven) -> (f64, f64) {
    let Beside { left, slope, change } = *beside;
    let stretch = (1.0 - bend * left).max(0.2);
    if slope == 0.0 {
        return (driven.speed * stretch, (bend + change / stretch) / stretch);
    }
    let length = (stretch * stretch + slope * slope).sqrt();
    let cos = stretch / length;
    (driven.speed * length, (bend + change * cos.powi(3) / stretch) / stretch)
}
