//! A single drive, and the results kept of it.

use crate::around::Watch;
use crate::replay::replay;
use crate::study::Unit;
use crate::usage::{groups, sending};
use crate::{Error, Hit, Key, Reaction, Row, Study, Suite, Times};
use dataflow::Path;
use dataflow::trace::{Class, Point, Reactions, RunEnd as End};
use driving::Policy;
use driving::drive::{self, DriveOutcome, Frame, Until};
use driving::runs::{Run, runs};
use driving::stack::{Features, Middleware};
use driving::stays::stays;
use driving::wall::{self, Places};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Instant;
use trial::signals;
use world::{Collision, Kind, Scenario, Side, World};

/// A command is late after this if the policy has no deadline for each frame, s.
const LATE: f64 = 0.125;

/// Plan of a drive, with the times by which it is judged.
struct Plan {
    scenario: Scenario,
    features: Features,
    until: Until,
    critical_s: Option<f64>,
    late_s: f64,
    begun: Instant,
}

impl Plan {
    fn new(study: &Study, unit: &Unit, policy: Policy) -> Plan {
        let features = Features {
            confirm_frames: study.confirm_frames,
            middleware: study.middleware,
            ..policy.features()
        };
        Plan {
            scenario: unit.suite.scenario(unit.index),
            until: unit.suite.until(),
            critical_s: unit.suite.critical_s(unit.index),
            late_s: features.deadline.unwrap_or(LATE),
            features,
            begun: Instant::now(),
        }
    }

    /// The row of a drive that has just ended.
    fn row(&self, key: Key, outcome: &DriveOutcome) -> Row {
        let took_s = self.begun.elapsed().as_secs_f64();
        row(key, &self.scenario, outcome, (self.critical_s, self.late_s, took_s))
    }
}

/// Returns the outcome of a drive, or an error that names the drive that failed.
fn told<T>(key: &Key, outcome: Result<T, drive::Error>) -> Result<T, Error> {
    outcome.map_err(|source| Error::Drive { what: key.to_string(), source: Box::new(source) })
}

/// Goes on with a drive unless a signal has come.
pub(crate) fn unless_stopped() -> ControlFlow<()> {
    signals::interrupted().map_or(ControlFlow::Continue(()), |_| ControlFlow::Break(()))
}

/// Drives it on the virtual clock, on cores `factor` times slower.
pub(crate) fn drive(
    study: &Study,
    factor: f64,
    unit: &Unit,
    policy: Policy,
    key: Key,
) -> Result<Row, Error> {
    let plan = Plan::new(study, unit, policy);
    if unit.suite == Suite::Modules {
        let (outcome, calls) = replay(&plan.scenario, unit.stack, factor)?;
        return Ok(Row { calls, ..plan.row(key, &outcome) });
    }
    let characterised = unit.characterised && policy == Policy::Base;
    let mut watch = Watch::default();
    let costs = policy.costs(factor);
    let show = &mut |world: &World| {
        if characterised {
            watch.look(world);
        }
        unless_stopped()
    };
    let Plan { scenario, features, until, .. } = &plan;
    let outcome = drive::watch(scenario, unit.stack, features, costs, *until, show);
    let outcome = told(&key, outcome)?;
    let mut row = plan.row(key, &outcome);
    if characterised {
        let runs = runs(&outcome.events);
        row.frames = watch.frames(&outcome, &runs);
        row.groups = groups(&outcome, &stays(&outcome.events));
        modules(&outcome, &runs, &mut row.times);
        if study.middleware == Middleware::Serialised {
            row.times.insert("middleware".to_owned(), middleware(&outcome));
        }
    }
    Ok(row)
}

/// Drives it at `places` on the wall clock, and the same again on the virtual one.
pub(crate) fn on_both_clocks(
    study: &Study,
    factor: f64,
    unit: &Unit,
    policy: Policy,
    [key, again]: [Key; 2],
    places: &Places,
) -> Result<[Row; 2], Error> {
    let plan = Plan::new(study, unit, policy);
    let Plan { scenario, features, until, .. } = &plan;
    let show = &mut |_: &World| unless_stopped();
    let drive = wall::keep(scenario, unit.stack, features, (places, factor), *until, show);
    let (outcome, seen) = told(&key, drive)?;
    let on_wall = plan.row(key, &outcome);
    let begun = Instant::now();
    let drive = drive::watch_again(scenario, unit.stack, features, seen, *until, show);
    let outcome = told(&again, drive)?;
    let simulated = Plan { begun, ..plan }.row(again, &outcome);
    Ok([on_wall, simulated])
}

fn row(
    key: Key,
    scenario: &Scenario,
    outcome: &DriveOutcome,
    (critical_s, late_s, took_s): (Option<f64>, f64, f64),
) -> Row {
    let runs = runs(&outcome.events);
    let fast: HashSet<u64> =
        runs.iter().filter(|run| run.path == Path::Fast).map(|run| run.frame).collect();
    let late = |frame: &&Frame| frame.latency > late_s;
    let is_fast = |frame: &&Frame| fast.contains(&frame.number);
    let groups = &outcome.statistics.groups;
    let busy_ns: u64 = groups.iter().map(|it| it.host_ns + it.guest_ns + it.ahead_ns).sum();
    let delay_ns: u64 = groups.iter().map(|group| group.delayed_ns).sum();
    let (sends_s, sends_busy_s) = sending(outcome, &runs, &stays(&outcome.events));
    Row {
        key,
        scenario: scenario.name.clone(),
        critical_s,
        driven_s: outcome.driven,
        collision: outcome.collisions.first().map(|hit| of_hit(hit, scenario, outcome.braked)),
        violation_s: outcome.violations.seconds(),
        violations: outcome.violations.all.len(),
        violation_by: outcome.violations.causes().map(|(name, s)| (name.to_owned(), s)).collect(),
        violation_aggressive_s: outcome.aggressive.seconds(),
        progress_m: outcome.progress,
        arrived_s: outcome.arrived,
        reaction: outcome.reaction.as_ref().map(|way| Reaction {
            sensor_ns: way.sensor_ns,
            confirm_ns: way.confirm_ns,
            module_ns: way.module_ns,
            bubble_ns: way.bubble_ns,
        }),
        unanswered: outcome.unanswered,
        late: outcome.frames.iter().filter(late).count(),
        late_fast: outcome.frames.iter().filter(late).filter(is_fast).count(),
        late_perception: lost_in_perception(outcome, &runs, &fast, late_s),
        busy_s: busy_ns as f64 / 1e9,
        cores: outcome.cores,
        guests: groups.iter().map(|group| group.admitted).sum(),
        host_violations: groups.iter().map(|group| group.violations).sum(),
        host_delay_s: delay_ns as f64 / 1e9,
        late_frames: outcome.kept.as_ref().map_or(0, |kept| kept.late),
        chunks_observed: outcome.observed.0,
        chunks_missing: outcome.observed.1,
        times: times(outcome, &runs, &fast),
        took_s,
        sends_s,
        sends_busy_s,
        frames: Vec::new(),
        groups: Vec::new(),
        calls: Vec::new(),
    }
}

/// Returns the number of frames on a fast path that were late because of perception alone: it left
/// less time than the fastest frame of the drive took from there on.
fn lost_in_perception(
    outcome: &DriveOutcome,
    runs: &[Run],
    fast: &HashSet<u64>,
    late_s: f64,
) -> usize {
    let named = |name: &str| outcome.names.modules.iter().position(|module| module == name);
    let tracking = named("tracking");
    let seen = runs.iter().filter(|run| run.module.is_some() && run.module == tracking);
    let seen: HashMap<u64, f64> = seen.map(|run| (run.frame, run.end_ns as f64 / 1e9)).collect();
    let split = outcome.frames.iter().filter(|frame| fast.contains(&frame.number));
    // Time of perception, and time of all else; the command may be a newer frame's.
    let split = split.filter_map(|frame| {
        let perception = seen.get(&frame.number)? - frame.captured;
        Some((perception, frame.latency - perception)).filter(|(_, rest)| *rest >= 0.0)
    });
    let split: Vec<(f64, f64)> = split.collect();
    let fastest = split.iter().map(|(_, rest)| *rest).fold(f64::INFINITY, f64::min);
    split.iter().filter(|(perception, _)| perception + fastest > late_s).count()
}

fn times(outcome: &DriveOutcome, runs: &[Run], fast: &HashSet<u64>) -> BTreeMap<String, Times> {
    let mut times: BTreeMap<String, Times> = BTreeMap::new();
    let mut add = |name: &str, ns: u64| times.entry(name.to_owned()).or_default().add(ns);
    for frame in &outcome.frames {
        let ns = (frame.latency * 1e9).round() as u64;
        add("frames", ns);
        add(if fast.contains(&frame.number) { "frames_fast" } else { "frames_normal" }, ns);
    }
    let done = |run: &&Run| run.outcome == End::Done && run.class != Class::Ahead;
    for run in runs.iter().filter(done) {
        let name = run.module.and_then(|module| outcome.names.modules.get(module));
        match name.map(String::as_str) {
            Some("segmentation") => add("guest", run.response_ns()),
            Some("prediction") => add("prediction", run.service_ns),
            Some(host @ ("tracking" | "planning" | "control")) => {
                add("hosts", run.response_ns());
                if host == "planning" {
                    add("planning", run.service_ns);
                }
            }
            _ => {}
        }
    }
    times
}

/// Adds the times for which the runs of each module had a core, and for which their messages
/// waited.
fn modules(outcome: &DriveOutcome, runs: &[Run], times: &mut BTreeMap<String, Times>) {
    let mut add = |name: String, ns: u64| times.entry(name).or_default().add(ns);
    let done = |run: &&Run| run.outcome == End::Done && run.class != Class::Ahead;
    for run in runs.iter().filter(done) {
        let module = run.module.and_then(|module| outcome.names.modules.get(module));
        let Some(name) = module else { continue };
        // The times that every drive keeps are there already.
        if !["prediction", "planning"].contains(&name.as_str()) {
            add(name.clone(), run.service_ns);
        }
        add(format!("{name}_waits"), run.start_ns - run.ready_ns);
    }
}

/// Returns the times that the frames which led to a command lost to making bytes and values of
/// messages, and to their hops, on their way there.
fn middleware(outcome: &DriveOutcome) -> Times {
    let reactions = Reactions::new(&outcome.events);
    let sources = outcome.events.iter().filter_map(|event| match event.point {
        Point::Injected { source, captured_ns, .. } => Some((source, captured_ns)),
        _ => None,
    });
    let mut times = Times::default();
    for (source, captured_ns) in sources.filter(|(it, _)| it.index() == usize::from(outcome.scans))
    {
        if let Some(way) = reactions.first(source, captured_ns, |_| true) {
            times.add(way.middleware_ns());
        }
    }
    times
}

fn of_hit(hit: &Collision, scenario: &Scenario, braked: f64) -> Hit {
    let kind = match hit.kind {
        Kind::Car => "car",
        Kind::Truck => "truck",
        Kind::Cyclist => "cyclist",
        Kind::Pedestrian => "pedestrian",
        Kind::Obstacle => "obstacle",
    };
    let side = match hit.side {
        Side::Front => "front",
        Side::Rear => "rear",
        Side::Left => "left",
        Side::Right => "right",
    };
    Hit {
        at_s: hit.time,
        kind: kind.to_owned(),
        hazard: scenario.hazard.is_some_and(|hazard| hazard.actor as u32 + 1 == hit.body),
        side: side.to_owned(),
        ego_speed: hit.ego_speed,
        other_speed: hit.body_speed,
        braked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Factor, MODULES, Scenarios};
    use driving::stack::Stack;

    #[test]
    fn a_drive_that_is_characterised_keeps_what_its_latency_comes_from() {
        let scenarios = Some(Scenarios::Range(7200, 7200, 1));
        let kinds = [Experiment::Characterise];
        let study =
            Study::new(&kinds, scenarios, None, &[Stack::A], (Factor::Times(7.0), 1)).unwrap();
        let unit = &study.units().unwrap()[0];
        let (policy, key) = unit.keys().next().unwrap();
        let row = drive(&study, 7.0, unit, policy, key).unwrap();
        assert!(row.is_possible());
        assert_eq!(row.frames.len() as u64, row.count("frames"));
        assert!(row.frames.iter().any(|frame| frame.vehicles > 0), "there is traffic");
        for frame in &row.frames {
            assert!(frame.objects >= u16::from(frame.vehicles > 0), "{frame:?}");
            // A command may be an earlier one's that was late; then there is no run for it.
            let computed: u32 = frame.modules_us.iter().flatten().sum();
            assert!(computed < 2 * frame.latency_us, "{frame:?}");
        }
        for module in MODULES {
            assert!(row.count(module) > 0 && row.count(&format!("{module}_waits")) > 0, "{module}");
        }
        let used = row.groups.iter().map(|group| {
            let sum: f64 = group.used.iter().copied().map(f64::from).sum();
            assert!(group.idle_s > 0.0 && group.idle_s < row.driven_s, "{}", group.name);
            sum / 100.0 * 0.1 * group.cores as f64
        });
        // Percents are rounded down, and what has not ended is not counted.
        let used: f64 = used.sum();
        assert!((0.9..1.05).contains(&(used / row.busy_s)), "{used} s of {} s", row.busy_s);
        let meanwhile = row.sends_busy_s / row.sends_s;
        assert!((0.99..row.cores as f64).contains(&meanwhile), "{meanwhile} cores");
        assert!(row.sends_busy_s < row.busy_s);
    }
}
