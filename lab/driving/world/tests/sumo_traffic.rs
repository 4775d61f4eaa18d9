//! A world whose vehicles SUMO moves: the real one, where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use world::sumo::{Error, Traffic, VARIABLE};
use world::{Reference, Scenario, World, scenario};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/drive").join(name)
}

/// The example with another seed, so that each test's SUMO can be told from the others'.
fn town(seed: u32) -> Scenario {
    let mut town = Scenario::read(&example("town-sumo.yaml")).unwrap();
    sumo(&mut town).seed = seed;
    town
}

fn sumo(scenario: &mut Scenario) -> &mut scenario::Sumo {
    scenario.sumo.as_mut().unwrap()
}

fn installed() -> bool {
    let there = std::env::var_os(VARIABLE).is_some();
    if !there {
        eprintln!("SKIP: {VARIABLE} is not set to the program `sumo`");
    }
    there
}

/// A world with its traffic, driven by the reference driver.
struct Drive {
    world: World,
    traffic: Traffic,
    driver: Reference,
}

impl Drive {
    fn begin(scenario: &Scenario) -> Drive {
        let mut world = World::new(scenario).unwrap();
        let traffic = Traffic::start(scenario, &mut world).unwrap().unwrap();
        Drive { world, traffic, driver: Reference::new(1.5) }
    }

    /// One step; with the brakes on, if it is to stop.
    fn step(&mut self, stop: bool) -> Result<(), Error> {
        let mut command = self.driver.drive(&self.world);
        if stop {
            command.acceleration = -4.0;
        }
        let others = self.traffic.step(&self.world.bodies()[0])?;
        self.world.step_among(&command, others);
        Ok(())
    }
}

#[test]
fn ego_drives_to_the_end_of_its_route_among_vehicles_that_stay_on_the_lanes() {
    if !installed() {
        return;
    }
    let mut drive = Drive::begin(&town(1));
    let (mut on, mut beside) = (0, 0);
    let mut seen = std::collections::BTreeSet::new();
    while !drive.world.ended() {
        let before = drive.world.clone();
        drive.step(false).unwrap();
        assert!(drive.world.collisions().is_empty(), "{:?}", drive.world.collisions());
        for body in &drive.world.bodies()[1..] {
            seen.insert(body.id);
            let Some(last) = before.body(body.id) else { continue };
            let way = last.pose.position.distance(body.pose.position);
            // A vehicle may change lanes after a bend: to SUMO, lanes beside each other are equally
            // long, but 50 degrees make the outer one 3.05 m longer.
            assert!(way < 3.2, "{way} m in a step: {body:?}");
            match drive.world.road().find(body.pose) {
                Some((_, offset)) if offset.left.abs() < 0.5 => on += 1,
                _ => beside += 1,
            }
        }
    }
    assert!(drive.world.time() < 60.0 && seen.len() > 12, "{seen:?}");
    // Changes of lanes, and what is not yet wholly on the road.
    assert!(on > 10 * beside && on > 5_000, "{on} on lanes, {beside} beside");
}

#[test]
fn who_comes_behind_the_ego_stops_when_it_does() {
    if !installed() {
        return;
    }
    let mut drive = Drive::begin(&town(2));
    let mut waits = 0;
    while drive.world.time() < 40.0 {
        let stop = drive.world.time() > 3.0;
        drive.step(stop).unwrap();
        assert!(drive.world.collisions().is_empty(), "{:?}", drive.world.collisions());
        let ego = drive.world.ego().pose();
        let behind = drive.world.bodies()[1..].iter().filter(|body| {
            let place = ego.local(body.pose.position);
            (-15.0..-4.0).contains(&place.x) && place.y.abs() < 1.0 && body.speed < 0.3
        });
        waits += behind.count();
    }
    assert!(waits > 100, "{waits}");
}

/// The processes of this test's SUMO.
fn processes(seed: u32) -> Vec<String> {
    let arguments = format!("--seed\0{seed}\0");
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let ours = folders.filter(|folder| {
        let line = std::fs::read(folder.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&arguments)
    });
    ours.map(|folder| folder.file_name().into_string().unwrap()).collect()
}

#[test]
fn sumo_that_dies_in_the_middle_is_an_error_that_says_so_and_leaves_nothing() {
    if !installed() {
        return;
    }
    const SEED: u32 = 730_021;
    let mut drive = Drive::begin(&town(SEED));
    while drive.world.time() < 2.0 {
        drive.step(false).unwrap();
    }
    let ours = processes(SEED);
    assert!(!ours.is_empty());
    assert!(Command::new("kill").arg("-9").args(&ours).status().unwrap().success());
    let said = drive.step(false).and_then(|()| drive.step(false)).unwrap_err().to_string();
    assert!(said.ends_with("ended in the middle of the drive, with signal: 9 (SIGKILL)"), "{said}");
    drop(drive);
    // One that lives is ended with the drive.
    let drive = Drive::begin(&town(SEED));
    assert!(!processes(SEED).is_empty());
    drop(drive);
    assert_eq!(processes(SEED), [""; 0]);
}

#[test]
fn wrong_routes_and_another_network_are_refused_with_sumos_words() {
    if !installed() {
        return;
    }
    let refused = |change: &dyn Fn(&mut scenario::Sumo)| {
        let mut scenario = town(3);
        change(sumo(&mut scenario));
        let mut world = World::new(&scenario).unwrap();
        let started = Traffic::start(&scenario, &mut world);
        started.err().expect("started").to_string()
    };
    let folder = tempfile::tempdir().unwrap();
    let routes = folder.path().join("routes.xml");
    let vehicle = r#"<routes><trip id="a" depart="0" from="-west" to="moon"/></routes>"#;
    std::fs::write(&routes, vehicle).unwrap();
    let said = refused(&|sumo| sumo.routes = routes.clone());
    assert!(said.contains(", with exit status: 1: ") && said.contains("moon"), "{said}");
    // SUMO leaves out vehicles that are not sorted by departure.
    let text = std::fs::read_to_string(example("town.rou.xml")).unwrap();
    let text = text.replacen("begin=\"0\"", "begin=\"8\"", 1);
    std::fs::write(&routes, text).unwrap();
    let said = refused(&|sumo| sumo.routes = routes.clone());
    assert!(said.contains("routes.xml: Route file should be sorted"), "{said}");
    let said = refused(&|sumo| sumo.network = Some(example("town.rou.xml")));
    assert!(said.contains("ended before the drive began, with exit status: 1: "), "{said}");
}
