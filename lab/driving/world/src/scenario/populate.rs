//! Places traffic that has no part of its own.

use super::check::NoWorld;
use super::{Layout, Scenario, Traffic, usual_size};
use crate::body::{Body, Kind};
use crate::geometry::{Pose, wrapped};
use crate::random::Random;
use crate::road::{Lane, LaneId, Road};
use crate::route::Route;
use crate::traffic::actor::{Actor, Driver, Follower, Motion};
use glam::DVec2;
use std::collections::BTreeMap;
use std::f64::consts::FRAC_PI_2;

/// Along the ego's road, from its start, m.
const BESIDE_ROAD: f64 = 200.0;
/// A place at the kerb, m.
const SLOT: f64 = 7.0;
/// Free space around the scenario's own actors, m along the route.
const FREE: f64 = 15.0;
/// The most places at which it is looked whether there is room for a vehicle: 1,000 km of lanes with
/// as many as there can be.
const MOST_PLACES: usize = 100_000;
/// The most looks at blocks of the ego's route, one for each block and lane that is not on it.
const MOST_LOOKS: usize = 100_000_000;

impl Scenario {
    /// The pose on its lane, or on the ego's route, beside which an actor starts; none if there is
    /// no such lane.
    pub(crate) fn base(&self, actor: &super::Actor, route: &Route) -> Option<Pose> {
        match (&self.road, &actor.on) {
            (Layout::OpenDrive(file), Some(place)) => Some(file.line(place)?.pose(actor.along_m)),
            (_, Some(_)) => None,
            (_, None) => Some(route.line().pose(actor.along_m)),
        }
    }

    /// The traffic of this scenario; its numbers go on after the actors'.
    ///
    /// # Errors
    /// If the roads are so many or so long that it takes too much work.
    pub(crate) fn populate(&self, road: &Road, route: &Route) -> Result<Vec<Actor>, NoWorld> {
        let Some(traffic) = self.traffic else { return Ok(Vec::new()) };
        let bases = self.actors.iter().map(|actor| (self.base(actor, route), actor));
        let bases: Vec<_> = bases.filter_map(|(base, actor)| Some((base?, actor))).collect();
        let own = route.lanes().iter().rev().map(|(start, lane)| (*lane, *start)).collect();
        let taken = bases.iter().map(|(base, actor)| base.point(0.0, actor.left_m)).collect();
        let along = |(base, actor): &(Pose, &super::Actor)| match actor.on {
            None => actor.along_m,
            Some(_) => route.line().offset(base.position).along,
        };
        let mut places = Places {
            scenario: self,
            traffic,
            road,
            route,
            own,
            taken,
            along: bases.iter().map(along).collect(),
            random: Random::new(traffic.seed, 0),
            next: self.actors.len() as u32 + 1,
            all: vec![],
            looked: 0,
        };
        if traffic.moves() {
            let blocks = route.line().points().len() / 8 + 1;
            if road.lanes().len() * blocks > MOST_LOOKS {
                let found =
                    format!("{} lanes beside a route of {blocks} pieces", road.lanes().len());
                return Err(too_much(found));
            }
            for (id, lane) in road.lanes() {
                places.vehicles(id, lane)?;
            }
        }
        places.parked();
        places.pedestrians();
        Ok(places.all)
    }
}

fn too_much(found: String) -> NoWorld {
    NoWorld::Value {
        key: "traffic".to_owned(),
        found,
        expected: "shorter roads, fewer lanes, or fewer vehicles per km",
    }
}

struct Places<'s> {
    scenario: &'s Scenario,
    traffic: Traffic,
    road: &'s Road,
    route: &'s Route,
    /// Lanes of the route, with where they begin along it, m.
    own: BTreeMap<LaneId, f64>,
    /// Places at which the scenario's actors start, and their distances along the route, m.
    taken: Vec<DVec2>,
    along: Vec<f64>,
    random: Random,
    next: u32,
    all: Vec<Actor>,
    /// Places at which it was looked whether there is room.
    looked: usize,
}

impl Places<'_> {
    fn add(&mut self, kind: Kind, pose: Pose, speed: f64, motion: Motion) {
        let (length, width) = usual_size(kind);
        let body = Body { id: self.next, kind, pose, speed, acceleration: 0.0, length, width };
        self.next += 1;
        self.all.push(Actor::with(body, motion, self.road));
    }

    /// Number of vehicles per km of this lane.
    fn per_km(&self, id: LaneId, lane: &Lane) -> f64 {
        let crosses = match &self.scenario.road {
            Layout::OpenDrive(file) => file.in_junction(id),
            _ => {
                !lane.next.is_empty()
                    && self.road.lanes().any(|(_, other)| other.next.contains(&id))
            }
        };
        if crosses {
            return 0.0;
        }
        if self.own.contains_key(&id) {
            return self.traffic.own_per_km;
        }
        let middle = lane.line.pose(lane.line.length() / 2.0);
        let along = self.route.line().offset(middle.position).along;
        let cos = self.route.line().pose(along).forward().dot(middle.forward());
        match cos {
            0.7.. => self.traffic.beside_per_km,
            ..-0.7 => self.traffic.oncoming_per_km,
            _ => self.traffic.crossing_per_km,
        }
    }

    fn vehicles(&mut self, id: LaneId, lane: &Lane) -> Result<(), NoWorld> {
        let per_km = self.per_km(id, lane);
        if per_km <= 0.0 {
            return Ok(());
        }
        let mean = 1000.0 / per_km;
        let length = lane.line.length();
        let mut along = self.random.uniform(0.0, mean);
        while along < length {
            self.looked += 1;
            if self.looked > MOST_PLACES {
                let found = format!("more than {MOST_PLACES} places for vehicles");
                return Err(too_much(found));
            }
            let kind = match self.random.uniform(0.0, 1.0) {
                ..0.03 => Kind::Cyclist,
                ..0.12 => Kind::Truck,
                _ => Kind::Car,
            };
            let share = self.random.uniform(0.8, 1.05);
            let desired = if kind == Kind::Cyclist { 5.0 } else { lane.limit * share };
            let step = (mean * self.random.uniform(0.6, 1.4)).max(usual_size(kind).0 + 8.0);
            let gap = step - usual_size(Kind::Truck).0 - 2.0;
            let brakes = (6.0 * (length - along)).sqrt();
            let speed = if lane.next.is_empty() { desired } else { desired.min(brakes) };
            let speed = speed.min((gap / 1.5).max(0.0));
            if self.free(id, along, speed) {
                let driver = Driver { desired, lane_changes: self.traffic.lane_changes };
                let motion = Motion::Lane(Follower::new(id, along, 0.0, Some(driver)));
                self.add(kind, lane.line.pose(along), speed, motion);
            }
            along += step;
        }
        Ok(())
    }

    /// Returns true if this place is far enough from the ego and from the scenario's actors.
    fn free(&self, lane: LaneId, along: f64, speed: f64) -> bool {
        let pose = self.road.lane(lane).line.pose(along);
        let ego = &self.scenario.ego;
        let clear = self.own.get(&lane).is_none_or(|start| {
            let ahead = start + along - ego.along_m;
            ahead > 14.0 + 1.5 * ego.speed_kmh / super::KMH || ahead < -(14.0 + 1.5 * speed)
        });
        clear && !self.taken.iter().any(|taken| taken.distance(pose.position) < 12.0)
    }

    /// Returns true if no actor of the scenario is near this place of the route.
    fn apart(&self, along: f64) -> bool {
        self.along.iter().all(|at| (at - along).abs() > FREE)
    }

    /// End of the road beside the ego's route, m along it: before a crossing.
    fn beside_end(&self) -> f64 {
        let end = self.scenario.ego.along_m + BESIDE_ROAD;
        match &self.scenario.road {
            Layout::Junction { arm_m, .. } => end.min(arm_m - 15.0),
            Layout::OpenDrive(file) => end.min(file.free(self.route)),
            _ => end.min(self.route.line().length()),
        }
    }

    fn parked(&mut self) {
        let (start, end) = (self.scenario.ego.along_m, self.beside_end());
        let slots = ((end - start) / SLOT).max(0.0) as usize;
        let share = self.traffic.parked as f64 / slots.max(1) as f64;
        let left = self.scenario.road.kerb(self.scenario.ego.lane) - 1.1;
        for slot in 0..slots {
            let along = start + SLOT * (slot as f64 + 0.5);
            if self.random.chance(share) && self.apart(along) {
                let base = self.route.line().pose(along);
                let pose = Pose { position: base.point(0.0, left), ..base };
                self.add(Kind::Obstacle, pose, 0.0, Motion::Straight);
            }
        }
    }

    fn pedestrians(&mut self) {
        let (start, end) = (self.scenario.ego.along_m, self.beside_end());
        let junction = matches!(self.scenario.road, Layout::Junction { .. });
        let file = matches!(self.scenario.road, Layout::OpenDrive(_));
        for index in 0..self.traffic.pedestrians {
            let along = self.random.uniform(start + 5.0, (end - 5.0).max(start + 6.0));
            let aside = self.random.uniform(2.4, 4.0);
            let speed = self.random.uniform(0.9, 1.6);
            if index < self.traffic.crossing_pedestrians && !junction {
                self.crosses(along, speed);
                continue;
            }
            let kerb = self.scenario.road.kerb(self.scenario.ego.lane);
            let base = self.route.line().pose(along);
            if junction || file {
                let heading = wrapped(base.heading + FRAC_PI_2);
                let pose = Pose { position: base.point(0.0, kerb - aside), heading };
                self.add(Kind::Pedestrian, pose, 0.0, Motion::Straight);
                continue;
            }
            let lane = self.pavement_lane();
            let left = -self.road.lane(lane).width / 2.0 - aside;
            let along = self.road.lane(lane).line.offset(base.position).along;
            let motion = Motion::Lane(Follower::new(lane, along, left, None));
            self.add(Kind::Pedestrian, base, speed, motion);
        }
    }

    /// Crosses from the right kerb as soon as nothing comes.
    fn crosses(&mut self, along: f64, walk: f64) {
        if !self.apart(along) {
            return;
        }
        let layout = &self.scenario.road;
        let base = self.route.line().pose(along);
        let position = base.point(0.0, layout.kerb(self.scenario.ego.lane) - 0.6);
        let pose = Pose { position, heading: wrapped(base.heading + FRAC_PI_2) };
        let over = layout.width() + 1.2;
        self.add(Kind::Pedestrian, pose, 0.0, Motion::Crosses { walk, over });
    }

    /// The lane beside whose right edge pedestrians walk: the last one of either direction.
    fn pavement_lane(&mut self) -> LaneId {
        let last = LaneId(self.road.lanes().len() - 1);
        let oncoming = last.0 >= self.scenario.road.lanes();
        if oncoming && self.random.chance(0.5) { last } else { LaneId(0) }
    }
}
