//! The world: it goes on by one step at a time, and everything in it can be looked at.

use crate::body::{Body, Command};
use crate::collision::Collision;
use crate::ego::Ego;
use crate::road::{LaneId, Road};
use crate::route::Route;
use crate::scenario::check::NoWorld;
use crate::scenario::{self, Action, KMH, Layout, Scenario, When};
use crate::sight;
use crate::traffic::Traffic;
use crate::traffic::actor::Actor;
use std::sync::Arc;

/// Duration of a step, s.
pub const STEP: f64 = 0.01;

/// Distance before the end of a route at which the route counts as driven, m.
const GOAL: f64 = 5.0;

/// Everything that there is at one moment.
///
/// It depends on the scenario and on the commands alone: the same ones give the same world, bit
/// for bit. A copy goes its own way.
#[derive(Clone, Debug)]
pub struct World {
    road: Arc<Road>,
    route: Arc<Route>,
    steps: u64,
    duration: f64,
    limit: f64,
    /// Distance along its route that the ego is to go, m; no scenario of a layout ends there.
    goal: f64,
    ego: Ego,
    traffic: Traffic,
    /// Bodies that another simulator moves.
    others: Vec<Body>,
    /// Actions that are still to happen, with their places in the scenario.
    actions: Vec<(usize, Action)>,
    hazard: Option<(scenario::Hazard, Option<f64>)>,
    bodies: Vec<Body>,
    collisions: Vec<Collision>,
}

/// The dangerous part of a scenario, as it truly is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hazard {
    /// The body that it is about.
    pub body: u32,
    /// Time at which it began, s; None if it has not.
    pub began: Option<f64>,
}

impl World {
    /// The world at the beginning of a scenario.
    ///
    /// # Errors
    /// If the scenario is none; the error calls it by its name.
    pub fn new(scenario: &Scenario) -> Result<World, scenario::Error> {
        scenario.world(&scenario.name)
    }

    pub(crate) fn build(scenario: &Scenario) -> Result<World, NoWorld> {
        let spec = &scenario.ego;
        let (road, route) = ways(scenario)?;
        let pose = route.line().pose(spec.along_m);
        let ego = Ego::new(pose, spec.speed_kmh / KMH, spec.actuation_lag_s, spec.braking_mps2);
        let mut actors = Vec::new();
        for (index, actor) in scenario.actors.iter().enumerate() {
            let placed = scenario.base(actor, &route);
            let actor = placed.and_then(|base| Actor::new(index as u32 + 1, actor, &road, base));
            actors.push(actor.ok_or(NoWorld::Actor(index))?);
        }
        actors.extend(scenario.populate(&road, &route)?);
        let mut world = World {
            steps: 0,
            duration: scenario.duration_s,
            limit: spec.desired_kmh.map_or(f64::INFINITY, |desired| desired / KMH),
            goal: match scenario.road {
                Layout::OpenDrive(_) => route.line().length() - GOAL,
                _ => f64::INFINITY,
            },
            ego,
            traffic: Traffic::new(&road, actors),
            others: Vec::new(),
            actions: scenario.actions.iter().copied().enumerate().collect(),
            hazard: scenario.hazard.map(|hazard| (hazard, None)),
            bodies: Vec::new(),
            collisions: Vec::new(),
            road: Arc::new(road),
            route: Arc::new(route),
        };
        world.look();
        Ok(world)
    }

    /// Goes on by [`STEP`].
    pub fn step(&mut self, command: &Command) {
        let others = std::mem::take(&mut self.others);
        self.step_among(command, others);
    }

    /// Goes on by [`STEP`], with the bodies that another simulator moves where they are after it.
    /// Their numbers begin with [`World::next_number`], and grow.
    pub fn step_among(&mut self, command: &Command, others: Vec<Body>) {
        self.act();
        let outside = [&[self.ego.body()], &self.others[..]].concat();
        self.traffic.decide(self.steps, &self.road, &outside);
        self.traffic.step(&self.road);
        self.ego.step(command);
        self.steps += 1;
        self.put(others);
    }

    /// Puts the bodies that another simulator moves where they are now.
    pub fn put(&mut self, others: Vec<Body>) {
        self.others = others;
        self.look();
    }

    /// The first number that no body of the scenario has or had.
    pub fn next_number(&self) -> u32 {
        self.traffic.count() as u32 + 1
    }

    /// Carries out the actions whose moment it is.
    fn act(&mut self) {
        let (time, traffic) = (self.time(), &mut self.traffic);
        let hazard = &mut self.hazard;
        self.actions.retain(|(index, action)| {
            let due = match action.when {
                When::TimeS(at) => time >= at - STEP / 2.0,
                When::Gone { actor, distance_m } => traffic.distance(actor) >= distance_m,
            };
            if due {
                traffic.act(action.actor, &action.does);
                if let Some((_, began)) = hazard.as_mut().filter(|it| it.0.action == *index) {
                    *began = Some(time);
                }
            }
            !due
        });
    }

    /// Takes the places of all bodies now, and finds those that touch the ego.
    fn look(&mut self) {
        let ego = self.ego.body();
        self.bodies.clear();
        self.bodies.push(ego);
        self.bodies.extend(self.traffic.bodies());
        self.bodies.extend(&self.others);
        let time = self.time();
        for body in &self.bodies[1..] {
            let Some(collision) = Collision::find(time, &ego, body) else { continue };
            if self.collisions.iter().all(|earlier| earlier.body != body.id) {
                self.collisions.push(collision);
            }
        }
    }

    /// Since the beginning, s.
    pub fn time(&self) -> f64 {
        self.steps as f64 * STEP
    }

    /// Steps since the beginning.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns true if the scenario's time has passed, or if, on roads of a file, the ego has come
    /// to the end of its route.
    pub fn ended(&self) -> bool {
        self.time() >= self.duration - STEP / 2.0 || self.arrived()
    }

    fn arrived(&self) -> bool {
        self.goal.is_finite()
            && self.route.line().offset(self.ego.pose().position).along >= self.goal
    }

    /// The lanes.
    pub fn road(&self) -> &Road {
        &self.road
    }

    /// The way that the ego is to go.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The fastest that the ego should drive at a distance along its route, m/s: what is allowed
    /// there, and no more than the scenario asks for.
    pub fn limit(&self, along: f64) -> f64 {
        self.route.limit(along).min(self.limit)
    }

    /// The ego vehicle, with what its actuators do.
    pub fn ego(&self) -> &Ego {
        &self.ego
    }

    /// All bodies, the ego first.
    pub fn bodies(&self) -> &[Body] {
        &self.bodies
    }

    /// A body, if it exists (still).
    pub fn body(&self, id: u32) -> Option<&Body> {
        let place = self.bodies.binary_search_by_key(&id, |body| body.id).ok()?;
        self.bodies.get(place)
    }

    /// The bodies that can be seen from the ego's middle (see [`sight`]).
    pub fn visible(&self) -> Vec<u32> {
        let others = self.bodies[1..].iter().map(|body| body.id);
        others.filter(|id| self.sees(*id)).collect()
    }

    /// Can one see this body from the ego's middle?
    pub fn sees(&self, id: u32) -> bool {
        let eye = self.ego.pose().position;
        self.body(id).is_some_and(|target| sight::sees(eye, 0, target, &self.bodies))
    }

    /// The first contacts of the ego with each body that it met, in their order. No body is
    /// stopped by one.
    pub fn collisions(&self) -> &[Collision] {
        &self.collisions
    }

    /// The dangerous part, if the scenario has one.
    pub fn hazard(&self) -> Option<Hazard> {
        let (hazard, began) = self.hazard?;
        Some(Hazard { body: hazard.actor as u32 + 1, began })
    }
}

/// The lanes of a scenario, and the ego's way over them, on which it starts.
fn ways(scenario: &Scenario) -> Result<(Road, Route), NoWorld> {
    let spec = &scenario.ego;
    if let Layout::OpenDrive(file) = &scenario.road {
        let route = file.route()?;
        let road = scenario.road.road().ok_or(NoWorld::Road)?;
        if spec.along_m >= route.line().length() - GOAL {
            let (key, found) = ("ego.along_m".to_owned(), spec.along_m.to_string());
            let expected = "a place at least 5 m before the end of its route";
            return Err(NoWorld::Value { key, found, expected });
        }
        return Ok((road, route));
    }
    let road = scenario.road.road().ok_or(NoWorld::Road)?;
    let start = LaneId(spec.lane);
    let route = Route::new(&road, start, spec.turn).ok_or(NoWorld::Route)?;
    if spec.along_m > road.lane(start).line.length() {
        return Err(NoWorld::Route);
    }
    Ok((road, route))
}
