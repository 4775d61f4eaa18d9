//! Contact of the ego with a body: its time, and the side of the ego that was hit.

use crate::body::{Body, Kind};
use crate::geometry::Rectangle;
use glam::DVec2;
use serde::{Deserialize, Serialize};

/// The side of the ego that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The ego ran into something.
    Front,
    /// Something ran into it.
    Rear,
    /// Its left side.
    Left,
    /// Its right side.
    Right,
}

/// The first contact of the ego with a body.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Collision {
    /// s.
    pub time: f64,
    /// Number of the body that it met.
    pub body: u32,
    /// Kind of that body.
    pub kind: Kind,
    /// Side of the ego that was hit.
    pub side: Side,
    /// m/s.
    pub ego_speed: f64,
    /// m/s.
    pub body_speed: f64,
}

impl Collision {
    /// The collision of the ego with a body at this moment, if they touch.
    pub(crate) fn find(time: f64, ego: &Body, body: &Body) -> Option<Collision> {
        let reach = (ego.length + ego.width + body.length + body.width) / 2.0;
        if ego.pose.position.distance_squared(body.pose.position) > reach * reach {
            return None;
        }
        let (mine, other) = (ego.footprint(), body.footprint());
        if !mine.overlaps(&other) {
            return None;
        }
        let (id, kind, side) = (body.id, body.kind, side(&mine, &other));
        let (ego_speed, body_speed) = (ego.speed, body.speed);
        Some(Collision { time, body: id, kind, side, ego_speed, body_speed })
    }
}

/// The edge of `mine` that is nearest to the middle of what the two have in common.
fn side(mine: &Rectangle, other: &Rectangle) -> Side {
    let mut shared = other.corners().map(|corner| mine.pose.local(corner)).to_vec();
    let (length, width) = (mine.length / 2.0, mine.width / 2.0);
    for (axis, limit) in
        [(DVec2::X, length), (DVec2::NEG_X, length), (DVec2::Y, width), (DVec2::NEG_Y, width)]
    {
        shared = clipped(&shared, axis, limit);
    }
    let count = shared.len().max(1) as f64;
    let middle = shared.iter().sum::<DVec2>() / count;
    let sides = [
        (Side::Front, length - middle.x),
        (Side::Rear, length + middle.x),
        (Side::Left, width - middle.y),
        (Side::Right, width + middle.y),
    ];
    let nearest = sides.into_iter().min_by(|one, other| one.1.total_cmp(&other.1));
    nearest.map_or(Side::Front, |(side, _)| side)
}

/// Part of a polygon where `axis` · point <= `limit` (Sutherland, Hodgman 1974).
fn clipped(polygon: &[DVec2], axis: DVec2, limit: f64) -> Vec<DVec2> {
    let mut kept = Vec::new();
    for (index, to) in polygon.iter().enumerate() {
        let from = polygon[(index + polygon.len() - 1) % polygon.len()];
        let (before, after) = (from.dot(axis) - limit, to.dot(axis) - limit);
        if before * after < 0.0 {
            kept.push(from + (*to - from) * (before / (before - after)));
        }
        if after <= 0.0 {
            kept.push(*to);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Pose;
    use std::f64::consts::FRAC_PI_2;

    fn car(id: u32, x: f64, y: f64, heading: f64) -> Body {
        let pose = Pose::new(x, y, heading);
        let (speed, acceleration, length, width) = (5.0, 0.0, 4.0, 2.0);
        Body { id, kind: Kind::Car, pose, speed, acceleration, length, width }
    }

    #[test]
    fn side_is_the_one_that_was_hit() {
        let ego = car(0, 0.0, 0.0, 0.0);
        let hit = |x, y, heading| {
            Collision::find(1.0, &ego, &car(1, x, y, heading)).map(|collision| collision.side)
        };
        assert_eq!(hit(3.95, 0.5, 0.0), Some(Side::Front));
        assert_eq!(hit(-3.95, 0.5, 0.0), Some(Side::Rear));
        assert_eq!(hit(0.5, 2.95, FRAC_PI_2), Some(Side::Left));
        assert_eq!(hit(-0.5, -1.95, 0.0), Some(Side::Right));
        assert_eq!(hit(4.05, 0.0, 0.0), None);
        assert_eq!(hit(0.0, 3.05, FRAC_PI_2), None);
    }

    #[test]
    fn side_is_found_as_the_ego_turns() {
        let ego = car(0, 10.0, 10.0, FRAC_PI_2);
        let front = Collision::find(0.0, &ego, &car(1, 10.2, 13.95, FRAC_PI_2));
        assert_eq!(front.map(|collision| collision.side), Some(Side::Front));
        let right = Collision::find(0.0, &ego, &car(1, 12.95, 10.0, 0.0));
        assert_eq!(right.map(|collision| collision.side), Some(Side::Right));
    }
}
