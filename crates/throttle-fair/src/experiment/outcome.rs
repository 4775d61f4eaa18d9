//! What came of the experiment: shares of periods, stopped time, virtual run times; whether it is what
//! document 001 reports; as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::regulator::{Period, Record};
use super::rule;

/// Of the virtual run times, every so many periods are kept.
const SERIES_STEP: usize = 10;
/// How far a share of periods may be from document 001's, which its figure 6 gives as 75 % under the
/// default scheduler and "roughly the same number" with rho = 1.
const TOLERANCE: f64 = 0.06;
/// Document 001, section VI-E: stopped time with rho 1 and 3, less than with the default scheduler by.
const REDUCTIONS: [(f64, f64); 2] = [(1.0, 0.39), (3.0, 0.62)];

/// Of a period, for it to count as one that both tasks had.
const MIXED: f64 = 0.01;

/// One scheduler with one budget.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The factor; `None` is the default scheduler.
    pub rho: Option<f64>,
    /// The periods that were counted.
    pub periods: usize,
    /// Those that the memory-bound task had: it ran, or the core was stopped because of it. Of a period
    /// that both had, each has the part for which it had the core.
    pub memory_periods: f64,
    /// Those that the compute-bound task had.
    pub compute_periods: f64,
    /// Those that both had, each a hundredth or more of it.
    pub mixed_periods: usize,
    /// Those in which the memory-bound task ran longer, stopped time not counted.
    pub memory_ran_longer: usize,
    /// Those in which the compute-bound task ran longer.
    pub compute_ran_longer: usize,
    /// Periods in which the core was stopped.
    pub stops: usize,
    /// How long it was, in all.
    pub stopped_ns: u64,
    /// How long the memory-bound task ran.
    pub memory_run_ns: u64,
    /// How long the compute-bound task ran.
    pub compute_run_ns: u64,
    /// Boundaries that the regulator's thread came too late for, and left out.
    pub skipped: u64,
    /// Page faults.
    pub faults: u64,
    /// Virtual run times of the memory-bound and of the compute-bound task, every tenth period.
    pub virtual_ns: Vec<[i64; 2]>,
}

impl Run {
    /// Adds up what was written down.
    pub fn of(rho: Option<f64>, record: &Record) -> Self {
        let periods = &record.periods;
        let ran_longer = |a: usize, b: usize| {
            periods.iter().filter(|period| period.run_ns[a] > period.run_ns[b]).count()
        };
        let parts: Vec<_> = periods.iter().filter_map(parts).collect();
        let had = |task: usize| parts.iter().map(|part| part[task]).sum();
        let ran = |task: usize| periods.iter().map(|period| period.run_ns[task]).sum();
        Self {
            rho,
            periods: periods.len(),
            memory_periods: had(0),
            compute_periods: had(1),
            mixed_periods: parts.iter().filter(|part| part[0].min(part[1]) >= MIXED).count(),
            memory_ran_longer: ran_longer(0, 1),
            compute_ran_longer: ran_longer(1, 0),
            stops: periods.iter().filter(|period| period.stopped_ns > 0).count(),
            stopped_ns: periods.iter().map(|period| period.stopped_ns).sum(),
            memory_run_ns: ran(0),
            compute_run_ns: ran(1),
            skipped: record.skipped,
            faults: record.faults,
            virtual_ns: periods
                .iter()
                .skip(SERIES_STEP - 1)
                .step_by(SERIES_STEP)
                .map(|period| period.virtual_ns)
                .collect(),
        }
    }

    /// The share of the periods that were the memory-bound task's, of those that were somebody's.
    pub fn memory_share(&self) -> f64 {
        self.memory_periods / (self.memory_periods + self.compute_periods)
    }
}

/// The parts of a period that the tasks had; `None` when neither ran.
fn parts(period: &Period) -> Option<[f64; 2]> {
    let had = [period.run_ns[0] + period.stopped_ns, period.run_ns[1]].map(|ns| ns as f64);
    let both = had[0] + had[1];
    (both > 0.0).then(|| had.map(|ns| ns / both))
}

/// All schedulers with one budget.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The part of a period after which the memory-bound task is meant to be stopped.
    pub fraction: f64,
    /// The budget for that: page faults of the core in a period.
    pub budget: u64,
    /// The default scheduler first.
    pub runs: Vec<Run>,
}

impl Case {
    /// By how much of itself the stopped time of a run is less than the default scheduler's.
    pub fn reduction(&self, run: &Run) -> f64 {
        1.0 - run.stopped_ns as f64 / self.runs[0].stopped_ns as f64
    }
}

/// The whole experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Of the kernel that ran it.
    pub kernel: String,
    /// What processor it says that it has.
    pub processor: String,
    /// The period.
    pub period_ns: u64,
    /// Page faults per millisecond of the memory-bound task alone, which the budgets come from.
    pub faults_per_ms: f64,
    /// The cases: the one for the shares first, the one for the stopped time second.
    pub cases: Vec<Case>,
}

impl Outcome {
    /// What is not as document 001 reports it; empty is what has to be.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut shortfalls = Vec::new();
        let [shares, stopped] = &self.cases[..] else {
            return vec![format!("{} budgets were tried; expected 2", self.cases.len())];
        };
        for run in &shares.runs {
            let share = run.memory_share();
            let wanted = match run.rho {
                None => 0.75 - TOLERANCE..=0.75 + TOLERANCE,
                Some(1.0) => 0.5 - TOLERANCE..=0.5 + TOLERANCE,
                // In favour of the compute-bound task, and the other one does not starve.
                Some(_) => 0.1..=0.5 - TOLERANCE,
            };
            if !wanted.contains(&share) {
                shortfalls.push(format!(
                    "{}: the memory-bound task has {:.1} % of the periods; expected {:.0} to {:.0} %",
                    name(run),
                    share * 100.0,
                    wanted.start() * 100.0,
                    wanted.end() * 100.0
                ));
            }
        }
        for (rho, least) in REDUCTIONS {
            let run = stopped.runs.iter().find(|run| run.rho == Some(rho));
            let reduction = run.map_or(f64::NAN, |run| stopped.reduction(run));
            // Not a number is not enough either.
            if reduction.is_nan() || reduction < least {
                shortfalls.push(format!(
                    "rho {rho}: the stopped time is {:.1} % less; expected at least {:.0} %",
                    reduction * 100.0,
                    least * 100.0
                ));
            }
        }
        shortfalls
    }

    /// Tables for people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "Linux {}, {}; periods of {:.3} ms; the memory-bound task alone: {:.1} page faults a ms\n",
            self.kernel,
            self.processor,
            self.period_ns as f64 / 1e6,
            self.faults_per_ms
        );
        for case in &self.cases {
            let _ = write!(
                text,
                "\nBudget {} page faults a period, {:.3} of a period of the memory-bound task\n\n\
                 {:<10}{:>8}{:>8}{:>9}{:>8}{:>10}{:>7}{:>8}{:>7}{:>11}{:>9}{:>8}{:>9}{:>10}{:>10}{:>8}\n",
                case.budget,
                case.fraction,
                "scheduler",
                "memory",
                "compute",
                "share",
                "rule",
                "ran",
                "mixed",
                "stops",
                "early",
                "stopped ms",
                "less",
                "rule",
                "mem ms",
                "comp ms",
                "V m:c",
                "skipped"
            );
            for run in &case.runs {
                text += &row(case, run, self.period_ns);
            }
        }
        text + NOTES
    }
}

const NOTES: &str = "
memory, compute: periods that the task had: it ran, or the core was stopped because of it; one that
both had is divided, and mixed says how many those are; share: of the memory-bound task; ran: whole
periods, by which task ran longer in them; early: after which part of a period the core was stopped,
mean; less: stopped time, against the default scheduler; rule: what equation 2 gives for the part of a
period in the heading; mem ms, comp ms: run times; V m:c: how much the virtual run time of the
memory-bound task grew, to the compute-bound one's; skipped: periods that the regulator left out
because it did not get the core in time.
";

fn name(run: &Run) -> String {
    run.rho.map_or_else(|| "default".into(), |rho| format!("rho {rho}"))
}

fn row(case: &Case, run: &Run, period_ns: u64) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let rho = run.rho.unwrap_or(0.0);
    let stop_ns = run.stopped_ns as f64 / run.stops as f64;
    let (memory, compute) = run.virtual_ns.last().map_or((0, 1), |last| (last[0], last[1]));
    format!(
        "{:<10}{:>8.1}{:>8.1}{:>7.1} %{:>6.1} %{:>10}{:>7}{:>8}{:>7.3}{:>11.1}{:>7.1} %{:>6.1} %{:>9.1}{:>10.1}{:>10.3}{:>8}\n",
        name(run),
        run.memory_periods,
        run.compute_periods,
        run.memory_share() * 100.0,
        rule::memory_share(case.fraction, rho) * 100.0,
        format!("{}:{}", run.memory_ran_longer, run.compute_ran_longer),
        run.mixed_periods,
        run.stops,
        1.0 - stop_ns / period_ns as f64,
        ms(run.stopped_ns),
        case.reduction(run) * 100.0,
        rule::reduction(case.fraction, rho) * 100.0,
        ms(run.memory_run_ns),
        ms(run.compute_run_ns),
        memory as f64 / compute as f64,
        run.skipped
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose periods are shared as the rule says, and its stops as long.
    fn run(fraction: f64, rho: Option<f64>, share: f64) -> Run {
        let memory = (1000.0 * share).round() as usize;
        let period_ns = 1e6;
        let stopped = Period {
            run_ns: [(period_ns * fraction) as u64, 0],
            stopped_ns: (period_ns * (1.0 - fraction)) as u64,
            virtual_ns: [1, 1],
        };
        let free = Period { run_ns: [0, period_ns as u64], ..Period::default() };
        let periods = (0..1000).map(|index| if index < memory { stopped } else { free }).collect();
        Run::of(rho, &Record { periods, ..Record::default() })
    }

    fn case(fraction: f64) -> Case {
        let runs = [None, Some(1.0), Some(3.0)];
        let runs =
            runs.map(|rho| run(fraction, rho, rule::memory_share(fraction, rho.unwrap_or(0.0))));
        Case { fraction, budget: 10, runs: runs.into() }
    }

    fn outcome() -> Outcome {
        Outcome {
            kernel: "7".into(),
            processor: "one".into(),
            period_ns: 1_000_000,
            faults_per_ms: 100.0,
            cases: vec![case(1.0 / 3.0), case(1.0 / 6.0)],
        }
    }

    #[test]
    fn what_the_rule_gives_is_what_document_001_reports() {
        assert_eq!(outcome().shortfalls(), Vec::<String>::new());
    }

    #[test]
    fn share_that_is_off_is_said_with_its_bounds() {
        let mut outcome = outcome();
        outcome.cases[0].runs[1] = run(1.0 / 3.0, Some(1.0), 0.75);
        let shortfalls = outcome.shortfalls();
        assert_eq!(shortfalls.len(), 1);
        assert!(shortfalls[0].contains("rho 1") && shortfalls[0].contains("75.0 %"));
        assert!(shortfalls[0].contains("44 to 56 %"), "{}", shortfalls[0]);
    }

    #[test]
    fn stopped_time_that_does_not_shrink_enough_is_said() {
        let mut outcome = outcome();
        outcome.cases[1].runs[2] = outcome.cases[1].runs[1].clone();
        outcome.cases[1].runs[2].rho = Some(3.0);
        let shortfalls = outcome.shortfalls();
        assert_eq!(shortfalls.len(), 1);
        assert!(shortfalls[0].contains("rho 3") && shortfalls[0].contains("at least 62 %"));
    }

    #[test]
    fn experiment_that_never_stopped_the_core_shows_nothing() {
        let mut outcome = outcome();
        for run in &mut outcome.cases[1].runs {
            run.stopped_ns = 0;
        }
        assert_eq!(outcome.shortfalls().len(), 2);
    }

    #[test]
    fn period_that_both_tasks_had_is_divided_by_how_long_they_had_the_core() {
        let both = |memory, compute, stopped_ns| Period {
            run_ns: [memory, compute],
            stopped_ns,
            ..Period::default()
        };
        let periods = vec![both(100, 0, 300), both(1, 2, 1), both(0, 7, 0), both(0, 0, 0)];
        let run = Run::of(None, &Record { periods, ..Record::default() });
        assert_eq!((run.memory_periods, run.compute_periods), (1.5, 1.5));
        assert_eq!((run.mixed_periods, run.periods), (1, 4));
        assert_eq!((run.memory_ran_longer, run.compute_ran_longer), (1, 2));
    }
}
