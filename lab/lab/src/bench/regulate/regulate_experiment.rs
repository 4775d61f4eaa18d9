//! BWLOCK++'s section IV-C-4: each of some regulated cores runs a memory-bound and a
//! compute-bound thread of equal weight, while the lock is held, under the kernel's own scheduler
//! and under throttle-fair scheduling.
//!
//! `keeptime-lab bench regulate` and `keeptime-lab bench bandwidth` show the same experiment: with the same
//! threads, the same search for a budget, and the same turns.
//!
//! A budget has to tell the two threads apart, which a share of time does not. Where the processor
//! counts nothing, the memory-bound thread takes fresh pages all the time and the budget is page
//! faults, which every machine can count. The threads of a core are a process of their own, so that
//! none waits for a stopped core's thread to give the process's memory free.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bandwidth::regulator::{
    Budget, Config, CoreStatistics, SoftwareEvent, Statistics, ThreadStatistics,
};
use bandwidth::workload::{Access, PAGE_BYTES, Size};

use crate::bench::bandwidth::{Hogs, Place};
use throttle_fair::{By, Chosen, Regulated};
use trial::signals;

/// The rules: BWLOCK++'s rho, none for the kernel's own scheduler.
pub(crate) const RULES: [Option<f64>; 3] = [None, Some(1.0), Some(3.0)];
/// Part of a period after which the memory-bound thread is stopped, for BWLOCK++'s stopped time
/// (section VI-E), whose budgets were small.
pub(crate) const STOPPED_AFTER: f64 = 1.0 / 6.0;
/// Fraction for BWLOCK++'s shares of periods, which it gives as 3 to 1 under the kernel's own
/// scheduler.
pub(crate) const SHARED_AFTER: f64 = 1.0 / 3.0;

/// Half of the smallest first-level data cache that is common.
const COMPUTE: Size = Size::Bytes(16 << 10);
/// Memory that a memory-bound thread takes from the kernel and gives back at a time.
const FRESH: Size = Size::Bytes(64 * PAGE_BYTES);
/// More page faults than a period can have.
const PLENTY: u64 = 1 << 40;
/// Number of times that a budget is corrected by its measured effect.
const CORRECTIONS: usize = 3;
/// Length of a run of the search for a budget, in periods.
const TRIAL_PERIODS: u32 = 300;
/// Longest time until all threads are managed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The cores with their threads.
pub(crate) struct Experiment {
    cores: Vec<usize>,
    period: Duration,
    by: By,
    /// Hog processes, one a core, whose first thread is the memory-bound one.
    hogs: Vec<Hogs>,
    folder: tempfile::TempDir,
}

/// Measurements of the threads of one kind in a span, on all cores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    /// Periods that they had: they ran, or their core was stopped because of them.
    pub periods: f64,
    pub run_ns: u64,
    /// Time for which their cores were stopped because of them, in nanoseconds.
    pub charged_ns: u64,
    pub virtual_ns: f64,
    /// Megabytes (10^6) that they touched in a second.
    pub mb_per_s: f64,
}

/// Changes between two looks at a regulator, on all cores.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub periods: u64,
    pub stops: u64,
    pub stopped_ns: u64,
    pub counted: u64,
    /// The memory-bound threads, then the compute-bound ones.
    pub kinds: [Kind; 2],
    /// Implementation that put the rule into effect.
    pub chosen: Chosen,
}

impl Span {
    /// The memory-bound threads' share of the periods that one of the two kinds had.
    pub(crate) fn memory_share(&self) -> f64 {
        self.kinds[0].periods / (self.kinds[0].periods + self.kinds[1].periods)
    }

    /// Stopped time of such a period, as a part of it. Others who have a core now and then, more of
    /// it in one span than in another, do not count.
    pub(crate) fn stopped_share(&self, period: Duration) -> f64 {
        let had = self.kinds[0].periods + self.kinds[1].periods;
        self.kinds[0].charged_ns as f64 / (had * period.as_nanos() as f64)
    }
}

impl Experiment {
    /// Starts the threads, paused. The memory-bound ones take fresh pages if their faults are
    /// counted; otherwise they write an array of twice the last-level cache.
    ///
    /// # Errors
    /// If a thread cannot be had.
    pub(crate) fn start(
        (cores, home): (&[usize], &[usize]),
        period: Duration,
        by: By,
        are_faults: bool,
    ) -> anyhow::Result<Experiment> {
        let (access, size) =
            if are_faults { (Access::Fresh, FRESH) } else { (Access::Write, Size::TwiceLlc) };
        let pair = |core: &usize| {
            let memory = Place { core: *core, access, size };
            let compute = Place { access: Access::Write, size: COMPUTE, ..memory };
            Hogs::start(&[memory, compute], home)
        };
        let hogs = cores.iter().map(pair).collect::<Result<_, _>>()?;
        let folder = tempfile::tempdir().context("cannot create a folder for the socket")?;
        Ok(Experiment { cores: cores.to_vec(), period, by, hogs, folder })
    }

    /// The budget of page faults with which the memory-bound threads alone are stopped after this
    /// part of a period of theirs. Their rate of faults gives a first one, which is corrected by how
    /// long they really run until they are stopped. What others have of the cores does not count.
    ///
    /// # Errors
    /// If a period is too short for it.
    pub(crate) fn faults(&mut self, fraction: f64) -> anyhow::Result<u64> {
        let trial = self.period * TRIAL_PERIODS;
        let free = self.once(&faults(PLENTY), None, &[0], trial)?;
        let period_ns = self.period.as_nanos() as f64;
        let per_period = free.counted as f64 * period_ns / free.kinds[0].run_ns as f64;
        let mut budget = (per_period * fraction).round().max(1.0);
        if per_period * fraction < 4.0 {
            bail!(
                "a memory-bound thread has {per_period:.0} page faults in a period of {:?}, too few \
                 for {fraction:.3} of one: make the period longer",
                self.period
            );
        }
        for _ in 0..CORRECTIONS {
            let memory = self.once(&faults(budget as u64), None, &[0], trial)?.kinds[0];
            let ran = memory.run_ns as f64 / (memory.run_ns + memory.charged_ns) as f64;
            let excess = (ran - fraction) * per_period;
            budget = (budget - excess).round().max(1.0);
        }
        Ok(budget as u64)
    }

    /// Rounds, in each of which all rules have their turn, so that what disturbs the machine disturbs
    /// all of them. The answer has the rounds of each of [`RULES`].
    ///
    /// # Errors
    /// A regulator fails, or the scheduler in BPF is asked for and breaks down; a signal came.
    pub(crate) fn turns(
        &mut self,
        budget: &Budget,
        duration: Duration,
        rounds: usize,
        mut tell: impl FnMut(),
    ) -> anyhow::Result<[Vec<Span>; RULES.len()]> {
        let mut turns: [Vec<Span>; RULES.len()] = Default::default();
        for round in 0..rounds {
            for place in 0..RULES.len() {
                let rule = (round + place) % RULES.len();
                turns[rule].push(self.once(budget, RULES[rule], &[0, 1], duration)?);
                tell();
            }
        }
        Ok(turns)
    }

    /// Regulates these of each core's threads under a rule.
    fn once(
        &mut self,
        budget: &Budget,
        rho: Option<f64>,
        running: &[usize],
        duration: Duration,
    ) -> anyhow::Result<Span> {
        for hogs in &mut self.hogs {
            hogs.run(running)?;
        }
        let mut config = Config::new(self.cores.clone(), budget.clone());
        config.holders.socket = self.folder.path().join("bandwidth.sock");
        config.period = self.period;
        config.rho = rho;
        config.managed = self.hogs.iter().map(Hogs::managed).collect::<Result<_, _>>()?;
        let regulated = Regulated::start(config, self.by)?;
        let span = self.held(&regulated, duration)?;
        if let Some(trouble) = regulated.trouble() {
            bail!("{trouble}");
        }
        drop(regulated);
        self.hogs.iter_mut().try_for_each(Hogs::pause)?;
        Ok(span)
    }

    /// Holds the lock, and looks at the statistics twice, after a tenth of the time and at its end.
    fn held(&mut self, regulated: &Regulated, duration: Duration) -> anyhow::Result<Span> {
        let regulator = &regulated.regulator;
        let hold = regulator.hold()?;
        let _held = hold.hold();
        let begun = Instant::now();
        let threads: Vec<i32> = self.hogs.iter().flat_map(|hogs| hogs.threads.clone()).collect();
        let is_managed = |statistics: &Statistics| {
            let known = |id: &i32| statistics.threads.iter().any(|thread| thread.thread == *id);
            threads.iter().all(known)
        };
        while !is_managed(&regulator.statistics()) {
            ensure!(begun.elapsed() < PATIENCE, "the threads were not found");
            signals::check()?;
            std::thread::yield_now();
        }
        signals::sleep(duration / 10)?;
        let meters = self.hogs.iter_mut().map(Hogs::meter).collect::<Result<Vec<_>, _>>()?;
        let before = regulator.statistics();
        signals::sleep(duration)?;
        let after = regulator.statistics();
        let mut kinds = [Kind::default(); 2];
        for (hogs, meter) in self.hogs.iter_mut().zip(&meters) {
            let got = hogs.since(meter)?;
            for (kind, (thread, got)) in kinds.iter_mut().zip(hogs.threads.iter().zip(got)) {
                kind.add(&since(&before, &after, *thread)?, got);
            }
        }
        let sum = |of: fn(&CoreStatistics) -> u64| {
            let all = |statistics: &Statistics| statistics.cores.iter().map(of).sum::<u64>();
            all(&after) - all(&before)
        };
        Ok(Span {
            periods: sum(|core| core.periods),
            stops: sum(|core| core.stops),
            stopped_ns: sum(|core| core.stopped_ns),
            counted: sum(|core| core.counted),
            kinds,
            chosen: regulated.chosen.clone(),
        })
    }
}

impl Kind {
    fn add(&mut self, thread: &ThreadStatistics, mb_per_s: f64) {
        self.periods += thread.periods;
        self.run_ns += thread.run_ns;
        self.charged_ns += thread.charged_ns;
        self.virtual_ns += thread.virtual_ns as f64;
        self.mb_per_s += mb_per_s;
    }
}

/// A budget of page faults.
pub(crate) fn faults(per_period: u64) -> Budget {
    Budget::Events { event: SoftwareEvent::PageFaults, per_period }
}

/// Returns the changes of a thread's statistics between two looks.
fn since(before: &Statistics, after: &Statistics, id: i32) -> anyhow::Result<ThreadStatistics> {
    let own_statistics = |statistics: &Statistics| {
        statistics.threads.iter().find(|thread| thread.thread == id).cloned()
    };
    let (old, mut new) =
        own_statistics(before).zip(own_statistics(after)).context("a thread has ended")?;
    new.run_ns -= old.run_ns;
    new.charged_ns -= old.charged_ns;
    new.periods -= old.periods;
    new.virtual_ns -= old.virtual_ns;
    Ok(new)
}
