//! Bodies that move or stand in the world, and the command that drives the ego vehicle.

use crate::geometry::{Pose, Rectangle};
use serde::{Deserialize, Serialize};

/// Kind of a body.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A car.
    Car,
    /// A lorry or a bus.
    Truck,
    /// A bicycle or a motorcycle with its rider.
    Cyclist,
    /// A pedestrian.
    Pedestrian,
    /// Object that never moves: a parked car, a wall.
    Obstacle,
}

/// A body at one moment, as it truly is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// Its number, the same for as long as it exists. The ego vehicle is 0.
    pub id: u32,
    /// Its kind.
    pub kind: Kind,
    /// Position of its centre, and its heading.
    pub pose: Pose,
    /// Along its heading, m/s; negative: backwards.
    pub speed: f64,
    /// Along its heading, m/s².
    pub acceleration: f64,
    /// Along its heading, m.
    pub length: f64,
    /// Across its heading, m.
    pub width: f64,
}

impl Body {
    /// The ground that it covers.
    pub fn footprint(&self) -> Rectangle {
        Rectangle { pose: self.pose, length: self.length, width: self.width }
    }
}

/// Command to the ego vehicle, which holds until the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// m/s²; negative: brake.
    pub acceleration: f64,
    /// Curvature of the path that the vehicle's centre takes, 1/m; positive: to the left.
    pub curvature: f64,
}
