//! The rivals of COLA's mechanisms do what their names say.

use dataflow::trace::Point;
use dataflow::{Chunk, Costs};
use driving::drive::{DriveOutcome, run};
use driving::runs::runs;
use driving::stack::Stack;
use driving::{Policy, stack};
use world::Scenario;

/// A car ahead brakes hard after 1.2 s, and there is no other lane.
const BRAKES: &str = "
name: the car ahead brakes
duration_s: 6
road:
  straight: { length_m: 400, lanes: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 36, desired_kmh: 36 }
actors:
  - { kind: car, along_m: 75, speed_kmh: 36, moves: !lane {} }
actions:
  - { actor: 0, when: !time_s 1.2, does: !speed { to_kmh: 0, rate_mps2: 6 } }
hazard: { actor: 0, action: 0 }
";

/// Drives with `planning_ns` for a chunk of planning; the other modules take little.
fn drive(policy: Policy, planning_ns: u64) -> DriveOutcome {
    drive_in(BRAKES, policy, planning_ns)
}

fn drive_in(scenario: &str, policy: Policy, planning_ns: u64) -> DriveOutcome {
    let scenario = Scenario::from_yaml(scenario, "brakes.yaml").unwrap();
    let costs = Costs::Declared(Box::new(move |chunk: &Chunk| {
        // Segmentation, tracking, prediction, planning, control, the emergency brake.
        let whole = [4_000_000, 500_000, 1_000_000, planning_ns, 50_000, 50_000];
        chunk.module.map_or(0, |module| whole[module.index()])
    }));
    run(&scenario, Stack::A, &policy.features(), costs).unwrap()
}

/// The longest run of planning, s.
fn longest(outcome: &DriveOutcome) -> f64 {
    let planning = outcome.names.modules.iter().position(|name| name == "planning");
    let runs = runs(&outcome.events);
    let service = runs.iter().filter(|run| run.module == planning).map(|run| run.service_ns);
    service.max().unwrap() as f64 / 1e9
}

#[test]
fn emergency_brake_does_not_wait_for_planning() {
    let slow_ns = 80_000_000;
    let base = drive(Policy::Base, slow_ns);
    assert_eq!(base.collisions.len(), 1, "planning comes too late");
    let brake = drive(Policy::Brake, slow_ns);
    assert_eq!(brake.collisions, []);
    assert!(brake.braked > 4.0, "{} m/s²", brake.braked);
    let reaction = brake.reaction.unwrap();
    let by = reaction.steps.iter().map(|step| brake.names.modules[step.module.index()].as_str());
    assert!(by.clone().any(|name| name == "brake"), "{:?}", by.collect::<Vec<_>>());
    assert_eq!(brake.cores, 1 + stack::cores(&Policy::Base.features()));
}

#[test]
fn emergency_brake_leaves_a_drive_alone_that_planning_masters() {
    let (base, brake) = (drive(Policy::Base, 100_000), drive(Policy::Brake, 100_000));
    assert_eq!((base.collisions.len(), brake.collisions.len()), (0, 0));
    let apart = (base.progress - brake.progress).abs();
    assert!(apart < 0.15 * base.progress, "{} m and {} m", base.progress, brake.progress);
}

#[test]
fn reflex_brakes_until_there_is_a_plan_for_the_frame() {
    let slow_ns = 80_000_000;
    let (base, reflex) = (drive(Policy::Base, slow_ns), drive(Policy::Reflex, slow_ns));
    assert_eq!((base.collisions.len(), reflex.collisions.len()), (1, 0));
    let reaction = reflex.reaction.as_ref().unwrap();
    let by = reaction.steps.iter().map(|step| reflex.names.modules[step.module.index()].as_str());
    assert!(by.clone().any(|name| name == "brake"), "{:?}", by.collect::<Vec<_>>());
    assert_eq!(reflex.cores, base.cores, "it is on control's core");
}

#[test]
fn reflex_leaves_the_rest_to_a_plan_but_for_the_brake_that_rss_asks_for() {
    let behind = |along_m: u32| {
        let near = BRAKES
            .replace("along_m: 75", &format!("along_m: {along_m}"))
            .replace("to_kmh: 0, rate_mps2: 6", "to_kmh: 30, rate_mps2: 1");
        [Policy::Base, Policy::Reflex].map(|policy| drive_in(&near, policy, 1_000))
    };
    // 11.5 m behind it nothing is due.
    let [base, reflex] = behind(66);
    assert_eq!(base.progress, reflex.progress);
    // 3.5 m behind it a reaction is, and the plan lets go a little earlier.
    let [base, reflex] = behind(58);
    let apart = base.progress - reflex.progress;
    assert!((0.01..0.5).contains(&apart), "{} m and {} m", base.progress, reflex.progress);
}

#[test]
fn anytime_tasks_end_with_their_budget_and_use_it() {
    let (base, anytime) = (drive(Policy::Base, 5_000_000), drive(Policy::Anytime, 5_000_000));
    let (whole, bounded) = (longest(&base), longest(&anytime));
    assert!(whole > 0.2 && 2.0 * bounded < whole, "{bounded} s of {whole} s");
    // With time left the short plan is refined to the whole one, which costs both.
    let (base, anytime) = (drive(Policy::Base, 20_000), drive(Policy::Anytime, 20_000));
    assert!(longest(&anytime) > longest(&base), "{} {}", longest(&anytime), longest(&base));
}

#[test]
fn deadlines_are_static_or_the_speeds() {
    let near = BRAKES.replace("along_m: 75", "along_m: 62");
    let deadlines = |policy| {
        let outcome = drive_in(&near, policy, 100_000);
        let planning = outcome.names.modules.iter().position(|name| name == "planning");
        let frames = runs(&outcome.events);
        let left = outcome.events.iter().filter_map(|event| match event.point {
            Point::Start { module: Some(module), deadline_ns, .. }
                if Some(module.index()) == planning =>
            {
                let run = frames.iter().find(|run| run.job == event.job)?;
                let frame = outcome.frames.iter().find(|frame| frame.number == run.frame)?;
                Some(deadline_ns as f64 / 1e9 - frame.captured)
            }
            _ => None,
        });
        left.collect::<Vec<f64>>()
    };
    let fixed = deadlines(Policy::StaticDeadline);
    assert!(fixed.len() > 20 && fixed.iter().all(|left| (left - 0.125).abs() < 1e-6), "{fixed:?}");
    let by_speed = deadlines(Policy::SpeedDeadline);
    // At 10 m/s and below.
    assert!(by_speed.iter().all(|left| (0.395..0.401).contains(left)), "{by_speed:?}");
    let reactions = deadlines(Policy::All);
    assert!(reactions.iter().any(|left| *left < 0.120), "{reactions:?}");
}
