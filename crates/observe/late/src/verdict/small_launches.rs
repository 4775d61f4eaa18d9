//! Many small launches: the same launches and copies are made one by one, again and again.

use super::case::Case;
use super::{Evidence, Lost, Remedy, Verdict};

pub(super) fn judge(case: &Case<'_>) -> Option<Verdict> {
    let sequence = case.survey.sequences.first()?;
    if !sequence.is_worth_a_graph() {
        return None;
    }
    Some(Verdict {
        evidence: Evidence::RepeatedLaunches {
            sequence: 0,
            length: sequence.length,
            repeats: sequence.repeats,
            launching_ns: sequence.launching_ns,
            estimated_saving_ns: sequence.estimated_saving_ns,
            locks: sequence.locks,
        },
        lock: None,
        asked: sequence.calls.iter().any(|(kind, _)| case.asks(Some(*kind))),
        severity_ns: sequence.estimated_saving_ns,
        worst: None,
        lost: Lost::default(),
        remedies: vec![Remedy::CudaGraph],
    })
}
