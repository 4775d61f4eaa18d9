//! Cost for a candidate of being near others: the safe distance of RSS, with the assumptions of
//! ad-rss, from those ahead who move the same way or stand, from those behind if it changes lanes
//! before them, and across from those who come towards it.
//!
//! Places are along the reference line and beside it, as those who judge a drive have them: in a
//! curve, who is ahead is not beside.

use super::scene::LEAST;
use rss::{Across, Model, Preset};
use world::Rectangle;

const MODEL: Model = Preset::AD_RSS.model();

/// Sine of the angle to the line above which a body crosses it.
const CROSSES: f64 = 0.717;

/// A candidate at a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// Along the reference line from the ego on, m.
    pub along: f64,
    /// m left of it.
    pub left: f64,
    /// Along it, m/s.
    pub speed: f64,
    /// Speed to the left, m/s.
    pub aside: f64,
    /// The halves of its length and width, m.
    pub half: (f64, f64),
}

/// Another road user at a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    /// Along the reference line from the ego on, m.
    pub along: f64,
    /// m left of it.
    pub left: f64,
    /// Along it, m/s.
    pub speed: f64,
    /// Speed to the left, m/s.
    pub aside: f64,
    /// The halves of what it covers along and across, m.
    pub half: (f64, f64),
    /// It comes towards the ego or drives across: that is not judged by its place in the lane.
    pub meets: bool,
}

impl Other {
    /// A body that moves at `speed` m/s and looks to the left of the line by `turn` rad.
    pub(super) fn new(body: &Rectangle, speed: f64, (along, left, turn): Place) -> Other {
        let (sin, cos) = turn.sin_cos();
        let half = |one: f64, other: f64| (one * cos.abs() + other * sin.abs()) / 2.0;
        Other {
            along,
            left,
            speed: speed * cos,
            aside: speed * sin,
            half: (half(body.length, body.width), half(body.width, body.length)),
            meets: speed > 1.0 && (cos < 0.0 || sin.abs() > CROSSES),
        }
    }

    /// Distance along the line until it stands, braking as hard as it can, m; towards the ego, less
    /// than 0.
    pub(super) fn braking(&self) -> f64 {
        self.speed * self.speed.abs() / (2.0 * STRONGEST)
    }
}

/// Along the reference line, m; to its left, m; and turned to its left, rad.
pub(super) type Place = (f64, f64, f64);

/// Cost of a second at this distance from another ahead. `way` is [`stopping`] of its speed.
pub(super) fn ahead(own: &Own, way: f64, other: &Other) -> f64 {
    let lacking = lacking(own, way, other);
    if lacking == 0.0 { 0.0 } else { lacking * share(own, other) }
}

/// The same if the two are in one another's way: 0 if the distance is long enough.
pub(super) fn lacking(own: &Own, way: f64, other: &Other) -> f64 {
    let gap = other.along - own.along - other.half.0 - own.half.0;
    let safe = (way - other.braking()).max(0.0);
    // The margin covers the other's movement until the stack answers.
    let margin = MARGIN.0 + MARGIN.1 * own.speed;
    if gap >= safe + margin {
        return 0.0;
    }
    closeness(gap, safe, margin)
}

/// The same for another behind, in the lane that the ego changes to.
pub(super) fn behind(own: &Own, other: &Other) -> f64 {
    let gap = own.along - other.along - other.half.0 - own.half.0;
    let safe = (stopping(other.speed.max(0.0)) - own.speed.powi(2) / (2.0 * STRONGEST)).max(0.0);
    if gap >= safe {
        return 0.0;
    }
    closeness(gap, safe, 0.0) * share(own, other)
}

/// Cost of a second beside another that comes towards the ego. Along the road the distance between
/// the two is hardly ever safe, whatever the ego does: they keep apart across, and so neither
/// drifts towards the other.
pub(super) fn facing(own: &Own, other: &Other) -> f64 {
    const DRIFTS: f64 = 10.0;
    DRIFTS * share(own, other)
}

/// Cost of a gap that is not as long as it should be, if they are in one another's way.
fn closeness(gap: f64, safe: f64, margin: f64) -> f64 {
    const NEARLY: f64 = 4.0;
    const NEARER: f64 = 20.0;
    const DEEPER: f64 = 40.0;
    if gap >= safe {
        return NEARLY * ((safe + margin - gap) / margin).powi(2);
    }
    NEARLY + NEARER + DEEPER * ((safe - gap) / safe.max(5.0)).min(1.0)
}

/// Least share by which a body `apart` m beside the ego is in its way, whatever is safe across;
/// [`room`] is that of the two.
pub(super) fn least_share(apart: f64, room: f64) -> f64 {
    ((room - apart) / EDGE).clamp(0.0, 1.0)
}

/// Distance beside the ego within which the other is in its way, in part or wholly, m. `half` is
/// the ego's.
pub(super) fn room(half: (f64, f64), other: &Other) -> f64 {
    half.1 + other.half.1 + EDGE
}

/// Part of the distance beside the ego beyond which the other is not in its way at all, m;
/// [`side_of_other`] is the rest.
pub(super) fn side_of_own(own: &Own) -> f64 {
    safe_across(own.aside.abs(), 0.0) + own.half.1
}

/// See [`side_of_own`].
pub(super) fn side_of_other(other: &Other) -> f64 {
    safe_across(0.0, other.aside.abs()) + other.half.1 + EDGE + ROUNDING
}

/// The least safe gap across, m, of two who move towards one another so fast, m/s. That of two who
/// do is no longer than those of one and of the other together, and the longest of any direction.
fn safe_across(ego_speed: f64, other_speed: f64) -> f64 {
    // An invalid number makes the safe distance infinite.
    MODEL.distance_across(&Across { gap: 0.0, ego_speed, other_speed }).unwrap_or(f64::INFINITY)
}

/// Share by which they are in one another's way: 1 if they are nearer across than is safe.
fn share(own: &Own, other: &Other) -> f64 {
    let side = (other.left - own.left).signum();
    let gap = (other.left - own.left).abs() - other.half.1 - own.half.1;
    let across = Across { gap, ego_speed: own.aside * side, other_speed: -other.aside * side };
    // An invalid number makes the safe distance infinite.
    let safe = MODEL.distance_across(&across).unwrap_or(f64::INFINITY);
    ((safe + EDGE - gap) / EDGE).clamp(0.0, 1.0)
}

/// Distance beyond the safe one across from which the other is not in the way any more, m.
const EDGE: f64 = 0.2;
/// More than the rounding of a distance, m.
const ROUNDING: f64 = 1e-6;
/// Margin that the ego should keep beyond the safe distance, m, and for each m/s of its speed.
const MARGIN: (f64, f64) = (1.0, 0.15);
/// The strongest brake that RSS assumes of others, m/s².
const STRONGEST: f64 = 8.0;

/// Distance that the ego goes if it responds after a second, in which it may accelerate, and brakes
/// then, m: the safe distance of RSS behind a body that stands.
pub(super) fn stopping(speed: f64) -> f64 {
    const RESPONSE: f64 = 1.0;
    const ACCELERATION: f64 = 3.5;
    let then = speed + ACCELERATION * RESPONSE;
    (speed + then) / 2.0 * RESPONSE + then * then / (2.0 * LEAST)
}
