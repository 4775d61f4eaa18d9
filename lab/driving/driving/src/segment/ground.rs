//! The ground as a plane: it is fitted to the lowest points, again and again (after Zermas, Izzat and
//! Papanikolopoulos, 2017).
//!
//! Sums over the points are sums of shares' sums, in the order of the shares. So it does not matter
//! to the last digit whether one core adds them up or several.

use super::Points;
use glam::{DMat3, DVec2, DVec3};

/// z = slope · (x, y) + offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plane {
    slope: DVec2,
    offset: f64,
}

/// Sums that a share of the points adds to the normal equations of a plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    normal: DMat3,
    right: DVec3,
}

impl Plane {
    /// A level one, as high as the lowest decile of the points.
    pub fn level(shares: &[Points]) -> Plane {
        let mut heights: Vec<f64> =
            shares.iter().flat_map(|share| &*share.0).map(|point| point.at.z).collect();
        if heights.is_empty() {
            return Plane { slope: DVec2::ZERO, offset: 0.0 };
        }
        let decile = heights.len() / 10;
        let (_, level, _) = heights.select_nth_unstable_by(decile, f64::total_cmp);
        Plane { slope: DVec2::ZERO, offset: *level }
    }

    /// Sums of a share: of those of its points that are nearer to the plane than `clearance` m.
    pub fn sums(&self, share: &Points, clearance: f64) -> Sums {
        let near = share.0.iter().filter(|point| self.above(point.at).abs() < clearance);
        let mut sums = Sums { normal: DMat3::ZERO, right: DVec3::ZERO };
        for point in near {
            let row = DVec3::new(point.at.x, point.at.y, 1.0);
            sums.normal += DMat3::from_cols(row * row.x, row * row.y, row);
            sums.right += row * point.at.z;
        }
        sums
    }

    /// The least-squares plane of these; itself if they are of points on one line.
    pub fn fitted(self, shares: &[Sums]) -> Plane {
        let (mut normal, mut right) = (DMat3::ZERO, DVec3::ZERO);
        for share in shares {
            normal += share.normal;
            right += share.right;
        }
        if normal.determinant().abs() <= 1e-6 {
            return self;
        }
        let solution = normal.inverse() * right;
        Plane { slope: solution.truncate(), offset: solution.z }
    }

    /// Height of a point above it, m.
    pub(super) fn above(&self, point: DVec3) -> f64 {
        point.z - self.slope.dot(point.truncate()) - self.offset
    }
}
