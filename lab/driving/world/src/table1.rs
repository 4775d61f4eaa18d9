//! Table 1 of COLA: how late a command may come in four encounters.
//!
//! There, commands were delayed more and more until there was a crash. Here the same is done to a
//! vehicle without a lag, and set beside the closed form for a hazard that stands at once and a
//! constant braking b: (D - v² / 2b) / v. One b explains two rows and not the other
//! two; what each of those would need instead is computed.

use crate::Kind;
use crate::critical::{Limit, critical};
use crate::scenario::{
    Action, Actor, Does, Ego, Error, Hazard, KMH, Layout, Moves, Scenario, Turn, When,
};

/// The braking that explains the first and the third row (7.874 and 7.868), m/s².
pub const BRAKING: f64 = 7.87;

/// Largest relative deviation from the table at which a row counts as reproduced.
pub const TOLERANCE: f64 = 0.03;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Event, in the table's words.
    pub category: &'static str,
    /// The ego's speed, km/h.
    pub speed_kmh: f64,
    /// Distance to the hazard, m.
    pub distance_m: f64,
    /// Value in the table, s.
    pub published: f64,
}

/// The table.
pub const ROWS: [Row; 4] = [
    Row { category: "vehicle following", speed_kmh: 35.0, distance_m: 10.0, published: 0.4112 },
    Row { category: "vehicle following", speed_kmh: 20.0, distance_m: 10.0, published: 0.6218 },
    Row { category: "encroaching cut-in", speed_kmh: 25.0, distance_m: 4.7, published: 0.2355 },
    Row { category: "occluded cut-in", speed_kmh: 25.0, distance_m: 3.9, published: 0.1595 },
];

impl Row {
    fn speed(&self) -> f64 {
        self.speed_kmh / KMH
    }

    /// Latest command by the formula, s.
    pub fn closed_form(&self) -> f64 {
        let speed = self.speed();
        (self.distance_m - speed * speed / (2.0 * BRAKING)) / speed
    }

    /// Does the formula give what the table says, within [`TOLERANCE`]?
    pub fn reproduced(&self) -> bool {
        (self.closed_form() / self.published - 1.0).abs() <= TOLERANCE
    }

    /// The braking that would give what the table says, m/s².
    pub fn needed_braking(&self) -> f64 {
        let speed = self.speed();
        speed * speed / (2.0 * (self.distance_m - speed * self.published))
    }

    /// The distance that would give what the table says, m.
    pub fn needed_distance(&self) -> f64 {
        let speed = self.speed();
        speed * self.published + speed * speed / (2.0 * BRAKING)
    }

    /// The acceleration until the reaction that would give what the table says, m/s²: the root of
    /// v t + a t² / 2 + (v + a t)² / 2b = D.
    pub fn needed_acceleration(&self) -> f64 {
        let (speed, time) = (self.speed(), self.published);
        let square = time * time / (2.0 * BRAKING);
        let linear = time * time / 2.0 + speed * time / BRAKING;
        let rest = self.needed_distance() - self.distance_m;
        ((linear * linear - 4.0 * square * rest).sqrt() - linear) / (2.0 * square)
    }

    /// Scenario of this row: the car ahead stands from one moment to the next.
    pub fn scenario(&self) -> Scenario {
        let (length_m, lane_width_m, limit_kmh) = (500.0, 3.5, 80.0);
        let (lanes, oncoming) = (1, 0);
        let wanted = 1.3_f64;
        let share = (1.0 - wanted.powi(-4)).sqrt();
        let ego = Ego {
            lane: 0,
            along_m: 100.0,
            speed_kmh: self.speed_kmh,
            desired_kmh: Some(wanted * self.speed_kmh),
            turn: Turn::Straight,
            headway_s: ((share * self.distance_m - 2.0) / self.speed()).max(0.1),
            actuation_lag_s: 0.0,
            braking_mps2: BRAKING,
        };
        let ahead = Actor {
            kind: Kind::Car,
            on: None,
            along_m: ego.along_m + crate::ego::LENGTH + self.distance_m,
            left_m: 0.0,
            heading_deg: 0.0,
            speed_kmh: self.speed_kmh,
            length_m: Some(crate::ego::LENGTH),
            width_m: None,
            moves: Moves::Lane { turn: Turn::Straight },
        };
        let stops = Does::Speed { to_kmh: 0.0, rate_mps2: None };
        Scenario {
            name: format!("table 1: {} km/h at {} m", self.speed_kmh, self.distance_m),
            duration_s: 12.0,
            road: Layout::Straight { length_m, lanes, oncoming, lane_width_m, limit_kmh },
            ego,
            traffic: None,
            sumo: None,
            actors: vec![ahead],
            actions: vec![Action { actor: 0, when: When::TimeS(0.0), does: stops }],
            hazard: Some(Hazard { actor: 0, action: 0 }),
        }
    }

    /// Latest command found by delaying it until there is a crash, s after the hazard began; none
    /// if no delay decides.
    ///
    /// # Errors
    /// If the row makes no scenario.
    pub fn simulated(&self) -> Result<Option<f64>, Error> {
        let critical = critical(&self.scenario())?;
        Ok(match (critical.limit, critical.began, critical.seen) {
            (Limit::After(limit), Some(began), Some(seen)) => Some(limit + seen - began),
            _ => None,
        })
    }
}
