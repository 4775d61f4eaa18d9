//! Conditions under which a report ends with 1, for a pipeline.

use std::path::Path;

use late::result::Survey;
use late::{Condition, Judgement};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use record::cuda::FUNCTIONS;
use serde_json::Value;
use terminal::output;

/// Reads an option `--fail-if`.
///
/// # Errors
/// Says what was expected.
pub(super) fn parse(text: &str) -> Result<Condition, String> {
    let is_function = |name: &str| FUNCTIONS.iter().any(|known| known.base == name);
    let ns = |time: &str| {
        let ns = terminal::time(time)?.as_nanos();
        u64::try_from(ns).map_err(|_| format!("found {time}, expected less than 584 years"))
    };
    Condition::parse(text, is_function, ns)
}

/// Judges all conditions.
///
/// # Errors
/// If there are too few calls for one of them.
pub(super) fn judge(conditions: &[Condition], survey: &Survey) -> anyhow::Result<Vec<Judgement>> {
    let all = conditions.iter().map(|condition| condition.judge(survey));
    all.map(|judged| judged.map_err(|error| anyhow::anyhow!("--fail-if {error}"))).collect()
}

/// A line for each condition.
pub(super) fn lines(judged: &[Judgement]) -> String {
    judged.iter().map(line).collect()
}

fn line(judged: &Judgement) -> String {
    let word = if judged.holds { "FAIL" } else { "ok" };
    format!("{word:<4}  {}\n", words(judged))
}

fn words(judged: &Judgement) -> String {
    let Judgement { condition, found, is_duration, calls, .. } = judged;
    match is_duration {
        true => format!(
            "{condition}: {} in {}",
            report::number::time(*found),
            report::number::counted(*calls, "call", "calls")
        ),
        false => format!("{condition}: {found}"),
    }
}

/// The conditions as JSON: durations in nanoseconds.
pub(super) fn json(judged: &[Judgement]) -> Value {
    let value = |judged: &Judgement| {
        let key = if judged.is_duration { "found_ns" } else { "found" };
        serde_json::json!({
            "condition": judged.condition,
            key: judged.found,
            "calls": judged.calls,
            "fails": judged.holds,
        })
    };
    judged.iter().map(value).collect()
}

/// Writes the conditions as tests of a file in JUnit's format.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_junit(
    file: Option<&Path>,
    trace: &Path,
    judged: &[Judgement],
) -> anyhow::Result<()> {
    output::write("--junit", file, || {
        let mut suite = TestSuite::new(trace.display().to_string());
        suite.add_test_cases(judged.iter().map(|judged| {
            let status = match judged.holds {
                false => TestCaseStatus::success(),
                true => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(words(judged));
                    status
                }
            };
            TestCase::new(judged.condition.clone(), status)
        }));
        let mut report = Report::new("keeptime report");
        report.add_test_suite(suite);
        Ok(report.to_string()?)
    })
}
