//! Results of the measurement of preemption, and their text.

use serde_json::json;

/// The published table, in microseconds: mean, maximum, standard deviation (PAAM, Table I, on an
/// NVIDIA Jetson AGX Xavier).
const PUBLISHED: [(&str, [f64; 3]); 4] = [
    ("matmul", [41.21, 116.48, 14.16]),
    ("reduce", [39.55, 129.18, 26.65]),
    ("vecadd", [22.78, 77.85, 15.13]),
    ("histogram", [14.95, 72.92, 10.77]),
];

/// One way and kernel.
pub struct Case {
    way: &'static str,
    kernel: &'static str,
    /// 0: the kernel is one slice, or the device's own affair.
    blocks_per_slice: u32,
    alone_ns: Vec<f64>,
    /// By how much the urgent kernel took longer, where the other one ran.
    pub delays_ns: Vec<f64>,
    /// Iterations in which it did not.
    missed: usize,
}

/// Mean, standard deviation and order statistics, in nanoseconds.
struct Figures {
    mean: f64,
    deviation: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Case {
    /// Without any iteration.
    pub fn new(way: &'static str, kernel: &'static str, blocks_per_slice: u32) -> Case {
        let (alone_ns, delays_ns) = (Vec::new(), Vec::new());
        Case { way, kernel, blocks_per_slice, alone_ns, delays_ns, missed: 0 }
    }

    /// Adds an iteration.
    pub fn add(&mut self, alone_ns: u64, behind_ns: u64, met: bool) {
        self.alone_ns.push(alone_ns as f64);
        match met {
            true => self.delays_ns.push(behind_ns as f64 - alone_ns as f64),
            false => self.missed += 1,
        }
    }

    /// For people, a line below the [`heading`].
    pub fn row(&self) -> String {
        let us = |ns: f64| format!("{:.1}", ns / 1000.0);
        let alone = Figures::of(&self.alone_ns).map_or(f64::NAN, |figures| figures.p50);
        let delay = Figures::of(&self.delays_ns);
        let column = |pick: fn(&Figures) -> f64| delay.as_ref().map_or("-".into(), |d| us(pick(d)));
        format!(
            "{:<10} {:<10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}\n",
            self.way,
            self.kernel,
            us(alone),
            column(|d| d.mean),
            column(|d| d.deviation),
            column(|d| d.p50),
            column(|d| d.p99),
            column(|d| d.max),
            self.delays_ns.len(),
            self.missed
        )
    }
}

impl Figures {
    fn of(samples: &[f64]) -> Option<Figures> {
        let summary = stats::Summary::of(samples)?;
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let variance =
            samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        let deviation = variance.sqrt();
        Some(Figures { mean, deviation, p50: summary.p50, p99: summary.p99, max: summary.max })
    }
}

/// All cases.
pub struct Findings {
    pub device: String,
    pub cases: Vec<Case>,
    /// Ways that the device does not have, and why.
    pub missing: Vec<(&'static str, String)>,
}

/// Returns the heading above the rows of the cases.
pub fn heading(device: &str) -> String {
    format!(
        "How much longer an urgent kernel takes behind a less urgent one on {device}, \
         microseconds\n\n\
         {:<10} {:<10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}\n",
        "way", "kernel", "alone p50", "mean", "stdev", "p50", "p99", "max", "met", "missed"
    )
}

impl Findings {
    /// Returns the remarks below the rows of the cases.
    pub fn remarks(&self) -> String {
        let mut text = String::new();
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

    /// For machines.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
    pub fn json(&self) -> anyhow::Result<String> {
        let figures = |samples: &[f64]| {
            Figures::of(samples).map(|f| {
                json!({"mean_ns": f.mean, "stdev_ns": f.deviation, "p50_ns": f.p50,
                       "p99_ns": f.p99, "max_ns": f.max})
            })
        };
        let cases = self.cases.iter().map(|case| {
            let blocks = (case.blocks_per_slice > 0).then_some(case.blocks_per_slice);
            json!({"way": case.way, "kernel": case.kernel, "blocks_per_slice": blocks, "met": case.delays_ns.len(),
                   "missed": case.missed, "alone": figures(&case.alone_ns),
                   "delay": figures(&case.delays_ns)})
        });
        let missing = self.missing.iter().map(|(way, why)| json!({"way": way, "why": why}));
        let all = json!({"device": self.device, "cases": cases.collect::<Vec<_>>(),
                         "missing": missing.collect::<Vec<_>>()});
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}
