//! The bounds for machines: times in nanoseconds.

use super::Bounds;
use super::words::{status_name, variant_name};
use analysis::{PartBound, Refusal, Term, TermKind};
use serde_json::{Map, Value, json};

/// `{"schema", "version", "schedulable", "chains": {ID: {"status", "R_star_ns", "parts": [..]}}}`,
/// chains in the order of the file; further keys follow.
pub fn json(bounds: &Bounds) -> Value {
    let chains: Map<String, Value> = (0..bounds.system.chains.len())
        .map(|chain| (bounds.names.chains[chain].clone(), of_chain(bounds, chain)))
        .collect();
    json!({
        "schema": "keeptime.analysis",
        "version": 1,
        "partial": crate::number::partial(&bounds.marks),
        "schedulable": bounds.analysis.schedulable,
        "chains": chains,
        "file": bounds.file,
        "variant": variant_name(bounds.analysis.variant),
        "warning": bounds.warning(),
        "marks": bounds.marks,
    })
}

/// The same of a result without bounds: its `partial`, its `file` and its `marks`.
pub fn unbounded_json(file: &str, marks: &[String]) -> Value {
    json!({
        "schema": "keeptime.analysis",
        "version": 1,
        "partial": crate::number::partial(marks),
        "file": file,
        "marks": marks,
    })
}

fn of_chain(bounds: &Bounds, chain: usize) -> Value {
    let (model, bound, _) = bounds.chain(chain);
    let parts: Vec<Value> = bound.parts.iter().map(|part| of_part(bounds, part)).collect();
    let relies_on: Vec<&str> =
        bound.relies_on.iter().map(|&other| bounds.names.chains[other].as_str()).collect();
    json!({
        "status": status_name(bound.status),
        "R_star_ns": bound.response_ns,
        "parts": parts,
        "priority": model.priority,
        "period_ns": model.period_ns,
        "deadline_ns": model.deadline_ns,
        "best_effort": model.best_effort,
        "slack_ns": bounds.slack_ns(chain),
        "relies_on": relies_on,
        "reason": bound.refusal.as_ref().map(|refusal| reason(bounds, chain, refusal)),
    })
}

fn of_part(bounds: &Bounds, part: &PartBound) -> Value {
    let terms: Vec<Value> = part.terms.iter().map(|term| of_term(bounds, term)).collect();
    json!({
        "executor": bounds.names.executors[part.executor],
        "B_ns": part.blocking_ns,
        "E_ns": part.cpu_ns,
        "H_segments_l2_ns": part.segment_handling_ns,
        "H_l2_ns": part.handling_l2_ns,
        "H_l3_ns": part.handling_l3_ns,
        "H_star_ns": part.handling_ns,
        "R_ns": part.response_ns,
        "terms": terms,
    })
}

fn of_term(bounds: &Bounds, term: &Term) -> Value {
    let kind = match term.kind {
        TermKind::Cpu => "cpu",
        TermKind::Accelerator => "accelerator",
        TermKind::Epsilon => "epsilon",
        TermKind::Blocking => "blocking",
        TermKind::BucketBlocking => "bucket_blocking",
        TermKind::AcceleratorInterference => "accelerator_interference",
        TermKind::ExecutorInterference => "executor_interference",
        TermKind::CoreInterference => "core_interference",
    };
    json!({ "kind": kind, "chain": bounds.names.chains[term.chain], "time_ns": term.ns })
}

fn reason(bounds: &Bounds, chain: usize, refusal: &Refusal) -> Value {
    let words = bounds.refusal_words(chain, refusal);
    match refusal {
        Refusal::Late { part, missing_ns, largest } => json!({
            "kind": "late", "words": words, "part": part, "missing_ns": missing_ns,
            "largest": largest.as_ref().map(|term| of_term(bounds, term)),
        }),
        Refusal::Overload { accelerator, chain } => json!({
            "kind": "overload", "words": words,
            "accelerator": bounds.names.accelerators[*accelerator],
            "chain": bounds.names.chains[*chain],
        }),
        Refusal::Relies { chain } => json!({
            "kind": "relies", "words": words, "chain": bounds.names.chains[*chain],
        }),
        Refusal::Concurrent { accelerator } => json!({
            "kind": "concurrent", "words": words,
            "accelerator": bounds.names.accelerators[*accelerator],
        }),
    }
}
