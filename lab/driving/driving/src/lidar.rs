//! A spinning lidar: rays against the bodies' footprints and the ground.
//!
//! It is the sensor, not a part of the stack: its computing time is charged to no module. A body
//! hides whatever is behind it at every height, as sight lines in the plane have it, so that the
//! lidar sees a body from the moment that the world calls it visible. Roofs, which rays meet at a
//! few degrees, return nothing.

use glam::{DVec2, Vec3};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use world::{Body, Kind, Pose};

/// Range of the usual sensor, m; the stack looks a little farther around the ego.
pub(crate) const RANGE: f64 = 150.0;

/// The sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Lidar {
    /// Rays above one another.
    pub rows: u32,
    /// Rays around.
    pub columns: u32,
    /// The lowest row's elevation, rad.
    pub lowest: f64,
    /// The highest row's elevation, rad.
    pub highest: f64,
    /// Above the ground, m.
    pub height: f64,
    /// Range beyond which nothing returns, m.
    pub range: f64,
    /// Standard deviation of a measured distance, m.
    pub noise: f64,
    /// Standard deviation of a measured radial speed, m/s; none: the sensor measures times of
    /// flight, and no speeds.
    pub doppler: Option<f64>,
}

impl Default for Lidar {
    /// 64 rows of 1024, as wide as a Velodyne HDL-64E's (its data sheet: +2° to -24.8°, 2 cm); of
    /// continuous waves, so that each return has a speed. The noise of that is a choice.
    fn default() -> Lidar {
        Lidar {
            rows: 64,
            columns: 1024,
            lowest: (-24.8_f64).to_radians(),
            highest: 2.0_f64.to_radians(),
            height: 1.9,
            range: RANGE,
            noise: 0.02,
            doppler: Some(0.05),
        }
    }
}

/// Points that one turn of the sensor saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cloud {
    /// m ahead, to the left and up from the sensor.
    pub points: Vec<Vec3>,
    /// Speed of each point away from the sensor's place, m/s along the ray. The sensor's own
    /// motion, which localisation knows, has been taken out: the ground stands. Empty if speeds are
    /// not measured.
    pub speeds: Vec<f32>,
}

/// Height of a body, m.
pub fn height(kind: Kind) -> f64 {
    match kind {
        Kind::Car | Kind::Obstacle => 1.5,
        Kind::Truck => 3.2,
        Kind::Cyclist | Kind::Pedestrian => 1.75,
    }
}

/// The nearest body in a column's direction.
#[derive(Clone, Copy)]
struct Wall {
    /// m.
    distance: f64,
    /// m.
    height: f64,
    /// Away from the sensor in the plane, m/s.
    speed: f64,
}

/// The rays of one elevation.
struct Row {
    /// Up, for each metre in the plane.
    slope: f64,
    /// Length of the ray, for each metre in the plane.
    length: f64,
    /// Distance at which it meets the ground, m; infinite if it does not.
    ground: f64,
    /// True if the ground is near enough to be seen.
    returns: bool,
}

impl Lidar {
    /// Scan of a turn at `from`, in which nothing moves. The ego (body 0) is not seen. `turn`
    /// chooses the noise: the same turn of the same scene is the same cloud.
    pub fn scan(&self, from: Pose, bodies: &[Body], turn: u64) -> Cloud {
        let nearest = self.nearest(from, bodies);
        let step = (self.highest - self.lowest) / f64::from(self.rows.max(2) - 1);
        let slopes = (0..self.rows).map(|row| (self.lowest + f64::from(row) * step).tan());
        let rows: Vec<Row> = slopes.map(|slope| self.row(slope)).collect();
        let mut points = Vec::with_capacity(nearest.len() * rows.len());
        let mut speeds = Vec::with_capacity(points.capacity());
        for (column, wall) in nearest.iter().enumerate() {
            let direction = DVec2::from_angle(self.azimuth(column));
            let first = (column * rows.len()) as u64;
            for (ray, row) in (first..).zip(&rows) {
                let Some(flat) = self.distance(row, *wall) else { continue };
                let measured = flat + self.noise * gaussian(turn, ray);
                let at = (direction * measured).as_vec2();
                points.push(Vec3::new(at.x, at.y, (row.slope * measured) as f32));
                if let Some(noise) = self.doppler {
                    let body = wall.filter(|wall| wall.distance == flat);
                    let radial = body.map_or(0.0, |wall| wall.speed / row.slope.hypot(1.0));
                    speeds.push((radial + noise * gaussian(!turn, ray)) as f32);
                }
            }
        }
        Cloud { points, speeds }
    }

    fn row(&self, slope: f64) -> Row {
        let ground = if slope < 0.0 { -self.height / slope } else { f64::INFINITY };
        let length = (1.0 + slope * slope).sqrt();
        Row { slope, length, ground, returns: ground * length <= self.range }
    }

    fn azimuth(&self, column: usize) -> f64 {
        column as f64 / f64::from(self.columns) * TAU
    }

    /// Nearest wall that the rays of each column meet.
    fn nearest(&self, from: Pose, bodies: &[Body]) -> Vec<Option<Wall>> {
        let mut nearest = vec![None::<Wall>; self.columns as usize];
        for body in bodies.iter().filter(|body| body.id != 0) {
            let (footprint, forward) = (body.footprint(), body.pose.forward());
            for column in self.columns_of(from, body) {
                let direction = DVec2::from_angle(from.heading + self.azimuth(column));
                let hit = footprint.hit_along(forward, from.position, direction);
                let Some(distance) = hit.filter(|distance| *distance > 0.0) else { continue };
                if nearest[column].is_none_or(|other| distance < other.distance) {
                    let speed = body.speed * body.pose.forward().dot(direction);
                    nearest[column] = Some(Wall { distance, height: height(body.kind), speed });
                }
            }
        }
        nearest
    }

    /// The columns that a circle around the body can lie in.
    fn columns_of(&self, from: Pose, body: &Body) -> impl Iterator<Item = usize> {
        let radius = body.length.hypot(body.width) / 2.0;
        let offset = from.local(body.pose.position);
        let distance = offset.length();
        let columns = i64::from(self.columns);
        let per_rad = f64::from(self.columns) / TAU;
        let (first, count) = if distance - radius > self.range {
            (0, 0)
        } else if distance <= radius {
            (0, columns)
        } else {
            let spread = (radius / distance).asin();
            let first = ((offset.to_angle() - spread) * per_rad).floor() as i64;
            (first, ((2.0 * spread * per_rad).ceil() as i64 + 2).min(columns))
        };
        (first..first + count).map(move |column| column.rem_euclid(columns) as usize)
    }

    /// Distance in the plane at which a ray of this row ends; none if nothing returns it.
    fn distance(&self, row: &Row, wall: Option<Wall>) -> Option<f64> {
        match wall {
            Some(wall) if wall.distance < row.ground => {
                let below_top = self.height + row.slope * wall.distance <= wall.height;
                let returns = below_top && wall.distance * row.length <= self.range;
                returns.then_some(wall.distance)
            }
            _ => row.returns.then_some(row.ground),
        }
    }
}

/// Nearly normal, of variance 1: the sum of four uniform numbers out of one hash (splitmix64).
fn gaussian(turn: u64, ray: u64) -> f64 {
    let mut hash = (turn << 20 ^ ray).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    let sum: u64 = (0..4).map(|part| hash >> (16 * part) & 0xffff).sum();
    (sum as f64 / 65_536.0 - 2.0) * 3.0_f64.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(id: u32, kind: Kind, x: f64, y: f64, length: f64, width: f64) -> Body {
        let pose = Pose::new(x, y, 0.0);
        Body { id, kind, pose, speed: 0.0, acceleration: 0.0, length, width }
    }

    #[test]
    fn ground_is_flat_and_bodies_stand_where_they_are() {
        let lidar = Lidar { noise: 0.0, ..Lidar::default() };
        let car = body(1, Kind::Car, 12.0, 0.0, 4.0, 1.8);
        let cloud = lidar.scan(Pose::default(), &[car], 0);
        let (ground, rest): (Vec<Vec3>, Vec<Vec3>) =
            cloud.points.iter().copied().partition(|point| (point.z + 1.9).abs() < 1e-3);
        assert!(ground.len() > 30_000, "{}", ground.len());
        assert!(rest.len() > 200, "{}", rest.len());
        for point in rest {
            assert!((point.x - 10.0).abs() < 1e-3 && point.z <= -0.4 + 1e-3, "{point}");
            assert!(point.y.abs() <= 0.901, "{point}");
        }
    }

    #[test]
    fn what_is_behind_a_body_is_not_seen_and_the_ego_neither() {
        let lidar = Lidar::default();
        let ego = body(0, Kind::Car, 0.0, 0.0, 4.5, 1.8);
        let lorry = body(1, Kind::Truck, 10.0, 0.0, 2.0, 8.0);
        let hidden = body(2, Kind::Pedestrian, 20.0, 0.0, 0.5, 0.5);
        let beside = body(3, Kind::Pedestrian, 20.0, 10.0, 0.5, 0.5);
        let seen = |bodies: &[Body]| lidar.scan(Pose::default(), bodies, 7);
        assert_eq!(seen(&[ego, lorry, hidden]), seen(&[lorry]));
        assert_ne!(seen(&[ego, lorry, beside]), seen(&[lorry]));
    }

    #[test]
    fn noise_has_its_standard_deviation_and_repeats() {
        let lidar = Lidar { noise: 0.05, ..Lidar::default() };
        let wall = body(1, Kind::Truck, 21.0, 0.0, 2.0, 30.0);
        let cloud = lidar.scan(Pose::default(), &[wall], 3);
        assert_eq!(cloud, lidar.scan(Pose::default(), &[wall], 3));
        assert_ne!(cloud, lidar.scan(Pose::default(), &[wall], 4));
        // Of the wall, from which rays straight ahead return after 20 m.
        let ahead = cloud.points.iter().filter(|point| point.z > -1.6 && point.y.abs() < 1.0);
        let errors: Vec<f64> = ahead.map(|point| f64::from(point.x) - 20.0).collect();
        let variance = errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64;
        assert!(errors.len() >= 100, "{}", errors.len());
        assert!((0.03..0.07).contains(&variance.sqrt()), "{}", variance.sqrt());
    }

    #[test]
    fn returns_have_the_speed_along_their_rays() {
        let mut car = body(1, Kind::Car, 12.0, 9.0, 4.0, 1.8);
        car.speed = -10.0;
        let lidar = Lidar::default();
        let cloud = lidar.scan(Pose::default(), &[car], 5);
        assert_eq!(cloud.points.len(), cloud.speeds.len());
        let returns = || cloud.points.iter().zip(&cloud.speeds);
        let ground = returns().filter(|(point, _)| point.x < 0.0);
        let wall = returns().filter(|(point, _)| point.z > -1.8);
        assert!(wall.clone().count() > 100);
        for (point, speed) in ground.chain(wall) {
            let expected = if point.x < 0.0 { 0.0 } else { -10.0 * point.x / point.length() };
            assert!((speed - expected).abs() < 0.25, "{point}: {speed}, {expected}");
        }
        let times_of_flight = Lidar { doppler: None, ..lidar };
        let plain = times_of_flight.scan(Pose::default(), &[car], 5);
        assert_eq!((plain.points, plain.speeds.len()), (cloud.points, 0));
    }
}
