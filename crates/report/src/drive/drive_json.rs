//! The result for machines.

use super::{Drive, DriveRun, PartKind};
use serde_json::{Value, json};

/// The result as JSON, without the paths of the bodies; docs/drive.md says what it has.
pub fn json(run: &DriveRun) -> Value {
    json!({
        "schema": "keeptime.drive",
        "version": 1,
        "command": run.command,
        "date": run.date,
        "machine": Value::from_iter(run.machine.clone()),
        "scenario": run.scenario,
        "stack": run.stack,
        "marks": run.marks,
        "hazard": run.hazard,
        "drives": run.drives.iter().map(of_drive).collect::<Vec<_>>(),
    })
}

fn of_drive(drive: &Drive) -> Value {
    let latency = drive.latency_ms().map(|latency| {
        json!({
            "frames": drive.frames.len(),
            "fast": drive.frames.iter().filter(|frame| frame.fast).count(),
            "mean": drive.mean_ms(), "median": latency.p50, "p99": latency.p99, "max": latency.max,
        })
    });
    let reaction = drive.reaction.as_ref().map(|reaction| {
        let sums = PartKind::ALL.map(|kind| (kind.name(), reaction.of(kind)));
        json!({
            "visible_s": reaction.visible_s,
            "acted_s": reaction.acted_s,
            "reaction_s": reaction.seconds(),
            "parts": reaction.parts,
            "sums_ns": Value::from_iter(sums),
        })
    });
    json!({
        "policy": drive.policy,
        "duration_s": drive.duration_s,
        "collision": drive.collision,
        "reaction": reaction,
        "latency_ms": latency,
        "rss_violation_s": drive.violation_s,
        "rss_violation_by_s": Value::from_iter(drive.violation_by.clone()),
        "rss_violation_aggressive_s": drive.violation_aggressive_s,
        "progress_m": drive.progress_m,
    })
}
