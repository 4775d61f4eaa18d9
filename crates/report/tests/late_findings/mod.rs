//! Findings and texts of a trace's report, for its tests.

use ::late::{Options, explain, survey, verdicts};
use report::late::{self, Findings, Focus, Look};
use trace::Trace;

/// Both passes and the verdicts.
pub(crate) fn findings(trace: &Trace) -> Findings<'_> {
    let options = Options::default();
    let survey = survey(trace, &options, &mut |_, _| true).unwrap();
    let explained = explain(trace, &survey, &options).unwrap();
    Findings {
        file: "t.kt".to_owned(),
        metadata: trace.metadata(),
        verdicts: verdicts(&survey, &explained, &options),
        survey,
        explained,
        focus: Focus::default(),
        worst: 5,
        locks: 1000,
        interrupted: None,
    }
}

/// The report on 100 columns.
pub(crate) fn text(findings: &Findings<'_>) -> String {
    late::text(findings, Look { width: 100, color: false })
}
