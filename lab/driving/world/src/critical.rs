//! The critical reaction time of a scenario for an ideal driver: how late he may brake. Table 1 is
//! computed with it. That of the corner cases is another: of a stack's own modules (`driving`).
//!
//! He knows the truth from the first moment at which the hazard can be seen. Until
//! the hazard begins he drives like the reference driver; from then on, as long as he has not
//! reacted, he knows nothing of the hazard's body and does not accelerate; exactly r seconds
//! after the first sight he brakes as hard as the vehicle can, and stays on his route. The
//! critical reaction time is the smallest r that ends in a collision, whatever body it is with.
//!
//! A later reaction need not be worse (one may be past before it comes), so r is first tried in
//! steps of [`SCAN`], and then halved between the last that went well and the first that did not.

use crate::body::Command;
use crate::reference::Reference;
use crate::scenario::{Error, Scenario};
use crate::world::{STEP, World};
use serde::{Deserialize, Serialize};

/// The longest reaction that is tried, s.
pub const LONGEST: f64 = 2.0;
/// The step of the search before it halves, s.
pub const SCAN: f64 = 0.05;
/// Precision with which the time is found, s.
pub const EXACT: f64 = 0.0005;
/// Time for which the ego has to stand until nothing more is expected to hit it, s.
const STANDS: f64 = 4.0;

/// Limit of the reaction time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Even braking at first sight ends in a collision.
    Unavoidable,
    /// Reaction time, s, above which it ends in a collision.
    After(f64),
    /// No reaction up to the longest that is tried ends in one.
    Never,
    /// Reactions that come too late are followed by some that come later and do not.
    Erratic,
}

/// A scenario's critical reaction time, and when its clock starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Critical {
    /// Limit of the reaction time.
    pub limit: Limit,
    /// Time at which the hazard began, s; None if it did not before the end or the first collision.
    pub began: Option<f64>,
    /// Time at which the hazard could first be seen after that, s; None if it could not.
    pub seen: Option<f64>,
}

/// Finds the critical reaction time of a scenario.
///
/// # Errors
/// If the scenario is none.
pub fn critical(scenario: &Scenario) -> Result<Critical, Error> {
    let mut run = Run::new(scenario)?;
    while !run.crashed() && !run.world.ended() && !run.sees_hazard() {
        run.step(0.0);
    }
    let began = run.world.hazard().and_then(|hazard| hazard.began);
    let seen = run.sees_hazard().then(|| run.world.time());
    let limit = match (run.crashed(), seen) {
        (true, _) => Limit::Unavoidable,
        (false, None) => Limit::Never,
        (false, Some(_)) => limit(run),
    };
    Ok(Critical { limit, began, seen })
}

/// The world after the ideal driver has driven it, with a reaction `reaction` s after the first
/// sight of the hazard.
///
/// # Errors
/// If the scenario is none.
pub fn react(scenario: &Scenario, reaction: f64) -> Result<World, Error> {
    let mut run = Run::new(scenario)?;
    while !run.crashed() && !run.world.ended() && !run.sees_hazard() {
        run.step(0.0);
    }
    run.brake_after(reaction);
    Ok(run.world)
}

fn limit(mut run: Run) -> Limit {
    let scans = (LONGEST / SCAN).round() as u32;
    let mut last = run.clone();
    for scan in 0..=scans {
        if run.crashed() || run.clone().brake_after(0.0) {
            return if scan == 0 { Limit::Unavoidable } else { halve(&last, scan) };
        }
        last = run.clone();
        (0..(SCAN / STEP).round() as u32).for_each(|_| run.step(0.0));
    }
    if run.brake_after(f64::INFINITY) { Limit::After(LONGEST) } else { Limit::Never }
}

/// Between a reaction that went well, at `last`, and one `SCAN` later that did not.
fn halve(last: &Run, scan: u32) -> Limit {
    let (mut well, mut badly) = (0.0, SCAN);
    while badly - well > EXACT {
        let middle = (well + badly) / 2.0;
        if last.clone().brake_after(middle) {
            badly = middle;
        } else {
            well = middle;
        }
    }
    Limit::After(f64::from(scan - 1) * SCAN + badly)
}

#[derive(Clone)]
struct Run {
    world: World,
    driver: Reference,
}

impl Run {
    fn new(scenario: &Scenario) -> Result<Run, Error> {
        let driver = Reference::new(scenario.ego.headway_s);
        Ok(Run { world: World::new(scenario)?, driver })
    }

    fn crashed(&self) -> bool {
        !self.world.collisions().is_empty()
    }

    fn sees_hazard(&self) -> bool {
        let began = self.world.hazard().filter(|hazard| hazard.began.is_some());
        began.is_some_and(|hazard| self.world.sees(hazard.body))
    }

    /// Moves by one step, in which the brakes are on for this share. A share of a step's braking,
    /// for the whole step, leads to the same speed, and to a place that differs by less than 0.2
    /// mm.
    fn step(&mut self, share: f64) {
        let begun = self.world.hazard().filter(|hazard| hazard.began.is_some());
        let mut command = self.driver.drive_without(&self.world, begun.map(|hazard| hazard.body));
        if begun.is_some() {
            command.acceleration = command.acceleration.min(0.0);
        }
        let hard = -self.world.ego().braking();
        let acceleration = command.acceleration + share * (hard - command.acceleration);
        self.world.step(&Command { acceleration, ..command });
    }

    /// Brakes after `reaction` s and goes on to the end; true if that is a collision.
    fn brake_after(&mut self, reaction: f64) -> bool {
        let (mut time, mut stood) = (0.0, 0.0);
        while !self.crashed() && !self.world.ended() && stood < STANDS {
            self.step(((time + STEP - reaction) / STEP).clamp(0.0, 1.0));
            time += STEP;
            stood = if self.world.ego().speed() == 0.0 { stood + STEP } else { 0.0 };
        }
        self.crashed()
    }
}
