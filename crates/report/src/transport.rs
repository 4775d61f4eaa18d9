//! Cost of a request to an accelerator service by the way it takes: shared memory, DDS on one
//! machine, DDS between hosts; and by step, as in PAAM's Fig. 12.
//!
//! [`TransportRun`] is filled by `keeptime-lab bench transport`. [`document`] shows it to people,
//! [`json`](json()) to machines.

use crate::document::{
    Cell as TableCell, Chart, Class, Document, Limit, Row, Section, Series, Shape, Table,
};
use crate::number::{bytes, us};
use serde_json::{Value, json};
use stats::Summary;

/// Number of steps of a request.
pub const STEPS: usize = 9;

/// The steps of a request, in order: a name, and what it is.
pub const STEP: [(&str, &str); STEPS] = [
    ("send", "the client writes or serialises its data and hands the request over"),
    ("there", "DDS carries it to the gateway; repetitions of what was lost are in here"),
    (
        "gateway",
        "it waits for the gateway's thread, which copies the data and hands it to the server",
    ),
    ("wake", "until the server has seen it"),
    ("queue", "until the device begins: queue, scheduling, launch"),
    ("device", "the device works"),
    ("answer", "the server notices the end and answers; the gateway wakes and copies the output"),
    ("back", "the answer is serialised, and DDS carries it to the client"),
    ("take", "the client wakes and has the output"),
];

/// Overhead per request that PAAM (section V-C) reports: best and worst, in microseconds.
pub const PAAM_US: [f64; 2] = [198.0, 391.0];

/// The step of the device, which is no overhead.
pub const DEVICE: usize = 5;

/// One request: when it was answered, and what each step took. Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time from before the client wrote its data until it had the output.
    pub whole_ns: f64,
    /// The steps, as in [`STEP`]; 0 for those that the way does not have.
    pub steps_ns: [f64; STEPS],
}

impl Sample {
    /// Time that no step accounts for. Negative where time stamps of steps overlap.
    pub fn unexplained_ns(&self) -> f64 {
        self.whole_ns - self.steps_ns.iter().sum::<f64>()
    }

    /// The steps and what is unexplained.
    fn parts_ns(&self) -> [f64; STEPS + 1] {
        std::array::from_fn(|part| {
            self.steps_ns.get(part).copied().unwrap_or_else(|| self.unexplained_ns())
        })
    }

    /// The whole without the device's work.
    pub fn overhead_ns(&self) -> f64 {
        self.whole_ns - self.steps_ns[DEVICE]
    }
}

/// One way with one size of payload.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// The way: `shared`, `loopback` or `hosts`.
    pub way: String,
    /// Bytes of input; the output has half of that.
    pub bytes: u64,
    /// The requests that were answered.
    pub samples: Vec<Sample>,
    /// The whole of the requests before them, in order, in nanoseconds.
    pub warm_up_ns: Vec<f64>,
    /// Number of times that the client sent a request again.
    pub repeated: u64,
    /// Requests without an answer in time.
    pub unanswered: u64,
}

/// The requests of a cell that are shown by step.
#[derive(Debug, Clone)]
pub struct Shares {
    /// The one with the least overhead.
    pub best: Sample,
    /// The mean of all, step by step.
    pub mean: Sample,
    /// The one with the most overhead.
    pub worst: Sample,
}

impl Cell {
    /// Order statistics of the whole, in nanoseconds; none without samples.
    pub fn latency(&self) -> Option<Summary> {
        let whole: Vec<f64> = self.samples.iter().map(|sample| sample.whole_ns).collect();
        Summary::of(&whole)
    }

    /// The request with the least overhead, the mean, and the one with the most, as Fig. 12 has
    /// them; none without samples. The steps of each and what is unexplained sum to its whole.
    pub fn shares(&self) -> Option<Shares> {
        let by_overhead = |a: &&Sample, b: &&Sample| a.overhead_ns().total_cmp(&b.overhead_ns());
        let best = *self.samples.iter().min_by(by_overhead)?;
        let worst = *self.samples.iter().max_by(by_overhead)?;
        let mean = |of: &dyn Fn(&Sample) -> f64| {
            self.samples.iter().map(of).sum::<f64>() / self.samples.len() as f64
        };
        let mean = Sample {
            whole_ns: mean(&|sample| sample.whole_ns),
            steps_ns: std::array::from_fn(|step| mean(&|sample| sample.steps_ns[step])),
        };
        Some(Shares { best, mean, worst })
    }
}

/// A whole measurement.
#[derive(Debug, Clone, Default)]
pub struct TransportRun {
    /// The command that made this result.
    pub command: String,
    /// Date of the measurement.
    pub date: String,
    /// Processor, kernel and the like: name and value.
    pub machine: Vec<(String, String)>,
    /// The accelerator.
    pub device: String,
    /// Delay of each frame between the hosts, in nanoseconds.
    pub delay_ns: u64,
    /// Share of the frames that get lost between the hosts.
    pub loss: f64,
    /// Notes on the validity of the results.
    pub marks: Vec<String>,
    /// Ways and sizes.
    pub cells: Vec<Cell>,
}

/// A way in words.
fn way(name: &str) -> &str {
    match name {
        "shared" => "shared memory",
        "loopback" => "DDS, one machine",
        "hosts" => "DDS, two hosts",
        other => other,
    }
}

/// The result as JSON; docs/bench-transport.md says what it has.
pub fn json(run: &TransportRun) -> Value {
    let [best, worst] = PAAM_US.map(|us| (us * 1e3) as u64);
    json!({
        "command": run.command,
        "date": run.date,
        "machine": Value::from_iter(run.machine.clone()),
        "device": run.device,
        "delay_ns": run.delay_ns,
        "loss": run.loss,
        "marks": run.marks,
        "steps": STEP.map(|(name, _)| name),
        "paam_overhead_ns": { "best": best, "worst": worst },
        "cells": run.cells.iter().map(cell_json).collect::<Vec<_>>(),
    })
}

fn cell_json(cell: &Cell) -> Value {
    let latency = cell.latency().map(|latency| {
        json!({ "min": latency.min, "median": latency.p50, "p99": latency.p99, "max": latency.max })
    });
    let shares = cell.shares().map(|Shares { best, mean, worst }| {
        let [best, mean, worst] = [best, mean, worst].map(|sample| sample_json(&sample));
        json!({ "best": best, "mean": mean, "worst": worst })
    });
    json!({
        "way": cell.way,
        "bytes": cell.bytes,
        "samples": cell.samples.len(),
        "warm_up_ns": cell.warm_up_ns,
        "repeated": cell.repeated,
        "unanswered": cell.unanswered,
        "latency_ns": latency,
        "requests": shares,
    })
}

fn sample_json(sample: &Sample) -> Value {
    let names = STEP.iter().map(|(name, _)| *name).chain(["unexplained"]);
    json!({
        "whole_ns": sample.whole_ns,
        "overhead_ns": sample.overhead_ns(),
        "parts_ns": Value::from_iter(names.zip(sample.parts_ns())),
    })
}

/// The result as people read it: latencies, the steps of best, mean and worst request, and the
/// overhead beside PAAM's.
pub fn document(run: &TransportRun) -> Document {
    let delay = us(run.delay_ns as f64);
    Document {
        kind: "keeptime-lab bench transport".to_owned(),
        title: "Cost of a request by transport".to_owned(),
        about: format!(
            "One request to {}, from before the client writes its data until it has the output: \
             over shared memory, over DDS on one machine, and over DDS between two hosts, each frame \
             delayed {delay} us and {} % of them lost.",
            run.device,
            run.loss * 100.0
        ),
        command: run.command.clone(),
        date: run.date.clone(),
        facts: run.machine.clone(),
        marks: run.marks.clone(),
        sections: vec![latencies(run), steps(run), overheads(run), meanings()],
        ..Document::default()
    }
}

fn names(cell: &Cell) -> [TableCell; 2] {
    [way(&cell.way).into(), bytes(cell.bytes).into()]
}

fn latencies(run: &TransportRun) -> Section {
    let row = |cell: &Cell| -> Row {
        let latency = cell.latency();
        // Below a hundred samples the p99 is the largest one, and says nothing of its own.
        let p99 = latency.filter(|_| cell.samples.len() >= 100).map(|latency| latency.p99);
        let first = cell.warm_up_ns.first().copied();
        let [median, max] = [latency.map(|it| it.p50), latency.map(|it| it.max)];
        let times = [first, median, p99, max].map(|ns| ns.map(us).into());
        let counts = [cell.repeated.into(), cell.unanswered.into()];
        let cells = names(cell).into_iter().chain([cell.samples.len().into()]);
        cells.chain(times).chain(counts).collect::<Vec<_>>().into()
    };
    let head = "way|input|answers|first|median|p99|max|repeated|unanswered".split('|');
    let about = "Microseconds. first: the first request of the warm-up, which is in none of the other \
                 numbers.";
    Section::new("Whole", about).table(Table::new("", head, run.cells.iter().map(row)))
}

fn steps(run: &TransportRun) -> Section {
    let mut sizes: Vec<u64> = run.cells.iter().map(|cell| cell.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let row = |cell: &Cell| {
        let mean = cell.shares()?.mean;
        let times = mean.parts_ns().into_iter().chain([mean.whole_ns]).map(|ns| us(ns).into());
        Some(names(cell).into_iter().chain(times).collect::<Vec<_>>())
    };
    let steps = STEP.iter().map(|(name, _)| *name);
    let head = ["way", "input"].into_iter().chain(steps).chain(["unexplained", "whole"]);
    let about = format!(
        "Microseconds. In the bars, best and worst are single requests, those with the least and the \
         most overhead; mean is that of all. The marks are the overheads of PAAM (Fig. 12), {:.0} us \
         best and {:.0} us worst, with control messages over DDS and data in shared memory; it gives \
         no numbers by step.",
        PAAM_US[0], PAAM_US[1]
    );
    Section::new("Mean by step", about)
        .charts(sizes.into_iter().map(|size| bars(run, size)))
        .table(Table::new("", head, run.cells.iter().filter_map(row)))
}

/// The steps of the best request, the mean and the worst one of each way with a size of input.
fn bars(run: &TransportRun, size: u64) -> Chart {
    let cells = run.cells.iter().filter(|cell| cell.bytes == size);
    let requests: Vec<(String, Sample)> = cells
        .filter_map(|cell| Some((way(&cell.way), cell.shares()?)))
        .flat_map(|(way, Shares { best, mean, worst })| {
            let requests = [("best", best), ("mean", mean), ("worst", worst)];
            requests.map(|(which, sample)| (format!("{way}, {which}"), sample))
        })
        .collect();
    let names = STEP.iter().map(|(name, _)| *name).chain(["unexplained"]);
    let series = names.enumerate().map(|(step, name)| {
        let times = requests.iter().map(|(request, sample)| {
            (request.clone(), Some(sample.parts_ns()[step].max(0.0) / 1e3))
        });
        Series::at_places(name, times)
    });
    let limit = |(name, at): (&str, f64)| Limit { name: name.to_owned(), at, class: Class::Bad };
    let title = format!("Input of {}", bytes(size));
    let limits = ["PAAM, best", "PAAM, worst"].into_iter().zip(PAAM_US).map(limit);
    let chart = Chart::new(title, ("request", "time, us"), Shape::Stacked, series);
    Chart { limits: limits.collect(), ..chart }
}

fn overheads(run: &TransportRun) -> Section {
    let row = |cell: &Cell| {
        let Shares { best, mean, worst } = cell.shares()?;
        let times = [best, mean, worst].map(|sample| us(sample.overhead_ns()).into());
        Some(names(cell).into_iter().chain(times).collect::<Vec<_>>())
    };
    let [best, worst] = PAAM_US.map(|us| format!("{us:.0}"));
    let paam = ["PAAM, NVIDIA Jetson AGX Xavier", "72 B", &best, "-", &worst].map(TableCell::from);
    let rows = run.cells.iter().filter_map(row).chain([paam.to_vec()]);
    Section::new("Overhead", "The whole without the device's work, microseconds.")
        .table(Table::new("", ["way", "input", "best", "mean", "worst"], rows))
}

fn meanings() -> Section {
    let unexplained = [("unexplained", "the whole without all of these")];
    let steps = STEP.into_iter().chain(unexplained);
    let facts = steps.map(|(name, about)| (name.to_owned(), about.to_owned()));
    Section { facts: facts.collect(), ..Section::new("Steps", "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(device: f64, rest: f64) -> Sample {
        let mut steps_ns = [0.0; STEPS];
        (steps_ns[0], steps_ns[DEVICE]) = (rest - 10.0, device);
        Sample { whole_ns: device + rest, steps_ns }
    }

    #[test]
    fn best_and_worst_are_by_overhead_and_sum_to_their_whole() {
        let samples = vec![sample(900.0, 50.0), sample(10.0, 300.0), sample(100.0, 60.0)];
        let cell = Cell { samples, ..Cell::default() };
        let shares = cell.shares().unwrap();
        assert_eq!((shares.best.whole_ns, shares.worst.whole_ns), (950.0, 310.0));
        assert!((shares.mean.whole_ns - 1420.0 / 3.0).abs() < 1e-9);
        for shown in [shares.best, shares.mean, shares.worst] {
            assert!((shown.unexplained_ns() - 10.0).abs() < 1e-9, "{shown:?}");
        }
        assert!(Cell::default().shares().is_none());
    }

    #[test]
    fn pages_hold_every_way_and_no_way_without_an_answer_breaks_them() {
        let samples = vec![sample(10.0, 300.0)];
        let full = Cell { way: "shared".into(), bytes: 64, samples, ..Cell::default() };
        let empty = Cell { way: "hosts".into(), bytes: 4096, unanswered: 3, ..Cell::default() };
        let run = TransportRun { cells: vec![full, empty], ..TransportRun::default() };
        let page = document(&run).html().unwrap();
        crate::whole::check(&page);
        let text = document(&run).text(130, false);
        for words in ["shared memory", "DDS, two hosts", "4 KiB", "198", "391", "unexplained"] {
            assert!(page.contains(words), "{words}");
            assert!(text.contains(words), "{words} in {text}");
        }
        assert!(json(&run)["cells"][1]["latency_ns"].is_null());
    }
}
