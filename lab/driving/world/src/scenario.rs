//! Scenarios: a road, the ego vehicle, others, and what they do when. Written in YAML by people
//! and by [`suite`](crate::suite); turned into a [`World`](crate::World).
//!
//! Places are given in the ego's route: metres along it from the beginning of the ego's lane, and
//! metres to its left. On roads of a file they can be given in any lane of it ([`Place`]). Events
//! depend on the time and on where other bodies are; there is no way to make them depend on the
//! ego, so that no hazard can wait for a late reaction.

pub(crate) mod check;
mod layout;
mod populate;
mod read;
mod roads;

pub use read::Error;
pub use roads::{OpenDrive, Place};

use crate::body::Kind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Description of a drive, from its beginning to its end.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// s, from 1 to 600.
    pub duration_s: f64,
    /// Road of the scenario.
    pub road: Layout,
    /// The vehicle that a driving stack drives.
    pub ego: Ego,
    /// Vehicles and people without a part of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// Vehicles that SUMO moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sumo: Option<Sumo>,
    /// The others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<Actor>,
    /// Actions of the actors, and the moments at which they happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// Dangerous part of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hazard: Option<Hazard>,
}

/// Vehicles that another process, SUMO, moves over the roads of an OpenDRIVE file. In the file of a
/// scenario, paths are relative to it; absolute once it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sumo {
    /// The same roads as SUMO's network; none: it is made from the OpenDRIVE file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<PathBuf>,
    /// SUMO's file of routes, vehicles and flows.
    pub routes: PathBuf,
    /// The same seed moves the same traffic, as long as SUMO is the same.
    #[serde(default)]
    pub seed: u32,
    /// Time for which SUMO's traffic runs before the scenario begins, s, up to 3600.
    #[serde(default)]
    pub warm_up_s: f64,
}

/// The shape of the road. Traffic keeps to the right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// Road without a bend.
    Straight {
        /// m, from 50 to 20,000.
        length_m: f64,
        /// Lanes in the ego's direction, from 1 to 6.
        lanes: usize,
        /// Lanes against it, up to 6.
        #[serde(default)]
        oncoming: usize,
        /// m, from 2 to 6.
        lane_width_m: f64,
        /// Speed limit, 5 to 200.
        limit_kmh: f64,
    },
    /// Straight, then a part of a circle, then straight.
    Curve {
        /// m before the bend, from 10 to 10,000.
        before_m: f64,
        /// m, from 15 to 5,000.
        radius_m: f64,
        /// Negative: to the right; up to 180 to either side.
        angle_deg: f64,
        /// m after the bend, from 10 to 10,000.
        after_m: f64,
        /// Lanes in the ego's direction, from 1 to 6.
        lanes: usize,
        /// Lanes against it, up to 6.
        #[serde(default)]
        oncoming: usize,
        /// m, from 2 to 6.
        lane_width_m: f64,
        /// Speed limit, 5 to 200.
        limit_kmh: f64,
    },
    /// Four arms at right angles. The ego's road goes first.
    Junction {
        /// Length of each arm, m, from 30 to 2,000.
        arm_m: f64,
        /// Lanes in each direction of each arm, from 1 to 3.
        lanes: usize,
        /// m, from 2 to 6.
        lane_width_m: f64,
        /// Speed limit, 5 to 200.
        limit_kmh: f64,
    },
    /// Roads of an OpenDRIVE file.
    #[serde(rename = "opendrive")]
    OpenDrive(OpenDrive),
}

/// The ego vehicle at the beginning, and what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ego {
    /// Counted from the right, from 0.
    #[serde(default)]
    pub lane: usize,
    /// m from the beginning of its lane.
    pub along_m: f64,
    /// Speed at the beginning, up to 200.
    pub speed_kmh: f64,
    /// Highest speed that it wants to drive; none: the speed limit of the road.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_kmh: Option<f64>,
    /// Direction in which it goes at a junction.
    #[serde(default)]
    pub turn: Turn,
    /// Headway of the reference driver behind others, s, from 0.1 to 5.
    #[serde(default = "Ego::headway")]
    pub headway_s: f64,
    /// Time that brakes, engine and steering take to follow a command (63 %), s, up to 1.
    #[serde(default = "Ego::lag")]
    pub actuation_lag_s: f64,
    /// The strongest braking, m/s², from 1 to 12.
    #[serde(default = "Ego::braking")]
    pub braking_mps2: f64,
}

/// Direction in which a vehicle goes at a junction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// Straight on.
    #[default]
    Straight,
    /// Turn to the left.
    Left,
    /// Turn to the right.
    Right,
}

/// Others, placed by a seed. Numbers per km are for each lane.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// The same seed places the same traffic.
    pub seed: u64,
    /// Vehicles per km of the lanes of the ego's route, up to 100.
    #[serde(default)]
    pub own_per_km: f64,
    /// Vehicles per km of other lanes in its direction.
    #[serde(default)]
    pub beside_per_km: f64,
    /// Vehicles per km of lanes against it.
    #[serde(default)]
    pub oncoming_per_km: f64,
    /// Vehicles per km of lanes across it.
    #[serde(default)]
    pub crossing_per_km: f64,
    /// Do drivers change lanes?
    #[serde(default)]
    pub lane_changes: bool,
    /// Beside the ego's road within 200 m after its start, up to 200.
    #[serde(default)]
    pub pedestrians: usize,
    /// Number of these pedestrians who cross the road when nothing comes.
    #[serde(default)]
    pub crossing_pedestrians: usize,
    /// Cars at the right kerb of the ego's road within 200 m after its start, up to 100.
    #[serde(default)]
    pub parked: usize,
}

impl Traffic {
    /// Are there vehicles among it that drive?
    pub(crate) fn moves(&self) -> bool {
        let beside = self.beside_per_km + self.oncoming_per_km + self.crossing_per_km;
        self.own_per_km + beside > 0.0
    }
}

/// Road user or obstacle beside the ego.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// Its kind.
    pub kind: Kind,
    /// Lane of an OpenDRIVE file on which it begins; none: on the ego's route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Place>,
    /// m along that lane and those ahead of it, or along the ego's route.
    pub along_m: f64,
    /// m to the left of it.
    #[serde(default)]
    pub left_m: f64,
    /// Heading to the left of the route's direction; 180 comes towards the ego.
    #[serde(default)]
    pub heading_deg: f64,
    /// Speed at the beginning, up to 200.
    #[serde(default)]
    pub speed_kmh: f64,
    /// m; none: what is usual for its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_m: Option<f64>,
    /// m; none: what is usual for its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width_m: Option<f64>,
    /// Its way of moving.
    #[serde(default)]
    pub moves: Moves,
}

/// Way in which an actor moves until an action says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Moves {
    /// Straight on, with its speed, whatever is in its way.
    #[default]
    Straight,
    /// Along the nearest lane of its direction, as far beside its middle as it stands, with its
    /// speed, whatever is in its way.
    Lane {
        /// Direction in which it goes at a junction.
        #[serde(default)]
        turn: Turn,
    },
    /// Along the nearest lane of its direction, behind others (intelligent driver model).
    Drives {
        /// Highest speed that it wants to drive.
        desired_kmh: f64,
        /// Direction in which it goes at a junction.
        #[serde(default)]
        turn: Turn,
        /// Does it change lanes (MOBIL)?
        #[serde(default)]
        lane_changes: bool,
    },
    /// Straight on across the road as soon as nothing comes, and then no further.
    Crosses {
        /// Speed of walking.
        walk_kmh: f64,
        /// Distance to walk, m.
        over_m: f64,
    },
}

/// Something that an actor does once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// Its place in the list of actors, from 0.
    pub actor: usize,
    /// Moment at which it begins.
    pub when: When,
    /// Change that the action makes.
    pub does: Does,
}

/// The first moment at which something is true. The ego's state cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// Age of the scenario, s.
    TimeS(f64),
    /// An actor has come so far.
    Gone {
        /// Its place in the list of actors, from 0.
        actor: usize,
        /// m from where it started.
        distance_m: f64,
    },
}

/// Change that an action makes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Does {
    /// Its speed, from now on whatever is in its way.
    Speed {
        /// Up to 200.
        to_kmh: f64,
        /// m/s², above 0; none: at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_mps2: Option<f64>,
    },
    /// Its place in its lane.
    Drift {
        /// m from the middle of its lane, to its left; more than half its width is another lane.
        left_m: f64,
        /// m along the lane until it is there, from 2.
        over_m: f64,
    },
}

/// The dangerous part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hazard {
    /// The actor that it is about: its place in the list, from 0.
    pub actor: usize,
    /// Action that it begins with: its place in the list, from 0.
    pub action: usize,
}

impl fmt::Debug for Scenario {
    /// Derived form, but without keys that are not given and that came later: fingerprints
    /// of the suites are made of this.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { name, duration_s, road, ego, traffic, sumo, .. } = self;
        let mut text = formatter.debug_struct("Scenario");
        text.field("name", name).field("duration_s", duration_s).field("road", road);
        text.field("ego", ego).field("traffic", traffic);
        if let Some(sumo) = sumo {
            text.field("sumo", sumo);
        }
        text.field("actors", &self.actors).field("actions", &self.actions);
        text.field("hazard", &self.hazard).finish()
    }
}

impl fmt::Debug for Actor {
    /// Format of [`Scenario`].
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Actor { kind, on, along_m, left_m, heading_deg, speed_kmh, .. } = self;
        let mut text = formatter.debug_struct("Actor");
        text.field("kind", kind);
        if let Some(on) = on {
            text.field("on", on);
        }
        text.field("along_m", along_m).field("left_m", left_m);
        text.field("heading_deg", heading_deg).field("speed_kmh", speed_kmh);
        text.field("length_m", &self.length_m).field("width_m", &self.width_m);
        text.field("moves", &self.moves).finish()
    }
}

impl Ego {
    pub(crate) fn headway() -> f64 {
        1.5
    }

    pub(crate) fn lag() -> f64 {
        0.1
    }

    pub(crate) fn braking() -> f64 {
        8.0
    }
}

impl Layout {
    /// Lanes in the ego's direction, where it starts.
    pub fn lanes(&self) -> usize {
        match self {
            Layout::Straight { lanes, .. }
            | Layout::Curve { lanes, .. }
            | Layout::Junction { lanes, .. } => *lanes,
            Layout::OpenDrive(file) => file.lanes(),
        }
    }

    /// Width of each lane, of a file's that of the ego's first one, m.
    pub fn lane_width(&self) -> f64 {
        match self {
            Layout::Straight { lane_width_m, .. }
            | Layout::Curve { lane_width_m, .. }
            | Layout::Junction { lane_width_m, .. } => *lane_width_m,
            Layout::OpenDrive(file) => file.first().map_or(0.0, |lane| lane.width),
        }
    }

    /// Speed limit; in a file, the one where the ego starts, m/s.
    pub fn limit(&self) -> f64 {
        match self {
            Layout::Straight { limit_kmh, .. }
            | Layout::Curve { limit_kmh, .. }
            | Layout::Junction { limit_kmh, .. } => limit_kmh / KMH,
            Layout::OpenDrive(file) => file.first().map_or(0.0, |lane| lane.limit),
        }
    }
}

/// km/h in a m/s.
pub(crate) const KMH: f64 = 3.6;

/// Length and width of what is usual for a kind, m.
pub fn usual_size(kind: Kind) -> (f64, f64) {
    match kind {
        Kind::Car => (4.5, 1.8),
        Kind::Truck => (10.0, 2.5),
        Kind::Cyclist => (1.8, 0.6),
        Kind::Pedestrian => (0.4, 0.6),
        Kind::Obstacle => (4.5, 1.8),
    }
}
