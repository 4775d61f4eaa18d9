//! Film of a drive: the paths of all bodies, and the work of the modules.

use std::collections::{BTreeMap, HashSet};

use dataflow::trace::{Class, Reaction as Way, RunEnd as End};
use driving::drive::DriveOutcome;
use driving::runs::{Run, runs};
use report::drive::{Collision, Drive, Frame, Part, PartKind, Path, Reaction, Span};
use world::{Kind, Side, World};

/// Steps of the world from one picture to the next: 0.1 s.
const EVERY: u64 = 10;
/// Spans are kept this long before a hazard begins and after the reaction to it, ns.
const AROUND_NS: u64 = 500_000_000;

/// Paths of all bodies, recorded during the drive.
#[derive(Default)]
pub(super) struct Film {
    paths: BTreeMap<u32, Path>,
}

impl Film {
    /// Takes a picture of the world.
    pub(super) fn take(&mut self, world: &World) {
        let last = world.ended() || !world.collisions().is_empty();
        if !world.steps().is_multiple_of(EVERY) && !last {
            return;
        }
        for body in world.bodies() {
            let path = self.paths.entry(body.id).or_insert_with(|| Path {
                id: body.id,
                kind: kind(body.kind).to_owned(),
                length: body.length,
                width: body.width,
                poses: Vec::new(),
            });
            let [x, y] = body.pose.position.to_array();
            path.poses.push([world.time(), x, y, body.pose.heading]);
        }
    }

    /// Returns the drive as the report shows it.
    pub(super) fn develop(self, policy: String, outcome: &DriveOutcome) -> Drive {
        let runs = runs(&outcome.events);
        let collision = outcome.collisions.first().map(|hit| Collision {
            at_s: hit.time,
            body: hit.body,
            side: side(hit.side).to_owned(),
            speed: hit.ego_speed,
            other_speed: hit.body_speed,
        });
        let reaction = outcome.reaction.as_ref();
        Drive {
            policy,
            duration_s: outcome.driven,
            bodies: self.paths.into_values().collect(),
            collision,
            reaction: reaction.map(|way| parts(way, outcome)),
            frames: frames(outcome, &runs),
            spans: spans(outcome, &runs, reaction),
            violation_s: outcome.violations.seconds(),
            violation_by: outcome
                .violations
                .causes()
                .map(|(name, s)| (name.to_owned(), s))
                .collect(),
            violation_aggressive_s: outcome.aggressive.seconds(),
            progress_m: outcome.progress,
        }
    }
}

/// A kind in a word.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Car => "car",
        Kind::Truck => "lorry",
        Kind::Cyclist => "cyclist",
        Kind::Pedestrian => "pedestrian",
        Kind::Obstacle => "standing obstacle",
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Front => "front",
        Side::Rear => "rear",
        Side::Left => "left",
        Side::Right => "right",
    }
}

fn frames(outcome: &DriveOutcome, runs: &[Run]) -> Vec<Frame> {
    let fast = runs.iter().filter(|run| run.path == dataflow::Path::Fast);
    let fast: HashSet<u64> = fast.map(|run| run.frame).collect();
    let frame = |frame: &driving::drive::Frame| Frame {
        captured_s: frame.captured,
        latency_ms: frame.latency * 1e3,
        fast: fast.contains(&frame.number),
    };
    outcome.frames.iter().map(frame).collect()
}

/// The terms of the reaction in their order, which sum to it.
fn parts(way: &Way, outcome: &DriveOutcome) -> Reaction {
    let mut parts = Vec::new();
    let mut part = |kind, name: String, ns| {
        if ns > 0 {
            parts.push(Part { kind, name, ns });
        }
    };
    part(PartKind::Sensor, "until the next scan".to_owned(), way.sensor_ns - way.confirm_ns);
    part(PartKind::Confirm, "further scans".to_owned(), way.confirm_ns);
    for step in &way.steps {
        let module = &outcome.names.modules[step.module.index()];
        part(PartKind::Bubble, format!("before {module}"), step.waited_ns);
        let code_ns = step.module_ns.saturating_sub(step.deserialise_ns + step.serialise_ns);
        part(PartKind::Module, format!("deserialising for {module}"), step.deserialise_ns);
        part(PartKind::Module, module.clone(), code_ns);
        part(PartKind::Module, format!("serialising in {module}"), step.serialise_ns);
        part(PartKind::Bubble, format!("inside {module}"), step.preempted_ns);
    }
    Reaction { visible_s: way.hazard_ns as f64 / 1e9, acted_s: way.command_ns as f64 / 1e9, parts }
}

fn spans(outcome: &DriveOutcome, runs: &[Run], reaction: Option<&Way>) -> Vec<Span> {
    let Some(way) = reaction else { return Vec::new() };
    let from_ns = way.hazard_ns.saturating_sub(AROUND_NS);
    let to_ns = way.command_ns + AROUND_NS;
    let critical: HashSet<u64> = way.steps.iter().map(|step| step.job).collect();
    runs.iter()
        .filter_map(|run| {
            let module = outcome.names.modules.get(run.module?)?;
            (run.start_ns < to_ns && run.end_ns > from_ns).then(|| Span {
                module: module.clone(),
                frame: run.frame,
                start_s: run.start_ns as f64 / 1e9,
                end_s: run.end_ns as f64 / 1e9,
                fast: run.path == dataflow::Path::Fast,
                cancelled: run.outcome == End::Cancelled,
                guest: run.class != Class::Host,
                critical: critical.contains(&run.job),
            })
        })
        .collect()
}
