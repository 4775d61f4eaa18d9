//! Scenarios as people write them.

use std::path::Path;
use world::critical::{Limit, critical};
use world::suite::{corner, normal};
use world::{Reference, Scenario, World};

const GOOD: &str = "name: good
duration_s: 10
road:
  straight: {length_m: 300, lanes: 2, lane_width_m: 3.5, limit_kmh: 50}
ego: {along_m: 50, speed_kmh: 40}
actors:
  - {kind: car, along_m: 80, speed_kmh: 30, moves: {lane: {}}}
  - {kind: pedestrian, along_m: 90, left_m: -3, heading_deg: 90}
actions:
  - {actor: 1, when: {time_s: 2}, does: {speed: {to_kmh: 5}}}
hazard: {actor: 1, action: 0}
";

fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    Scenario::from_yaml(&text, "a.yaml").expect_err("read what it should refuse").to_string()
}

#[test]
fn errors_name_file_key_value_and_what_was_expected() {
    assert!(Scenario::from_yaml(GOOD, "a.yaml").is_ok());
    let exact = [
        (
            ("speed_kmh: 40", "speed_kmh: 400"),
            "a.yaml: ego.speed_kmh: found 400, expected a number from 0 to 200",
        ),
        (
            ("speed_kmh: 40", "speed_kmh: .nan"),
            "a.yaml: ego.speed_kmh: found NaN, expected a number from 0 to 200",
        ),
        (
            ("lanes: 2", "lanes: 0"),
            "a.yaml: road.straight.lanes: found 0, expected a whole number from 1 to 6",
        ),
        (
            ("{actor: 1, when", "{actor: 7, when"),
            "a.yaml: actions[0].actor: found 7, expected a place in the list of 2 actors, from 0",
        ),
        (
            ("hazard: {actor: 1, action: 0}", "hazard: {actor: 1, action: 1}"),
            "a.yaml: hazard.action: found 1, expected a place in the list of 1 actions, from 0",
        ),
        (
            ("{speed: {to_kmh: 5}}", "{drift: {left_m: 1, over_m: 10}}"),
            "a.yaml: actions[0].actor: found 1, expected an actor that moves along a lane",
        ),
        (
            ("along_m: 80, speed", "along_m: 80, left_m: 50, speed"),
            "a.yaml: actors[0]: found a place without a lane, expected a lane of its direction, \
             at most 6 m beside it",
        ),
        (
            ("along_m: 50", "along_m: 500"),
            "a.yaml: ego: found a place without a lane, expected a start on its lane, in a lane \
             from which it can turn as it should",
        ),
    ];
    for ((from, to), message) in exact {
        assert_eq!(refused(from, to), message);
    }
}

#[test]
fn errors_of_form_name_file_key_line_and_what_was_expected() {
    let parts: [((&str, &str), &[&str]); 4] = [
        (("speed_kmh: 40", "sped_kmh: 40"), &["a.yaml:5:", "ego.sped_kmh: unknown", "speed_kmh"]),
        (("speed_kmh: 40", "speed_kmh: fast"), &["a.yaml:5:", "ego.speed_kmh", "fast", "number"]),
        (("duration_s: 10\n", ""), &["a.yaml:1:1: ", "duration_s"]),
        (("kind: car", "kind: cat"), &["a.yaml:7:", "actors[0].kind", "cat", "pedestrian"]),
    ];
    for ((from, to), expected) in parts {
        let message = refused(from, to);
        assert!(expected.iter().all(|part| message.contains(part)), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    let missing = Scenario::read(Path::new("/no/such.yaml")).unwrap_err().to_string();
    assert!(missing.starts_with("/no/such.yaml: cannot be read: "), "{missing}");
}

#[test]
fn triggers_that_ask_for_the_ego_do_not_exist() {
    let message = refused("{time_s: 2}", "{ego_within_m: 20}");
    assert!(message.contains("ego_within_m") && message.contains("time_s"), "{message}");
}

#[test]
fn scenarios_read_what_they_write() {
    let all = (0..329).map(corner).chain((0..8_000).step_by(97).map(normal));
    for scenario in all {
        let text = scenario.to_yaml();
        let read = Scenario::from_yaml(&text, "written.yaml");
        assert_eq!(read.unwrap_or_else(|error| panic!("{error}\n{text}")), scenario);
    }
}

#[test]
fn examples_are_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/drive");
    let mut hazards = 0;
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // Roads for OpenDRIVE's reader lie beside them.
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "yaml")) {
        let scenario = Scenario::read(&file).unwrap_or_else(|e| panic!("{e}"));
        if scenario.hazard.is_some() {
            hazards += 1;
            let limit = critical(&scenario).unwrap().limit;
            println!("{}: {limit:?}", scenario.name);
            assert!(matches!(limit, Limit::After(time) if time < 1.0), "{}", scenario.name);
            continue;
        }
        let mut world = World::new(&scenario).unwrap();
        let mut driver = Reference::new(scenario.ego.headway_s);
        while !world.ended() {
            let command = driver.drive(&world);
            world.step(&command);
        }
        assert_eq!(world.collisions(), [], "{}", scenario.name);
    }
    assert_eq!(hazards, 3);
}

#[test]
fn no_number_makes_reading_or_driving_panic() {
    let (mut read, mut refused) = (0, 0);
    for example in ["child-behind-parked-cars", "cut-in", "junction"] {
        let name = format!("../../../examples/drive/{example}.yaml");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = std::fs::read_to_string(path).unwrap();
        for (start, _) in text.match_indices(": ") {
            let value = &text[start + 2..];
            let length = value.find(['}', ',', '\n']).unwrap_or(value.len());
            if value[..length].parse::<f64>().is_err() {
                continue;
            }
            for other in ["0", "-1", "1", "180", "1e308", "-1e308", ".nan", ".inf", "0.0001"] {
                let text = format!("{}: {other}{}", &text[..start], &value[length..]);
                let Ok(scenario) = Scenario::from_yaml(&text, "a.yaml") else {
                    refused += 1;
                    continue;
                };
                let mut world = World::new(&scenario).unwrap();
                let mut driver = Reference::new(scenario.ego.headway_s);
                for _ in 0..250 {
                    let command = driver.drive(&world);
                    world.step(&command);
                    let places = world.bodies().iter().map(|body| body.pose.position);
                    assert!(places.into_iter().all(|place| place.is_finite()), "{text}");
                }
                read += 1;
            }
        }
    }
    assert!(read > 100 && refused > 200, "{read} {refused}");
}

/// Roads of 900 km in each of four directions, with 100 vehicles on each km.
#[test]
fn traffic_of_more_vehicles_than_there_may_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lane = |id: i32| {
        format!(
            "<lane id=\"{id}\" type=\"driving\">\
             <width sOffset=\"0\" a=\"3.5\" b=\"0\" c=\"0\" d=\"0\"/></lane>"
        )
    };
    let (left, right) = ([lane(1), lane(2)].concat(), [lane(-1), lane(-2)].concat());
    let geometry = |n: usize| {
        let at = n as f64 * 1e5;
        format!(
            "<geometry s=\"{at}\" x=\"{at}\" y=\"0\" hdg=\"0\" length=\"1e5\"><line/></geometry>"
        )
    };
    let geometries: String = (0..9).map(geometry).collect();
    let road = format!(
        "<OpenDRIVE><road id=\"r\" length=\"9e5\" junction=\"-1\"><planView>{geometries}</planView>\
         <lanes><laneSection s=\"0\"><left>{left}</left>\
         <right>{right}</right></laneSection></lanes></road></OpenDRIVE>"
    );
    std::fs::write(folder.path().join("long.xodr"), road).unwrap();
    let file = folder.path().join("long.yaml");
    let text = "name: long\nduration_s: 1\nroad:\n  opendrive:\n    file: long.xodr\n    \
                from: {road: r, lane: -1}\nego: {along_m: 40, speed_kmh: 40}\n\
                traffic: {seed: 1, own_per_km: 100, beside_per_km: 100, oncoming_per_km: 100}\n";
    std::fs::write(&file, text).unwrap();
    let error = world::Scenario::read(&file).unwrap_err().to_string();
    assert!(error.contains("traffic: found more than 100000 places for vehicles"), "{error}");
    let actor = "\n  - {kind: car, along_m: 95, speed_kmh: 40, moves: straight}";
    let text = format!("{}actors:{}\n", &text[..text.find("traffic").unwrap()], actor.repeat(257));
    std::fs::write(&file, text).unwrap();
    let error = world::Scenario::read(&file).unwrap_err().to_string();
    assert!(error.contains("actors: found 257, expected a whole number from 0 to 256"), "{error}");
}
