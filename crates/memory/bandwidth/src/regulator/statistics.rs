//! Statistics of a regulator, for people and programs.

use super::core::Log;
use super::delays::Spread;
use super::{Shared, ThreadStatistics};
use serde::Serialize;
use std::sync::atomic::Ordering;

/// Denominator of the fraction of events that may go wrong without a report.
const RARE_PART: u64 = 100;

/// Statistics of one core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreStatistics {
    /// The core.
    pub core: usize,
    /// Periods that began while the lock was held.
    pub periods: u64,
    /// Number of its stops: one in a period, or more if the lock was given back and taken
    /// again in it.
    pub stops: u64,
    /// Total time of its stops.
    pub stopped_ns: u64,
    /// Events that were counted in the periods; 0 for a share of time.
    pub counted: u64,
    /// Stops that the watchdog had to end.
    pub rescued: u64,
    /// Periods in which the kernel refused to count.
    pub failed: u64,
    /// Number of times that the watchdog took the priority of the core's thread, which stops
    /// nothing then, and number of times that it gave the priority back.
    pub demotions: u64,
    /// See there.
    pub promotions: u64,
    /// True if the thread is without its priority now.
    pub is_ordinary: bool,
    /// Periods that were not regulated: the thread had lost its priority, or did not have its core
    /// at all for so long.
    pub missed: u64,
    /// Wake-ups of the thread, and ends of its stops, that were late by more than a tenth of a
    /// period.
    pub late: u64,
    /// Time of the stops for which something else had the core: threads of higher priority,
    /// interrupts, or a hypervisor's other work.
    pub away_ns: u64,
    /// Delay from the taking of the lock, as its holder states it, to the beginning of the first
    /// period, for takings that found the core's thread asleep or lingering.
    pub effect: Spread,
    /// Delay from the spending of a budget until the core's thread is awake.
    pub wake_up: Spread,
}

/// Statistics of all cores, and of the regulator itself.
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
    /// Programs that may hold the lock now.
    pub holders: usize,
    /// Number of times that they have taken it, as they say.
    pub acquisitions: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// Holders whose process has ended while it held the lock.
    pub died_holding: u64,
    /// Delays of the watchdog's looks, and number of those that were late by a whole look's time.
    pub watchdog: Spread,
    /// See there.
    pub watchdog_late: u64,
    /// Number of times that the control thread, which detects the death of holders, did not answer,
    /// so that the lock counted as free.
    pub suspensions: u64,
    /// Total time of these suspensions.
    pub suspended_ns: u64,
}

/// The lock was held, and a core was not regulated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// The watchdog took the priority of a core's thread.
    Priority {
        /// The core.
        core: usize,
        /// Number of times.
        demotions: u64,
        /// Periods without regulation, those included in which its thread did not have the core.
        missed: u64,
        /// True if the priority has not been given back.
        is_ordinary: bool,
    },
    /// The kernel refused to count on a core.
    Count {
        /// The core.
        core: usize,
        /// Periods without a count.
        failed: u64,
    },
    /// The control thread, which detects the death of holders, did not answer.
    Suspension {
        /// Number of times.
        suspensions: u64,
        /// Total time, in nanoseconds.
        suspended_ns: u64,
    },
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Loss::Priority { core, demotions, missed, is_ordinary } => {
                let now = if *is_ordinary { "not given back yet" } else { "given back since" };
                write!(
                    f,
                    "core {core}: the core's thread did not leave a stop and lost its real-time \
                     priority {demotions} times ({now}); {missed} periods were not regulated"
                )
            }
            Loss::Count { core, failed } => {
                write!(f, "core {core}: {failed} periods could not be counted")
            }
            Loss::Suspension { suspensions, suspended_ns } => write!(
                f,
                "the control thread, which detects the death of holders, did not answer \
                 {suspensions} times: the lock counted as free for {:.1} ms",
                *suspended_ns as f64 / 1e6
            ),
        }
    }
}

impl Statistics {
    pub(super) fn of(
        cores: &[usize],
        shared: &Shared,
        threads: Vec<ThreadStatistics>,
    ) -> Statistics {
        let (logs, status) = (&shared.logs, shared.holders.status());
        Statistics {
            cores: cores
                .iter()
                .zip(logs)
                .map(|(core, log)| CoreStatistics::of(*core, log))
                .collect(),
            threads,
            effect: Spread::of(logs.iter().map(|log| &log.effect)),
            wake_up: Spread::of(logs.iter().map(|log| &log.wake_up)),
            holders: status.holders.len(),
            acquisitions: status.holders.iter().map(|holder| holder.acquisitions).sum(),
            refused: status.refused,
            died_holding: status.died_holding,
            watchdog: Spread::of([&shared.looks.delays]),
            watchdog_late: shared.looks.late.load(Ordering::Relaxed),
            suspensions: shared.suspensions.load(Ordering::Relaxed),
            suspended_ns: shared.suspended_ns(),
        }
    }

    /// Returns the cases in which cores were not regulated although the lock was held.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses: Vec<_> = self.cores.iter().flat_map(CoreStatistics::losses).collect();
        if self.suspensions > 0 {
            let (suspensions, suspended_ns) = (self.suspensions, self.suspended_ns);
            losses.push(Loss::Suspension { suspensions, suspended_ns });
        }
        losses
    }

    /// Returns, in words, the causes that kept the regulator's threads from their cores: a more
    /// urgent thread or a hypervisor. Rare cases (one period of a hundred) are left out: no thread
    /// has a core for itself.
    pub fn hindrances(&self) -> Vec<String> {
        let mut said: Vec<_> = self.cores.iter().filter_map(CoreStatistics::hindrance).collect();
        if self.watchdog_late > self.watchdog.count / RARE_PART {
            said.push(format!(
                "the watchdog was late {} of {} times, by up to {:.1} ms: threads of higher \
                 priority, or a hypervisor, occupy the cores that are not regulated",
                self.watchdog_late,
                self.watchdog.count,
                self.watchdog.longest_ns as f64 / 1e6
            ));
        }
        said
    }

    /// Returns the time for which the cores were stopped, in all, in nanoseconds.
    pub fn stopped_ns(&self) -> u64 {
        self.cores.iter().map(|core| core.stopped_ns).sum()
    }
}

impl CoreStatistics {
    fn losses(&self) -> impl Iterator<Item = Loss> {
        let CoreStatistics { core, demotions, missed, is_ordinary, failed, .. } = *self;
        let priority =
            (demotions > 0).then_some(Loss::Priority { core, demotions, missed, is_ordinary });
        let count = (failed > 0).then_some(Loss::Count { core, failed });
        [priority, count].into_iter().flatten()
    }

    fn hindrance(&self) -> Option<String> {
        let CoreStatistics { core, periods, missed, late, away_ns, stopped_ns, .. } = *self;
        let all = periods + missed;
        let is_often =
            missed > all / RARE_PART || late > all / RARE_PART || away_ns > stopped_ns / RARE_PART;
        is_often.then(|| {
            format!(
                "core {core}: threads of higher priority than the regulator, or a hypervisor, \
                 occupied the core: {missed} of {all} periods missed, {late} wake-ups late, {:.1} \
                 of {:.1} ms of its stops lost",
                away_ns as f64 / 1e6,
                stopped_ns as f64 / 1e6
            )
        })
    }

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
            demotions: read(&log.demotions),
            promotions: read(&log.promotions),
            is_ordinary: log.is_ordinary.load(Ordering::Relaxed),
            missed: read(&log.missed),
            late: read(&log.late),
            away_ns: read(&log.away_ns),
            effect: Spread::of([&log.effect]),
            wake_up: Spread::of([&log.wake_up]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(change: impl FnOnce(&Log)) -> CoreStatistics {
        let log = Log::default();
        log.periods.store(990, Ordering::Relaxed);
        log.stopped_ns.store(1_000_000, Ordering::Relaxed);
        change(&log);
        CoreStatistics::of(3, &log)
    }

    #[test]
    fn core_is_lost_with_the_priority_of_its_thread_or_with_its_counter() {
        assert_eq!(of(|_| ()).losses().count(), 0);
        let failed = of(|log| log.failed.store(1, Ordering::Relaxed));
        assert_eq!(failed.losses().collect::<Vec<_>>(), [Loss::Count { core: 3, failed: 1 }]);
        let taken = of(|log| {
            log.demotions.store(2, Ordering::Relaxed);
            log.missed.store(500, Ordering::Relaxed);
            log.is_ordinary.store(true, Ordering::Relaxed);
        });
        let said = Loss::Priority { core: 3, demotions: 2, missed: 500, is_ordinary: true };
        assert_eq!(taken.losses().collect::<Vec<_>>(), std::slice::from_ref(&said));
        assert!(said.to_string().contains("not given back yet"), "{said}");
    }

    #[test]
    fn hindrance_is_said_when_it_is_more_than_rare() {
        type Counter = fn(&Log) -> &std::sync::atomic::AtomicU64;
        let cases: [(Counter, u64); 3] =
            [(|log| &log.missed, 10), (|log| &log.late, 9), (|log| &log.away_ns, 10_000)];
        for (counter, rare) in cases {
            let said = |number| of(|log| counter(log).store(number, Ordering::Relaxed)).hindrance();
            assert_eq!(said(rare), None);
            assert!(said(rare + 1).unwrap().contains("core 3: threads of higher priority"));
        }
    }
}
