//! Findings and texts of a trace's report, for its tests.

#![allow(dead_code)] // Each test uses a part.

use ::late::{Options, explain, survey, verdicts};
use report::late::{self, Findings, Focus, Look};
use trace::Trace;

/// Both passes and the verdicts on launches.
pub(crate) fn findings(trace: &Trace) -> Findings<'_> {
    about(trace, Focus::default())
}

/// Both passes and the verdicts on these calls.
pub(crate) fn about(trace: &Trace, focus: Focus) -> Findings<'_> {
    let options = Options::default();
    let survey = survey(trace, &options, &mut |_, _| true).unwrap();
    let explained = explain(trace, &survey, &options).unwrap();
    let verdicts = verdicts(&survey, &explained, &options, |kind| focus.asks(&survey, kind));
    Findings {
        file: "t.kt".to_owned(),
        metadata: trace.metadata(),
        verdicts,
        survey,
        explained,
        focus,
        worst: 5,
        locks: 1000,
        interrupted: None,
    }
}

/// The report on 100 columns.
pub(crate) fn text(findings: &Findings<'_>) -> String {
    late::text(findings, Look { width: 100, color: false })
}
