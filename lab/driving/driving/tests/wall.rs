//! A stack in a closed loop on the wall clock, on whatever cores there are. Nothing here
//! depends on how fast they are.

use dataflow::Observed;
use std::ops::ControlFlow;

use driving::drive::{DriveOutcome, Seen, Until, watch_again};
use driving::stack::{Features, Stack};
use driving::wall::{self, Places};
use realtime::clock::monotonic_ns;
use world::{Command, Scenario, World};

/// The car ahead brakes.
const LEAD: &str = "
name: the car ahead brakes
duration_s: 3
road:
  straight: { length_m: 400, lanes: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: car, along_m: 86, speed_kmh: 40, moves: !lane {} }
actions:
  - { actor: 0, when: !time_s 0.5, does: !speed { to_kmh: 0, rate_mps2: 7 } }
hazard: { actor: 0, action: 0 }
";

fn drive(features: &Features, until: Until, look: &mut (dyn FnMut(&World) + Send)) -> DriveOutcome {
    let scenario = Scenario::from_yaml(LEAD, "lead.yaml").unwrap();
    let cores = realtime::thread::cores();
    let places = Places::folded(&cores, Places::needed(features)).unwrap();
    let show = &mut |world: &World| {
        look(world);
        ControlFlow::Continue(())
    };
    wall::watch(&scenario, Stack::A, features, (&places, 1.0), until, show).unwrap()
}

#[test]
fn the_world_takes_its_real_time_and_the_stack_brakes_for_the_hazard() {
    let mut shown = 0;
    let began_ns = monotonic_ns();
    let outcome = drive(&Features::base(), Until::End, &mut |_| shown += 1);
    let took_ns = monotonic_ns() - began_ns;
    assert_eq!(outcome.collisions, []);
    assert!((outcome.driven - 3.0).abs() < 0.015, "{} s", outcome.driven);
    assert_eq!(shown, 301);
    // The last step is after 2.99 s.
    assert!(took_ns >= 2_990_000_000, "{took_ns} ns");
    assert_eq!(outcome.frames.len() + outcome.unanswered, 30);
    assert!(outcome.frames.iter().all(|frame| frame.latency > 0.0));
    assert!(outcome.events.is_sorted_by_key(|event| event.at_ns));
    assert!(outcome.braked > 2.0, "{} m/s2", outcome.braked);
    let reaction = outcome.reaction.expect("it brakes");
    assert_eq!(reaction.unexplained_ns(), 0, "{reaction:?}");
    assert!(reaction.module_ns > 0 && reaction.hazard_ns >= 500_000_000, "{reaction:?}");
    assert_eq!(outcome.lost_events, 0);
    let kept = outcome.kept.expect("how well the clock was kept");
    assert!(kept.latest > 0.0 && (kept.late > 0) == (kept.latest > 1e-3), "{kept:?}");
    assert_eq!(kept.refused, Vec::<String>::new(), "nothing is asked for on shared cores");
}

#[test]
fn a_drive_that_is_about_a_reaction_ends_after_it() {
    let outcome = drive(&Features::all(), Until::Seen(0.5), &mut |_| ());
    let began = outcome.began.unwrap();
    assert!((outcome.driven - began - 0.5).abs() < 0.03, "{} s", outcome.driven);
}

#[test]
fn the_same_drive_on_the_virtual_clock_sees_and_computes_the_same() {
    let features = Features::base();
    let scenario = Scenario::from_yaml(LEAD, "lead.yaml").unwrap();
    let cores = realtime::thread::cores();
    let places = Places::folded(&cores, Places::needed(&features)).unwrap();
    let go_on = &mut |_: &World| ControlFlow::Continue(());
    let (wall, seen) =
        wall::keep(&scenario, Stack::A, &features, (&places, 1.0), Until::End, go_on).unwrap();
    assert_eq!((seen.obeyed.len(), wall.observed), (300, (0, 0)));
    let mut again =
        |seen| watch_again(&scenario, Stack::A, &features, seen, Until::End, go_on).unwrap();
    let same = again(seen);
    assert_eq!((same.driven, same.progress, same.seen), (wall.driven, wall.progress, wall.seen));
    // On cores that are shared a run can be left out on the wall.
    assert!(same.observed.0 > 4 * same.observed.1, "{:?}", same.observed);
    assert!(same.reaction.is_some());
    // It goes where it is told to, for as long as it is told, whatever the stack says.
    let rolls = Seen { obeyed: vec![Command::default(); 250], observed: Observed::default() };
    let rolls = again(rolls);
    assert!((rolls.driven - 2.5).abs() < 1e-9, "{} s", rolls.driven);
    assert!((rolls.progress - 2.5 * 40.0 / 3.6).abs() < 0.5, "{} m", rolls.progress);
    assert_eq!(rolls.observed.0, 0);
}

#[test]
fn drives_side_by_side_share_no_core_and_a_folded_one_uses_all() {
    let cores: Vec<usize> = (4..22).collect();
    let places = Places::side_by_side(&cores, 8);
    let all: Vec<usize> =
        places.iter().flat_map(|place| place.stack.iter().chain([&place.world])).copied().collect();
    assert_eq!(all, (4..20).collect::<Vec<_>>());
    assert!(places.iter().all(|place| place.stack.len() == 7 && !place.folded));
    assert_eq!(Places::side_by_side(&cores[..7], 8), []);
    let folded = Places::folded(&cores[..3], 8).unwrap();
    assert_eq!((folded.stack, folded.world), (vec![4, 5, 4, 5, 4, 5, 4], 6));
    assert_eq!(Places::folded(&cores[..1], 8).unwrap().stack, [4; 7]);
    assert_eq!(Places::folded(&[], 8), None);
}

#[test]
fn drive_that_is_not_wanted_any_more_ends_at_once() {
    let scenario = Scenario::from_yaml(LEAD, "lead.yaml").unwrap();
    let features = Features::base();
    let mut steps = 0;
    let mut stop = |_: &World| {
        steps += 1;
        if steps < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let (costs, until) = (driving::Policy::Base.costs(1.0), Until::End);
    let stopped = driving::drive::watch(&scenario, Stack::A, &features, costs, until, &mut stop);
    assert!(matches!(stopped, Err(driving::drive::Error::Stopped)));
    assert_eq!(steps, 3);
}
