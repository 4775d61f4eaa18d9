//! What stands on the ground, out of one turn of the lidar.
//!
//! Points too far away and those of the ego are dropped; a plane is fitted to the lowest of the
//! rest (after Zermas, Izzat and Papanikolopoulos, 2017) and its points are the ground; what is
//! above it is divided into stems, which are one above the other, and these into clusters that are
//! near one another in the plane and move alike (Euclidean clustering, neighbours from a grid); around each cluster goes the rectangle
//! whose edges are nearest to its points (Zhang, Xu, Dong and Dolan, 2017).

mod doppler;

pub use doppler::Doppler;

use crate::{Checkpoint, Cloud, Stopped, passed};
use doppler::SURE;
use glam::{DMat3, DVec2, DVec3, Vec3};
use std::f64::consts::FRAC_PI_2;
use std::ops::Range;
use world::{Pose, Rectangle};

/// How clouds are divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Segmenter {
    /// Points farther away are dropped, m.
    pub range: f64,
    /// Points nearer to the sensor are the ego's own, m.
    pub own: f64,
    /// The ground ends so far above its plane, m.
    pub clearance: f64,
    /// Points so near to one another belong together, m.
    pub gap: f64,
    /// Beyond the distance where this angle is as wide as `gap`, points this far apart do, rad.
    pub spacing: f64,
    /// Fewer points are no object.
    pub points: usize,
    /// Nor is what is narrower and stands, m: a single column, as on a side that rays meet at a few
    /// degrees.
    pub smallest: f64,
    /// Standard deviation of a return's radial speed, m/s, where the sensor measures it.
    pub doppler: f64,
    /// Directions of rectangle that are tried in a quarter turn.
    pub directions: u32,
}

impl Default for Segmenter {
    /// For [`Lidar::default`](crate::Lidar): two and a half of its columns apart.
    fn default() -> Segmenter {
        Segmenter {
            range: 100.0,
            own: 1.0,
            clearance: 0.25,
            gap: 0.35,
            spacing: 2.5 * std::f64::consts::TAU / 1024.0,
            points: 4,
            smallest: 0.15,
            doppler: 0.05,
            directions: 60,
        }
    }
}

/// Something that stands on the ground: what is seen of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// The corners of the convex hull of its points, counter-clockwise, in the world, m.
    pub hull: Vec<DVec2>,
    /// The rectangle that fits its points best, in the world.
    pub rectangle: Rectangle,
    /// Above the ground, m.
    pub height: f64,
    /// How many points it has.
    pub points: usize,
    /// Its velocity, if the sensor measures speeds.
    pub doppler: Option<Doppler>,
    /// Does something nearer hide what may be beyond its left end and its right one, as the sensor
    /// sees it?
    pub hidden: (bool, bool),
}

/// A point of the cloud.
#[derive(Clone, Copy, Debug)]
struct Return {
    at: DVec3,
    /// Away from the sensor in the plane, m/s; the mean of its stem. NaN if it is not measured.
    speed: f64,
    /// That mean's standard deviation, m/s.
    noise: f64,
}

/// What one column of the sensor sees of a wall.
struct Stem {
    middle: Return,
    /// Their places.
    points: Range<usize>,
}

impl Return {
    fn flat(&self) -> DVec2 {
        self.at.truncate()
    }

    /// How far apart the two may be if they are of one body, where `gap` m is usual. What stands
    /// and what moves is told apart where speeds are but a little different; what drives alike is
    /// one vehicle, also where its side is seen at a few degrees.
    fn reach(&self, other: &Return, gap: f64) -> f64 {
        const LITTLE: f64 = 0.1;
        const MUCH: f64 = 0.3;
        const DRIVES: f64 = 2.5;
        const SIDE: f64 = 1.2;
        let stands = |it: &Return| it.speed.abs() < SURE * it.noise;
        let apart = (self.speed - other.speed).abs();
        // No comparison with what is not measured is true.
        if apart > MUCH || apart > LITTLE && stands(self) != stands(other) {
            return 0.0;
        }
        if self.speed.abs() > DRIVES { gap.max(SIDE) } else { gap }
    }
}

/// The groups of points of a cloud, each of which may be an object.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    found: Vec<Vec<Return>>,
    skyline: Skyline,
}

impl Clusters {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// How many points some of them have, in thousands.
    pub fn points(&self, of: Range<usize>) -> f64 {
        self.found[of].iter().map(Vec::len).sum::<usize>() as f64 / 1000.0
    }
}

impl Segmenter {
    /// What a cloud that was taken at `from` shows; the nearest first. `checkpoint` is called
    /// once for each object.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    pub fn segment(
        &self,
        cloud: &Cloud,
        from: Pose,
        checkpoint: Checkpoint,
    ) -> Result<Vec<Detection>, Stopped> {
        let clusters = self.divide(cloud);
        self.detections(&clusters, 0..clusters.count(), from, checkpoint)
    }

    /// The first half of [`Segmenter::segment`]: the cloud's clusters, those with the nearest
    /// stems first.
    pub fn divide(&self, cloud: &Cloud) -> Clusters {
        let near = self.near(cloud);
        let ground = Plane::of_ground(&near, self.clearance);
        let mut standing: Vec<Return> = near
            .into_iter()
            .map(|point| Return { at: point.at.with_z(ground.above(point.at)), ..point })
            .filter(|point| point.at.z > self.clearance)
            .collect();
        let stems = self.stems(&mut standing);
        let returns = |cluster: Vec<&Stem>| -> Vec<Return> {
            cluster.iter().flat_map(|stem| &standing[stem.points.clone()]).copied().collect()
        };
        let found = self.clusters(&stems).into_iter().map(returns).collect();
        Clusters { found, skyline: Skyline::of(&standing) }
    }

    /// The second half: what some of the clusters are. `checkpoint` is called once for each.
    ///
    /// # Errors
    ///
    /// The checkpoint said to stop.
    pub fn detections(
        &self,
        clusters: &Clusters,
        of: Range<usize>,
        from: Pose,
        checkpoint: Checkpoint,
    ) -> Result<Vec<Detection>, Stopped> {
        let mut found = Vec::new();
        for cluster in &clusters.found[of] {
            passed(checkpoint)?;
            if cluster.len() < self.points {
                continue;
            }
            let detection = self.detection(cluster, &clusters.skyline, from);
            // Who comes out from behind something is a single column at first.
            let comes = detection.hidden != (true, true)
                && detection.doppler.is_some_and(|doppler| doppler.moves());
            if comes || detection.rectangle.length >= self.smallest {
                found.push(detection);
            }
        }
        Ok(found)
    }

    /// What is neither too far away nor the ego's own.
    fn near(&self, cloud: &Cloud) -> Vec<Return> {
        let point = |(index, point): (usize, &Vec3)| {
            let at = point.as_dvec3();
            let flat = at.truncate().length_squared();
            let near = flat <= self.range.powi(2) && flat >= self.own.powi(2);
            near.then(|| {
                let radial = cloud.speeds.get(index).map_or(f64::NAN, |speed| f64::from(*speed));
                let speed = radial * at.length() / flat.sqrt();
                Return { at, speed, noise: self.doppler }
            })
        };
        cloud.points.iter().enumerate().filter_map(point).collect()
    }

    /// Returns one above the other, which follow one another, have their mean speed in the plane.
    /// The nearest first.
    fn stems(&self, points: &mut [Return]) -> Vec<Stem> {
        const SAME: f64 = 0.3;
        const BESIDE: f64 = 0.002;
        let one_stem = |one: &Return, other: &Return| {
            let (one, other) = (one.flat(), other.flat());
            let beside = one.perp_dot(other).abs() / one.length_squared();
            one.distance(other) < SAME && beside < BESIDE
        };
        let (mut stems, mut start) = (Vec::new(), 0);
        for stem in points.chunk_by_mut(one_stem) {
            let count = stem.len() as f64;
            let speed = stem.iter().map(|point| point.speed).sum::<f64>() / count;
            let noise = self.doppler / count.sqrt();
            stem.iter_mut().for_each(|point| (point.speed, point.noise) = (speed, noise));
            let at = stem.iter().map(|point| point.at).sum::<DVec3>() / count;
            let points = start..start + stem.len();
            start = points.end;
            stems.push(Stem { middle: Return { at, speed, noise }, points });
        }
        let far = |stem: &Stem| stem.middle.flat().length_squared();
        stems.sort_by(|one, other| far(one).total_cmp(&far(other)));
        stems
    }

    /// Groups of stems of which each has another one near that moves alike; in the order of their
    /// first stems.
    fn clusters<'s>(&self, stems: &'s [Stem]) -> Vec<Vec<&'s Stem>> {
        let mut grid = Grid::of(stems, self.range, self.gap);
        let mut taken = vec![false; stems.len()];
        let mut clusters = Vec::new();
        for first in 0..stems.len() {
            if taken[first] {
                continue;
            }
            grid.take(stems[first].middle.at, first);
            taken[first] = true;
            let mut cluster = vec![&stems[first]];
            let mut next = 0;
            while let Some(stem) = cluster.get(next) {
                next += 1;
                let gap = self.gap.max(self.spacing * stem.middle.flat().length());
                grid.take_near(&stem.middle, gap, stems, |index| {
                    taken[index] = true;
                    cluster.push(&stems[index]);
                });
            }
            clusters.push(cluster);
        }
        clusters
    }

    fn detection(&self, cluster: &[Return], skyline: &Skyline, from: Pose) -> Detection {
        let flat: Vec<DVec2> = cluster.iter().map(Return::flat).collect();
        let returns = cluster.iter().map(|point| (point.flat().normalize(), point.speed));
        let hidden = skyline.hidden(&flat);
        let rectangle = self.rectangle(&flat);
        let doppler = Doppler::fit(returns, self.doppler, from.heading);
        // Two people who walk side by side would be one who crosses.
        let doppler = doppler.map(|it| if rectangle.length < WIDE { it.narrow() } else { it });
        let hull = hull(flat).into_iter().map(|point| from.point(point.x, point.y)).collect();
        let centre = rectangle.pose.position;
        let pose = Pose {
            position: from.point(centre.x, centre.y),
            heading: from.heading + rectangle.pose.heading,
        };
        let height = cluster.iter().map(|point| point.at.z).fold(0.0, f64::max);
        Detection {
            hull,
            rectangle: Rectangle { pose, ..rectangle },
            height,
            points: cluster.len(),
            doppler,
            hidden,
        }
    }

    /// The rectangle with the most points near its edges.
    fn rectangle(&self, points: &[DVec2]) -> Rectangle {
        // A near car has thousands of points, one above the other.
        const ENOUGH: usize = 250;
        let some: Vec<DVec2> =
            points.iter().step_by(points.len().div_ceil(ENOUGH)).copied().collect();
        let tried = (0..self.directions).map(|step| {
            let angle = f64::from(step) / f64::from(self.directions) * FRAC_PI_2;
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
}

/// What is shorter may be people, m.
const WIDE: f64 = 1.5;

/// The least and the greatest coordinates in axes turned by `angle` rad, m.
pub(crate) fn extent(points: impl Iterator<Item = DVec2>, angle: f64) -> (DVec2, DVec2) {
    let back = DVec2::from_angle(-angle);
    points.fold((DVec2::INFINITY, DVec2::NEG_INFINITY), |(low, high), point| {
        let turned = back.rotate(point);
        (low.min(turned), high.max(turned))
    })
}

/// How near the points are to the nearer edges of the rectangle in this direction around them.
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
fn hull(mut points: Vec<DVec2>) -> Vec<DVec2> {
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

/// z = slope · (x, y) + offset.
struct Plane {
    slope: DVec2,
    offset: f64,
}

impl Plane {
    /// The plane through the lowest points, fitted three times to those nearer to it than
    /// `clearance` m.
    fn of_ground(points: &[Return], clearance: f64) -> Plane {
        let mut lowest: Vec<f64> = points.iter().map(|point| point.at.z).collect();
        if lowest.is_empty() {
            return Plane { slope: DVec2::ZERO, offset: 0.0 };
        }
        let decile = lowest.len() / 10;
        let (_, level, _) = lowest.select_nth_unstable_by(decile, f64::total_cmp);
        let mut plane = Plane { slope: DVec2::ZERO, offset: *level };
        for _ in 0..3 {
            let places = points.iter().map(|point| point.at);
            let near = places.filter(|point| plane.above(*point).abs() < clearance);
            plane = Plane::through(near).unwrap_or(plane);
        }
        plane
    }

    /// The least-squares plane; none if the points are on one line.
    fn through(points: impl Iterator<Item = DVec3>) -> Option<Plane> {
        let (mut normal, mut right) = (DMat3::ZERO, DVec3::ZERO);
        for point in points {
            let row = DVec3::new(point.x, point.y, 1.0);
            normal += DMat3::from_cols(row * row.x, row * row.y, row);
            right += row * point.z;
        }
        let solution = (normal.determinant().abs() > 1e-6).then(|| normal.inverse() * right)?;
        Some(Plane { slope: solution.truncate(), offset: solution.z })
    }

    fn above(&self, point: DVec3) -> f64 {
        point.z - self.slope.dot(point.truncate()) - self.offset
    }
}

/// The distance of the nearest return in each direction, m.
#[derive(Clone, Debug, Default)]
struct Skyline {
    nearest: Vec<f64>,
}

impl Skyline {
    const COLUMNS: usize = 1024;

    fn of(standing: &[Return]) -> Skyline {
        let mut nearest = vec![f64::INFINITY; Skyline::COLUMNS];
        for point in standing {
            let column = &mut nearest[Skyline::column(point.flat())];
            *column = column.min(point.flat().length());
        }
        Skyline { nearest }
    }

    fn column(at: DVec2) -> usize {
        let turn = at.to_angle() / std::f64::consts::TAU;
        (turn * Skyline::COLUMNS as f64).round().rem_euclid(Skyline::COLUMNS as f64) as usize
            % Skyline::COLUMNS
    }

    /// Does something nearer stand beside the outermost points of a cluster, to the left and to the
    /// right?
    fn hidden(&self, points: &[DVec2]) -> (bool, bool) {
        const NEARER: f64 = 0.5;
        let middle = points.iter().sum::<DVec2>();
        let turn = |point: &&DVec2| middle.angle_to(**point);
        let order = |one: &&DVec2, other: &&DVec2| turn(one).total_cmp(&turn(other));
        let hides = |end: Option<&DVec2>, side: isize| {
            let end = *end.unwrap_or(&middle);
            let beside = |far: isize| {
                let column = Skyline::column(end) as isize + side * far;
                self.nearest[column.rem_euclid(Skyline::COLUMNS as isize) as usize]
            };
            beside(1).min(beside(2)) < end.length() - NEARER
        };
        (hides(points.iter().max_by(order), 1), hides(points.iter().min_by(order), -1))
    }
}

/// Stems that are not in a cluster yet, by square cells.
struct Grid {
    cells: Vec<Vec<usize>>,
    side: usize,
    range: f64,
    cell: f64,
}

impl Grid {
    fn of(stems: &[Stem], range: f64, cell: f64) -> Grid {
        let side = (2.0 * range / cell).ceil() as usize + 1;
        let mut grid = Grid { cells: vec![Vec::new(); side * side], side, range, cell };
        for (index, stem) in stems.iter().enumerate() {
            let (column, row) = grid.cell_of(stem.middle.at);
            grid.cells[row * side + column].push(index);
        }
        grid
    }

    fn cell_of(&self, point: DVec3) -> (usize, usize) {
        let cell = |at: f64| (((at + self.range) / self.cell) as usize).min(self.side - 1);
        (cell(point.x), cell(point.y))
    }

    fn take(&mut self, point: DVec3, index: usize) {
        let (column, row) = self.cell_of(point);
        self.cells[row * self.side + column].retain(|other| *other != index);
    }

    /// Takes out what is of one body with `point`, where `gap` m between stems are usual.
    fn take_near(
        &mut self,
        point: &Return,
        gap: f64,
        stems: &[Stem],
        mut found: impl FnMut(usize),
    ) {
        let (column, row) = self.cell_of(point.at);
        let farthest = point.reach(point, gap);
        let (last, cells) = (self.side - 1, (farthest / self.cell).ceil() as usize);
        for row in row.saturating_sub(cells)..=(row + cells).min(last) {
            for column in column.saturating_sub(cells)..=(column + cells).min(last) {
                self.cells[row * self.side + column].retain(|index| {
                    let other = &stems[*index].middle;
                    let apart = other.flat().distance_squared(point.flat());
                    let near =
                        apart <= farthest * farthest && apart <= point.reach(other, gap).powi(2);
                    if near {
                        found(*index);
                    }
                    !near
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lidar;
    use std::ops::ControlFlow;
    use world::{Body, Kind};

    fn body(id: u32, kind: Kind, pose: Pose, length: f64, width: f64) -> Body {
        Body { id, kind, pose, speed: 0.0, acceleration: 0.0, length, width }
    }

    fn segment(from: Pose, bodies: &[Body]) -> Vec<Detection> {
        let cloud = Lidar::default().scan(from, bodies, 1);
        Segmenter::default().segment(&cloud, from, &mut || ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn an_empty_road_has_nothing_on_it() {
        assert_eq!(segment(Pose::new(5.0, 3.0, 1.0), &[]), []);
    }

    #[test]
    fn a_car_is_seen_as_far_away_as_is_safe_behind_it_on_a_fast_road() {
        // At 25 m/s behind one as fast the assumptions of ad-rss ask for 89 m.
        let from = Pose::new(0.0, 0.0, 0.0);
        let car = body(1, Kind::Car, Pose::new(95.0, 0.0, 0.0), 4.5, 1.8);
        let seen = (0..20).filter(|turn| {
            let cloud = Lidar::default().scan(from, &[car], *turn);
            let go = &mut || ControlFlow::Continue(());
            !Segmenter::default().segment(&cloud, from, go).unwrap().is_empty()
        });
        assert!(seen.count() >= 18);
    }

    #[test]
    fn visible_bodies_are_the_clusters_and_hidden_ones_are_none() {
        let from = Pose::new(100.0, 50.0, 0.4);
        let at = |ahead: f64, left: f64, turn: f64| Pose {
            position: from.point(ahead, left),
            heading: from.heading + turn,
        };
        let lorry = body(1, Kind::Truck, at(15.0, 0.0, 0.0), 9.0, 2.5);
        let hidden = body(2, Kind::Car, at(30.0, 0.0, 0.0), 4.5, 1.8);
        let visible = [
            lorry,
            body(3, Kind::Car, at(12.0, 4.5, 0.0), 4.5, 1.8),
            body(4, Kind::Car, at(40.0, 25.0, 1.2), 4.5, 1.8),
            body(5, Kind::Pedestrian, at(20.0, -6.0, 0.0), 0.5, 0.5),
            body(6, Kind::Cyclist, at(-20.0, 6.0, 0.0), 1.8, 0.6),
            body(7, Kind::Obstacle, at(-9.0, -4.0, 2.0), 4.2, 1.7),
        ];
        let bodies: Vec<Body> = visible.iter().copied().chain([hidden]).collect();
        let found = segment(from, &bodies);
        let rectangles: Vec<Rectangle> = found.iter().map(|found| found.rectangle).collect();
        assert_eq!(found.len(), visible.len(), "{rectangles:?}");
        for body in visible {
            let around = Rectangle {
                length: body.length + 0.3,
                width: body.width + 0.3,
                ..body.footprint()
            };
            let of: Vec<_> = found
                .iter()
                .filter(|found| {
                    found.hull.iter().all(|corner| {
                        let local = around.pose.local(*corner).abs();
                        local.x <= around.length / 2.0 && local.y <= around.width / 2.0
                    })
                })
                .collect();
            assert_eq!(of.len(), 1, "{body:?}");
            // The highest row rises by 2°.
            let distance = from.position.distance(body.pose.position) - body.length / 2.0;
            let top = crate::lidar::height(body.kind).min(1.9 + 0.035 * distance);
            assert!((of[0].height - top).abs() < 0.2, "{top} m: {of:?}");
        }
    }

    #[test]
    fn the_rectangle_of_two_seen_sides_has_the_direction_of_the_body() {
        let car = body(1, Kind::Car, Pose::new(12.0, 6.0, 1.2), 4.5, 1.8);
        let found = segment(Pose::default(), &[car]);
        let rectangle = found[0].rectangle;
        let turn = (rectangle.pose.heading - 1.2).rem_euclid(std::f64::consts::PI);
        let turn = turn.min(std::f64::consts::PI - turn);
        assert!(turn < 0.06, "{rectangle:?}");
        assert!((rectangle.length - 4.5).abs() < 0.25, "{rectangle:?}");
        assert!((rectangle.width - 1.8).abs() < 0.25, "{rectangle:?}");
    }

    #[test]
    fn a_slope_is_ground() {
        // A plane that rises by 3 % ahead, with a post of 20 cm by 1 m on it.
        let plane = |x: f64, y: f64| DVec3::new(x, y, -1.9 + 0.03 * x).as_vec3();
        let steps = (-40..40).flat_map(|x| (-40..40).map(move |y| (f64::from(x), f64::from(y))));
        let mut points: Vec<_> = steps.map(|(x, y)| plane(x, y)).collect();
        for side in [4.9, 5.1] {
            points.extend((3..10).map(|up| plane(30.0, side) + glam::Vec3::Z * (up as f32 / 10.0)));
        }
        let cloud = Cloud { points, ..Cloud::default() };
        let found = Segmenter::default()
            .segment(&cloud, Pose::default(), &mut || ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].rectangle.pose.position.distance(DVec2::new(30.0, 5.0)) < 0.01);
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let car = |id: u32, y: f64| body(id, Kind::Car, Pose::new(12.0, y, 0.0), 4.5, 1.8);
        let cloud = Lidar::default().scan(Pose::default(), &[car(1, 6.0), car(2, -6.0)], 1);
        let mut left = 1;
        let stopped = Segmenter::default().segment(&cloud, Pose::default(), &mut || {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(stopped, Err(Stopped));
    }

    #[test]
    fn who_walks_beside_what_stands_is_told_apart_by_his_speed() {
        let from = Pose::default();
        let parked = body(1, Kind::Obstacle, Pose::new(14.0, -3.0, 0.0), 4.5, 1.8);
        let mut walker = body(2, Kind::Pedestrian, Pose::new(11.55, -2.6, FRAC_PI_2), 0.3, 0.2);
        walker.speed = 1.4;
        let cloud = Lidar::default().scan(from, &[parked, walker], 1);
        let segment = |cloud: &Cloud| {
            let go = &mut || ControlFlow::Continue(());
            Segmenter::default().segment(cloud, from, go).unwrap()
        };
        let found = segment(&cloud);
        let moving: Vec<&Detection> =
            found.iter().filter(|found| found.doppler.is_some_and(|it| it.moves())).collect();
        assert_eq!(moving.len(), 1, "{found:?}");
        assert!(moving[0].rectangle.length < 0.8, "{found:?}");
        let doppler = moving[0].doppler.unwrap();
        let expected = 1.4 * DVec2::Y.dot(doppler.along);
        assert!((doppler.speeds.x - expected).abs() < 0.06, "{doppler:?}");
        let plain = segment(&Cloud { points: cloud.points.clone(), ..Cloud::default() });
        assert!(plain.len() < found.len(), "he is a part of the car: {plain:?}");
        assert!(plain.iter().all(|found| found.doppler.is_none()));
    }

    #[test]
    fn the_end_beside_which_something_nearer_stands_is_hidden() {
        let before = body(1, Kind::Car, Pose::new(10.0, -2.6, 0.0), 4.5, 1.8);
        let behind = body(2, Kind::Obstacle, Pose::new(22.0, -3.5, FRAC_PI_2), 4.5, 1.8);
        let found = segment(Pose::default(), &[before, behind]);
        let hidden: Vec<(bool, bool)> = found.iter().map(|found| found.hidden).collect();
        assert_eq!(hidden, [(false, false), (false, true)], "{found:?}");
    }
}
