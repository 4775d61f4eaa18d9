//! Conclusion in sentences: what the priority policy won, and whether it won anything.
//!
//! It compares the longest response of the most critical chain under [`PRIORITY`] with every
//! other policy, then the missed deadlines of all chains whose deadlines count, then the bounds.
//! A difference below five percent is none.

use super::{ChainInfo, ChainsRun, PRIORITY, PolicyRun, critical_misses, over_bound, unit};
use crate::number::{count, listed};
use stats::Summary;

/// Ratios inside this distance of 1 are no difference.
const SAME: f64 = 0.05;

/// The sentences of the conclusion, the most important first.
pub(super) fn conclusion(run: &ChainsRun) -> Vec<String> {
    let Some(chain) = run.most_critical() else {
        return vec!["There is no chain, so nothing was compared.".to_owned()];
    };
    let mut parts = vec![comparison(run, chain)];
    parts.extend(misses(run));
    parts.extend(bounds(run));
    parts.extend(verdict(run));
    if !run.marks.is_empty() || run.policies.iter().any(|policy| !policy.marks.is_empty()) {
        parts.push("The marks qualify these results.".to_owned());
    }
    parts
}

fn max_ns(policy: &PolicyRun, chain: &ChainInfo) -> Option<u64> {
    policy.chain(&chain.id)?.summary().map(|summary| summary.max)
}

fn comparison(run: &ChainsRun, chain: &ChainInfo) -> String {
    let (id, unit) = (&chain.id, unit(run));
    let Some(priority) = run.policy(PRIORITY) else {
        return format!("The policy {PRIORITY} was not run, so nothing was compared.");
    };
    let Some(own_ns) = max_ns(priority, chain) else {
        return format!(
            "{id}, the most critical chain, completed no job under {PRIORITY}, so nothing was won."
        );
    };
    let others: Vec<&PolicyRun> = run.policies.iter().filter(|p| p.policy != PRIORITY).collect();
    let own = unit.words(own_ns);
    if others.is_empty() {
        return format!(
            "Under {PRIORITY}, {id} (the most critical chain) took at most {own}; no other policy was run to compare with."
        );
    }
    let mut won = false;
    let mut words = Vec::new();
    for policy in others {
        let name = &policy.policy;
        let Some(other_ns) = max_ns(policy, chain) else {
            words.push(format!("under {name} it completed no job"));
            continue;
        };
        let ratio = other_ns as f64 / own_ns as f64;
        won |= ratio >= 1.0 + SAME;
        words.push(format!("under {name} {} ({})", unit.words(other_ns), times(ratio)));
    }
    let start = if won { "" } else { "Nothing was won for the most critical chain: " };
    format!(
        "{start}{} {PRIORITY}, {id}{} took at most {own}; {}.",
        if won { "Under" } else { "under" },
        if won { " (the most critical chain)" } else { "" },
        words.join(", ")
    )
}

/// "3.7 times as long"
fn times(ratio: f64) -> String {
    match ratio {
        r if !r.is_finite() => "longer".to_owned(),
        r if (r - 1.0).abs() < SAME => "about the same".to_owned(),
        r if r < 1.0 => format!("shorter, {r:.2} times as long"),
        r if r < 2.0 => format!("{r:.2} times as long"),
        r => format!("{r:.1} times as long"),
    }
}

/// Missed deadlines of all critical chains, policy by policy.
fn misses(run: &ChainsRun) -> Option<String> {
    if run.policies.is_empty() || run.chains.iter().all(|chain| chain.best_effort) {
        return None;
    }
    let mut words = Vec::new();
    for policy in &run.policies {
        let (missed, jobs) = critical_misses(run, policy);
        let missed = if missed == 0 { "none".to_owned() } else { count(missed) };
        words.push(format!("{missed} under {} ({} jobs)", policy.policy, count(jobs)));
    }
    Some(format!("Deadlines missed by critical chains: {}.", words.join(", ")))
}

/// The policies that were judged, and what failed under them.
fn verdict(run: &ChainsRun) -> Option<String> {
    let was_run = |name: &&String| run.policy(name).is_some();
    let judged: Vec<&str> = run.judged.iter().filter(was_run).map(String::as_str).collect();
    if judged.is_empty() {
        return None;
    }
    let found = match run.failures() {
        none if none.is_empty() => "no critical chain was late".to_owned(),
        failures => {
            // The one policy need not be named twice.
            let under = format!(" under {}", judged[0]);
            let short = |failure: &String| match judged.len() {
                1 => failure.replace(&under, ""),
                _ => failure.clone(),
            };
            failures.iter().map(short).collect::<Vec<String>>().join("; ")
        }
    };
    Some(format!("Judged under {}: {found}.", listed(&judged)))
}

/// Compares the observed response times with the guaranteed ones.
fn bounds(run: &ChainsRun) -> Option<String> {
    let priority = run.policy(PRIORITY)?;
    let observed: Vec<(&ChainInfo, Summary<u64>)> = run
        .chains
        .iter()
        .filter(|chain| chain.bound_ns.is_some())
        .filter_map(|chain| Some((chain, priority.chain(&chain.id)?.summary()?)))
        .collect();
    let broken: Vec<String> = observed
        .iter()
        .filter(|(chain, summary)| over_bound(PRIORITY, chain, Some(*summary)))
        .filter_map(|(chain, _)| {
            let (bound_ns, result) = (chain.bound_ns?, priority.chain(&chain.id)?);
            let over = result.response_ns.iter().filter(|&&response| response > bound_ns).count();
            let (over, jobs) = (count(over as u64), count(result.response_ns.len() as u64));
            Some(format!("{} in {over} of {jobs} jobs", chain.id))
        })
        .collect();
    match (observed.len(), broken.as_slice()) {
        (0, _) => None,
        (1, []) => Some("The one chain with a bound stayed within it.".to_owned()),
        (count, []) => Some(format!("Each of the {count} chains with a bound stayed within it.")),
        (_, broken) => {
            let longer = format!("Longer than the bound: {}", broken.join(", "));
            // A bound is of the system as it was declared, on a machine that does nothing else.
            let cause = match priority.marks.is_empty() {
                true => "; what the file declares is too short for this machine",
                false => "; the marks of that run name what the bounds leave out",
            };
            Some(format!("{longer}{cause}."))
        }
    }
}
