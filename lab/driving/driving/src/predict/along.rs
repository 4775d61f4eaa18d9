//! An object on its way along a lane, beside it or onto it, and how its driver keeps a distance.

use super::State;
use crate::Track;
use world::{Line, Pose, geometry::wrapped};

/// The acceleration of the intelligent driver model, m/s².
pub(super) fn driver(speed: f64, wish: f64, lead: Option<(f64, f64)>) -> f64 {
    const STRONGEST: f64 = 1.5;
    const COMFORTABLE: f64 = 2.0;
    const HEADWAY: f64 = 1.2;
    const STANDSTILL: f64 = 2.0;
    let free = 1.0 - (speed / wish).powi(4);
    let interaction = lead.map_or(0.0, |(gap, lead_speed)| {
        let closing = speed * (speed - lead_speed) / (2.0 * (STRONGEST * COMFORTABLE).sqrt());
        ((STANDSTILL + (speed * HEADWAY + closing).max(0.0)) / gap).powi(2)
    });
    (STRONGEST * (free - interaction)).max(-8.0)
}

/// An object on its way.
pub(super) struct Along {
    /// m along the way.
    pub at: f64,
    /// Left of the way at first, m, and how fast that changes, m/s.
    left: (f64, f64),
    /// Value at the end, m.
    end: f64,
    /// Time at which it is there, s.
    there: f64,
    /// m/s.
    pub speed: f64,
    /// m/s².
    pub acceleration: f64,
    /// m.
    pub length: f64,
    /// m.
    pub width: f64,
    /// Piece of the way at which it was looked for last.
    piece: usize,
}

impl Along {
    pub(super) fn on(track: &Track, way: &Line) -> Along {
        let offset = way.offset(track.pose.position);
        let direction = way.pose(offset.along);
        let left = (offset.left, track.velocity.dot(direction.left()));
        Along {
            at: offset.along,
            left,
            end: 0.0,
            there: (offset.left.abs() / 1.0).clamp(1.0, 4.0),
            speed: track.velocity.dot(direction.forward()).max(0.0),
            acceleration: track.acceleration.dot(direction.forward()).clamp(-9.0, 3.0),
            length: track.length,
            width: track.width,
            piece: 0,
        }
    }

    /// Ends beside the way instead, m to the left.
    pub(super) fn to(self, end: f64) -> Along {
        Along { end, there: 2.0, ..self }
    }

    pub(super) fn advance(
        &mut self,
        acceleration: f64,
        step: f64,
        after: f64,
        way: &Line,
    ) -> State {
        let speed = (self.speed + acceleration * step).max(0.0);
        self.at += (self.speed + speed) / 2.0 * step;
        self.speed = speed;
        let (left, slope) = self.beside(after);
        let (pose, forward) = way.place(self.at, &mut self.piece);
        let turn = if speed > 0.5 && slope != 0.0 { slope.atan2(speed) } else { 0.0 };
        let position = pose.position + left * forward.perp();
        State { pose: Pose { position, heading: wrapped(pose.heading + turn) }, speed }
    }

    /// Distance left of the way, m, and its rate of change, m/s: the polynomial of third degree
    /// that ends on the way, or `end` m beside, and along it.
    fn beside(&self, after: f64) -> (f64, f64) {
        let (from, slope) = (self.left.0 - self.end, self.left.1);
        let time = self.there;
        if after >= time {
            return (self.end, 0.0);
        }
        let second = (-3.0 * from - 2.0 * slope * time) / time.powi(2);
        let third = (2.0 * from + slope * time) / time.powi(3);
        let left = from + slope * after + second * after.powi(2) + third * after.powi(3);
        (self.end + left, slope + 2.0 * second * after + 3.0 * third * after.powi(2))
    }
}
