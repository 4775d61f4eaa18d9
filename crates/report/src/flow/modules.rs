//! Times of each module, and the parts of the time of the worst frames.

use super::middleware::{SEEN_NS, TopicTimes};
use super::{CriticalPath, FlowDrive, FlowRun, ms, sentences};
use crate::document::{Cell, Chart, Document, Fact, Section, Series, Shape, Table, facts};
use stats::Summary;

/// Conclusion and tables.
pub fn document(run: &FlowRun) -> Document {
    let lost = run.drives.iter().filter(|drive| drive.lost > 0).map(|drive| {
        let (policy, lost) = (&drive.policy, drive.lost);
        format!("{policy}: {lost} events are lost: the oldest runs are not here")
    });
    Document {
        kind: "keeptime report".into(),
        title: run.scenario.clone(),
        conclusion: sentences(run),
        command: run.command.clone(),
        facts: facts([("Stack", &run.stack), ("Trace", &run.file)]),
        marks: lost.collect(),
        sections: run.drives.iter().map(section).collect(),
        notes: vec![
            "A critical path leads from the capture of a frame (of a reaction: from when the hazard \
             could be seen) to the first command that was computed from it; its parts sum to it \
             (COLA, equation 2). The middleware makes bytes and values of messages in the modules."
                .into(),
        ],
        ..Document::default()
    }
}

fn section(drive: &FlowDrive) -> Section {
    let frames = drive.frames_ms.len();
    let mut tables = vec![modules(drive)];
    let topics: Vec<&TopicTimes> = drive.topics.iter().filter(|topic| topic.costs()).collect();
    if !topics.is_empty() {
        tables.push(middleware(&topics));
    }
    tables.extend([paths(drive), steps(drive)]);
    let driven = drive.driven_s;
    let about = format!("{driven:.1} s, {frames} frames that led to a command. Milliseconds.");
    let section = Section::new(&drive.policy, about).charts([bars(drive)]);
    Section { tables, facts: counts(drive), ..section }
}

fn counts(drive: &FlowDrive) -> Vec<Fact> {
    let FlowDrive { ahead, guests, overruns, .. } = drive;
    let ahead = format!("used {} of {} times", ahead.0, ahead.1);
    let guests = format!(
        "let in {} of {} times; hosts found a guest on their core {overruns} times",
        guests.0, guests.1
    );
    facts([("Work ahead", &ahead), ("Guests", &guests)])
}

/// Median, 99th percentile and maximum of times in milliseconds.
fn times(samples: &[f64], digits: usize) -> [Cell; 3] {
    let summary = Summary::of(samples);
    let cell = |pick: fn(Summary) -> f64| {
        Cell::from(summary.map(|summary| format!("{:.digits$}", pick(summary))))
    };
    [cell(|all| all.p50), cell(|all| all.p99), cell(|all| all.max)]
}

fn modules(drive: &FlowDrive) -> Table {
    let head =
        "module|runs|fast|guest|cancelled|with a core, p50|p99|max|waited, p50|p99|max".split('|');
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for module in &drive.modules {
        let counts = [module.took_ms.len(), module.fast, module.guests, module.cancelled];
        let mut row: Vec<Cell> = vec![module.name.as_str().into()];
        row.extend(counts.map(Cell::from));
        row.extend(times(&module.took_ms, 1));
        row.extend(times(&module.waited_ms, 1));
        rows.push(row);
    }
    let frames =
        [("frame to command", &drive.frames_ms, 0.0), ("  middleware", &drive.carried_ms, 0.05)];
    for (name, samples, least) in frames {
        if least == 0.0 || samples.iter().any(|ms| *ms >= least) {
            let mut row: Vec<Cell> = vec![name.into(), samples.len().into()];
            row.extend([Cell::default(), Cell::default(), Cell::default()]);
            row.extend(times(samples, 1));
            rows.push(row);
        }
    }
    Table::new("", head, rows)
}

fn middleware(topics: &[&TopicTimes]) -> Table {
    let head = "middleware|hops|bytes, mean|serialise, p50|p99|max|hop, p50|p99|max|deserialise, p50|p99|max".split('|');
    let row = |topic: &&TopicTimes| {
        let bytes = topic.mean_bytes().map(|bytes| format!("{bytes:.0}"));
        let mut row: Vec<Cell> =
            vec![topic.topic.as_str().into(), topic.hop_ms.len().into(), bytes.into()];
        for part in [&topic.serialise_ms, &topic.hop_ms, &topic.deserialise_ms] {
            row.extend(times(part, 3));
        }
        row
    };
    Table::new("", head, topics.iter().map(row))
}

/// The critical paths of a drive with their names: that of the reaction first.
fn named(drive: &FlowDrive) -> impl Iterator<Item = (String, &CriticalPath)> {
    let reaction = drive.reaction.iter().map(|path| ("reaction, frame", path));
    let worst = drive.worst.iter().map(|path| ("frame", path));
    reaction.chain(worst).map(|(what, path)| (format!("{what} {}", path.frame), path))
}

fn paths(drive: &FlowDrive) -> Table {
    let rows = named(drive).map(|(name, path)| {
        let parts = [path.total_ns(), path.sensor_ns, path.module_ns(), path.bubble_ns()];
        let from = format!("{:.3}", path.from_s);
        [name, from].into_iter().chain(parts.map(ms)).collect::<Vec<String>>()
    });
    let head = "critical path|from, s|whole|came in|modules|waiting".split('|');
    Table::new("Critical paths", head, rows)
}

fn steps(drive: &FlowDrive) -> Table {
    let rows = named(drive).flat_map(|(name, path)| {
        path.steps.iter().map(move |step| {
            let carried = [step.hop_ns, step.deserialise_ns, step.serialise_ns];
            let seen = carried.into_iter().any(|ns| ns >= SEEN_NS);
            let own = [step.waited_ns, step.ran_ns, step.preempted_ns].map(ms);
            let carried = carried.map(|ns| if seen { ms(ns) } else { String::new() });
            let names = [name.clone(), step.module.clone()];
            names.into_iter().chain(own).chain(carried).collect::<Vec<String>>()
        })
    });
    let head = "critical path|module|waited|ran|preempted|hop|deserialise|serialise".split('|');
    Table::new("Critical paths, run by run", head, rows).left(&[1])
}

/// A bar for each critical path, made of its parts by their kind.
fn bars(drive: &FlowDrive) -> Chart {
    type Nanoseconds = fn(&CriticalPath) -> u64;
    let parts: [(&str, Nanoseconds); 4] = [
        ("until the frame came in", |path| path.sensor_ns),
        ("modules", CriticalPath::code_ns),
        ("middleware in modules", |path| path.module_ns().saturating_sub(path.code_ns())),
        ("waiting", CriticalPath::bubble_ns),
    ];
    let series = parts.map(|(name, ns)| {
        Series::at_places(name, named(drive).map(|(path, of)| (path, Some(ns(of) as f64 / 1e6))))
    });
    Chart::new("Critical paths", ("path", "time, ms"), Shape::Stacked, series)
}
