//! Tests of events in worlds.

use std::collections::HashMap;
use world::scenario::Layout;
use world::suite::{corner, normal};
use world::{Body, Command, Kind, LaneId, Reference, Scenario, Side, World};

fn scenario(text: &str) -> Scenario {
    Scenario::from_yaml(text, "test.yaml").unwrap_or_else(|error| panic!("{error}"))
}

const STREET: &str = "
name: street
duration_s: 20
road: {straight: {length_m: 800, lanes: 1, oncoming: 1, lane_width_m: 3.5, limit_kmh: 50}}
ego: {along_m: 100, speed_kmh: 36}
";

fn drive(world: &mut World, seconds: f64, command: Command) {
    let end = world.time() + seconds - 1e-9;
    while world.time() < end {
        world.step(&command);
    }
}

const COAST: Command = Command { acceleration: 0.0, curvature: 0.0 };

#[test]
fn same_scenario_and_commands_make_the_same_world_to_the_last_bit() {
    for index in [0, 3, 4, 2_017] {
        let run = |mut world: World| {
            let mut driver = Reference::new(1.5);
            while world.time() < 8.0 {
                let command = driver.drive(&world);
                world.step(&command);
            }
            let bits = world.bodies().iter().flat_map(|body| {
                let place = body.pose.position;
                [place.x, place.y, body.pose.heading, body.speed].map(f64::to_bits)
            });
            bits.collect::<Vec<u64>>()
        };
        let world = World::new(&normal(index)).unwrap();
        let copy = world.clone();
        assert_eq!(run(world), run(copy));
        let again = World::new(&normal(index)).unwrap();
        let other = World::new(&normal(index + 1)).unwrap();
        assert!(run(again) != run(other));
    }
}

#[test]
fn whoever_stands_in_the_way_is_hit_by_the_front_with_both_speeds() {
    let text = format!("{STREET}actors: [{{kind: obstacle, along_m: 130}}]");
    let mut world = World::new(&scenario(&text)).unwrap();
    drive(&mut world, 3.0, COAST);
    let [collision] = world.collisions() else { panic!("{:?}", world.collisions()) };
    assert_eq!((collision.body, collision.kind, collision.side), (1, Kind::Obstacle, Side::Front));
    assert_eq!((collision.ego_speed, collision.body_speed), (10.0, 0.0));
    assert!((collision.time - 25.5 / 10.0).abs() < 0.011, "{collision:?}");
}

#[test]
fn driver_behind_stops_for_the_ego_and_one_who_looks_away_does_not() {
    let follower = |moves: &str| {
        let actor = format!("{{kind: car, along_m: 75, speed_kmh: 36, moves: {moves}}}");
        let mut world = World::new(&scenario(&format!("{STREET}actors: [{actor}]"))).unwrap();
        drive(&mut world, 10.0, Command { acceleration: -6.0, curvature: 0.0 });
        let speed = world.bodies()[1].speed;
        (speed, world.collisions().first().map(|collision| collision.side))
    };
    let (speed, collision) = follower("{drives: {desired_kmh: 50}}");
    assert_eq!(collision, None);
    assert!(speed < 0.2, "{speed}");
    assert_eq!(follower("{lane: {}}"), (10.0, Some(Side::Rear)));
}

#[test]
fn child_is_hidden_behind_a_parked_car_until_it_is_not() {
    let text = format!(
        "{STREET}
actors:
  - {{kind: pedestrian, along_m: 140, left_m: -3, heading_deg: 90}}
  - {{kind: obstacle, along_m: 137, left_m: -2.85}}
actions:
  - {{actor: 0, when: {{time_s: 1}}, does: {{speed: {{to_kmh: 5}}}}}}
hazard: {{actor: 0, action: 0}}
"
    );
    let mut world = World::new(&scenario(&text)).unwrap();
    assert_eq!(world.visible(), [2]);
    drive(&mut world, 1.2, COAST);
    assert_eq!((world.visible(), world.hazard().unwrap().began), (vec![2], Some(1.0)));
    drive(&mut world, 1.0, COAST);
    assert_eq!(world.visible(), [1, 2]);
}

#[test]
fn slower_car_ahead_is_overtaken_in_the_next_lane() {
    let text = "
name: overtaking
duration_s: 40
road: {straight: {length_m: 2000, lanes: 2, lane_width_m: 3.5, limit_kmh: 100}}
ego: {along_m: 0, speed_kmh: 10}
actors:
  - {kind: truck, along_m: 200, speed_kmh: 30, moves: {drives: {desired_kmh: 30}}}
  - kind: car
    along_m: 150
    speed_kmh: 50
    moves: {drives: {desired_kmh: 80, lane_changes: true}}
";
    let mut world = World::new(&scenario(text)).unwrap();
    let mut widest: f64 = 0.0;
    while !world.ended() {
        world.step(&COAST);
        let [_, truck, car] = world.bodies() else { panic!("{:?}", world.bodies()) };
        assert!(!truck.footprint().overlaps(&car.footprint()), "{} s", world.time());
        widest = widest.max(car.pose.position.y);
    }
    let [_, truck, car] = world.bodies() else { panic!("{:?}", world.bodies()) };
    assert!((widest - 3.5).abs() < 0.01 && car.pose.position.x > truck.pose.position.x + 20.0);
}

#[test]
fn nobody_who_changes_lanes_runs_into_who_stands_ahead() {
    // The other lane is free when who drives in it has passed, at many moments of the approach.
    let passers = (8..=32).step_by(3).flat_map(|kmh| (-60..40).step_by(3).map(move |at| (at, kmh)));
    for (from, (beside, kmh)) in passers.flat_map(|it| [50, 57, 64, 71, 78].map(|from| (from, it)))
    {
        let text = format!(
            "
name: standing
duration_s: 20
road: {{straight: {{length_m: 800, lanes: 2, lane_width_m: 3.5, limit_kmh: 50}}}}
ego: {{along_m: 105, speed_kmh: 0}}
actors:
  - kind: car
    along_m: {from}
    speed_kmh: 30
    moves: {{drives: {{desired_kmh: 50, lane_changes: true}}}}
  - {{kind: car, along_m: {}, left_m: 3.5, speed_kmh: {kmh}, moves: {{lane: {{}}}}}}
",
            80 + beside
        );
        let mut world = World::new(&scenario(&text)).unwrap();
        while !world.ended() && world.collisions().is_empty() {
            world.step(&Command { acceleration: -1.0, curvature: 0.0 });
        }
        assert_eq!(world.collisions(), [], "{from} m, {beside} m, {kmh} km/h");
    }
}

#[test]
fn reference_driver_stays_in_its_lane_through_a_bend_and_slows_down_for_it() {
    let text = "
name: bend
duration_s: 30
road:
  curve:
    {before_m: 150, radius_m: 40, angle_deg: -90, after_m: 300, lanes: 1, lane_width_m: 3.5,
     limit_kmh: 70}
ego: {along_m: 10, speed_kmh: 60}
";
    let mut world = World::new(&scenario(text)).unwrap();
    let mut driver = Reference::new(1.5);
    let (mut farthest, mut slowest) = (0.0_f64, 100.0_f64);
    while !world.ended() {
        let command = driver.drive(&world);
        world.step(&command);
        let offset = world.route().line().offset(world.ego().pose().position);
        farthest = farthest.max(offset.left.abs());
        slowest = slowest.min(world.ego().speed());
    }
    assert!(farthest < 0.7, "{farthest}");
    assert!((slowest - (2.0 * 40.0_f64).sqrt()).abs() < 1.0, "{slowest}");
}

#[test]
fn routes_turn_as_they_are_told() {
    let end = |turn: &str| {
        let text = format!(
            "
name: junction
duration_s: 20
road: {{junction: {{arm_m: 100, lanes: 1, lane_width_m: 3.5, limit_kmh: 50}}}}
ego: {{along_m: 50, speed_kmh: 20, turn: {turn}}}
"
        );
        let world = World::new(&scenario(&text)).unwrap();
        let place = world.route().line().pose(world.route().line().length()).position;
        (place.x.round(), place.y.round(), world.route().lane(0.0))
    };
    assert_eq!(end("straight"), (108.0, -2.0, LaneId(0)));
    assert_eq!(end("left"), (2.0, 108.0, LaneId(0)));
    assert_eq!(end("right"), (-2.0, -108.0, LaneId(0)));
}

#[test]
fn crossing_traffic_waits_for_the_ego() {
    let text = "
name: give way
duration_s: 20
road: {junction: {arm_m: 150, lanes: 1, lane_width_m: 3.5, limit_kmh: 50}}
ego: {along_m: 50, speed_kmh: 36}
actors:
  - kind: car
    along_m: 159.25
    left_m: -80
    heading_deg: 90
    speed_kmh: 36
    moves: {drives: {desired_kmh: 50}}
";
    let mut world = World::new(&scenario(text)).unwrap();
    drive(&mut world, 9.0, COAST);
    assert!(world.bodies()[1].speed < 2.0, "{:?}", world.bodies());
    drive(&mut world, 9.0, COAST);
    assert!(world.bodies()[1].speed > 5.0 && world.collisions().is_empty());
}

#[test]
fn drivers_change_lanes_in_normal_traffic() {
    let mut changed = 0;
    for index in (0..200).filter(|index| normal(*index).road.lanes() > 1) {
        let mut world = World::new(&normal(index)).unwrap();
        let lanes = |world: &World| {
            let lane = |body: &world::Body| world.road().find(body.pose).map(|(lane, _)| lane);
            world.bodies()[1..].iter().map(|body| (body.id, lane(body))).collect::<Vec<_>>()
        };
        let before = lanes(&world);
        drive(&mut world, 5.0, COAST);
        let after = lanes(&world);
        let neighbour = |one: LaneId, other: LaneId| {
            let lane = world.road().lane(one);
            lane.left == Some(other) || lane.right == Some(other)
        };
        changed += before
            .iter()
            .filter(|(id, from)| {
                let to = after.iter().find(|(other, _)| other == id);
                matches!((from, to), (Some(from), Some((_, Some(to)))) if neighbour(*from, *to))
            })
            .count();
    }
    assert!(changed > 20, "{changed}");
}

#[test]
fn corner_case_shows_its_hazard_to_whoever_drives_on() {
    let scenario = corner(3);
    let mut world = World::new(&scenario).unwrap();
    let mut driver = Reference::new(scenario.ego.headway_s);
    let hazard = world.hazard().unwrap().body;
    assert!(!world.sees(hazard));
    while !world.sees(hazard) {
        assert!(!world.ended());
        let command = driver.drive(&world);
        world.step(&command);
    }
    assert!(world.hazard().unwrap().began.unwrap() < world.time());
}

#[test]
fn pedestrian_crosses_when_the_ego_has_passed() {
    let actor = "{kind: pedestrian, along_m: 150, left_m: -2.4, heading_deg: 90,
        moves: {crosses: {walk_kmh: 5, over_m: 8}}}";
    let mut world = World::new(&scenario(&format!("{STREET}actors: [{actor}]"))).unwrap();
    drive(&mut world, 5.0, COAST);
    assert_eq!(world.bodies()[1].pose.position.y, -2.4);
    drive(&mut world, 9.0, COAST);
    assert!((world.bodies()[1].pose.position.y - 5.6).abs() < 0.02, "{:?}", world.bodies()[1]);
    assert_eq!(world.collisions(), []);
}

#[test]
fn pedestrian_crosses_before_who_has_come_to_a_halt_and_not_before_who_is_parked() {
    let walks = "{kind: pedestrian, along_m: 125, left_m: -2.4, heading_deg: 90,
        moves: {crosses: {walk_kmh: 5, over_m: 8}}}";
    let parked = "{kind: car, along_m: 110, left_m: -2.4, moves: straight}";
    let after = |actors: &str, seconds: f64| {
        let mut world = World::new(&scenario(&format!("{STREET}actors: [{actors}]"))).unwrap();
        drive(&mut world, seconds, Command { acceleration: -6.0, curvature: 0.0 });
        assert_eq!(world.bodies()[0].speed == 0.0, seconds > 2.0);
        world.bodies()[1].pose.position.y
    };
    // The ego stands after 1.7 s.
    assert_eq!(after(walks, 3.6), -2.4);
    assert!(after(walks, 5.0) > -1.5);
    assert_eq!(after(&format!("{walks}, {parked}"), 15.0), -2.4);
}

#[test]
fn nobody_jumps_in_normal_traffic() {
    // Those of the first 500 with junctions, where who has changed lanes goes on from the new one.
    let crossings = (0..500).map(normal).filter(|it| matches!(it.road, Layout::Junction { .. }));
    for scenario in crossings {
        let mut world = World::new(&scenario).unwrap();
        let mut driver = Reference::new(1.5);
        while world.time() < scenario.duration_s && world.collisions().is_empty() {
            let before: HashMap<u32, Body> =
                world.bodies().iter().map(|body| (body.id, *body)).collect();
            let command = driver.drive(&world);
            world.step(&command);
            for body in world.bodies() {
                let Some(before) = before.get(&body.id) else { continue };
                let moved = body.pose.position.distance(before.pose.position);
                assert!(moved < 0.5, "{}: {body:?} was {before:?}", scenario.name);
            }
        }
    }
}

#[test]
fn what_is_too_far_away_is_not_seen() {
    let text = format!("{STREET}actors: [{{kind: obstacle, along_m: 225}}]");
    let mut world = World::new(&scenario(&text)).unwrap();
    assert!(world.visible().is_empty());
    drive(&mut world, 0.5, COAST);
    assert_eq!(world.visible(), [1]);
}
