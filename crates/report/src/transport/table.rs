//! The result in a terminal: latencies, then the mean by step, then the overhead beside document
//! 003's.

use super::{PAAM_US, STEP, TransportRun, size, us, way};
use crate::text::clean;

/// The tables, at most 130 columns.
pub fn table(run: &TransportRun) -> String {
    let mut text = format!(
        "One request to {}; between hosts each frame is delayed {} us, {} % get lost\n",
        clean(&run.device),
        us(run.delay_ns as f64),
        run.loss * 100.0
    );
    for mark in &run.marks {
        text += &format!("! {}\n", clean(mark));
    }
    text += &latencies(run);
    text += &steps(run);
    text += &overheads(run);
    text
}

fn latencies(run: &TransportRun) -> String {
    let mut text = format!(
        "\nWhole, microseconds\n{:<18} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
        "way", "input", "answers", "first", "median", "p99", "max", "repeated", "unanswered"
    );
    for cell in &run.cells {
        let latency = cell.latency();
        let number = |ns: Option<f64>| ns.map_or("-".into(), us);
        // Below a hundred samples the p99 is the largest one, and says nothing of its own.
        let p99 = latency.filter(|_| cell.samples.len() >= 100).map(|latency| latency.p99);
        text += &format!(
            "{:<18} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
            way(&cell.way),
            size(cell.bytes),
            cell.samples.len(),
            number(cell.warm_up_ns.first().copied()),
            number(latency.map(|latency| latency.p50)),
            number(p99),
            number(latency.map(|latency| latency.max)),
            cell.repeated,
            cell.unanswered
        );
    }
    text + "first: the first request of the warm-up, which is in none of the other numbers.\n"
}

fn steps(run: &TransportRun) -> String {
    let mut text = format!("\nMean by step, microseconds\n{:<18} {:>8}", "way", "input");
    for (name, _) in STEP {
        text += &format!(" {name:>8}");
    }
    text += &format!(" {:>11} {:>9}\n", "unexplained", "whole");
    for cell in &run.cells {
        let Some(shares) = cell.shares() else { continue };
        text += &format!("{:<18} {:>8}", way(&cell.way), size(cell.bytes));
        for ns in shares.mean.steps_ns {
            text += &format!(" {:>8}", us(ns));
        }
        let (rest, whole) = (us(shares.mean.unexplained_ns()), us(shares.mean.whole_ns));
        text += &format!(" {rest:>11} {whole:>9}\n");
    }
    text
}

fn overheads(run: &TransportRun) -> String {
    let row = |name: &str, size: &str, numbers: [String; 3]| {
        let [best, mean, worst] = numbers;
        format!("{name:<18} {size:>8} {best:>10} {mean:>10} {worst:>10}\n")
    };
    let names = ["best", "mean", "worst"].map(String::from);
    let mut text = "\nOverhead: the whole without the device's work, microseconds\n".to_owned();
    text += &row("way", "input", names);
    for cell in &run.cells {
        let Some(shares) = cell.shares() else { continue };
        let numbers =
            [shares.best, shares.mean, shares.worst].map(|sample| us(sample.overhead_ns()));
        text += &row(way(&cell.way), &size(cell.bytes), numbers);
    }
    let [best, worst] = PAAM_US.map(|us| format!("{us:.0}"));
    text += &row("PAAM", "72 B", [best, "-".into(), worst]);
    text + "PAAM: control messages over DDS, data in shared memory, on an NVIDIA Jetson AGX \
            Xavier; its Fig. 12 gives no numbers by step.\n"
}
