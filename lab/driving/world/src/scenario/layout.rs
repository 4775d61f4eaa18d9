//! The lanes of a layout. Lanes of the ego's direction come first, the right one first of all.

use super::{KMH, Layout};
use crate::geometry::Pose;
use crate::line::Line;
use crate::road::{Lane, LaneId, Road};
use glam::DVec2;
use std::f64::consts::{FRAC_PI_2, PI};

/// Sideways acceleration that drivers accept in a turn, m/s².
const COMFORTABLE_TURN: f64 = 2.0;
/// Distance from the edge of the crossing road to the stop line, m.
const CORNER: f64 = 4.0;

impl Layout {
    /// Its road; none if a bend is too narrow for its lanes.
    pub(crate) fn road(&self) -> Option<Road> {
        let lanes = match *self {
            Layout::OpenDrive(ref file) => return Some(file.map()?.road.clone()),
            Layout::Straight { length_m, lanes, oncoming, .. } => {
                let base = [DVec2::ZERO, DVec2::new(length_m, 0.0)];
                self.parallel(&base, [0.0; 2].as_slice(), lanes, oncoming)?
            }
            Layout::Curve { before_m, radius_m, angle_deg, after_m, lanes, oncoming, .. } => {
                let (base, headings) = bend(before_m, radius_m, angle_deg.to_radians(), after_m);
                let outer = (lanes + oncoming) as f64 * self.lane_width();
                if outer >= radius_m {
                    return None;
                }
                self.parallel(&base, &headings, lanes, oncoming)?
            }
            Layout::Junction { arm_m, lanes, .. } => self.crossing(arm_m, lanes)?,
        };
        Road::new(lanes).ok()
    }

    /// Lanes beside each other along the right one's middle.
    fn parallel(
        &self,
        base: &[DVec2],
        headings: &[f64],
        lanes: usize,
        oncoming: usize,
    ) -> Option<Vec<Lane>> {
        let width = self.lane_width();
        let beside = |index: usize| {
            let left = |heading: &f64| DVec2::from_angle(*heading).perp();
            let shifted = move |(point, heading): (&DVec2, &f64)| {
                *point + index as f64 * width * left(heading)
            };
            base.iter().zip(headings).map(shifted).collect::<Vec<DVec2>>()
        };
        let mut all = Vec::new();
        for index in 0..lanes {
            let mut lane = Lane::new(Line::new(beside(index))?, width, self.limit());
            lane.right = index.checked_sub(1).map(LaneId);
            lane.left = (index + 1 < lanes).then_some(LaneId(index + 1));
            all.push(lane);
        }
        for index in lanes..lanes + oncoming {
            let points = beside(index).into_iter().rev();
            let mut lane = Lane::new(Line::new(points)?, width, self.limit());
            lane.left = (index > lanes).then(|| LaneId(index - 1));
            lane.right = (index + 1 < lanes + oncoming).then_some(LaneId(index + 1));
            all.push(lane);
        }
        Some(all)
    }

    /// The lanes towards the middle from west, south, east and north, then those away from it,
    /// then the ways across it.
    fn crossing(&self, arm: f64, lanes: usize) -> Option<Vec<Lane>> {
        let (width, limit) = (self.lane_width(), self.limit());
        let half = lanes as f64 * width + CORNER;
        let side = |lane: usize| (lanes as f64 - lane as f64 - 0.5) * width;
        let place = |direction: usize, along: f64, right: f64| {
            let axis = Pose::new(0.0, 0.0, direction as f64 * FRAC_PI_2);
            axis.point(along, -right)
        };
        let mut all = Vec::new();
        for (from, to) in [(-half - arm, -half), (half, half + arm)] {
            for direction in 0..4 {
                for lane in 0..lanes {
                    let ends = [from, to].map(|along| place(direction, along, side(lane)));
                    let mut it = Lane::new(Line::new(ends)?, width, limit);
                    let id = all.len();
                    it.right = (lane > 0).then(|| LaneId(id - 1));
                    it.left = (lane + 1 < lanes).then_some(LaneId(id + 1));
                    all.push(it);
                }
            }
        }
        let mut ranks = Vec::new();
        for direction in 0..4 {
            for lane in 0..lanes {
                let from = direction * lanes + lane;
                let out = |to: usize| LaneId(4 * lanes + (to % 4) * lanes + lane);
                let minor = 2 * (direction % 2);
                let start = place(direction, -half, side(lane));
                let heading = direction as f64 * FRAC_PI_2;
                let mut ways = vec![(out(direction), 0.0, minor)];
                if lane == 0 {
                    ways.push((out(direction + 3), -(half - side(lane)), minor));
                }
                if lane + 1 == lanes {
                    ways.push((out(direction + 1), half + side(lane), minor + 1));
                }
                for (to, radius, rank) in ways {
                    let (points, limit) = if radius == 0.0 {
                        (vec![start, place(direction, half, side(lane))], limit)
                    } else {
                        let fastest = libm::sqrt(COMFORTABLE_TURN * radius.abs());
                        (quarter(start, heading, radius), limit.min(fastest))
                    };
                    let mut way = Lane::new(Line::new(points)?, width, limit);
                    way.next.push(to);
                    let id = LaneId(all.len());
                    all[from].next.push(id);
                    ranks.push((id, to, rank));
                    all.push(way);
                }
            }
        }
        give_way(&mut all, &ranks);
        Some(all)
    }
}

/// Each way across yields to those of a lower rank that it meets.
fn give_way(all: &mut [Lane], ranks: &[(LaneId, LaneId, usize)]) {
    for (one, one_to, one_rank) in ranks {
        for (other, other_to, other_rank) in ranks {
            let meet = one_to == other_to
                || closest(&all[one.0].line, &all[other.0].line) < all[one.0].width;
            if one_rank > other_rank && meet {
                all[one.0].yields_to.push(*other);
            }
        }
    }
}

/// The least distance of two lines, seen every metre.
fn closest(one: &Line, other: &Line) -> f64 {
    let places = (0..=one.length() as usize).map(|metre| one.pose(metre as f64).position);
    let distance = |point: DVec2| point.distance(other.pose(nearest(other, point)).position);
    places.map(distance).fold(f64::INFINITY, f64::min)
}

fn nearest(line: &Line, point: DVec2) -> f64 {
    line.offset(point).along.clamp(0.0, line.length())
}

/// A quarter of a circle that begins at `start` along `heading`; positive radius: to the left.
fn quarter(start: DVec2, heading: f64, radius: f64) -> Vec<DVec2> {
    let steps = (FRAC_PI_2 * radius.abs()).ceil() as usize;
    let from = Pose { position: start, heading };
    let point = |step: usize| {
        let angle = FRAC_PI_2 * step as f64 / steps as f64;
        let (ahead, aside) = (libm::sin(angle), 1.0 - libm::cos(angle));
        from.point(radius.abs() * ahead, radius * aside)
    };
    (0..=steps).map(point).collect()
}

/// Points about every metre in the bend, and the headings there.
fn bend(before: f64, radius: f64, angle: f64, after: f64) -> (Vec<DVec2>, Vec<f64>) {
    let steps = ((radius * angle.abs()).ceil() as usize).max(1);
    let mut points = vec![DVec2::ZERO];
    let mut headings = vec![0.0];
    for step in 0..=steps {
        let heading = angle * step as f64 / steps as f64;
        let side = radius * angle.signum();
        let x = before + radius * libm::sin(heading.abs().min(PI));
        points.push(DVec2::new(x, side * (1.0 - libm::cos(heading))));
        headings.push(heading);
    }
    let end = *points.last().unwrap_or(&DVec2::ZERO);
    points.push(end + after * DVec2::from_angle(angle));
    headings.push(angle);
    (points, headings)
}

impl Layout {
    /// Right kerb, at which traffic may stand, m to the left of the ego's lane `lane`.
    pub(crate) fn kerb(&self, lane: usize) -> f64 {
        match self {
            Layout::OpenDrive(file) => file.kerb(),
            _ => -self.lane_width() * (lane as f64 + 0.5),
        }
    }

    /// Width of all lanes beside each other, m.
    pub(crate) fn width(&self) -> f64 {
        let lanes = match self {
            Layout::Straight { lanes, oncoming, .. } | Layout::Curve { lanes, oncoming, .. } => {
                lanes + oncoming
            }
            Layout::Junction { lanes, .. } => 2 * lanes,
            Layout::OpenDrive(file) => return file.width(),
        };
        lanes as f64 * self.lane_width()
    }

    /// The allowed speed in km/h.
    pub(crate) fn limit_kmh(&self) -> f64 {
        self.limit() * KMH
    }
}
