//! Conclusion of a drive, in sentences.

use super::{Drive, DriveRun, PartKind};

/// The result in sentences: first whether it came to a crash, then why it reacted when it did.
pub(super) fn sentences(run: &DriveRun) -> Vec<String> {
    let mut said: Vec<String> = run.drives.iter().map(|drive| end(run, drive)).collect();
    said.extend(run.drives.iter().filter_map(|drive| reaction(run, drive)));
    said
}

fn end(run: &DriveRun, drive: &Drive) -> String {
    let policy = &drive.policy;
    match &drive.collision {
        None => format!("{policy}: no collision in {:.1} s.", drive.duration_s),
        Some(hit) => {
            let kind = drive.bodies.iter().find(|body| body.id == hit.body);
            let kind = kind.map_or("something", |body| body.kind.as_str());
            let hazard = run.hazard.as_ref().is_some_and(|hazard| hazard.body == hit.body);
            let whom = if hazard { "the hazard" } else { "another one" };
            let (side, speed, at) = (&hit.side, hit.speed * 3.6, hit.at_s);
            format!(
                "{policy}: collision with a {kind}, {whom}, at {at:.2} s, on the {side}, at {speed:.0} km/h."
            )
        }
    }
}

fn reaction(run: &DriveRun, drive: &Drive) -> Option<String> {
    let hazard = run.hazard.as_ref()?;
    let Some(reaction) = &drive.reaction else {
        return Some(format!("{} did not react to the hazard.", drive.policy));
    };
    let ms = |ns: u64| format!("{:.0} ms", ns as f64 / 1e6);
    let parts: Vec<String> = PartKind::ALL
        .into_iter()
        .map(|kind| (kind, reaction.of(kind)))
        .filter(|(_, ns)| *ns > 0)
        .map(|(kind, ns)| format!("{} {}", ms(ns), kind.name()))
        .collect();
    let whole = ms((reaction.seconds() * 1e9).round() as u64);
    let allowed = match hazard.critical_s {
        Some(critical) => format!(" (at most {:.0} ms avoid the crash)", critical * 1e3),
        None => String::new(),
    };
    Some(format!("{} reacts in {whole}{allowed}: {}.", drive.policy, parts.join(", ")))
}
