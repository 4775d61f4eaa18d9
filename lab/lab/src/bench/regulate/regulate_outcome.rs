//! Outcome of the bench, its differences from BWLOCK++, and its text.

use serde::Serialize;

use super::effect::Effect;
use super::regulate_experiment::Span;
use crate::bench::sample::Quantiles;
use terminal::table::Table;
use throttle_fair::Chosen;

/// Largest distance of a share of periods from BWLOCK++'s: 3 to 1 under the default scheduler, and
/// "roughly the same number" with rho 1.
const TOLERANCE: f64 = 0.06;
/// BWLOCK++, section VI-E: how much less the core is stopped with rho 1 and 3 than under the
/// default scheduler.
const REDUCTIONS: [(f64, f64); 2] = [(1.0, 0.39), (3.0, 0.62)];

/// Results of a rule with a budget, all rounds together. The memory-bound thread is the first of a
/// pair.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Run {
    /// The factor; none under the default scheduler.
    pub rho: Option<f64>,
    pub periods: u64,
    pub stops: u64,
    /// Stopped time, also for faults of others that ran there.
    pub stopped_ns: u64,
    /// Part of it that the memory-bound thread was charged with.
    pub charged_ns: u64,
    /// Periods that each thread had: it ran, or the core was stopped because of it.
    pub had_periods: [f64; 2],
    pub run_ns: [u64; 2],
    pub virtual_ns: [f64; 2],
    /// Rate of each thread, megabytes (10^6) a second, in each round.
    pub mb_per_s: Vec<[f64; 2]>,
    /// The memory-bound thread's share of the periods in each round.
    pub shares: Vec<f64>,
}

impl Run {
    /// Adds up the rounds.
    pub(super) fn of(rho: Option<f64>, rounds: &[Span]) -> Run {
        let mut run = Run { rho, ..Run::default() };
        rounds.iter().for_each(|span| run.add(span));
        run
    }

    fn add(&mut self, span: &Span) {
        self.periods += span.periods;
        self.stops += span.stops;
        self.stopped_ns += span.stopped_ns;
        self.shares.push(span.memory_share());
        self.mb_per_s.push(span.kinds.map(|kind| kind.mb_per_s));
        for (place, kind) in span.kinds.iter().enumerate() {
            self.had_periods[place] += kind.periods;
            self.run_ns[place] += kind.run_ns;
            self.virtual_ns[place] += kind.virtual_ns;
        }
        self.charged_ns += span.kinds[0].charged_ns;
    }

    fn share(&self) -> f64 {
        self.had_periods[0] / (self.had_periods[0] + self.had_periods[1])
    }

    /// Stopped time of a period that one of the two had: others who have the core now and then,
    /// more of it in one run than in another, do not count.
    fn stopped_of_period(&self) -> f64 {
        self.charged_ns as f64 / (self.had_periods[0] + self.had_periods[1])
    }

    fn name(&self) -> String {
        self.rho.map_or_else(|| "default".into(), |rho| format!("rho {rho}"))
    }
}

/// All rules with one budget.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    /// The part of a period after which the memory-bound thread is meant to be stopped.
    pub fraction: f64,
    /// Page faults of a period.
    pub budget: u64,
    /// The default scheduler first.
    pub runs: Vec<Run>,
}

impl Case {
    fn reduction(&self, run: &Run) -> f64 {
        1.0 - run.stopped_of_period() / self.runs[0].stopped_of_period()
    }
}

/// The whole bench.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub kernel: String,
    pub processor: String,
    pub period_ns: u64,
    /// Implementation that put throttle-fair scheduling into effect.
    pub fair: Option<Chosen>,
    pub effects: Vec<Effect>,
    /// The one for the shares first, the one for the stopped time second.
    pub cases: Vec<Case>,
}

/// Equation 2 with a task that is stopped after a part f of its periods: the memory-bound one gets
/// 1 / (1 + f + rho (1 - f)) of them.
fn rule(fraction: f64, rho: f64) -> f64 {
    1.0 / (1.0 + fraction + rho * (1.0 - fraction))
}

impl Outcome {
    /// Returns the results that are not as BWLOCK++ reports them; an empty list is required.
    pub(super) fn shortfalls(&self) -> Vec<String> {
        let [shares, stopped] = &self.cases[..] else {
            return vec![format!("{} budgets were tried; expected 2", self.cases.len())];
        };
        let mut shortfalls = Vec::new();
        for run in &shares.runs {
            let wanted = match run.rho {
                None => 0.75 - TOLERANCE..=0.75 + TOLERANCE,
                Some(1.0) => 0.5 - TOLERANCE..=0.5 + TOLERANCE,
                // In favour of the compute-bound task, and the other one does not starve.
                Some(_) => 0.1..=0.5 - TOLERANCE,
            };
            if !wanted.contains(&run.share()) {
                shortfalls.push(format!(
                    "{}: the memory-bound thread has {:.1} % of the periods, expected {:.0} to {:.0} %",
                    run.name(),
                    run.share() * 100.0,
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
                    "rho {rho}: the stopped time is {:.1} % less, expected {:.0} % or more",
                    reduction * 100.0,
                    least * 100.0
                ));
            }
        }
        shortfalls
    }

    /// Tables for people.
    pub(super) fn text(&self) -> String {
        let period_ms = self.period_ns as f64 / 1e6;
        let mut text =
            format!("Linux {}, {}; periods of {period_ms} ms\n", self.kernel, self.processor);
        if let Some(fair) = &self.fair {
            text += &format!("throttle-fair scheduling {}: {}\n", fair.words(), fair.why);
        }
        if !self.effects.is_empty() {
            text += &format!("\n{}", effects(&self.effects));
        }
        for case in &self.cases {
            text += &format!(
                "\nBudget {} page faults a period: {:.3} of a period of the memory-bound thread\n\n{}",
                case.budget,
                case.fraction,
                self.case(case)
            );
        }
        text + NOTES
    }

    fn case(&self, case: &Case) -> String {
        let heading = [
            "scheduler",
            "memory",
            "compute",
            "share",
            "rounds",
            "rule",
            "stops",
            "stopped",
            "charged",
            "less",
            "rule",
            "mem ran",
            "comp ran",
            "V mem:comp",
        ];
        let mut table = Table::new(&heading, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
        let ms = |ns: u64| format!("{:.0} ms", ns as f64 / 1e6);
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        for run in &case.runs {
            let rho = run.rho.unwrap_or(0.0);
            let ends = |choose: fn(f64, f64) -> f64| run.shares.iter().copied().reduce(choose);
            let (least, most) = (ends(f64::min), ends(f64::max));
            table.row([
                run.name(),
                format!("{:.0}", run.had_periods[0]),
                format!("{:.0}", run.had_periods[1]),
                percent(run.share()),
                format!("{:.0}-{:.0}", least.unwrap_or(0.0) * 100.0, most.unwrap_or(0.0) * 100.0),
                percent(rule(case.fraction, rho)),
                run.stops.to_string(),
                ms(run.stopped_ns),
                ms(run.charged_ns),
                percent(case.reduction(run)),
                percent(1.0 - rule(case.fraction, rho) / rule(case.fraction, 0.0)),
                ms(run.run_ns[0]),
                ms(run.run_ns[1]),
                format!("{:.3}", run.virtual_ns[0] / run.virtual_ns[1]),
            ]);
        }
        table.render()
    }
}

const NOTES: &str = "
memory, compute: periods that the task had: it ran, or the core was stopped because of it, and one that
both had is divided; share: of the memory-bound thread; rounds: the least and the largest share of a
round; rule: what equation 2 gives for the part of a period above the table; stopped: all of it, also
for faults of whatever else ran there; charged: of it, the memory-bound thread's; less: charged time of a
period that one of the two had, against the default scheduler; V: how much the virtual run times grew.
";

fn effects(effects: &[Effect]) -> String {
    let heading = [
        "core's thread",
        "effect p50",
        "p99",
        "longest",
        "taking p50",
        "p99",
        "release p50",
        "p99",
        "core's work",
    ];
    let mut table = Table::new(&heading, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let us = |ns: f64| format!("{:.2} us", ns / 1e3);
    let two = |quantiles: Option<Quantiles>| {
        quantiles.map_or_else(Default::default, |it| [it.p50_ns, it.p99_ns].map(us))
    };
    for effect in effects {
        let ([taking, taking_p99], [release, release_p99]) =
            (two(effect.taking), two(effect.release));
        table.row([
            effect.thread.clone(),
            us(effect.effect.p50_ns as f64),
            us(effect.effect.p99_ns as f64),
            us(effect.effect.longest_ns as f64),
            taking,
            taking_p99,
            release,
            release_p99,
            effect.work.map_or_else(String::new, |work| format!("{:.1} %", work * 100.0)),
        ]);
    }
    table.render() + EFFECTS
}

const EFFECTS: &str = "
bare futex, bare timer: what belongs to the machine: a real-time thread of the same core that is
woken and does nothing else, from its wake-up, or from when the timer was due; core's work: what
the core gets done while the lock is free, of what it gets done without a regulator.
";

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose periods are shared as the rule says, and its stops as long.
    fn run(fraction: f64, rho: Option<f64>) -> Run {
        let share = rule(fraction, rho.unwrap_or(0.0));
        let charged_ns = (share * 1e9 * (1.0 - fraction)) as u64;
        let had_periods = [1000.0 * share, 1000.0 * (1.0 - share)];
        Run { rho, had_periods, charged_ns, ..Run::default() }
    }

    fn outcome() -> Outcome {
        let runs = |fraction| [None, Some(1.0), Some(3.0)].map(|rho| run(fraction, rho)).into();
        let case = |fraction| Case { fraction, budget: 10, runs: runs(fraction) };
        Outcome {
            kernel: "7".into(),
            processor: "one".into(),
            period_ns: 1_000_000,
            fair: None,
            effects: Vec::new(),
            cases: vec![case(1.0 / 3.0), case(1.0 / 6.0)],
        }
    }

    #[test]
    fn rule_gives_the_budgets_that_bwlock_reports() {
        assert_eq!(outcome().shortfalls(), Vec::<String>::new());
        assert!((rule(1.0 / 3.0, 0.0) - 0.75).abs() < 1e-9);
        assert!((rule(1.0 / 3.0, 1.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn share_and_stopped_time_that_are_off_are_said() {
        let mut off = outcome();
        off.cases[0].runs[1] = Run { rho: Some(1.0), ..off.cases[0].runs[0].clone() };
        let shortfalls = off.shortfalls();
        assert_eq!(shortfalls.len(), 1);
        assert!(shortfalls[0].contains("rho 1") && shortfalls[0].contains("75.0 %"));
        let mut off = outcome();
        off.cases[1].runs[2] = Run { rho: Some(3.0), ..off.cases[1].runs[1].clone() };
        assert!(off.shortfalls()[0].contains("rho 3: the stopped time is"));
        // A core that was never stopped shows nothing.
        let mut never = outcome();
        never.cases[1].runs.iter_mut().for_each(|run| run.charged_ns = 0);
        assert_eq!(never.shortfalls().len(), 2);
    }
}
