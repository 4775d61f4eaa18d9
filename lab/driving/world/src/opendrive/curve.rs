//! Reference lines: geometries one after the other.

use crate::geometry::Pose;
use glam::DVec2;

/// Geometry of a reference line.
pub(super) struct Geometry {
    /// Start of the geometry along the line, m.
    pub start: f64,
    /// m.
    pub length: f64,
    /// Its pose there.
    pub pose: Pose,
    /// Its shape from there on.
    pub shape: Shape,
}

/// Shape of a geometry from its pose on.
pub(super) enum Shape {
    /// Straight.
    Line,
    /// Arc with a constant curvature, 1/m.
    Arc(f64),
    /// Clothoid (Euler's spiral), whose curvature changes evenly.
    Spiral(Spiral),
    /// Two cubic polynomials, along the pose and to its left.
    Cubic {
        /// Coefficients of the way along, from the constant one.
        along: [f64; 4],
        /// Coefficients of the way to the left.
        left: [f64; 4],
        /// Value of the parameter at the end; at the beginning it is 0.
        range: f64,
    },
}

impl Geometry {
    /// Must it be sampled between its ends?
    pub(super) fn bends(&self) -> bool {
        !matches!(self.shape, Shape::Line | Shape::Arc(0.0))
    }

    /// The pose at a distance from the geometry's beginning, m.
    pub(super) fn at(&self, along: f64) -> Pose {
        let (offset, turn) = match &self.shape {
            Shape::Line => (DVec2::new(along, 0.0), 0.0),
            Shape::Arc(curvature) => (arc(*curvature, along), curvature * along),
            Shape::Spiral(spiral) => spiral.at(along),
            Shape::Cubic { along: u, left: v, range } => {
                let parameter = along / self.length * range;
                let slope = DVec2::new(derivative(u, parameter), derivative(v, parameter));
                let turn = if slope == DVec2::ZERO { 0.0 } else { libm::atan2(slope.y, slope.x) };
                (DVec2::new(cubic(u, parameter), cubic(v, parameter)), turn)
            }
        };
        let forward = direction(self.pose.heading);
        let position = self.pose.position + offset.x * forward + offset.y * forward.perp();
        Pose { position, heading: self.pose.heading + turn }
    }
}

/// The unit vector of an angle.
pub(super) fn direction(angle: f64) -> DVec2 {
    DVec2::new(libm::cos(angle), libm::sin(angle))
}

/// `a + b x + c x² + d x³`
pub(super) fn cubic(coefficients: &[f64; 4], x: f64) -> f64 {
    let [a, b, c, d] = coefficients;
    a + x * (b + x * (c + x * d))
}

fn derivative(coefficients: &[f64; 4], x: f64) -> f64 {
    let [_, b, c, d] = coefficients;
    b + x * (2.0 * c + x * 3.0 * d)
}

fn arc(curvature: f64, along: f64) -> DVec2 {
    if curvature == 0.0 {
        return DVec2::new(along, 0.0);
    }
    let half = libm::sin(curvature * along / 2.0);
    DVec2::new(libm::sin(curvature * along), 2.0 * half * half) / curvature
}

/// An Euler spiral from the origin along x. Its way is the integral of the direction, taken over
/// panels of at most [`PANEL`] by Gauss and Legendre's rule with five points.
pub(super) struct Spiral {
    start: f64,
    /// Change of curvature, 1/m².
    rate: f64,
    panel: f64,
    /// The positions at the panels' ends.
    knots: Vec<DVec2>,
}

/// m. With curvatures up to 10 1/m the rule's error is far below a micrometre.
const PANEL: f64 = 0.5;

const NODES: [(f64, f64); 5] = [
    (-0.906_179_845_938_664, 0.236_926_885_056_189_1),
    (-0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
    (0.0, 0.568_888_888_888_888_9),
    (0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
    (0.906_179_845_938_664, 0.236_926_885_056_189_1),
];

impl Spiral {
    /// Spiral from one curvature to another, 1/m, over a length above 0, m.
    pub(super) fn new(start: f64, end: f64, length: f64) -> Spiral {
        let panels = (length / PANEL).ceil().max(1.0);
        let (rate, panel) = ((end - start) / length, length / panels);
        let mut spiral = Spiral { start, rate, panel, knots: vec![DVec2::ZERO] };
        for index in 0..panels as usize {
            let from = index as f64 * panel;
            let next = spiral.knots[index] + spiral.way(from, from + panel);
            spiral.knots.push(next);
        }
        spiral
    }

    fn turn(&self, along: f64) -> f64 {
        along * (self.start + along * self.rate / 2.0)
    }

    fn way(&self, from: f64, to: f64) -> DVec2 {
        let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
        let terms = NODES.map(|(node, weight)| weight * direction(self.turn(middle + half * node)));
        half * terms.into_iter().sum::<DVec2>()
    }

    fn at(&self, along: f64) -> (DVec2, f64) {
        let knot = ((along / self.panel) as usize).min(self.knots.len() - 1);
        (self.knots[knot] + self.way(knot as f64 * self.panel, along), self.turn(along))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::FRAC_PI_2;

    fn geometry(shape: Shape, length: f64) -> Geometry {
        Geometry { start: 0.0, length, pose: Pose::default(), shape }
    }

    #[test]
    fn quarter_of_a_circle_ends_beside_its_centre() {
        let arc = geometry(Shape::Arc(1.0 / 20.0), 20.0 * FRAC_PI_2);
        let end = arc.at(arc.length);
        assert!((end.position - DVec2::new(20.0, 20.0)).length() < 1e-12, "{end:?}");
        assert!((end.heading - FRAC_PI_2).abs() < 1e-12, "{end:?}");
    }

    #[test]
    fn spiral_with_equal_ends_is_an_arc_and_a_real_one_has_fresnels_values() {
        let (spiral, arc) = (Spiral::new(-0.1, -0.1, 30.0), geometry(Shape::Arc(-0.1), 30.0));
        let spiral = geometry(Shape::Spiral(spiral), 30.0);
        for along in [0.0, 0.3, 7.0, 29.9, 30.0] {
            let (one, other) = (spiral.at(along), arc.at(along));
            assert!((one.position - other.position).length() < 1e-9, "{along}: {one:?} {other:?}");
        }
        // With curvature pi s: the Fresnel integrals C(1) and S(1), from tables.
        let fresnel = geometry(Shape::Spiral(Spiral::new(0.0, std::f64::consts::PI, 1.0)), 1.0);
        let end = fresnel.at(1.0);
        assert!((end.position.x - 0.779_893_400_376_822_8).abs() < 1e-9, "{end:?}");
        assert!((end.position.y - 0.438_259_147_390_354_8).abs() < 1e-9, "{end:?}");
        assert!((end.heading - FRAC_PI_2).abs() < 1e-12, "{end:?}");
    }

    #[test]
    fn cubics_are_evaluated_over_their_range() {
        // A parabola y = x²/20 over 10 m of x, once by a parameter up to 1 and once up to 10.
        let one =
            Shape::Cubic { along: [0.0, 10.0, 0.0, 0.0], left: [0.0, 0.0, 5.0, 0.0], range: 1.0 };
        let ten =
            Shape::Cubic { along: [0.0, 1.0, 0.0, 0.0], left: [0.0, 0.0, 0.05, 0.0], range: 10.0 };
        for shape in [one, ten] {
            let middle = geometry(shape, 11.5).at(5.75);
            assert!((middle.position - DVec2::new(5.0, 1.25)).length() < 1e-12, "{middle:?}");
            assert!((middle.heading - 0.5_f64.atan()).abs() < 1e-12, "{middle:?}");
        }
    }
}
