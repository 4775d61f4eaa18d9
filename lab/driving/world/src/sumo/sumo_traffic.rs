//! SUMO's traffic in a world: both go on step by step, and each is told where the other's vehicles
//! are.

use super::server::Server;
use super::{Error, Sumo};
use crate::body::Body;
use crate::scenario::{Layout, OpenDrive, Scenario};
use crate::world::{STEP, World};
use glam::DVec2;

/// Name of the ego in SUMO.
const EGO: &str = "keeptime-ego";
/// Free space around the ego where it comes in: m, and s of the way of the faster vehicle.
const FREE: (f64, f64) = (14.0, 1.5);

/// SUMO, running beside a world in the same steps.
pub struct Traffic {
    /// Before the server: it ends when its client has left.
    sumo: Sumo,
    server: Server,
    /// Number that is added to SUMO's numbers.
    base: u32,
}

impl Traffic {
    /// The traffic of a scenario, run for as long as it says, with the ego and with those that are
    /// then on the road put into each other's world. None if the scenario wants none.
    ///
    /// # Errors
    /// If SUMO is not there, does not start or does not know the roads of the ego's route.
    pub fn start(scenario: &Scenario, world: &mut World) -> Result<Option<Traffic>, Error> {
        let (Some(spec), Layout::OpenDrive(roads)) = (&scenario.sumo, &scenario.road) else {
            return Ok(None);
        };
        let (server, sumo) = Server::start(spec, &roads.file, STEP, EGO)?;
        let mut traffic = Traffic { sumo, server, base: world.next_number() - 1 };
        let places = places(world, roads);
        let begun = traffic.begin(spec.warm_up_s, world, &places);
        let bodies = begun.map_err(|error| traffic.server.why("before the drive began", error))?;
        traffic.server.heeds(&spec.routes)?;
        world.put(bodies);
        Ok(Some(traffic))
    }

    fn begin(&mut self, warm_up: f64, world: &World, route: &[DVec2]) -> Result<Vec<Body>, Error> {
        for _ in 0..(warm_up / STEP).round() as u64 {
            self.sumo.step()?;
        }
        let speed = world.ego().speed();
        let free = |other: f64| FREE.0 + FREE.1 * speed.max(other);
        self.sumo.enter(&world.ego().body(), route, free)?;
        self.sumo.step()?;
        Ok(self.others())
    }

    /// Moves the ego in SUMO to this place; returns SUMO's vehicles after one more step.
    ///
    /// # Errors
    /// If SUMO has ended, does not answer within half a minute, or says what cannot be.
    pub fn step(&mut self, ego: &Body) -> Result<Vec<Body>, Error> {
        let stepped = self.sumo.place(ego).and_then(|()| self.sumo.step().map(drop));
        stepped.map_err(|error| self.server.why("in the middle of the drive", error))?;
        Ok(self.others())
    }

    /// Version that SUMO reports.
    pub fn version(&self) -> &str {
        self.sumo.version()
    }

    fn others(&self) -> Vec<Body> {
        let others = self.sumo.bodies().iter().filter(|body| body.id != 0);
        others.map(|body| Body { id: self.base + body.id, ..*body }).collect()
    }
}

/// The middles of the lanes of the ego's route that are in no junction.
fn places(world: &World, roads: &OpenDrive) -> Vec<DVec2> {
    let route = world.route();
    let ends = route.lanes().iter().skip(1).map(|(start, _)| *start);
    let lanes = route.lanes().iter().zip(ends.chain([route.line().length()]));
    let outside = lanes.filter(|((_, lane), _)| !roads.in_junction(*lane));
    outside.map(|((start, _), end)| route.line().pose((start + end) / 2.0).position).collect()
}
