//! The way that the ego is to go: a reference line over its lanes.

use crate::line::Line;
use crate::road::{LaneId, Road};
use crate::scenario::Turn;
use std::collections::BTreeSet;

/// Lanes, one after the other, as one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    line: Line,
    /// Start of each lane along the line, m.
    lanes: Vec<(f64, LaneId)>,
    /// Speed limit of each lane, m/s.
    limits: Vec<f64>,
}

impl Route {
    /// Route from the beginning of a lane to the end of the road; none if one cannot turn so.
    pub fn new(road: &Road, start: LaneId, turn: Turn) -> Option<Route> {
        let mut lanes = vec![start];
        let mut driven = BTreeSet::from([start]);
        loop {
            let end = lanes[lanes.len() - 1];
            let next = match road.lane(end).next[..] {
                [] => break,
                [only] => only,
                _ => turned(road, end, turn)?,
            };
            if !driven.insert(next) {
                break;
            }
            lanes.push(next);
        }
        Route::over(road, &lanes)
    }

    /// Over these lanes, of which each leads to the next; none without one.
    pub fn over(road: &Road, path: &[LaneId]) -> Option<Route> {
        let mut points = Vec::new();
        let (mut lanes, mut limits, mut length) = (Vec::new(), Vec::new(), 0.0);
        for id in path {
            let lane = road.lane(*id);
            lanes.push((length, *id));
            limits.push(lane.limit);
            points.extend(lane.line.points());
            length += lane.line.length();
        }
        Some(Route { line: Line::new(points)?, lanes, limits })
    }

    /// The middle of its lanes.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// Its lanes, with where they begin along the line, m.
    pub fn lanes(&self) -> &[(f64, LaneId)] {
        &self.lanes
    }

    /// The lane at a distance from the beginning, m.
    pub fn lane(&self, along: f64) -> LaneId {
        self.lanes[self.index(along)].1
    }

    /// Speed limit at a distance from the beginning, m/s.
    pub fn limit(&self, along: f64) -> f64 {
        self.limits[self.index(along)]
    }

    fn index(&self, along: f64) -> usize {
        self.lanes.partition_point(|(start, _)| *start <= along).max(1) - 1
    }
}

/// The next lane that turns so, by the change of direction on the way.
pub(crate) fn turned(road: &Road, id: LaneId, turn: Turn) -> Option<LaneId> {
    let bend = |id: &LaneId| {
        let line = &road.lane(*id).line;
        crate::geometry::wrapped(line.pose(line.length()).heading - line.pose(0.0).heading)
    };
    let fits = |id: &&LaneId| match turn {
        Turn::Straight => bend(id).abs() < 0.5,
        Turn::Left => bend(id) >= 0.5,
        Turn::Right => bend(id) <= -0.5,
    };
    road.lane(id).next.iter().find(fits).copied()
}
