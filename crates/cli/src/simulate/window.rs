//! Piece of a schedule that a picture shows.

use analysis::System;
use analysis::simulate::{Job, Trace};

/// Most periods of the chain with the longest one that a picture shows unless it is told to.
const PERIODS: u64 = 2;

/// Window of the picture: around the worst job of the chain in focus, or else from the beginning.
pub(super) fn window(
    system: &System,
    trace: &Trace,
    focus: Option<usize>,
    asked_ns: Option<u64>,
) -> (u64, u64) {
    let end_ns = trace.jobs.iter().map(|job| job.end_ns).filter(|ns| *ns != u64::MAX).max();
    let end_ns = end_ns.unwrap_or(0).max(1);
    let (from_ns, length_ns) = match focus.and_then(|chain| worst_job(trace, chain)) {
        Some(job) => {
            let margin_ns = (job.end_ns - job.nominal_ns) / 5 + 1;
            let from_ns = job.nominal_ns.saturating_sub(margin_ns);
            (from_ns, job.end_ns + margin_ns - from_ns)
        }
        None => {
            let longest_ns = system.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(1);
            (0, end_ns.min(PERIODS * longest_ns))
        }
    };
    (from_ns, from_ns.saturating_add(asked_ns.unwrap_or(length_ns).max(1)))
}

fn worst_job(trace: &Trace, chain: usize) -> Option<&Job> {
    let outcome = &trace.outcome.chains[chain];
    let worst = |job: &&Job| job.chain == chain && job.job == outcome.worst_job;
    trace.jobs.iter().find(worst).filter(|job| job.end_ns != u64::MAX)
}
