//! Benefit and cost of the memory-bandwidth lock on a machine: `keeptime-lab bench bandwidth`.
//!
//! The numbers are those of BWLOCK++'s Figs. 1 and 5 to 10: how much co-running hogs slow a kernel
//! down ([`KernelRun`]), how much of that the lock takes back, at which budget ([`BudgetPoint`]),
//! what it costs the best-effort work under each scheduling rule ([`RuleRun`]), and what taking it
//! costs ([`LockCost`]). [`HogFigures`] says whether the memory system shows contention at all.

mod figures;

pub use figures::document;

use serde::Serialize;
use stats::{ascending, nearest_rank};

/// Slowdown from which the part that the lock takes back counts.
pub const SLOW: f64 = 1.15;
/// The share of the loss that it is to take back.
pub const ENOUGH: f64 = 0.8;

/// A number that was measured several times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Number of measurements.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The first quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub q3: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Spread of samples in any order; none where there are none.
    pub fn of(samples: &[f64]) -> Option<Spread> {
        let sorted = ascending(samples);
        let rank = |permille| nearest_rank(&sorted, permille);
        Some(Spread {
            count: sorted.len(),
            min: rank(0)?,
            q1: rank(250)?,
            median: rank(500)?,
            q3: rank(750)?,
            max: rank(1000)?,
        })
    }

    /// The same numbers times a factor.
    fn scaled(&self, factor: f64) -> Spread {
        let Spread { count, min, q1, median, q3, max } = *self;
        let [min, q1, median, q3, max] = [min, q1, median, q3, max].map(|number| number * factor);
        Spread { count, min, q1, median, q3, max }
    }
}

/// All that was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BandwidthRun {
    /// The accelerator.
    pub device: String,
    /// The command that made it.
    pub command: String,
    /// Date of the measurement, as text.
    pub date: String,
    /// Machine's description of itself, name and value.
    pub machine: Vec<(String, String)>,
    /// Regulation of the best-effort cores, name and value.
    pub regulation: Vec<(String, String)>,
    /// Notes on the validity of the results.
    pub marks: Vec<String>,
    /// Memory bandwidth of the hogs.
    pub hogs: HogFigures,
    /// The kernels, in the order in which they were asked for.
    pub kernels: Vec<KernelRun>,
    /// The kernel whose budget was varied, and its slowdown at each budget.
    pub budgets: Option<(String, Vec<BudgetPoint>)>,
    /// The scheduling rules.
    pub rules: Vec<RuleRun>,
    /// Cost of the lock.
    pub lock: Option<LockCost>,
}

/// Memory bandwidth of hogs, without kernels and without a lock. All in megabytes (10^6) of lines
/// that were touched, a second.
#[derive(Debug, Clone, Default, Serialize)]
pub struct HogFigures {
    /// Kind of access to a line.
    pub access: String,
    /// Bytes of the array of each.
    pub array_bytes: usize,
    /// Number of hogs that run together, and the bandwidth of all of them.
    pub together: Vec<(usize, Spread)>,
}

impl HogFigures {
    /// Returns the bandwidth of one hog alone.
    pub fn alone(&self) -> Option<f64> {
        self.together.iter().find(|(hogs, _)| *hogs == 1).map(|(_, spread)| spread.median)
    }

    /// Returns the largest number of hogs, and their bandwidth together as a share of as many times
    /// that of one alone: 1 if they do not slow each other down.
    pub fn scaling(&self) -> Option<(usize, f64)> {
        let (hogs, all) = self.together.iter().max_by_key(|(hogs, _)| *hogs)?;
        Some((*hogs, all.median / (*hogs as f64 * self.alone()?)))
    }
}

/// Execution times of one kernel, in nanoseconds, from before its submission until its end was
/// known; with the lock, from before it was taken until it was given back.
#[derive(Debug, Clone, Serialize)]
pub struct KernelRun {
    /// Its name.
    pub name: String,
    /// Bytes of its input and output.
    pub memory_bytes: usize,
    /// Alone.
    pub solo_ns: Spread,
    /// Alone with the lock.
    pub locked_ns: Spread,
    /// Runs with hogs.
    pub co_runs: Vec<CoRun>,
}

/// A kernel with so many hogs.
#[derive(Debug, Clone, Serialize)]
pub struct CoRun {
    /// Number of hogs.
    pub hogs: usize,
    /// Times without the lock.
    pub open_ns: Spread,
    /// Times with the lock.
    pub locked_ns: Spread,
    /// Bandwidth of all hogs meanwhile, in MB/s.
    pub open_hogs: Spread,
    /// The same with the lock.
    pub locked_hogs: Spread,
}

impl KernelRun {
    /// The run with the most hogs.
    pub fn worst(&self) -> Option<&CoRun> {
        self.co_runs.iter().max_by_key(|run| run.hogs)
    }

    /// Returns the slowdown of the kernel, its median time over that alone, without the lock and
    /// with it.
    pub fn slowdown(&self, run: &CoRun) -> (f64, f64) {
        let solo = self.solo_ns.median;
        (run.open_ns.median / solo, run.locked_ns.median / solo)
    }

    /// The share of the loss that the lock takes back; none where there is no loss.
    pub fn taken_back(&self, run: &CoRun) -> Option<f64> {
        let (open, locked) = self.slowdown(run);
        (open > 1.0).then(|| (open - locked) / (open - 1.0))
    }
}

impl BandwidthRun {
    /// Kernels that hogs slow down enough for the lock to matter, and those of them of whose loss it
    /// takes back enough.
    pub fn verdict(&self) -> (usize, usize) {
        let slow = self.kernels.iter().filter_map(|kernel| {
            let run = kernel.worst()?;
            (kernel.slowdown(run).0 >= SLOW).then(|| kernel.taken_back(run).unwrap_or(0.0))
        });
        let slow: Vec<f64> = slow.collect();
        (slow.len(), slow.iter().filter(|share| **share >= ENOUGH).count())
    }

    /// The result in a sentence.
    pub fn conclusion(&self) -> String {
        let worst = self.kernels.iter().filter_map(|kernel| {
            let run = kernel.worst()?;
            Some((kernel, run, kernel.slowdown(run)))
        });
        let Some((kernel, run, (open, locked))) = worst.max_by(|a, b| a.2.0.total_cmp(&b.2.0))
        else {
            return "No kernel ran beside hogs.".into();
        };
        let hogs = if run.hogs == 1 { "one hog".into() } else { format!("{} hogs", run.hogs) };
        let (slow, held) = self.verdict();
        let percent = (SLOW - 1.0) * 100.0;
        if slow == 0 {
            return format!(
                "No kernel loses {percent:.0} % to {hogs}: the most is {:+.0} % ({}).",
                (open - 1.0) * 100.0,
                kernel.name
            );
        }
        let enough = ENOUGH * 100.0;
        format!(
            "With {hogs}, {} takes {open:.2} times as long as alone, and {locked:.2} times with the \
             lock; of {slow} kernels that lose {percent:.0} % or more, the lock takes back at least \
             {enough:.0} % of the loss of {held}.",
            kernel.name
        )
    }
}

/// A kernel with all hogs and the lock, at one budget.
#[derive(Debug, Clone, Serialize)]
pub struct BudgetPoint {
    /// The budget, in words.
    pub budget: String,
    /// The same as a number: percent of a period or MB/s.
    pub number: f64,
    /// Slowdown of the kernel: its time over that alone.
    pub slowdown: Spread,
    /// Bandwidth of all hogs meanwhile, in MB/s.
    pub hogs: Spread,
}

/// Best-effort cores with a memory-bound and a compute-bound thread each, while the lock is held.
#[derive(Debug, Clone, Serialize)]
pub struct RuleRun {
    /// The rule: `default`, `rho = 1`, `rho = 3`.
    pub rule: String,
    /// Share of the periods that one of the threads had for which its core was stopped.
    pub stopped: Spread,
    /// Share of the periods that the memory-bound threads had.
    pub memory_periods: Spread,
    /// Virtual run time of the memory-bound threads, as a share of that of both.
    pub memory_virtual: Spread,
    /// Bandwidth of the memory-bound threads, in MB/s.
    pub memory: Spread,
    /// Bandwidth of the compute-bound ones out of their caches, in MB/s.
    pub compute: Spread,
}

/// Cost of taking the lock, in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct LockCost {
    /// Taking and giving back a lock that is held anyway; median, 99th percentile, largest.
    pub unchanged_ns: [f64; 3],
    /// Taking it when the regulator sleeps.
    pub taken_ns: [f64; 3],
    /// Taking it right after it was given back, when the regulator does not sleep yet.
    pub again_ns: [f64; 3],
    /// Giving it back.
    pub given_ns: [f64; 3],
    /// Time from the taking to the beginning of the first period, as the regulator says; as above.
    pub effect_ns: [f64; 3],
    /// Cost of waking a thread of that core by a bare futex: the floor under a taking.
    pub futex_ns: [f64; 3],
    /// Time from such a wake-up to the thread: the floor under the effect.
    pub woken_ns: [f64; 3],
    /// Lateness with which a timer wakes a thread of that core: the floor under a period.
    pub timer_ns: [f64; 3],
}

impl LockCost {
    /// All of it, in words; each floor below what stands on it.
    fn rows(&self) -> [(&'static str, [f64; 3]); 8] {
        [
            ("taken and given back, held anyway", self.unchanged_ns),
            ("taken again at once", self.again_ns),
            ("given back", self.given_ns),
            ("taken while the regulator sleeps", self.taken_ns),
            ("the machine: a bare futex wake", self.futex_ns),
            ("until the first period begins on a core", self.effect_ns),
            ("the machine: until a bare futex has woken", self.woken_ns),
            ("the machine: lateness of a timer", self.timer_ns),
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A spread around a number.
    pub(crate) fn near(number: f64) -> Spread {
        Spread::of(&[0.98, 0.99, 1.0, 1.01, 1.05].map(|factor| factor * number)).unwrap()
    }

    /// Two kernels: one that the hogs hardly touch, one that they do.
    pub(crate) fn run() -> BandwidthRun {
        let kernel = |name: &str, open: f64, locked: f64| KernelRun {
            name: name.into(),
            memory_bytes: 64 << 20,
            solo_ns: near(1e7),
            locked_ns: near(1.001e7),
            co_runs: [1, 4]
                .map(|hogs| CoRun {
                    hogs,
                    open_ns: near(1e7 * (1.0 + (open - 1.0) * hogs as f64 / 4.0)),
                    locked_ns: near(1e7 * locked),
                    open_hogs: near(9e3 * hogs as f64),
                    locked_hogs: near(2e2 * hogs as f64),
                })
                .into(),
        };
        let rule = |rule: &str, stopped| RuleRun {
            rule: rule.into(),
            stopped: near(stopped),
            memory_periods: near(0.75),
            memory_virtual: near(0.5),
            memory: near(200.0),
            compute: near(3e4),
        };
        let point = |number: f64, slowdown| BudgetPoint {
            budget: format!("{number} %"),
            number,
            slowdown: near(slowdown),
            hogs: near(100.0 * number),
        };
        BandwidthRun {
            device: "cpu".into(),
            hogs: HogFigures {
                access: "write".into(),
                array_bytes: 64 << 20,
                together: vec![(1, near(1e4)), (4, near(2e4))],
            },
            kernels: vec![kernel("sad", 1.04, 1.02), kernel("<lbm>", 3.0, 1.2)],
            budgets: Some(("histogram".into(), vec![point(50.0, 2.0), point(5.0, 1.1)])),
            rules: vec![rule("default", 0.7), rule("rho = 3", 0.2)],
            lock: Some(LockCost {
                unchanged_ns: [21.0, 30.0, 900.0],
                taken_ns: [800.0, 2e3, 9e3],
                again_ns: [60.0, 90.0, 300.0],
                given_ns: [15.0, 20.0, 700.0],
                effect_ns: [2e4, 4e4, 8e4],
                futex_ns: [700.0, 1e3, 8e3],
                woken_ns: [1e4, 3e4, 7e4],
                timer_ns: [5e3, 9e3, 6e4],
            }),
            marks: vec!["a <mark>".into()],
            ..BandwidthRun::default()
        }
    }

    #[test]
    fn share_of_the_loss_is_of_what_was_lost() {
        let run = run();
        let lbm = &run.kernels[1];
        let worst = lbm.worst().unwrap();
        assert_eq!(worst.hogs, 4);
        let (open, locked) = lbm.slowdown(worst);
        assert!((open - 3.0).abs() < 1e-9 && (locked - 1.2).abs() < 1e-9);
        assert!((lbm.taken_back(worst).unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(run.verdict(), (1, 1));
        assert!(run.conclusion().starts_with("With 4 hogs, <lbm> takes 3.00 times as long"));
    }

    #[test]
    fn kernel_that_loses_nothing_is_no_success_of_the_lock() {
        let mut run = run();
        run.kernels.pop();
        assert_eq!(run.verdict(), (0, 0));
        assert!(run.conclusion().contains("the most is +4 % (sad)"), "{}", run.conclusion());
        run.kernels[0].co_runs[1].open_ns = near(0.9e7);
        assert_eq!(run.kernels[0].taken_back(&run.kernels[0].co_runs[1]), None);
    }

    #[test]
    fn hogs_that_share_are_seen() {
        assert_eq!(run().hogs.scaling(), Some((4, 0.5)));
        assert_eq!(HogFigures::default().scaling(), None);
    }
}
