//! Scenario from options, and its description in words.

use std::time::Duration;

use analysis::System as Model;
use analysis::simulate::{
    Behaviour, Execution, Jitter, Kappa, Release, Scenario, Split, Tie, hyperperiod_ns,
};
use system::{System, format_time};

use super::{Args, per_chain};

/// Jobs that are simulated unless options say how many.
const DEFAULT_JOBS: u64 = 50_000;
/// Jobs that are simulated at most: all that happens to them is kept.
const MAX_JOBS: u64 = 1_000_000;

pub(super) const JITTERS: [(&str, Jitter); 4] = [
    ("none", Jitter::None),
    ("random", Jitter::Random),
    ("alternate", Jitter::Alternate),
    ("first", Jitter::First),
];
pub(super) const EXECUTIONS: [(&str, Execution); 3] =
    [("worst", Execution::Worst), ("least", Execution::Least), ("random", Execution::Random)];
pub(super) const SPLITS: [(&str, Split); 4] = [
    ("first", Split::First),
    ("last", Split::Last),
    ("even", Split::Even),
    ("random", Split::Random),
];
pub(super) const KAPPAS: [(&str, Kappa); 2] =
    [("worst", Kappa::Worst), ("physical", Kappa::Physical)];
pub(super) const TIES: [(&str, Tie); 4] = [
    ("completion", Tie::CompletionFirst),
    ("release", Tie::ReleaseFirst),
    ("decision", Tie::DecisionFirst),
    ("random", Tie::Random),
];

/// Behaviour of a chain unless options say otherwise.
pub(super) const DEFAULT: Behaviour = Behaviour {
    offset_ns: 0,
    execution: Execution::Worst,
    split: Split::First,
    release: Release::Periodic,
    jitter: Jitter::None,
};

pub(super) fn parse_kappa(text: &str) -> Result<Kappa, String> {
    word(text, &KAPPAS).ok_or_else(|| format!("expected {}", expected(&KAPPAS)))
}

pub(super) fn parse_tie(text: &str) -> Result<Tie, String> {
    word(text, &TIES).ok_or_else(|| format!("expected {}", expected(&TIES)))
}

fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

fn expected<T>(words: &[(&str, T)]) -> String {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    words.join(" or ")
}

fn time_ns(text: &str) -> Option<u64> {
    let ns = terminal::time(text).ok()?.as_nanos();
    u64::try_from(ns).ok().filter(|ns| *ns <= analysis::MAX_TIME_NS)
}

fn release(text: &str) -> Option<Release> {
    match text.split_once(':') {
        None => (text == "periodic").then_some(Release::Periodic),
        Some(("sporadic", extra)) => Some(Release::Sporadic { extra_ns: time_ns(extra)? }),
        Some(_) => None,
    }
}

/// The scenario that the options describe.
pub(super) fn scenario(args: &Args, system: &System, model: &Model) -> anyhow::Result<Scenario> {
    let chains = behaviours(args, system, model)?;
    let offset_ns = chains.iter().map(|chain| chain.offset_ns).max().unwrap_or(0);
    let horizon_ns = horizon_ns(args, model, offset_ns)?;
    Ok(Scenario {
        chains,
        horizon_ns,
        kappa: args.kappa.unwrap_or_default(),
        tie: args.tie.unwrap_or_default(),
        seed: args.seed,
    })
}

fn behaviours(args: &Args, system: &System, model: &Model) -> anyhow::Result<Vec<Behaviour>> {
    let words = |option: &str, words: String| format!("{words}, or CHAIN={option},...");
    let execution = per_chain::parse(
        "--execution",
        &args.execution,
        system,
        &DEFAULT.execution,
        |text| word(text, &EXECUTIONS),
        &words("WORD", expected(&EXECUTIONS)),
    )?;
    let split = per_chain::parse(
        "--split",
        &args.split,
        system,
        &DEFAULT.split,
        |text| word(text, &SPLITS),
        &words("WORD", expected(&SPLITS)),
    )?;
    let jitter = per_chain::parse(
        "--jitter",
        &args.jitter,
        system,
        &DEFAULT.jitter,
        |text| word(text, &JITTERS),
        &words("WORD", expected(&JITTERS)),
    )?;
    let release = per_chain::parse(
        "--release",
        &args.release,
        system,
        &DEFAULT.release,
        release,
        &words("WORD", "periodic or sporadic:TIME".to_owned()),
    )?;
    let offsets = offsets_ns(args, system, model)?;
    let behaviour = |chain: usize| Behaviour {
        offset_ns: offsets[chain],
        execution: execution[chain],
        split: split[chain],
        release: release[chain],
        jitter: jitter[chain],
    };
    Ok((0..model.chains.len()).map(behaviour).collect())
}

fn offsets_ns(args: &Args, system: &System, model: &Model) -> anyhow::Result<Vec<u64>> {
    match args.offsets.as_str() {
        "synchronous" => Ok(vec![0; model.chains.len()]),
        "random" => {
            let mut random = fastrand::Rng::with_seed(args.seed);
            Ok(model.chains.iter().map(|chain| random.u64(..chain.period_ns)).collect())
        }
        list => per_chain::parse(
            "--offsets",
            list,
            system,
            &0,
            time_ns,
            "synchronous or random, or CHAIN=TIME,... as in brake=3ms",
        ),
    }
}

/// Time until which chains are released.
fn horizon_ns(args: &Args, model: &Model, offset_ns: u64) -> anyhow::Result<u64> {
    let longest_ns = model.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(1);
    let (option, asked_ns) = match (args.jobs, args.duration) {
        (Some(jobs), _) => ("--jobs", jobs.checked_mul(longest_ns)),
        (_, Some(duration)) => ("--duration", u64::try_from(duration.as_nanos()).ok()),
        (None, None) => return Ok(default_horizon_ns(model, longest_ns) + offset_ns),
    };
    let found = asked_ns.map_or(u64::MAX, |ns| jobs(model, ns));
    anyhow::ensure!(
        found <= MAX_JOBS,
        "{option}: found {found} jobs in all, expected at most {MAX_JOBS}"
    );
    let begin_ns = if args.jobs.is_some() { offset_ns } else { 0 };
    Ok(asked_ns.unwrap_or(u64::MAX) + begin_ns)
}

/// A hyperperiod, or as many of the longest periods as have about [`DEFAULT_JOBS`] jobs.
fn default_horizon_ns(model: &Model, longest_ns: u64) -> u64 {
    match hyperperiod_ns(model) {
        Some(all_ns) if jobs(model, all_ns) <= DEFAULT_JOBS => all_ns,
        _ => longest_ns.saturating_mul((DEFAULT_JOBS / jobs(model, longest_ns)).max(1)),
    }
}

/// Releases of all chains in a while.
fn jobs(model: &Model, ns: u64) -> u64 {
    model.chains.iter().map(|chain| ns.div_ceil(chain.period_ns)).fold(0, u64::saturating_add)
}

/// Describes the simulation: `514800 ms (one hyperperiod), offsets synchronous, execution worst`.
pub(super) fn in_words(args: &Args, model: &Model, scenario: &Scenario) -> String {
    let span = match hyperperiod_ns(model) {
        Some(all_ns) if all_ns == scenario.horizon_ns => " (one hyperperiod)",
        _ => "",
    };
    let listed = |option: &str, text: &str| {
        if text.contains('=') { format!("{option} as given") } else { format!("{option} {text}") }
    };
    let time = humantime::format_duration(Duration::from_nanos(scenario.horizon_ns)).to_string();
    let time = if time.len() > 16 { format_time(scenario.horizon_ns) } else { time };
    format!(
        "{time}{span} simulated, {}, {}, {}",
        listed("offsets", &args.offsets),
        listed("execution", &args.execution),
        listed("jitter", &args.jitter)
    )
}
