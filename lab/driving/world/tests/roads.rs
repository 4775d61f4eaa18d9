//! Scenarios on the roads of an OpenDRIVE file.

use std::path::PathBuf;
use world::scenario::Layout;
use world::{Reference, Scenario, World};

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../examples/drive").join(name)
}

fn town() -> Scenario {
    Scenario::read(&example("town.yaml")).unwrap()
}

/// The ids of the roads on which somebody was, each once.
fn roads(scenario: &Scenario, world: &World, id: u32, into: &mut Vec<String>) {
    let Layout::OpenDrive(file) = &scenario.road else { panic!("{:?}", scenario.road) };
    let Some(body) = world.body(id) else { return };
    let Some((lane, _)) = world.road().find(body.pose) else { return };
    let road = &file.map().unwrap().origins[lane.0].road;
    if !into.contains(road) {
        into.push(road.clone());
    }
}

#[test]
fn everybody_drives_over_the_roads_that_the_scenario_names() {
    let scenario = town();
    let mut world = World::new(&scenario).unwrap();
    let mut driver = Reference::new(scenario.ego.headway_s);
    let (mut ego, mut cyclist) = (Vec::new(), Vec::new());
    let others = world.bodies().len();
    assert!(others > 20, "{others}");
    while !world.ended() {
        roads(&scenario, &world, 0, &mut ego);
        roads(&scenario, &world, 2, &mut cyclist);
        let command = driver.drive(&world);
        world.step(&command);
        assert!(world.collisions().is_empty(), "{:?}", world.collisions());
    }
    assert_eq!(ego, ["west", "west-east", "east"]);
    // The ends of the ways into the road to the east lie upon each other.
    cyclist.retain(|road| road != "west-east");
    assert_eq!(cyclist, ["south", "south-east", "east"]);
    // It ends where the route does, not when the time has passed.
    let end = world.route().line().length();
    let along = world.route().line().offset(world.ego().pose().position).along;
    assert!(
        world.time() < scenario.duration_s && (end - 5.5..end).contains(&along),
        "{along} {end}"
    );
}

#[test]
fn route_takes_the_roads_in_their_order() {
    let mut scenario = town();
    let length = |scenario: &Scenario| World::new(scenario).unwrap().route().line().length();
    let straight = length(&scenario);
    let Layout::OpenDrive(file) = &mut scenario.road else { panic!("{:?}", scenario.road) };
    // Right at the junction, from the right lane.
    file.via = vec!["south".to_owned()];
    let right = length(&scenario);
    // The right lane is on the outside of the bend: 5.25 m beside it, 50 degrees.
    assert!((straight - (220.0 + 32.0 + 318.5 + 4.6)).abs() < 0.1, "{straight}");
    // 1.5 m straight on, then a quarter of a circle of 12.75 m.
    assert!((right - (220.0 + 1.5 + 20.0 + 150.0)).abs() < 0.1, "{right}");
}

#[test]
fn scenario_that_is_written_elsewhere_names_the_same_roads() {
    let scenario = town();
    let text = scenario.to_yaml();
    assert_eq!(Scenario::from_yaml(&text, "elsewhere/b.yaml").unwrap(), scenario, "{text}");
}

#[test]
fn errors_name_file_key_value_and_what_was_expected() {
    let text = std::fs::read_to_string(example("town.yaml")).unwrap();
    let file = example("a.yaml");
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let changed = text.replacen(from, to, 1);
        let said = Scenario::from_yaml(&changed, file.to_str().unwrap()).unwrap_err().to_string();
        let start = format!("{}: ", file.display());
        said.strip_prefix(&start).unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let cases = [
        (
            "lane: -2}\n",
            "lane: -3}\n",
            "road.opendrive.from: found lane -3 of road \"west\", expected a drivable lane of the file",
        ),
        (
            "via: [east]",
            "via: [east, moon]",
            "road.opendrive.via[1]: found moon, expected a road that is reached from the one before without a change of lanes, and over no lane twice",
        ),
        (
            "via: [east]",
            "via: [north]",
            "road.opendrive.via[0]: found north, expected a road that is reached from the one before without a change of lanes, and over no lane twice",
        ),
        (
            "ego: {along_m: 40",
            "ego: {along_m: 4000",
            "ego.along_m: found 4000, expected a place at least 5 m before the end of its route",
        ),
        (
            "ego: {along_m: 40",
            "ego: {lane: 1, along_m: 40",
            "ego.lane: found 1, expected none: road.opendrive.from and via say where it goes",
        ),
        (
            "ego: {along_m: 40",
            "ego: {turn: left, along_m: 40",
            "ego.turn: found left, expected none: road.opendrive.from and via say where it goes",
        ),
        (
            "on: {road: south, lane: 1}",
            "on: {road: south, lane: 2}",
            "actors[1].on: found lane 2 of road \"south\", expected a drivable lane of the file of road.opendrive",
        ),
    ];
    for (from, to, message) in cases {
        assert_eq!(refused(from, to), message);
    }
    let said = refused("file: town.xodr", "file: village.xodr");
    assert!(
        said.starts_with("road.opendrive.file: ") && said.contains("village.xodr: cannot be read"),
        "{said}"
    );
    let said = refused("file: town.xodr", "file: town.yaml");
    assert!(said.contains("town.yaml: found malformed XML, expected OpenDRIVE"), "{said}");
    // A device has no end.
    let said = refused("file: town.xodr", "file: /dev/zero");
    assert!(said.contains("/dev/zero: cannot be read: expected a regular file"), "{said}");
    // Without roads of a file there is no lane to name.
    let text = std::fs::read_to_string(example("cut-in.yaml")).unwrap();
    let text = text.replacen("kind: car,", "kind: car, on: {road: a, lane: -1},", 1);
    let said = Scenario::from_yaml(&text, "a.yaml").unwrap_err().to_string();
    let expected = "a.yaml: actors[0].on: found lane -1 of road \"a\", expected a drivable lane of the file of road.opendrive";
    assert_eq!(said, expected);
}
