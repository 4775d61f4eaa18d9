//! Output of a measured program.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;

/// Readings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// True if all threads that should have a real-time priority had it.
    pub fifo: bool,
    /// Cost of the clock's two readings around each sample; taken off from calls, not from waits.
    pub clock_ns: u64,
    pub measured_ns: f64,
    /// Context switches, of their own will or not, in the measured time.
    pub switches: u64,
    /// Histograms by their names: locked, unlocked, read_locked, read_unlocked.
    pub histograms: BTreeMap<String, Histogram>,
}

impl Reading {
    /// Reads a program's output.
    pub(crate) fn parse(output: &str) -> anyhow::Result<Reading> {
        let mut numbers = BTreeMap::new();
        let mut histograms: BTreeMap<String, Histogram> = BTreeMap::new();
        for line in output.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let values: Vec<u64> = words
                .map(str::parse)
                .collect::<Result<_, _>>()
                .with_context(|| format!("the program prints {line:?}; expected numbers"))?;
            match (name.strip_suffix("_total"), values.as_slice()) {
                (Some(name), &[count, sum_ns, max_ns, operations]) => {
                    let total = Histogram { count, sum_ns, max_ns, operations, ..<_>::default() };
                    histograms.insert(name.to_owned(), total);
                }
                (None, &[upper, samples]) => {
                    let histogram = histograms.get_mut(name);
                    let histogram = histogram.with_context(|| format!("no total of {name}"))?;
                    histogram.buckets.insert(upper, samples);
                }
                (None, &[number]) => {
                    numbers.insert(name, number);
                }
                _ => anyhow::bail!("the program prints {line:?}"),
            }
        }
        for (name, histogram) in &histograms {
            let samples: u64 = histogram.buckets.values().sum();
            let count = histogram.count;
            anyhow::ensure!(samples == count, "{name}: {samples} samples; expected {count}");
        }
        let number = |name: &str| {
            numbers.get(name).copied().with_context(|| format!("the program prints no {name}"))
        };
        Ok(Reading {
            fifo: number("fifo")? == 1,
            clock_ns: number("clock_ns")?,
            measured_ns: number("measured_ns")? as f64,
            switches: number("switches")?,
            histograms,
        })
    }

    /// Acquisitions of all kinds in the measured time.
    pub(crate) fn operations(&self) -> u64 {
        self.histograms.values().map(|histogram| histogram.operations).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "fifo 1\nclock_ns 20\nmeasured_ns 1000\nswitches 7\n\
        locked_total 3 60 30 5\nlocked 10 1\nlocked 20 1\nlocked 30 1\nread_locked_total 0 0 0 0\n";

    #[test]
    fn output_is_read() {
        let reading = Reading::parse(OUTPUT).unwrap();
        assert_eq!((reading.clock_ns, reading.measured_ns), (20, 1000.0));
        assert_eq!((reading.operations(), reading.switches, reading.fifo), (5, 7, true));
        let locked = &reading.histograms["locked"];
        assert_eq!((locked.sum_ns, locked.max_ns, locked.permille(500)), (60, 30, Some(20)));
        assert_eq!(reading.histograms["read_locked"], Histogram::default());
    }

    #[test]
    fn output_that_ends_half_way_is_refused() {
        let error = |output: &str| Reading::parse(output).unwrap_err().to_string();
        let short = OUTPUT.replace("locked 30 1\n", "");
        assert_eq!(error(&short), "locked: 2 samples; expected 3");
        assert_eq!(error(&OUTPUT.replace("switches 7\n", "")), "the program prints no switches");
        assert!(error("Segmentation fault\n").contains("expected numbers"));
        assert_eq!(error("locked 1 1\n"), "no total of locked");
    }
}
