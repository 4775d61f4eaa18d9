//! The result for machines.

use super::{Collision, Drive, DriveRun, Hazard, Part, PartKind, Reaction};
use serde_json::{Value, json};
use stats::Summary;

/// The result as JSON, without the paths of the bodies; docs/drive.md says what it has.
pub fn json(run: &DriveRun) -> Value {
    json!({
        "command": run.command,
        "date": run.date,
        "machine": Value::from_iter(run.machine.clone()),
        "scenario": run.scenario,
        "stack": run.stack,
        "marks": run.marks,
        "hazard": run.hazard.as_ref().map(of_hazard),
        "drives": run.drives.iter().map(of_drive).collect::<Vec<_>>(),
    })
}

/// Whole nanoseconds of seconds.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn of_hazard(hazard: &Hazard) -> Value {
    json!({
        "about": hazard.about,
        "body": hazard.body,
        "began_ns": ns(hazard.began_s),
        "critical_ns": hazard.critical_s.map(ns),
    })
}

fn of_drive(drive: &Drive) -> Value {
    let violation_by = drive.violation_by.iter().map(|(cause, s)| (cause.as_str(), ns(*s)));
    json!({
        "policy": drive.policy,
        "duration_ns": ns(drive.duration_s),
        "collision": drive.collision.as_ref().map(of_collision),
        "reaction": drive.reaction.as_ref().map(of_reaction),
        "fast_frames": drive.frames.iter().filter(|frame| frame.fast).count(),
        "latency_ns": drive.latency_ms().map(|latency| of_latency(drive, latency)),
        "rss_violation_ns": ns(drive.violation_s),
        "rss_violation_by_ns": Value::from_iter(violation_by),
        "rss_violation_aggressive_ns": ns(drive.violation_aggressive_s),
        "progress_m": drive.progress_m,
    })
}

fn of_collision(hit: &Collision) -> Value {
    json!({
        "at_ns": ns(hit.at_s),
        "body": hit.body,
        "side": hit.side,
        "speed": hit.speed,
        "other_speed": hit.other_speed,
    })
}

fn of_reaction(reaction: &Reaction) -> Value {
    let sums = PartKind::ALL.map(|kind| (kind.name(), reaction.of(kind)));
    let part = |part: &Part| json!({ "kind": part.kind, "name": part.name, "took_ns": part.ns });
    json!({
        "visible_ns": ns(reaction.visible_s),
        "acted_ns": ns(reaction.acted_s),
        "reaction_ns": ns(reaction.seconds()),
        "parts": reaction.parts.iter().map(part).collect::<Vec<_>>(),
        "sums_ns": Value::from_iter(sums),
    })
}

fn of_latency(drive: &Drive, latency: Summary) -> Value {
    json!({
        "count": drive.frames.len(),
        "mean": drive.mean_ms().map(|ms| ns(ms / 1e3)),
        "p50": ns(latency.p50 / 1e3),
        "p99": ns(latency.p99 / 1e3),
        "max": ns(latency.max / 1e3),
    })
}
