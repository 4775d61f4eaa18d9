//! The result for machines.

use super::{ChainInfo, ChainResult, ChainsRun, PolicyRun};
use serde_json::{Map, Value, json};

/// The result as JSON: `policies`, by policy `chains`, by chain `period_us`, `jobs`, `p50_us`,
/// `p99_us`, `max_us`, `misses` and `bound_us`, with null where there is no number; further keys
/// say what qualifies the numbers.
pub fn json(run: &ChainsRun) -> Value {
    let policies: Map<String, Value> =
        run.policies.iter().map(|policy| (policy.policy.clone(), of_policy(run, policy))).collect();
    json!({
        "system": run.system_name,
        "machine": run.machine,
        "command": run.command,
        "date": run.date,
        "duration_s": run.duration_s,
        "marks": run.marks,
        "policies": policies,
    })
}

fn of_policy(run: &ChainsRun, policy: &PolicyRun) -> Value {
    let chains: Map<String, Value> = run
        .chains
        .iter()
        .filter_map(|chain| Some((chain, policy.chain(&chain.id)?)))
        .map(|(chain, result)| (chain.id.clone(), of_chain(chain, result)))
        .collect();
    let facts: Map<String, Value> =
        policy.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "marks": policy.marks, "facts": facts, "chains": chains })
}

fn of_chain(chain: &ChainInfo, result: &ChainResult) -> Value {
    let summary = result.summary();
    json!({
        "period_us": chain.period_us,
        "deadline_us": chain.deadline_us,
        "priority": chain.priority,
        "best_effort": chain.best_effort,
        "jobs": result.jobs,
        "skipped": result.skipped,
        "unfinished": result.unfinished,
        "p50_us": summary.map(|s| s.p50),
        "p99_us": summary.map(|s| s.p99),
        "max_us": summary.map(|s| s.max),
        "misses": result.misses,
        "bound_us": chain.bound_us,
        "slowest": result.slowest,
    })
}
