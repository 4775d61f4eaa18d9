//! Cost of a request to an accelerator service by the way it takes: shared memory, DDS on one
//! machine, DDS between hosts; and by step, as in PAAM's Fig. 12.
//!
//! [`TransportRun`] is filled by `keeptime-lab bench transport`. [`table`] shows it in a terminal,
//! [`json`](json()) to machines, [`html`](html()) as one page.

mod html;
mod json;
mod plot;
mod table;

pub use html::html;
pub use json::json;
pub use table::table;

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
    /// From before the client wrote its data until it had the output.
    pub whole_ns: f64,
    /// The steps, as in [`STEP`]; 0 for those that the way does not have.
    pub steps_ns: [f64; STEPS],
}

impl Sample {
    /// Time that no step accounts for. Negative where time stamps of steps overlap.
    pub fn unexplained_ns(&self) -> f64 {
        self.whole_ns - self.steps_ns.iter().sum::<f64>()
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

/// Bytes as a person writes them: `64 B`, `4 KiB`, `1 MiB`.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => {
            format!("{} MiB", bytes >> 20)
        }
        bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => {
            format!("{} KiB", bytes >> 10)
        }
        bytes => format!("{bytes} B"),
    }
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

fn us(ns: f64) -> String {
    // A value that rounds to zero has no sign.
    format!("{:.1}", (ns / 100.0).round() / 10.0 + 0.0)
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
        let page = html(&run).unwrap();
        for words in ["shared memory", "DDS, two hosts", "4 KiB", "198", "391", "unexplained"] {
            assert!(page.contains(words), "{words}");
            assert!(table(&run).contains(words), "{words} in the table");
        }
        assert!(json(&run)["cells"][1]["latency_ns"].is_null());
    }
}
