//! Runs of the modules between the beginning of a hazard and the command that answers it.

use super::{Drive, DriveRun, PartKind, Reaction, Span};
use crate::{Error, page};
use minijinja::{Value, context};

const TEMPLATE: &str = "timeline.xml";
const WIDTH: f64 = 1_120.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 1_104.0;
const TOP: f64 = 40.0;
const ROW: f64 = 24.0;
/// Shown around the reaction, s.
const AROUND: f64 = 0.06;
/// Most blocks of one picture.
const MAX_DRAWN: usize = 4_000;

/// The picture of one reaction; none without one.
///
/// # Errors
/// [`Error::Template`].
pub(super) fn timeline(run: &DriveRun, drive: &Drive) -> Result<Option<String>, Error> {
    let (Some(hazard), Some(reaction)) = (&run.hazard, &drive.reaction) else { return Ok(None) };
    let (from, to) = shown_time(hazard.began_s, reaction, &drive.spans);
    let x = |at: f64| {
        let inside = at.clamp(from, to) - from;
        ((LEFT + inside / (to - from) * (RIGHT - LEFT)) * 10.0).round() / 10.0
    };
    let shown = |span: &&Span| span.start_s < to && span.end_s > from;
    let spans: Vec<&Span> = drive.spans.iter().filter(shown).take(MAX_DRAWN).collect();
    let mut modules: Vec<&str> = Vec::new();
    for span in &spans {
        if !modules.contains(&span.module.as_str()) {
            modules.push(&span.module);
        }
    }
    let row = |module: &str| {
        let index = modules.iter().position(|known| *known == module).unwrap_or(0);
        TOP + ROW * index as f64
    };
    let blocks: Vec<Value> = spans
        .iter()
        .map(|span| {
            let (start, end) = (x(span.start_s), x(span.end_s));
            let ms = (span.end_s - span.start_s) * 1e3;
            let mut said = format!("{}, frame {}: {ms:.2} ms", span.module, span.frame);
            for (is, words) in [
                (span.fast, ", fast path"),
                (span.guest, ", as a guest or ahead of time"),
                (span.cancelled, ", cancelled"),
                (span.critical, ", the reaction went through it"),
            ] {
                said += if is { words } else { "" };
            }
            context! {
                x => start,
                y => row(&span.module) + 4.0,
                width => ((end - start).max(0.8) * 10.0).round() / 10.0,
                critical => span.critical,
                fast => span.fast,
                guest => span.guest,
                cancelled => span.cancelled,
                said,
            }
        })
        .collect();
    let rows: Vec<Value> =
        modules.iter().map(|module| context! { name => *module, y => row(module) }).collect();
    let instants = [
        (hazard.began_s, "hazard"),
        (reaction.visible_s, "visible"),
        (reaction.acted_s, "command"),
    ];
    let instants: Vec<Value> = instants
        .into_iter()
        .filter(|(at, _)| *at >= from)
        .filter(|(at, words)| *words != "visible" || (at - hazard.began_s).abs() > 0.004)
        .map(|(at, words)| context! { x => x(at), words })
        .collect();
    let ticks: Vec<Value> = ticks(reaction.visible_s, from, to)
        .into_iter()
        .map(|(at, label)| context! { x => x(at), label })
        .collect();
    let bottom = TOP + ROW * modules.len() as f64;
    let content = context! {
        width => WIDTH, left => LEFT, right => RIGHT, top => TOP, bottom, row => ROW,
        rows, blocks, instants, ticks,
        parts => parts(drive, &x, bottom + 14.0),
        height => bottom + 104.0,
        about => name(drive, reaction),
    };
    page::render(TEMPLATE, include_str!("timeline.svg"), content).map(Some)
}

/// From the hazard, or from the first run that is known if that is later, to the command.
fn shown_time(hazard_s: f64, reaction: &Reaction, spans: &[Span]) -> (f64, f64) {
    let first = spans.iter().map(|span| span.start_s).fold(reaction.visible_s, f64::min);
    let from = hazard_s.min(reaction.visible_s).max(first);
    (from - AROUND, reaction.acted_s + AROUND)
}

/// The accessible name: the parts of the reaction.
fn name(drive: &Drive, reaction: &Reaction) -> String {
    let parts =
        reaction.parts.iter().map(|part| format!("{} {:.1} ms", part.name, part.ns as f64 / 1e6));
    let whole = reaction.seconds() * 1e3;
    let parts = parts.collect::<Vec<_>>().join(", ");
    format!(
        "Runs of the modules under {} around the reaction of {whole:.1} ms: {parts}",
        drive.policy
    )
}

/// The parts of the reaction, one after the other.
fn parts(drive: &Drive, x: &impl Fn(f64) -> f64, y: f64) -> Vec<Value> {
    let Some(reaction) = &drive.reaction else { return Vec::new() };
    let mut at = reaction.visible_s;
    let mut shown = Vec::new();
    for part in &reaction.parts {
        let end = at + part.ns as f64 / 1e9;
        let (start, stop) = (x(at), x(end));
        let label =
            if stop - start > 6.2 * part.name.chars().count() as f64 { &part.name } else { "" };
        let kind = match part.kind {
            PartKind::Sensor => "sensor",
            PartKind::Confirm => "confirm",
            PartKind::Module => "module",
            PartKind::Bubble => "bubble",
        };
        let said = format!("{}: {:.2} ms", part.name, part.ns as f64 / 1e6);
        let width = (stop - start).max(0.5);
        shown.push(context! { x => start, y, width, kind, label, said });
        at = end;
    }
    shown
}

/// Round times after the first sight, ms, far enough apart for their labels.
fn ticks(zero: f64, from: f64, to: f64) -> Vec<(f64, String)> {
    let step_ms = [5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        .into_iter()
        .find(|step| (to - from) * 1e3 / step <= 16.0)
        .unwrap_or(5000.0);
    let first = ((from - zero) * 1e3 / step_ms).ceil() as i64;
    let last = ((to - zero) * 1e3 / step_ms).floor() as i64;
    let tick = |index: i64| {
        let ms = index as f64 * step_ms;
        (zero + ms / 1e3, format!("{ms:.0}"))
    };
    (first..=last).map(tick).collect()
}
