//! The result for machines.

use super::{CriticalPath, FlowDrive, FlowRun, ModuleTimes, middleware};
use serde_json::{Value, json};
use stats::Summary;

/// The result as JSON, without the spans; docs/drive.md says what it has.
pub fn json(run: &FlowRun) -> Value {
    json!({
        "schema": "keeptime.flow",
        "version": 2,
        "file": run.file,
        "command": run.command,
        "scenario": run.scenario,
        "stack": run.stack,
        "drives": run.drives.iter().map(of_drive).collect::<Vec<_>>(),
    })
}

fn of_drive(drive: &FlowDrive) -> Value {
    json!({
        "policy": drive.policy,
        "driven_ns": ns(drive.driven_s * 1e3),
        "lost_events": drive.lost,
        "modules": drive.modules.iter().map(of_module).collect::<Vec<_>>(),
        "middleware": middleware::json(drive),
        "frame_to_command_ns": times_ns(&drive.frames_ms),
        "frame_middleware_ns": times_ns(&drive.carried_ms),
        "unanswered_frames": drive.unanswered,
        "ahead": {"used": drive.ahead.0, "asked": drive.ahead.1},
        "guests": {"admitted": drive.guests.0, "asked": drive.guests.1, "overruns": drive.overruns},
        "reaction": drive.reaction.as_ref().map(of_path),
        "worst": drive.worst.iter().map(of_path).collect::<Vec<_>>(),
    })
}

fn of_module(module: &ModuleTimes) -> Value {
    json!({
        "module": module.name,
        "runs": module.took_ms.len(),
        "fast": module.fast,
        "guests": module.guests,
        "cancelled": module.cancelled,
        "took_ns": times_ns(&module.took_ms),
        "waited_ns": times_ns(&module.waited_ms),
    })
}

/// Quantiles of times in ms, as nanoseconds.
pub(super) fn times_ns(samples_ms: &[f64]) -> Value {
    let quantiles = |all: Summary| {
        json!({
            "count": samples_ms.len(),
            "p50": ns(all.p50),
            "p99": ns(all.p99),
            "max": ns(all.max),
        })
    };
    Summary::of(samples_ms).map_or(Value::Null, quantiles)
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

fn of_path(path: &CriticalPath) -> Value {
    let step = |step: &super::PathStep| {
        json!({
            "module": step.module,
            "waited_ns": step.waited_ns,
            "hop_ns": step.hop_ns,
            "ran_ns": step.ran_ns,
            "deserialise_ns": step.deserialise_ns,
            "serialise_ns": step.serialise_ns,
            "preempted_ns": step.preempted_ns,
        })
    };
    json!({
        "frame": path.frame,
        "from_ns": ns(path.from_s * 1e3),
        "total_ns": path.total_ns(),
        "sensor_ns": path.sensor_ns,
        "confirm_ns": path.confirm_ns,
        "module_ns": path.module_ns(),
        "bubble_ns": path.bubble_ns(),
        "middleware_ns": path.middleware_ns(),
        "steps": path.steps.iter().map(step).collect::<Vec<_>>(),
    })
}
