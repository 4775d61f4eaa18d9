//! The result as one page. The template is `page.html`, beside this file.

use super::conclusion::sentences;
use super::{Drive, DriveRun, PartKind, scene, timeline};
use crate::Error;
use crate::page::render;
use crate::theme::SERIES;
use minijinja::context;
use minijinja::value::Value;

/// One self-contained page: what happened under each policy, and why it reacted when it did.
///
/// # Errors
/// [`Error::Template`], which does not depend on the results.
pub fn html(run: &DriveRun) -> Result<String, Error> {
    let drives = run.drives.iter().zip(SERIES.iter().cycle());
    let drives = drives
        .map(|(drive, ink)| of_drive(run, drive, ink.name))
        .collect::<Result<Vec<Value>, Error>>()?;
    let content = context! {
        scenario => run.scenario.as_str(),
        about => run.about.as_str(),
        stack => run.stack.as_str(),
        command => run.command.as_str(),
        date => run.date.as_str(),
        machine => run.machine.clone(),
        marks => run.marks.clone(),
        hazard => run.hazard.as_ref().map(|hazard| hazard.about.clone()),
        conclusion => sentences(run),
        drives,
    };
    render("drive.html", include_str!("page.html"), content)
}

fn of_drive(run: &DriveRun, drive: &Drive, ink: &str) -> Result<Value, Error> {
    let latency = drive.latency_ms();
    let number = |ms: Option<f64>| ms.map(|ms| format!("{ms:.1}"));
    let p99 = latency.filter(|_| drive.frames.len() >= 100).map(|latency| latency.p99);
    let parts = drive.reaction.as_ref().map(|reaction| {
        let of = |kind: PartKind| format!("{:.1}", reaction.of(kind) as f64 / 1e6);
        PartKind::ALL.map(of).to_vec()
    });
    let (from, to) = scene::window(run, drive);
    Ok(context! {
        ink,
        policy => drive.policy.as_str(),
        collision => drive.collision.as_ref().map(|hit| format!("{:.2} s", hit.at_s)),
        frames => drive.frames.len(),
        fast => drive.frames.iter().filter(|frame| frame.fast).count(),
        mean => number(drive.mean_ms()),
        median => number(latency.map(|latency| latency.p50)),
        p99 => number(p99),
        max => number(latency.map(|latency| latency.max)),
        violation => format!("{:.2}", drive.violation_s),
        progress => format!("{:.0}", drive.progress_m),
        parts,
        reaction => drive.reaction.as_ref().map(|reaction| format!("{:.1}", reaction.seconds() * 1e3)),
        from => format!("{from:.1}"),
        to => format!("{to:.1}"),
        scene => scene::scene(run, drive)?.map(Value::from_safe_string),
        timeline => timeline::timeline(run, drive)?.map(Value::from_safe_string),
    })
}
