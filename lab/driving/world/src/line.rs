//! A line through the plane with a length: the middle of a lane, the path of a vehicle.
//!
//! The nearest place on a line of many pieces is looked for in the blocks of pieces that can hold
//! it: a circle lies around each block.

use crate::geometry::{Pose, wrapped};
use glam::DVec2;

/// Points nearer than this are one, m: where lanes of a file meet, they meet to a tenth of it, and
/// the way between the two ends would have any direction.
const SAME: f64 = 1e-3;

/// A chain of points, with their distances along it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    points: Vec<DVec2>,
    /// Distances from the first point, m; strictly increasing.
    along: Vec<f64>,
    /// Pieces, each after the point of the same number.
    pieces: Vec<Piece>,
    /// Around this number of pieces each, in their order.
    blocks: Vec<Circle>,
    /// The least and the greatest coordinates of the points.
    bounds: (DVec2, DVec2),
}

/// Piece from a point of a line to the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    /// m.
    length: f64,
    direction: DVec2,
    heading: f64,
    /// The unit vector along the heading: the direction, but for the rounding.
    forward: DVec2,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Circle {
    centre: DVec2,
    radius: f64,
}

/// Pieces of a block.
const BLOCK: usize = 8;

/// Place of a point relative to a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// Distance from the line's first point along it, m.
    pub along: f64,
    /// Distance to the left of it, m.
    pub left: f64,
}

impl Line {
    /// The line through these points; points that repeat the one before them are left out. None
    /// if fewer than two are left, or if one is not finite.
    pub fn new(points: impl IntoIterator<Item = DVec2>) -> Option<Line> {
        let (mut kept, mut along) = (Vec::<DVec2>::new(), Vec::new());
        for point in points {
            if !point.is_finite() {
                return None;
            }
            let end = kept.last().map(|last| point.distance(*last));
            match end {
                None => along.push(0.0),
                Some(step) if step > SAME => along.push(along[along.len() - 1] + step),
                Some(_) => continue,
            }
            kept.push(point);
        }
        (kept.len() > 1).then(|| Line {
            pieces: (1..kept.len()).map(|end| Piece::of(&kept, &along, end)).collect(),
            blocks: (0..kept.len() - 1)
                .step_by(BLOCK)
                .map(|from| Circle::of(&kept, from))
                .collect(),
            bounds: extent(&kept),
            points: kept,
            along,
        })
    }

    /// Its length, m.
    pub fn length(&self) -> f64 {
        self.along.last().copied().unwrap_or(0.0)
    }

    /// Its points.
    pub fn points(&self) -> &[DVec2] {
        &self.points
    }

    /// The least and the greatest coordinates of its points, m.
    pub fn bounds(&self) -> (DVec2, DVec2) {
        self.bounds
    }

    /// The pose on it at a distance from its first point; beyond its ends it goes on straight.
    pub fn pose(&self, along: f64) -> Pose {
        self.pose_on(self.piece(along).0, along)
    }

    fn pose_on(&self, start: usize, along: f64) -> Pose {
        let (from, to) = (self.points[start], self.points[start + 1]);
        let direction = (to - from) / (self.along[start + 1] - self.along[start]);
        let position = from + direction * (along - self.along[start]);
        Pose { position, heading: self.pieces[start].heading }
    }

    /// The unit vector along the line at a distance from its first point: that of
    /// [`Line::pose`].
    pub fn forward(&self, along: f64) -> DVec2 {
        self.piece(along).1.forward
    }

    /// Results of [`Line::pose`] and [`Line::forward`]. The search begins at the piece where the
    /// last search ended, `near`: for callers that go along the line.
    pub fn place(&self, along: f64, near: &mut usize) -> (Pose, DVec2) {
        let mut start = (*near).min(self.pieces.len() - 1);
        while start + 1 < self.pieces.len() && self.along[start + 1] <= along {
            start += 1;
        }
        while start > 0 && self.along[start] > along {
            start -= 1;
        }
        *near = start;
        (self.pose_on(start, along), self.pieces[start].forward)
    }

    fn piece(&self, along: f64) -> (usize, &Piece) {
        let end = self.along.partition_point(|at| *at <= along).clamp(1, self.points.len() - 1);
        (end - 1, &self.pieces[end - 1])
    }

    /// The nearest place on the line; beyond its ends it goes on straight.
    pub fn offset(&self, point: DVec2) -> Offset {
        let far = |circle: &Circle| point.distance(circle.centre);
        // Whatever is farther than this is not the nearest; a little more, for the rounding.
        let reach = self.blocks.iter().map(|circle| far(circle) + circle.radius);
        let reach = reach.fold(f64::INFINITY, f64::min) * (1.0 + 1e-9) + 1e-6;
        let last = self.blocks.len() - 1;
        let mut nearest = self.offset_from(0, point);
        for (block, circle) in self.blocks.iter().enumerate() {
            // The first and the last piece go on for ever.
            if block != 0 && block != last && far(circle) - circle.radius > reach {
                continue;
            }
            let from = block * BLOCK;
            for index in from..(from + BLOCK).min(self.pieces.len()) {
                let found = self.offset_from(index, point);
                if found.0.total_cmp(&nearest.0).is_lt() {
                    nearest = found;
                }
            }
        }
        nearest.1
    }

    /// The nearest place on one piece, and how far away it is.
    fn offset_from(&self, index: usize, point: DVec2) -> (f64, Offset) {
        let Piece { length, direction, .. } = self.pieces[index];
        let from = point - self.points[index];
        let low = if index == 0 { f64::NEG_INFINITY } else { 0.0 };
        let high = if index + 1 == self.pieces.len() { f64::INFINITY } else { length };
        let ahead = from.dot(direction).clamp(low, high);
        let beside = (from - ahead * direction).length();
        let side = direction.perp_dot(from).signum();
        (beside, Offset { along: self.along[index] + ahead, left: side * beside })
    }

    /// Curvature at a distance from its first point, 1/m; positive: to the left. The mean over two
    /// metres.
    pub fn curvature(&self, along: f64) -> f64 {
        let (before, after) = (self.pose(along - 1.0), self.pose(along + 1.0));
        wrapped(after.heading - before.heading) / 2.0
    }
}

impl Piece {
    /// The piece that ends at point `end`.
    fn of(points: &[DVec2], along: &[f64], end: usize) -> Piece {
        let step = points[end] - points[end - 1];
        let length = step.length();
        let heading = (step / (along[end] - along[end - 1])).to_angle();
        Piece { length, direction: step / length, heading, forward: DVec2::from_angle(heading) }
    }
}

impl Circle {
    /// Around the block of pieces from point `from` on.
    fn of(points: &[DVec2], from: usize) -> Circle {
        let points = &points[from..(from + BLOCK + 1).min(points.len())];
        let (low, high) = extent(points);
        let centre = (low + high) / 2.0;
        let far = points.iter().map(|point| point.distance(centre));
        Circle { centre, radius: far.fold(0.0, f64::max) }
    }
}

fn extent(points: &[DVec2]) -> (DVec2, DVec2) {
    let from = (points[0], points[0]);
    points.iter().fold(from, |(low, high), point| (low.min(*point), high.max(*point)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle() -> Line {
        let point = |step: u32| 50.0 * DVec2::from_angle(f64::from(step) / 500.0);
        Line::new((0..=500).map(point)).unwrap()
    }

    #[test]
    fn offset_finds_what_pose_gives() {
        let line = circle();
        for along in [-5.0, 0.0, 0.03, 17.0, 49.9, 60.0] {
            let pose = line.pose(along);
            let offset = line.offset(pose.position + 1.5 * pose.left());
            assert!((offset.along - along).abs() < 0.01, "{along}: {offset:?}");
            assert!((offset.left - 1.5).abs() < 1e-3, "{along}: {offset:?}");
        }
        assert!(line.offset(DVec2::new(51.0, 0.5)).left < 0.0);
    }

    /// Every piece, one after the other.
    fn slow(line: &Line, point: DVec2) -> Offset {
        let all = (0..line.pieces.len()).map(|index| line.offset_from(index, point));
        all.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap().1
    }

    #[test]
    fn blocks_that_are_left_out_do_not_hold_the_nearest_place() {
        let wound = (0..400).map(|step| {
            let turn = f64::from(step) / 20.0;
            (10.0 + 3.0 * turn) * DVec2::from_angle(turn)
        });
        let back = (0..400).map(|step| DVec2::new(f64::from(step % 40), f64::from(step / 40)));
        for line in [circle(), Line::new(wound).unwrap(), Line::new(back).unwrap()] {
            let mut near = 0;
            for step in 0..4_000 {
                let turn = f64::from(step) * 2.4;
                let point = f64::from(step % 90) * DVec2::from_angle(turn);
                assert_eq!(line.offset(point), slow(&line, point), "{point}");
                let along = f64::from(step) * 0.05 - 20.0;
                assert_eq!(line.forward(along), line.pose(along).forward());
                // Forwards, and back.
                for along in [along, 180.0 - along] {
                    let place = (line.pose(along), line.forward(along));
                    assert_eq!(line.place(along, &mut near), place);
                }
            }
        }
    }

    #[test]
    fn circle_has_the_length_and_the_curvature_of_one() {
        let line = circle();
        assert!((line.length() - 50.0).abs() < 1e-3);
        assert!((line.curvature(25.0) - 1.0 / 50.0).abs() < 1e-3);
    }

    #[test]
    fn points_that_make_no_line_are_refused() {
        let here = DVec2::new(1.0, 1.0);
        assert_eq!(Line::new([here, here]), None);
        assert_eq!(Line::new([here, DVec2::new(f64::NAN, 0.0)]), None);
        assert_eq!(Line::new([here, here, DVec2::ZERO]).unwrap().points().len(), 2);
    }
}
