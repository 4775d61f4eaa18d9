//! Poses and rectangles in the plane: metres, radians, x to the east, y to the north, headings
//! counted from x to the left.

use glam::DVec2;
use serde::{Deserialize, Serialize};
use std::f64::consts::{PI, TAU};

/// A place and a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pose {
    /// m.
    pub position: DVec2,
    /// rad.
    pub heading: f64,
}

impl Pose {
    /// The pose at (`x`, `y`) m that looks along `heading` rad.
    pub fn new(x: f64, y: f64, heading: f64) -> Pose {
        Pose { position: DVec2::new(x, y), heading }
    }

    /// The unit vector along the heading.
    pub fn forward(&self) -> DVec2 {
        DVec2::from_angle(self.heading)
    }

    /// The unit vector to the left of the heading.
    pub fn left(&self) -> DVec2 {
        self.forward().perp()
    }

    /// A point of the plane as seen from here: metres ahead, metres to the left.
    pub fn local(&self, point: DVec2) -> DVec2 {
        let (offset, forward) = (point - self.position, self.forward());
        DVec2::new(offset.dot(forward), offset.dot(forward.perp()))
    }

    /// The point of the plane that is `ahead` and `left` metres from here.
    pub fn point(&self, ahead: f64, left: f64) -> DVec2 {
        let forward = self.forward();
        self.position + ahead * forward + left * forward.perp()
    }
}

/// The same angle between -π and π.
pub fn wrapped(angle: f64) -> f64 {
    let from = angle + PI;
    // A remainder takes long, and most angles are between these already.
    if (0.0..TAU).contains(&from) { from - PI } else { from.rem_euclid(TAU) - PI }
}

/// A rectangle around a pose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rectangle {
    /// Its centre and direction.
    pub pose: Pose,
    /// Along the heading, m.
    pub length: f64,
    /// Across the heading, m.
    pub width: f64,
}

impl Rectangle {
    /// Front left, rear left, rear right, front right.
    pub fn corners(&self) -> [DVec2; 4] {
        self.corners_along(self.pose.forward())
    }

    fn corners_along(&self, forward: DVec2) -> [DVec2; 4] {
        let (length, width) = (self.length / 2.0, self.width / 2.0);
        let (position, side) = (self.pose.position, forward.perp());
        [(length, width), (-length, width), (-length, -width), (length, -width)]
            .map(|(ahead, left)| position + ahead * forward + left * side)
    }

    /// Have the two a point in common? (The theorem of separating axes.)
    pub fn overlaps(&self, other: &Rectangle) -> bool {
        self.overlaps_along(self.pose.forward(), other, other.pose.forward())
    }

    /// The same for rectangles whose unit vectors along their headings are known: for many others.
    pub fn overlaps_along(&self, forward: DVec2, other: &Rectangle, its_forward: DVec2) -> bool {
        let (mine, others) = (self.corners_along(forward), other.corners_along(its_forward));
        let axes = [forward, forward.perp(), its_forward, its_forward.perp()];
        axes.into_iter().all(|axis| {
            let (low, high) = extent(&mine, axis);
            let (other_low, other_high) = extent(&others, axis);
            low <= other_high && other_low <= high
        })
    }

    /// Distance from `origin` along the unit vector `direction` to the edge, in metres; 0 from
    /// inside, none if the ray passes by.
    pub fn hit(&self, origin: DVec2, direction: DVec2) -> Option<f64> {
        self.hit_along(self.pose.forward(), origin, direction)
    }

    /// The same for a rectangle whose unit vector along its heading is known: for many rays.
    pub fn hit_along(&self, forward: DVec2, origin: DVec2, direction: DVec2) -> Option<f64> {
        let (offset, side) = (origin - self.pose.position, forward.perp());
        let from = DVec2::new(offset.dot(forward), offset.dot(side));
        let along = DVec2::new(direction.dot(forward), direction.dot(side));
        let (mut enter, mut leave) = (0.0_f64, f64::INFINITY);
        let sides = [(from.x, along.x, self.length / 2.0), (from.y, along.y, self.width / 2.0)];
        for (from, along, half) in sides {
            if along == 0.0 {
                if from.abs() > half {
                    return None;
                }
                continue;
            }
            let (one, other) = ((-half - from) / along, (half - from) / along);
            enter = enter.max(one.min(other));
            leave = leave.min(one.max(other));
        }
        (enter <= leave).then_some(enter)
    }
}

fn extent(corners: &[DVec2; 4], axis: DVec2) -> (f64, f64) {
    let along = corners.map(|corner| corner.dot(axis));
    let low = along.into_iter().fold(f64::INFINITY, f64::min);
    let high = along.into_iter().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::FRAC_PI_4;

    #[test]
    fn angles_are_wrapped_to_the_last_bit_as_by_a_remainder() {
        for step in -4_000..4_000 {
            let angle = f64::from(step) * PI / 1_000.0;
            let exact = (angle + PI).rem_euclid(TAU) - PI;
            assert_eq!(wrapped(angle).to_bits(), exact.to_bits(), "{angle}");
        }
    }

    #[test]
    fn rectangles_that_only_their_bounding_boxes_share_do_not_overlap() {
        let one = Rectangle { pose: Pose::new(0.0, 0.0, FRAC_PI_4), length: 4.0, width: 0.2 };
        let beside = Rectangle { pose: Pose::new(1.0, -1.0, FRAC_PI_4), length: 4.0, width: 0.2 };
        let across = Rectangle { pose: Pose::new(0.5, 0.5, -FRAC_PI_4), length: 4.0, width: 0.2 };
        assert!(!one.overlaps(&beside) && !beside.overlaps(&one));
        assert!(one.overlaps(&across) && across.overlaps(&one));
    }

    #[test]
    fn rays_end_at_the_nearest_edge() {
        let wall = Rectangle { pose: Pose::new(10.0, 0.0, 0.0), length: 2.0, width: 4.0 };
        assert_eq!(wall.hit(DVec2::ZERO, DVec2::X), Some(9.0));
        assert_eq!(wall.hit(DVec2::ZERO, -DVec2::X), None);
        assert_eq!(wall.hit(DVec2::new(0.0, 2.1), DVec2::X), None);
        assert_eq!(wall.hit(DVec2::new(10.5, 0.0), DVec2::Y), Some(0.0));
    }

    #[test]
    fn local_and_point_are_each_others_inverse() {
        let pose = Pose::new(3.0, -2.0, 2.5);
        let local = pose.local(pose.point(4.0, -1.5));
        assert!((local - DVec2::new(4.0, -1.5)).length() < 1e-12, "{local}");
        assert!((wrapped(7.0) - (7.0 - TAU)).abs() < 1e-12 && wrapped(-PI) == -PI);
    }
}
