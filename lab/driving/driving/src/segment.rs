//! Segmentation: objects that stand on the ground, from one turn of the lidar.
//!
//! Points too far away and those of the ego are dropped; a plane is fitted to the lowest of the
//! rest (after Zermas, Izzat and Papanikolopoulos, 2017) and its points are the ground; what is
//! above it is divided into stems, which are one above the other, and these into clusters that are
//! near one another in the plane and move alike (Euclidean clustering, neighbours from a grid);
//! around each cluster goes the rectangle whose edges are nearest to its points (Zhang, Xu, Dong and
//! Dolan, 2017).
//!
//! Most of it is done share by share, and cluster by cluster: by one core, or by several at the same
//! time, with the same result to the last digit.

mod doppler;
mod grid;
mod ground;
mod shape;
mod skyline;

pub use doppler::Doppler;
pub use ground::{Plane, Sums};
pub(crate) use shape::extent;

use crate::lidar::RANGE;
use crate::network::Scores;
use crate::{Checkpoint, Cloud, Stopped, passed};
use doppler::SURE;
use glam::{DVec2, DVec3, Vec3};
use grid::Grid;
use serde::{Deserialize, Serialize};
use shape::{ENOUGH, hull, rectangle};
use skyline::Skyline;
use std::ops::Range;
use std::sync::Arc;
use world::{Kind, Pose, Rectangle};

/// Parameters of segmentation: how clouds are divided.
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
    /// Fewer points are no object, unless they move.
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
    /// Segmenter for [`Lidar::default`](crate::Lidar): two and a half of its columns apart.
    fn default() -> Segmenter {
        Segmenter {
            range: RANGE,
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

/// Least number of points of an object that certainly moves.
const MOVING: usize = 2;

/// Something that stands on the ground: what is seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// The corners of the convex hull of its points, counter-clockwise, in the world, m.
    pub hull: Vec<DVec2>,
    /// The rectangle that fits its points best, in the world.
    pub rectangle: Rectangle,
    /// Above the ground, m.
    pub height: f64,
    /// Number of its points.
    pub points: usize,
    /// Its velocity, if the sensor measures speeds.
    pub doppler: Option<Doppler>,
    /// Does something nearer hide what may be beyond its left end and its right one, as the sensor
    /// sees it?
    pub hidden: (bool, bool),
    /// Class that the network gives it; none: there is no network, or it did not answer.
    pub class: Option<Kind>,
}

/// A point of the cloud.
#[derive(Clone, Copy, Debug)]
struct Return {
    at: DVec3,
    /// Away from the sensor in the plane, m/s; the mean of its stem. NaN if it is not measured.
    speed: f64,
    /// Standard deviation of that mean, m/s.
    noise: f64,
}

/// Some of a cloud's points.
#[derive(Clone, Debug)]
pub struct Points(Arc<Vec<Return>>);

impl Points {
    /// Number of points, in thousands.
    pub fn thousands(&self) -> f64 {
        self.0.len() as f64 / 1000.0
    }
}

/// Points that stand on the ground, of a share of a cloud's points.
#[derive(Clone, Debug)]
pub struct Standing(Arc<Stood>);

#[derive(Debug)]
struct Stood {
    points: Vec<Return>,
    stems: Vec<Stem>,
    skyline: Skyline,
}

/// Part of a wall that one column of the sensor sees, in one share.
#[derive(Clone, Copy, Debug)]
struct Stem {
    middle: Return,
    /// Number of the share that its points are in.
    share: usize,
    /// Their places there, from the first to before the second.
    points: (usize, usize),
}

impl Return {
    fn flat(&self) -> DVec2 {
        self.at.truncate()
    }

    /// Largest distance between the two if they are of one body, where `gap` m is usual. A standing
    /// and a moving return are told apart where speeds are but a little different; returns that
    /// drive alike are one vehicle, also where its side is seen at a few degrees.
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
    shares: Vec<Standing>,
    found: Vec<Cluster>,
    skyline: Skyline,
    /// Scores of the network.
    scores: Option<Arc<Scores>>,
}

#[derive(Clone, Debug)]
struct Cluster {
    stems: Vec<Stem>,
    /// Number of points in these.
    points: usize,
}

impl Clusters {
    /// Number of clusters.
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// These, of the classes that a network says.
    pub fn scored(self, scores: Option<Arc<Scores>>) -> Clusters {
        Clusters { scores, ..self }
    }

    fn returns(&self, cluster: &Cluster) -> Vec<Return> {
        let points_of =
            |stem: &Stem| &self.shares[stem.share].0.points[stem.points.0..stem.points.1];
        cluster.stems.iter().flat_map(points_of).copied().collect()
    }

    /// Number of points of some of them, in thousands; and the number of these that decide about
    /// rectangles, which takes most of the time.
    pub fn points(&self, of: Range<usize>) -> [f64; 2] {
        let sum = |most: usize| self.found[of.clone()].iter().map(|it| it.points.min(most)).sum();
        [usize::MAX, ENOUGH].map(|most| {
            let sum: usize = sum(most);
            sum as f64 / 1000.0
        })
    }

    /// All clusters, in pieces of about equal work.
    pub fn pieces(&self) -> Vec<Range<usize>> {
        const MOST: usize = 8;
        const WORK: usize = 2 * ENOUGH;
        let (mut pieces, mut from, mut work) = (Vec::new(), 0, 0);
        for (index, cluster) in self.found.iter().enumerate() {
            let own = cluster.points.min(ENOUGH);
            if index > from && (work + own > WORK || index - from == MOST) {
                pieces.push(from..index);
                (from, work) = (index, 0);
            }
            work += own;
        }
        if from < self.found.len() {
            pieces.push(from..self.found.len());
        }
        pieces
    }
}

impl Segmenter {
    /// Objects that a cloud taken at `from` shows; the nearest first. `checkpoint` is called once
    /// for each object.
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
        self.group(&self.raised(cloud))
    }

    /// Points that stand on the ground, in shares: [`Segmenter::near`] of each share, then the
    /// plane of these, then [`Segmenter::standing`] on it of each share.
    pub fn raised(&self, cloud: &Cloud) -> Vec<Standing> {
        let near: Vec<Points> = shares(cloud).map(|share| self.near(cloud, share)).collect();
        let mut ground = Plane::level(&near);
        for _ in 0..FITS {
            let sums = near.iter().map(|share| ground.sums(share, self.clearance));
            ground = ground.fitted(&sums.collect::<Vec<_>>());
        }
        near.iter().map(|share| self.standing(share, &ground)).collect()
    }

    /// Clusters of what stands on the ground, of all shares.
    pub fn group(&self, shares: &[Standing]) -> Clusters {
        let standing_at = |(share, standing): (usize, &Standing)| {
            standing.0.stems.iter().map(|stem| Stem { share, ..*stem }).collect::<Vec<_>>()
        };
        let mut stems: Vec<Stem> = shares.iter().enumerate().flat_map(standing_at).collect();
        let far = |stem: &Stem| stem.middle.flat().length_squared();
        stems.sort_by(|one, other| far(one).total_cmp(&far(other)));
        let skyline = Skyline::all(shares.iter().map(|share| &share.0.skyline));
        let found = self.clusters(&stems);
        Clusters { shares: shares.to_vec(), found, skyline, scores: None }
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
            if cluster.points < MOVING {
                continue;
            }
            let returns = clusters.returns(cluster);
            let mut detection = self.detection(&returns, &clusters.skyline, from);
            let scores = clusters.scores.as_ref();
            detection.class = scores.and_then(|it| it.class(returns.iter().map(Return::flat)));
            // An object that comes out from behind something is a single column at first, and one
            // that is far away has few points.
            let comes = detection.hidden != (true, true)
                && detection.doppler.is_some_and(|doppler| doppler.moves());
            let stands = cluster.points >= self.points;
            if comes || stands && detection.rectangle.length >= self.smallest {
                found.push(detection);
            }
        }
        Ok(found)
    }

    /// Points of a share of the cloud that are neither too far away nor the ego's own.
    pub fn near(&self, cloud: &Cloud, share: Range<usize>) -> Points {
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
        let points = (share.start..).zip(&cloud.points[share]);
        Points(Arc::new(points.filter_map(point).collect()))
    }

    /// Points of a share that stand on the ground, with their height above it, and their stems,
    /// none of which is in two shares.
    pub fn standing(&self, share: &Points, ground: &Plane) -> Standing {
        let height =
            |point: &Return| Return { at: point.at.with_z(ground.above(point.at)), ..*point };
        let above = share.0.iter().map(height).filter(|point| point.at.z > self.clearance);
        let mut points: Vec<Return> = above.collect();
        let stems = self.stems(&mut points);
        let skyline = Skyline::of(&points);
        Standing(Arc::new(Stood { points, stems, skyline }))
    }

    /// Returns one above the other, which follow one another, have their mean speed in the plane.
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
            let points = (start, start + stem.len());
            start = points.1;
            stems.push(Stem { middle: Return { at, speed, noise }, share: 0, points });
        }
        stems
    }

    /// Groups of stems of which each has another one near that moves alike; in the order of their
    /// first stems.
    fn clusters(&self, stems: &[Stem]) -> Vec<Cluster> {
        let mut grid = Grid::of(stems, self.range, self.gap);
        let mut taken = vec![false; stems.len()];
        let mut clusters = Vec::new();
        for first in 0..stems.len() {
            if taken[first] {
                continue;
            }
            grid.take(stems[first].middle.at, first);
            taken[first] = true;
            let mut cluster = vec![stems[first]];
            let mut next = 0;
            while let Some(stem) = cluster.get(next).copied() {
                next += 1;
                let gap = self.gap.max(self.spacing * stem.middle.flat().length());
                grid.take_near(&stem.middle, gap, stems, |index| {
                    taken[index] = true;
                    cluster.push(stems[index]);
                });
            }
            let points = cluster.iter().map(|stem| stem.points.1 - stem.points.0).sum();
            clusters.push(Cluster { stems: cluster, points });
        }
        clusters
    }

    fn detection(&self, cluster: &[Return], skyline: &Skyline, from: Pose) -> Detection {
        let flat: Vec<DVec2> = cluster.iter().map(Return::flat).collect();
        let returns = cluster.iter().map(|point| (point.flat().normalize(), point.speed));
        let hidden = skyline.hidden(&flat);
        let rectangle = rectangle(&flat, self.directions);
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
            class: None,
        }
    }
}

/// Number of times that the plane of the ground is fitted.
pub const FITS: usize = 3;

/// The points of a cloud in shares.
pub fn shares(cloud: &Cloud) -> impl Iterator<Item = Range<usize>> {
    const SHARE: usize = 8192;
    let count = cloud.points.len();
    (0..count).step_by(SHARE).map(move |from| from..(from + SHARE).min(count))
}

/// Length below which an object may be people, m.
const WIDE: f64 = 1.5;

#[cfg(test)]
mod segment_tests;
