//! What a regulator did, for people and programs.

use super::ThreadStatistics;
use super::core::Log;
use super::delays::{Delays, Spread};
use crate::holders::Status;
use serde::Serialize;
use std::sync::atomic::Ordering;

/// What was done on one core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreStatistics {
    /// The core.
    pub core: usize,
    /// Periods that began while the lock was held.
    pub periods: u64,
    /// How often it was stopped: once in a period, or more often if the lock was given back and
    /// taken again in it.
    pub stops: u64,
    /// For how long, in all.
    pub stopped_ns: u64,
    /// Events that were counted in the periods; 0 for a share of time.
    pub counted: u64,
    /// Stops that the watchdog had to end.
    pub rescued: u64,
    /// Periods in which the kernel refused to count, and threads that lost their priority.
    pub failed: u64,
    /// From the taking of the lock, as its holder says, to the beginning of the first period, of
    /// takings that found the core's thread asleep or lingering.
    pub effect: Spread,
    /// From the spending of a budget to the core's thread.
    pub wake_up: Spread,
}

/// What was done on all cores.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// The best-effort cores.
    pub cores: Vec<CoreStatistics>,
    /// The managed threads, those that have ended too.
    pub threads: Vec<ThreadStatistics>,
    /// All cores' delays until the lock takes effect.
    pub effect: Spread,
    /// All cores' delays until the core's thread is awake after a budget was spent.
    pub wake_up: Spread,
    /// Those who may hold the lock now.
    pub holders: usize,
    /// How often they have taken it, as they say.
    pub acquisitions: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// Holders whose process has ended while it held the lock.
    pub died_holding: u64,
}

impl Statistics {
    pub(super) fn of(
        cores: &[usize],
        logs: &[Log],
        threads: Vec<ThreadStatistics>,
        status: Status,
    ) -> Statistics {
        Statistics {
            cores: cores
                .iter()
                .zip(logs)
                .map(|(core, log)| CoreStatistics::of(*core, log))
                .collect(),
            threads,
            effect: Delays::spread(logs.iter().map(|log| &log.effect)),
            wake_up: Delays::spread(logs.iter().map(|log| &log.wake_up)),
            holders: status.holders.len(),
            acquisitions: status.holders.iter().map(|holder| holder.acquisitions).sum(),
            refused: status.refused,
            died_holding: status.died_holding,
        }
    }

    /// How long the cores were stopped, in all.
    pub fn stopped_ns(&self) -> u64 {
        self.cores.iter().map(|core| core.stopped_ns).sum()
    }
}

impl CoreStatistics {
    fn of(core: usize, log: &Log) -> CoreStatistics {
        // Relaxed: numbers for people.
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        CoreStatistics {
            core,
            periods: read(&log.periods),
            stops: read(&log.stops),
            stopped_ns: read(&log.stopped_ns),
            counted: read(&log.counted),
            rescued: read(&log.rescued),
            failed: read(&log.failed),
            effect: Delays::spread([&log.effect]),
            wake_up: Delays::spread([&log.wake_up]),
        }
    }
}
