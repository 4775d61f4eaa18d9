//! Commutes: four maps, each with draws of its traffic, from the same start to the same
//! destination. The traffic becomes heavier from the first map to the last (COLA,
//! figure 13j). COLA has ten draws of each; with those two studies of the same policies were
//! 2.4 and 4.0 % apart.

use world::Scenario;
use world::scenario::{Ego, Layout, Traffic, Turn};

/// Maps.
pub const MAPS: usize = 4;
/// Draws of the traffic of each.
pub const REPEATS: usize = 20;
/// Commutes.
pub const COUNT: usize = MAPS * REPEATS;
/// Distance from the start to the destination, m.
pub const DISTANCE_M: f64 = 500.0;
/// Time after which a commute is given up, s.
const PATIENCE_S: f64 = 180.0;

/// Short descriptions of the maps.
pub const NAMES: [&str; MAPS] = ["country road", "road with a bend", "junction", "town street"];

/// The commute of this number: map times [`REPEATS`] plus draw.
pub fn commute(index: usize) -> Scenario {
    let (map, repeat) = (index / REPEATS, index % REPEATS);
    let (lane_width_m, oncoming) = (3.5, 1);
    let (road, per_km, pedestrians, parked) = match map {
        0 => {
            let road = Layout::Straight {
                length_m: 1_500.0,
                lanes: 2,
                oncoming,
                lane_width_m,
                limit_kmh: 70.0,
            };
            (road, 6.0, 0, 0)
        }
        1 => {
            let road = Layout::Curve {
                before_m: 300.0,
                radius_m: 120.0,
                angle_deg: 80.0,
                after_m: 1_000.0,
                lanes: 2,
                oncoming,
                lane_width_m,
                limit_kmh: 60.0,
            };
            (road, 12.0, 0, 0)
        }
        2 => {
            let road = Layout::Junction { arm_m: 450.0, lanes: 2, lane_width_m, limit_kmh: 50.0 };
            (road, 18.0, 0, 0)
        }
        _ => {
            let road = Layout::Straight {
                length_m: 1_500.0,
                lanes: 2,
                oncoming,
                lane_width_m,
                limit_kmh: 50.0,
            };
            (road, 25.0, 16, 8)
        }
    };
    let ego = Ego {
        lane: 0,
        along_m: 100.0,
        speed_kmh: 30.0,
        desired_kmh: None,
        turn: Turn::Straight,
        headway_s: 1.5,
        actuation_lag_s: 0.1,
        braking_mps2: 8.0,
    };
    let traffic = Traffic {
        seed: (1_000 * map + repeat) as u64,
        own_per_km: per_km,
        beside_per_km: per_km,
        oncoming_per_km: per_km,
        crossing_per_km: per_km,
        lane_changes: true,
        pedestrians,
        crossing_pedestrians: pedestrians / 5,
        parked,
    };
    Scenario {
        name: format!("commute-{}-{repeat}", map + 1),
        duration_s: PATIENCE_S,
        road,
        ego,
        traffic: Some(traffic),
        sumo: None,
        actors: Vec::new(),
        actions: Vec::new(),
        hazard: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::World;

    #[test]
    fn every_commute_is_a_world_whose_route_reaches_the_destination() {
        for index in 0..COUNT {
            let scenario = commute(index);
            let world = World::new(&scenario).unwrap();
            let left = world.route().line().length() - scenario.ego.along_m;
            assert!(left > DISTANCE_M + 20.0, "{}: {left} m", scenario.name);
            assert!(world.collisions().is_empty(), "{}", scenario.name);
        }
    }
}
