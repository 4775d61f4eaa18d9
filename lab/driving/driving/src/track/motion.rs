//! A Kalman filter of constant acceleration in the plane, which white noise changes.
//!
//! The state is position, velocity and acceleration on two axes. A measurement is a position, or a
//! speed in one direction, which says something of both axes at once: their covariance is kept,
//! too.

use glam::{DMat2, DMat3, DVec2, DVec3};

#[derive(Clone, Debug)]
pub(super) struct Motion {
    x: DVec3,
    y: DVec3,
    xx: DMat3,
    /// Rows belong to x, columns to y.
    xy: DMat3,
    yy: DMat3,
    /// Time of the last prediction or the beginning, s.
    time: f64,
}

/// The measured thing's place in the state of an axis.
const PLACE: usize = 0;
const SPEED: usize = 1;

/// Uncertainty of the acceleration at first: standard deviation, m/s².
const BEGINS: f64 = 3.0;

impl Motion {
    /// Something that is seen for the first time. Its velocity is believed to be 0, with standard
    /// deviations of `spread` along `heading` and across.
    pub(super) fn at(place: DVec2, time: f64, noise: f64, heading: f64, spread: DVec2) -> Motion {
        let (sin, cos) = heading.sin_cos();
        let (long, wide) = (spread.x.powi(2), spread.y.powi(2));
        let first =
            |speed: f64| DMat3::from_diagonal(DVec3::new(noise * noise, speed, BEGINS * BEGINS));
        let mixed = DVec3::new(0.0, (long - wide) * sin * cos, 0.0);
        Motion {
            x: DVec3::new(place.x, 0.0, 0.0),
            y: DVec3::new(place.y, 0.0, 0.0),
            xx: first(long * cos * cos + wide * sin * sin),
            xy: DMat3::from_diagonal(mixed),
            yy: first(long * sin * sin + wide * cos * cos),
            time,
        }
    }

    /// m.
    pub(super) fn position(&self) -> DVec2 {
        DVec2::new(self.x[PLACE], self.y[PLACE])
    }

    /// m/s.
    pub(super) fn velocity(&self) -> DVec2 {
        DVec2::new(self.x[SPEED], self.y[SPEED])
    }

    /// m/s².
    pub(super) fn acceleration(&self) -> DVec2 {
        DVec2::new(self.x.z, self.y.z)
    }

    /// The covariance of the velocity, m²/s².
    pub(super) fn doubt(&self) -> DMat2 {
        let mixed = self.xy.y_axis.y;
        let (x, y) = (self.xx.y_axis.y, self.yy.y_axis.y);
        DMat2::from_cols(DVec2::new(x, mixed), DVec2::new(mixed, y))
    }

    /// Moves the point that is called its place by so far, m; the object itself does not move.
    pub(super) fn shift(&mut self, by: DVec2) {
        self.x[PLACE] += by.x;
        self.y[PLACE] += by.y;
    }

    /// Its velocity is less certain than it was, by a standard deviation of so many m/s.
    pub(super) fn doubt_velocity(&mut self, by: f64) {
        self.xx.y_axis.y += by * by;
        self.yy.y_axis.y += by * by;
    }

    /// Predicts up to time `at` s, with accelerations that change by `jerk` m/s³ in a second; false
    /// if it is there already.
    pub(super) fn predict(&mut self, at: f64, jerk: f64) -> bool {
        let t = at - self.time;
        if t <= 0.0 {
            return false;
        }
        let step = DMat3::from_cols(
            DVec3::new(1.0, 0.0, 0.0),
            DVec3::new(t, 1.0, 0.0),
            DVec3::new(t * t / 2.0, t, 1.0),
        );
        // The integral of white jerk.
        let noise = DMat3::from_cols(
            DVec3::new(t.powi(5) / 20.0, t.powi(4) / 8.0, t.powi(3) / 6.0),
            DVec3::new(t.powi(4) / 8.0, t.powi(3) / 3.0, t.powi(2) / 2.0),
            DVec3::new(t.powi(3) / 6.0, t.powi(2) / 2.0, t),
        ) * (jerk * jerk);
        let moved = |covariance: DMat3| step * covariance * step.transpose();
        (self.x, self.y) = (step * self.x, step * self.y);
        (self.xx, self.yy) = (moved(self.xx) + noise, moved(self.yy) + noise);
        self.xy = moved(self.xy);
        self.time = at;
        true
    }

    /// Measured distance from the origin in `direction`, m, with a standard deviation of `noise` m.
    ///
    /// An object that is farther off than it can have moved is there, but did not go there: another
    /// part of it is seen, or a part of another thing.
    pub(super) fn measure_place(&mut self, direction: DVec2, place: f64, noise: f64) {
        const FAR: f64 = 3.0;
        let (x, y) = self.with(PLACE, direction);
        let most = FAR * (direction.dot(DVec2::new(x[PLACE], y[PLACE])) + noise * noise).sqrt();
        let error = place - direction.dot(self.position());
        self.shift((error - error.clamp(-most, most)) * direction);
        self.measure(PLACE, direction, place, noise);
    }

    /// Measured speed in `direction`, m/s, with a standard deviation of `noise` m/s.
    pub(super) fn measure_speed(&mut self, direction: DVec2, speed: f64, noise: f64) {
        self.measure(SPEED, direction, speed, noise);
    }

    /// The covariances of the state of each axis with a part of it in `direction`.
    fn with(&self, what: usize, direction: DVec2) -> (DVec3, DVec3) {
        let (dx, dy) = (direction.x, direction.y);
        let x = dx * self.xx.col(what) + dy * self.xy.col(what);
        let y = dx * self.xy.row(what) + dy * self.yy.col(what);
        (x, y)
    }

    fn measure(&mut self, what: usize, direction: DVec2, found: f64, noise: f64) {
        let (x, y) = self.with(what, direction);
        let error = found - direction.dot(DVec2::new(self.x[what], self.y[what]));
        let variance = direction.dot(DVec2::new(x[what], y[what])) + noise * noise;
        self.x += x * (error / variance);
        self.y += y * (error / variance);
        self.xx -= outer(x, x / variance);
        self.xy -= outer(x, y / variance);
        self.yy -= outer(y, y / variance);
    }
}

fn outer(column: DVec3, row: DVec3) -> DMat3 {
    DMat3::from_cols(column * row.x, column * row.y, column * row.z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_along_the_line_of_sight_is_one_along_the_heading() {
        let mut motion = Motion::at(DVec2::ZERO, 0.0, 0.05, 1.2, DVec2::new(12.0, 0.1));
        let velocity = 8.0 * DVec2::from_angle(1.2);
        let sight = DVec2::from_angle(0.2);
        motion.measure_speed(sight, velocity.dot(sight), 0.02);
        assert!(motion.velocity().distance(velocity) < 0.05, "{:?}", motion.velocity());
    }

    #[test]
    fn two_speeds_make_an_acceleration() {
        let mut motion = Motion::at(DVec2::ZERO, 0.0, 0.05, 0.0, DVec2::new(12.0, 1.0));
        motion.measure_speed(DVec2::X, 10.0, 0.02);
        assert!(!motion.predict(0.0, 6.0));
        assert!(motion.predict(0.1, 6.0));
        motion.measure_speed(DVec2::X, 9.4, 0.02);
        assert!((motion.acceleration().x + 6.0).abs() < 1.0, "{:?}", motion.acceleration());
    }

    #[test]
    fn a_place_that_jumps_is_no_speed_where_the_speed_is_measured() {
        let mut motion = Motion::at(DVec2::ZERO, 0.0, 0.06, 0.0, DVec2::splat(12.0));
        for frame in 0..10 {
            motion.predict(0.1 * f64::from(frame), 6.0);
            motion.measure_speed(DVec2::X, 0.0, 0.02);
            motion.measure_place(DVec2::X, if frame < 8 { 0.0 } else { 1.5 }, 0.06);
            motion.measure_place(DVec2::Y, 0.0, 0.06);
        }
        assert!(motion.velocity().length() < 0.3, "{:?}", motion.velocity());
        assert!((motion.position().x - 1.5).abs() < 0.3, "{:?}", motion.position());
    }
}
