//! Situation of an object relative to the ego vehicle.

use crate::Error;
use crate::error::{number, positive};

/// Place and direction of the other road user, seen along the ego vehicle's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Ahead, and drives the same way or stands.
    Ahead,
    /// Behind, and drives the same way. The time at which the ego vehicle reacts does not change
    /// whether the other one keeps its distance.
    Behind,
    /// Ahead, and comes nearer against the ego vehicle's direction.
    Oncoming {
        /// The ego vehicle is in the lane where it belongs, and the other one is not.
        ego_in_own_lane: bool,
    },
}

/// Two road users along the lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Along {
    /// Place and direction of the other road user.
    pub direction: Direction,
    /// Between the facing ends of the two, m; below 0: they are beside each other.
    pub gap: f64,
    /// m/s, not below 0.
    pub ego_speed: f64,
    /// The way that it looks along the lane, m/s, not below 0.
    pub other_speed: f64,
}

/// Two road users across the lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Across {
    /// Between the facing sides of the two, m; not above 0: each is in the other's way.
    pub gap: f64,
    /// The ego vehicle's towards the other, m/s; below 0: away from it.
    pub ego_speed: f64,
    /// The other's towards the ego vehicle, m/s; below 0: away from it.
    pub other_speed: f64,
}

/// Two road users whose paths cross in an area that only one can have.
///
/// The ego vehicle is assumed to go on with its speed, or to accelerate, until it reacts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing {
    /// Distance from the front of the ego vehicle to the area, m; below 0: it is in it.
    pub distance: f64,
    /// Distance that the ego vehicle drives from its entry until its rear has left, m, not below 0.
    pub length: f64,
    /// m/s, not below 0.
    pub ego_speed: f64,
    /// The first moment at which the other one may be in the area, s from now, not below 0.
    pub enters: f64,
    /// The last such moment, s from now; +infinity if it may stay.
    pub leaves: f64,
}

/// Situation of an object relative to the ego vehicle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Situation {
    /// Vehicles that share a lane, or drive in lanes side by side.
    Lane {
        /// Along it.
        along: Along,
        /// Across it.
        across: Across,
    },
    /// Their paths cross.
    Crossing(Crossing),
}

impl Along {
    pub(crate) fn check(&self) -> Result<(), Error> {
        number("gap along, m", self.gap)?;
        positive("ego_speed along, m/s", self.ego_speed)?;
        positive("other_speed along, m/s", self.other_speed)?;
        Ok(())
    }
}

impl Across {
    pub(crate) fn check(&self) -> Result<(), Error> {
        number("gap across, m", self.gap)?;
        number("ego_speed across, m/s", self.ego_speed)?;
        number("other_speed across, m/s", self.other_speed)?;
        Ok(())
    }
}

impl Crossing {
    pub(crate) fn check(&self) -> Result<(), Error> {
        number("distance, m", self.distance)?;
        positive("length, m", self.length)?;
        positive("ego_speed, m/s", self.ego_speed)?;
        positive("enters, s", self.enters)?;
        if self.leaves >= self.enters {
            return Ok(());
        }
        let expected = "a number not below enters, or infinity";
        Err(Error { what: "leaves, s", found: self.leaves, expected })
    }

    /// Could both be in the area at the same time if the ego vehicle, which accelerates by at most
    /// `acceleration` m/s², did not brake?
    pub(crate) fn conflicts(&self, acceleration: f64) -> bool {
        let to_leave = self.distance + self.length;
        if to_leave <= 0.0 {
            return false;
        }
        let passes_before = self.ego_speed > 0.0 && to_leave / self.ego_speed < self.enters;
        let arrives = if self.distance <= 0.0 {
            0.0
        } else {
            // The root of v t + a t²/2 = distance, without a division by a.
            let final_speed = self.ego_speed.powi(2) + 2.0 * acceleration * self.distance;
            2.0 * self.distance / (self.ego_speed + final_speed.sqrt())
        };
        !passes_before && arrives <= self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROSSING: Crossing =
        Crossing { distance: 20.0, length: 8.0, ego_speed: 10.0, enters: 0.0, leaves: 5.0 };

    #[test]
    fn crossing_paths_conflict_only_if_both_can_be_there_at_once() {
        assert!(CROSSING.conflicts(0.0));
        // It leaves after 2.8 s, also if it accelerates.
        assert!(!Crossing { enters: 2.81, ..CROSSING }.conflicts(3.0));
        assert!(Crossing { enters: 2.79, ..CROSSING }.conflicts(3.0));
        // It arrives after 2 s at its speed, after 1.63 s with 3 m/s².
        assert!(!Crossing { leaves: 1.99, ..CROSSING }.conflicts(0.0));
        assert!(Crossing { leaves: 1.99, ..CROSSING }.conflicts(3.0));
        assert!(!Crossing { leaves: 1.60, ..CROSSING }.conflicts(3.0));
        // It has left; it stands before it; it stands in it.
        assert!(!Crossing { distance: -8.0, ..CROSSING }.conflicts(3.0));
        assert!(!Crossing { ego_speed: 0.0, ..CROSSING }.conflicts(0.0));
        assert!(Crossing { ego_speed: 0.0, distance: 0.0, ..CROSSING }.conflicts(0.0));
    }
}
