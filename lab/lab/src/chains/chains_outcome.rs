//! Result of each chain from the executors' reports.
//!
//! The first part of a chain knows what was left out, the last one what completed, and any part
//! may have lost a job to a failed request. What was released and neither left out nor completed
//! is unfinished. Such a job has missed its deadline: it had more than two periods of time.

use report::chains::{ChainResult, Slowest};
use system::System;

use super::chains_plan::Plan;
use super::executor::Report;

/// The results of all chains, in the order of the file, and what failed, as marks.
pub(super) fn results(
    system: &System,
    plan: &Plan,
    reports: &[Report],
) -> (Vec<ChainResult>, Vec<String>) {
    let mut marks = Vec::new();
    let mut results = Vec::new();
    for (index, chain) in system.chains.iter().enumerate() {
        let parts = || reports.iter().flat_map(|r| &r.parts).filter(|part| part.chain == index);
        let mut responses: Vec<(u64, u64)> =
            parts().flat_map(|part| &part.responses).copied().collect();
        responses.sort_unstable();
        let late = responses.iter().filter(|(_, ns)| *ns > chain.deadline_ns).count() as u64;
        let jobs = responses.len() as u64;
        let skipped: u64 = parts().map(|part| part.skipped).sum();
        let unfinished = plan.releases[index].saturating_sub(jobs + skipped);
        let lost = if chain.best_effort { 0 } else { unfinished };
        let failed: u64 = parts().map(|part| part.failed).sum();
        if failed > 0 {
            let error = parts().find_map(|part| part.error.as_deref()).unwrap_or("unknown");
            let many = if failed == 1 { "job" } else { "jobs" };
            marks.push(format!("{}: {failed} {many} lost to failed requests: {error}", chain.id));
        }
        let slowest = parts().filter_map(|part| part.slowest).max_by_key(|(_, ns, _)| *ns);
        results.push(ChainResult {
            id: chain.id.clone(),
            jobs,
            skipped,
            unfinished,
            misses: late + lost,
            response_ns: responses.iter().map(|(_, ns)| *ns).collect(),
            slowest: slowest.map(|(job, response_ns, spent)| Slowest {
                job,
                response_ns,
                waiting_ns: response_ns.saturating_sub(spent.total_ns()),
                computing_ns: spent.computing_ns,
                sending_ns: spent.sending_ns,
                queued_ns: spent.queued_ns,
                working_ns: spent.working_ns,
                answering_ns: spent.answering_ns,
            }),
        });
    }
    (results, marks)
}

#[cfg(test)]
mod tests {
    use super::super::executor::PartReport;
    use super::*;

    fn outcome(best_effort: bool, parts: Vec<PartReport>) -> (ChainResult, Vec<String>) {
        let text = format!(
            "executors: [{{id: e, core: 0, priority: 1}}]\nchains: [{{id: c, priority: 1, period: \
             10us, best_effort: {best_effort}, callbacks: [{{id: a, executor: e, cpu: 1us}}]}}]"
        );
        let system = System::parse(&text, "test.yaml").unwrap();
        let releases = vec![5];
        let plan = Plan { executors: Vec::new(), releases, duration_ns: 50_000, grace_ns: 0 };
        let reports =
            parts.into_iter().map(|part| Report { parts: vec![part], ..Report::default() });
        let reports: Vec<Report> = reports.collect();
        let (mut results, marks) = results(&system, &plan, &reports);
        (results.remove(0), marks)
    }

    #[test]
    fn reports_of_several_parts_become_one_result_in_order_of_release() {
        let first = PartReport { skipped: 1, ..PartReport::default() };
        let responses = vec![(2, 9_000), (0, 11_000), (3, 10_000)];
        let last = PartReport { responses, ..PartReport::default() };
        let (result, marks) = outcome(true, vec![first, last]);
        assert_eq!(result.response_ns, [11_000, 9_000, 10_000]);
        assert_eq!((result.jobs, result.skipped, result.unfinished, result.misses), (3, 1, 1, 1));
        assert!(marks.is_empty());
    }

    #[test]
    fn unfinished_job_of_a_real_time_chain_is_a_miss() {
        let responses = vec![(0, 1_000), (1, 10_001)];
        let part = PartReport { responses, ..PartReport::default() };
        let (result, _) = outcome(false, vec![part]);
        assert_eq!((result.unfinished, result.misses), (3, 4));
    }

    #[test]
    fn failures_are_counted_and_quoted() {
        let error = Some("the accelerator server is gone".to_owned());
        let part = PartReport { failed: 2, error, ..PartReport::default() };
        let (_, marks) = outcome(false, vec![part]);
        assert_eq!(marks, ["c: 2 jobs lost to failed requests: the accelerator server is gone"]);
    }
}
