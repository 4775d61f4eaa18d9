//! Normal traffic: 8,000 scenarios of 25 s.
//!
//! No actor breaks a rule. The draw decides the shape of the road, its limit, the density of the
//! traffic on each kind of lane, people beside the road and over it.

use crate::random::Random;
use crate::scenario::{Ego, Layout, Scenario, Traffic, Turn};

/// Number of normal scenarios.
pub const NORMAL: usize = 8_000;

/// Frozen with the suite's first edition.
const SEED: u64 = 0x6e6f_726d_616c_3031;

/// The scenario of this number.
///
/// # Panics
/// If there is none: from [`NORMAL`] on.
pub fn normal(index: usize) -> Scenario {
    assert!(index < NORMAL, "normal scenario {index}, of {NORMAL}");
    let mut random = Random::new(SEED, index as u64);
    let road = layout(&mut random);
    let limit = road.limit_kmh();
    let density = random.uniform(2.0, 30.0);
    let junction = matches!(road, Layout::Junction { .. });
    let along_m = if junction { random.uniform(20.0, 80.0) } else { random.uniform(100.0, 250.0) };
    let ego = Ego {
        lane: random.below(road.lanes()),
        along_m,
        speed_kmh: limit * random.uniform(0.5, 0.9),
        desired_kmh: None,
        turn: Turn::Straight,
        headway_s: Ego::headway(),
        actuation_lag_s: Ego::lag(),
        braking_mps2: Ego::braking(),
    };
    let town = limit <= 50.0;
    let pedestrians = if town { random.below(25) } else { 0 };
    let traffic = Traffic {
        seed: random.below(1 << 30) as u64,
        own_per_km: density,
        beside_per_km: density,
        oncoming_per_km: random.uniform(0.0, 30.0),
        crossing_per_km: random.uniform(0.0, 25.0),
        lane_changes: true,
        pedestrians,
        crossing_pedestrians: pedestrians / 5,
        parked: if town { random.below(20) } else { 0 },
    };
    let (actors, actions, hazard) = (Vec::new(), Vec::new(), None);
    let name = format!("normal-{index:04}");
    let traffic = Some(traffic);
    Scenario { name, duration_s: 25.0, road, ego, traffic, sumo: None, actors, actions, hazard }
}

fn layout(random: &mut Random) -> Layout {
    let lane_width_m = random.grid(3.0, 3.75, 0.25);
    let lanes = 1 + random.below(3);
    let oncoming = random.below(3);
    match random.below(4) {
        0 | 1 => {
            let limit_kmh = random.grid(30.0, 100.0, 10.0);
            Layout::Straight { length_m: 1_500.0, lanes, oncoming, lane_width_m, limit_kmh }
        }
        2 => {
            let (before_m, after_m) = (random.uniform(250.0, 400.0), 1_000.0);
            let radius_m = random.uniform(60.0, 300.0);
            let angle_deg = random.uniform(-90.0, 90.0);
            let limit_kmh = random.grid(30.0, 70.0, 10.0);
            Layout::Curve {
                before_m,
                radius_m,
                angle_deg,
                after_m,
                lanes,
                oncoming,
                lane_width_m,
                limit_kmh,
            }
        }
        _ => {
            let (arm_m, limit_kmh) = (random.uniform(150.0, 250.0), random.grid(30.0, 50.0, 10.0));
            Layout::Junction { arm_m, lanes: lanes.min(2), lane_width_m, limit_kmh }
        }
    }
}
