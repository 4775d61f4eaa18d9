//! Measurements of the hogs, the kernels and the budgets.

use std::sync::Arc;

use anyhow::ensure;
use bandwidth::regulator::Budget;
use bandwidth::workload::Caches;
use device::Device;
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread::{self, Scheduling};
use report::bandwidth::{BudgetPoint, CoRun, HogFigures, KernelRun, Spread};
use trial::signals;

use super::super::hog::access_name;
use super::hogs::{Hogs, Place};
use super::protection::{Manner, Protection, Wanted};
use super::task::{Kernel, Task};
use super::{Args, place, seats};

/// Default memory of a kernel.
const MEMORY: std::ops::RangeInclusive<usize> = 32 << 20..=256 << 20;
const QUICK_MEMORY: usize = 8 << 20;
/// Priority of the device's threads: what else wants their core must not be taken for the hogs'
/// doing. The regulator's own threads on that core are more urgent, or it would take itself for
/// broken.
const PRIORITY: u8 = 1;
/// Largest number of attempts of a run with the lock.
const TRIALS: usize = 10;
/// Time for which hogs are measured by themselves, in nanoseconds.
const WATCH_NS: u64 = 50_000_000;

/// Participants of the measurement.
pub(super) struct Bench {
    /// The kernels that the device has.
    pub tasks: Vec<(Kernel, Task)>,
    /// Kernels that the device lacks.
    pub missing: Vec<Kernel>,
    /// Cores of the accelerator.
    pub home: Vec<usize>,
    /// Regulation of the hogs' cores.
    pub manner: Manner,
    hogs: Hogs,
    protection: Option<Protection>,
    /// Numbers of hogs that run together, in ascending order.
    counts: Vec<usize>,
    repetitions: u32,
    is_realtime: bool,
    /// Runs that do not count, because the regulator broke down in them.
    broken: u32,
    _device: Arc<dyn Device>,
}

impl Bench {
    /// Starts everything.
    pub(super) fn open(args: &Args) -> anyhow::Result<Bench> {
        let (home, others) = seats(args)?;
        let budget = args.budget.budget(others[0])?;
        let manner = Manner { cores: others.clone(), period: args.period, budget };
        let place = |core: &usize| Place { core: *core, access: args.access, size: args.array };
        // Those of the accelerator's cores run only while the hogs are by themselves.
        let places: Vec<Place> = others.iter().chain(&home).map(place).collect();
        let hogs = Hogs::start(&places, &home)?;
        // This thread waits for the accelerator; the threads that are started stay there, too.
        thread::pin(&home)?;
        // A process may start a GPU only once: whether the priority is granted is found out before.
        let is_realtime = is_granted(Scheduling::Fifo(PRIORITY));
        let policy = if is_realtime { Scheduling::Fifo(PRIORITY) } else { Scheduling::Normal };
        let device = place::start(&args.device, &home, policy)?;
        let bytes = match args.memory {
            Some(size) => size.bytes(others[0])?,
            None if args.quick => QUICK_MEMORY,
            None => (2 * Caches::of(others[0])?.llc).clamp(*MEMORY.start(), *MEMORY.end()),
        };
        let (mut tasks, mut missing) = (Vec::new(), Vec::new());
        for kernel in &args.kernels {
            signals::check()?;
            match Task::open(&device, *kernel, bytes)? {
                Some(task) => tasks.push((*kernel, task)),
                None => missing.push(*kernel),
            }
        }
        ensure!(
            !tasks.is_empty(),
            "--device {}: found none of the kernels, expected one or more",
            args.device
        );
        let protection = Some(Protection::start(&manner)?);
        let (counts, repetitions) = (counts(others.len()), args.repetitions());
        let _device = device;
        Ok(Bench {
            tasks,
            missing,
            home,
            manner,
            hogs,
            protection,
            counts,
            repetitions,
            is_realtime,
            broken: 0,
            _device,
        })
    }

    /// Returns the marks that qualify the results.
    pub(super) fn marks(&self) -> Vec<String> {
        let mut marks: Vec<String> = self
            .missing
            .iter()
            .map(|kernel| format!("the device has no {}", kernel.name()))
            .collect();
        if !self.is_realtime {
            marks.push(
                "SCHED_FIFO is refused to the accelerator's threads (see keeptime doctor)".into(),
            );
        }
        if self.broken > 0 {
            marks.push(format!(
                "cores were not regulated in {} runs with the lock (the watchdog took the priority \
                 of a core's thread, or the lock counted as free); they were repeated with a fresh \
                 regulator",
                self.broken
            ));
        }
        marks
    }

    /// The regulator of the bench.
    ///
    /// # Errors
    /// It was ended.
    pub(super) fn protection(&self) -> anyhow::Result<&Protection> {
        self.protection.as_ref().ok_or_else(|| anyhow::anyhow!("there is no regulator"))
    }

    /// Ends the regulator, so that another one can have the cores.
    pub(super) fn end_protection(&mut self) {
        self.protection = None;
    }

    /// Runs a task once with so many hogs: how long it took, and what the hogs got. With the lock
    /// it is run again, by a fresh regulator, if the one that there was broke down.
    fn once(&mut self, number: usize, hogs: usize, locked: bool) -> anyhow::Result<(f64, f64)> {
        for _ in 0..TRIALS {
            let result = self.attempt(number, hogs, locked)?;
            if !locked || !self.protection()?.is_broken() {
                return Ok(result);
            }
            self.broken += 1;
            self.renew_protection()?;
        }
        anyhow::bail!("the regulator failed {TRIALS} times in a row")
    }

    /// Ends the regulator and starts another one, as the manner says.
    fn renew_protection(&mut self) -> anyhow::Result<()> {
        self.end_protection();
        self.protection = Some(Protection::start(&self.manner)?);
        Ok(())
    }

    fn attempt(&mut self, number: usize, hogs: usize, locked: bool) -> anyhow::Result<(f64, f64)> {
        signals::check()?;
        let running: Vec<usize> = (0..hogs).collect();
        self.hogs.run(&running)?;
        let meter = self.hogs.meter()?;
        let lock = if locked { Some(&self.protection()?.hold) } else { None };
        let time_ns = self.tasks[number].1.run(lock)?;
        let got = self.hogs.since(&meter)?;
        Ok((time_ns as f64, got.iter().sum()))
    }
}

/// Returns true if a thread of this process may have a policy.
fn is_granted(policy: Scheduling) -> bool {
    std::thread::spawn(move || thread::set_policy(policy).is_ok()).join().unwrap_or(false)
}

/// Up to so many: 1, 2, 4 and so on, and all.
fn counts(most: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |count| Some(2 * count));
    powers.take_while(|count| *count < most).chain([most]).collect()
}

/// The hogs by themselves.
pub(super) fn hogs(bench: &mut Bench) -> anyhow::Result<HogFigures> {
    let all = bench.hogs.places.len();
    let counts = bench.counts.iter().copied().chain([all]);
    let mut together: Vec<(usize, Vec<f64>)> = counts.map(|count| (count, Vec::new())).collect();
    let cases = together.len();
    for repetition in 0..bench.repetitions as usize {
        for turn in 0..cases {
            let (count, got) = &mut together[(repetition + turn) % cases];
            let running: Vec<usize> = (0..*count).collect();
            bench.hogs.run(&running)?;
            let meter = bench.hogs.meter()?;
            signals::check()?;
            sleep_until_ns(monotonic_ns() + WATCH_NS);
            got.push(bench.hogs.since(&meter)?.iter().sum());
        }
    }
    bench.hogs.pause()?;
    let Place { core, access, size } = bench.hogs.places[0];
    let spreads = together.iter().filter_map(|(count, got)| Some((*count, Spread::of(got)?)));
    Ok(HogFigures {
        access: access_name(access).into(),
        array_bytes: size.bytes(core)?,
        together: spreads.collect(),
    })
}

/// Samples of one case.
#[derive(Default)]
struct Case {
    hogs: usize,
    locked: bool,
    times_ns: Vec<f64>,
    got: Vec<f64>,
}

/// A kernel alone and with hogs, without the lock and with it, in turns.
pub(super) fn kernel(bench: &mut Bench, number: usize) -> anyhow::Result<KernelRun> {
    let counts = std::iter::once(0).chain(bench.counts.iter().copied());
    let mut cases: Vec<Case> = counts
        .flat_map(|hogs| [false, true].map(|locked| Case { hogs, locked, ..Case::default() }))
        .collect();
    // The first run touches pages that are not mapped yet.
    bench.once(number, 0, false)?;
    for repetition in 0..bench.repetitions as usize {
        for turn in 0..cases.len() {
            let place = (repetition + turn) % cases.len();
            let case = &mut cases[place];
            let (time_ns, got) = bench.once(number, case.hogs, case.locked)?;
            case.times_ns.push(time_ns);
            case.got.push(got);
        }
    }
    bench.hogs.pause()?;
    let spread = |samples: &[f64]| {
        Spread::of(samples).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
    };
    let (alone, co_runs) = cases.split_at(2);
    let co_run = |pair: &[Case]| {
        Ok(CoRun {
            hogs: pair[0].hogs,
            open_ns: spread(&pair[0].times_ns)?,
            locked_ns: spread(&pair[1].times_ns)?,
            open_hogs: spread(&pair[0].got)?,
            locked_hogs: spread(&pair[1].got)?,
        })
    };
    let (kernel, task) = &bench.tasks[number];
    Ok(KernelRun {
        name: kernel.name().into(),
        memory_bytes: task.memory_bytes,
        solo_ns: spread(&alone[0].times_ns)?,
        locked_ns: spread(&alone[1].times_ns)?,
        co_runs: co_runs.chunks_exact(2).map(co_run).collect::<anyhow::Result<_>>()?,
    })
}

/// The first kernel with all hogs and the lock, at each budget; each time in turns with the kernel
/// alone.
pub(super) fn budgets(
    bench: &mut Bench,
    budgets: &[Wanted],
) -> anyhow::Result<(String, Vec<BudgetPoint>)> {
    let all = bench.manner.cores.len();
    let usual = bench.manner.clone();
    let mut points = Vec::new();
    for wanted in budgets {
        bench.manner.budget = wanted.budget(usual.cores[0])?;
        bench.renew_protection()?;
        let (mut slowdown, mut hogs) = (Vec::new(), Vec::new());
        for _ in 0..bench.repetitions {
            let (alone_ns, _) = bench.once(0, 0, false)?;
            let (time_ns, got) = bench.once(0, all, true)?;
            slowdown.push(time_ns / alone_ns);
            hogs.push(got);
        }
        let number = match &bench.manner.budget {
            Budget::Share(share) => share * 100.0,
            Budget::Events { per_period, .. } => *per_period as f64,
            Budget::Bytes { per_second, .. } => *per_second as f64 / 1e6,
        };
        let budget = bench.manner.words().1;
        let (Some(slowdown), Some(hogs)) = (Spread::of(&slowdown), Spread::of(&hogs)) else {
            anyhow::bail!("nothing was measured");
        };
        points.push(BudgetPoint { budget, number, slowdown, hogs });
    }
    bench.hogs.pause()?;
    bench.manner = usual;
    bench.renew_protection()?;
    Ok((bench.tasks[0].0.name().into(), points))
}
