//! The program under uftrace, which hooks its calls through the table of jumps.
//!
//! uftrace records the entry and the exit of a call; both together are one record here, since one
//! lock or unlock is what is compared. They are counted by its own report.

use std::path::Path;
use std::process::Command;

use super::program::{self, Measure, Plan, output_of};
use super::variant::{Records, Run};

/// Checks that the machine has uftrace.
pub(super) fn find() -> anyhow::Result<()> {
    let mut command = Command::new("uftrace");
    command.arg("--version");
    output_of(command)
        .map(|_| ())
        .map_err(|error| error.context("uftrace is not installed (package uftrace)"))
}

/// Runs the program and counts its calls.
pub(super) fn run(program: &Path, folder: &Path, plan: &Plan) -> anyhow::Result<Run> {
    let data = folder.join("uftrace");
    // Its buffers are taken and given back all the time: some are enough to warm them up.
    let warm_up = plan.batches * plan.rounds / 4;
    let mut command = Command::new("uftrace");
    command.args(["record", "--no-pager", "--force", "-d"]).arg(&data).arg(program);
    command.env_remove("LD_PRELOAD").args(plan.arguments(warm_up));
    let reading = program::read(command, plan)?;
    let mut report = Command::new("uftrace");
    report.args(["report", "--no-pager", "-d"]).arg(&data);
    let calls = calls(&output_of(report)?, plan.measure);
    std::fs::remove_dir_all(&data)?;
    anyhow::ensure!(calls > 0, "uftrace saw no lock being taken");
    let rounds = plan.all_rounds() + plan.measure.threads() * warm_up;
    let expected = rounds * plan.measure.calls();
    let records =
        Records { per_round: calls as f64 / rounds as f64, lost: expected.saturating_sub(calls) };
    Ok(Run { reading, records: Some(records) })
}

/// The calls of the measured functions in a report: the last number before their names.
fn calls(report: &str, measure: Measure) -> u64 {
    let functions: &[&str] = match measure {
        Measure::Mutex | Measure::Two { .. } => &["pthread_mutex_lock", "pthread_mutex_unlock"],
        Measure::NestedReads => &["pthread_rwlock_rdlock", "pthread_rwlock_unlock"],
    };
    let calls_of = |line: &str| -> Option<u64> {
        let mut words = line.split_whitespace().rev();
        let function = words.next()?;
        functions.contains(&function).then(|| words.next()?.parse().ok()).flatten()
    };
    report.lines().filter_map(calls_of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_those_of_the_measured_functions() {
        let report = "\
  Total time   Self time       Calls  Function
  ==========  ==========  ==========  ====================
   23.917 ms   23.917 ms      500000  pthread_mutex_lock
   23.220 ms   23.220 ms      499999  pthread_mutex_unlock
   96.809 us   30.275 us           1  sched_setaffinity
";
        assert_eq!(calls(report, Measure::Mutex), 999_999);
        assert_eq!(calls(report, Measure::NestedReads), 0);
    }
}
