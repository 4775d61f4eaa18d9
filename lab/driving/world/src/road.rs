//! Lanes and how they are connected.

use crate::geometry::Pose;
use crate::line::{Line, Offset};

/// The number of a lane of its road, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub usize);

/// A lane: one direction, one width, one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its middle, in the direction of travel.
    pub line: Line,
    /// m.
    pub width: f64,
    /// Speed limit by law, m/s.
    pub limit: f64,
    /// The lane beside it that traffic of the same direction may change to, on its left.
    pub left: Option<LaneId>,
    /// The same on its right.
    pub right: Option<LaneId>,
    /// Lanes that begin at its end; the first is straight ahead.
    pub next: Vec<LaneId>,
    /// Lanes that cross this one or end in the same lane, and go first.
    pub yields_to: Vec<LaneId>,
}

impl Lane {
    /// A lane that is connected with nothing.
    pub fn new(line: Line, width: f64, limit: f64) -> Lane {
        let (next, yields_to) = (Vec::new(), Vec::new());
        Lane { line, width, limit, left: None, right: None, next, yields_to }
    }
}

/// All lanes of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Road {
    lanes: Vec<Lane>,
}

/// Reason for which lanes make no road.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RoadError {
    /// There is no lane at all.
    #[error("a road without lanes, expected at least one")]
    Empty,
    /// A lane is connected with one that is not there.
    #[error("lane {lane} is connected with lane {other}, expected one below {lanes}")]
    Unknown {
        /// The lane.
        lane: usize,
        /// Lane that it names.
        other: usize,
        /// Number of lanes.
        lanes: usize,
    },
    /// A width or a limit that is none.
    #[error("lane {lane}: found a {what} of {found}, expected a finite number above 0")]
    Size {
        /// The lane.
        lane: usize,
        /// `width` or `limit`.
        what: &'static str,
        /// Value that was found, m or m/s.
        found: f64,
    },
}

impl Road {
    /// The road of these lanes.
    ///
    /// # Errors
    /// Without lanes, with a connection to nowhere, with a width or a limit that is not above 0.
    pub fn new(lanes: Vec<Lane>) -> Result<Road, RoadError> {
        if lanes.is_empty() {
            return Err(RoadError::Empty);
        }
        for (lane, it) in lanes.iter().enumerate() {
            for (what, found) in [("width", it.width), ("limit", it.limit)] {
                if !(found.is_finite() && found > 0.0) {
                    return Err(RoadError::Size { lane, what, found });
                }
            }
            let named = it.left.iter().chain(&it.right).chain(&it.next).chain(&it.yields_to);
            if let Some(other) = named.map(|id| id.0).find(|id| *id >= lanes.len()) {
                return Err(RoadError::Unknown { lane, other, lanes: lanes.len() });
            }
        }
        Ok(Road { lanes })
    }

    /// A lane of this road.
    ///
    /// # Panics
    /// If it is one of another road.
    pub fn lane(&self, id: LaneId) -> &Lane {
        &self.lanes[id.0]
    }

    /// All of them with their numbers.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().enumerate().map(|(index, lane)| (LaneId(index), lane))
    }

    /// The lane on which a vehicle with this pose drives, and where: of those that it is on
    /// and looks along (within 90 degrees), the one whose middle is nearest.
    pub fn find(&self, pose: Pose) -> Option<(LaneId, Offset)> {
        let on = |(id, lane): (LaneId, &Lane)| {
            let offset = lane.line.offset(pose.position);
            let beside = offset.left.abs() > lane.width / 2.0;
            let beyond = offset.along < 0.0 || offset.along > lane.line.length();
            let along = lane.line.pose(offset.along).forward().dot(pose.forward()) > 0.0;
            (!beside && !beyond && along).then_some((id, offset))
        };
        let found = self.lanes().filter_map(on);
        found.min_by(|one, other| one.1.left.abs().total_cmp(&other.1.left.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::DVec2;
    use std::f64::consts::PI;

    fn lane(from: DVec2, to: DVec2) -> Lane {
        Lane::new(Line::new([from, to]).unwrap(), 3.5, 14.0)
    }

    #[test]
    fn vehicle_is_on_the_lane_that_it_looks_along() {
        let there = lane(DVec2::ZERO, DVec2::new(100.0, 0.0));
        let back = lane(DVec2::new(100.0, 3.5), DVec2::new(0.0, 3.5));
        let road = Road::new(vec![there, back]).unwrap();
        let found = road.find(Pose::new(30.0, 1.0, 0.1)).unwrap();
        assert_eq!((found.0, found.1), (LaneId(0), Offset { along: 30.0, left: 1.0 }));
        let found = road.find(Pose::new(30.0, 3.0, PI)).unwrap();
        assert_eq!((found.0, found.1), (LaneId(1), Offset { along: 70.0, left: 0.5 }));
        assert_eq!(road.find(Pose::new(30.0, 3.0, 0.0)), None);
        assert_eq!(road.find(Pose::new(130.0, 0.0, 0.0)), None);
    }

    #[test]
    fn lanes_that_make_no_road_are_refused() {
        let mut one = lane(DVec2::ZERO, DVec2::X);
        assert_eq!(Road::new(vec![]), Err(RoadError::Empty));
        one.next.push(LaneId(1));
        let unknown = RoadError::Unknown { lane: 0, other: 1, lanes: 1 };
        assert_eq!(Road::new(vec![one.clone()]), Err(unknown));
        one.next.clear();
        one.limit = 0.0;
        let size = RoadError::Size { lane: 0, what: "limit", found: 0.0 };
        assert_eq!(Road::new(vec![one]), Err(size));
    }
}
