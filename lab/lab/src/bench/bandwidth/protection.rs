//! The regulator that a bench starts for itself, and the bench's own place among its holders.

use std::time::Duration;

use anyhow::Context;
use bandwidth::regulator::{Budget, Config, Hardware, Regulator, Statistics};
use bandwidth::{Hold, holders};

/// Regulation of the best-effort cores.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    /// The best-effort cores.
    pub cores: Vec<usize>,
    /// The period.
    pub period: Duration,
    /// The budget of each core.
    pub budget: Budget,
}

/// A budget, before it is known how this machine counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Wanted {
    /// A share of each period.
    Share(f64),
    /// Bytes a second, by counters of the processor.
    Bytes(u64),
}

impl Wanted {
    /// Parses a budget such as `5%` or `100MB/s`.
    pub(super) fn parse(text: &str) -> Result<Wanted, String> {
        let expected =
            || format!("found {text:?}, expected a share as in 5% or a rate as in 100MB/s");
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| expected())?;
            let fits = percent > 0.0 && percent <= 100.0;
            return if fits { Ok(Wanted::Share(percent / 100.0)) } else { Err(expected()) };
        }
        let rate = text.strip_suffix("MB/s").and_then(|rate| rate.trim().parse::<u32>().ok());
        match rate {
            Some(rate @ 1..) => Ok(Wanted::Bytes(u64::from(rate) * 1_000_000)),
            _ => Err(expected()),
        }
    }

    /// Budget in the form of the regulator, if this machine can count so.
    ///
    /// # Errors
    /// The processor's counters cannot be had, or cannot be believed.
    pub(super) fn budget(self, core: usize) -> anyhow::Result<Budget> {
        Ok(match self {
            Wanted::Share(share) => Budget::Share(share),
            Wanted::Bytes(per_second) => {
                let hardware = Hardware::of_this_machine();
                hardware.probe(core).context("a budget in MB/s needs the processor's counters")?;
                Budget::Bytes { hardware, per_second }
            }
        })
    }
}

impl Manner {
    /// Returns the counter and the amount of the budget, in words.
    pub(super) fn words(&self) -> (String, String) {
        match &self.budget {
            Budget::Share(share) => ("time".into(), format!("{} %", share * 100.0)),
            Budget::Events { event, per_period } => {
                (event.name().into(), format!("{per_period} {} a period", event.name()))
            }
            Budget::Bytes { hardware, per_second } => {
                (hardware.name.clone(), format!("{} MB/s", *per_second as f64 / 1e6))
            }
        }
    }
}

/// A regulator with one holder: this process.
pub(super) struct Protection {
    /// Hold by which this process takes the lock.
    pub hold: Hold,
    regulator: Regulator,
    _folder: tempfile::TempDir,
}

impl Protection {
    /// Starts a regulator with a door of its own.
    ///
    /// # Errors
    /// The regulator does not start, or its holder cannot attach to it.
    pub(super) fn start(manner: &Manner) -> anyhow::Result<Protection> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("bandwidth.sock");
        let Manner { cores, period, budget } = manner.clone();
        let mut config = Config::new(cores, budget);
        config.period = period;
        config.holders = holders::Config { socket: socket.clone(), ..holders::Config::default() };
        let regulator = Regulator::start(config).context("the regulator")?;
        // As a program does it, not by the shorter way of the regulator's own process.
        let hold = Hold::attach(&socket).context("the regulator")?;
        Ok(Protection { hold, regulator, _folder: folder })
    }

    /// Returns true if cores were not regulated for some time although the lock was held.
    pub(super) fn is_broken(&self) -> bool {
        !self.statistics().losses().is_empty()
    }

    /// Returns the regulator's statistics so far.
    pub(super) fn statistics(&self) -> Statistics {
        self.regulator.statistics()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_they_are_written() {
        assert_eq!(Wanted::parse("5%"), Ok(Wanted::Share(0.05)));
        assert_eq!(Wanted::parse("100MB/s"), Ok(Wanted::Bytes(100_000_000)));
        for wrong in ["", "5", "0%", "101%", "0MB/s", "-1%", "1.5MB/s", "x%"] {
            assert!(Wanted::parse(wrong).unwrap_err().contains("expected a share"), "{wrong}");
        }
    }
}
