//! A piece of one schedule as a picture: what every chain, core and bucket did when.
//!
//! The geometry is computed here, in units of a picture [`WIDTH`] wide; the template `gantt.svg`
//! beside this file draws it. A chain has a row with its releases (arrows up), its deadlines
//! (arrows down) and its jobs: pale from release to end, solid in the upper half while on a core,
//! in the lower half while on an accelerator. A core has a row, an accelerator one for each bucket
//! in use, pale while a request waits there.

use crate::analysis::Names;
use crate::number::{counted, time};
use crate::theme::{BAND, COLOURS, GRID, Ink, LIMIT, MUTED, PAPER, TEXT, series};
use crate::{Error, page};
use analysis::System;
use analysis::simulate::{Doing, Interval, Job, Request, Resource, Trace};
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

/// Most things that one picture shows.
pub const MAX_DRAWN: usize = 20_000;

const TEMPLATE: &str = "gantt.xml";
const WIDTH: f64 = 1_240.0;
const LEFT: f64 = 158.0;
const RIGHT: f64 = 1_222.0;
const TOP: f64 = 26.0;
/// Height of a row, and of a chain's row, which has arrows.
const ROW: f64 = 22.0;
const CHAIN_ROW: f64 = 34.0;
/// Space above the first row of a group.
const GAP: f64 = 26.0;
/// About the width of a letter on a block, and the most letters of a label at the left.
const LETTER: f64 = 6.1;
const MAX_LABEL: usize = 19;

/// Part of a schedule that is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Gantt<'t> {
    /// Names of accelerators, executors and chains.
    pub names: &'t Names,
    /// The system that was simulated.
    pub system: &'t System,
    /// All that happened.
    pub trace: &'t Trace,
    /// The first instant that is drawn.
    pub from_ns: u64,
    /// The last one; later than the first.
    pub to_ns: u64,
}

/// A rectangle with a colour, a kind, and a text that is shown under the pointer.
#[derive(Serialize)]
struct Block {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// Class of the template: `run`, `pale`, `spin`, `switch` or `late`.
    kind: &'static str,
    colour: usize,
    label: String,
    title: String,
}

/// A release or a deadline.
#[derive(Serialize)]
struct Arrow {
    x: f64,
    y: f64,
    kind: &'static str,
    title: String,
}

/// A row with its name at the left.
#[derive(Serialize)]
struct Row {
    y: f64,
    height: f64,
    name: String,
    note: String,
    /// Colour of the row's chain; none for cores and buckets.
    colour: Option<usize>,
    /// Heading above the row, where a group begins.
    group: Option<&'static str>,
}

/// The picture as SVG that needs nothing else.
///
/// # Errors
/// [`Error::Plot`] where more than [`MAX_DRAWN`] things happened between the two instants, and
/// [`Error::Template`].
pub fn gantt(gantt: &Gantt<'_>) -> Result<String, Error> {
    let drawing = Drawing::of(gantt);
    let drawn = drawing.blocks.len() + drawing.arrows.len();
    if drawn > MAX_DRAWN {
        let span = time(gantt.to_ns - gantt.from_ns);
        let message = format!("{drawn} things in {span}, expected at most {MAX_DRAWN}");
        return Err(Error::Plot { plot: "the schedule".to_owned(), message });
    }
    page::render(TEMPLATE, include_str!("gantt.svg"), drawing.content())
}

impl Gantt<'_> {
    /// The place of an instant, kept inside the picture.
    fn x(&self, ns: u64) -> f64 {
        let span = (self.to_ns - self.from_ns) as f64;
        let inside = ns.clamp(self.from_ns, self.to_ns) - self.from_ns;
        round(LEFT + inside as f64 / span * (RIGHT - LEFT))
    }

    fn shows(&self, start_ns: u64, end_ns: u64) -> bool {
        start_ns < self.to_ns && end_ns > self.from_ns
    }

    fn shows_instant(&self, ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&ns)
    }
}

struct Drawing<'g, 't> {
    gantt: &'g Gantt<'t>,
    rows: Vec<Row>,
    /// Vertical positions of the rows of each chain, core and bucket.
    chains: Vec<f64>,
    cores: Vec<(u32, f64)>,
    buckets: Vec<((usize, u32), f64)>,
    height: f64,
    blocks: Vec<Block>,
    arrows: Vec<Arrow>,
}

impl<'g, 't> Drawing<'g, 't> {
    fn of(gantt: &'g Gantt<'t>) -> Self {
        let mut drawing = Drawing {
            gantt,
            rows: Vec::new(),
            chains: Vec::new(),
            cores: Vec::new(),
            buckets: Vec::new(),
            height: TOP,
            blocks: Vec::new(),
            arrows: Vec::new(),
        };
        drawing.lay_out();
        drawing.jobs();
        drawing.waiting();
        drawing.intervals();
        drawing
    }

    /// Finds a place for every row.
    fn lay_out(&mut self) {
        let (system, names) = (self.gantt.system, self.gantt.names);
        for (i, chain) in system.chains.iter().enumerate() {
            let note = format!("priority {}", chain.priority);
            let group = (i == 0).then_some("chains");
            let place = self.row(CHAIN_ROW, group, &names.chains[i], note, Some(i % COLOURS));
            self.chains.push(place);
        }
        let mut cores: Vec<u32> = system.executors.iter().map(|executor| executor.core).collect();
        cores.sort_unstable();
        cores.dedup();
        for (i, core) in cores.into_iter().enumerate() {
            let executors: Vec<&str> = (0..system.executors.len())
                .filter(|executor| system.executors[*executor].core == core)
                .map(|executor| names.executors[executor].as_str())
                .collect();
            let group = (i == 0).then_some("cores");
            let place = self.row(ROW, group, &format!("core {core}"), executors.join(", "), None);
            self.cores.push((core, place));
        }
        for accelerator in 0..system.accelerators.len() {
            let users = system.chains.iter().filter(|chain| chain.uses(accelerator));
            let mut buckets: Vec<u32> = users.map(|chain| chain.buckets[accelerator]).collect();
            buckets.sort_unstable();
            buckets.dedup();
            for (i, bucket) in buckets.into_iter().rev().enumerate() {
                let group = (i == 0 && self.buckets.is_empty()).then_some("accelerators");
                let name = if i == 0 { names.accelerators[accelerator].as_str() } else { "" };
                let place = self.row(ROW, group, name, format!("bucket {bucket}"), None);
                self.buckets.push(((accelerator, bucket), place));
            }
        }
    }

    fn row(
        &mut self,
        height: f64,
        group: Option<&'static str>,
        name: &str,
        note: String,
        colour: Option<usize>,
    ) -> f64 {
        self.height += if group.is_some() { GAP } else { 0.0 };
        let y = self.height;
        // The note of a chain has a line of its own.
        let beside = if colour.is_some() { 0 } else { name.chars().count() };
        let note = shortened(&note, MAX_LABEL.saturating_sub(beside).max(6));
        self.rows.push(Row { y, height, name: shortened(name, MAX_LABEL), note, colour, group });
        self.height += height;
        y
    }

    fn block(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        (y, height): (f64, f64),
        (kind, colour): (&'static str, usize),
        (label, title): (String, String),
    ) {
        let x = self.gantt.x(start_ns);
        let width = round((self.gantt.x(end_ns) - x).max(0.6));
        let fits = label.chars().count() as f64 * LETTER + 4.0 <= width;
        let label = if fits { label } else { String::new() };
        let (y, height) = (round(y), round(height));
        self.blocks.push(Block { x, y, width, height, kind, colour, label, title });
    }

    fn arrow(&mut self, ns: u64, y: f64, kind: &'static str, title: String) {
        if self.gantt.shows_instant(ns) {
            self.arrows.push(Arrow { x: self.gantt.x(ns), y: round(y), kind, title });
        }
    }

    /// Releases, deadlines, and the pale bars of jobs.
    fn jobs(&mut self) {
        let Gantt { names, system, trace, .. } = *self.gantt;
        let mut before = vec![0; system.chains.len()];
        for job in &trace.jobs {
            let (name, y) = (&names.chains[job.chain], self.chains[job.chain]);
            let deadline_ns = job.nominal_ns + system.chains[job.chain].deadline_ns;
            let colour = job.chain % COLOURS;
            let number = job.job + 1;
            let at = instant(job.released_ns);
            self.arrow(job.released_ns, y, "release", format!("{name}: job {number} at {at}"));
            let kind = if job.end_ns > deadline_ns { "missed" } else { "deadline" };
            let at = instant(deadline_ns);
            self.arrow(deadline_ns, y, kind, format!("{name}: deadline of job {number} at {at}"));
            // A job that waits for the one before it is drawn from where that one ends.
            let start_ns =
                job.released_ns.max(std::mem::replace(&mut before[job.chain], job.end_ns));
            let bar = (y + CHAIN_ROW - 19.0, 16.0);
            let title = response_words(name, job);
            for (kind, start_ns) in [("pale", start_ns), ("late", start_ns.max(deadline_ns))] {
                if start_ns < job.end_ns && self.gantt.shows(start_ns, job.end_ns) {
                    let said = (String::new(), title.clone());
                    self.block((start_ns, job.end_ns), bar, (kind, colour), said);
                }
            }
        }
    }

    /// Requests from when they were made.
    fn waiting(&mut self) {
        let gantt = self.gantt;
        let shown = |request: &&Request| gantt.shows(request.asked_ns, request.end_ns);
        for request in gantt.trace.requests.iter().filter(shown) {
            let Some(y) = place(&self.buckets, (request.accelerator, request.bucket)) else {
                continue;
            };
            let name = &gantt.names.chains[request.chain];
            let title = format!("{name} waits in bucket {}", request.bucket);
            let colour = ("pale", request.chain % COLOURS);
            let bar = (y + 3.0, ROW - 6.0);
            self.block((request.asked_ns, request.end_ns), bar, colour, (String::new(), title));
        }
    }

    /// Draws the work of cores and accelerators, in their own rows and in those of the chains.
    fn intervals(&mut self) {
        let gantt = self.gantt;
        let shown = |interval: &&Interval| gantt.shows(interval.start_ns, interval.end_ns);
        for interval in gantt.trace.intervals.iter().filter(shown) {
            let time = (interval.start_ns, interval.end_ns);
            let title = title(interval, gantt.names);
            let kind = match interval.doing {
                Doing::Run => "run",
                Doing::Spin => "spin",
                Doing::Switch => "switch",
            };
            let look = (kind, interval.chain % COLOURS);
            let (row, half) = match interval.resource {
                Resource::Core(core) => (place(&self.cores, core), 19.0),
                Resource::Accelerator(accelerator) => {
                    let bucket = gantt.system.chains[interval.chain].buckets[accelerator];
                    (place(&self.buckets, (accelerator, bucket)), 11.0)
                }
            };
            if let Some(y) = row {
                let said = (gantt.names.chains[interval.chain].clone(), title.clone());
                self.block(time, (y + 3.0, ROW - 6.0), look, said);
            }
            let y = self.chains[interval.chain] + CHAIN_ROW - half;
            self.block(time, (y, 8.0), look, (String::new(), title));
        }
    }

    /// The accessible name: the time that is shown, and the jobs of each chain in it.
    fn name(&self) -> String {
        let Gantt { names, system, trace, from_ns, to_ns } = *self.gantt;
        let chain = |(chain, name): (usize, &String)| {
            let jobs = trace.jobs.iter().filter(|job| job.chain == chain);
            let jobs = jobs.filter(|job| self.gantt.shows(job.released_ns, job.end_ns));
            let deadline_ns = system.chains[chain].deadline_ns;
            let (all, late) = jobs.fold((0, 0), |(all, late), job| {
                (all + 1, late + u64::from(job.end_ns > job.nominal_ns.saturating_add(deadline_ns)))
            });
            format!("{name} {}, {late} late", counted(all, "job", "jobs"))
        };
        let chains: Vec<String> = names.chains.iter().enumerate().map(chain).collect();
        let (from, to) = (instant(from_ns), instant(to_ns));
        format!(
            "Schedule of chains, cores and accelerators from {from} to {to}: {}.",
            chains.join("; ")
        )
    }

    fn content(self) -> Value {
        let (unit, factor, ticks) = ticks(self.gantt.from_ns, self.gantt.to_ns);
        let ticks = ticks
            .into_iter()
            .map(|ns| context! { x => self.gantt.x(ns), label => decimal(ns, factor) });
        let colours =
            |ink: Ink| context! { name => ink.name, light => ink.light, dark => ink.dark };
        let inks = [TEXT, MUTED, GRID, BAND, PAPER, LIMIT].map(colours);
        context! {
            name => self.name(),
            inks => inks.to_vec(),
            series => (0..COLOURS).map(|place| colours(series(place))).collect::<Vec<_>>(),
            rows => Value::from(Serde(&self.rows)),
            blocks => Value::from(Serde(&self.blocks)),
            arrows => Value::from(Serde(&self.arrows)),
            ticks => ticks.collect::<Vec<_>>(),
            unit,
            width => WIDTH,
            left => LEFT,
            right => RIGHT,
            top => TOP,
            bottom => self.height,
            height => self.height + 76.0,
            chain_row => CHAIN_ROW,
        }
    }
}

fn response_words(name: &str, job: &Job) -> String {
    match job.end_ns {
        u64::MAX => format!("{name}, job {}: did not end", job.job + 1),
        end_ns => {
            let response = time(end_ns - job.nominal_ns);
            format!("{name}, job {}: responds in {response}", job.job + 1)
        }
    }
}

/// Text that appears when the pointer is on a block of a core or an accelerator.
fn title(interval: &Interval, names: &Names) -> String {
    let what = match (interval.doing, interval.segment) {
        (Doing::Switch, _) => "device switches".to_owned(),
        (Doing::Spin, _) => "spins".to_owned(),
        (Doing::Run, Some(segment)) if matches!(interval.resource, Resource::Accelerator(_)) => {
            format!("request {}", segment + 1)
        }
        (Doing::Run, _) => format!("on executor {}", names.executors[interval.executor]),
    };
    format!(
        "{}, job {}, callback {}, {what}: {} to {}",
        names.chains[interval.chain],
        interval.job + 1,
        interval.callback + 1,
        instant(interval.start_ns),
        instant(interval.end_ns)
    )
}

fn place<K: PartialEq + Copy>(places: &[(K, f64)], key: K) -> Option<f64> {
    places.iter().find(|(candidate, _)| *candidate == key).map(|(_, y)| *y)
}

/// An exact instant: `12.345 ms`.
fn instant(ns: u64) -> String {
    format!("{} ms", decimal(ns, 1_000_000))
}

/// `ns / factor` in decimal digits, without trailing zeros; the factor is a power of ten.
fn decimal(ns: u64, factor: u64) -> String {
    let digits = factor.ilog10() as usize;
    if digits == 0 {
        return ns.to_string();
    }
    let text = format!("{}.{:0digits$}", ns / factor, ns % factor);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Unit, its nanoseconds, and round instants between two others, far enough apart for labels.
fn ticks(from_ns: u64, to_ns: u64) -> (&'static str, u64, Vec<u64>) {
    let rough = ((to_ns - from_ns) / 14).max(1);
    let power = 10u64.pow(rough.ilog10());
    let step = [1, 2, 5, 10].map(|m| m * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10 * power);
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let large = units.into_iter().find(|(_, factor)| to_ns > 10 * factor && step >= *factor / 100);
    let (unit, factor) = large.unwrap_or(("ns", 1));
    let first = from_ns.div_ceil(step);
    (unit, factor, (first..=to_ns / step).map(|tick| tick * step).collect())
}

fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_in_one_unit() {
        let (unit, factor, found) = ticks(0, 240_000_000);
        assert_eq!((unit, factor, found.len()), ("ms", 1_000_000, 13));
        assert_eq!(decimal(found[1], factor), "20");
        let (unit, _, found) = ticks(7, 9);
        assert_eq!((unit, found), ("ns", vec![7, 8, 9]));
        assert_eq!(ticks(0, u64::MAX / 4).0, "s");
        assert_eq!(decimal(12_345_678, 1_000_000), "12.345678");
    }
}
