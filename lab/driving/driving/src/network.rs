//! A network that says what stands where: the grid that it takes, the scores that it gives, and the
//! service of an accelerator server that computes it.
//!
//! The grid is the lidar's scan from above. A cell has of the points in it that are above the ground
//! how many there are, how high the highest is, and the mean and the spread of their radial speeds.
//! The network gives each cell a score for each class; what a cluster is, is the class with the
//! greatest sum over its points' cells.

use crate::Cloud;
use accel::{CallbackId, Client, Registration, Request};
use glam::DVec2;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use world::Kind;

/// Cells along and across.
pub const SIDE: usize = 192;
/// A cell's edge, m.
pub const CELL: f64 = 0.5;
/// Numbers of a cell: log(1 + points), height in m, mean radial speed in 10 m/s, its standard
/// deviation in 10 m/s, distance in 50 m.
pub const CHANNELS: usize = 5;
/// Classes of the scores, after the background.
pub const CLASSES: [Kind; 4] = [Kind::Car, Kind::Truck, Kind::Cyclist, Kind::Pedestrian];

const CELLS: usize = SIDE * SIDE;
const INPUT_BYTES: usize = 4 * CHANNELS * CELLS;
const OUTPUT_BYTES: usize = 4 * (CLASSES.len() + 1) * CELLS;
/// The sensor is so far above the ground, m ([`Lidar::default`](crate::Lidar)).
const SENSOR: f64 = 1.9;
/// Height below which a point is ground, m.
const CLEARANCE: f64 = 0.25;
/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_millis(200);

/// The cell that a point lies in, m ahead and to the left of the sensor; none outside the grid.
pub fn cell(point: DVec2) -> Option<usize> {
    let place = (point / CELL + SIDE as f64 / 2.0).floor();
    let inside = place.cmpge(DVec2::ZERO).all() && place.cmplt(DVec2::splat(SIDE as f64)).all();
    inside.then(|| place.x as usize * SIDE + place.y as usize)
}

/// A cloud as the network takes it: by channel, by cell ahead, by cell to the left.
pub fn grid(cloud: &Cloud) -> Vec<f32> {
    let mut grid = vec![0.0_f32; CHANNELS * CELLS];
    let (mut counts, mut sums) = (vec![0_u32; CELLS], vec![[0.0_f32; 2]; CELLS]);
    for (index, point) in cloud.points.iter().enumerate() {
        let height = f64::from(point.z) + SENSOR;
        let Some(cell) = cell(point.as_dvec3().truncate()).filter(|_| height > CLEARANCE) else {
            continue;
        };
        let speed = cloud.speeds.get(index).copied().unwrap_or(0.0) / 10.0;
        counts[cell] += 1;
        sums[cell][0] += speed;
        sums[cell][1] += speed * speed;
        grid[CELLS + cell] = grid[CELLS + cell].max(height as f32);
    }
    let middle = SIDE as f64 / 2.0 - 0.5;
    for (cell, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (count, [sum, squares]) = (*count as f32, sums[cell]);
        let mean = sum / count;
        let place = DVec2::new((cell / SIDE) as f64, (cell % SIDE) as f64) - middle;
        grid[cell] = (1.0 + count).ln();
        grid[2 * CELLS + cell] = mean;
        grid[3 * CELLS + cell] = (squares / count - mean * mean).max(0.0).sqrt();
        grid[4 * CELLS + cell] = (place.length() * CELL / 50.0) as f32;
    }
    grid
}

/// Scores of the network: by class, the background first, and by cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scores(Vec<f32>);

impl Scores {
    /// The class, other than the background, with the greatest sum over these points' cells; none
    /// if all of them are outside the grid, or a sum is no number.
    pub fn class(&self, points: impl Iterator<Item = DVec2>) -> Option<Kind> {
        let mut sums = [0.0_f32; CLASSES.len()];
        let mut inside = false;
        for cell in points.filter_map(cell) {
            inside = true;
            let classes = self.0.chunks_exact(CELLS).skip(1);
            sums.iter_mut().zip(classes).for_each(|(sum, scores)| *sum += scores[cell]);
        }
        let known = inside && sums.iter().all(|sum| sum.is_finite());
        let best = sums.iter().zip(CLASSES).max_by(|one, other| one.0.total_cmp(other.0));
        best.filter(|_| known).map(|(_, kind)| kind)
    }
}

/// Reason for which a service is not the network's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not answer, or refused.
    #[error(transparent)]
    Server(#[from] accel::Error),
    /// The service answered with another number of scores.
    #[error("service {service:?}: found {found} scores, expected {expected}")]
    Scores {
        /// Its name.
        service: String,
        /// Number of scores that it gave.
        found: usize,
        /// Number of scores that were expected.
        expected: usize,
    },
}

/// Service that computes the network, and counts of its answers.
#[derive(Clone, Debug)]
pub struct Perception {
    /// The accelerator server's socket.
    pub socket: PathBuf,
    /// The name of the service.
    pub service: String,
    /// The chain's priority.
    pub priority: u32,
    /// Factor by which the accelerator on the virtual clock is slower than the server's.
    pub factor: f64,
    counts: Arc<[AtomicU64; 2]>,
}

impl PartialEq for Perception {
    /// Returns true if they are the same service and count together.
    fn eq(&self, other: &Perception) -> bool {
        Arc::ptr_eq(&self.counts, &other.counts)
    }
}

impl Perception {
    /// A service that has not been asked.
    pub fn new(socket: PathBuf, service: String, priority: u32, factor: f64) -> Perception {
        Perception { socket, service, priority, factor, counts: Arc::default() }
    }

    /// Number of frames that the network answered, and number that it did not.
    pub fn counts(&self) -> [u64; 2] {
        // Relaxed: they are read when the drive is over and its threads have been joined.
        [0, 1].map(|index| self.counts[index].load(Ordering::Relaxed))
    }

    /// Asks the service once about an empty grid.
    ///
    /// # Errors
    ///
    /// There is no server, it has no such service, or the service does not take what a grid is or
    /// give what scores are.
    pub fn check(&self) -> Result<(), Error> {
        let (Scores(scores), _) = Network::new(self.clone()).ask(&vec![0.0; CHANNELS * CELLS])?;
        let found = scores.iter().filter(|score| score.is_finite()).count();
        if found == scores.len() {
            return Ok(());
        }
        let (service, expected) = (self.service.clone(), scores.len());
        Err(Error::Scores { service, found, expected })
    }
}

/// A client of the service.
pub struct Network {
    perception: Perception,
    client: Option<(Client, CallbackId)>,
}

impl Network {
    /// A network without a connection yet.
    pub fn new(perception: Perception) -> Network {
        Network { perception, client: None }
    }

    /// Scores of the network for a cloud, and the accelerator's time for it, multiplied by the
    /// factor, ns; none if it does not answer, which is counted.
    pub fn scores(&mut self, cloud: &Cloud) -> Option<(Scores, u64)> {
        let answer = self.ask(&grid(cloud));
        self.perception.counts[usize::from(answer.is_err())].fetch_add(1, Ordering::Relaxed);
        let (scores, busy_ns) = answer.ok()?;
        Some((scores, (busy_ns as f64 * self.perception.factor).round() as u64))
    }

    /// The scores of a grid as [`grid`] makes it, and how long the accelerator worked on it, ns.
    ///
    /// # Errors
    ///
    /// The server did not answer in time, or the service failed.
    pub fn ask(&mut self, grid: &[f32]) -> Result<(Scores, u64), accel::Error> {
        let (client, callback) = match &mut self.client {
            Some(client) => client,
            none => none.insert(self.perception.connect()?),
        };
        let memory = client.memory(*callback)?;
        memory.write_f32(0, grid)?;
        let request =
            Request::new().arguments(&[1]).input(0, INPUT_BYTES).output(INPUT_BYTES, OUTPUT_BYTES);
        let mut ticket = client.submit(*callback, &request)?;
        let outcome = client.wait(&mut ticket, Some(PATIENCE));
        if let Err(accel::Error::TimedOut { .. }) = outcome {
            // The request may yet write: the next one gets a session and memory of its own.
            self.client = None;
        }
        let outcome = outcome?.ok()?;
        let (client, callback) = self.client.as_ref().ok_or(accel::Error::UnknownCallback(0))?;
        let mut scores = vec![0.0; OUTPUT_BYTES / 4];
        client.memory(*callback)?.read_f32(INPUT_BYTES / 4, &mut scores)?;
        Ok((Scores(scores), outcome.busy_ns))
    }
}

impl Perception {
    fn connect(&self) -> Result<(Client, CallbackId), accel::Error> {
        let mut client = Client::connect(&self.socket)?;
        let registration = Registration::service(&self.service)
            .chain("driving", self.priority)
            .memory(INPUT_BYTES + OUTPUT_BYTES);
        let callback = client.register(&registration)?;
        // A score that a service does not write is NaN, which is no score.
        let none = vec![f32::NAN; OUTPUT_BYTES / 4];
        client.memory(callback)?.write_f32(INPUT_BYTES / 4, &none)?;
        Ok((client, callback))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::Vec3;

    #[test]
    fn a_cell_has_its_points_numbers_and_the_ground_has_none() {
        let points = vec![
            Vec3::new(10.1, 0.1, -0.9),
            Vec3::new(10.2, 0.2, -0.4),
            Vec3::new(10.2, 0.2, -1.9),
            Vec3::new(60.0, 0.0, 0.0),
        ];
        let grid = grid(&Cloud { points, speeds: vec![2.0, 4.0, 9.0, 9.0] });
        let at = cell(DVec2::new(10.1, 0.1)).unwrap();
        assert_eq!(at, (96 + 20) * SIDE + 96);
        let numbers: Vec<f32> = grid.iter().skip(at).step_by(CELLS).copied().collect();
        let expected = [3.0_f32.ln(), 1.5, 0.3, 0.1, 0.205];
        for (number, expected) in numbers.iter().zip(expected) {
            assert!((number - expected).abs() < 1e-3, "{numbers:?}");
        }
        assert_eq!(grid.iter().filter(|number| **number != 0.0).count(), CHANNELS);
    }

    #[test]
    fn a_cluster_is_of_the_class_with_the_greatest_sum() {
        let (one, other) = (DVec2::new(5.0, 5.0), DVec2::new(5.0, 7.0));
        let mut scores = vec![0.0; OUTPUT_BYTES / 4];
        scores[2 * CELLS + cell(one).unwrap()] = 3.0;
        scores[4 * CELLS + cell(other).unwrap()] = 2.0;
        let scores = Scores(scores);
        let class_of = |points: &[DVec2]| scores.class(points.iter().copied());
        assert_eq!(class_of(&[one, other]), Some(Kind::Truck));
        assert_eq!(class_of(&[one, other, other]), Some(Kind::Pedestrian));
        assert_eq!(class_of(&[DVec2::new(60.0, 0.0)]), None);
    }

    #[test]
    fn what_the_network_says_is_what_tracking_believes() {
        let mut world = world::World::new(&world::suite::normal(7200)).unwrap();
        (0..500).for_each(|_| world.step(&world::Command::default()));
        let ego = crate::drive::ego(&world).pose;
        let cloud = crate::Lidar::default().scan(ego, world.bodies(), 1);
        let kinds = |class: Option<usize>| -> Vec<Kind> {
            let scores = class.map(|class| {
                let mut scores = vec![0.0; OUTPUT_BYTES / 4];
                scores[class * CELLS..(class + 1) * CELLS].fill(1.0);
                Arc::new(Scores(scores))
            });
            let segmenter = crate::Segmenter::default();
            let clusters = segmenter.divide(&cloud).scored(scores);
            let go = &mut || std::ops::ControlFlow::Continue(());
            let found = segmenter.detections(&clusters, 0..clusters.count(), ego, go).unwrap();
            let inside: Vec<_> =
                found.into_iter().filter(|it| class.is_none() || it.class.is_some()).collect();
            let tracks = crate::Tracker::default().update(0.0, ego, &inside, world.road());
            tracks.into_iter().map(|track| track.kind).collect()
        };
        let by_size = kinds(None);
        assert!(by_size.iter().any(|kind| *kind != Kind::Truck), "{by_size:?}");
        for (index, expected) in CLASSES.into_iter().enumerate() {
            let found = kinds(Some(index + 1));
            assert!(found.len() > 2 && found.iter().all(|kind| *kind == expected), "{found:?}");
        }
    }
}
