//! The result in a terminal.

use super::{CriticalPath, FlowDrive, FlowRun, headline, middleware, ms};
use crate::text::clean;
use stats::Summary;

/// The tables, at most 100 columns.
pub fn text(run: &FlowRun) -> String {
    let mut text = format!("{}\n\n", clean(&headline(run)));
    text += &format!("{}, {}\n", clean(&run.scenario), clean(&run.stack));
    for drive in &run.drives {
        text += &of_drive(drive);
    }
    text
}

fn of_drive(drive: &FlowDrive) -> String {
    let mut text = format!("\n{}, {:.1} s\n", clean(&drive.policy), drive.driven_s);
    if drive.lost > 0 {
        text += &format!("! {} events are lost: the oldest runs are not here\n", drive.lost);
    }
    text += &format!(
        "{:<14} {:>6} {:>6} {:>6} {:>6} {:>25}  {:>25}\n",
        "milliseconds",
        "runs",
        "fast",
        "guest",
        "cancel",
        "with a core: p50 p99 max",
        "waited: p50 p99 max"
    );
    for module in &drive.modules {
        text += &format!(
            "{:<14} {:>6} {:>6} {:>6} {:>6} {:>25}  {:>25}\n",
            clean(&module.name),
            module.took_ms.len(),
            module.fast,
            module.guests,
            module.cancelled,
            times(&module.took_ms),
            times(&module.waited_ms)
        );
    }
    text += &format!(
        "{:<14} {:>6} {:>53}\n",
        "frame, command",
        drive.frames_ms.len(),
        times(&drive.frames_ms)
    );
    if drive.carried_ms.iter().any(|ms| *ms >= 0.05) {
        let count = drive.carried_ms.len();
        text += &format!("{:<14} {count:>6} {:>53}\n", "  middleware", times(&drive.carried_ms));
    }
    text += &middleware::text(drive);
    text += &format!(
        "work ahead used {} of {} times; guests let in {} of {}; hosts found a guest {} times\n",
        drive.ahead.0, drive.ahead.1, drive.guests.0, drive.guests.1, drive.overruns
    );
    if let Some(reaction) = &drive.reaction {
        text += &path("reaction", reaction);
    }
    for worst in &drive.worst {
        text += &path("frame", worst);
    }
    text
}

fn times(samples: &[f64]) -> String {
    Summary::of(samples)
        .map_or("-".to_owned(), |all| format!("{:>7.1} {:>7.1} {:>7.1}", all.p50, all.p99, all.max))
}

fn path(what: &str, path: &CriticalPath) -> String {
    let mut text = format!(
        "{what} {} from {:.3} s: {} ms = {} until it came in + {} in modules + {} waiting\n",
        path.frame,
        path.from_s,
        ms(path.total_ns()),
        ms(path.sensor_ns),
        ms(path.module_ns()),
        ms(path.bubble_ns())
    );
    for step in &path.steps {
        text += &format!(
            "    {:<14} waited {:>7}  ran {:>7}  preempted {:>7}{}\n",
            clean(&step.module),
            ms(step.waited_ns),
            ms(step.ran_ns),
            ms(step.preempted_ns),
            middleware::step(step)
        );
    }
    text
}
