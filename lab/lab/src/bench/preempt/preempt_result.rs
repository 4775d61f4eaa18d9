//! Results of the measurement of preemption, and their text.

use serde_json::{Value, json};
use stats::Summary;
use terminal::table::Table;

/// The published table, in microseconds: mean, maximum, standard deviation (PAAM, Table I, on an
/// NVIDIA Jetson AGX Xavier).
const PUBLISHED: [(&str, [f64; 3]); 4] = [
    ("matmul", [41.21, 116.48, 14.16]),
    ("reduce", [39.55, 129.18, 26.65]),
    ("vecadd", [22.78, 77.85, 15.13]),
    ("histogram", [14.95, 72.92, 10.77]),
];

/// Results of a way and kernel.
pub(super) struct Case {
    way: &'static str,
    kernel: &'static str,
    /// 0: the kernel is one slice, or the device's own affair.
    blocks_per_slice: u32,
    alone_ns: Vec<f64>,
    /// Delays of the urgent kernel, where the other one ran.
    pub delays_ns: Vec<f64>,
    /// Iterations in which it did not.
    missed: usize,
}

/// Mean, standard deviation and order statistics.
#[derive(serde::Serialize)]
struct Figures {
    mean_ns: f64,
    stdev_ns: f64,
    p50_ns: f64,
    p99_ns: f64,
    max_ns: f64,
}

impl Case {
    /// Case without any iteration.
    pub(super) fn new(way: &'static str, kernel: &'static str, blocks_per_slice: u32) -> Case {
        let (alone_ns, delays_ns) = (Vec::new(), Vec::new());
        Case { way, kernel, blocks_per_slice, alone_ns, delays_ns, missed: 0 }
    }

    /// Adds an iteration.
    pub(super) fn add(&mut self, alone_ns: u64, behind_ns: u64, met: bool) {
        self.alone_ns.push(alone_ns as f64);
        match met {
            true => self.delays_ns.push(behind_ns as f64 - alone_ns as f64),
            false => self.missed += 1,
        }
    }

    /// The way, the kernel, the delay and the iterations.
    fn cells(&self) -> [String; 10] {
        let us = |ns: f64| format!("{:.1}", ns / 1000.0);
        let alone = Figures::of(&self.alone_ns).map_or(f64::NAN, |figures| figures.p50_ns);
        let delay = Figures::of(&self.delays_ns);
        let column =
            |pick: fn(&Figures) -> f64| delay.as_ref().map_or("-".into(), |delay| us(pick(delay)));
        [
            self.way.to_owned(),
            self.kernel.to_owned(),
            us(alone),
            column(|delay| delay.mean_ns),
            column(|delay| delay.stdev_ns),
            column(|delay| delay.p50_ns),
            column(|delay| delay.p99_ns),
            column(|delay| delay.max_ns),
            self.delays_ns.len().to_string(),
            self.missed.to_string(),
        ]
    }

    /// Name of the measurement, in one line.
    pub(super) fn words(&self) -> String {
        let cells = HEADING.iter().zip(self.cells());
        cells.map(|(name, cell)| format!("{name} {cell}")).collect::<Vec<_>>().join(", ")
    }

    fn json(&self) -> Value {
        json!({
            "way": self.way,
            "kernel": self.kernel,
            "blocks_per_slice": (self.blocks_per_slice > 0).then_some(self.blocks_per_slice),
            "met": self.delays_ns.len(),
            "missed": self.missed,
            "alone": Figures::of(&self.alone_ns),
            "delay": Figures::of(&self.delays_ns),
        })
    }
}

impl Figures {
    fn of(samples: &[f64]) -> Option<Figures> {
        let Summary { p50, p99, max, .. } = Summary::of(samples)?;
        let count = samples.len() as f64;
        let mean_ns = samples.iter().sum::<f64>() / count;
        let squares = samples.iter().map(|ns| (ns - mean_ns).powi(2));
        let stdev_ns = (squares.sum::<f64>() / count).sqrt();
        Some(Figures { mean_ns, stdev_ns, p50_ns: p50, p99_ns: p99, max_ns: max })
    }
}

/// All cases.
pub(super) struct Findings {
    pub device: String,
    pub cases: Vec<Case>,
    /// Ways that the device does not have, and why.
    pub missing: Vec<(&'static str, String)>,
}

/// Names of the cells of a case.
const HEADING: [&str; 10] =
    ["way", "kernel", "alone p50", "mean", "stdev", "p50", "p99", "max", "met", "missed"];

impl Findings {
    /// Report as text.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&HEADING, &[2, 3, 4, 5, 6, 7, 8, 9]);
        self.cases.iter().for_each(|case| table.row(case.cells()));
        let mut text = format!(
            "Delay of an urgent kernel by a less urgent one on {}, microseconds\n\n{}",
            self.device,
            table.render()
        );
        let slices = self.cases.iter().filter(|case| case.blocks_per_slice > 0);
        let slices: Vec<String> =
            slices.map(|case| format!("{} {}", case.kernel, case.blocks_per_slice)).collect();
        if !slices.is_empty() {
            text += &format!("\nsliced: thread blocks of a slice: {}\n", slices.join(", "));
        }
        for (way, why) in &self.missing {
            text += &format!("\n{way}: not measured: {why}\n");
        }
        text += "\nPAAM, Table I (streams of one context, Jetson AGX Xavier): ";
        let row = |(kernel, [mean, max, deviation]): &(&str, [f64; 3])| {
            format!("{kernel} mean {mean}, max {max}, stdev {deviation}")
        };
        text + &PUBLISHED.iter().map(row).collect::<Vec<_>>().join("; ") + "\n"
    }

    /// Report as JSON.
    pub(super) fn json(&self) -> Value {
        let missing = self.missing.iter().map(|(way, why)| json!({"way": way, "why": why}));
        json!({
            "device": self.device,
            "cases": self.cases.iter().map(Case::json).collect::<Vec<_>>(),
            "missing": missing.collect::<Vec<_>>(),
        })
    }
}
