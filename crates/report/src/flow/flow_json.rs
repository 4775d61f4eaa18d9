//! The result for machines.

use super::{CriticalPath, FlowDrive, FlowRun, ModuleTimes, middleware};
use serde_json::{Value, json};
use stats::Summary;

/// The result as JSON, without the spans; docs/drive.md says what it has.
pub fn json(run: &FlowRun) -> Value {
    json!({
        "schema": "keeptime.flow",
        "version": 1,
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
        "driven_s": drive.driven_s,
        "lost_events": drive.lost,
        "modules": drive.modules.iter().map(of_module).collect::<Vec<_>>(),
        "middleware": middleware::json(drive),
        "frame_to_command_ms": times(&drive.frames_ms),
        "frame_middleware_ms": times(&drive.carried_ms),
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
        "took_ms": times(&module.took_ms),
        "waited_ms": times(&module.waited_ms),
    })
}

pub(super) fn times(samples: &[f64]) -> Value {
    let quantiles = |all: Summary| json!({"count": samples.len(), "p50": all.p50, "p99": all.p99, "max": all.max});
    Summary::of(samples).map_or(Value::Null, quantiles)
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
        "from_s": path.from_s,
        "total_ns": path.total_ns(),
        "sensor_ns": path.sensor_ns,
        "confirm_ns": path.confirm_ns,
        "module_ns": path.module_ns(),
        "bubble_ns": path.bubble_ns(),
        "middleware_ns": path.middleware_ns(),
        "steps": path.steps.iter().map(step).collect::<Vec<_>>(),
    })
}
