//! The result in a terminal: what each policy came to, and what its reaction is made of.

use super::{Drive, DriveRun, PartKind};
use crate::text::clean;

/// The tables, at most 120 columns.
pub fn table(run: &DriveRun) -> String {
    let mut text = format!("{}: {}\n", clean(&run.scenario), clean(&run.about));
    text += &format!("Stack {}\n", clean(&run.stack));
    for mark in &run.marks {
        text += &format!("! {}\n", clean(mark));
    }
    text += &format!(
        "\nFrame to command, milliseconds; what happened\n{:<12} {:>7} {:>5} {:>7} {:>7} {:>7} {:>7} {:>10} {:>10} {:>9}\n",
        "policy",
        "frames",
        "fast",
        "mean",
        "median",
        "p99",
        "max",
        "collision",
        "RSS viol.",
        "progress"
    );
    for drive in &run.drives {
        text += &row(drive);
    }
    let reactions = run.drives.iter().filter_map(reaction).collect::<String>();
    if !reactions.is_empty() {
        text += &format!("\nReaction to the hazard, milliseconds\n{:<12}", "policy");
        for kind in PartKind::ALL {
            text += &format!(" {:>12}", kind.name());
        }
        text += &format!(" {:>9}\n{reactions}", "whole");
    }
    text
}

fn row(drive: &Drive) -> String {
    let latency = drive.latency_ms();
    let number = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.1}"));
    // Below a hundred samples the p99 is the largest one, and says nothing of its own.
    let p99 = latency.filter(|_| drive.frames.len() >= 100).map(|latency| latency.p99);
    format!(
        "{:<12} {:>7} {:>5} {:>7} {:>7} {:>7} {:>7} {:>10} {:>10} {:>9}\n",
        clean(&drive.policy),
        drive.frames.len(),
        drive.frames.iter().filter(|frame| frame.fast).count(),
        number(drive.mean_ms()),
        number(latency.map(|latency| latency.p50)),
        number(p99),
        number(latency.map(|latency| latency.max)),
        drive.collision.as_ref().map_or("none".into(), |hit| format!("at {:.2} s", hit.at_s)),
        format!("{:.2} s", drive.violation_s),
        format!("{:.0} m", drive.progress_m),
    )
}

fn reaction(drive: &Drive) -> Option<String> {
    let reaction = drive.reaction.as_ref()?;
    let mut text = format!("{:<12}", clean(&drive.policy));
    for kind in PartKind::ALL {
        text += &format!(" {:>12.1}", reaction.of(kind) as f64 / 1e6);
    }
    Some(text + &format!(" {:>9.1}\n", reaction.seconds() * 1e3))
}
