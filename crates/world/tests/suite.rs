//! The suites: frozen, and fit for what they are for.

use world::critical::{EXACT, Limit, critical, react};
use world::suite::{self, Family, corner, fingerprint, frozen, normal};
use world::{Command, Pose, Reference, World};

#[test]
fn corner_cases_are_those_of_the_table() {
    let table = frozen();
    assert_eq!(table.len(), suite::CORNER);
    for (index, line) in table.iter().enumerate() {
        assert_eq!((line.index, line.family), (index, suite::family(index)));
        assert_eq!(line.fingerprint, fingerprint(&corner(index)), "{}", corner(index).name);
    }
}

#[test]
fn normal_scenarios_are_those_of_the_first_edition() {
    let mix = |hash: u64, index: usize| hash.rotate_left(7) ^ fingerprint(&normal(index));
    assert_eq!((0..suite::NORMAL).fold(0, mix), 9_871_057_967_175_474_585);
}

#[test]
fn critical_times_of_the_table_are_found_again() {
    for line in frozen().into_iter().filter(|line| line.index % 8 == 3) {
        let found = critical(&corner(line.index)).unwrap().limit;
        match (found, line.limit) {
            (Limit::After(found), Limit::After(frozen)) => {
                assert!((found - frozen).abs() < 0.0011, "{line:?}: {found}");
            }
            _ => assert_eq!(found, line.limit, "{line:?}"),
        }
    }
}

#[test]
fn reaction_just_before_the_critical_time_avoids_what_one_just_after_it_does_not() {
    for line in frozen().into_iter().filter(|line| line.index % 8 == 5) {
        let Limit::After(limit) = line.limit else { continue };
        let scenario = corner(line.index);
        let well = react(&scenario, (limit - EXACT - 0.001).max(0.0)).unwrap();
        assert_eq!(well.collisions(), [], "{line:?}");
        let badly = react(&scenario, limit + 0.001).unwrap();
        let hit = badly.collisions()[0].body;
        assert_eq!(hit, badly.hazard().unwrap().body, "{line:?}");
    }
}

#[test]
fn families_have_cases_that_latency_decides() {
    for family in Family::ALL {
        let cases: Vec<_> = frozen().into_iter().filter(|line| line.family == family).collect();
        let decided = |limit: Limit| matches!(limit, Limit::After(time) if time < 1.0);
        let decided = cases.iter().filter(|line| decided(line.limit)).count();
        assert!(cases.len() >= 29 && decided >= 18, "{family:?}: {decided} of {}", cases.len());
    }
}

/// Every pose of the hazard's body, and when it began, while the ego does as it is told.
fn hazard(index: usize, command: Command) -> (Vec<Pose>, Option<f64>) {
    let mut world = World::new(&corner(index)).unwrap();
    let body = world.hazard().unwrap().body;
    let mut poses = Vec::new();
    while world.time() < 5.0 {
        world.step(&command);
        poses.extend(world.body(body).map(|body| body.pose));
    }
    (poses, world.hazard().unwrap().began)
}

#[test]
fn hazards_do_the_same_whatever_the_ego_does() {
    for index in 0..suite::CORNER {
        let waits = hazard(index, Command { acceleration: -8.0, curvature: 0.0 });
        let hurries = hazard(index, Command { acceleration: 3.0, curvature: 0.001 });
        assert!(waits.1.is_some() && waits == hurries, "{}", corner(index).name);
    }
}

#[test]
fn ego_is_at_its_speed_and_untouched_when_the_hazard_begins() {
    for index in 0..suite::CORNER {
        let scenario = corner(index);
        let mut world = World::new(&scenario).unwrap();
        let mut driver = Reference::new(scenario.ego.headway_s);
        while world.hazard().unwrap().began.is_none() {
            assert!(!world.ended(), "{}", scenario.name);
            let command = driver.drive(&world);
            world.step(&command);
        }
        let off = world.ego().speed() * 3.6 - scenario.ego.speed_kmh;
        assert!(off.abs() < 2.0 && world.collisions().is_empty(), "{}: {off}", scenario.name);
    }
}

#[test]
fn normal_traffic_is_driven_without_a_collision() {
    for index in (0..suite::NORMAL).step_by(200) {
        let scenario = normal(index);
        let mut world = World::new(&scenario).unwrap();
        let mut driver = Reference::new(scenario.ego.headway_s);
        while !world.ended() {
            let command = driver.drive(&world);
            world.step(&command);
        }
        assert_eq!(world.collisions(), [], "{}", scenario.name);
    }
}
