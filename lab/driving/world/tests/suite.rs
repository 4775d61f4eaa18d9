//! The suites: frozen, and fit for what they are for.

use std::ops::RangeInclusive;
use world::critical::{EXACT, Limit, critical, react};
use world::suite::{self, Density, Family, Frozen, HEAD, Set, Stale, corner, fingerprint, normal};
use world::{Command, Pose, Reference, World};

const SETS: [Set; 3] = [Set::Corner, Set::Develop, Set::Confirm];

#[test]
fn cases_are_those_of_their_tables() {
    for set in SETS {
        let table = set.frozen();
        assert_eq!(table.len(), set.size(), "{set:?}");
        for (index, line) in table.iter().enumerate() {
            assert_eq!((line.index, line.family), (index, set.family(index)), "{set:?}");
            assert_eq!(line.scenario(set).as_ref(), Ok(&set.draw(index, line.attempt)));
        }
    }
    let lines = include_str!("../src/suite/corner.csv").lines();
    let written = Set::Corner.frozen().iter().map(Frozen::line);
    assert!(lines.eq(std::iter::once(HEAD.to_owned()).chain(written)));
}

#[test]
fn table_of_other_draws_is_noticed() {
    let line = Set::Corner.frozen()[7];
    assert_eq!(line.scenario(Set::Corner), Ok(corner(7)));
    let stale = Err(Stale { index: 7 });
    assert_eq!(Frozen { fingerprint: line.fingerprint ^ 1, ..line }.scenario(Set::Corner), stale);
    assert_eq!(Frozen { attempt: line.attempt + 1, ..line }.scenario(Set::Corner), stale);
    assert_eq!(line.scenario(Set::Develop), stale);
}

#[test]
fn bands_are_spread_over_families_and_densities() {
    let count = |set: Set, family, density, band: RangeInclusive<u32>| {
        let of = |index: &usize| (set.family(*index), set.density(*index), set.band(*index));
        (0..set.size()).filter(|index| of(index) == (family, density, band.clone())).count()
    };
    for family in Family::ALL {
        for density in [Density::Light, Density::Medium, Density::Dense] {
            let corner = |band| count(Set::Corner, family, density, band);
            assert_eq!(corner(50..=140), 2);
            assert!((3..=4).contains(&corner(150..=300)) && corner(310..=800) == 4);
            let confirm = count(Set::Confirm, family, density, 150..=300);
            assert_eq!(confirm, if family == Family::NcapCcrb { 0 } else { 11 });
        }
    }
}

#[test]
fn normal_scenarios_are_those_of_the_first_edition() {
    let mix = |hash: u64, index: usize| hash.rotate_left(7) ^ fingerprint(&normal(index));
    assert_eq!((0..suite::NORMAL).fold(0, mix), 9_871_057_967_175_474_585);
}

#[test]
fn reaction_just_before_the_critical_time_avoids_what_one_just_after_it_does_not() {
    let mut decided = 0;
    for index in (0..suite::CORNER).filter(|index| index % 8 == 5) {
        let scenario = corner(index);
        let Limit::After(limit) = critical(&scenario).unwrap().limit else { continue };
        decided += 1;
        let well = react(&scenario, (limit - EXACT - 0.001).max(0.0)).unwrap();
        assert_eq!(well.collisions(), [], "{index}");
        let badly = react(&scenario, limit + 0.001).unwrap();
        let hit = badly.collisions()[0].body;
        assert_eq!(hit, badly.hazard().unwrap().body, "{index}");
    }
    assert!(decided > 20, "{decided}");
}

#[test]
fn critical_times_are_in_their_bands_where_a_draw_has_one() {
    for set in SETS {
        let looked = set.frozen().iter().filter(|case| case.limit.is_some());
        let inside = looked.clone().filter(|case| {
            let ms = case.critical_s().map(|critical| (1e3 * critical).round() as u32);
            ms.is_some_and(|ms| set.band(case.index).contains(&ms))
        });
        let (inside, looked) = (inside.count(), looked.count());
        let (least, share) = match set {
            Set::Corner => (set.size(), 0.6),
            Set::Develop => (200, 0.6),
            // A confirmation case without a draw in the band has no time.
            Set::Confirm => (200, 1.0),
        };
        let enough = looked >= least && inside as f64 >= share * looked as f64;
        assert!(enough, "{set:?}: {inside} of {looked}");
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
