//! The critical reaction time: what the ideal stack knows when, and the table of the corner cases.

use dataflow::Costs;
use driving::critical::{LONGEST, critical, react};
use driving::drive::{DriveOutcome, run};
use driving::stack::{Features, Stack};
use world::suite::{self, Set};
use world::{Limit, Scenario};

/// A child runs out from behind a parked car.
const CHILD: &str = "
name: a child behind a parked car
duration_s: 7
road:
  straight: { length_m: 400, lanes: 1, oncoming: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: pedestrian, along_m: 92, left_m: -4.2, heading_deg: 90, length_m: 0.3, width_m: 0.5 }
  - { kind: obstacle, along_m: 89.2, left_m: -2.85, length_m: 4.4 }
actions:
  - { actor: 0, when: !time_s 1.5, does: !speed { to_kmh: 5, rate_mps2: 3 } }
hazard: { actor: 0, action: 0 }
";

fn child() -> Scenario {
    Scenario::from_yaml(CHILD, "child.yaml").unwrap()
}

fn reaction_ms(outcome: &DriveOutcome) -> Option<u64> {
    Some(outcome.reaction.as_ref()?.total_ns() / 1_000_000)
}

/// From T0 to the first turn of the lidar, steps.
fn wait(outcome: &DriveOutcome) -> u32 {
    let seen = (outcome.seen.unwrap() * 100.0).round() as u32;
    seen.next_multiple_of(10) - seen
}

#[test]
fn frames_that_are_withheld_delay_the_reaction_by_as_much() {
    for scenario in [child(), suite::corner(3)] {
        let at_once = react(&scenario, 0).unwrap();
        let least = reaction_ms(&at_once).unwrap();
        assert!(least >= u64::from(10 * wait(&at_once)), "{least} ms");
        for steps in [5, 12, 17, 24] {
            let late = react(&scenario, steps).unwrap();
            assert_eq!(late.seen, at_once.seen);
            let expected = least.max(u64::from(10 * steps));
            let found = reaction_ms(&late).map(|found| found.abs_diff(expected));
            let found = found.unwrap_or_else(|| panic!("{}, {steps}: no reaction", scenario.name));
            assert!(found <= 10, "{}, {steps}: {found} ms apart", scenario.name);
            assert_eq!(late.reaction.unwrap().unexplained_ns(), 0);
        }
    }
}

#[test]
fn what_is_withheld_comes_in_at_one_moment_and_nothing_is_lost() {
    const STEPS: u32 = 25;
    let outcome = react(&child(), STEPS).unwrap();
    assert_eq!((outcome.unanswered, outcome.lost_events), (0, 0));
    let seen = outcome.seen.unwrap();
    let release = seen + 0.01 * f64::from(STEPS);
    let mut withheld = 0;
    for frame in &outcome.frames {
        let late = frame.captured >= seen - 1e-6 && frame.captured < release - 1e-6;
        let latency = if late { release - frame.captured } else { 0.0 };
        assert!((frame.latency - latency).abs() < 1e-6, "{frame:?}, released at {release} s");
        withheld += usize::from(late);
    }
    assert!((2..=3).contains(&withheld), "{withheld} turns in 250 ms");
}

#[test]
fn reaction_before_the_first_frame_is_the_one_that_waits_for_it() {
    let drives = [0, 1, 50].map(|steps| react(&child(), steps).unwrap());
    let [at_once, soon, late] = &drives;
    // The scenario has a wait, so that there is something to see.
    assert!(wait(at_once) > 1, "{:?}", at_once.seen);
    assert_eq!((&soon.frames, soon.progress), (&at_once.frames, at_once.progress));
    assert_ne!(late.progress, at_once.progress);
    // With nothing withheld it is the usual drive on cores that take no time.
    let usual = run(&child(), Stack::A, &Features::base(), Costs::fixed(Vec::new())).unwrap();
    assert_eq!(
        usual.reaction.map(|it| it.total_ns()),
        at_once.reaction.as_ref().map(|it| it.total_ns())
    );
    let same = usual.frames.iter().zip(&at_once.frames).all(|(one, other)| one == other);
    assert!(same && at_once.frames.len() > 20);
}

#[test]
fn critical_times_of_the_table_are_found_again() {
    for set in [Set::Corner, Set::Develop, Set::Confirm] {
        let timed = set.frozen().iter().filter_map(|case| Some((case, case.critical_s()?)));
        let mut cases: Vec<_> = timed.collect();
        // The shortest needs the fewest drives.
        cases.sort_by(|one, other| one.1.total_cmp(&other.1));
        for (case, critical_s) in cases.iter().step_by(cases.len().div_ceil(3)) {
            let scenario = case.scenario(set).unwrap();
            let longest = (100.0 * critical_s).round() as u32;
            assert!(react(&scenario, longest).unwrap().collisions.is_empty(), "{case:?}");
            assert_eq!(react(&scenario, longest + 1).unwrap().collisions.len(), 1, "{case:?}");
        }
        let (first, _) = cases[0];
        let found = critical(&first.scenario(set).unwrap()).unwrap();
        assert_eq!(Some(found), first.limit, "{first:?}");
    }
}

#[test]
fn scenario_without_anything_to_react_to_has_no_critical_time() {
    let calm = CHILD.replace("does: !speed { to_kmh: 5", "does: !speed { to_kmh: 0");
    let scenario = Scenario::from_yaml(&calm, "calm.yaml").unwrap();
    assert_eq!(critical(&scenario).unwrap(), Limit::Never);
    assert!(react(&scenario, LONGEST).unwrap().collisions.is_empty());
}
