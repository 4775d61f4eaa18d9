//! The answer in one sentence for each drive.

use super::{CriticalPath, FlowDrive, FlowRun, ms};
use stats::Summary;

/// Longest way of each drive from a frame to a command, and the largest part of it.
pub(super) fn sentences(run: &FlowRun) -> Vec<String> {
    run.drives.iter().map(of_drive).collect()
}

fn of_drive(drive: &FlowDrive) -> String {
    let policy = &drive.policy;
    let (Some(worst), Some(all)) = (drive.worst.first(), Summary::of(&drive.frames_ms)) else {
        return format!("{policy}: no frame led to a command.");
    };
    format!(
        "{policy}: the slowest frame took {} ms until its command (the median {:.1} ms), {}.",
        ms(worst.total_ns()),
        all.p50,
        most(worst)
    )
}

/// The longest part of a path, in words.
fn most(path: &CriticalPath) -> String {
    let parts = path.steps.iter().flat_map(|step| {
        [
            (step.code_ns(), format!("in {}", step.module)),
            (step.deserialise_ns, format!("deserialising for {}", step.module)),
            (step.serialise_ns, format!("serialising in {}", step.module)),
            (step.waited_ns, format!("waiting for {}", step.module)),
            (step.preempted_ns, format!("preempted in {}", step.module)),
        ]
    });
    let longest = parts.chain([(path.sensor_ns, "before it came in".to_owned())]).max();
    longest.map_or(String::new(), |(ns, what)| format!("{} ms of it {what}", ms(ns)))
}
