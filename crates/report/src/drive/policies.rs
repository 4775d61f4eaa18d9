//! The events under each policy, and the reason for which the vehicle reacted when it did.

use super::conclusion::sentences;
use super::{Drive, DriveRun, PartKind, drive_timeline, scene};
use crate::Error;
use crate::document::{Cell, Class, Document, Picture, Section, Table, facts};

/// Conclusion and tables.
pub fn document(run: &DriveRun) -> Document {
    let hazard = run.hazard.as_ref().map_or("", |hazard| &hazard.about);
    let mut facts = facts([("Stack", &run.stack), ("Hazard", hazard)]);
    facts.extend(run.machine.iter().cloned());
    let head =
        "policy|collision|frames|fast|mean|median|p99|max|RSS violated, s|progress, m".split('|');
    let rows = run.drives.iter().enumerate().map(|(ink, drive)| row(drive, ink));
    let about = "From a sensor frame to its command, milliseconds; fast are the frames for which a \
                 module took its fast path. RSS violated: the seconds in which the vehicle was \
                 closer than RSS allows.";
    let mut sections = vec![Section::new("Each policy", about).table(Table::new("", head, rows))];
    if run.hazard.is_some() {
        let kinds = PartKind::ALL.map(PartKind::name);
        let head = ["policy"].into_iter().chain(kinds).chain(["whole"]);
        let rows = run.drives.iter().enumerate().map(|(ink, drive)| reaction(drive, ink));
        let about = "Milliseconds from the first moment at which a sensor could see the hazard to \
                     the command that answers it (COLA, equation 2).";
        sections.push(Section::new("The reaction", about).table(Table::new("", head, rows)));
    }
    Document {
        kind: "keeptime-lab drive".into(),
        title: run.scenario.clone(),
        about: run.about.clone(),
        conclusion: sentences(run),
        command: run.command.clone(),
        date: run.date.clone(),
        facts,
        marks: run.marks.clone(),
        sections,
        notes: vec![
            "Blue is the vehicle that is driven, orange the hazard. The modules' times are those \
             that their computation took, on the cores that the first lines name; a bar of the \
             reaction is part of one module's run, or of the time in which nothing was computed \
             for it."
                .into(),
        ],
    }
}

/// One self-contained page, with a moving picture of each drive and the modules' work around the
/// reaction.
///
/// # Errors
/// [`Error::Template`], which does not depend on the results.
pub fn html(run: &DriveRun) -> Result<String, Error> {
    let mut document = document(run);
    for drive in &run.drives {
        let (from, to) = scene::window(run, drive);
        let drawings = [scene::scene(run, drive)?, drive_timeline::timeline(run, drive)?];
        let drawings = drawings.into_iter().flatten();
        let pictures = drawings.map(|svg| Picture { title: String::new(), svg }).collect();
        let about = format!(
            "Seconds {from:.1} to {to:.1} in real time, repeated; a red rear marks the vehicle \
             after its reaction. The picture can be paused and stepped."
        );
        let section = Section::new(&drive.policy, about);
        document.sections.push(Section { pictures, ..section });
    }
    document.html()
}

fn row(drive: &Drive, ink: usize) -> [Cell; 10] {
    let latency = drive.latency_ms();
    let number = |ms: Option<f64>| Cell::from(ms.map(|ms| format!("{ms:.1}")));
    // Below a hundred samples the p99 is the largest one, and says nothing of its own.
    let p99 = latency.filter(|_| drive.frames.len() >= 100).map(|latency| latency.p99);
    [
        Class::Series(ink).cell(&drive.policy),
        match &drive.collision {
            Some(hit) => Class::Bad.cell(format!("at {:.2} s", hit.at_s)),
            None => Class::Good.cell("none"),
        },
        drive.frames.len().into(),
        drive.frames.iter().filter(|frame| frame.fast).count().into(),
        number(drive.mean_ms()),
        number(latency.map(|latency| latency.p50)),
        number(p99),
        number(latency.map(|latency| latency.max)),
        format!("{:.2}", drive.violation_s).into(),
        format!("{:.0}", drive.progress_m).into(),
    ]
}

fn reaction(drive: &Drive, ink: usize) -> Vec<Cell> {
    let reaction = drive.reaction.as_ref();
    let ms = |ms: Option<f64>| Cell::from(ms.map(|ms| format!("{ms:.1}")));
    let parts = PartKind::ALL.map(|kind| reaction.map(|one| one.of(kind) as f64 / 1e6));
    let whole = reaction.map(|reaction| reaction.seconds() * 1e3);
    let name = Class::Series(ink).cell(&drive.policy);
    std::iter::once(name).chain(parts.into_iter().chain([whole]).map(ms)).collect()
}
