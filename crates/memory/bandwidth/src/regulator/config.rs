//! Settings of a regulator, and the checks of their values.

use super::Error;
use super::counted::{Hardware, SoftwareEvent};
use crate::holders;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The periods that there may be.
pub const PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(100)..=Duration::from_secs(1);
/// Range of the intervals at which a thread may look by itself.
pub const LOOKS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(5)..=Duration::from_millis(1);
/// The `SCHED_FIFO` priority of the watchdog and of the control thread, unless the
/// threads of the cores have it: both run for microseconds, and a device's thread that is more
/// urgent and never sleeps would keep them from their core.
const GUARDS: u8 = 98;
/// The factors rho that there may be.
pub const FACTORS: std::ops::RangeInclusive<f64> = 0.0..=1000.0;

/// Budget of a best-effort core in each period, while the lock is held.
#[derive(Clone, Debug, PartialEq)]
pub enum Budget {
    /// Run for this share of it, above 0 and at most 1. Needs no counter.
    Share(f64),
    /// Cause a number of these events, counted by the kernel.
    Events {
        /// The events.
        event: SoftwareEvent,
        /// Number of events in each period.
        per_period: u64,
    },
    /// Move this number of bytes a second between its last own cache and the memory, counted by the
    /// processor.
    Bytes {
        /// The events that move a line each.
        hardware: Hardware,
        /// Bytes a second.
        per_second: u64,
    },
}

/// Way in which a core's thread learns that the lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// The program that takes the lock wakes the core's thread, unless that lingers. Costs nothing
    /// while the lock is free, and the taker a system call and a message to another core.
    #[default]
    Bell,
    /// The core's thread looks at intervals for as long as there is a holder. Costs the taker
    /// nothing, and the core the timer's wake-ups.
    Look,
}

/// Threads of whose run time and stopped time account is kept, and which are scheduled throttle-fair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    /// All threads of a process and of its descendants.
    Process(i32),
    /// All threads of a process's descendants, but not its own.
    Descendants(i32),
    /// All threads of a control group, by its folder.
    Group(PathBuf),
}

/// Settings for the regulation of cores.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings for receiving holders.
    pub holders: holders::Config,
    /// The best-effort cores.
    pub cores: Vec<usize>,
    /// The regulator's period, one of [`PERIODS`].
    pub period: Duration,
    /// Budget of each of the cores in a period.
    pub budget: Budget,
    /// BWLOCK++'s rho, one of [`FACTORS`]; None leaves the threads to the kernel's scheduler.
    pub rho: Option<f64>,
    /// The processes whose threads are managed.
    pub managed: Vec<Managed>,
    /// The `SCHED_FIFO` priority of the threads that stop the cores, 1 to 98: what is more urgent
    /// runs on a stopped core too. The watchdog and the control thread, which run on
    /// the other cores for microseconds at a time, have 98, or 99 if this is 98.
    pub priority: u8,
    /// Time after a release for which a core's thread looks by itself whether the lock is taken
    /// again, which then costs its taker no wake-up.
    pub linger: Duration,
    /// Way in which it learns after that time that the lock is taken.
    pub attention: Attention,
    /// Interval at which a thread looks by itself, one of [`LOOKS`]. Taking the lock takes effect
    /// so much later at most, and the timer's lateness.
    pub look: Duration,
}

impl Config {
    /// Creates a configuration with these cores and this budget: a period of 1 ms, priority 1, and
    /// the rest as in the types' own defaults.
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
            attention: Attention::default(),
            look: Duration::from_micros(20),
        }
    }

    /// The priority of the watchdog and of the control thread.
    pub(super) fn guard_priority(&self) -> u8 {
        GUARDS.max(self.priority + 1)
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
            return refuse("rho", rho.to_string(), "0 to 1000");
        }
        if self.rho.is_some() && self.managed.is_empty() {
            return refuse("fair", "no managed threads".into(), "a program, process or group");
        }
        if !(1..=98).contains(&self.priority) {
            return refuse("priority", self.priority.to_string(), "1 to 98");
        }
        if !LOOKS.contains(&self.look) {
            return refuse("look", format!("{:?}", self.look), "5us to 1ms");
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
        assert!(refused(|config| config.rho = Some(-1.0)).contains("rho: found -1"));
        assert!(refused(|config| config.rho = Some(1.0)).contains("no managed threads"));
        assert!(refused(|config| config.priority = 99).contains("priority: found 99"));
        let look = refused(|config| config.look = Duration::from_micros(4));
        assert_eq!(look, "look: found 4µs, expected 5us to 1ms");
        let event = SoftwareEvent::PageFaults;
        let none = Budget::Events { event, per_period: 0 };
        assert!(refused(|config| config.budget = none).contains("0 events a period"));
    }

    #[test]
    fn guards_are_more_urgent_than_the_threads_that_they_watch() {
        let mut config = Config::new(vec![0], Budget::Share(0.1));
        for (priority, guards) in [(1, 98), (97, 98), (98, 99)] {
            config.priority = priority;
            assert_eq!(config.guard_priority(), guards);
        }
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
