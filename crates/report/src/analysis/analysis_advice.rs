//! Advice on the first change to make, in sentences.
//!
//! A chain without a guarantee often has none because another one has none. So the advice follows
//! [`Refusal::Relies`] from the most critical chain that is not ok to the chain where the trouble
//! begins, names the addends of its bound that others cause and by how much they must shrink, and
//! only then says who else is late.

use super::{Addend, Bounds};
use crate::number::{listed, percent_down, time};
use analysis::{Refusal, Status};

/// Sentences on the guarantees, and on the first change to make if they are not enough.
pub fn advice(bounds: &Bounds) -> Vec<String> {
    let counting = |chain: &usize| !bounds.system.chains[*chain].best_effort;
    let by_priority = bounds.by_priority();
    let of_all = by_priority.iter().filter(|chain| counting(chain)).count();
    let open: Vec<usize> = by_priority
        .iter()
        .copied()
        .filter(|chain| counting(chain) && !bounds.is_ok(*chain))
        .collect();
    let mut sentences = vec![verdict(bounds, of_all, open.len())];
    if bounds.warning().is_some() {
        return sentences;
    }
    let Some(&first) = open.first() else {
        sentences.extend(least_slack(bounds));
        return sentences;
    };
    let root = root(bounds, first);
    sentences.extend(change(bounds, root));
    sentences.extend(others(bounds, root, &open));
    sentences
}

fn verdict(bounds: &Bounds, of_all: usize, open: usize) -> String {
    let chains = |count: usize| if count == 1 { "chain" } else { "chains" };
    let word = if bounds.warning().is_some() { "accepted" } else { "guaranteed" };
    match (of_all, open) {
        (0, _) => "No chain's deadline counts: all of them are best effort.".to_owned(),
        (1, 0) => format!("The one chain whose deadline counts is {word}."),
        (_, 0) => format!("All {of_all} chains whose deadlines count are {word}."),
        _ => format!(
            "{} of {of_all} {} whose deadlines count {} {word}.",
            of_all - open,
            chains(of_all),
            if of_all - open == 1 { "is" } else { "are" }
        ),
    }
}

/// The chain with the least slack, and what it mostly waits for.
fn least_slack(bounds: &Bounds) -> Option<String> {
    let share = |chain: &usize| {
        let slack_ns = u128::from(bounds.slack_ns(*chain).unwrap_or(u64::MAX));
        (slack_ns << 32) / u128::from(bounds.system.chains[*chain].deadline_ns)
    };
    let counting = |chain: &usize| !bounds.system.chains[*chain].best_effort;
    let tightest = bounds.by_priority().into_iter().filter(counting).min_by_key(share)?;
    let (model, _, name) = bounds.chain(tightest);
    let slack_ns = bounds.slack_ns(tightest)?;
    let start = format!(
        "{name} has the least slack: {}, {} of its deadline",
        time(slack_ns),
        percent_down(slack_ns, model.deadline_ns)
    );
    let waits = bounds.addends(tightest).into_iter().find(|addend| addend.culprit.is_some());
    Some(match waits {
        Some(addend) => format!(
            "{start}; the largest thing it waits for is {} ({}).",
            addend.words,
            time(addend.ns)
        ),
        None => format!("{start}; it waits for no other chain."),
    })
}

/// The chain where the trouble of this one begins.
fn root(bounds: &Bounds, chain: usize) -> usize {
    let mut at = chain;
    // No path without a repetition is longer than there are chains.
    for _ in 0..bounds.system.chains.len() {
        match &bounds.analysis.chains[at].refusal {
            Some(Refusal::Relies { chain }) => at = *chain,
            Some(Refusal::Overload { chain, .. }) if *chain != at => at = *chain,
            _ => break,
        }
    }
    at
}

fn change(bounds: &Bounds, chain: usize) -> Vec<String> {
    let name = &bounds.names.chains[chain];
    match &bounds.analysis.chains[chain].refusal {
        Some(Refusal::Late { missing_ns, .. }) => late(bounds, chain, *missing_ns),
        Some(Refusal::Overload { accelerator, .. }) => {
            vec![overload(bounds, chain, *accelerator)]
        }
        Some(Refusal::Concurrent { accelerator }) => vec![format!(
            "Change {name} first: it is in bucket 0 of {}, which runs its requests beside each \
             other (concurrent_lowest), so that nothing in it has a bound. Give it a higher \
             bucket, or take concurrent_lowest away.",
            bounds.names.accelerators[*accelerator]
        )],
        _ => Vec::new(),
    }
}

/// Names the addends of others that must shrink, and by how much.
fn late(bounds: &Bounds, chain: usize, missing_ns: u64) -> Vec<String> {
    let (model, bound, name) = bounds.chain(chain);
    let start = format!(
        "Change {name} first: its bound passes the deadline of {} by at least {}.",
        time(model.deadline_ns),
        time(missing_ns)
    );
    let addends = bounds.addends(chain);
    let own_ns: u64 = addends.iter().filter(|a| a.culprit.is_none()).map(|a| a.ns).sum();
    let foreign: Vec<&Addend> = addends.iter().filter(|a| a.culprit.is_some()).collect();
    let foreign_ns: u64 = foreign.iter().map(|a| a.ns).sum();
    if foreign_ns < missing_ns || foreign.is_empty() {
        let parts = if bound.parts.len() > 1 { " and hops" } else { "" };
        return vec![
            start,
            format!(
                "Even alone it is late: its own work{parts} takes {}. Shorten that, or give it \
                 more time.",
                time(own_ns)
            ),
        ];
    }
    let mut together_ns = 0;
    let mut enough = Vec::new();
    for addend in foreign {
        together_ns += addend.ns;
        enough.push(addend);
        if together_ns >= missing_ns {
            break;
        }
    }
    let mut sentences = vec![start, shrink(&enough, together_ns, missing_ns)];
    sentences.extend(blame(bounds, &addends, enough[0].culprit));
    sentences
}

fn shrink(addends: &[&Addend], together_ns: u64, missing_ns: u64) -> String {
    let share = percent_up(missing_ns, together_ns);
    let by = format!("by {} ({share})", time(missing_ns));
    match addends {
        [one] => format!(
            "The largest thing that can be taken away is {} ({}): it must shrink {by}, at least.",
            one.words,
            time(one.ns)
        ),
        several => {
            let named: Vec<String> =
                several.iter().map(|a| format!("{} ({})", a.words, time(a.ns))).collect();
            format!(
                "No single thing is large enough: {} must shrink {by} together, at least.",
                listed(&named)
            )
        }
    }
}

/// The other chain that causes most of the bound, where the largest addend does not say it: because
/// it is from another chain, or not the only one.
fn blame(bounds: &Bounds, addends: &[Addend], named: Option<usize>) -> Option<String> {
    let mut by_chain: Vec<(usize, u64, usize)> = Vec::new();
    for addend in addends {
        let Some(culprit) = addend.culprit else { continue };
        match by_chain.iter_mut().find(|(chain, ..)| *chain == culprit) {
            Some((_, ns, ways)) => (*ns, *ways) = (*ns + addend.ns, *ways + 1),
            None => by_chain.push((culprit, addend.ns, 1)),
        }
    }
    let (chain, ns, ways) = by_chain.into_iter().max_by_key(|(_, ns, _)| *ns)?;
    let total_ns = addends.iter().map(|addend| addend.ns).sum();
    (ways > 1 || named != Some(chain)).then(|| {
        format!(
            "The largest cause is chain {}: {}, {} of the bound, in all.",
            bounds.names.chains[chain],
            time(ns),
            percent_down(ns, total_ns)
        )
    })
}

/// Names the chains of higher priority that ask for too much of an accelerator, with their shares.
fn overload(bounds: &Bounds, chain: usize, accelerator: usize) -> String {
    let system = &bounds.system;
    let overhead_ns = 2 * u128::from(system.kappa_ns) + u128::from(system.sigma_ns);
    let permille = |other: usize| {
        let model = &system.chains[other];
        let requests = model.segments().filter(|s| s.accelerator == accelerator);
        let work_ns: u128 = requests.map(|s| u128::from(s.exec.max_ns) + overhead_ns).sum();
        work_ns * 1_000 / u128::from(model.period_ns)
    };
    let priority = system.chains[chain].priority;
    let above = |other: &usize| system.chains[*other].priority > priority;
    let mut shares: Vec<(usize, u128)> = (0..system.chains.len())
        .filter(above)
        .map(|other| (other, permille(other)))
        .filter(|(_, share)| *share > 0)
        .collect();
    shares.sort_by_key(|(_, share)| std::cmp::Reverse(*share));
    let sum: u128 = shares.iter().map(|(_, share)| share).sum();
    let named: Vec<String> = shares
        .iter()
        .take(3)
        .map(|(other, share)| format!("{} {} %", bounds.names.chains[*other], share / 10))
        .collect();
    format!(
        "Change what is above {} first: with overheads those chains ask for {} % of {}, which \
         leaves nothing for it. The largest shares: {}.",
        bounds.names.chains[chain],
        sum / 10,
        bounds.names.accelerators[accelerator],
        listed(&named)
    )
}

/// The chains without a guarantee besides the first one to change.
fn others(bounds: &Bounds, changed: usize, open: &[usize]) -> Vec<String> {
    let rest = || open.iter().copied().filter(|chain| *chain != changed);
    let name = |chain: usize| bounds.names.chains[chain].clone();
    let followers: Vec<String> = rest()
        .filter(|chain| bounds.analysis.chains[*chain].status == Status::Dependent)
        .map(name)
        .collect();
    let late: Vec<String> = rest()
        .filter(|chain| bounds.analysis.chains[*chain].status == Status::Miss)
        .filter_map(|chain| {
            let refusal = bounds.analysis.chains[chain].refusal.as_ref()?;
            Some(format!("{} ({})", name(chain), bounds.refusal_words(chain, refusal)))
        })
        .collect();
    let mut sentences = Vec::new();
    if !followers.is_empty() {
        let (have, it) =
            if followers.len() == 1 { ("has", "it relies") } else { ("have", "they rely") };
        sentences.push(format!(
            "{} would be in time, but {have} no guarantee as long as one that {it} on has none.",
            listed(&followers)
        ));
    }
    if !late.is_empty() {
        sentences.push(format!("Then change {}.", listed(&late)));
    }
    sentences
}

/// `84 %`, rounded up.
fn percent_up(part: u64, whole: u64) -> String {
    format!("{} %", (u128::from(part) * 100).div_ceil(u128::from(whole.max(1))))
}
