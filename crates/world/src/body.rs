//! What moves or stands in the world, and what drives the ego vehicle.

use crate::geometry::{Pose, Rectangle};
use serde::{Deserialize, Serialize};

/// What a body is.
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
    /// Somebody on foot.
    Pedestrian,
    /// What never moves: a parked car, a wall.
    Obstacle,
}

/// A body at one moment, as it truly is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// Its number, the same for as long as it exists. The ego vehicle is 0.
    pub id: u32,
    /// What it is.
    pub kind: Kind,
    /// Where its centre is, and where it looks.
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

/// What the ego vehicle is told to do until it is told something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// m/s²; negative: brake.
    pub acceleration: f64,
    /// Of the path that the vehicle's centre takes, 1/m; positive: to the left.
    pub curvature: f64,
}
