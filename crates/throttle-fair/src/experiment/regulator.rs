//! The thread that regulates the core of the experiment, and writes down who ran.

use std::io;
use std::time::Duration;

use anyhow::{Context, bail};
use realtime::clock::monotonic_ns;
use realtime::thread::{Policy, lock_memory, pin, set_name, set_policy};

use super::counter::Counter;
use super::tasks::Running;

/// Above the kernel's own threads that matter to nobody here, below its watchdogs.
const PRIORITY: u8 = 50;

/// Who decides between the tasks, as the regulator sees it.
pub trait Fairness: Sync {
    /// The core was stopped because of this thread.
    fn charge(&self, tid: i32, stopped: Duration);
    /// A period begins on a core.
    fn period(&self, core: usize);
    /// The virtual run time of a thread that has run so long.
    fn virtual_ns(&self, tid: i32, run_ns: u64) -> i64;
}

/// The kernel's default scheduler: stopped time is nobody's, and with the weight of nice 0 virtual
/// run time is run time.
pub struct Unchanged;

impl Fairness for Unchanged {
    fn charge(&self, _: i32, _: Duration) {}

    fn period(&self, _: usize) {}

    fn virtual_ns(&self, _: i32, run_ns: u64) -> i64 {
        run_ns as i64
    }
}

#[cfg(feature = "sched-ext")]
impl Fairness for crate::ThrottleFair {
    fn charge(&self, tid: i32, stopped: Duration) {
        // A fault of a thread that is not of the experiment is charged to nobody.
        let _ = self.charge(tid, stopped);
    }

    fn period(&self, core: usize) {
        self.period(core);
    }

    fn virtual_ns(&self, tid: i32, _: u64) -> i64 {
        self.task(tid).map_or(0, |task| task.virtual_ns)
    }
}

/// What the regulator is told.
#[derive(Clone, Copy, Debug)]
pub struct Regulation {
    /// The core.
    pub core: usize,
    /// The period.
    pub period: Duration,
    /// Page faults that the core may cause in a period; 0 is as many as it likes.
    pub budget: u64,
    /// Periods that are not written down.
    pub warm_up: usize,
    /// Periods that are.
    pub periods: usize,
}

/// One period. The first of a pair is the memory-bound task's.
///
/// Only that one can have caused a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// How long each task ran, nanoseconds.
    pub run_ns: [u64; 2],
    /// How long the core was stopped.
    pub stopped_ns: u64,
    /// Virtual run times at the end, since the first period.
    pub virtual_ns: [i64; 2],
}

/// What was written down.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The periods, in their order.
    pub periods: Vec<Period>,
    /// Boundaries that the thread came too late for by more than a period, and left out.
    pub skipped: u64,
    /// Page faults of the core in these periods.
    pub faults: u64,
}

/// Regulates, on a thread of its own, and gives back the record.
///
/// # Errors
/// If the thread may not have its priority or core, events cannot be counted, or a task has ended.
pub fn regulate(
    regulation: Regulation,
    tasks: [&Running; 2],
    fairness: &dyn Fairness,
) -> anyhow::Result<Record> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            set_name("kt-experiment");
            pin(&[regulation.core])?;
            let counter = Counter::open(regulation.core)
                .context("page faults of a whole core cannot be counted (it takes root)")?;
            lock_memory()?;
            set_policy(Policy::Fifo(PRIORITY))?;
            record(regulation, counter, tasks, fairness)
        });
        thread.join().unwrap_or_else(|_| bail!("the regulator's thread ended early"))
    })
}

fn record(
    regulation: Regulation,
    mut counter: Counter,
    tasks: [&Running; 2],
    fairness: &dyn Fairness,
) -> anyhow::Result<Record> {
    let Regulation { budget, warm_up, periods, .. } = regulation;
    let period_ns = regulation.period.as_nanos() as u64;
    let mut record = Record { periods: Vec::with_capacity(periods), ..Record::default() };
    let run_ns = || -> io::Result<[u64; 2]> { Ok([tasks[0].run_ns()?, tasks[1].run_ns()?]) };
    let virtual_ns =
        |ran: [u64; 2]| [0, 1].map(|task| fairness.virtual_ns(tasks[task].id(), ran[task]));
    let mut end = monotonic_ns();
    let mut before = run_ns().context("a task has ended")?;
    let (mut first, mut faults) = ([0; 2], 0);
    for index in 0..warm_up + periods {
        if index == warm_up {
            first = virtual_ns(before);
            (record.skipped, faults) = (0, counter.total()?);
        }
        end += period_ns;
        let late = monotonic_ns().saturating_sub(end) / period_ns;
        record.skipped += late;
        end += late * period_ns;
        fairness.period(regulation.core);
        let stopped_ns = one(&mut counter, end, budget, fairness)?;
        let after = run_ns().context("a task has ended")?;
        if index >= warm_up {
            let now = virtual_ns(after);
            record.periods.push(Period {
                run_ns: [0, 1].map(|task| after[task] - before[task]),
                stopped_ns,
                virtual_ns: [0, 1].map(|task| now[task] - first[task]),
            });
        }
        before = after;
    }
    counter.disarm()?;
    record.faults = counter.total()? - faults;
    Ok(record)
}

/// One period until `end`: how long the core was stopped.
fn one(counter: &mut Counter, end: u64, budget: u64, fairness: &dyn Fairness) -> io::Result<u64> {
    counter.arm(budget)?;
    loop {
        let now = monotonic_ns();
        let Some(left) = end.checked_sub(now).filter(|left| *left > 0) else { return Ok(0) };
        let Some(culprit) = counter.wait(Duration::from_nanos(left))? else { continue };
        counter.disarm()?;
        let begin = monotonic_ns();
        while monotonic_ns() < end {
            std::hint::spin_loop();
        }
        let stopped_ns = end.saturating_sub(begin);
        fairness.charge(culprit, Duration::from_nanos(stopped_ns));
        return Ok(stopped_ns);
    }
}
