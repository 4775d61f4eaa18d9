//! Time for which the ego vehicle may go on before it reacts.
//!
//! The safe distance grows with the response time. Turned round: with the gap that there is, what
//! is the longest response time for which the gap is still safe? It is counted from the moment of
//! the given situation. Every distance has the ego vehicle's way in it (see `distance`), so that
//! the way may be at most some `room`. With v the speed, a the acceleration, b the brake, and
//! w = v + a t, the way in t is `(w² - v²) / 2a + w² / 2b`, and its larger root is
//!
//! ```text
//! w = sqrt((2 a b room + b v²) / (a + b))
//! t = (w - v) / a = (2 b room - v²) / ((a + b) (w + v))
//! ```
//!
//! The second form of t loses no digits where a is small, and with a = 0 it is
//! `(room - v² / 2b) / v`. Both readings of the distance across the lane have this same root: they
//! differ only where w is below 0.

use crate::Error;
use crate::assumptions::{Lateral, Model};
use crate::distance::{sideways, stopping};
use crate::situation::{Across, Along, Crossing, Direction, Situation};

/// The deadline of a sensor frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameDeadline {
    /// Index of the object with the earliest deadline; the first of equals.
    pub object: usize,
    /// That deadline, s.
    pub seconds: f64,
}

/// The last response time after which the way is not longer than `room`; -infinity if there is
/// none of any sign.
fn last_response(room: f64, speed: f64, acceleration: f64, brake: f64) -> f64 {
    let both = acceleration + brake;
    let square = (2.0 * acceleration * brake * room + brake * speed * speed) / both;
    if square < 0.0 {
        return f64::NEG_INFINITY;
    }
    let after = square.sqrt();
    if speed < 0.0 {
        // Without acceleration it moves away for ever.
        return (after - speed) / acceleration;
    }
    let rate = both * (after + speed);
    if rate > 0.0 {
        return (2.0 * brake * room - speed * speed) / rate;
    }
    // It stands, or as good as that, and nothing moves it.
    if room >= 0.0 { f64::INFINITY } else { f64::NEG_INFINITY }
}

impl Model {
    /// Longest time for which the ego vehicle may go on without a reaction before the situation
    /// gets dangerous, s from the moment of the situation: COLA's equation 1 turned round, the
    /// largest t with `safe distance(t) <= gap`, where t stands for the ego vehicle's response
    /// time.
    ///
    /// Below 0: it is too late by this much; -infinity: no reaction could have made it safe.
    /// +infinity: the model's horizon ends before, or it does not depend on the ego vehicle (the
    /// other one is behind; both cannot be in the crossing at once). A lane is dangerous only if it
    /// is so along and across, so the later of the two deadlines counts. If the ego vehicle moves
    /// away from the other one across the lane, the safe distance may first shrink with t: then the
    /// situation may be dangerous now, and its deadline may still lie ahead.
    ///
    /// # Errors
    /// A value that is not a number or out of its range.
    pub fn deadline(&self, situation: &Situation) -> Result<f64, Error> {
        let seconds = match situation {
            Situation::Lane { along, across } => {
                self.deadline_along(along)?.max(self.deadline_across(across)?)
            }
            Situation::Crossing(crossing) => self.deadline_to_stop(crossing)?,
        };
        Ok(if seconds > self.horizon { f64::INFINITY } else { seconds })
    }

    /// The earliest deadline of these objects; none if there is no object.
    ///
    /// # Errors
    /// A value that is not a number or out of its range.
    pub fn frame_deadline<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Situation>,
    ) -> Result<Option<FrameDeadline>, Error> {
        let mut earliest: Option<FrameDeadline> = None;
        for (object, situation) in objects.into_iter().enumerate() {
            let seconds = self.deadline(situation)?;
            if earliest.is_none_or(|earliest| seconds < earliest.seconds) {
                earliest = Some(FrameDeadline { object, seconds });
            }
        }
        Ok(earliest)
    }

    /// The same along the lane alone, without a horizon.
    ///
    /// # Errors
    /// As [`Model::deadline`].
    pub fn deadline_along(&self, along: &Along) -> Result<f64, Error> {
        along.check()?;
        let (ego, other) = (&self.ego, &self.other);
        let (room, brake) = match along.direction {
            Direction::Behind => return Ok(f64::INFINITY),
            // Beside each other: along the lane nothing keeps them apart.
            _ if along.gap < 0.0 => return Ok(f64::NEG_INFINITY),
            Direction::Ahead => {
                let front = along.other_speed * along.other_speed / (2.0 * other.brake_max);
                (along.gap + front, ego.brake_min)
            }
            Direction::Oncoming { ego_in_own_lane } => {
                let (ego_brake, other_brake) = self.oncoming_brakes(ego_in_own_lane);
                (along.gap - stopping(along.other_speed, other, other_brake), ego_brake)
            }
        };
        Ok(last_response(room, along.ego_speed, ego.acceleration, brake))
    }

    /// The same across the lane alone, without a horizon.
    ///
    /// # Errors
    /// As [`Model::deadline`].
    pub fn deadline_across(&self, across: &Across) -> Result<f64, Error> {
        across.check()?;
        let clear = across.gap - self.drift();
        if across.gap < 0.0 || (self.lateral == Lateral::Paper && clear < 0.0) {
            return Ok(f64::NEG_INFINITY);
        }
        let room = clear - sideways(across.other_speed, &self.other, self.lateral);
        let (acceleration, brake) = (self.ego.lateral_acceleration, self.ego.lateral_brake);
        Ok(last_response(room, across.ego_speed, acceleration, brake))
    }

    /// The same before a crossing, without a horizon.
    fn deadline_to_stop(&self, crossing: &Crossing) -> Result<f64, Error> {
        crossing.check()?;
        let ego = &self.ego;
        if !crossing.conflicts(ego.acceleration) {
            return Ok(f64::INFINITY);
        }
        Ok(last_response(crossing.distance, crossing.ego_speed, ego.acceleration, ego.brake_min))
    }
}
