//! BWLOCK++'s Figs. 5, 6 and 10: who runs on a best-effort core that is stopped at times, and
//! how much it is stopped, under each scheduling rule: the experiment of `keeptime-lab bench regulate`
//! on all best-effort cores.

use std::time::Duration;

use anyhow::Context;
use bandwidth::regulator::Budget;
use report::bandwidth::{RuleRun, Spread};

use super::super::regulate::regulate_experiment::{Experiment, RULES, STOPPED_AFTER, Span, faults};
use super::measure::Bench;
use super::protection::Manner;
use throttle_fair::{By, Chosen};

/// Rounds, in each of which all rules have their turn.
const ROUNDS: usize = 3;

/// Results of all rules, with the budget and the implementation.
pub(super) struct Rules {
    /// The budget of a core in words.
    pub budget: String,
    /// Implementation that put throttle-fair scheduling into effect.
    pub chosen: Option<Chosen>,
    pub runs: Vec<RuleRun>,
}

/// Measures all rules.
pub(super) fn measure(bench: &Bench, duration: Duration, by: By) -> anyhow::Result<Rules> {
    let Manner { cores, period, budget } = bench.manner.clone();
    let are_faults = !matches!(budget, Budget::Bytes { .. });
    let mut experiment = Experiment::start((&cores, &bench.home), period, by, are_faults)?;
    // A budget of bytes tells the threads apart as it is.
    let budget = if are_faults { faults(experiment.faults(STOPPED_AFTER)?) } else { budget };
    let turns = experiment.turns(&budget, duration, ROUNDS, || ())?;
    let chosen = turns[1].first().map(|span| span.chosen.clone());
    let run = |(rho, spans): (&Option<f64>, &Vec<Span>)| run(*rho, spans, period);
    let runs = RULES.iter().zip(&turns).map(run).collect::<Option<_>>();
    let runs = runs.context("the regulator reported no threads")?;
    Ok(Rules { budget: Manner { cores, period, budget }.words().1, chosen, runs })
}

fn run(rho: Option<f64>, spans: &[Span], period: Duration) -> Option<RuleRun> {
    let column = |of: &dyn Fn(&Span) -> f64| {
        let samples: Vec<f64> = spans.iter().map(of).collect();
        Spread::of(&samples)
    };
    let virtual_share = |span: &Span| {
        span.kinds[0].virtual_ns / (span.kinds[0].virtual_ns + span.kinds[1].virtual_ns)
    };
    Some(RuleRun {
        rule: rho.map_or_else(|| "default".into(), |rho| format!("rho = {rho}")),
        stopped: column(&|span| span.stopped_share(period))?,
        memory_periods: column(&Span::memory_share)?,
        memory_virtual: column(&virtual_share)?,
        memory: column(&|span| span.kinds[0].mb_per_s)?,
        compute: column(&|span| span.kinds[1].mb_per_s)?,
    })
}
