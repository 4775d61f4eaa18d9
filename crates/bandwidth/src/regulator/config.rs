//! What a regulator is told, and what of it makes sense.

use super::Error;
use super::count::{Hardware, SoftwareEvent};
use crate::holders;
use std::path::PathBuf;
use std::time::Duration;

/// The periods that there may be.
pub const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(100)..=Duration::from_secs(1);
/// The factors rho that there may be.
pub const FACTORS: std::ops::RangeInclusive<f64> = 0.0..=1000.0;

/// What a best-effort core may do in each period, while the lock is held.
#[derive(Clone, Debug, PartialEq)]
pub enum Budget {
    /// Run for this share of it, above 0 and at most 1. Needs no counter.
    Share(f64),
    /// Cause so many of these events, counted by the kernel.
    Events {
        /// The events.
        event: SoftwareEvent,
        /// How many of them.
        per_period: u64,
    },
    /// Move so many bytes a second between its last own cache and the memory, counted by the
    /// processor.
    Bytes {
        /// The events that move a line each.
        hardware: Hardware,
        /// Bytes a second.
        per_second: u64,
    },
}

/// Whose run time and stopped time is kept account of, and whom throttle-fair scheduling is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    /// All threads of a process and of its descendants.
    Process(i32),
    /// All threads of a process's descendants, but not its own.
    Descendants(i32),
    /// All threads of a control group, by its folder.
    Group(PathBuf),
}

/// How cores are regulated.
#[derive(Clone, Debug)]
pub struct Config {
    /// How holders are received.
    pub holders: holders::Config,
    /// The best-effort cores.
    pub cores: Vec<usize>,
    /// The regulator's period, one of [`PERIODS`].
    pub period: Duration,
    /// What each of the cores may do in it.
    pub budget: Budget,
    /// Document 001's rho, one of [`FACTORS`]; None leaves the threads to the kernel's scheduler.
    pub rho: Option<f64>,
    /// Whose threads are managed.
    pub managed: Vec<Managed>,
    /// The `SCHED_FIFO` priority of the threads that stop the cores, 1 to 98: what is more urgent
    /// runs on a stopped core too. The watchdog has the next higher one.
    pub priority: u8,
    /// After a release a core's thread looks so long by itself whether the lock is taken again,
    /// which then costs its taker no wake-up.
    pub linger: Duration,
}

impl Config {
    /// With these cores and this budget: a period of 1 ms, priority 1, and the rest as in the
    /// types' own defaults.
    pub fn new(cores: Vec<usize>, budget: Budget) -> Config {
        Config {
            holders: holders::Config::default(),
            cores,
            period: Duration::from_millis(1),
            budget,
            rho: None,
            managed: Vec::new(),
            priority: 1,
            linger: Duration::from_millis(1),
        }
    }

    /// Cores that are online and not regulated; never empty for a configuration that passes.
    pub(super) fn other_cores(&self) -> Vec<usize> {
        let online = realtime::machine::online_cores();
        online.into_iter().filter(|core| !self.cores.contains(core)).collect()
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.check_cores()?;
        let refuse = |key, found, expected: &str| {
            Err(Error::Config { key, found, expected: expected.into() })
        };
        if !PERIODS.contains(&self.period) {
            return refuse("period", format!("{:?}", self.period), "100us to 1s");
        }
        if let Some(rho) = self.rho.filter(|rho| !FACTORS.contains(rho)) {
            return refuse("fair", rho.to_string(), "0 to 1000");
        }
        if self.rho.is_some() && self.managed.is_empty() {
            return refuse("fair", "nobody to manage".into(), "a program, process or group");
        }
        if !(1..=98).contains(&self.priority) {
            return refuse("priority", self.priority.to_string(), "1 to 98");
        }
        match &self.budget {
            Budget::Share(share) if !(*share > 0.0 && *share <= 1.0) => {
                refuse("budget", format!("{} %", share * 100.0), "above 0 % and at most 100 %")
            }
            Budget::Events { per_period: 0, .. } => {
                refuse("budget", "0 events a period".into(), "1 or more")
            }
            Budget::Bytes { .. } if self.budget_events() == 0 => refuse(
                "budget",
                "less than a cache line in a period".into(),
                "more bytes, or a longer period",
            ),
            _ => Ok(()),
        }
    }

    fn check_cores(&self) -> Result<(), Error> {
        let online = realtime::machine::online_cores();
        let refuse = |expected| {
            Err(Error::Config { key: "cores", found: format!("{:?}", self.cores), expected })
        };
        let mut sorted = self.cores.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.is_empty() || sorted.len() != self.cores.len() {
            return refuse("one or more cores, each once".into());
        }
        if sorted.iter().any(|core| !online.contains(core)) {
            return refuse(format!("some of the cores that are online, {online:?}"));
        }
        if sorted.len() == online.len() {
            return refuse(format!(
                "not all of {online:?}: holders of the lock and the watchdog need a core that is \
                 never stopped"
            ));
        }
        Ok(())
    }

    /// The budget in events of a period; for a share, none.
    pub(super) fn budget_events(&self) -> u64 {
        match &self.budget {
            Budget::Share(_) => 0,
            Budget::Events { per_period, .. } => *per_period,
            Budget::Bytes { hardware, per_second } => {
                let bytes = u128::from(*per_second) * self.period.as_nanos() / 1_000_000_000;
                (bytes / u128::from(hardware.line_bytes)) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::new(vec![0], Budget::Share(0.1));
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn bad_settings_are_named_with_what_was_found_and_expected() {
        let all = realtime::machine::online_cores();
        assert!(refused(|config| config.cores = all).contains("need a core that is never stopped"));
        let empty = refused(|config| config.cores.clear());
        assert_eq!(empty, "cores: found [], expected one or more cores, each once");
        assert!(refused(|config| config.cores = vec![4096]).contains("cores: found [4096]"));
        let period = refused(|config| config.period = Duration::from_micros(99));
        assert_eq!(period, "period: found 99µs, expected 100us to 1s");
        assert!(refused(|config| config.budget = Budget::Share(1.5)).contains("found 150 %"));
        assert!(refused(|config| config.rho = Some(-1.0)).contains("fair: found -1"));
        assert!(refused(|config| config.rho = Some(1.0)).contains("nobody to manage"));
        assert!(refused(|config| config.priority = 99).contains("priority: found 99"));
        let event = SoftwareEvent::PageFaults;
        let none = Budget::Events { event, per_period: 0 };
        assert!(refused(|config| config.budget = none).contains("0 events a period"));
    }

    #[test]
    fn bytes_a_second_become_lines_a_period() {
        let hardware = Hardware::raw(0x17);
        let budget = Budget::Bytes { hardware: hardware.clone(), per_second: 64_000_000 };
        let mut config = Config::new(vec![0], budget);
        assert_eq!(config.budget_events(), 1000);
        config.budget = Budget::Bytes { hardware, per_second: 1000 };
        assert!(config.check().unwrap_err().to_string().contains("less than a cache line"));
    }
}
