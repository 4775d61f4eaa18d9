//! The reference driver: how the ego is driven while nothing happens.
//!
//! It follows its route (pure pursuit), stays behind others that it sees in its way (the
//! intelligent driver model), and slows down for bends. Whatever is not in its way yet, it does
//! not expect there. It looks around every 100 ms.

use crate::body::{Body, Command};
use crate::ego::{LENGTH, WIDTH};
use crate::sight;
use crate::traffic::model::{Ahead, follow};
use crate::world::World;

/// Steps from one look around to the next.
const LOOK_STEPS: u64 = 10;
/// Sideways acceleration that it likes in a bend, m/s².
const SIDEWAYS: f64 = 2.0;
/// Braking that it likes before one, m/s².
const BRAKING: f64 = 1.5;
/// Number of places ahead at which it looks for bends, and the distance between them, m.
const BENDS: (u32, f64) = (12, 6.0);
/// Distance by which its way is wider than the ego on either side, m.
const BESIDE: f64 = 0.3;

/// Drives the ego.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// s.
    headway: f64,
    acceleration: f64,
}

impl Reference {
    /// Driver that stays `headway` s behind others.
    pub fn new(headway: f64) -> Reference {
        Reference { headway, acceleration: 0.0 }
    }

    /// Its command now.
    pub fn drive(&mut self, world: &World) -> Command {
        self.drive_without(world, None)
    }

    /// Its command now if it does not know of the body `unknown`.
    pub(crate) fn drive_without(&mut self, world: &World, unknown: Option<u32>) -> Command {
        let line = world.route().line();
        let (pose, speed) = (world.ego().pose(), world.ego().speed());
        let along = line.offset(pose.position).along;
        if world.steps().is_multiple_of(LOOK_STEPS) {
            let desired = desired(world, along);
            let ahead = ahead(world, along, unknown);
            self.acceleration = follow(speed, desired, ahead, self.headway);
        }
        let reach = (0.8 * speed).max(4.0);
        let goal = pose.local(line.pose(along + reach).position);
        let curvature = 2.0 * goal.y / goal.length_squared().max(1.0);
        Command { acceleration: self.acceleration, curvature }
    }
}

/// The fastest that it wants to be now, m/s.
fn desired(world: &World, along: f64) -> f64 {
    let route = world.route();
    let straight = route.line().points().len() == 2;
    let mut desired = world.limit(along);
    for step in 0..if straight { 0 } else { BENDS.0 } {
        let distance = f64::from(step) * BENDS.1;
        let bend = route.line().curvature(along + distance).abs().max(1e-6);
        let there = (SIDEWAYS / bend).sqrt().min(world.limit(along + distance));
        desired = desired.min((there * there + 2.0 * BRAKING * distance).sqrt());
    }
    desired
}

/// The nearest body that it sees in its way.
fn ahead(world: &World, along: f64, unknown: Option<u32>) -> Option<Ahead> {
    let (line, pose) = (world.route().line(), world.ego().pose());
    let in_way = |body: &Body| {
        let near = body.pose.position.distance_squared(pose.position) < sight::RANGE * sight::RANGE;
        if !near || Some(body.id) == unknown || pose.local(body.pose.position).x < 0.0 {
            return None;
        }
        let offset = line.offset(body.pose.position);
        let direction = line.pose(offset.along);
        let cos = direction.forward().dot(body.pose.forward());
        let sin = direction.forward().perp_dot(body.pose.forward()).abs();
        let half = (cos.abs() * body.length + sin * body.width) / 2.0;
        let across = (sin * body.length + cos.abs() * body.width) / 2.0;
        let beside = offset.left.abs() - across > WIDTH / 2.0 + BESIDE;
        let gap = offset.along - half - along - LENGTH / 2.0;
        (!beside && offset.along > along)
            .then_some((body.id, Ahead { gap, speed: body.speed * cos }))
    };
    let mut found: Vec<(u32, Ahead)> = world.bodies()[1..].iter().filter_map(in_way).collect();
    found.sort_by(|one, other| one.1.gap.total_cmp(&other.1.gap).then(one.0.cmp(&other.0)));
    found.into_iter().find(|(id, _)| world.sees(*id)).map(|(_, ahead)| ahead)
}
