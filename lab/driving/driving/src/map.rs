//! Questions that the stack asks of the road: in which lanes a body is, and where it can go.

use glam::DVec2;
use world::road::{Lane, LaneId, Road};
use world::{Line, Offset, Pose, geometry::wrapped};

/// The lanes in which `pose` is: no farther beside than half a width and `margin` m, between the
/// ends, and no more than a quarter turn from the lane's direction. Nearest first.
pub fn lanes_at(road: &Road, pose: Pose, margin: f64) -> Vec<(LaneId, Offset)> {
    let mut found: Vec<(LaneId, Offset)> = Vec::new();
    for (id, lane) in road.lanes() {
        let reach = lane.width / 2.0 + margin;
        if !near(lane, pose.position, reach) {
            continue;
        }
        let offset = lane.line.offset(pose.position);
        let between = (0.0..=lane.line.length()).contains(&offset.along);
        let turn = wrapped(pose.heading - lane.line.pose(offset.along).heading);
        if between && offset.left.abs() <= reach && turn.abs() < std::f64::consts::FRAC_PI_2 {
            found.push((id, offset));
        }
    }
    found.sort_by(|one, other| one.1.left.abs().total_cmp(&other.1.left.abs()));
    found
}

/// Is the point at most `reach` m outside the rectangle, along the axes, around the lane's middle?
pub fn near(lane: &Lane, point: DVec2, reach: f64) -> bool {
    let (low, high) = lane.line.bounds();
    point.cmpge(low - reach).all() && point.cmple(high + reach).all()
}

/// The middle of a lane from `along` m on, and of the lanes that follow it, for `length` m: one
/// line for each way to go, straight ahead first, of which there are at most `ways`. A way goes on
/// straight from the end of the lanes.
pub fn ways(road: &Road, lane: LaneId, along: f64, length: f64, ways: usize) -> Vec<Line> {
    let mut open = vec![(vec![lane], road.lane(lane).line.length() - along)];
    let mut lines = Vec::new();
    while let Some((path, covered)) = open.pop() {
        let next = &road.lane(path[path.len() - 1]).next;
        let many = open.len() + lines.len() + next.len() > ways;
        if covered >= length || next.is_empty() || many {
            lines.extend(line(road, &path, along, length));
            continue;
        }
        for follower in next.iter().rev() {
            let more = road.lane(*follower).line.length();
            open.push(([&path[..], &[*follower]].concat(), covered + more));
        }
    }
    lines
}

fn line(road: &Road, path: &[LaneId], along: f64, length: f64) -> Option<Line> {
    let mut points = vec![road.lane(path[0]).line.pose(along).position];
    let (mut from, mut covered) = (along, 0.0);
    for lane in path {
        let mut at = 0.0;
        for ends in road.lane(*lane).line.points().windows(2) {
            at += ends[0].distance(ends[1]);
            if at > from && covered < length {
                covered += points[points.len() - 1].distance(ends[1]);
                points.push(ends[1]);
            }
        }
        from = 0.0;
    }
    let line = Line::new(points)?;
    if line.length() >= length {
        return Some(line);
    }
    let end = line.pose(length).position;
    Line::new(line.points().iter().copied().chain([end]))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn straight(from: (f64, f64), to: (f64, f64)) -> Lane {
        let line = Line::new([DVec2::from(from), DVec2::from(to)]).unwrap();
        Lane::new(line, 3.5, 13.9)
    }

    /// Two lanes to the east, 400 m, the second one 3.5 m to the left of the first.
    pub(crate) fn two_lanes() -> Road {
        let mut right = straight((0.0, 0.0), (400.0, 0.0));
        let mut left = straight((0.0, 3.5), (400.0, 3.5));
        (right.left, left.right) = (Some(LaneId(1)), Some(LaneId(0)));
        Road::new(vec![right, left]).unwrap()
    }

    /// One lane to the east, and one to the west on its left.
    pub(crate) fn two_ways() -> Road {
        let lanes = [((0.0, 0.0), (400.0, 0.0)), ((400.0, 3.5), (0.0, 3.5))];
        Road::new(lanes.map(|(from, to)| straight(from, to)).to_vec()).unwrap()
    }

    #[test]
    fn lanes_are_found_by_place_and_direction() {
        let road = two_lanes();
        let found = |x, y, heading| -> Vec<usize> {
            let at = lanes_at(&road, Pose::new(x, y, heading), 0.2);
            at.into_iter().map(|(lane, _)| lane.0).collect()
        };
        assert_eq!(found(10.0, 1.0, 0.3), [0]);
        assert_eq!(found(10.0, 1.8, 0.0), [1, 0]);
        assert!(found(10.0, 0.0, 3.0).is_empty());
        assert!(found(-1.0, 0.0, 0.0).is_empty());
        assert!(found(10.0, -2.1, 0.0).is_empty());
    }

    #[test]
    fn ways_fork_where_lanes_do_and_go_on_straight_at_their_end() {
        let mut from = straight((0.0, 0.0), (50.0, 0.0));
        from.next = vec![LaneId(1), LaneId(2)];
        let lanes =
            vec![from, straight((50.0, 0.0), (50.0, 30.0)), straight((50.0, 0.0), (90.0, 0.0))];
        let road = Road::new(lanes).unwrap();
        let ways = ways(&road, LaneId(0), 20.0, 80.0, 8);
        assert_eq!(ways.len(), 2);
        let ends: Vec<DVec2> = ways.iter().map(|way| way.pose(80.0).position).collect();
        assert!(ends[0].distance(DVec2::new(50.0, 50.0)) < 1e-9, "{ends:?}");
        assert!(ends[1].distance(DVec2::new(100.0, 0.0)) < 1e-9, "{ends:?}");
        assert_eq!(ways[0].pose(0.0).position, DVec2::new(20.0, 0.0));
    }
}
