//! Scenarios as command lines, so that what a search found can be simulated again.

use analysis::simulate::{Release, Scenario};
use system::System;

use terminal::command_line::quoted;

use super::scenario::{DEFAULT, EXECUTIONS, JITTERS, KAPPAS, SPLITS, TIES};
use super::{Args, per_chain};

/// The command that simulates this scenario and looks at this chain.
pub(super) fn command(args: &Args, system: &System, chain: usize, scenario: &Scenario) -> String {
    let file = args.system.display().to_string();
    let mut words = vec!["keeptime".to_owned(), "simulate".to_owned(), file];
    words.extend(["--chain".to_owned(), system.chains[chain].id.clone()]);
    words.extend(["--duration".to_owned(), time(scenario.horizon_ns)]);
    words.extend(["--seed".to_owned(), scenario.seed.to_string()]);
    // Jitter says nothing of a chain that has none.
    let mut scenario = scenario.clone();
    for (behaviour, chain) in scenario.chains.iter_mut().zip(&system.chains) {
        if chain.jitter_ns == 0 {
            behaviour.jitter = DEFAULT.jitter;
        }
    }
    let scenario = &scenario;
    let unless_default = |default, value| (default != value).then_some(value);
    let options = [
        ("--offsets", column(scenario, system, |b| b.offset_ns, |ns| time(*ns))),
        ("--execution", column(scenario, system, |b| b.execution, |e| word(&EXECUTIONS, e))),
        ("--split", column(scenario, system, |b| b.split, |s| word(&SPLITS, s))),
        ("--release", column(scenario, system, |b| b.release, release)),
        ("--jitter", column(scenario, system, |b| b.jitter, |j| word(&JITTERS, j))),
        ("--kappa", unless_default("worst".to_owned(), word(&KAPPAS, &scenario.kappa))),
        ("--tie", unless_default("completion".to_owned(), word(&TIES, &scenario.tie))),
    ];
    for (option, value) in options {
        words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
    }
    quoted(words.into_iter())
}

/// One property of all chains, where one of them differs from the default.
fn column<T: PartialEq>(
    scenario: &Scenario,
    system: &System,
    pick: impl Fn(&analysis::simulate::Behaviour) -> T,
    write: impl Fn(&T) -> String,
) -> Option<String> {
    let values: Vec<T> = scenario.chains.iter().map(&pick).collect();
    per_chain::write(&values, system, &pick(&DEFAULT), write)
}

fn word<T: PartialEq>(words: &[(&str, T)], value: &T) -> String {
    let found = words.iter().find(|(_, candidate)| candidate == value);
    found.map(|(word, _)| (*word).to_owned()).unwrap_or_default()
}

fn release(release: &Release) -> String {
    match release {
        Release::Periodic => "periodic".to_owned(),
        Release::Sporadic { extra_ns } => format!("sporadic:{}", time(*extra_ns)),
    }
}

/// A time without a space: `391us`.
fn time(ns: u64) -> String {
    system::format_time(ns).replace(' ', "")
}
