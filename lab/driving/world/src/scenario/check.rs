//! Ranges, and what has to fit together.

use super::{
    Action, Actor, Does, Ego, Error, Layout, Moves, OpenDrive, Scenario, Sumo, Traffic, Turn, When,
};
use crate::world::World;

/// The most actors, and actions, and roads that the ego comes to. Each of them may be looked for on
/// all roads of a file.
const MOST: usize = 256;

impl Scenario {
    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// With the key, what was found, and what was expected.
    pub fn check(&self, file: &str) -> Result<(), Error> {
        self.world(file).map(drop)
    }

    /// The world at its beginning; `file` is the name that errors give to the scenario.
    pub(crate) fn world(&self, file: &str) -> Result<World, Error> {
        let check = Check { file };
        check.range("duration_s", self.duration_s, 1.0, 600.0)?;
        check.layout(&self.road)?;
        check.ego(&self.ego, &self.road)?;
        if let Some(traffic) = &self.traffic {
            check.traffic(traffic)?;
        }
        if let Some(sumo) = &self.sumo {
            check.sumo(sumo, self)?;
        }
        check.count("actors", self.actors.len(), 0, MOST)?;
        check.count("actions", self.actions.len(), 0, MOST)?;
        for (index, actor) in self.actors.iter().enumerate() {
            check.actor(&format!("actors[{index}]"), actor, &self.road)?;
        }
        for (index, action) in self.actions.iter().enumerate() {
            check.action(&format!("actions[{index}]"), action, &self.actors)?;
        }
        if let Some(hazard) = &self.hazard {
            check.index("hazard.actor", hazard.actor, self.actors.len(), "actors")?;
            check.index("hazard.action", hazard.action, self.actions.len(), "actions")?;
        }
        let refuse = |error: NoWorld| {
            let expected = error.expected();
            let key = match error {
                NoWorld::Road => "road".to_owned(),
                NoWorld::Route => "ego".to_owned(),
                NoWorld::Actor(index) => format!("actors[{index}]"),
                NoWorld::Value { key, found, expected } => {
                    return check.refuse(&key, found, expected);
                }
            };
            check.refuse(&key, "a place without a lane", expected)
        };
        World::build(self).map_err(refuse)
    }
}

/// Reason for which a checked scenario still is no world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoWorld {
    /// The layout has no room for its lanes.
    Road,
    /// The ego stands on no lane, or cannot go on from it.
    Route,
    /// The actor of this number has no lane near it.
    Actor(usize),
    /// A value that does not fit to the roads of a file.
    Value { key: String, found: String, expected: &'static str },
}

impl NoWorld {
    fn expected(&self) -> &'static str {
        match self {
            NoWorld::Road => "a radius larger than the width of all lanes",
            NoWorld::Route => "a start on its lane, in a lane from which it can turn as it should",
            NoWorld::Actor(_) => "a lane of its direction, at most 6 m beside it",
            NoWorld::Value { expected, .. } => expected,
        }
    }
}

struct Check<'f> {
    file: &'f str,
}

impl Check<'_> {
    fn refuse(&self, key: &str, found: impl ToString, expected: impl ToString) -> Error {
        let (file, key) = (self.file.to_owned(), key.to_owned());
        Error::Value { file, key, found: found.to_string(), expected: expected.to_string() }
    }

    fn range(&self, key: &str, found: f64, low: f64, high: f64) -> Result<(), Error> {
        if (low..=high).contains(&found) {
            return Ok(());
        }
        Err(self.refuse(key, found, format!("a number from {low} to {high}")))
    }

    fn count(&self, key: &str, found: usize, low: usize, high: usize) -> Result<(), Error> {
        if (low..=high).contains(&found) {
            return Ok(());
        }
        Err(self.refuse(key, found, format!("a whole number from {low} to {high}")))
    }

    fn index(&self, key: &str, found: usize, length: usize, list: &str) -> Result<(), Error> {
        if found < length {
            return Ok(());
        }
        Err(self.refuse(key, found, format!("a place in the list of {length} {list}, from 0")))
    }

    fn layout(&self, layout: &Layout) -> Result<(), Error> {
        let (name, most) = match layout {
            Layout::Straight { .. } => ("road.straight", 6),
            Layout::Curve { .. } => ("road.curve", 6),
            Layout::Junction { .. } => ("road.junction", 3),
            Layout::OpenDrive(file) => {
                return self.count("roads in road.opendrive.via", file.via.len(), 0, MOST);
            }
        };
        let key = |last: &str| format!("{name}.{last}");
        match *layout {
            Layout::Straight { length_m, oncoming, .. } => {
                self.range(&key("length_m"), length_m, 50.0, 20_000.0)?;
                self.count(&key("oncoming"), oncoming, 0, 6)?;
            }
            Layout::Curve { before_m, radius_m, angle_deg, after_m, oncoming, .. } => {
                self.range(&key("before_m"), before_m, 10.0, 10_000.0)?;
                self.range(&key("radius_m"), radius_m, 15.0, 5_000.0)?;
                self.range(&key("angle_deg"), angle_deg, -180.0, 180.0)?;
                self.range(&key("after_m"), after_m, 10.0, 10_000.0)?;
                self.count(&key("oncoming"), oncoming, 0, 6)?;
            }
            Layout::Junction { arm_m, .. } => {
                self.range(&key("arm_m"), arm_m, 30.0, 2_000.0)?;
            }
            Layout::OpenDrive(_) => {}
        }
        self.count(&key("lanes"), layout.lanes(), 1, most)?;
        self.range(&key("lane_width_m"), layout.lane_width(), 2.0, 6.0)?;
        self.range(&key("limit_kmh"), layout.limit_kmh(), 5.0, 200.0)
    }

    fn ego(&self, ego: &Ego, layout: &Layout) -> Result<(), Error> {
        if matches!(layout, Layout::OpenDrive(_)) {
            let given = "none: road.opendrive.from and via say where it goes";
            if ego.lane != 0 {
                return Err(self.refuse("ego.lane", ego.lane, given));
            }
            if ego.turn != Turn::Straight {
                return Err(self.refuse(
                    "ego.turn",
                    format!("{:?}", ego.turn).to_lowercase(),
                    given,
                ));
            }
        } else {
            self.count("ego.lane", ego.lane, 0, layout.lanes() - 1)?;
        }
        self.range("ego.along_m", ego.along_m, 0.0, 20_000.0)?;
        self.range("ego.speed_kmh", ego.speed_kmh, 0.0, 200.0)?;
        self.range("ego.desired_kmh", ego.desired_kmh.unwrap_or(50.0), 1.0, 200.0)?;
        self.range("ego.headway_s", ego.headway_s, 0.1, 5.0)?;
        self.range("ego.actuation_lag_s", ego.actuation_lag_s, 0.0, 1.0)?;
        self.range("ego.braking_mps2", ego.braking_mps2, 1.0, 12.0)
    }

    fn traffic(&self, traffic: &Traffic) -> Result<(), Error> {
        self.range("traffic.own_per_km", traffic.own_per_km, 0.0, 100.0)?;
        self.range("traffic.beside_per_km", traffic.beside_per_km, 0.0, 100.0)?;
        self.range("traffic.oncoming_per_km", traffic.oncoming_per_km, 0.0, 100.0)?;
        self.range("traffic.crossing_per_km", traffic.crossing_per_km, 0.0, 100.0)?;
        self.count("traffic.pedestrians", traffic.pedestrians, 0, 200)?;
        let (crossing, all) = (traffic.crossing_pedestrians, traffic.pedestrians);
        self.count("traffic.crossing_pedestrians", crossing, 0, all)?;
        self.count("traffic.parked", traffic.parked, 0, 100)
    }

    fn sumo(&self, sumo: &Sumo, scenario: &Scenario) -> Result<(), Error> {
        if !matches!(scenario.road, Layout::OpenDrive(_)) {
            return Err(self.refuse("sumo", "a road without a file", "road.opendrive"));
        }
        self.count("sumo.seed", sumo.seed as usize, 0, i32::MAX as usize)?;
        self.range("sumo.warm_up_s", sumo.warm_up_s, 0.0, 3_600.0)?;
        let paths = sumo.network.iter().map(|path| ("sumo.network", path));
        for (key, path) in paths.chain([("sumo.routes", &sumo.routes)]) {
            if !path.is_file() {
                return Err(self.refuse(key, path.display(), "a file of SUMO's"));
            }
        }
        let Some(traffic) = &scenario.traffic else { return Ok(()) };
        for (key, per_km) in [
            ("traffic.own_per_km", traffic.own_per_km),
            ("traffic.beside_per_km", traffic.beside_per_km),
            ("traffic.oncoming_per_km", traffic.oncoming_per_km),
            ("traffic.crossing_per_km", traffic.crossing_per_km),
        ] {
            if per_km != 0.0 {
                return Err(self.refuse(key, per_km, "0: SUMO moves the vehicles"));
            }
        }
        Ok(())
    }

    fn actor(&self, name: &str, actor: &Actor, layout: &Layout) -> Result<(), Error> {
        let key = |last: &str| format!("{name}.{last}");
        if let Some(on) = &actor.on {
            let known = |file: &OpenDrive| file.map().is_some_and(|map| on.find(map).is_some());
            if !matches!(layout, Layout::OpenDrive(file) if known(file)) {
                let expected = "a drivable lane of the file of road.opendrive";
                return Err(self.refuse(&key("on"), on, expected));
            }
        }
        self.range(&key("along_m"), actor.along_m, -20_000.0, 20_000.0)?;
        self.range(&key("left_m"), actor.left_m, -2_000.0, 2_000.0)?;
        self.range(&key("heading_deg"), actor.heading_deg, -360.0, 360.0)?;
        self.range(&key("speed_kmh"), actor.speed_kmh, 0.0, 200.0)?;
        self.range(&key("length_m"), actor.length_m.unwrap_or(1.0), 0.1, 50.0)?;
        self.range(&key("width_m"), actor.width_m.unwrap_or(1.0), 0.1, 50.0)?;
        match actor.moves {
            Moves::Straight | Moves::Lane { .. } => Ok(()),
            Moves::Drives { desired_kmh, .. } => {
                self.range(&key("moves.drives.desired_kmh"), desired_kmh, 1.0, 200.0)
            }
            Moves::Crosses { walk_kmh, over_m } => {
                self.range(&key("moves.crosses.walk_kmh"), walk_kmh, 0.5, 30.0)?;
                self.range(&key("moves.crosses.over_m"), over_m, 1.0, 100.0)
            }
        }
    }

    fn action(&self, name: &str, action: &Action, actors: &[Actor]) -> Result<(), Error> {
        let key = |last: &str| format!("{name}.{last}");
        self.index(&key("actor"), action.actor, actors.len(), "actors")?;
        match action.when {
            When::TimeS(time) => self.range(&key("when.time_s"), time, 0.0, 600.0)?,
            When::Gone { actor, distance_m } => {
                self.index(&key("when.gone.actor"), actor, actors.len(), "actors")?;
                self.range(&key("when.gone.distance_m"), distance_m, 0.0, 20_000.0)?;
            }
        }
        match action.does {
            Does::Speed { to_kmh, rate_mps2 } => {
                self.range(&key("does.speed.to_kmh"), to_kmh, 0.0, 200.0)?;
                self.range(&key("does.speed.rate_mps2"), rate_mps2.unwrap_or(1.0), 0.01, 100.0)
            }
            Does::Drift { left_m, over_m } => {
                let moves = actors[action.actor].moves;
                if !matches!(moves, Moves::Lane { .. } | Moves::Drives { .. }) {
                    let expected = "an actor that moves along a lane";
                    return Err(self.refuse(&key("actor"), action.actor, expected));
                }
                self.range(&key("does.drift.left_m"), left_m, -20.0, 20.0)?;
                self.range(&key("does.drift.over_m"), over_m, 2.0, 1_000.0)
            }
        }
    }
}
