//! Safe distances, and whether a situation is dangerous.
//!
//! Every distance is made of ways like this one: with speed v towards the other, go on for the
//! response time r with acceleration a, which gives the speed w = v + a r, then brake by b:
//!
//! ```text
//! way = (v + w) / 2 * r + w² / (2 b)
//! ```

use crate::Error;
use crate::assumptions::{Assumptions, Lateral, Model};
use crate::situation::{Across, Along, Crossing, Direction, Situation};

/// The way to a standstill of a body that moves at `speed` m/s in the direction that counts.
/// `unsigned`: the way to brake counts also if the movement points away after the response time.
fn way(speed: f64, response: f64, acceleration: f64, brake: f64, unsigned: bool) -> f64 {
    let after = speed + acceleration * response;
    let braking = if after > 0.0 || unsigned { after * after / (2.0 * brake) } else { 0.0 };
    (speed + after) / 2.0 * response + braking
}

/// Along the lane.
pub(crate) fn stopping(speed: f64, who: &Assumptions, brake: f64) -> f64 {
    way(speed, who.response, who.acceleration, brake, false)
}

/// Across the lane.
pub(crate) fn sideways(speed: f64, who: &Assumptions, reading: Lateral) -> f64 {
    let unsigned = reading == Lateral::Paper;
    way(speed, who.response, who.lateral_acceleration, who.lateral_brake, unsigned)
}

impl Model {
    /// The least safe gap along the lane, m.
    ///
    /// Ahead and behind (definition 1 of the RSS paper), with the rear one's response and the
    /// front one's strongest braking: `[way_rear - v_front² / (2 brake_max)]+`. Oncoming
    /// (definition 3): the sum of both ways to a standstill; who is in the own lane brakes by
    /// `brake_min_correct`, the other by `brake_min`. The gap in `along` is not looked at.
    ///
    /// # Errors
    /// A value that is not a number or out of its range.
    pub fn distance_along(&self, along: &Along) -> Result<f64, Error> {
        along.check()?;
        let (ego, other) = (&self.ego, &self.other);
        let follow = |rear: &Assumptions, rear_speed: f64, front: &Assumptions, speed: f64| {
            let way = stopping(rear_speed, rear, rear.brake_min);
            (way - speed * speed / (2.0 * front.brake_max)).max(0.0)
        };
        Ok(match along.direction {
            Direction::Ahead => follow(ego, along.ego_speed, other, along.other_speed),
            Direction::Behind => follow(other, along.other_speed, ego, along.ego_speed),
            Direction::Oncoming { ego_in_own_lane } => {
                let (ego_brake, other_brake) = self.oncoming_brakes(ego_in_own_lane);
                stopping(along.ego_speed, ego, ego_brake)
                    + stopping(along.other_speed, other, other_brake)
            }
        })
    }

    /// Braking of the ego vehicle and of the other when they meet head-on, m/s².
    pub(crate) fn oncoming_brakes(&self, ego_in_own_lane: bool) -> (f64, f64) {
        match ego_in_own_lane {
            true => (self.ego.brake_min_correct, self.other.brake_min),
            false => (self.ego.brake_min, self.other.brake_min_correct),
        }
    }

    /// The least safe gap across the lane, m (definition 6 of the RSS paper; see [`Lateral`]).
    /// The drift is the mean of both. The gap in `across` is not looked at.
    ///
    /// # Errors
    /// A value that is not a number or out of its range.
    pub fn distance_across(&self, across: &Across) -> Result<f64, Error> {
        across.check()?;
        let ways = sideways(across.ego_speed, &self.ego, self.lateral)
            + sideways(across.other_speed, &self.other, self.lateral);
        Ok(match self.lateral {
            Lateral::Paper => self.drift() + ways.max(0.0),
            Lateral::AdRss => (self.drift() + ways).max(0.0),
        })
    }

    pub(crate) fn drift(&self) -> f64 {
        (self.ego.fluctuation + self.other.fluctuation) / 2.0
    }

    /// The least distance from the area of a crossing at which the ego vehicle can still stop
    /// before it, m. The distance in `crossing` is not looked at.
    ///
    /// # Errors
    /// A value that is not a number or out of its range.
    pub fn distance_to_stop(&self, crossing: &Crossing) -> Result<f64, Error> {
        crossing.check()?;
        Ok(stopping(crossing.ego_speed, &self.ego, self.ego.brake_min))
    }

    /// Returns true if the situation is dangerous in the sense of RSS. In a lane: neither along nor
    /// across it is the gap larger than the safe distance. At a crossing: the ego vehicle can no
    /// longer stop before the area, and both may be in it at once.
    ///
    /// # Errors
    /// A value that is not a number or out of its range.
    pub fn dangerous(&self, situation: &Situation) -> Result<bool, Error> {
        match situation {
            Situation::Lane { along, across } => {
                let short = along.gap <= self.distance_along(along)?;
                Ok(short && across.gap <= self.distance_across(across)?)
            }
            Situation::Crossing(crossing) => {
                let short = crossing.distance <= self.distance_to_stop(crossing)?;
                Ok(short && crossing.conflicts(self.ego.acceleration))
            }
        }
    }
}
