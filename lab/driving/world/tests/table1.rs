//! Table 1 of COLA: the formula, the simulator, and what was published.

use world::table1::{BRAKING, ROWS, Row};
use world::{STEP, World};

#[test]
fn simulator_agrees_with_the_formula_within_a_step_and_a_percent() {
    for row in ROWS {
        let simulated = row.simulated().unwrap().unwrap();
        let off = (simulated - row.closed_form()).abs();
        println!("{row:?}: formula {:.4} s, simulator {simulated:.4} s", row.closed_form());
        assert!(off <= STEP + 0.01 * row.closed_form(), "{row:?}: {simulated}");
    }
}

#[test]
fn two_rows_are_reproduced_and_two_are_not() {
    assert_eq!(ROWS.map(|row| row.reproduced()), [true, false, true, false]);
    for row in [ROWS[0], ROWS[2]] {
        let simulated = row.simulated().unwrap().unwrap();
        assert!((simulated / row.published - 1.0).abs() < 0.03, "{row:?}: {simulated}");
    }
}

#[test]
fn what_the_other_rows_need_gives_what_was_published() {
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 0.05, "{found}");
    near(ROWS[1].needed_braking(), 2.36);
    near(ROWS[1].needed_acceleration(), 5.90);
    near(ROWS[3].needed_braking(), 8.64);
    near(ROWS[3].needed_distance(), 4.17);
    let (speed, time, acceleration) = (20.0 / 3.6, 0.6218, ROWS[1].needed_acceleration());
    let reacted = speed + acceleration * time;
    let way = (speed + reacted) / 2.0 * time + reacted * reacted / (2.0 * BRAKING);
    assert!((way - 10.0).abs() < 1e-9, "{way}");
    for row in ROWS {
        let other = Row { distance_m: row.needed_distance(), ..row };
        assert!((other.closed_form() - row.published).abs() < 1e-12, "{row:?}");
    }
}

#[test]
fn hazard_of_a_row_stands_at_the_distance_that_the_row_says() {
    for row in ROWS {
        let mut world = World::new(&row.scenario()).unwrap();
        let gap = |world: &World| {
            let [ego, ahead] = world.bodies() else { panic!("{:?}", world.bodies()) };
            ahead.pose.position.x - ego.pose.position.x - ego.length
        };
        assert!((gap(&world) - row.distance_m).abs() < 1e-9);
        let place = world.bodies()[1].pose;
        world.step(&world::Command::default());
        assert_eq!((world.bodies()[1].pose, world.bodies()[1].speed), (place, 0.0));
        assert_eq!(world.hazard().unwrap().began, Some(0.0));
    }
}
