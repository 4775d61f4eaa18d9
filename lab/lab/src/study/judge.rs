//! Judges one set by every method.

use analysis::assign::{AssignOptions, Held, assign};
use analysis::generate::{deadline_monotonic, stream};
use analysis::sensitivity::sensitivity;
use analysis::simulate::{ChainOutcome, Scenario, Simulator};
use analysis::{Analyzer, Error, Status, System, Variant, Watch};
use anyhow::Context;
use trial::signals;

use super::Plan;
use super::method::{Assignment, Method, Test};
use super::row::Row;

/// Keeps the random numbers of schedules apart from those of sets.
const SCHEDULES: u64 = 0x5c4e_d01e;

/// Judges set after set; every thread has one. What it says of a set counts only if no signal has
/// come until then.
pub(super) struct Judge<'p> {
    plan: &'p Plan,
    watch: Watch,
    analyzer: Analyzer,
}

/// Verdict of a method on a set.
struct Verdict {
    schedulable: bool,
    chains_ok: usize,
    slack: Slack,
    scale: Option<f64>,
}

/// The least distance of a response time to its deadline.
#[derive(Default)]
struct Slack {
    ns: Option<i64>,
    share: Option<f64>,
}

impl<'p> Judge<'p> {
    /// A judge who has seen nothing.
    pub(super) fn new(plan: &'p Plan) -> Judge<'p> {
        let watch = Watch::new(|_| is_wanted());
        Judge { plan, analyzer: Analyzer::watched(&watch), watch }
    }

    /// Rows of a set, one for each method.
    ///
    /// # Errors
    /// A set cannot be drawn, or contradicts itself; names the point and the set.
    pub(super) fn judge(
        &mut self,
        point: usize,
        set: u64,
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        let study = &self.plan.study;
        let number = study.points[point].number;
        let given = self.plan.source.draw(study.seed, &study.points[point], set)?;
        let mut schedules = stream(study.seed ^ SCHEDULES, number, set);
        let schedules = schedules.u64(..);
        for (index, &method) in self.plan.methods.iter().enumerate() {
            let verdict = self
                .verdict(&given, method, schedules)
                .with_context(|| format!("point {number}, set {set}, {method}"))?;
            rows.push(Row {
                point,
                set,
                method: index,
                schedulable: verdict.schedulable,
                chains_ok: verdict.chains_ok as u32,
                worst_slack_ns: verdict.slack.ns,
                worst_slack: verdict.slack.share,
                scale: verdict.scale,
            });
        }
        Ok(())
    }

    fn verdict(
        &mut self,
        given: &System,
        method: Method,
        schedules: u64,
    ) -> Result<Verdict, Error> {
        let assigned = assigned(given, method, &self.watch)?;
        let system = assigned.as_ref().unwrap_or(given);
        match method.test {
            Test::Bound(variant) => self.bound(system, variant),
            Test::Simulation => simulated(system, self.plan.schedules, schedules),
        }
    }

    fn bound(&mut self, system: &System, variant: Variant) -> Result<Verdict, Error> {
        self.analyzer.load(system)?;
        let verdict = self.analyzer.run(variant);
        let ok = |chain: &&(Status, Option<u64>)| chain.0 == Status::Ok;
        let scale = match self.plan.scale {
            Some(scale) => sensitivity(system, variant, scale, &self.watch)?.permille,
            None => None,
        };
        Ok(Verdict {
            schedulable: verdict.schedulable,
            chains_ok: verdict.chains.iter().filter(ok).count(),
            slack: Slack::of(system, verdict.chains.iter().map(|chain| chain.1)),
            scale: scale.map(|permille| permille as f64 / 1000.0),
        })
    }
}

/// Returns true until a signal comes.
pub(super) fn is_wanted() -> bool {
    signals::interrupted().is_none()
}

/// The system with other priorities; none where it keeps its own.
fn assigned(given: &System, method: Method, watch: &Watch) -> Result<Option<System>, Error> {
    match (method.assignment, method.test) {
        (Assignment::DeadlineMonotonic, _) => Ok(Some(deadline_monotonic(given))),
        (Assignment::Search, Test::Bound(variant)) => {
            let options = AssignOptions { variant, effort: 0, ..AssignOptions::default() };
            let found = assign(given, &[], &Held::default(), &options, watch)?;
            Ok(Some(found.system))
        }
        (Assignment::Given | Assignment::Search, _) => Ok(None),
    }
}

/// Simulates the schedule in which all chains begin together, then random ones.
fn simulated(system: &System, schedules: u32, seed: u64) -> Result<Verdict, Error> {
    let mut simulator = Simulator::new(system)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut late = vec![false; system.chains.len()];
    let mut worst_ns = vec![None; system.chains.len()];
    for schedule in 0..schedules {
        let scenario = match schedule {
            0 => Scenario::synchronous(system),
            _ => Scenario::random(system, rng.u64(..)),
        };
        if !simulator.run_watched(&scenario, &mut |_| is_wanted()) {
            return Err(Error::Stopped);
        }
        for (index, chain) in simulator.outcome().chains.iter().enumerate() {
            late[index] |= is_late(chain);
            worst_ns[index] = worst_ns[index].max(chain.worst_ns);
        }
    }
    Ok(Verdict {
        schedulable: late.iter().zip(&system.chains).all(|(late, c)| c.best_effort || !late),
        chains_ok: late.iter().filter(|late| !**late).count(),
        slack: Slack::of(system, worst_ns.into_iter()),
        scale: None,
    })
}

fn is_late(chain: &ChainOutcome) -> bool {
    chain.misses > 0 || chain.overloaded || chain.unfinished > 0
}

impl Slack {
    /// None where a chain has no response time.
    fn of(system: &System, responses: impl Iterator<Item = Option<u64>>) -> Slack {
        let mut slack = Slack::default();
        for (chain, response_ns) in system.chains.iter().zip(responses) {
            let Some(response_ns) = response_ns else { return Slack::default() };
            let deadline_ns = chain.deadline_ns as i64;
            let ns = deadline_ns - i64::try_from(response_ns).unwrap_or(i64::MAX);
            let share = ns as f64 / deadline_ns as f64;
            slack.ns = Some(slack.ns.map_or(ns, |least| least.min(ns)));
            slack.share = Some(slack.share.map_or(share, |least| least.min(share)));
        }
        slack
    }
}
