//! Plan of a study: experiments, each a list of scenarios and of policies, by one or both stacks.

use crate::{Clock, Error, Experiment, Factor, Key, Scenarios, Suite};
use driving::Policy;
use driving::stack::{Middleware, Stack};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The scenarios and policies of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The experiment.
    pub experiment: Experiment,
    /// Numbers of scenarios in its suite.
    pub scenarios: Vec<usize>,
    /// Names of policies.
    pub policies: Vec<String>,
}

/// Settings that decide which drives are made, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The version of what drives.
    pub version: String,
    /// `a`, `b` or both.
    pub stacks: Vec<String>,
    /// Factor by which the simulated cores are slower than the machine's.
    pub factor: Factor,
    /// Frames until an object is confirmed.
    pub confirm_frames: u32,
    /// The experiments.
    pub parts: Vec<Part>,
    /// True if several cores of a stack share one of the machine, on the wall clock.
    #[serde(default, skip_serializing_if = "is_not")]
    pub folded: bool,
    /// Transport of messages from module to module.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub middleware: Middleware,
    /// Number of times that everything is driven, on each clock.
    #[serde(default = "once_each", skip_serializing_if = "is_once")]
    pub repeats: u32,
}

fn once_each() -> u32 {
    1
}

fn is_once(repeats: &u32) -> bool {
    *repeats == once_each()
}

fn is_not(flag: &bool) -> bool {
    !flag
}

fn is_usual(middleware: &Middleware) -> bool {
    *middleware == Middleware::default()
}

/// A scenario to be driven by a stack, under several policies one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unit {
    /// Suite that it is from.
    pub suite: Suite,
    /// Its number there.
    pub index: usize,
    /// The stack.
    pub stack: Stack,
    /// The policies, in this order.
    pub policies: Vec<Policy>,
    /// True if the causes of base's latency are kept.
    pub characterised: bool,
    /// Number of times that it has been driven before.
    pub repeat: u32,
}

impl Study {
    /// Study of these experiments; with their own scenarios and policies where none are given.
    ///
    /// # Errors
    /// The options name something that does not exist, or something twice.
    pub fn new(
        experiments: &[Experiment],
        scenarios: Option<Scenarios>,
        policies: Option<&[Policy]>,
        stacks: &[Stack],
        (factor, confirm_frames): (Factor, u32),
    ) -> Result<Study, Error> {
        once("--experiment", experiments.iter().map(|one| one.name().to_owned()))?;
        alone(experiments)?;
        once("--stack", stacks.iter().map(|stack| letter(*stack).to_owned()))?;
        once("--policy", policies.unwrap_or_default().iter().map(Policy::to_string))?;
        let part = |experiment: Experiment| {
            let scenarios = match experiment.suite() {
                None => Vec::new(),
                Some(suite) => scenarios.unwrap_or(experiment.scenarios()).of(suite)?,
            };
            let own = experiment.policies();
            let chosen = if experiment.keeps_policies() { &own } else { policies.unwrap_or(&own) };
            let policies = chosen.iter().map(Policy::to_string).collect();
            Ok(Part { experiment, scenarios, policies })
        };
        let parts = experiments.iter().map(|one| part(*one)).collect::<Result<Vec<_>, Error>>()?;
        for part in parts.iter().filter(|part| part.experiment == Experiment::Clocks) {
            on_the_wall(part, factor)?;
        }
        Ok(Study {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            stacks: stacks.iter().map(|stack| letter(*stack).to_owned()).collect(),
            factor,
            confirm_frames,
            parts,
            folded: false,
            middleware: Middleware::default(),
            repeats: once_each(),
        })
    }

    /// The same, with `repeats` drives of each scenario on each clock.
    ///
    /// # Errors
    /// More than once, and about what counts each scenario once.
    pub fn with_repeats(self, repeats: u32) -> Result<Study, Error> {
        let often = |part: &Part| part.experiment.is_repeatable();
        if repeats == 0 || repeats > 1 && !self.parts.iter().all(often) {
            let names = Experiment::ALL.into_iter().filter(|one| one.is_repeatable());
            let names: Vec<&str> = names.map(Experiment::name).collect();
            let expected = format!("1, or more with --experiment {} alone", names.join(", "));
            return Err(Error::Option { option: "--repeat", found: repeats.to_string(), expected });
        }
        Ok(Study { repeats, ..self })
    }

    /// The same, with messages that get from module to module like this.
    ///
    /// # Errors
    /// There are modules in it that get their inputs by themselves.
    pub fn with_middleware(self, middleware: Middleware) -> Result<Study, Error> {
        if !is_usual(&middleware) && self.is_one_by_one() {
            let usual = Middleware::default();
            let expected = format!("{usual} with --experiment modules, which carries no messages");
            let found = middleware.to_string();
            return Err(Error::Option { option: "--middleware", found, expected });
        }
        Ok(Study { middleware, ..self })
    }

    /// Returns true if the machine may make only one drive at a time.
    pub fn is_one_by_one(&self) -> bool {
        self.parts.iter().any(|part| part.experiment == Experiment::Modules)
    }

    /// The policies that are driven on the wall clock.
    pub fn on_wall(&self) -> Vec<Policy> {
        let clocks = self.parts.iter().filter(|part| part.experiment == Experiment::Clocks);
        clocks.flat_map(|part| &part.policies).filter_map(|name| name.parse().ok()).collect()
    }

    /// Everything that is driven, each drive once; an error says what a study from a file has that
    /// does not exist.
    pub(crate) fn units(&self) -> Result<Vec<Unit>, String> {
        let mut units: Vec<Unit> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for part in &self.parts {
            let Some(suite) = part.experiment.suite() else { continue };
            let policies: Vec<Policy> = (part.policies.iter())
                .map(|name| name.parse().map_err(|reason| format!("policy {name}: {reason}")))
                .collect::<Result<_, String>>()?;
            for index in part.scenarios.iter().copied() {
                if index >= suite.size() {
                    let (name, last) = (suite.name(), suite.size() - 1);
                    return Err(format!("{name} scenario {index}, expected 0 to {last}"));
                }
                let most = if suite.of_one_stack() { 1 } else { usize::MAX };
                for name in self.stacks.iter().take(most) {
                    let stack = stack(name).ok_or(format!("stack {name}, expected a or b"))?;
                    let place = *places.entry((suite, index, stack)).or_insert_with(|| {
                        let (policies, characterised) = (Vec::new(), false);
                        let repeat = 0;
                        units.push(Unit { suite, index, stack, policies, characterised, repeat });
                        units.len() - 1
                    });
                    let unit = &mut units[place];
                    unit.policies.extend(&policies);
                    unit.characterised |= part.experiment == Experiment::Characterise;
                    let mut seen = HashSet::new();
                    unit.policies.retain(|policy| seen.insert(*policy));
                }
            }
        }
        // All of it once, then all of it again: what ends early has every scenario.
        let again = |repeat| units.iter().map(move |unit| Unit { repeat, ..unit.clone() });
        Ok((0..self.repeats).flat_map(again).collect())
    }
}

impl Unit {
    /// Returns its drives on all clocks.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (Policy, Key)> {
        self.suite.clocks().iter().flat_map(|clock| self.on(*clock))
    }

    /// Returns its drives on a clock.
    pub(crate) fn on(&self, clock: Clock) -> impl Iterator<Item = (Policy, Key)> {
        let policies = if self.suite.clocks().contains(&clock) { &self.policies[..] } else { &[] };
        policies.iter().map(move |policy| {
            let (stack, policy_name) = (letter(self.stack).to_owned(), policy.to_string());
            let (suite, index, repeat) = (self.suite, self.index, self.repeat);
            (*policy, Key { suite, index, stack, policy: policy_name, clock, repeat })
        })
    }
}

/// A stack in a letter.
pub(crate) fn letter(stack: Stack) -> &'static str {
    match stack {
        Stack::A => "a",
        Stack::B => "b",
    }
}

fn stack(letter: &str) -> Option<Stack> {
    match letter {
        "a" => Some(Stack::A),
        "b" => Some(Stack::B),
        _ => None,
    }
}

/// Some have the machine for themselves.
fn alone(experiments: &[Experiment]) -> Result<(), Error> {
    let alone = experiments.iter().find(|one| one.is_alone()).map(|one| one.name());
    if let Some(name) = alone.filter(|_| experiments.len() > 1) {
        let found = format!("{name} and {} others", experiments.len() - 1);
        let expected = format!("{name} alone: nothing else may run beside it");
        return Err(Error::Option { option: "--experiment", found, expected });
    }
    Ok(())
}

/// Refuses policies and factors that no real core has.
fn on_the_wall(part: &Part, factor: Factor) -> Result<(), Error> {
    let oracle = Policy::Oracle.to_string();
    if part.policies.contains(&oracle) {
        let expected = "policies whose modules take time (clocks)".to_owned();
        return Err(Error::Option { option: "--policy", found: oracle, expected });
    }
    match factor {
        Factor::Times(times) => slow_enough(times),
        Factor::Published => Ok(()),
    }
}

/// A core cannot be faster than it is.
pub(crate) fn slow_enough(times: f64) -> Result<(), Error> {
    if times < 1.0 {
        let (found, expected) = (times.to_string(), "1 or more (clocks)".to_owned());
        return Err(Error::Option { option: "--factor", found, expected });
    }
    Ok(())
}

fn once(option: &'static str, names: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            let found = format!("{name} twice");
            return Err(Error::Option { option, found, expected: "it once".to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(experiments: &[Experiment]) -> Study {
        let first = Some(Scenarios::First(2));
        Study::new(experiments, first, None, &[Stack::A, Stack::B], (Factor::Times(4.0), 1))
            .unwrap()
    }

    #[test]
    fn experiments_that_share_scenarios_share_drives() {
        let units = study(&[Experiment::Normal, Experiment::Latency]).units().unwrap();
        assert_eq!(units.len(), 4);
        let names: Vec<String> = units[0].policies.iter().map(Policy::to_string).collect();
        assert_eq!(names, ["base", "all", "fast", "proactive", "stealing"]);
    }

    #[test]
    fn what_counts_each_scenario_once_is_not_repeated_and_the_rest_only_after_all_of_it() {
        let normal = study(&[Experiment::Confirm, Experiment::Normal]);
        assert_eq!(normal.clone().with_repeats(1).unwrap(), normal);
        let error = normal.with_repeats(2).unwrap_err().to_string();
        let expected = "1, or more with --experiment corner, confirm, commute, clocks alone";
        assert!(error.contains(&format!("--repeat: found 2, expected {expected}")), "{error}");
        let units = study(&[Experiment::Clocks]).with_repeats(2).unwrap().units().unwrap();
        let order: Vec<_> = units.iter().map(|unit| (unit.repeat, unit.index)).collect();
        assert_eq!(order, [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0), (1, 1), (1, 1)]);
        let keys: HashSet<Key> = units.iter().flat_map(Unit::keys).map(|it| it.1).collect();
        assert_eq!(keys.len(), 2 * 2 * 2 * 3 * 2, "scenarios, stacks, policies, clocks, repeats");
    }

    #[test]
    fn studies_that_cannot_be_are_refused() {
        let twice = [Experiment::Corner, Experiment::Corner];
        let error =
            Study::new(&twice, None, None, &[Stack::A], (Factor::Times(4.0), 1)).unwrap_err();
        assert!(error.to_string().contains("--experiment: found corner twice"), "{error}");
        let modules = study(&[Experiment::Modules]).with_middleware(Middleware::Serialised);
        let error = modules.unwrap_err().to_string();
        let expected = "--middleware: found serialised, expected pointer with --experiment modules";
        assert!(error.contains(expected), "{error}");
        assert!(study(&[Experiment::Corner]).with_middleware(Middleware::Serialised).is_ok());
        let mut foreign = study(&[Experiment::Commute]);
        foreign.parts[0].scenarios.push(80);
        assert!(foreign.units().unwrap_err().contains("commute scenario 80"));
        foreign.parts[0].scenarios.pop();
        foreign.parts[0].policies.push("luck".to_owned());
        assert!(foreign.units().unwrap_err().contains("policy luck"));
    }
}
