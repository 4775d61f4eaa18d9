//! Conclusion in words: the first key path under [`KEEPTIME`] beside the other methods, what was
//! dropped, and the period of cyclic nodes. A difference below five percent is none.

use super::{CycleInfo, GraphRun, KEEPTIME, MethodRun, PathInfo, words};

/// Ratios inside this distance of 1 are no difference.
const SAME: f64 = 0.05;

/// The sentences of the conclusion, the most important first.
pub(super) fn sentences(run: &GraphRun) -> Vec<String> {
    let mut sentences = Vec::new();
    match run.paths.first() {
        Some(path) => {
            sentences.push(comparison(run, path));
            sentences.push(drops(run, path));
        }
        None => sentences.push("The file names no key path, so nothing was compared.".into()),
    }
    sentences.extend(run.methods.iter().filter_map(|method| bounds(run, method)));
    sentences.extend(periods(run));
    if !run.marks.is_empty() || run.methods.iter().any(|method| !method.marks.is_empty()) {
        sentences.push("The marks qualify these results.".into());
    }
    sentences
}

fn max_ns(method: &MethodRun, path: &PathInfo) -> Option<u64> {
    method.path(&path.id)?.summary().map(|summary| summary.max)
}

fn comparison(run: &GraphRun, path: &PathInfo) -> String {
    let id = &path.id;
    let Some(own) = run.method(KEEPTIME) else {
        return format!("The method {KEEPTIME} was not run, so nothing was compared.");
    };
    let Some(own_ns) = max_ns(own, path) else {
        return format!("No instance of path {id} reached {} under {KEEPTIME}.", path.sink);
    };
    let others: Vec<&MethodRun> = run.methods.iter().filter(|m| m.method != KEEPTIME).collect();
    let mut won = !others.is_empty();
    let against = others.into_iter().map(|method| {
        let name = &method.method;
        let Some(other_ns) = max_ns(method, path) else {
            return format!("under {name} no instance reached {}", path.sink);
        };
        let ratio = other_ns as f64 / own_ns.max(1) as f64;
        won &= ratio >= 1.0 + SAME;
        format!("under {name} {} ({})", words(other_ns), times(ratio))
    });
    let against: Vec<String> = against.collect();
    let start = if won || against.is_empty() { "" } else { "Not won against every method: " };
    let own = words(own_ns);
    let list = if against.is_empty() { String::new() } else { format!("; {}", against.join(", ")) };
    format!("{start}path {id} took at most {own} under {KEEPTIME}{list}.")
}

/// "3.7 times as long"
fn times(ratio: f64) -> String {
    match ratio {
        r if (r - 1.0).abs() < SAME => "about the same".to_owned(),
        r if r < 2.0 => format!("{r:.2} times as long"),
        r => format!("{r:.1} times as long"),
    }
}

fn drops(run: &GraphRun, path: &PathInfo) -> String {
    let drops_under = |method: &MethodRun| {
        let result = method.path(&path.id);
        let (all, most) = result.map_or((0, 0), |result| result.drops());
        let instances = result.map_or(0, |result| result.latency_ns.len());
        let most = if all > 0 { format!(", at most {most} in one") } else { String::new() };
        let all = if all == 0 { "none".into() } else { all.to_string() };
        format!("{all} under {} ({instances} instances{most})", method.method)
    };
    let all: Vec<String> = run.methods.iter().map(drops_under).collect();
    format!("Messages missed on it: {}.", all.join(", "))
}

/// Compares the observed latencies with their bounds.
fn bounds(run: &GraphRun, method: &MethodRun) -> Option<String> {
    let bounded = |path: &&PathInfo| {
        let seen = max_ns(method, path).is_some();
        seen && run.bound_ns(path, &method.method).is_some()
    };
    let paths: Vec<&PathInfo> = run.paths.iter().filter(bounded).collect();
    let over = paths.iter().filter_map(|path| {
        let instances = method.path(&path.id)?.latency_ns.len();
        let over = run.over(path, method);
        (over > 0).then(|| format!("{} in {over} of {instances} instances", path.id))
    });
    let (over, under): (Vec<String>, &str) = (over.collect(), &method.method);
    match (paths.len(), over.as_slice()) {
        (0, _) => None,
        (1, []) => Some(format!("The one path with a bound stayed within it under {under}.")),
        (count, []) => {
            Some(format!("Each of the {count} paths with a bound stayed within it under {under}."))
        }
        (_, over) => {
            // A bound is of the system as it was declared, on a machine that does nothing else.
            let cause = match method.marks.is_empty() {
                true => "what the file declares is too short for this machine",
                false => "the marks of that run name what the bounds leave out",
            };
            Some(format!("Longer than the bound under {under}: {}; {cause}.", over.join(", ")))
        }
    }
}

fn periods(run: &GraphRun) -> Vec<String> {
    let of_cycle = |cycle: &CycleInfo| {
        let deviation_under = |method: &MethodRun| {
            let share = method.cycle(&cycle.id)?.deviation(cycle.period_ns)?;
            Some(format!("{:.1} % under {}", 100.0 * share, method.method))
        };
        let all: Vec<String> = run.methods.iter().filter_map(deviation_under).collect();
        let (id, nominal) = (&cycle.id, words(cycle.period_ns));
        (!all.is_empty())
            .then(|| format!("Farthest that {id} came from its {nominal}: {}.", all.join(", ")))
    };
    run.cycles.iter().filter_map(of_cycle).collect()
}
