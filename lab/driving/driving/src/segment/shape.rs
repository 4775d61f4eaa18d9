//! Around points: their convex hull, and the rectangle whose edges are nearest to them (Zhang, Xu,
//! Dong and Dolan, 2017).

use glam::DVec2;
use std::f64::consts::FRAC_PI_2;
use world::{Pose, Rectangle};

/// Number of points, or up to twice as many, that decide the direction of a rectangle.
pub(super) const ENOUGH: usize = 250;

/// The rectangle with the most points near its edges.
pub(super) fn rectangle(points: &[DVec2], directions: u32) -> Rectangle {
    // A near car has thousands of points, one above the other.
    let some: Vec<DVec2> = points.iter().step_by(points.len().div_ceil(ENOUGH)).copied().collect();
    let tried = (0..directions).map(|step| {
        let angle = f64::from(step) / f64::from(directions) * FRAC_PI_2;
        (closeness(&some, angle), angle)
    });
    let (_, angle) = tried
        .fold((f64::NEG_INFINITY, 0.0), |best, this| if this.0 > best.0 { this } else { best });
    let (low, high) = extent(points.iter().copied(), angle);
    let size = high - low;
    let middle = DVec2::from_angle(angle).rotate((low + high) / 2.0);
    let (turn, length, width) =
        if size.x >= size.y { (0.0, size.x, size.y) } else { (FRAC_PI_2, size.y, size.x) };
    let pose = Pose { position: middle, heading: angle + turn };
    Rectangle { pose, length, width }
}

/// The least and the greatest coordinates in axes turned by `angle` rad, m.
pub(crate) fn extent(points: impl Iterator<Item = DVec2>, angle: f64) -> (DVec2, DVec2) {
    let back = DVec2::from_angle(-angle);
    points.fold((DVec2::INFINITY, DVec2::NEG_INFINITY), |(low, high), point| {
        let turned = back.rotate(point);
        (low.min(turned), high.max(turned))
    })
}

/// Nearness of the points to the nearer edges of the rectangle in this direction around them.
fn closeness(points: &[DVec2], angle: f64) -> f64 {
    const NEAREST: f64 = 0.05;
    let back = DVec2::from_angle(-angle);
    let (low, high) = extent(points.iter().copied(), angle);
    let near = |point: &DVec2| {
        let turned = back.rotate(*point);
        let edge = (turned - low).min(high - turned);
        1.0 / edge.x.min(edge.y).max(NEAREST)
    };
    points.iter().map(near).sum()
}

/// The convex hull, counter-clockwise (Andrew's monotone chain).
pub(super) fn hull(mut points: Vec<DVec2>) -> Vec<DVec2> {
    points.sort_by(|one, other| one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y)));
    let mut corners: Vec<DVec2> = Vec::new();
    let half = |points: &mut dyn Iterator<Item = DVec2>, corners: &mut Vec<DVec2>| {
        let start = corners.len();
        for point in points {
            while let [.., before, last] = corners[start..] {
                if (last - before).perp_dot(point - last) > 0.0 {
                    break;
                }
                corners.pop();
            }
            corners.push(point);
        }
        corners.pop();
    };
    half(&mut points.iter().copied(), &mut corners);
    half(&mut points.iter().rev().copied(), &mut corners);
    if corners.is_empty() { points.into_iter().take(1).collect() } else { corners }
}
