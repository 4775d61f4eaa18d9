//! The stack reacts to a hazard in the first frame that shows it, as far as a frame can.

use dataflow::{Chunk, Costs};
use driving::drive::{DriveOutcome, run};
use driving::stack::{Features, Stack};
use world::Scenario;

/// A child runs out from behind a parked car.
const CHILD: &str = "
name: a child behind a parked car
duration_s: 7
road:
  straight: { length_m: 400, lanes: 1, oncoming: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: pedestrian, along_m: 92, left_m: -4.2, heading_deg: 90, length_m: 0.3, width_m: 0.5 }
  - { kind: obstacle, along_m: 89.2, left_m: -2.85, length_m: 4.4 }
actions:
  - { actor: 0, when: !time_s 1.5, does: !speed { to_kmh: 5, rate_mps2: 3 } }
hazard: { actor: 0, action: 0 }
";

/// The car ahead brakes.
const LEAD: &str = "
name: the car ahead brakes
duration_s: 5
road:
  straight: { length_m: 400, lanes: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: car, along_m: 86, speed_kmh: 40, moves: !lane {} }
actions:
  - { actor: 0, when: !time_s 0.5, does: !speed { to_kmh: 0, rate_mps2: 7 } }
hazard: { actor: 0, action: 0 }
";

/// A cyclist comes out from behind a wall.
const CYCLIST: &str = "
name: a cyclist behind a wall
duration_s: 6
road:
  straight: { length_m: 400, lanes: 1, oncoming: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: cyclist, along_m: 88, left_m: -19, heading_deg: 90, speed_kmh: 18 }
  - { kind: obstacle, along_m: 80, left_m: -8, length_m: 12, width_m: 8 }
actions:
  - { actor: 0, when: !time_s 1, does: !speed { to_kmh: 18 } }
hazard: { actor: 0, action: 0 }
";

/// Somebody stands at the kerb and stays there.
const STANDS: &str = "
name: somebody stands at the kerb
duration_s: 7
road:
  straight: { length_m: 400, lanes: 1, oncoming: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: pedestrian, along_m: 95, left_m: -3.2, heading_deg: 90 }
";

fn drive(text: &str, stack: Stack) -> DriveOutcome {
    let scenario = Scenario::from_yaml(text, "test.yaml").unwrap();
    // Segmentation, tracking, prediction, planning, control.
    let whole = [4_000_000, 500_000, 2_000_000, 300_000, 50_000];
    let costs = Costs::Declared(Box::new(move |chunk: &Chunk| {
        whole[chunk.module.map_or(3, |module| module.index())]
    }));
    run(&scenario, stack, &Features::base(), costs).unwrap()
}

fn reacts_at_once(text: &str) {
    for stack in [Stack::A, Stack::B] {
        let outcome = drive(text, stack);
        assert_eq!(outcome.collisions, [], "{stack:?}");
        let reaction = outcome.reaction.expect("it reacts");
        assert_eq!(reaction.confirm_ns, 0, "{stack:?}: {reaction:?}");
        assert_eq!(reaction.unexplained_ns(), 0, "{stack:?}: {reaction:?}");
    }
}

#[test]
fn a_child_behind_a_parked_car_is_braked_for_in_its_first_frame() {
    reacts_at_once(CHILD);
}

#[test]
fn a_car_ahead_that_brakes_is_braked_for_in_the_first_frame() {
    reacts_at_once(LEAD);
}

#[test]
fn a_cyclist_behind_a_wall_is_braked_for_in_his_first_frame() {
    reacts_at_once(CYCLIST);
}

#[test]
fn who_stands_at_the_kerb_does_not_stop_the_traffic() {
    let outcome = drive(STANDS, Stack::A);
    assert_eq!(outcome.collisions, []);
    assert!(outcome.progress > 60.0, "{} m in 7 s from 11 m/s", outcome.progress);
}
