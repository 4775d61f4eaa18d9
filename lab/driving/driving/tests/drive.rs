//! Both stacks in a closed loop on the virtual clock, with declared costs: what happens does not
//! depend on the machine.

use dataflow::trace::{Event, Point};
use dataflow::{Chunk, Costs, Path};
use driving::drive::{DriveOutcome, run};
use driving::stack::{Features, Stack};
use std::collections::BTreeMap;
use world::Scenario;

/// A car ahead brakes hard after 1.2 s, and there is no other lane.
const BRAKES: &str = "
name: the car ahead brakes
duration_s: 4
road:
  straight: { length_m: 400, lanes: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 36 }
actors:
  - { kind: car, along_m: 84, speed_kmh: 36, moves: !lane {} }
actions:
  - { actor: 0, when: !time_s 1.2, does: !speed { to_kmh: 0, rate_mps2: 6 } }
hazard: { actor: 0, action: 0 }
";

/// Each chunk of a module takes what it takes on the normal path, and a quarter on the fast one.
fn costs(planning_ns: u64) -> Costs {
    Costs::Declared(Box::new(move |chunk: &Chunk| {
        // Segmentation, tracking, prediction, planning, control, the brake.
        let whole = [4_000_000, 500_000, 2_000_000, planning_ns, 50_000, 50_000];
        let module = chunk.module.map_or(3, |module| module.index());
        if chunk.path == Path::Fast { whole[module] / 4 } else { whole[module] }
    }))
}

fn drive(stack: Stack, features: &Features, planning_ns: u64) -> DriveOutcome {
    let scenario = Scenario::from_yaml(BRAKES, "brakes.yaml").unwrap();
    run(&scenario, stack, features, costs(planning_ns)).unwrap()
}

#[test]
fn both_stacks_stop_behind_a_car_that_brakes_and_their_reactions_add_up() {
    for stack in [Stack::A, Stack::B] {
        for features in [Features::base(), Features::all()] {
            let outcome = drive(stack, &features, 300_000);
            assert_eq!(outcome.collisions, [], "{stack:?}");
            assert!(outcome.progress > 20.0, "{stack:?}: {} m", outcome.progress);
            let reaction = outcome.reaction.expect("it brakes");
            assert_eq!(reaction.unexplained_ns(), 0, "{reaction:?}");
            assert!((50_000_000..900_000_000).contains(&reaction.total_ns()), "{reaction:?}");
        }
    }
}

#[test]
fn the_same_drive_is_the_same_to_the_nanosecond() {
    let one = drive(Stack::A, &Features::all(), 300_000);
    let other = drive(Stack::A, &Features::all(), 300_000);
    assert_eq!(one.frames, other.frames);
    assert_eq!((one.progress, one.reaction), (other.progress, other.reaction));
    assert_eq!(one.statistics, other.statistics);
}

#[test]
fn stages_with_timers_answer_later_than_messages() {
    let mean = |stack| drive(stack, &Features::base(), 300_000).mean_latency().unwrap();
    let (a, b) = (mean(Stack::A), mean(Stack::B));
    assert!(a + 0.03 < b, "{a} s and {b} s");
}

#[test]
fn the_fast_path_answers_earlier_when_planning_takes_too_long() {
    let base = drive(Stack::A, &Features::base(), 3_000_000);
    let fast = drive(Stack::A, &Features { fast_path: true, ..Features::base() }, 3_000_000);
    let planning = |outcome: &DriveOutcome| {
        let of = outcome.statistics.modules.iter().find(|module| module.name == "planning");
        of.map(|module| module.fast).unwrap()
    };
    assert_eq!(planning(&base), 0);
    assert!(planning(&fast) > 0);
    let (fast_mean, base_mean) = (fast.mean_latency().unwrap(), base.mean_latency().unwrap());
    assert!(1.3 * fast_mean < base_mean, "{fast_mean} {base_mean}");
}

#[test]
fn usual_plan_follows_a_short_one_also_where_a_timer_starts_planning() {
    for stack in [Stack::A, Stack::B] {
        let features = Features { fast_path: true, ..Features::base() };
        let outcome = drive(stack, &features, 3_000_000);
        let runs = outcome.events.iter().filter_map(|event| match event.point {
            Point::Start { module, .. } => Some((event.job, module?.index())),
            _ => None,
        });
        let runs: BTreeMap<u64, usize> = runs.collect();
        let published = |part: u16| {
            let of_planning = outcome.events.iter().filter(|event| {
                runs.get(&event.job).is_some_and(|&n| outcome.names.modules[n] == "planning")
            });
            let is_it = |event: &&Event| matches!(event.point, Point::Published { part: p, of: 2, .. } if p == part);
            of_planning.filter(is_it).count()
        };
        // In stack A the rest of a prediction starts planning once more.
        let [short, usual] = [published(1), published(2)];
        match stack {
            Stack::A => assert_eq!([short, usual], [0, 0]),
            Stack::B => assert!(short > 5 && 2 * usual > short, "{usual} after {short}"),
        }
    }
}

#[test]
fn idle_groups_take_pieces_of_busy_ones_and_nobody_waits_for_them() {
    // A street of many people and parked cars, for its first four seconds.
    let scenario = Scenario { duration_s: 4.0, ..world::suite::normal(3) };
    let drive = |features: &Features| {
        // A lane's chunks take as long in pieces as one after the other in base.
        let costs = Costs::Declared(Box::new(|chunk: &Chunk| match (chunk.module, chunk.piece) {
            (Some(module), true) => [4_000_000, 0, 2_000_000, 500_000, 0][module.index()],
            _ => 500_000,
        }));
        run(&scenario, Stack::A, features, costs).unwrap()
    };
    let base = drive(&Features::base());
    let stealing = drive(&Features { stealing: true, ..Features::base() });
    let guests = |outcome: &DriveOutcome| -> u64 {
        outcome.statistics.modules.iter().map(|module| module.pieces_as_guest).sum()
    };
    assert_eq!(guests(&base), 0);
    assert!(guests(&stealing) > 20, "{}", guests(&stealing));
    // Lanes are planned for one after the other, or as pieces.
    let lanes = |outcome: &DriveOutcome| {
        let planning = outcome.names.modules.iter().position(|name| name == "planning").unwrap();
        outcome.statistics.modules[planning].pieces
    };
    assert_eq!(lanes(&base), 0);
    assert!(lanes(&stealing) > 20, "{}", lanes(&stealing));
    let groups = &stealing.statistics.groups;
    assert!(groups.iter().all(|group| group.violations == 0 && group.delayed_ns == 0));
    let (slow, quick) = (base.mean_latency().unwrap(), stealing.mean_latency().unwrap());
    assert!(1.05 * quick < slow, "{slow} {quick}");
}
